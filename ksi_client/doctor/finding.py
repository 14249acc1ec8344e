"""What a check has to say."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Finding", "Level"]

Level = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the doctor. *fix* is a command; None where none helps, or nothing is wrong."""

    check: str
    level: Level
    text: str
    fix: str | None = None

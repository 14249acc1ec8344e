"""Moments as clients write them: seconds since 1970, or RFC 3339 text with its zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, overload

import msgspec

from ksi_daemon.errors import InvalidData

__all__ = ["Moment", "moment_of"]

Moment = float | str
# A text without a zone would mean another time wherever it is read.
_Zoned = Annotated[datetime, msgspec.Meta(tz=True)]


@overload
def moment_of(value: Moment, name: str) -> datetime: ...


@overload
def moment_of(value: None, name: str) -> None: ...


@overload
def moment_of(value: Moment | None, name: str) -> datetime | None: ...


def moment_of(value: Moment | None, name: str) -> datetime | None:
    """Return the time in UTC that *value* means; raise InvalidData, which names the field *name*.

    None is no time, and stays None.
    """
    if value is None:
        return None
    try:
        moment: datetime = msgspec.convert(value, _Zoned, strict=False)
        return moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError, OSError) as exc:
        raise InvalidData(
            f"{value!r} is no time",
            hint="seconds since 1970, or 2026-01-31T12:00:00Z",
            details={"path": name},
        ) from exc

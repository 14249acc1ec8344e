"""Models that know the key of their turn: replies in which ``%s`` stands for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from ksi_daemon.providers.model import Request
from ksi_daemon.providers.scripted import ScriptedProvider

__all__ = ["keyed"]


@contextmanager
def keyed() -> Iterator[list[str | None]]:
    """Have scripted replies carry keys: ``%s`` is that of the turn, ``%(old)`` of the one before.

    Yield what each turn was told, None where it was told nothing.
    """
    told: list[str | None] = []
    take, complete = ScriptedProvider.take, ScriptedProvider.complete

    async def completed(self: ScriptedProvider, request: Request, on_text: Any = None) -> Any:
        system = "".join(m.content for m in request.messages if m.role == "system")
        found = re.search(r"key of this turn is `(\w{8})`", system)
        told.append(found[1] if found else None)
        now, old = (each or "NONE2345" for each in (told[-1], [None, *told][-2]))

        def taken(self: ScriptedProvider) -> Any:
            reply = take(self)
            text = reply.text.replace("%s", now).replace("%(old)", old)
            return msgspec.structs.replace(reply, text=text)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ScriptedProvider, "take", taken)
            return await complete(self, request, on_text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedProvider, "complete", completed)
        yield told

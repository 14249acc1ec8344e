"""Who asks over MCP: a program with the rights of a profile, whatever it says of itself.

It is no operator, so all that it does is logged, and no agent, so it speaks for none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio.to_thread

from ksi_daemon.component import Component
from ksi_daemon.security import Principal, as_rights, held

__all__ = ["Callers"]

_FOLDER: Final = "profiles/"


class Callers:
    """The callers of profile *default*, or of another; *load* reads a component."""

    def __init__(self, load: Callable[[str, bool], Component], default: str) -> None:
        self._load = load
        self.default = default

    async def principal(self, at: str, profile: str | None = None) -> Principal:
        """Return the caller at the place *at*, with what its profile grants by now.

        Raise KsiError for a profile that cannot be read.
        """
        name = f"{_FOLDER}{(profile or self.default).removeprefix(_FOLDER)}"
        rights = await anyio.to_thread.run_sync(partial(self._load, name, False))
        source = f"mcp:{at}"
        return Principal(
            "client",
            source,
            source,
            # What has a budget has it for all callers of the profile together.
            held(as_rights(rights.allow or ()), f"mcp.{name}"),
            ask=tuple(rights.ask),
            deny=tuple(rights.deny),
        )

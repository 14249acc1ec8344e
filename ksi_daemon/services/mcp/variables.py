"""``${NAME}`` in what a server is given stands for a variable of the daemon's environment.

So a token is neither in a file of settings nor in the log: what is kept is the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ksi_daemon.errors import McpError

__all__ = ["filled"]

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def filled(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return *values* with their references filled in.

    Raise McpError ``mcp_unavailable`` for a variable that is not in *environ*.
    """

    def value_of(reference: re.Match[str]) -> str:
        name = reference[1]
        if name not in environ:
            raise McpError(f"{name!r} is not in the environment", code="mcp_unavailable")
        return environ[name]

    return {name: _REFERENCE.sub(value_of, text) for name, text in values.items()}

"""The doors of the daemon: bytes in, events to the router, replies out."""

from __future__ import annotations

__all__: list[str] = []

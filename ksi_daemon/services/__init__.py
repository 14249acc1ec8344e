"""Built-in plugins. Each knows the router and what its constructor is given, never another."""

from __future__ import annotations

__all__: list[str] = []

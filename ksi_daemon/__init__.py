"""ksi: run LLM agents as members of an event bus, and keep a log that answers."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"

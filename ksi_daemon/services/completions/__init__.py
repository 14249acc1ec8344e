"""completion:*: the exchanges of agents with their models."""

from __future__ import annotations

from ksi_daemon.services.completions.service import Completions

__all__ = ["Completions"]

"""The event log: one SQLite file, one writer thread, readers that never block it."""

from __future__ import annotations

from ksi_daemon.log.store import EventLog

__all__ = ["EventLog"]

"""composition:*: components as files, put together, checked, written by people and agents."""

from __future__ import annotations

from ksi_daemon.services.components.files import DRAFTS, MAX_NAME, NAME, Files
from ksi_daemon.services.components.service import Components

__all__ = ["DRAFTS", "MAX_NAME", "NAME", "Components", "Files"]

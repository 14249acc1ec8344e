"""The commands of ``ksi``, one module for each family; ``ksi_client.cli`` has the table."""

from __future__ import annotations

__all__: list[str] = []

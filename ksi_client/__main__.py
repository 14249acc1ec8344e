"""``python -m ksi_client`` is ``ksi``."""

from __future__ import annotations

from ksi_client.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()

"""``python -m ksi_daemon`` is ``ksi-daemon``."""

from __future__ import annotations

import sys

from ksi_daemon.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.faults.check LOG``: what a log holds, as JSON, for another mount namespace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.faults.harness import kept, sound

__all__: list[str] = []

if __name__ == "__main__":
    log = Path(sys.argv[1])
    sys.stdout.write(json.dumps({"sound": sound(log), "kept": kept(log)}))

"""The units of systemd, as systemd reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ksi_client.units import units


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None and "CI" not in os.environ,
    reason="systemd-analyze is not installed (apt-get install systemd)",
)
@pytest.mark.parametrize("path", ["/srv/k/run/daemon.sock", "/srv/50%/run/daemon.sock"])
def test_systemd_accepts_the_units(tmp_path: Path, path: str) -> None:
    files = []
    for name, text in units("/bin/true --var /srv/k", Path(path)).items():
        files.append(tmp_path / name)
        files[-1].write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", *map(str, files)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")

from __future__ import annotations

import subprocess
import sys

import pytest

from ksi_daemon.extraction.dialects import DIALECTS


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_has_the_name_that_it_is_found_by(name: str) -> None:
    assert DIALECTS[name].name == name
    assert DIALECTS[name] is DIALECTS[name]


def test_what_is_no_dialect_is_in_no_table() -> None:
    assert "latin" not in DIALECTS
    assert len(list(DIALECTS)) == len(DIALECTS)
    with pytest.raises(KeyError):
        DIALECTS["latin"]


def test_a_daemon_loads_the_dialects_that_are_spoken() -> None:
    program = (
        "import sys\n"
        "from ksi_daemon import extraction\n"
        "extraction.extract('{}', extraction.protocol('ksi'))\n"
        "print(*sorted(sys.modules))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = ran.stdout.split()
    assert "ksi_daemon.extraction.dialects.event" in loaded
    for name in ("pythonic", "invoke_tags", "gemma", "react"):
        assert f"ksi_daemon.extraction.dialects.{name}" not in loaded

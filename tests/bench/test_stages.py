from __future__ import annotations

from pathlib import Path

import pytest

import ksi_daemon
from tests.bench.stages import STAGES, stage_of

ROOT = Path(ksi_daemon.__file__).parent
LOOP = [("/python/asyncio/events.py", "_run"), ("/k/run.py", "main")]


@pytest.mark.parametrize(
    ("stack", "stage"),
    [
        pytest.param(LOOP, "socket", id="the loop itself"),
        pytest.param(LOOP[1:], "other", id="no part of the daemon"),
        pytest.param([("/x/enum.py", "f"), *LOOP], "socket", id="a library is its caller's"),
        pytest.param([("/k/ksi_daemon/router.py", "submit"), *LOOP], "dispatch", id="router"),
        pytest.param([("/k/ksi_daemon/log/writer.py", "submit")], "log: on the loop", id="log"),
        pytest.param(
            [("/k/ksi_daemon/protocol/messages.py", "decode_request")], "decode", id="request"
        ),
        pytest.param([("/k/ksi_daemon/protocol/messages.py", "encode")], "reply", id="reply"),
        pytest.param(
            [(LOOP[0][0], "write"), ("/k/ksi_daemon/transports/unix.py", "_flush")],
            "socket",
            id="the write is the socket's",
        ),
    ],
)
def test_a_stage(stack: list[tuple[str, str]], stage: str) -> None:
    assert stage_of(stack) == stage


def test_each_place_of_the_daemon_exists() -> None:
    """What is renamed would be charged to another stage in silence."""
    sources = {str(path): path.read_text() for path in ROOT.rglob("*.py")}
    for part, functions, _ in STAGES[:-2]:
        found = "".join(text for path, text in sources.items() if part in path)
        assert found, part
        assert [name for name in functions if f"def {name}(" not in found] == []

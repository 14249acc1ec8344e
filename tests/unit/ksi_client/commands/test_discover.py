from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

FOUND = {
    "events": [{"name": "a:do", "class": "write", "summary": "Do it."}],
    "notices": [{"name": "a:done", "summary": "It was done."}],
}


@pytest.mark.parametrize(
    ("words", "pattern"), [([], "*"), (["agent"], "agent:*"), (["a:*"], "a:*"), (["a:b"], "a:b")]
)
def test_discover(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], pattern: str
) -> None:
    stub.answers["system:discover"] = FOUND
    assert ksi("discover", *words).stdout.splitlines()[1:] == [
        "a:do    write   Do it.",
        "a:done  notice  It was done.",
    ]
    assert msgspec.json.decode(stub.requests[0].data) == {"pattern": pattern}


def test_discover_as_json(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["system:discover"] = FOUND
    lines = ksi("discover", text=False).stdout.splitlines()
    assert [msgspec.json.decode(line)["class"] for line in lines] == ["write", "notice"]


def test_help(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["system:help"] = {"name": "a:do", "class": "write", "summary": "Do it."}
    assert ksi("help", "a:do").stdout == "a:do  write\nDo it.\n"
    assert msgspec.json.decode(stub.requests[0].data) == {"event": "a:do"}

from __future__ import annotations

import pytest

from ksi_daemon.conversation import Manner, manner_of
from ksi_daemon.extraction import Tool
from ksi_daemon.loop import agreement
from ksi_daemon.providers.model import Capabilities
from ksi_daemon.services.completions import manners as module
from ksi_daemon.services.completions.manners import Manners


def manner(name: str = "a:b", protocol: str = "ksi") -> Manner:
    tool = Tool(name, "Do it.", {"type": "object"})
    return manner_of(agreement(protocol), "", (tool,), Capabilities(), max_calls=9)


def test_a_manner_is_written_with_its_first_reply() -> None:
    manners, used = Manners(), manner()
    assert len(manners.rows("c1", used)) == 2
    manners.committed(used)
    [(_, values)] = manners.rows("c2", used)
    assert values == ("c2", used.digest)


def test_one_that_was_not_committed_is_written_again() -> None:
    manners = Manners()
    assert len(manners.rows("c1", manner())) == len(manners.rows("c2", manner())) == 2


def test_one_that_retention_may_have_deleted_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manners, used = Manners(), manner()
    manners.committed(used)
    monkeypatch.setattr(module, "KNOWN_S", 0.0)
    assert len(manners.rows("c2", used)) == 2


def test_what_is_read_otherwise_is_another_manner() -> None:
    assert manner().digest == manner().digest
    assert len({manner().digest, manner("a:c").digest, manner(protocol="any").digest}) == 3

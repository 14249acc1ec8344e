from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from ksi_daemon.log.chain import GENESIS, link, linked

ROW = (1, "e1", "a:b", None, b"x")


def test_a_hash_can_be_computed_by_anybody() -> None:
    """The rows as MessagePack arrays, byte by byte."""
    event = b"\x95\x01\xa2e1\xa3a:b\xc0\xc4\x01x"
    assert linked(GENESIS, (), ROW) == sha256(bytes(32) + event).digest()
    outcome = b"\x93\x07\x08\xa7handled"
    found = linked(GENESIS, [link((7, 8, "handled"))], ROW)
    assert found == sha256(bytes(32) + outcome + event).digest()


def test_outcomes_are_in_the_order_of_their_seqs() -> None:
    links = [link((9, "a")), link((2, "b")), link((300, "c"))]
    assert linked(GENESIS, links, ROW) == linked(GENESIS, sorted(links), ROW)


@pytest.mark.parametrize(
    ("before", "loose", "row"),
    [
        pytest.param(b"\1" * 32, [], ROW, id="another event before"),
        pytest.param(GENESIS, [link((1, "handled"))], ROW, id="an outcome more"),
        pytest.param(GENESIS, [], (*ROW, None), id="a column more"),
        pytest.param(GENESIS, [], (1, "e1", "a:b", "", b"x"), id="empty, not NULL"),
        pytest.param(GENESIS, [], (1, "e1a", ":b", None, b"x"), id="a letter moved"),
        pytest.param(GENESIS, [], ("1", "e1", "a:b", None, b"x"), id="text, not a number"),
        pytest.param(GENESIS, [], (1, "e1", "a:b", None, "x"), id="text, not bytes"),
    ],
)
def test_whatever_changes_shows(before: bytes, loose: list[Any], row: tuple[Any, ...]) -> None:
    assert linked(before, loose, row) != linked(GENESIS, (), ROW)

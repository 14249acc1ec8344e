from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.protocol import FrameReader, FrameTooLarge


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="two in one chunk"),
        pytest.param([b"a", b"b\n"], [b"ab"], id="one in two chunks"),
        pytest.param([b"ab"], [], id="no newline yet"),
        pytest.param([b"\n \r\n\na\n"], [b"a"], id="blank lines are skipped"),
        pytest.param([b"a\r\n"], [b"a\r"], id="CR is left to the JSON decoder"),
        pytest.param([b"", b"a\n"], [b"a"], id="an empty chunk"),
    ],
)
def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    reader = FrameReader(100)
    assert [line for chunk in chunks for line in reader.feed(chunk)] == lines


@given(st.lists(st.binary(max_size=6)), st.integers(1, 5))
def test_any_chunking_gives_the_same_lines(parts: list[bytes], size: int) -> None:
    stream = b"\n".join(parts) + b"\n"
    reader = FrameReader(1_000)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    found = [line for chunk in chunks for line in reader.feed(chunk)]
    assert found == [line for line in stream.split(b"\n") if line.strip()]
    assert reader.pending == 0


def test_pending_counts_the_open_line() -> None:
    reader = FrameReader(10)
    assert list(reader.feed(b"a\nbcd")) == [b"a"]
    assert reader.pending == 3


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"x" * 11 + b"\n"], id="whole"),
        pytest.param([b"x" * 6, b"x" * 5], id="before its newline"),
        pytest.param([b"x" * 6, b"x" * 5 + b"\n"], id="with its newline"),
    ],
)
def test_a_line_over_the_limit_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(FrameTooLarge, match="frame exceeds 10 bytes"):
        feed_all(FrameReader(10), chunks)


def feed_all(reader: FrameReader, chunks: list[bytes]) -> list[bytes]:
    return [line for chunk in chunks for line in reader.feed(chunk)]


def test_a_line_of_the_limit_is_not() -> None:
    assert list(FrameReader(10).feed(b"x" * 10 + b"\n")) == [b"x" * 10]

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_client.errors import DaemonError
from ksi_client.wire import Answer, Ending, Frame, Frames, Request
from ksi_daemon.events import ErrorInfo, Outcome
from ksi_daemon.protocol import Push, Reply, Wire, decode_request, encode


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        pytest.param(
            {"a": "é"},
            {"idempotency_key": "k"},
            Wire("a:b", msgspec.Raw(b'{"a":"\xc3\xa9"}'), 1, idempotency_key="k"),
            id="an object",
        ),
        pytest.param(
            msgspec.Raw(b'{ "a":1 }'),
            {"idempotency_key": "k"},
            Wire("a:b", msgspec.Raw(b'{ "a":1 }'), 1, idempotency_key="k"),
            id="JSON goes as it is",
        ),
        pytest.param(
            None,
            {"idempotency_key": "k", "wait": "logged", "timeout": 1.5, "correlation_id": "c"},
            Wire("a:b", msgspec.Raw(b"{}"), 1, "c", "k", "logged", 1.5),
            id="options",
        ),
    ],
)
def test_the_daemon_reads_what_a_request_says(data: object, options: Any, expected: Wire) -> None:
    assert decode_request(Request.of(1, "a:b", data, **options).line) == expected


def test_each_request_has_a_key_of_its_own() -> None:
    keys = {decode_request(Request.of(1, "a:b").line).idempotency_key for _ in range(10)}
    assert len(keys) == 10
    assert None not in keys


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        pytest.param(
            encode(Reply(3, True, {"a": 1}, seq=9, durable="power", duplicate=True)),
            Frame(3, True, msgspec.Raw(b'{"a":1}'), None, 9, "power", True),
            id="a reply",
        ),
        pytest.param(
            encode(Reply(None, False, error=ErrorInfo("bad_json", "no"))),
            Frame(None, False, error=ErrorInfo("bad_json", "no")),
            id="a refusal",
        ),
        pytest.param(
            encode(Push("s1", 4, outcome=Outcome("handled", msgspec.Raw(b'{"a":1}')))),
            Frame(seq=4, subscription="s1", outcome=Ending("handled", {"a": 1})),
            id="an outcome",
        ),
        pytest.param(
            encode(Push("s1", 4, lagged=True)),
            Frame(seq=4, subscription="s1", lagged=True),
            id="a last word",
        ),
    ],
)
def test_reads_what_the_daemon_writes(line: bytes, frame: Frame) -> None:
    assert list(Frames().feed(line)) == [frame]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"no\n", id="no JSON"),
        pytest.param(b"[1]\n", id="no object"),
        pytest.param(b'{"id": {}}\n', id="no id"),
        pytest.param(b'{"outcome": {"result": ' + b"[" * 100_000 + b"\n", id="too deep"),
        pytest.param(b'{"id": "\xff"}\n', id="no UTF-8"),
    ],
)
def test_what_is_no_frame_is_an_error(line: bytes) -> None:
    with pytest.raises(DaemonError, match="what the daemon sent is no frame") as raised:
        list(Frames().feed(line))
    assert raised.value.code == "bad_reply"


def test_a_refusal_raises_all_that_it_says() -> None:
    error = ErrorInfo("unknown_event", "no handler", "did you mean 'a:b'?", False, {"near": 1})
    with pytest.raises(DaemonError) as raised:
        Frame(1, False, error=error).answer()
    assert raised.value.info() == error


def test_an_answer_reads_as_a_type() -> None:
    answer = Frame(1, True, msgspec.Raw(b'{"status":"handled"}'), seq=2).answer()
    assert answer == Answer(msgspec.Raw(b'{"status":"handled"}'), 2)
    assert answer.read() == {"status": "handled"}
    assert answer.read(Ending) == Ending("handled")

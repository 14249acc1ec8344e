from __future__ import annotations

import msgspec
import pytest

from ksi_daemon.errors import ProtocolError
from ksi_daemon.events import ErrorInfo
from ksi_daemon.protocol import Push, Reply, Wire, decode_request, encode


def test_a_request_with_all_fields() -> None:
    wire = decode_request(
        b'{"id": "r1", "event": "a:b", "data": {"x": 1}, "correlation_id": "c",'
        b' "idempotency_key": "k", "wait": "logged", "timeout": 5.0}'
    )
    assert (wire.id, wire.event, bytes(wire.data)) == ("r1", "a:b", b'{"x": 1}')
    assert (wire.correlation_id, wire.idempotency_key) == ("c", "k")
    assert (wire.wait, wire.timeout) == ("logged", 5.0)


def test_only_the_event_is_required() -> None:
    assert decode_request(b'{"event": "a:b"}') == Wire("a:b")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(b"{", "bad_json", id="cut off"),
        pytest.param(b"\xff\xfe", "bad_json", id="not UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"event":"a:b"}', "bad_json", id="a byte order mark"),
        pytest.param(b'{"event":"a:b"} x', "bad_json", id="text after it"),
        pytest.param(b'{"event":"a:b","data":{"x":NaN}}', "bad_json", id="NaN"),
        pytest.param(b'{"event":"a:b","data":{"x":"\\ud800"}}', "bad_json", id="lone surrogate"),
        pytest.param(b'{"event":"a:b","data":' + b"[" * 100_000, "bad_json", id="depth 100,000"),
        pytest.param(b"[1]", "bad_request", id="an array"),
        pytest.param(b'{"event":"a:b","event":"a:c"}', "bad_request", id="the event twice"),
        pytest.param(b'{"event":"a:b","\\u0065vent":"a:c"}', "bad_request", id="in escapes too"),
        pytest.param(b"{}", "bad_request", id="no event"),
        pytest.param(b'{"event": 5}', "bad_request", id="event of the wrong type"),
        pytest.param(b'{"event":"a:b","nonsense":1}', "bad_request", id="unknown field"),
        pytest.param(b'{"event":"a:b","wait":"never"}', "bad_request", id="unknown wait"),
        pytest.param(b'{"event":"a:b","id":[]}', "bad_request", id="id of the wrong type"),
    ],
)
def test_what_is_no_request(line: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_request(line)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param(
            Reply(7, True, msgspec.Raw(b'{"a":1}'), seq=3, durable="power"),
            b'{"id":7,"ok":true,"result":{"a":1},"seq":3,"durable":"power"}\n',
            id="a result",
        ),
        pytest.param(
            Reply(None, False, error=ErrorInfo("bad_json", "not JSON")),
            b'{"id":null,"ok":false,'
            b'"error":{"code":"bad_json","message":"not JSON","retryable":false}}\n',
            id="an error without an id",
        ),
        pytest.param(
            Push("s1", 9, lagged=True),
            b'{"subscription":"s1","seq":9,"lagged":true}\n',
            id="a last word",
        ),
    ],
)
def test_lines_out(message: Reply | Push, line: bytes) -> None:
    assert encode(message) == line


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"event":{"data":1},"data":2}', id="their names within the data"),
        pytest.param(b'{"text":"\\u001b[0m"}', id="escapes"),
        pytest.param(b'{"text":"\\u001b","n":' + b"9" * 5_000 + b"}", id="a long number"),
    ],
)
def test_what_only_looks_as_if_said_twice_is_a_request(data: bytes) -> None:
    assert bytes(decode_request(b'{"event":"a:b","data":' + data + b"}").data) == data

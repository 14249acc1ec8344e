from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_client.errors import NoDaemon
from ksi_client.relaying import Relay, id_of_long_line, too_long

GONE = NoDaemon("/run/daemon.sock")
NO_DAEMON = {
    "code": -32000,
    "message": "no daemon at '/run/daemon.sock'; ksi up starts one",
    "data": {
        "code": "no_daemon",
        "message": "no daemon at '/run/daemon.sock'",
        "hint": "ksi up starts one",
        "retryable": True,
    },
}
INITIALIZE = {
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "clientInfo": {"name": "x"}},
}
INITIALIZED = {"method": "notifications/initialized"}
CHANGED = [
    {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"},
]


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def read(lines: list[bytes]) -> list[Any]:
    return [json.loads(each) for each in lines]


def relay() -> Relay:
    return Relay("Start the daemon.")


def test_what_is_asked_and_answered_goes_through_as_it_is() -> None:
    session = relay()
    odd = b'{"id":7,  "method":"tools/call", "params":{"x":1.0}, "jsonrpc":"2.0"}'
    assert session.asked(odd) == ([odd], [])
    assert session.waiting
    answer = b'{"jsonrpc":"2.0","id":7, "result":{}}'
    assert session.told(answer) == [answer]
    assert not session.waiting


def test_notifications_and_answers_of_the_host_are_not_waited_for() -> None:
    session = relay()
    for message in (INITIALIZED, {"id": 3, "result": {}}, {"id": 4, "error": {}}):
        assert session.asked(line(message)) == ([line(message)], [])
    assert not session.waiting


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        pytest.param(b"hello", -32700, "bad_json", id="no JSON"),
        pytest.param(b"\xff{}", -32700, "bad_json", id="no text"),
        pytest.param(b'{"id":1,"x":' + b"[" * 100_000, -32700, "bad_json", id="too deep"),
        pytest.param(b"[]", -32600, "bad_request", id="a list"),
        pytest.param(b"3", -32600, "bad_request", id="a number"),
        pytest.param(b'{"id": {}, "method": "ping"}', -32600, "bad_request", id="an odd id"),
        pytest.param(b'{"id": 1, "method": 3}', -32600, "bad_request", id="an odd method"),
    ],
)
def test_what_is_no_message_is_answered_here(text: bytes, code: int, kind: str) -> None:
    forth, back = relay().asked(text)
    assert forth == []
    [answer] = read(back)
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert answer["error"]["data"]["code"] == kind
    [alone] = read(relay().alone(text, GONE))
    assert alone == answer


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "x"])
def test_without_a_daemon_the_host_is_told_so(method: str) -> None:
    [answer] = read(relay().alone(line({"id": "a", "method": method}), GONE))
    assert answer == {"jsonrpc": "2.0", "id": "a", "error": NO_DAEMON}


def test_without_a_daemon_a_ping_is_answered_and_a_notification_is_not() -> None:
    session = relay()
    assert read(session.alone(line({"id": 1, "method": "ping"}), GONE)) == [
        {"jsonrpc": "2.0", "id": 1, "result": {}}
    ]
    assert session.alone(line(INITIALIZED), GONE) == []


@pytest.mark.parametrize(
    ("params", "version"),
    [
        pytest.param({"protocolVersion": "2025-06-18"}, "2025-06-18", id="one that is known"),
        pytest.param({"protocolVersion": "2099-01-01"}, "2025-11-25", id="one that is not"),
        pytest.param({}, "2025-11-25", id="none"),
        pytest.param({"protocolVersion": 3}, "2025-11-25", id="nonsense"),
        pytest.param([], "2025-11-25", id="no object"),
    ],
)
def test_a_session_can_be_opened_before_the_daemon_is_there(params: Any, version: str) -> None:
    [answer] = read(relay().alone(line({"id": 0, "method": "initialize", "params": params}), GONE))
    assert answer["id"] == 0
    assert answer["result"]["protocolVersion"] == version
    assert answer["result"]["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True},
    }
    assert answer["result"]["instructions"] == "Start the daemon."


def test_the_next_daemon_is_told_what_the_host_said_first() -> None:
    session = relay()
    assert session.linked() == []
    session.asked(line(INITIALIZE))
    session.told(b'{"jsonrpc":"2.0","id":0,"result":{}}')
    session.asked(line(INITIALIZED))
    assert session.lost(GONE) == []
    again, opened = read(session.linked())
    assert again == {"jsonrpc": "2.0", **INITIALIZE, "id": "ksi-mcp-again"}
    assert opened == {"jsonrpc": "2.0", **INITIALIZED}
    # Its answer is not the host's, which has one; what it offers may have changed.
    assert read(session.told(b'{"jsonrpc":"2.0","id":"ksi-mcp-again","result":{}}')) == CHANGED


def test_a_session_that_was_opened_alone_goes_on_with_a_daemon() -> None:
    session = relay()
    session.alone(line(INITIALIZE), GONE)
    [again] = read(session.linked())
    assert again["method"] == "initialize"
    session.asked(line(INITIALIZED))
    assert len(session.linked()) == 2


def test_a_second_opening_takes_the_place_of_the_first() -> None:
    session = relay()
    session.asked(line(INITIALIZE))
    session.asked(line(INITIALIZED))
    session.asked(line({**INITIALIZE, "id": 9}))
    assert len(session.linked()) == 1


def test_what_a_daemon_that_is_gone_did_not_answer_is_answered() -> None:
    session = relay()
    for number in (1, 2, 3):
        session.asked(line({"id": number, "method": "tools/call"}))
    session.told(b'{"jsonrpc":"2.0","id":2,"result":{}}')
    assert read(session.lost(GONE)) == [
        {"jsonrpc": "2.0", "id": number, "error": NO_DAEMON} for number in (1, 3)
    ]
    assert session.lost(GONE) == []


@pytest.mark.parametrize(
    ("params", "waiting"),
    [
        pytest.param({"requestId": 1}, False, id="it"),
        pytest.param({"requestId": 2}, True, id="another"),
        pytest.param({"requestId": {}}, True, id="nonsense"),
        pytest.param({}, True, id="nothing"),
    ],
)
def test_what_was_cancelled_is_not_waited_for(params: Any, waiting: bool) -> None:
    session = relay()
    session.asked(line({"id": 1, "method": "tools/call"}))
    session.asked(line({"method": "notifications/cancelled", "params": params}))
    assert session.waiting is waiting


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method"', b"}}", 7, id="behind the version"),
        pytest.param(b' { "id" : "a-1", ', b"}", "a-1", id="first"),
        pytest.param(b'{"method":"x","params":{"id":3', b'"},"id":9}', 9, id="last"),
        pytest.param(b'{"params":{"id":3}', b'"x":{"id":4}}', None, id="of other objects"),
        pytest.param(b'{"id":"a\\"b"', b"}", None, id="with an escape"),
        pytest.param(b"xxxx", b"xxxx", None, id="none"),
    ],
)
def test_the_id_of_a_message_that_is_not_kept(begin: bytes, end: bytes, found: Any) -> None:
    assert id_of_long_line(begin, end) == found


def test_the_answer_to_a_message_that_is_too_long() -> None:
    assert json.loads(too_long(7, 1024)) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {
            "code": -32600,
            "message": "a message has at most 1024 bytes",
            "data": {
                "code": "frame_too_large",
                "message": "a message has at most 1024 bytes",
                "retryable": False,
            },
        },
    }

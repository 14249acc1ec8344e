"""What clients can do to the socket of a running daemon (FAULTS 3.2)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_daemon.testing import short_directory
from tests.faults.harness import Daemon, until
from tests.faults.unharmed import Lines, health, rss, unharmed

pytestmark = pytest.mark.faults

MARK: Final = b'{"id":1,"event":"system:mark","data":{"label":"a"}}'
SET: Final = b'{"id":1,"event":"state:set","data":{"key":"k","value":%s}}'
GET: Final = b'{"id":2,"event":"state:get","data":{"key":"k"}}'


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as path:
        yield path / "v"


def refusal(daemon: Daemon, line: bytes) -> str:
    """Send *line*; return the code it is refused with, once its connection has been used again."""
    with Lines(daemon.socket) as client:
        reply = client.ask(line)
        assert client.ask(MARK)["ok"]
    return str(reply["error"]["code"])


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"hello", id="prose"),
        pytest.param(b'\xef\xbb\xbf{"id":7,"event":"a:b"}', id="byte order mark"),
        pytest.param(MARK + b" and more", id="text after it"),
        pytest.param(MARK.replace(b"a", b"\xff", 1), id="not UTF-8"),
        pytest.param(MARK.replace(b'"a"', b'"\t"'), id="control character"),
    ],
)
def test_S11_what_is_no_json_costs_its_own_line(var: Path, line: bytes) -> None:
    with unharmed(var) as daemon:
        assert refusal(daemon, line) == "bad_json"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(b"[" * 100_000, "bad_request", id="instead of a request"),
        pytest.param(SET % (b"[" * 100_000 + b"]" * 100_000), "bad_json", id="in the data"),
        pytest.param(SET % (b"[" * 900 + b"]" * 900), "depth_limit", id="a decoder would take it"),
    ],
)
def test_S12_nesting_without_end_is_refused(var: Path, line: bytes, code: str) -> None:
    with unharmed(var) as daemon:
        assert refusal(daemon, line) == code


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_S13_what_is_no_number_never_enters_the_log(var: Path, number: bytes) -> None:
    with unharmed(var) as daemon:
        assert refusal(daemon, SET % number) == "bad_json"


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(str(2**64), id="65 bits"),
        pytest.param("9" * 400, id="400 digits"),
        pytest.param("9" * 5_000, id="5000 digits"),
    ],
)
def test_S14_a_large_number_comes_back_as_it_was_or_is_refused(var: Path, number: str) -> None:
    with unharmed(var) as daemon, Lines(daemon.socket) as client:
        if client.ask(SET % number.encode())["ok"]:
            assert str(client.ask(GET)["result"]["value"]) == number
        assert client.ask(MARK)["ok"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"id":1,"event":"system:health","event":"system:mark"}', id="the event"),
        pytest.param(MARK.replace(b'"data"', b'"data":{},"data"'), id="the data"),
        pytest.param(
            b'{"id":1,"event":"system:health","\\u0065vent":"system:mark"}', id="in escapes"
        ),
    ],
)
def test_S15_a_request_that_says_two_things_is_refused(var: Path, line: bytes) -> None:
    with unharmed(var) as daemon:
        assert refusal(daemon, line) == "bad_request"


def test_S16_a_lone_surrogate_does_not_reach_the_writer(var: Path) -> None:
    with unharmed(var) as daemon:
        assert refusal(daemon, SET % b'"\\ud800"') == "bad_json"


def test_S17_nul_is_kept_in_data_and_refused_in_names(var: Path) -> None:
    with unharmed(var) as daemon, Lines(daemon.socket) as client:
        assert client.ask(SET % b'"a\\u0000b"')["ok"]
        assert client.ask(GET)["result"]["value"] == "a\0b"
        assert refusal(daemon, b'{"event":"a:\\u0000"}') == "bad_request"
        assert refusal(daemon, b'{"event":"a:b","idempotency_key":"\\u0000"}') == "bad_request"


def test_S8_who_leaves_before_the_reply_finds_it_done_once(var: Path) -> None:
    keyed = MARK.replace(b'"id"', b'"idempotency_key":"k","id"')
    with unharmed(var) as daemon:
        with Lines(daemon.socket) as gone:
            gone.send(keyed + b"\n" + MARK[:20])
        with Lines(daemon.socket) as again:
            first = again.ask(keyed)
            assert first["ok"]
            assert again.ask(keyed) == {**first, "duplicate": True}
        assert _names(daemon).count("system:mark") == 1


def test_S9_a_frame_without_end_is_cut_off(var: Path) -> None:
    with unharmed(var) as daemon, Lines(daemon.socket) as client:
        before = rss(daemon)
        for _ in range(64):
            client.send(b"x" * 1024 * 1024)
        assert client.reply()["error"]["code"] == "frame_too_large"
        assert client.reply() is None
        assert rss(daemon) - before < 16 * 1024 * 1024


def test_S18_connections_that_come_and_go_leave_nothing(var: Path) -> None:
    with unharmed(var) as daemon:
        descriptors = _descriptors(daemon)
        for _ in range(2_000):
            Lines(daemon.socket).__exit__()
        until(lambda: _descriptors(daemon) <= descriptors)


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit of util-linux")
def test_S18_without_descriptors_who_is_there_is_served_and_new_ones_wait(var: Path) -> None:
    limited = ["prlimit", "--nofile=48"]
    with unharmed(var, env={"KSI_MAX_CONNECTIONS": "200"}, prefix=limited) as daemon:
        with Lines(daemon.socket) as kept, ExitStack() as many:
            assert kept.ask(MARK)["ok"]
            for _ in range(80):
                many.enter_context(Lines(daemon.socket))
            until(lambda: _descriptors(daemon) >= 48)
            assert kept.ask(MARK)["ok"]
            assert daemon.said.count("accept_failed") == 1
        until(lambda: _descriptors(daemon) < 40)


def test_S22_idle_clients_do_not_keep_the_operator_out(var: Path) -> None:
    with unharmed(var, env={"KSI_MAX_CONNECTIONS": "4"}) as daemon, ExitStack() as idle:
        for _ in range(4):
            assert idle.enter_context(Lines(daemon.socket)).ask(MARK)["ok"]
        assert health(daemon)["connections"] == 5
        with Lines(daemon.socket) as other:
            assert other.ask(b'{"event":"state:list"}')["error"]["code"] == "too_many_connections"
            assert other.reply() is None


def test_S19_fifty_stuck_subscribers_hold_up_nobody(var: Path) -> None:
    with unharmed(var, env={"KSI_SUBSCRIBER_EVENTS": "50"}) as daemon, ExitStack() as stuck:
        for _ in range(50):
            deaf = stuck.enter_context(Lines(daemon.socket))
            deaf.send(b'{"event":"monitor:subscribe"}\n')
        with Lines(daemon.socket) as client:
            until(lambda: health(daemon)["subscriptions"] == 50)
            padded = json.dumps({"label": "a", "data": {"pad": "x" * 10_000}}).encode()
            line = b'{"id":1,"event":"system:mark","data":%s}' % padded
            for _ in range(400):
                assert client.ask(line)["ok"]
            until(lambda: health(daemon)["subscriptions"] == 0)


def _names(daemon: Daemon) -> list[Any]:
    with Lines(daemon.socket) as client:
        reply = client.ask(b'{"event":"monitor:get_events","data":{"limit":100}}')
    return [event["event"] for event in reply["result"]["events"]]


def _descriptors(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))

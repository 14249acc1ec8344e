"""The bridge between a host and a daemon, with a daemon that a test plays on a real socket."""

from __future__ import annotations

import io
import json
import os
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ksi_client.bridge import MAX_LINE, Bridge, LongLine, host_lines
from ksi_client.errors import DaemonError
from ksi_daemon.testing import short_directory

PATIENCE_S = 10.0
GREETED = {"id": None, "ok": True, "result": {"max_frame_bytes": 1000}}


class Daemon:
    """A daemon that takes one connection at a time and says what the test has it say."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(PATIENCE_S)
        self._listener.bind(os.fspath(path))
        self._listener.listen()
        self._path = path

    def accept(self, greeting: Any = GREETED) -> Any:
        """Take the next connection; return what it greeted with."""
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(PATIENCE_S)
        self._file = self._connection.makefile("rwb")
        said = self.read()
        self.write(greeting)
        return said

    def read(self) -> Any:
        return json.loads(self._file.readline())

    def write(self, message: Any) -> None:
        self._file.write(json.dumps(message).encode() + b"\n")
        self._file.flush()

    def end(self) -> None:
        self._path.unlink()
        self._listener.close()
        self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Host:
    """A host with a bridge in a thread of its own."""

    def __init__(self, path: Path, profile: str | None = None) -> None:
        self._lines: queue.Queue[bytes | LongLine | None] = queue.Queue()
        self._heard: queue.Queue[bytes] = queue.Queue()
        self.error: Exception | None = None
        self._bridge = Bridge(path, profile, self._heard.put)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._bridge.run(iter(self._lines.get, None))
        except DaemonError as exc:
            self.error = exc

    def say(self, message: Any) -> None:
        self._lines.put(message if isinstance(message, LongLine) else json.dumps(message).encode())

    def hear(self) -> Any:
        return json.loads(self._heard.get(timeout=PATIENCE_S))

    def leave(self) -> None:
        self._lines.put(None)
        self.ended()

    def ended(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def request(number: int, method: str = "tools/list") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method}


def answer(number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": {}}


@pytest.fixture
def path() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory / "mcp.sock"


def test_both_sides_hear_each_other(path: Path) -> None:
    daemon, host = Daemon(path), Host(path, "team")
    assert daemon.accept() == {"profile": "team"}
    host.say(request(1))
    assert daemon.read() == request(1)
    daemon.write(answer(1))
    assert host.hear() == answer(1)
    daemon.write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    assert host.hear()["method"] == "notifications/tools/list_changed"
    host.leave()
    daemon.end()


def test_a_host_that_leaves_hears_the_last_answers(path: Path) -> None:
    daemon, host = Daemon(path), Host(path)
    assert daemon.accept() == {}
    host.say(request(1))
    daemon.read()
    threading.Timer(0.1, daemon.write, [answer(1)]).start()
    host.leave()
    assert host.hear() == answer(1)
    daemon.end()


def test_a_daemon_that_refuses_us_ends_it(path: Path) -> None:
    daemon, host = Daemon(path), Host(path, "nobody")
    error = {"code": "not_found", "message": "no component 'profiles/nobody'"}
    daemon.accept({"id": None, "ok": False, "error": error})
    host.ended()
    assert host.error is not None
    assert str(host.error) == "no component 'profiles/nobody'"
    daemon.end()


def test_a_host_is_told_while_there_is_no_daemon_and_goes_on_with_the_next(path: Path) -> None:
    host = Host(path)
    host.say(request(1, "initialize"))
    assert host.hear()["result"]["serverInfo"]["name"] == "ksi"
    host.say(request(2))
    assert host.hear()["error"]["data"]["code"] == "no_daemon"
    daemon = Daemon(path)
    daemon.accept()
    assert daemon.read()["method"] == "initialize"
    daemon.write({"jsonrpc": "2.0", "id": "ksi-mcp-again", "result": {}})
    assert host.hear()["method"] == "notifications/tools/list_changed"
    assert host.hear()["method"] == "notifications/resources/list_changed"
    host.say(request(3))
    assert daemon.read() == request(3)
    daemon.end()
    assert host.hear()["error"]["data"]["code"] == "no_daemon"
    second = Daemon(path)
    second.accept()
    assert second.read()["method"] == "initialize"
    host.leave()
    second.end()


def test_a_message_that_the_daemon_would_not_take_is_answered_here(path: Path) -> None:
    daemon, host = Daemon(path), Host(path)
    daemon.accept()
    host.say({**request(1), "params": {"x": "y" * 1000}})
    refused = host.hear()
    assert (refused["id"], refused["error"]["data"]["code"]) == (1, "frame_too_large")
    host.say(LongLine(b'{"id":2,"params":"', b'xxx"}'))
    assert host.hear()["id"] == 2
    host.say(request(3))
    assert daemon.read() == request(3)
    daemon.end()


def lines_of(text: bytes, chunk: int, limit: int = 10) -> list[bytes | LongLine]:
    stream = io.BytesIO(text)
    return list(host_lines(lambda size: stream.read(min(size, chunk)), limit))


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_lines_come_whole_however_they_are_cut(chunk: int) -> None:
    text = b'{"a":1}\n\n  \r\n{"b":2}\r\n' + b"x" * 11 + b'\n{"c":3}\nno end'
    assert lines_of(text, chunk) == [
        b'{"a":1}',
        b'{"b":2}',
        LongLine(b"x" * 11, b"x" * 11),
        b'{"c":3}',
    ]


def test_of_a_long_line_only_the_ends_are_kept() -> None:
    size = MAX_LINE + 1
    [long] = lines_of(b"a" * 5000 + b"b" * size + b"c" * 5000 + b"\n", 64 * 1024, MAX_LINE)
    assert long == LongLine(b"a" * 4096, b"c" * 4096)

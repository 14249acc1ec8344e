"""The I/O around ``relaying``: a host on stdin and stdout, a daemon on its socket for MCP.

Two threads: one reads the host, one looks after the daemon, waits for it to come back and reads
it. What both know is behind one lock, which is never held while a daemon is written to: it may
be waiting for us to read.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ksi_client.errors import DaemonError, LinkLost, NoDaemon
from ksi_client.relaying import Relay, id_of_long_line, too_long
from ksi_client.wire import MAX_FRAME, Frames
from ksi_daemon.errors import KsiError
from ksi_daemon.protocol import FrameReader

__all__ = ["MAX_LINE", "Bridge", "LongLine", "host_lines"]

# More than any daemon takes in one message; what is longer is not even kept.
MAX_LINE: Final = 16 * 1024 * 1024
PAUSES_S: Final = (0.1, 0.25, 0.5, 1.0)
GREETING_S: Final = 10.0
# A host that has closed its side is still told what it asked for before.
LAST_ANSWERS_S: Final = 30.0
_CHUNK: Final = 64 * 1024
_ENDS: Final = 4096
_INSTRUCTIONS: Final = (
    "The daemon of ksi is not running; `ksi up -d` starts it, and its tools are then here."
)


class LongLine(NamedTuple):
    """A line that was longer than it may be: how it began and how it ended."""

    begin: bytes
    end: bytes


class _Link(NamedTuple):
    """A daemon that took our greeting."""

    socket: socket.socket
    frames: FrameReader
    rest: list[bytes]
    max_frame_bytes: int


class Bridge:
    """A session of the host whose lines *read* returns, shown to the daemon at *path*."""

    def __init__(self, path: Path, profile: str | None, write: Callable[[bytes], object]) -> None:
        self._path = path
        self._greeting = msgspec.json.encode({} if profile is None else {"profile": profile})
        self._write = write
        self._relay = Relay(_INSTRUCTIONS)
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._tried = threading.Event()
        self._over = threading.Event()
        self._link: _Link | None = None
        self._error: KsiError = NoDaemon(path)

    def run(self, lines: Iterator[bytes | LongLine]) -> None:
        """Pass on *lines* and what comes back until they end.

        Raise DaemonError if a daemon is there and refuses us; one that is not there is waited for.
        """
        threading.Thread(target=self._look_after_the_daemon, daemon=True).start()
        try:
            self._tried.wait()
            if isinstance(self._error, DaemonError):
                raise self._error
            for line in lines:
                self._pass_on(line)
            with self._lock:
                self._answered.wait_for(lambda: not self._relay.waiting, LAST_ANSWERS_S)
        finally:
            self._end()

    def _end(self) -> None:
        self._over.set()
        with self._lock, suppress(OSError):
            if self._link is not None:
                self._link.socket.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, line: bytes | LongLine) -> None:
        with self._lock:
            link = self._link
            limit = MAX_LINE if link is None else link.max_frame_bytes
            if isinstance(line, LongLine) or len(line) > limit:
                self._tell([_refused(line, limit)])
                return
            if link is None:
                self._tell(self._relay.alone(line, self._error))
                return
            forth, back = self._relay.asked(line)
            self._tell(back)
        # A link that breaks now is noticed by whoever reads it.
        with suppress(OSError):
            link.socket.sendall(b"".join(each + b"\n" for each in forth))

    def _look_after_the_daemon(self) -> None:
        failures = 0
        while not self._over.is_set():
            try:
                with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
                    link = self._greeted(connection)
                    failures = 0
                    self._read(link)
                    raise LinkLost(self._path)
            except KsiError as exc:
                self._lose(exc)
            except OSError as exc:
                self._lose(NoDaemon.because(self._path, exc))
            self._tried.set()
            self._over.wait(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            failures += 1

    def _greeted(self, connection: socket.socket) -> _Link:
        """Return the link that *connection* has become; raise DaemonError if we are refused."""
        connection.settimeout(GREETING_S)
        connection.connect(os.fspath(self._path))
        connection.sendall(self._greeting + b"\n")
        frames = FrameReader(MAX_FRAME)
        while chunk := connection.recv(_CHUNK):
            lines = list(frames.feed(chunk))
            if lines:
                connection.settimeout(None)
                return _Link(connection, frames, lines[1:], _limit(lines[0]))
        raise LinkLost(self._path)

    def _read(self, link: _Link) -> None:
        """Pass on what the daemon says until it is gone."""
        with self._lock:
            first = self._relay.linked()
            link.socket.sendall(b"".join(each + b"\n" for each in first))
            self._link = link
        self._tried.set()
        for line in link.rest:
            self._pass_back(line)
        while chunk := link.socket.recv(_CHUNK):
            for line in link.frames.feed(chunk):
                self._pass_back(line)

    def _pass_back(self, line: bytes) -> None:
        with self._lock:
            self._tell(self._relay.told(line))
            self._answered.notify_all()

    def _lose(self, error: KsiError) -> None:
        with self._lock:
            self._link, self._error = None, error
            self._tell(self._relay.lost(error))
            self._answered.notify_all()

    def _tell(self, lines: list[bytes]) -> None:
        # A host that takes nothing more has closed its side, or will.
        with suppress(OSError):
            for line in lines:
                self._write(line + b"\n")


def host_lines(read: Callable[[int], bytes], limit: int = MAX_LINE) -> Iterator[bytes | LongLine]:
    """Yield the lines that *read* brings, without their ends; of one over *limit* no more is kept
    than its ends. Blank lines are left out, and what has no end is no line."""
    kept, length, last = [b""], 0, b""
    while chunk := read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            length += len(part)
            if length > limit:
                yield LongLine(b"".join((*kept, part))[:_ENDS], (last + part)[-_ENDS:])
            elif line := b"".join((*kept, part)).strip():
                yield line
            kept, length, last = [b""], 0, b""
        length += len(rest)
        last = (last + rest)[-_ENDS:]
        kept.append(rest)
        if length > limit:
            kept = [b"".join(kept)[:_ENDS]]


def _refused(line: bytes | LongLine, limit: int) -> bytes:
    ends = line if isinstance(line, LongLine) else LongLine(line[:_ENDS], line[-_ENDS:])
    return too_long(id_of_long_line(*ends), limit)


def _limit(line: bytes) -> int:
    """Return how long a message may be, as the answer to our greeting says; raise DaemonError."""
    [frame] = Frames().feed(line + b"\n")
    limits: dict[str, Any] = frame.answer().read()
    return int(limits["max_frame_bytes"])

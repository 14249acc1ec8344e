from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from structlog.testing import capture_logs

from ksi_daemon.errors import UsageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.router import Channel, Context, Nothing, Router, Subscription, handles
from ksi_daemon.testing import MemoryLog, running_router, short_directory
from ksi_daemon.transports.binding import MAX_PATH
from ksi_daemon.transports.lock import CANNOT_CREATE_EXIT
from ksi_daemon.transports.unix import RESERVED, UnixServer

ROOT = Path(__file__).parents[4]
ECHO = b'{"id":1,"event":"bench:echo","data":{"text":"a"}}\n'


class Text(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class Bench:
    """What the requests ask for; *release* ends those that wait."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.channels: list[Channel] = []
        self.release = asyncio.Event()

    @handles("bench:echo")
    async def echo(self, data: Text, ctx: Context) -> dict[str, str]:
        """Return the text."""
        self.seen.append(data.text)
        return {"text": data.text}

    @handles("bench:read", effect="observe", inline=True)
    def read(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """Return at once and keep the way back."""
        if ctx.channel is not None:
            self.channels.append(ctx.channel)
        return {"source": ctx.principal.source}

    @handles("bench:big", effect="observe", inline=True)
    def big(self, data: Nothing, ctx: Context) -> str:
        """Return 10 kB."""
        return "x" * 10_000

    @handles("bench:wait")
    async def wait(self, data: Nothing, ctx: Context) -> str:
        """End when released."""
        await self.release.wait()
        return "released"


class Served:
    """A server on a private socket, its router, its log, and what it serves."""

    def __init__(self, server: UnixServer, bench: Bench, log: MemoryLog, path: Path) -> None:
        self.server = server
        self.router = server.router
        self.bench = bench
        self.log = log
        self.path = path
        self._clients: list[Client] = []

    async def connected(self, sock: socket.socket | None = None) -> Client:
        """Return a client, on *sock* if that is connected already."""
        path = self.path if sock is None else None
        streams = await asyncio.open_unix_connection(path, sock=sock, limit=1 << 22)
        client = Client(*streams)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        await self.server.stop_listening()
        self.server.close()
        for client in self._clients:
            client.writer.close()
        await until(lambda: not self.server.connections)


class Client:
    """A socket, spoken to in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> Any:
        """Return the next line; None at the end."""
        with anyio.fail_after(10):
            line = await self.reader.readline()
        return msgspec.json.decode(line) if line else None

    async def ask(self, data: bytes) -> Any:
        self.send(data)
        return await self.reply()

    async def ended(self) -> bool:
        """Say whether the server has closed the connection, when it has."""
        try:
            return await self.reply() is None
        except ConnectionResetError:
            return True


@pytest.fixture
def run_dir() -> Iterator[Path]:
    with short_directory() as path:
        yield path


def made(router: Router, path: Path, **settings: Any) -> UnixServer:
    given: dict[str, Any] = {
        "durability": "process",
        "max_frame_bytes": 4096,
        "frame_timeout_s": 10.0,
        "stall_timeout_s": 10.0,
        "max_connections": 8,
    }
    return UnixServer(router, path, **given | settings)


@asynccontextmanager
async def serving(run_dir: Path, **settings: Any) -> AsyncIterator[Served]:
    bench = Bench()
    async with running_router(bench) as (router, log):
        server = made(router, run_dir / "s", **settings)
        await server.start()
        served = Served(server, bench, log, run_dir / "s")
        try:
            yield served
        finally:
            await served.close()


async def until(true: Callable[[], object]) -> None:
    """Return when *true* is, let the loop turn meanwhile."""
    with anyio.fail_after(10):
        while not true():
            await anyio.lowlevel.checkpoint()


def failure(code: str, message: str, hint: str | None = None) -> dict[str, Any]:
    error = {"code": code, "message": message, "retryable": False}
    return error | ({"hint": hint} if hint else {})


REQUEST_HINT = 'a request is {"id": 1, "event": "namespace:action", "data": {}}'
DONE = {"ok": True, "result": {"text": "a"}, "seq": 1, "durable": "process"}


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        pytest.param(ECHO, {"id": 1} | DONE, id="number"),
        pytest.param(ECHO.replace(b"1", b'"k"'), {"id": "k"} | DONE, id="text"),
        pytest.param(ECHO.replace(b"1", b"9" * 400), {"id": int("9" * 400)} | DONE, id="S14 long"),
        pytest.param(ECHO.replace(b"1", b"null"), {"id": None} | DONE, id="null"),
        pytest.param(ECHO.replace(b'"id":1,', b""), {"id": None} | DONE, id="absent"),
        pytest.param(ECHO.replace(b"\n", b"\r\n"), {"id": 1} | DONE, id="CR LF"),
        pytest.param(b"\n \n" + ECHO, {"id": 1} | DONE, id="blank lines before"),
        pytest.param(
            b'{"id":1,"event":"bench:read"}\n',
            {"id": 1, "ok": True, "result": {"source": f"client:{os.geteuid()}/1"}},
            id="a read is not logged",
        ),
    ],
)
async def test_a_reply_carries_the_id_of_its_request(
    run_dir: Path, line: bytes, reply: dict[str, Any]
) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        assert await client.ask(line) == reply


@pytest.mark.faults
@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        pytest.param(b"hello", None, "bad_json", id="S11 prose"),
        pytest.param(b'{"id":7,"event":"a:b"', None, "bad_json", id="S11 unfinished"),
        pytest.param(b'\xef\xbb\xbf{"id":7}', None, "bad_json", id="S11 byte order mark"),
        pytest.param(b'{"id":7,"event":"a:b"} and more', None, "bad_json", id="S11 text after"),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":"\xff"}}',
            7,
            "bad_json",
            id="S11 not UTF-8 in the data",
        ),
        pytest.param(b'{"id":7,"event":"\xff"}', 7, "bad_json", id="S11 not UTF-8 in the name"),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":"\x01"}}',
            None,
            "bad_json",
            id="S11 control character",
        ),
        pytest.param(b"[" * 3000, None, "bad_request", id="S12 nesting"),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":' + b"[" * 1500 + b"]" * 1500 + b"}}",
            None,
            "bad_json",
            id="S12 nesting in the data",
        ),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":' + b"[" * 90 + b"]" * 90 + b"}}",
            7,
            "depth_limit",
            id="S12 nesting beyond the limit of events",
        ),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":NaN}}', None, "bad_json", id="S13 NaN"
        ),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":1e999}}', 7, "args_schema", id="S13 1e999"
        ),
        pytest.param(
            b'{"id":7,"event":"bench:echo","data":{"text":"\\ud800"}}',
            None,
            "bad_json",
            id="S16 lone surrogate",
        ),
        pytest.param(b'{"id":7,"event":"a\\u0000:b"}', 7, "bad_request", id="S17 NUL in the name"),
        pytest.param(
            b'{"id":7,"event":"a:b","correlation_id":"\\u0000"}',
            7,
            "bad_request",
            id="S17 NUL in an id",
        ),
        pytest.param(b"[]", None, "bad_request", id="no object"),
        pytest.param(b'{"id":7}', 7, "bad_request", id="no event"),
        pytest.param(b'{"id":7,"event":5}', 7, "bad_request", id="an event that is a number"),
        pytest.param(b'{"id":[7],"event":"a:b"}', None, "bad_request", id="an id that is a list"),
        pytest.param(b'{"id":7,"event":"a:b","extra":1}', 7, "bad_request", id="unknown field"),
        pytest.param(b'{"id":7,"event":"a:b","wait":"x"}', 7, "bad_request", id="unknown wait"),
        pytest.param(b'{"id":7,"event":"bench:echo","data":[]}', 7, "args_schema", id="data"),
        pytest.param(b'{"id":7,"event":"bench:nope"}', 7, "unknown_event", id="unknown event"),
    ],
)
async def test_what_is_wrong_gets_a_typed_error_and_the_connection_is_kept(
    run_dir: Path, line: bytes, id_: int | None, code: str
) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        reply = await client.ask(line + b"\n")
        assert (reply["id"], reply["ok"], reply["error"]["code"]) == (id_, False, code)
        assert (await client.ask(ECHO))["ok"]


async def test_an_error_says_what_to_do(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        assert await client.ask(b'{"id":7,"event":5}\n') == {
            "id": 7,
            "ok": False,
            "error": failure(
                "bad_request",
                "not a request: Expected `str`, got `int` - at `$.event`",
                REQUEST_HINT,
            ),
        }


@pytest.mark.faults
async def test_S21_pipelined_requests_are_all_answered_by_their_ids(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        client.send(
            b"".join(
                b'{"id":%d,"event":"bench:echo","data":{"text":"%d"}}\n' % (n, n)
                for n in range(1000)
            )
        )
        replies = [await client.reply() for _ in range(1000)]
    assert {reply["id"]: reply["result"]["text"] for reply in replies} == {
        n: str(n) for n in range(1000)
    }


async def test_a_frame_may_come_in_any_pieces(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        for byte in ECHO:
            client.send(bytes([byte]))
            await anyio.lowlevel.checkpoint()
        assert (await client.reply())["ok"]


async def test_a_slow_request_does_not_hold_up_the_next(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        client.send(b'{"id":"slow","event":"bench:wait"}\n')
        assert (await client.ask(ECHO))["id"] == 1
        served.bench.release.set()
        assert (await client.reply())["result"] == "released"


async def test_a_client_need_not_wait_longer_than_it_says(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        assert await client.ask(b'{"id":1,"event":"bench:wait","timeout":0.01}\n') == {
            "id": 1,
            "ok": False,
            "error": failure(
                "timeout",
                "no result of 'bench:wait' within 0.01 s",
                "the event goes on: its outcome will be in the log",
            ),
        }
        served.bench.release.set()
        await until(lambda: served.log.outcomes)
        assert served.log.outcomes[1].status == "handled"
        # The late result is not sent as well.
        assert (await client.ask(ECHO))["result"] == {"text": "a"}


@pytest.mark.parametrize("timeout", [b"-1", b"0", b"0.0"])
async def test_a_timeout_of_nothing_is_over_at_once(run_dir: Path, timeout: bytes) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        reply = await client.ask(b'{"id":1,"event":"bench:wait","timeout":%s}\n' % timeout)
        assert reply["error"]["code"] == "timeout"
        served.bench.release.set()


async def test_a_timeout_that_is_not_reached_changes_nothing(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        assert (await client.ask(ECHO.replace(b'"id"', b'"timeout":9e300,"id"')))["ok"]


async def test_wait_logged_answers_when_the_event_is_durable(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        reply = await client.ask(b'{"id":1,"event":"bench:wait","wait":"logged"}\n')
        assert reply == {"id": 1, "ok": True, "result": {}, "seq": 1, "durable": "process"}
        served.bench.release.set()


async def test_the_same_key_is_told_that_it_was_used(run_dir: Path) -> None:
    keyed = ECHO.replace(b'"id"', b'"idempotency_key":"k","id"')
    async with serving(run_dir) as served:
        first = await (await served.connected()).ask(keyed)
        again = await (await served.connected()).ask(keyed)
    assert again == first | {"duplicate": True}
    assert served.bench.seen == ["a"]


@pytest.mark.faults
async def test_S07_a_frame_that_is_begun_must_end_in_time(run_dir: Path) -> None:
    async with serving(run_dir, frame_timeout_s=0.02) as served:
        client = await served.connected()
        assert (await client.ask(ECHO + b'{"id":2'))["ok"]
        assert await client.reply() == {
            "id": None,
            "ok": False,
            "error": failure("frame_timeout", "a frame was begun and not ended within 0.02 s"),
        }
        assert await client.ended()


@pytest.mark.faults
async def test_S07_each_frame_has_a_deadline_of_its_own(run_dir: Path) -> None:
    async with serving(run_dir, frame_timeout_s=0.4) as served:
        client = await served.connected()
        head, tail = ECHO[:9], ECHO[9:]
        client.send(head)
        began = time.monotonic()
        # The stream is never between frames, and no frame is late.
        while time.monotonic() < began + 0.9:
            assert (await client.ask(tail + head))["ok"]
        assert (await client.ask(tail))["ok"]


@pytest.mark.faults
async def test_S07_silence_between_frames_has_no_deadline(run_dir: Path) -> None:
    async with serving(run_dir, frame_timeout_s=0.01) as served:
        client, other = await served.connected(), await served.connected()
        assert (await client.ask(ECHO))["ok"]
        # The other's deadline passes meanwhile.
        other.send(b"{")
        assert (await other.reply())["error"]["code"] == "frame_timeout"
        assert (await client.ask(ECHO))["ok"]


@pytest.mark.faults
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"x" * 200_000, id="no newline"),
        pytest.param(b"x" * 5_000 + b"\n", id="one line"),
        pytest.param(b"{" + b" " * 5_000, id="in the next piece"),
    ],
)
async def test_S09_a_frame_over_the_limit_ends_the_connection(run_dir: Path, data: bytes) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        assert (await client.ask(ECHO))["ok"]
        client.send(data)
        assert await client.reply() == {
            "id": None,
            "ok": False,
            "error": failure(
                "frame_too_large",
                "frame exceeds 4096 bytes",
                "raise max_frame_bytes, or send less",
            ),
        }
        assert await client.ended()
        assert (await (await served.connected()).ask(ECHO))["ok"]


@pytest.mark.faults
async def test_S10_who_is_refused_can_send_on_and_hears_why(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        for _ in range(20):
            client.send(b"x" * 100_000)
            with anyio.fail_after(10):
                await client.writer.drain()
        assert (await client.reply())["error"]["code"] == "frame_too_large"
        assert await client.reply() is None


@pytest.mark.faults
async def test_S10_who_is_refused_and_does_not_leave_is_cut_off(run_dir: Path) -> None:
    async with serving(run_dir, frame_timeout_s=0.05) as served:
        client = await served.connected()
        client.send(b"x" * 5_000)
        assert (await client.reply())["error"]["code"] == "frame_too_large"
        assert await client.reply() is None
        assert served.server.connections
        await until(lambda: not served.server.connections)


async def test_a_frame_may_be_as_large_as_the_limit(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        frame = b'{"event":"bench:echo","data":{"text":"%s"}}'
        full = frame % (b"x" * (4096 - len(frame) + 2))
        assert len(full) == 4096
        assert (await client.ask(full + b"\n"))["ok"]


async def test_who_closes_its_side_still_gets_its_replies(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        client.send(b'{"id":1,"event":"bench:wait"}\n' + ECHO)
        client.writer.write_eof()
        assert (await client.reply())["id"] == 1
        served.bench.release.set()
        assert (await client.reply())["result"] == "released"
        assert await client.ended()


async def test_a_reply_that_is_ready_when_the_end_comes_is_sent(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()

        def hang_up(event: Event, outcome: Outcome) -> None:
            client.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

        # The reply is made and the end is seen in the same turn of the loop.
        served.router.subscribe(Subscription(("bench:wait",), lambda _: None, hang_up))
        client.send(b'{"id":1,"event":"bench:wait"}\n')
        await until(lambda: served.log.events)
        served.bench.release.set()
        assert (await client.reply())["result"] == "released"
        assert await client.ended()


@pytest.mark.faults
async def test_S08_a_request_whose_client_is_gone_is_carried_out(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        with capture_logs() as logs:
            client.send(b'{"id":1,"event":"bench:wait"}\n{"id":2')
            await until(lambda: served.log.events)
            client.writer.transport.abort()
            await until(lambda: not served.server.connections)
            served.bench.release.set()
            await until(lambda: served.log.outcomes)
    assert served.log.outcomes[1].status == "handled"
    assert logs == []


FULL = failure("too_many_connections", "2 connections are open") | {"retryable": True}
UNKNOWN = b'{"id":1,"event":"system:nope"}\n'


@pytest.mark.faults
async def test_S18_one_connection_too_many_is_told_so(run_dir: Path) -> None:
    async with serving(run_dir, max_connections=2) as served:
        kept = [await served.connected() for _ in range(2)]
        for client in kept:
            assert (await client.ask(ECHO))["ok"]
        reserved = [await served.connected() for _ in range(RESERVED)]
        for client in reserved:
            assert (await client.ask(UNKNOWN))["error"]["code"] == "unknown_event"
        refused = await served.connected()
        assert await refused.ask(ECHO) == {"id": None, "ok": False, "error": FULL}
        assert await refused.ended()
        for client in (kept[0], *reserved):
            client.writer.close()
        await until(lambda: len(served.server.connections) == 1)
        assert (await (await served.connected()).ask(ECHO))["ok"]
        assert (await kept[1].ask(ECHO))["ok"]


@pytest.mark.faults
async def test_S22_a_reserved_place_is_for_the_systems_events_only(run_dir: Path) -> None:
    async with serving(run_dir, max_connections=0) as served:
        client = await served.connected()
        assert (await client.ask(UNKNOWN))["error"]["code"] == "unknown_event"
        assert await client.ask(ECHO) == {
            "id": 1,
            "ok": False,
            "error": failure("too_many_connections", "0 connections are open")
            | {"retryable": True},
        }
        assert await client.ended()
        assert served.bench.seen == []


@pytest.mark.faults
async def test_S22_a_reserved_place_is_nobodys_for_long(run_dir: Path) -> None:
    async with serving(run_dir, max_connections=0, frame_timeout_s=0.02) as served:
        assert await (await served.connected()).ended()


ASK_AS_NOBODY = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"event":"bench:echo","data":{"text":"a"}}\\n' * 10)
s.shutdown(socket.SHUT_WR)
sys.stdout.write(s.makefile().read())
"""


@pytest.mark.faults
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become another user, by setpriv",
)
@pytest.mark.parametrize(
    ("modes", "answer"),
    [
        pytest.param((), b"", id="kept out by the modes"),
        pytest.param((0o755, 0o666), b"not_authorized", id="told so where these were opened"),
    ],
)
async def test_S06_another_user_gets_nothing(
    run_dir: Path, modes: tuple[int, ...], answer: bytes
) -> None:
    async with serving(run_dir) as served:
        for path, mode in zip((run_dir, served.path), modes, strict=False):
            os.chmod(path, mode)
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        # The system's own interpreter: the one of the tests may be where nobody can read it.
        python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or sys.executable
        argv = [*as_nobody, python, "-I", "-c", ASK_AS_NOBODY, str(served.path)]
        done = await anyio.run_process(argv, check=False, stderr=subprocess.PIPE)
        assert answer in done.stdout
        assert bool(done.stdout) == bool(modes)
        assert (b"PermissionError" in done.stderr) == (not modes)
        assert served.bench.seen == []


async def test_S20_a_client_that_does_not_read_is_read_no_further(run_dir: Path) -> None:
    request = b'{"id":1,"event":"bench:big"}\n'
    async with serving(run_dir) as served:
        sent, stuck = 0, socket.socket(socket.AF_UNIX)
        with stuck:
            stuck.setblocking(False)
            stuck.connect(str(served.path))
            await until(lambda: served.server.connections)
            refused = 0
            while refused < 200:
                try:
                    sent += stuck.send(request * 10)
                    refused = 0
                except BlockingIOError:
                    refused += 1
                    await anyio.lowlevel.checkpoint()
            # Asked for a hundred times of what is held; the rest waits in the kernel, as requests.
            assert sent < 4_000_000
            assert served.router.counts["bench:big"] < 300
            other = await served.connected()
            assert (await other.ask(ECHO))["ok"]
            # Who begins to read gets all.
            client = await served.connected(stuck)
            for _ in range(sent // len(request)):
                assert len((await client.reply())["result"]) == 10_000


async def test_S20_a_client_that_does_not_read_for_long_is_cut_off(run_dir: Path) -> None:
    async with serving(run_dir, stall_timeout_s=0.05) as served:
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.connect(str(served.path))
            stuck.sendall(b'{"event":"bench:big"}\n' * 100)
            await until(lambda: served.server.connections)
            await until(lambda: not served.server.connections)


async def test_who_reads_late_is_not_blamed_for_a_frame_that_we_did_not_read(
    run_dir: Path,
) -> None:
    request = b'{"id":1,"event":"bench:big"}\n'
    async with serving(run_dir, frame_timeout_s=0.05) as served:
        client = await served.connected()
        # More than one read, so that a frame is open when the reading is paused.
        client.send(request * 20_000)
        other = await served.connected()
        other.send(b"{")
        assert (await other.reply())["error"]["code"] == "frame_timeout"
        for _ in range(20_000):
            assert (await client.reply())["ok"]


async def test_a_frame_that_was_open_at_the_pause_must_end_in_time_after_it(run_dir: Path) -> None:
    async with serving(run_dir, frame_timeout_s=0.02) as served:
        client = await served.connected()
        client.send(b'{"id":1,"event":"bench:big"}\n' * 100 + b"{")
        for _ in range(100):
            assert (await client.reply())["ok"]
        assert (await client.reply())["error"]["code"] == "frame_timeout"


async def channel(served: Served, client: Client) -> Channel:
    assert (await client.ask(b'{"event":"bench:read"}\n'))["ok"]
    return served.bench.channels[-1]


async def test_what_is_pushed_arrives_between_the_replies(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        back = await channel(served, client)
        assert back.push(b'{"pushed":1}\n')
        assert await client.reply() == {"pushed": 1}


async def test_pushes_stop_when_the_client_does_not_keep_up_and_go_on_when_it_has(
    run_dir: Path,
) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        back = await channel(served, client)
        pushed = 0
        drained: list[int] = []
        line = b'"%s"\n' % (b"x" * 1_000)
        with anyio.fail_after(10):
            while back.push(line):
                pushed += 1
                if not pushed % 50:
                    await anyio.lowlevel.checkpoint()
        back.on_drained(lambda: drained.append(pushed))
        assert back.push(b'"the last word"\n', always=True)
        assert drained == []
        for _ in range(pushed):
            await client.reply()
        assert await client.reply() == "the last word"
        await until(lambda: drained)
        assert drained == [pushed]
        assert back.push(line)


async def test_who_has_caught_up_is_told_at_once(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        back = await channel(served, await served.connected())
        told: list[str] = []
        back.on_drained(lambda: told.append("drained"))
        await until(lambda: told)


async def test_a_connection_that_ends_takes_no_pushes_and_says_so_once(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        back = await channel(served, client)
        told: list[str] = []
        back.on_closed(lambda: told.append("closed"))
        client.writer.close()
        await until(lambda: told)
        assert not back.push(b"{}\n", always=True)
        back.on_drained(lambda: told.append("drained"))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert told == ["closed"]


@pytest.mark.faults
async def test_S05_the_socket_is_private_under_any_umask(run_dir: Path) -> None:
    before = os.umask(0)
    try:
        async with serving(run_dir) as served:
            assert served.path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


@pytest.mark.faults
async def test_S01_a_stale_socket_is_replaced(run_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(run_dir / "s"))
    async with serving(run_dir) as served:
        assert (await (await served.connected()).ask(ECHO))["ok"]


def a_file(path: Path) -> None:
    path.write_text("precious")


def a_directory(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    a_file(path.with_name("target"))
    path.symlink_to("target")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.faults
@pytest.mark.parametrize("put", [a_file, a_directory, a_link, a_dangling_link])
async def test_S03_what_is_no_socket_is_left_alone(
    run_dir: Path, put: Callable[[Path], None]
) -> None:
    path = run_dir / "s"
    put(path)
    before = path.lstat().st_ino
    async with running_router() as (router, _):
        with pytest.raises(UsageError) as caught:
            await made(router, path).start()
    assert caught.value.message == f"'{path}' exists and is not a socket"
    assert caught.value.exit_code == CANNOT_CREATE_EXIT
    assert path.lstat().st_ino == before


@pytest.mark.faults
async def test_S04_a_path_that_is_too_long_is_refused_with_its_length(run_dir: Path) -> None:
    fits = run_dir / ("x" * (MAX_PATH - len(str(run_dir)) - 1))
    async with running_router() as (router, _):
        server = made(router, fits)
        await server.start()
        await server.stop_listening()
        with pytest.raises(UsageError) as caught:
            await made(router, fits.with_name(fits.name + "x")).start()
    assert caught.value.message == f"the socket path '{fits}x' has 108 bytes, the limit is 107"
    assert (caught.value.hint, caught.value.exit_code) == (
        "use a shorter --var",
        CANNOT_CREATE_EXIT,
    )


async def test_a_directory_that_is_not_there(run_dir: Path) -> None:
    async with running_router() as (router, _):
        with pytest.raises(UsageError, match=r"cannot bind .*: No such file or directory"):
            await made(router, run_dir / "absent" / "s").start()


async def test_who_stops_listening_keeps_who_is_there(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        client = await served.connected()
        assert (await client.ask(ECHO))["ok"]
        await served.server.stop_listening()
        assert not served.path.exists()
        with pytest.raises(FileNotFoundError):
            await served.connected()
        assert (await client.ask(ECHO))["ok"]
        served.server.close()
        assert await client.ended()


async def test_who_stops_listening_leaves_the_socket_of_another(run_dir: Path) -> None:
    async with serving(run_dir) as served:
        served.path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(served.path))
            await served.server.stop_listening()
            assert served.path.is_socket()

"""Handlers of other people, in a running daemon (FAULTS 3.3, H1-H5)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_daemon.testing import short_directory
from tests.faults.harness import Daemon, until
from tests.faults.unharmed import Lines, health, unharmed

pytestmark = pytest.mark.faults

PLUGIN: Final = '''
import asyncio
import threading
import time

from msgspec import Struct

from ksi_daemon.router import Context, handles


class Nothing(Struct):
    pass


@handles("bad:raise")
async def one(data: Nothing, ctx: Context) -> None:
    """Raise an error."""
    raise ValueError("no")


@handles("bad:group")
async def many(data: Nothing, ctx: Context) -> None:
    """Raise several errors at once."""
    raise ExceptionGroup("both", [ValueError("no"), TypeError("neither")])


@handles("bad:exit")
async def leave(data: Nothing, ctx: Context) -> None:
    """Try to end the process."""
    raise SystemExit(3)


@handles("bad:cancel")
async def cancel(data: Nothing, ctx: Context) -> None:
    """Raise what only the loop should."""
    raise asyncio.CancelledError


@handles("bad:hang")
async def hang(data: Nothing, ctx: Context) -> None:
    """Never end."""
    await asyncio.Event().wait()


@handles("bad:thread")
def thread(data: Nothing, ctx: Context) -> None:
    """Never end, in a thread."""
    threading.Event().wait(60)


@handles("bad:block")
async def block(data: Nothing, ctx: Context) -> None:
    """Hold up the loop."""
    time.sleep(3)
'''


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as path:
        var = path / "v"
        (var / "plugins").mkdir(parents=True, mode=0o700)
        (var / "plugins" / "bad.py").write_text(PLUGIN, encoding="utf-8")
        yield var


def ask(daemon: Daemon, event: str) -> Any:
    with Lines(daemon.socket) as client:
        return client.ask(b'{"id":1,"event":"%s"}' % event.encode())


def status(daemon: Daemon, event: str) -> Any:
    """Return how the last *event* ended, as the log says."""
    asked = b'{"event":"monitor:get_events","data":{"patterns":["%s"]}}' % event.encode()
    with Lines(daemon.socket) as client:
        reply = client.ask(asked)
    return reply["result"]["events"][-1]["status"]


@pytest.mark.parametrize("event", ["bad:raise", "bad:group", "bad:exit", "bad:cancel"])
def test_H1_a_handler_that_raises_costs_its_own_event(var: Path, event: str) -> None:
    with unharmed(var, quiet=False) as daemon:
        error = ask(daemon, event)["error"]
        assert error["code"] == "handler_failed"
        assert status(daemon, event) == "failed"
        assert daemon.said.count("handler_failed") == 1


@pytest.mark.parametrize("event", ["bad:hang", "bad:thread"])
def test_H2_a_handler_that_hangs_is_given_up(var: Path, event: str) -> None:
    with unharmed(var, env={"KSI_HANDLER_TIMEOUT_S": "0.2"}) as daemon:
        assert ask(daemon, event)["error"]["code"] == "handler_timeout"
        assert status(daemon, event) == "timeout"
        assert health(daemon)["handlers_running"] == 0


def test_H3_a_handler_that_blocks_the_loop_is_named_while_it_does(var: Path) -> None:
    with unharmed(var) as daemon, Lines(daemon.socket) as client:
        client.send(b'{"id":1,"event":"bad:block"}\n')
        began = time.monotonic()
        until(lambda: "loop_blocked" in daemon.said)
        assert time.monotonic() - began < 3
        assert "bad:block" in daemon.said
        assert client.reply()["ok"]
        until(lambda: "loop_runs_again" in daemon.said)


def test_H5_an_unknown_event_is_logged_and_the_nearest_named(var: Path) -> None:
    with unharmed(var) as daemon:
        error = ask(daemon, "bad:rise")["error"]
        assert (error["code"], error["hint"]) == ("unknown_event", "did you mean 'bad:raise'?")
        assert status(daemon, "bad:rise") == "unknown"

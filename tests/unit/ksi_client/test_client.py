from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksi_client.client import connect
from ksi_client.errors import DaemonError, LinkLost, NoDaemon, NotAnswering
from ksi_client.testing import Fault, StubDaemon
from ksi_daemon.errors import Conflict

HOUR_S = 3600.0


async def test_a_request_returns_the_result(stub: StubDaemon) -> None:
    async with connect(stub.path) as ksi:
        assert await ksi.request("state:get", {"key": "k"}) == {"value": 7, "version": 1}
    [asked] = stub.requests
    assert (asked.event, bytes(asked.data)) == ("state:get", b'{"key":"k"}')


async def test_many_requests_at_once_each_get_their_own_answer(stub: StubDaemon) -> None:
    stub.answers["test:echo"] = lambda data: data
    async with connect(stub.path) as ksi:
        results = await asyncio.gather(*(ksi.request("test:echo", {"n": n}) for n in range(200)))
    assert results == [{"n": n} for n in range(200)]


async def test_a_frame_of_several_megabytes_comes_whole(stub: StubDaemon) -> None:
    text = "é" * 2_000_000
    stub.answers["test:large"] = lambda data: {"text": data["text"]}
    async with connect(stub.path) as ksi:
        assert await ksi.request("test:large", {"text": text}) == {"text": text}


async def test_a_refusal_raises_what_the_daemon_said(stub: StubDaemon) -> None:
    async with connect(stub.path) as ksi:
        with pytest.raises(DaemonError) as raised:
            await ksi.request("state:gett")
    assert (raised.value.code, raised.value.message, raised.value.hint) == (
        "unknown_event",
        "no handler for event 'state:gett'",
        "did you mean 'state:get'?",
    )


async def test_no_daemon_is_noticed_at_once(run_dir: Path) -> None:
    with pytest.raises(NoDaemon, match="no daemon at"):
        async with connect(run_dir / "absent", patience_s=HOUR_S):
            pass


@pytest.mark.parametrize("fault", ["close", "half", "stranger"])
async def test_a_request_is_taken_once_whatever_the_connection_does(
    stub: StubDaemon, fault: Fault
) -> None:
    taken: list[Any] = []

    def take(data: Any) -> dict[str, int]:
        taken.append(data)
        return {"version": len(taken)}

    stub.answers["state:set"] = take
    stub.faults.extend([fault, fault])
    async with connect(stub.path) as ksi:
        assert await ksi.request("state:set", {"key": "k", "value": 1}) == {"version": 1}
    assert len({request.idempotency_key for request in stub.requests}) == 1
    assert taken == [{"key": "k", "value": 1}]


async def test_what_is_no_frame_is_not_asked_again(stub: StubDaemon) -> None:
    stub.faults.append("garbage")
    async with connect(stub.path) as ksi:
        with pytest.raises(DaemonError, match="no frame"):
            await ksi.request("state:get")
        assert await ksi.request("state:get") == {"value": 7, "version": 1}
    assert len(stub.requests) == 2


async def test_a_restart_is_waited_for(stub: StubDaemon) -> None:
    async with connect(stub.path, patience_s=HOUR_S) as ksi:
        stub.stop()
        waiting = asyncio.ensure_future(ksi.request("state:get"))
        await asyncio.to_thread(stub.start)
        assert await waiting == {"value": 7, "version": 1}


async def test_patience_ends(stub: StubDaemon) -> None:
    async with connect(stub.path, patience_s=0) as ksi:
        stub.stop()
        with pytest.raises(NoDaemon):
            await ksi.request("state:get")


async def test_a_daemon_that_hangs_is_given_up(
    stub: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksi_client.client.GRACE_S", 0.0)
    stub.faults.append("silence")
    async with connect(stub.path) as ksi:
        with pytest.raises(DaemonError, match=r"no answer to 'state:get' within 0\.01 s") as late:
            await ksi.request("state:get", timeout=0.01)
    assert late.value.code == "timeout"


async def test_a_daemon_that_does_not_say_how_it_is_is_not_waited_for(stub: StubDaemon) -> None:
    stub.faults.extend(["silence"] * 3)
    async with connect(stub.path, quiet_s=0.05) as ksi:
        asked = [ksi.request("state:get"), ksi.request("state:get")]
        errors = await asyncio.gather(*asked, return_exceptions=True)
    for error in errors:
        assert isinstance(error, NotAnswering)
        assert (error.code, error.pid) == ("not_answering", os.getpid())
    # Those who wait at the same time ask once.
    assert [request.event for request in stub.requests] == [
        "state:get",
        "state:get",
        "system:health",
    ]


@pytest.fixture
def daemon(run_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A daemon's process and its socket."""
    program = [sys.executable, "-m", "ksi_daemon", "--var", str(run_dir / "v")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().removeprefix("ready ").strip()
        process.kill()


async def test_a_stopped_daemon_is_told_and_takes_up_again(
    daemon: tuple[subprocess.Popen[str], str],
) -> None:
    process, path = daemon
    async with connect(path, quiet_s=0.2) as ksi:
        await ksi.request("system:mark", {"label": "before"})
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(NotAnswering, match=f"pid {process.pid}, does not answer"):
            await ksi.request("system:mark", {"label": "x"})
        process.send_signal(signal.SIGCONT)
        assert (await ksi.ask("system:mark", {"label": "after"})).seq


async def test_a_subscription_that_does_not_begin_is_not_waited_for(run_dir: Path) -> None:
    with socket.create_server(str(run_dir / "s"), family=socket.AF_UNIX):
        async with connect(run_dir / "s", quiet_s=0.05) as ksi:
            with pytest.raises(NotAnswering):
                await anext(aiter(ksi.subscribe()))


async def test_an_answer_may_take_longer_than_the_silence_that_makes_us_ask(
    stub: StubDaemon,
) -> None:
    asked = threading.Event()

    def health(data: object) -> dict[str, str]:
        asked.set()
        return {"status": "ok"}

    def slow(data: object) -> str:
        assert asked.wait(HOUR_S)
        return "at last"

    stub.answers |= {"system:health": health, "model:ask": slow}
    async with connect(stub.path, quiet_s=0.5) as ksi:
        assert await ksi.request("model:ask") == "at last"


async def test_a_socket_that_takes_no_connection_is_not_waited_for(run_dir: Path) -> None:
    path = str(run_dir / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        with pytest.raises(NotAnswering):
            async with connect(path):
                pass


async def test_closing_ends_requests_under_way(stub: StubDaemon) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    stub.answers["state:get"] = lambda data: loop.call_soon_threadsafe(asked.set) and None
    stub.faults.append("silence")
    async with connect(stub.path) as ksi:
        waiting = asyncio.ensure_future(ksi.request("state:get"))
        await asked.wait()
    with pytest.raises(LinkLost):
        await waiting


@pytest.mark.parametrize(
    ("call", "event", "data"),
    [
        pytest.param(
            lambda ksi: ksi.spawn("agents/greeter"),
            "agent:spawn",
            b'{"component":"agents/greeter"}',
            id="spawn says only what was given",
        ),
        pytest.param(
            lambda ksi: ksi.spawn(system="Be brief.", allow=("a:*",), profile="p"),
            "agent:spawn",
            b'{"system":"Be brief.","allow":["a:*"],"profile":"p"}',
            id="spawn with further fields",
        ),
        pytest.param(
            lambda ksi: ksi.send("ada", "hello", untrusted=True),
            "agent:send",
            b'{"agent_id":"ada","message":"hello","wait":true,"untrusted":true}',
            id="send waits",
        ),
    ],
)
async def test_the_short_forms(
    stub: StubDaemon, call: Callable[[Any], Any], event: str, data: bytes
) -> None:
    stub.answers |= {"agent:spawn": {"agent_id": "ada"}, "agent:send": {"text": "hi"}}
    async with connect(stub.path) as ksi:
        assert await call(ksi) == stub.answers[event]
    [asked] = stub.requests
    assert (asked.event, bytes(asked.data)) == (event, data)


async def test_a_subscription_begins_with_the_backlog(stub: StubDaemon) -> None:
    for name in ("a:one", "b:two", "a:three"):
        stub.emit(name)
    seen = []
    async with connect(stub.path) as ksi:
        async for push in ksi.subscribe("a:*", after_seq=0):
            seen.append(push.seq)
            if push.seq == 3:
                stub.emit("a:live")
            if push.seq == 4:
                break
    assert seen == [1, 3, 4]


async def test_a_refused_subscription_raises(stub: StubDaemon) -> None:
    stub.answers["monitor:subscribe"] = _refuse
    async with connect(stub.path) as ksi:
        with pytest.raises(DaemonError, match="not now"):
            await anext(aiter(ksi.subscribe()))


async def test_closing_ends_subscriptions(stub: StubDaemon) -> None:
    stub.emit("a:b")
    async with connect(stub.path) as ksi:
        pushes = aiter(ksi.subscribe(after_seq=0))
        first = await anext(pushes)
    assert first.seq == 1
    assert [push async for push in pushes] == []


async def test_a_subscription_that_lost_its_daemon_gives_up(stub: StubDaemon) -> None:
    stub.emit("a:b")
    async with connect(stub.path, patience_s=0.05) as ksi:
        pushes = aiter(ksi.subscribe(after_seq=0))
        await anext(pushes)
        stub.stop()
        with pytest.raises(NoDaemon):
            await anext(pushes)


async def test_patience_begins_anew_with_each_connection(stub: StubDaemon) -> None:
    stub.emit("a:b")
    stub.pushes.extend([0] * 10)
    async with connect(stub.path, patience_s=0.06) as ksi:
        assert (await anext(aiter(ksi.subscribe(after_seq=0)))).seq == 1
    assert len(stub.requests) == 11


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(st.integers(0, 6), max_size=8), before=st.integers(1, 20), live=st.integers(0, 9)
)
async def test_no_gap_and_no_duplicate_wherever_the_connection_is_cut(
    run_dir: Path, cuts: list[int], before: int, live: int
) -> None:
    total = before + live
    with StubDaemon(run_dir / "p", pushes=cuts) as stub:
        for _ in range(before):
            stub.emit("a:b")
        seen = []
        async with connect(stub.path) as ksi:
            async for push in ksi.subscribe(after_seq=0):
                seen.append(push.seq)
                if len(seen) >= before and len(stub.log) < total:
                    stub.emit("a:b")
                if len(seen) == total:
                    break
            else:
                pytest.fail("the subscription ended")
    assert seen == list(range(1, total + 1))


async def test_an_outcome_that_fell_into_a_break_comes_all_the_same(stub: StubDaemon) -> None:
    stub.emit("a:b", status="received")
    stub.pushes.append(1)
    seen = []
    async with connect(stub.path) as ksi:
        async for push in ksi.subscribe(after_seq=0, include=["outcomes"]):
            seen.append((push.seq, push.outcome.status if push.outcome else "told"))
            if len(seen) == 1:
                stub.end(1, "failed")
                stub.emit("a:c")
            if len(seen) == 3:
                break
    assert seen == [(1, "told"), (1, "failed"), (2, "told")]


def _refuse(data: object) -> None:
    raise Conflict("not now")

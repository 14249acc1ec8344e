from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from ksi_client.blocking import BlockingClient
from ksi_client.errors import DaemonError, NoDaemon, NotAnswering
from ksi_client.testing import Fault, StubDaemon

HOUR_S = 3600.0
PATIENCE_S = 60.0


def test_requests_share_a_connection(stub: StubDaemon) -> None:
    with BlockingClient(stub.path) as ksi:
        assert ksi.request("state:get", {"key": "k"}) == {"value": 7, "version": 1}
        assert ksi.request("state:get") == {"value": 7, "version": 1}
    assert [request.id for request in stub.requests] == [1, 2]


def test_an_answer_says_whether_it_was_a_duplicate(stub: StubDaemon) -> None:
    with BlockingClient(stub.path) as ksi:
        answers = [ksi.ask("state:get", idempotency_key="k") for _ in range(2)]
    assert [answer.duplicate for answer in answers] == [False, True]


def test_a_frame_of_several_megabytes_comes_whole(stub: StubDaemon) -> None:
    stub.answers["test:echo"] = lambda data: data
    text = "é" * 2_000_000
    with BlockingClient(stub.path) as ksi:
        assert ksi.request("test:echo", {"text": text}) == {"text": text}


def test_a_refusal_raises_what_the_daemon_said(stub: StubDaemon) -> None:
    with BlockingClient(stub.path) as ksi, pytest.raises(DaemonError, match="no handler") as raised:
        ksi.request("state:gett")
    assert raised.value.hint == "did you mean 'state:get'?"


@pytest.mark.parametrize("fault", ["close", "half", "stranger"])
def test_a_request_is_taken_once_whatever_the_connection_does(
    stub: StubDaemon, fault: Fault
) -> None:
    stub.faults.extend([fault, fault])
    with BlockingClient(stub.path) as ksi:
        assert ksi.request("state:get") == {"value": 7, "version": 1}
    assert len({request.idempotency_key for request in stub.requests}) == 1


def test_what_is_no_frame_is_not_asked_again(stub: StubDaemon) -> None:
    stub.faults.append("garbage")
    with BlockingClient(stub.path) as ksi, pytest.raises(DaemonError, match="no frame"):
        ksi.request("state:get")
    assert len(stub.requests) == 1


def test_no_daemon_is_noticed_at_once(run_dir: Path) -> None:
    with (
        BlockingClient(run_dir / "absent", patience_s=HOUR_S) as ksi,
        pytest.raises(NoDaemon, match="no daemon at"),
    ):
        ksi.request("state:get")


def test_a_stream_needs_a_daemon_to_begin_with(run_dir: Path) -> None:
    with BlockingClient(run_dir / "absent", patience_s=HOUR_S) as ksi, pytest.raises(NoDaemon):
        next(ksi.stream())


def test_a_restart_between_two_requests_is_not_noticed(stub: StubDaemon) -> None:
    with BlockingClient(stub.path) as ksi:
        ksi.request("state:get")
        stub.stop()
        stub.start()
        assert ksi.request("state:get") == {"value": 7, "version": 1}


def test_a_daemon_that_hangs_is_given_up(stub: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksi_client.blocking.GRACE_S", 0.0)
    stub.faults.append("silence")
    with BlockingClient(stub.path) as ksi:
        with pytest.raises(DaemonError, match=r"no answer to 'state:get' within 0\.01 s"):
            ksi.request("state:get", timeout=0.01)
        assert ksi.request("state:get") == {"value": 7, "version": 1}


def test_a_daemon_that_does_not_say_how_it_is_is_not_waited_for(stub: StubDaemon) -> None:
    stub.faults.extend(["silence", "silence"])
    with BlockingClient(stub.path, quiet_s=0.05) as ksi, pytest.raises(NotAnswering) as raised:
        ksi.request("state:get")
    error = raised.value
    assert (error.code, error.pid) == ("not_answering", os.getpid())
    assert f"{stub.path!r}, pid {os.getpid()}, does not answer" in error.message
    assert f"kill -CONT {os.getpid()} lets it go on" in (error.hint or "")
    assert [request.event for request in stub.requests] == ["state:get", "system:health"]


def test_a_stream_that_does_not_begin_is_not_waited_for(run_dir: Path) -> None:
    with (
        socket.create_server(str(run_dir / "s"), family=socket.AF_UNIX),
        BlockingClient(run_dir / "s", quiet_s=0.05) as ksi,
        pytest.raises(NotAnswering),
    ):
        next(ksi.stream())


def test_an_answer_may_take_longer_than_the_silence_that_makes_us_ask(stub: StubDaemon) -> None:
    asked = threading.Event()

    def health(data: object) -> dict[str, str]:
        asked.set()
        return {"status": "ok"}

    def slow(data: object) -> str:
        assert asked.wait(PATIENCE_S)
        return "at last"

    stub.answers |= {"system:health": health, "model:ask": slow}
    with BlockingClient(stub.path, quiet_s=1) as ksi:
        assert ksi.request("model:ask") == "at last"


def test_a_socket_that_takes_no_connection_is_not_waited_for(run_dir: Path) -> None:
    path = str(run_dir / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        with BlockingClient(path, quiet_s=0.05) as ksi, pytest.raises(NotAnswering):
            ksi.request("state:get")


def test_what_does_not_go_out_is_noticed(run_dir: Path) -> None:
    with (
        socket.create_server(str(run_dir / "s"), family=socket.AF_UNIX),
        BlockingClient(run_dir / "s", quiet_s=0.05) as ksi,
        pytest.raises(NotAnswering),
    ):
        ksi.request("a:b", {"text": "x" * 10_000_000})


def test_a_stream_may_end_when_nothing_comes(stub: StubDaemon) -> None:
    stub.emit("a:b")
    with BlockingClient(stub.path) as ksi:
        assert [push.seq for push in ksi.stream(after_seq=0, idle_s=0.05)] == [1]


def test_a_stream_resumes_where_it_was_cut(stub: StubDaemon) -> None:
    for _ in range(5):
        stub.emit("a:b")
    stub.pushes.extend([2, 0, 1])
    lost: list[NoDaemon] = []
    with BlockingClient(stub.path) as ksi:
        pushes = islice(ksi.stream("a:*", after_seq=0, on_lost=lost.append), 5)
        assert [push.seq for push in pushes] == [1, 2, 3, 4, 5]
    assert [str(error).partition(": ")[2] for error in lost] == [
        "the connection broke before the answer came"
    ] * 3


def test_patience_begins_anew_with_each_connection(stub: StubDaemon) -> None:
    stub.emit("a:b")
    stub.pushes.extend([0] * 10)
    with BlockingClient(stub.path, patience_s=0.06) as ksi:
        assert next(ksi.stream(after_seq=0)).seq == 1
    assert len(stub.requests) == 11


def test_what_was_sent_in_part_is_not_continued(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksi_client.blocking.GRACE_S", 0.0)
    with (
        socket.create_server(str(run_dir / "s"), family=socket.AF_UNIX) as listener,
        BlockingClient(run_dir / "s") as ksi,
        ThreadPoolExecutor() as threads,
    ):
        with pytest.raises(DaemonError, match="no answer"):
            ksi.request("a:b", {"text": "x" * 10_000_000}, timeout=0.01)
        answered = threads.submit(answer_the_second, listener)
        assert ksi.request("a:b", timeout=5) == "ok"
        assert answered.result().endswith(b"}\n")


def answer_the_second(listener: socket.socket) -> bytes:
    """Leave the first connection alone; answer the request of the second."""
    first, _ = listener.accept()
    second, _ = listener.accept()
    with first, second:
        line = second.recv(65536)
        second.sendall(b'{"id":2,"ok":true,"result":"ok"}\n')
        return line


def test_a_stream_whose_daemon_went_away_gives_up(stub: StubDaemon) -> None:
    stub.emit("a:b")
    with BlockingClient(stub.path, patience_s=0.05) as ksi:
        pushes = ksi.stream(after_seq=0)
        next(pushes)
        stub.stop()
        with pytest.raises(NoDaemon):
            next(pushes)

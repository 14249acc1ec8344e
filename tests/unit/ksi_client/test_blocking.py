from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from ksi_client.blocking import BlockingClient
from ksi_client.errors import DaemonError, NoDaemon
from ksi_client.testing import Fault, StubDaemon

HOUR_S = 3600.0


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

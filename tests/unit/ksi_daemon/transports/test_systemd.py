"""What the service manager is told, and the sockets that it hands over."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ksi_daemon.errors import UsageError
from ksi_daemon.testing import short_directory
from ksi_daemon.transports import systemd
from ksi_daemon.transports.systemd import ServiceManager


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as made:
        yield made


@pytest.fixture
def manager(directory: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(directory / "notify"))
        listening.settimeout(10)
        yield listening


def test_what_is_told(manager: socket.socket) -> None:
    told = ServiceManager({"NOTIFY_SOCKET": manager.getsockname()})
    told.ready("serving")
    assert manager.recv(1000) == b"READY=1\nSTATUS=serving"
    told.reloading()
    assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    told.stopping()
    assert manager.recv(1000) == b"STOPPING=1"


def test_an_address_without_a_file() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0ksi-test-{os.getpid()}")
        listening.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": f"@ksi-test-{os.getpid()}"}).stopping()
        assert listening.recv(1000) == b"STOPPING=1"


@pytest.mark.parametrize(
    "address", ["", "/nowhere/at/all", "@ksi-nobody", "x" * 200], ids=["no", "gone", "@", "long"]
)
def test_a_manager_that_is_not_there_costs_nothing(address: str) -> None:
    ServiceManager({"NOTIFY_SOCKET": address}).ready("serving")


async def test_the_watchdog_is_fed(manager: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "20000"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ServiceManager(environ).keep_alive)
        for _ in range(3):
            assert await anyio.to_thread.run_sync(manager.recv, 1000) == b"WATCHDOG=1"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="none"),
        pytest.param({"WATCHDOG_USEC": "soon"}, id="no number"),
        pytest.param({"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}, id="of another process"),
    ],
)
async def test_no_watchdog_ends_at_once(environ: dict[str, str]) -> None:
    with anyio.fail_after(10):
        await ServiceManager(environ).keep_alive()


@pytest.fixture
def handed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a process that is handed the socket ``directory / "s"``."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory / "s"))
        listening.listen()
        monkeypatch.setattr(systemd, "_FIRST_DESCRIPTOR", os.dup(listening.fileno()))
        yield {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}


def test_a_socket_is_handed_over(handed: dict[str, str], directory: Path) -> None:
    given = ServiceManager(handed).listener(directory / "s")
    assert given is not None
    with given, socket.socket(socket.AF_UNIX) as client:
        assert not given.get_inheritable()
        client.connect(str(directory / "s"))
        given.setblocking(True)
        given.accept()[0].close()


def test_a_socket_that_no_client_would_find(handed: dict[str, str], directory: Path) -> None:
    other = ServiceManager(handed)
    with pytest.raises(UsageError, match="hands over") as caught:
        other.listener(directory / "other")
    other.close()
    assert caught.value.exit_code == 73


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="none"),
        pytest.param({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, id="of another process"),
        pytest.param({"LISTEN_PID": "x", "LISTEN_FDS": "1"}, id="no number"),
    ],
)
def test_no_socket_is_handed_over(environ: dict[str, str]) -> None:
    assert ServiceManager(environ).listener(Path("/x")) is None

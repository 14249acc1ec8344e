from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ksi_daemon.errors import UsageError
from ksi_daemon.transports.lock import (
    ALREADY_RUNNING_EXIT,
    CANNOT_CREATE_EXIT,
    held,
    private_directory,
)

HOLDER = """
import sys, time
from pathlib import Path
from ksi_daemon.transports.lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

ROOT = Path(__file__).parents[4]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def _umask_000() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_the_holder_is_named_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("a longer text of an earlier holder")
    with held(path):
        assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.faults
def test_S02_the_second_is_told_who_holds_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(UsageError) as caught, held(tmp_path / "lock"):
        pass
    assert caught.value.message == f"already running: pid {holder.pid} holds '{tmp_path}/lock'"
    assert (caught.value.code, caught.value.exit_code) == ("already_running", ALREADY_RUNNING_EXIT)
    assert (tmp_path / "lock").read_text() == f"{holder.pid}\n"


@pytest.mark.faults
def test_S01_the_kernel_frees_the_lock_of_a_killed_process(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with held(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_the_lock_is_free_after_the_block(tmp_path: Path) -> None:
    for _ in range(2):
        with held(tmp_path / "lock"):
            pass


@pytest.mark.usefixtures("_umask_000")
@pytest.mark.faults
def test_S05_files_are_private_under_any_umask(tmp_path: Path) -> None:
    private_directory(tmp_path / "var" / "run")
    with held(tmp_path / "lock"):
        assert mode(tmp_path / "lock") == 0o600
    assert mode(tmp_path / "var" / "run") == 0o700


def test_a_directory_of_ours_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var").chmod(0o755)
    private_directory(tmp_path / "var")
    assert mode(tmp_path / "var") == 0o700


@pytest.mark.parametrize(
    ("lock", "reason"),
    [
        pytest.param("absent/lock", "No such file or directory", id="no directory"),
        pytest.param("directory", "Is a directory", id="a directory"),
        pytest.param("link", "Too many levels of symbolic links", id="a symlink"),
    ],
)
def test_a_lock_that_cannot_be_opened(tmp_path: Path, lock: str, reason: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(UsageError) as caught, held(tmp_path / lock):
        pass
    assert caught.value.message == f"cannot open the lock '{tmp_path}/{lock}': {reason}"
    assert caught.value.exit_code == CANNOT_CREATE_EXIT
    assert not (tmp_path / "target").exists()


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("")
    with pytest.raises(UsageError) as caught:
        private_directory(tmp_path / "var")
    assert caught.value.message == f"cannot make the directory '{tmp_path}/var': File exists"
    assert caught.value.exit_code == CANNOT_CREATE_EXIT


@only_root
def test_a_directory_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "var"
    path.mkdir(mode=0o755)
    os.chown(path, 65534, 65534)
    with pytest.raises(UsageError) as caught:
        private_directory(path)
    assert caught.value.message == (f"the directory '{path}' belongs to uid 65534, not to us (0)")
    assert mode(path) == 0o755


def test_a_directory_that_all_share_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tmp"
    path.mkdir()
    path.chmod(0o1777)
    with pytest.raises(UsageError) as caught:
        private_directory(path)
    assert caught.value.message == f"the directory '{path}' is shared by all (mode 1777)"
    assert caught.value.exit_code == CANNOT_CREATE_EXIT
    assert mode(path) == 0o1777

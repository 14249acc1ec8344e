"""The command line of the sandbox: what it must say whatever the limits."""

from __future__ import annotations

import pytest

from ksi_daemon.security.sandbox import SandboxLimits, command

LIMITS = SandboxLimits(cpu_s=3, memory_bytes=1_000_000, disk_bytes=2_000)
ARGV = command(["sh", "-s"], LIMITS, system=["--ro-bind", "/usr", "/usr"], status_fd=7)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--unshare-all"], id="no network, no processes of others"),
        pytest.param(["--disable-userns"], id="no namespace inside"),
        pytest.param(["--clearenv"], id="no environment"),
        pytest.param(["--cap-drop", "ALL"], id="no capabilities"),
        pytest.param(["--die-with-parent"], id="ends with the daemon"),
        pytest.param(["--new-session"], id="no terminal"),
        pytest.param(["--remount-ro", "/dev"], id="no memory below dev"),
        pytest.param(["--size", "2000", "--tmpfs", "/tmp"], id="a small tmp"),
        pytest.param(["--json-status-fd", "7", "--"], id="status"),
        pytest.param(["--cpu=3", "--as=1000000", "--fsize=2000"], id="limits"),
        pytest.param(["--", "sh", "-s"], id="program last"),
    ],
)
def test_it_says(words: list[str]) -> None:
    places = range(len(ARGV) - len(words) + 1)
    assert any(ARGV[at : at + len(words)] == words for at in places)


def test_the_environment_is_cleared_before_it_is_filled() -> None:
    assert ARGV.index("--clearenv") < ARGV.index("--setenv")


def test_what_is_bound_is_read_only() -> None:
    assert not {"--bind", "--dev-bind", "--share-net"} & set(ARGV)

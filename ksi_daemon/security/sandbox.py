"""The command line that runs a program where it can reach nothing: bubblewrap and limits.

The program sees the system's programs read-only, a small private /tmp, processes of its own, and
no network, no home, no environment, none of the daemon's files. bubblewrap makes that of kernel
namespaces, without root; a user namespace inside it cannot be made. A daemon that is root must run
the command as another user (``UNPRIVILEGED``): to the kernel, root in such a namespace still owns
what is under /proc/sys, and no limit counts root's processes.

What this does not do: filter system calls, or bound the memory of all processes together (each
has its bound, and there are few). A hole in the kernel is a way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["UNPRIVILEGED", "SandboxLimits", "command"]

UNPRIVILEGED: Final = 65_534

_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
_PROCESSES: Final = 32
_OPEN_FILES: Final = 128


class SandboxLimits(NamedTuple):
    """Bounds of one run: seconds of processor time, bytes of a process, bytes of /tmp."""

    cpu_s: int
    memory_bytes: int
    disk_bytes: int


def command(
    program: Sequence[str], limits: SandboxLimits, *, system: Sequence[str], status_fd: int
) -> list[str]:
    """Return the arguments that run *program* in a sandbox.

    *system* are the arguments that show the programs of the system. To *status_fd* bubblewrap
    writes JSON, with ``exit-code`` only if the program was run at all.
    """
    return [
        "bwrap",
        *("--unshare-all", "--unshare-user", "--disable-userns"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--uid", str(UNPRIVILEGED), "--gid", str(UNPRIVILEGED), "--hostname", "sandbox"),
        "--clearenv",
        *(word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *system,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(limits.disk_bytes), "--tmpfs", "/tmp"),
        # What bubblewrap builds the root and /dev of is memory, and without this has no bound.
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
        *("--json-status-fd", str(status_fd), "--"),
        "prlimit",
        f"--cpu={limits.cpu_s}",
        f"--as={limits.memory_bytes}",
        f"--fsize={limits.disk_bytes}",
        f"--nproc={_PROCESSES}",
        f"--nofile={_OPEN_FILES}",
        "--core=0",
        "--",
        *program,
    ]

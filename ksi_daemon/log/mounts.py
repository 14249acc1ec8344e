"""Which kind of file system a directory is on. SQLite's locks and its WAL need a local one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ksi_daemon.errors import UsageError

__all__ = ["NETWORK", "check_local", "file_system"]

NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.glusterfs", "fuse.s3fs",
        "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
        "virtiofs",
    }
)  # fmt: skip
REFUSED_EXIT: Final = 78  # sysexits.h: EX_CONFIG
_OCTAL: Final = re.compile(r"\\(\d{3})")


def check_local(directory: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Raise UsageError if *directory* is on a network file system."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # no such table here
    kind = file_system(directory.resolve(), table)
    if kind in NETWORK:
        raise UsageError(
            f"{str(directory)!r} is on a network file system ({kind}),"
            " where an acknowledged event may be lost",
            exit_code=REFUSED_EXIT,
            hint="use a directory of a local disk, or set allow_network_fs",
        )


def file_system(directory: Path, table: str) -> str | None:
    """Return the kind of the file system that *directory* is on by a ``mountinfo`` table."""
    found, longest = None, -1
    for line in table.splitlines():
        mount, dash, rest = line.partition(" - ")
        fields = mount.split()
        if not dash or len(fields) < 5:
            continue
        point = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # The later of two mounts on one point hides the other.
        if directory.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = rest.split()[0], len(point.parts)
    return found

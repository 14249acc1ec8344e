from __future__ import annotations

from pathlib import Path

import pytest

from ksi_daemon.errors import UsageError
from ksi_daemon.log.mounts import check_local, file_system

TABLE = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:5 / /home rw - nfs4 server:/home rw,vers=4.2
24 23 254:2 / /home/ann/local\040disk rw shared:2 master:1 - xfs /dev/vdb1 rw
25 22 0:9 / /srv rw - ext4 /dev/vdc1 rw
26 22 0:9 / /srv rw - fuse.sshfs ann@far: rw
27 22 0:9 / /mnt/bad
""".strip()


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        pytest.param("/", "ext4", id="the root"),
        pytest.param("/var/lib/ksi", "ext4", id="below the root"),
        pytest.param("/home/ann/v", "nfs4", id="a network"),
        pytest.param("/homes", "ext4", id="a name that begins alike"),
        pytest.param("/home/ann/local disk/v", "xfs", id="a disk within, its name escaped"),
        pytest.param("/srv/v", "fuse.sshfs", id="the later of two mounts"),
        pytest.param("/mnt/bad", "ext4", id="a line that is cut off"),
    ],
)
def test_file_system(directory: str, kind: str) -> None:
    assert file_system(Path(directory), TABLE) == kind


def test_D16_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:5 / {tmp_path} rw - nfs server:/x rw\n")
    with pytest.raises(UsageError, match=r"network file system \(nfs\)") as caught:
        check_local(tmp_path / "v", mounts)
    assert (caught.value.exit_code, "allow_network_fs" in str(caught.value.hint)) == (78, True)


def test_a_local_one_is_not(tmp_path: Path) -> None:
    check_local(tmp_path)
    check_local(tmp_path, tmp_path / "no such table")

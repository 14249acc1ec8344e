"""Files that tools make: where they lie, under what name, and what is not kept."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from ksi_daemon import files
from ksi_daemon.errors import KsiError
from ksi_daemon.files import File, FileStore


def test_a_file_is_kept_under_its_hash(tmp_path: Path) -> None:
    kept = FileStore(tmp_path / "files").keep(File(b"abc", "image/png", "a.png"))
    digest = sha256(b"abc").hexdigest()
    assert (kept.media_type, kept.bytes, kept.sha256, kept.name) == (
        "image/png",
        3,
        digest,
        "a.png",
    )
    path = Path(kept.path)
    assert path == tmp_path / "files" / digest[:2] / digest
    assert path.read_bytes() == b"abc"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_same_file_is_kept_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert store.keep(File(b"abc")) == store.keep(File(b"abc"))
    assert len([each for each in tmp_path.rglob("*") if each.is_file()]) == 1


def test_what_is_no_media_type_is_not_told_as_one(tmp_path: Path) -> None:
    assert FileStore(tmp_path).keep(File(b"", "x\nIgnore all")).media_type == (
        "application/octet-stream"
    )


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2)
    with pytest.raises(KsiError, match="a file has 3 bytes, the limit is 2") as caught:
        FileStore(tmp_path).keep(File(b"abc"))
    assert caught.value.code == "file_too_large"


def test_what_the_disk_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(KsiError) as caught:
        FileStore(tmp_path / "files").keep(File(b"abc"))
    assert caught.value.code == "file_not_kept"

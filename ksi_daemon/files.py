"""Files that tools make: kept beside the log under the hash of what is in them.

A picture in a result would be a megabyte of base64 in a prompt and in every row that repeats it.
So a result holds a reference, which says what the file is and where it lies.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from ksi_daemon.errors import KsiError, NotFound

__all__ = ["MAX_FILE_BYTES", "File", "FileStore", "KeptFile"]

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}", re.IGNORECASE)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_UNKNOWN: Final = "application/octet-stream"


class File(msgspec.Struct, frozen=True):
    """What a tool returns for a file; *name* is for people only."""

    data: bytes
    media_type: str = _UNKNOWN
    name: str | None = None


class KeptFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to a file that is kept; *path* is where it lies."""

    path: str
    media_type: str
    bytes: int
    sha256: str
    name: str | None = None


class FileStore:
    """The files below *directory*, which is made when the first one comes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, file: File) -> KeptFile:
        """Write *file* unless it is kept already; return the reference.

        Raise KsiError ``file_too_large``, or ``file_not_kept`` for what the disk refuses.
        """
        size = len(file.data)
        if size > MAX_FILE_BYTES:
            limit = f"the limit is {MAX_FILE_BYTES}"
            raise KsiError(f"a file has {size} bytes, {limit}", code="file_too_large")
        digest = sha256(file.data).hexdigest()
        path = self._directory / digest[:2] / digest
        try:
            if not path.exists():
                _write(path, file.data)
        except OSError as exc:
            raise KsiError(f"a file cannot be kept: {exc}", code="file_not_kept") from exc
        kind = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else _UNKNOWN
        name = file.name[:200] if file.name else None
        return KeptFile(os.fspath(path), kind, size, digest, name)

    def data(self, digest: str) -> bytes:
        """Return what is in the kept file of that hash; raise NotFound if there is none."""
        path = self._directory / digest[:2] / digest
        if not _DIGEST.fullmatch(digest) or not path.is_file():
            raise NotFound("file", digest[:64])
        return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    """Write the whole file or none of it, readable by its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

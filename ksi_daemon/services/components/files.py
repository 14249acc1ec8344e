"""The component files below one directory: names in, texts and files out.

A name is a path below the directory without the ending (``agents/writer``), of a grammar that
cannot leave it (FAULTS.md section 4, path traversal). Names may come from models, paths only from
people. What an agent writes is a *draft*: it lies below ``agents_drafts`` and nothing is made of
it until a person promotes it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ksi_daemon.component import MAX_BYTES, Component, parse
from ksi_daemon.errors import ComponentError, Conflict, InvalidData, NotFound

__all__ = ["DRAFTS", "MAX_NAME", "NAME", "Files", "draft_name", "is_draft", "name_of_draft"]

NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_-]*(/[a-z0-9_][a-z0-9_-]*){0,4}")
MAX_NAME: Final = 128
DRAFTS: Final = "agents_drafts"
_SUFFIX: Final = ".md"
_DIRECTORY_FLAGS: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def draft_name(agent_id: str, name: str) -> str:
    """Return the name that the draft *name* of an agent has."""
    return f"{DRAFTS}/{agent_id}/{name}"


def name_of_draft(draft: str) -> str:
    """Return the name that an agent gave the draft; raise InvalidData for what is none."""
    parts = draft.split("/", 2)
    if len(parts) < 3 or parts[0] != DRAFTS:
        raise InvalidData(f"{draft!r:.200} is no draft", details={"path": "name"})
    return parts[2]


def is_draft(name: str) -> bool:
    """Say whether *name* is one of a draft."""
    return name.startswith(f"{DRAFTS}/")


class Files:
    """The component files below *root*, and those below *base* that have no file of their name
    there. Nothing is ever written to *base*."""

    def __init__(self, root: Path, base: Path | None = None) -> None:
        self._root = root
        self._roots = (root,) if base is None else (root, base)

    def load(self, name: str) -> Component:
        """Return the component *name*; raise ComponentError or NotFound."""
        return parse(self.text(name), name=name)

    def load_usable(self, name: str) -> Component:
        """Return the component *name* to make something of it; a draft is none."""
        if is_draft(name):
            raise _inert(name)
        return self.load(name)

    def load_given(self, given: str, may_be_path: bool) -> Component:
        """Return what *given* names: a component, or if *may_be_path* a file of a person's."""
        if may_be_path and Path(given).is_absolute():
            path = Path(given).resolve()
            if path.is_relative_to((self._root / DRAFTS).resolve()):
                raise _inert(path.relative_to(self._root.resolve()).with_suffix("").as_posix())
            return self.load_file(path)
        return self.load_usable(given.removeprefix("components/").removesuffix(_SUFFIX))

    def load_file(self, path: Path, *, name: str | None = None) -> Component:
        """Return the component in the file at *path*, which a person chose."""
        return parse(_text(path), name=name or path.stem)

    def text(self, name: str) -> str:
        """Return the file of component *name* as it is."""
        path = self._found(name)
        if path is None:
            raise NotFound("component", name, self.names())
        return _text(path)

    def names(self) -> list[str]:
        """Return the names of all components, drafts too, sorted."""
        names = {
            path.relative_to(root).with_suffix("").as_posix()
            for root in self._roots
            for path in root.rglob(f"*{_SUFFIX}")
        }
        return sorted(name for name in names if NAME.fullmatch(name))

    def write(self, name: str, text: str, *, overwrite: bool) -> None:
        """Write the component *name*: whole or not at all, and never through a link.

        Raise ComponentError for a name or a text that cannot be, Conflict for a name that is
        taken unless *overwrite* is set.
        """
        is_taken = self._found(name) is not None
        parse(text, name=name)
        content = _encoded(text, name)
        if is_taken and not overwrite:
            raise _taken(name)
        *directories, stem = name.split("/")
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            with _directory(self._root, directories) as directory:
                _write(directory, f"{stem}{_SUFFIX}", content, overwrite=overwrite)
        except FileExistsError:
            raise _taken(name) from None
        except OSError as exc:
            raise ComponentError(f"cannot write the component {name!r}: {exc.strerror}") from exc

    def remove(self, name: str) -> None:
        """Remove the file of component *name*."""
        self._path(name, self._root).unlink(missing_ok=True)

    def _found(self, name: str) -> Path | None:
        paths = [self._path(name, root) for root in self._roots]
        return next((path for path in paths if path.is_file()), None)

    def _path(self, name: str, root: Path) -> Path:
        if len(name) > MAX_NAME or not NAME.fullmatch(name):
            raise ComponentError(
                f"{name[:MAX_NAME]!r} is no component name",
                code="component_name",
                hint="a name is like agents/writer: lower case, digits, _ and -, no dots",
            )
        path = root / f"{name}{_SUFFIX}"
        try:
            is_below = path.resolve().is_relative_to(root.resolve())
        except (OSError, RuntimeError) as exc:  # links in a circle, or gone while they are followed
            raise ComponentError(f"cannot follow the component {name!r}: {exc}") from exc
        if not is_below:
            raise ComponentError(f"{name!r} leads out of the components", code="component_name")
        return path


@contextmanager
def _directory(root: Path, names: list[str]) -> Iterator[int]:
    """Yield a descriptor of the directory *names* below *root*, made where it is missing.

    Each step is taken from the one before and follows no link, so nobody can lead it elsewhere
    between a check and the use.
    """
    at = os.open(root, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
            below = os.open(name, _DIRECTORY_FLAGS, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _write(directory: int, name: str, content: bytes, *, overwrite: bool) -> None:
    """Put a file into *directory* by writing another one and giving it the name."""
    temporary = f".{name}.{os.getpid()}-{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644, dir_fd=directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        else:
            # A link fails where a file of the name stands, which a check before could not tell.
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
    os.fsync(directory)


def _taken(name: str) -> Conflict:
    return Conflict(
        f"there is a component {name!r} already",
        code="already_exists",
        hint="set overwrite to replace it",
    )


def _inert(draft: str) -> ComponentError:
    return ComponentError(
        f"{draft!r} is a draft of an agent",
        code="component_draft",
        hint=f"a person promotes it: ksi components promote {draft}",
    )


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise ComponentError(f"{name!r} is no text: {exc.reason} at {exc.start}") from exc


def _text(path: Path) -> str:
    try:
        return _read(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ComponentError(f"cannot read the component {str(path)!r}: {exc}") from exc


def _read(path: Path) -> bytes:
    """Return what a component file holds, one byte more than it may at the most.

    A pipe or a device would hold up the daemon or fill it.
    """
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a regular file")
        return file.read(MAX_BYTES + 1)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)

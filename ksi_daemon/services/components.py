"""composition:*: the component files of one directory.

A name is a path below the directory without the ending (``agents/writer``), of a grammar that
cannot leave it. Names may come from models, paths only from people.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Final

import msgspec

from ksi_daemon.component import MAX_BYTES, Component, parse, render
from ksi_daemon.errors import ComponentError, NotFound
from ksi_daemon.router import Context, handles

__all__ = ["NAME", "Components"]

NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_-]*(/[a-z0-9_][a-z0-9_-]*){0,4}")
MAX_NAME: Final = 128
_SUFFIX: Final = ".md"


class Name(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class List(msgspec.Struct, forbid_unknown_fields=True):
    """Only components of *component_type*, if given."""

    component_type: str | None = None


class Render(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    variables: dict[str, str] = msgspec.field(default_factory=dict)


class Components:
    """The component files below *root*."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def load(self, name: str) -> Component:
        """Return the component *name*; raise ComponentError or NotFound."""
        path = self._path(name)
        if not path.is_file():
            raise NotFound("component", name, self.names())
        return self.load_file(path, name=name)

    def load_given(self, given: str, may_be_path: bool) -> Component:
        """Return what *given* names: a component, or if *may_be_path* a file of a person's."""
        if may_be_path and Path(given).is_absolute():
            return self.load_file(Path(given))
        return self.load(given.removeprefix("components/").removesuffix(_SUFFIX))

    def load_file(self, path: Path, *, name: str | None = None) -> Component:
        """Return the component in the file at *path*, which a person chose."""
        try:
            text = _read(path).decode("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise ComponentError(f"cannot read the component {str(path)!r}: {exc}") from exc
        return parse(text, name=name or path.stem)

    def names(self) -> list[str]:
        """Return the names of all components, sorted."""
        found = (path.relative_to(self._root) for path in self._root.rglob(f"*{_SUFFIX}"))
        names = (path.with_suffix("").as_posix() for path in found)
        return sorted(name for name in names if NAME.fullmatch(name))

    def _path(self, name: str) -> Path:
        if len(name) > MAX_NAME or not NAME.fullmatch(name):
            raise ComponentError(
                f"{name[:MAX_NAME]!r} is no component name",
                code="component_name",
                hint="a name is like agents/writer: lower case, digits, _ and -, no dots",
            )
        path = self._root / f"{name}{_SUFFIX}"
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise ComponentError(f"{name!r} leads out of the components", code="component_name")
        return path

    @handles("composition:list", effect="observe", example={"component_type": "agent"})
    def list_components(self, data: List, ctx: Context) -> dict[str, Any]:
        """List the components with their type and description."""
        rows, broken = [], []
        for name in self.names():
            try:
                component = self.load(name)
            except ComponentError as exc:
                broken.append({"name": name, "error": exc.message})
                continue
            if data.component_type in (None, component.component_type):
                rows.append(
                    {
                        "name": name,
                        "component_type": component.component_type,
                        "description": component.description,
                    }
                )
        return {"components": rows, "broken": broken}

    @handles("composition:get_component", effect="observe", example={"name": "agents/greeter"})
    def get_component(self, data: Name, ctx: Context) -> Component:
        """Return one component: the fields of its front matter and its text."""
        return self.load(data.name)

    @handles("composition:render_component", effect="observe", example={"name": "agents/greeter"})
    def render_component(self, data: Render, ctx: Context) -> dict[str, str]:
        """Return a component's text with its variables filled in."""
        return {"text": render(self.load(data.name), data.variables)}


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

"""Which plugins load: installed entry points, and the files of a directory as they come and go.

A plugin is a module whose functions are marked with ``handles`` or ``tool``. If it has a function
``plugin(router)``, that is called and what it returns is included in its place: an object with a
life of its own, whose marked methods are the handlers.

A file that is dropped in, changed or taken away while the daemon runs is seen without a restart.
One that cannot be used is left out, told in ``broken`` and in the logs, and costs nobody else
anything; when a changed file is broken, what it offered before is gone.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import anyio.to_thread
import structlog

from ksi_daemon.files import FileStore
from ksi_daemon.registry import Handler
from ksi_daemon.router import Router
from ksi_daemon.tools import handler, tools_in

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINTS", "Broken", "Plugins"]

ENTRY_POINTS: Final = "ksi.plugins"
# How long a dropped-in file may wait until it is seen; a look costs one listing of the directory.
LOOK_EVERY_S: Final = 1.0
# How long a plugin may take to be imported; one that hangs must not stop the start.
LOAD_S: Final = 30.0

log = structlog.get_logger()


class Broken(NamedTuple):
    """A plugin that could not be used, and why."""

    plugin: str
    error: str


class _Loaded(NamedTuple):
    """A file as it was when it was loaded, and what it registered."""

    stamp: tuple[int, int, int]
    handlers: tuple[Handler, ...]
    error: str | None = None


class Plugins:
    """The plugins of *router*; files that their tools make go to *files*."""

    def __init__(self, router: Router, directory: Path, files: FileStore) -> None:
        self._router = router
        self._directory = directory
        self._files = files
        self._loaded: dict[Path, _Loaded] = {}
        self._installed: dict[str, tuple[Handler, ...]] = {}
        self._turn = anyio.Lock()

    @property
    def broken(self) -> list[Broken]:
        """The files that cannot be used as they are now, sorted by name."""
        return [
            Broken(path.name, loaded.error)
            for path, loaded in sorted(self._loaded.items())
            if loaded.error is not None
        ]

    def source(self, name: str) -> str | None:
        """Return the name of the file or the package that registered *name*, or None."""
        offered = {path.name: loaded.handlers for path, loaded in self._loaded.items()}
        for plugin, handlers in (offered | self._installed).items():
            if any(each.event == name for each in handlers):
                return plugin
        return None

    async def load(self) -> list[str]:
        """Include all plugins; return the names of those that could be used."""
        for point in _entry_points():
            handlers, error = await self._included(point.name, point.load)
            if error is None:
                self._installed[point.name] = handlers
        await self.refresh()
        return list(self._installed) + [
            path.stem for path, loaded in sorted(self._loaded.items()) if loaded.error is None
        ]

    async def watch(self) -> None:
        """Look at the directory again and again; never returns."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Make the registry what the directory says: load what is new, forget what is gone."""
        async with self._turn:
            found = dict(_stamps(self._directory))
            gone = [path for path in self._loaded if path not in found]
            new = [path for path, stamp in found.items() if self._is_new(path, stamp)]
            for path in (*gone, *new):
                self._forget(path)
            for path in new:
                handlers, error = await self._included(path.stem, partial(_load_file, path))
                self._loaded[path] = _Loaded(found[path], handlers, error)

    def _is_new(self, path: Path, stamp: tuple[int, int, int]) -> bool:
        return path not in self._loaded or self._loaded[path].stamp != stamp

    def _forget(self, path: Path) -> None:
        loaded = self._loaded.pop(path, None)
        if loaded is not None:
            self._router.registry.exclude(loaded.handlers)

    async def _included(
        self, name: str, load: Callable[[], Any]
    ) -> tuple[tuple[Handler, ...], str | None]:
        """Return what plugin *name* registered, or nothing and what is wrong with it."""
        try:
            # It is imported in a thread: what a plugin imports may take seconds.
            with anyio.fail_after(LOAD_S):
                module = await anyio.to_thread.run_sync(load, abandon_on_cancel=True)
            plugin = module.plugin(self._router) if hasattr(module, "plugin") else module
            return self._include(plugin), None
        # SystemExit: a script that was put there by mistake must not end the daemon.
        except (Exception, SystemExit) as exc:
            log.exception("plugin_failed", plugin=name)
            return (), f"{type(exc).__name__}: {exc}"[:500].removesuffix(": ")

    def _include(self, plugin: object) -> tuple[Handler, ...]:
        """Register all that *plugin* offers, or nothing."""
        registry = self._router.registry
        included = list(registry.include(plugin))
        try:
            for function in tools_in(plugin):
                made = handler(function, self._files)
                registry.add(made)
                included.append(made)
        except BaseException:
            registry.exclude(included)
            raise
        return tuple(included)


def _load_file(path: Path) -> ModuleType:
    """Import the file at *path* as it is now."""
    name = f"ksi_plugins.{path.stem}"
    loader = _FreshLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved by the name of the module, as for any import.
    sys.modules[name] = module
    loader.exec_module(module)
    return module


class _FreshLoader(SourceFileLoader):
    """A loader that knows no byte code: its stamp has whole seconds, and files change faster."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("not asked for")


def _entry_points() -> Iterable[EntryPoint]:
    """Return the entry points of installed packages that are plugins.

    Few machines have any, and what reads them would take a tenth of the start; that there are
    none is seen from the files.
    """
    if not any(map(_names_plugins, sys.path)):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def _names_plugins(directory: str) -> bool:
    try:
        found = Path(directory).glob("*.*-info/entry_points.txt")
        return any(f"[{ENTRY_POINTS}]".encode() in path.read_bytes() for path in found)
    except OSError:
        return True  # whoever knows better shall look


def _stamps(directory: Path) -> Iterator[tuple[Path, tuple[int, int, int]]]:
    """Yield the files of *directory* that are plugins, with what changes when they do."""
    for path in sorted(directory.glob("*.py")):
        try:
            found = path.stat()
        except OSError:  # it went away just now, or is a link to nowhere
            continue
        yield path, (found.st_mtime_ns, found.st_size, found.st_ino)

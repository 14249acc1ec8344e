"""Which plugins load: the built-in services, installed entry points, files of a directory.

A plugin is a module whose functions are marked with ``handles``. If it has a function
``plugin(router)``, that is called and what it returns is included in its place: an object with a
life of its own, whose marked methods are the handlers.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

import structlog

from ksi_daemon.router import Router

__all__ = ["ENTRY_POINTS", "include_found"]

ENTRY_POINTS: Final = "ksi.plugins"


def include_found(router: Router, directory: Path) -> list[str]:
    """Include the plugins of installed packages and of *directory*; return their names.

    A plugin that fails to load is logged with its error and left out: the daemon still starts.
    """
    log = structlog.get_logger()
    included = []
    for name, load in _found(directory):
        try:
            plugin = load()
            router.include(plugin.plugin(router) if hasattr(plugin, "plugin") else plugin)
        # SystemExit: a script that was put there by mistake must not end the daemon.
        except (Exception, SystemExit):
            log.exception("plugin_failed", plugin=name)
        else:
            included.append(name)
    return included


def _found(directory: Path) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    for point in entry_points(group=ENTRY_POINTS):
        yield point.name, point.load
    for path in sorted(directory.glob("*.py")):
        yield path.stem, partial(_load_file, path)


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ksi_plugins.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved by the name of the module, as for any import.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

"""How the data of a rule's event are made of the fields of the event that set it off. Pure.

A mapping is JSON in which a text may hold places: ``"{{data.title}} by {{source}}"``. A text that
is one place and nothing else becomes the value itself, whatever its type. Places are filled in
once; what a value holds is never filled in again. What is not there is null, inside a text it is
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.services.routing.fields import Fields, Path, found, path

__all__ = ["MAX_DEPTH", "MAX_PLACES", "Filler", "compiled"]

Filler = Callable[[Fields], Any]

MAX_DEPTH: Final = 16
# Each place can be as large as the event's data.
MAX_PLACES: Final = 32

_PLACE: Final = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")


def compiled(template: Any) -> Filler:
    """Return what fills in *template*; raise InvalidData for paths and sizes that cannot be."""
    if _count(template, 1) > MAX_PLACES:
        raise InvalidData(
            f"mapping: it has more than {MAX_PLACES} places", details={"path": "mapping"}
        )
    return partial(_filled, template)


def _count(template: Any, depth: int) -> int:
    """Count the places of *template*, and check their paths."""
    if depth > MAX_DEPTH:
        raise InvalidData(f"mapping: it nests deeper than {MAX_DEPTH}", details={"path": "mapping"})
    if isinstance(template, str):
        return len([path(text) for text in _PLACE.findall(template)])
    if isinstance(template, dict):
        return sum(_count(value, depth + 1) for value in template.values())
    if isinstance(template, list):
        return sum(_count(value, depth + 1) for value in template)
    return 0


def _filled(template: Any, fields: Fields) -> Any:
    if isinstance(template, str):
        return _text(template, fields)
    if isinstance(template, dict):
        return {key: _filled(value, fields) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, fields) for value in template]
    return template


def _text(template: str, fields: Fields) -> Any:
    whole = _PLACE.fullmatch(template)
    if whole is not None:
        value = found(fields, path(whole[1]))
        return None if value is msgspec.UNSET else value
    return _PLACE.sub(lambda match: _said(fields, path(match[1])), template)


def _said(fields: Fields, where: Path) -> str:
    value = found(fields, where)
    if value is msgspec.UNSET or value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""Data that the direct event form carries badly, by what models are known to mangle."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["complexity"]

_DELICATE: Final = re.compile(r"[\n\r\"\\`]")
_LOOKS_LIKE_JSON: Final = re.compile(r"\s*[{\[].*[}\]]\s*", re.DOTALL)


def complexity(args: dict[str, Any]) -> str | None:
    """Return what makes *args* complex, None if they are simple.

    Simple data holds plain one-line strings and objects of scalars, one level deep.
    """
    for value in args.values():
        found = _in_value(value, nested=False)
        if found:
            return found
    return None


def _in_value(value: Any, *, nested: bool) -> str | None:
    if isinstance(value, str):
        return _in_string(value)
    if not isinstance(value, dict | list):
        return None
    if nested:
        return "nested data"
    children = value.values() if isinstance(value, dict) else value
    return next((found for child in children if (found := _in_value(child, nested=True))), None)


def _in_string(value: str) -> str | None:
    if "\n" in value or "\r" in value:
        return "a string of several lines"
    if _DELICATE.search(value):
        return "a quote, backslash or backtick in a string"
    return "a string that holds JSON" if _LOOKS_LIKE_JSON.fullmatch(value) else None

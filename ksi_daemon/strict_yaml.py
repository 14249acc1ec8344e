"""YAML from strangers, with what can do harm taken out (FAULTS.md section 4). Pure.

No tags, no aliases, no deep nesting; and all that is not plainly something else is text. In a
module of its own because the parser takes a tenth of the daemon's start, and is needed when the
first component is read.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

__all__ = ["MAX_DEPTH", "NotYaml", "load"]

MAX_DEPTH: Final = 20


class NotYaml(ValueError):
    """The text is no YAML, or more than is allowed; the message says what and where."""


class _Loader(yaml.CSafeLoader):
    """YAML as front matter needs it: strings stay strings."""


# Only true, false, null and whole numbers are not strings: "no" is not false, 1.10 is not 1.1,
# and there are no dates.
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"true|false", "tf"),
    ("tag:yaml.org,2002:null", r"null|~|", ["n", "~", ""]),
    ("tag:yaml.org,2002:int", r"-?(0|[1-9][0-9]{0,17})", "-0123456789"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))


def load(text: str, *, first_line: int = 1) -> Any:
    """Return the value of *text*, which begins at *first_line* of its file; raise NotYaml."""
    try:
        _check_structure(text)
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise NotYaml(_reason(exc, first_line)) from exc


def _reason(exc: Exception, first_line: int) -> str:
    """Return what is wrong in one line, with its place in the file."""
    if not isinstance(exc, yaml.MarkedYAMLError) or exc.problem_mark is None:
        return " ".join(str(exc).split())
    # The mark counts from 0.
    place = f"line {exc.problem_mark.line + first_line}, column {exc.problem_mark.column + 1}"
    return f"{exc.problem} at {place}"


def _check_structure(text: str) -> None:
    """Raise YAMLError for aliases (a few of them make gigabytes) and for deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise yaml.YAMLError(f"nests deeper than {MAX_DEPTH}")

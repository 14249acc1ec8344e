"""Conditions on the fields of an event, as JSON. Pure; nothing is evaluated but a few operators.

    {"data.score": {"ge": 8}, "source": "agent:critic"}         all of them hold
    {"or": [{"data.kind": "bug"}, {"data.tags": {"contains": "urgent"}}]}
    {"not": {"data.owner": {"exists": true}}}

Values are compared as JSON has them: ``1`` is ``1.0`` and is not ``true``. An order is only known
between two numbers or two texts. What is not there fulfils ``{"exists": false}`` and ``ne``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.services.routing.fields import Fields, Path, found, path

__all__ = ["MAX_DEPTH", "MAX_TESTS", "OPERATORS", "Test", "compiled"]

Test = Callable[[Fields], bool]

MAX_DEPTH: Final = 8
MAX_TESTS: Final = 64


def compiled(condition: Mapping[str, Any]) -> Test:
    """Return the test that *condition* describes; raise InvalidData if it describes none."""
    return _Compiler().test(condition, 1)


class _Compiler:
    """Counts the tests of one condition while it is made."""

    def __init__(self) -> None:
        self._tests = 0

    def test(self, condition: Any, depth: int) -> Test:
        if not isinstance(condition, Mapping):
            raise _invalid(f"want an object, got {_shown(condition)}")
        if depth > MAX_DEPTH:
            raise _invalid(f"it nests deeper than {MAX_DEPTH}")
        return _all([self._part(key, value, depth) for key, value in condition.items()])

    def _part(self, key: str, value: Any, depth: int) -> Test:
        self._count(1)
        if key == "not":
            negated = self.test(value, depth + 1)
            return lambda fields: not negated(fields)
        if key in ("and", "or"):
            if not isinstance(value, list):
                raise _invalid(f"{key!r} takes a list of conditions")
            tests = [self.test(each, depth + 1) for each in value]
            return _all(tests) if key == "and" else _any(tests)
        return self._comparisons(path(key), value)

    def _comparisons(self, where: Path, wanted: Any) -> Test:
        """Return the test of one path: ``{operator: value, ...}``, or a value to be equal to."""
        if not isinstance(wanted, Mapping):
            return _comparison(where, "eq", wanted)
        if not wanted:
            raise _invalid(f"{'.'.join(where)!r} has no operator")
        self._count(len(wanted) - 1)
        return _all([_comparison(where, name, value) for name, value in wanted.items()])

    def _count(self, tests: int) -> None:
        self._tests += tests
        if self._tests > MAX_TESTS:
            raise _invalid(f"it has more than {MAX_TESTS} tests")


def _all(tests: list[Test]) -> Test:
    return lambda fields: all(test(fields) for test in tests)


def _any(tests: list[Test]) -> Test:
    return lambda fields: any(test(fields) for test in tests)


def _comparison(where: Path, name: str, wanted: Any) -> Test:
    compare = OPERATORS.get(name)
    if compare is None:
        raise _invalid(f"{name[:80]!r} is no operator", hint=f"one of {', '.join(OPERATORS)}")
    expected = _OPERANDS.get(name)
    if expected is not None and not isinstance(wanted, expected[0]):
        raise _invalid(f"{name!r} takes {expected[1]}, got {_shown(wanted)}")
    return lambda fields: compare(found(fields, where), wanted)


def _equal(value: Any, wanted: Any) -> bool:
    # Python takes true for 1; JSON does not. What encodes alike is alike, and 1.0 is 1.
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_equal, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_equal(value[k], wanted[k]) for k in value)
    return bool(value == wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, wanted: Any) -> bool:
        return _is_ordered(value, wanted) and compare(value, wanted)

    return test


def _is_ordered(value: Any, wanted: Any) -> bool:
    return (isinstance(value, str) and isinstance(wanted, str)) or (
        _is_number(value) and _is_number(wanted)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, dict):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, list) and any(_equal(each, wanted) for each in value)


OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": _equal,
    "ne": lambda value, wanted: not _equal(value, wanted),
    "lt": _ordered(operator.lt),
    "le": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "ge": _ordered(operator.ge),
    "in": lambda value, wanted: any(_equal(value, each) for each in wanted),
    "contains": _contains,
    "exists": lambda value, wanted: (value is not msgspec.UNSET) is wanted,
    "prefix": lambda value, wanted: isinstance(value, str) and value.startswith(wanted),
}
_ORDERED: Final = ((str, int, float), "a number or a text")
_OPERANDS: Final[Mapping[str, tuple[Any, str]]] = {
    "lt": _ORDERED,
    "le": _ORDERED,
    "gt": _ORDERED,
    "ge": _ORDERED,
    "in": (list, "a list"),
    "exists": (bool, "true or false"),
    "prefix": (str, "a text"),
}


def _invalid(reason: str, hint: str | None = None) -> InvalidData:
    return InvalidData(f"condition: {reason}", hint=hint, details={"path": "condition"})


def _shown(value: Any) -> str:
    return repr(value)[:80]

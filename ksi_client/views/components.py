"""How components read: what there is, one of them, what it is made of, what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ksi_client.text import Paint, visible, wrapped
from ksi_client.views.tables import GAP, Cell, Column, pairs, plain, table

__all__ = ["created", "inspected", "listed", "shown", "validated"]

_TEXT: Final = "text"
_NO_FIELDS: Final = (_TEXT, "plain", "digest", "tree")
# A part's relation to what it is a part of, as a person would say it.
_RELATIONS: Final = {"extends": "extends", "mixin": "mixes in", "dependency": "depends on"}


def listed(rows: Iterable[Mapping[str, Any]], paint: Paint, cells: int) -> Iterator[str]:
    """Yield a table of components; one that is broken tells why."""
    found = sorted(rows, key=lambda row: str(row.get("name")))
    if not found:
        yield "no components"
        return
    columns = [Column("component"), Column("type"), Column("what it is")]
    yield from table(columns, map(_listed, found), paint=paint, cells=cells)


def _listed(row: Mapping[str, Any]) -> tuple[Cell | str, ...]:
    name = str(row.get("name"))
    if "error" in row:
        return Cell(name, "red"), Cell("broken", "red"), plain(row["error"])
    kind = "draft" if row.get("draft") else plain(row.get("component_type"))
    return Cell(name, "cyan"), kind, plain(row.get("description"))


def shown(component: Mapping[str, Any], paint: Paint) -> Iterator[str]:
    """Yield the fields of a component, then its text; of a rendered one there is only text."""
    fields = {name: value for name, value in component.items() if name not in _NO_FIELDS}
    if "script" in fields:
        fields["script"] = _script(fields["script"])
    if fields:
        yield from pairs(fields, paint=paint)
        yield ""
    yield visible(str(component.get(_TEXT) or "").rstrip("\n"), lines=True)


def _script(script: Any) -> str:
    """Return how long a script is: its texts would fill the screen."""
    replies = script.get("replies") if isinstance(script, Mapping) else None
    count = len(replies) if isinstance(replies, list) else 0
    return f"{count} repl{'y' if count == 1 else 'ies'}; --json shows them"


def inspected(found: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield the tree of a component's parts, then which part each field is from."""
    yield from _tree(found["tree"], paint, set())
    rows = [
        (Cell(field, "bold"), plain(_field(found["component"], field)), Cell(origin, "cyan"))
        for field, origin in sorted(found["origins"].items())
    ]
    if rows:
        yield ""
        columns = [Column("field"), Column("value"), Column("from")]
        yield from table(columns, rows, paint=paint, cells=cells)


def _tree(
    part: Mapping[str, Any], paint: Paint, above: set[str], lead: str = "", branch: str = ""
) -> Iterator[str]:
    """Yield the line of *part* and those of its parts; *above* are the names told already."""
    name = str(part["name"])
    again = name in above
    above.add(name)
    relation = paint(_RELATIONS.get(part["relation"], ""), "dim")
    size = "told above" if again else f"{part['text_chars']} characters"
    line = GAP.join(filter(None, (relation, paint(visible(name), "cyan"), paint(size, "dim"))))
    yield lead + branch + line
    below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    parts = part.get("parts") or ()
    for number, each in enumerate(parts, start=1):
        yield from _tree(each, paint, above, below, "└─ " if number == len(parts) else "├─ ")


def _field(component: Mapping[str, Any], field: str) -> Any:
    """Return the value that *field* of the origins, perhaps ``limits.turns``, has."""
    name, _, inner = field.partition(".")
    value = component.get(name)
    return value.get(inner) if inner and isinstance(value, Mapping) else value


def validated(checked: Sequence[Mapping[str, Any]], paint: Paint, cells: int) -> Iterator[str]:
    """Yield what is wrong with each component, then how many are good."""
    for each in checked:
        yield from _validated(each, paint, cells)
    good = sum(bool(each["valid"]) for each in checked)
    yield paint(f"{good} of {len(checked)} valid", "green" if good == len(checked) else "red")


def _validated(each: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    sign = paint("✓", "green") if each["valid"] else paint("✗", "red")
    yield f"{sign} {visible(str(each['name']))}"
    for problem in each["problems"]:
        yield from _problem(problem, paint, cells)


def _problem(problem: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    text = f"{problem['code']}: {problem['message']}"
    if problem.get("hint"):
        text += f"; {problem['hint']}"
    for line in wrapped(visible(text, lines=True), cells - 4):
        yield f"    {line}"


def created(result: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield where a component was put, and what is wrong with it."""
    yield f"written as {paint(visible(str(result['name'])), 'cyan')}"
    for problem in result["problems"]:
        yield from _problem(problem, paint, cells)

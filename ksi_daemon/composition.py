"""How components are put together: parents, mixins, dependencies. Pure: names in, values out.

The text of a component, from the general to the special:

    the texts of its dependencies, its parent's (``extends``), its mixins', its own

each part once, where it is met first. Of the fields, its own come first, then those of its mixins
in the order written, then its parent's; ``tools`` and ``subscriptions`` add up, ``limits`` and
``variables`` do so field by field. A dependency gives its text and the defaults of its variables
and no other field: what an agent may do is never a matter of what it quotes. Nothing inherits a
``script``, a ``component_type`` or the rights (``allow``) of a profile.

The texts are joined first and filled in once, so no value is ever filled in again. The text of a
file of another program stays as it is wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.component import Component, Limits
from ksi_daemon.errors import ComponentError

__all__ = ["MAX_PARTS", "MAX_TEXT", "Composed", "Part", "compose"]

MAX_PARTS: Final = 64
MAX_TEXT: Final = 256 * 1024  # characters of the joined text

Relation = Literal["itself", "extends", "mixin", "dependency"]

# A field that is not set in one part is taken from the next one that sets it.
_SINGLE: Final = ("model", "provider", "protocol", "profile")
_ADDED: Final = ("tools", "subscriptions")
_BETWEEN: Final = "\n\n"  # the texts of two parts


class Part(msgspec.Struct, frozen=True):
    """One component in the tree of those that make up another.

    *fields* are those it sets, *text_chars* counts what it adds to the text: 0 where it stands
    in the tree a second time.
    """

    name: str
    relation: Relation
    fields: tuple[str, ...]
    text_chars: int
    parts: tuple[Part, ...] = ()


class Composed(msgspec.Struct, frozen=True):
    """A component with all its parts in it.

    *tree* says where the parts stand, *origins* which part gave each field and each variable
    (``variables.name``).
    """

    component: Component
    tree: Part
    origins: dict[str, str]


def compose(component: Component, load: Callable[[str], Component]) -> Composed:
    """Return *component* with its parts, each of which *load* returns by its name.

    Raise ComponentError for a cycle (``component_cycle``, naming its members), for too many parts
    and for too much text, and whatever *load* raises.
    """
    gathering = _Gathering(load)
    tree = gathering.add(component, "itself", ())
    return _composed(component, tree, gathering)


class _Gathering:
    """The parts of one component while they are found."""

    def __init__(self, load: Callable[[str], Component]) -> None:
        self.texts: dict[str, str] = {}  # in the order in which they are joined
        self.plain: set[str] = set()  # those of them in which nothing is filled in
        self.lineage: dict[str, Component] = {}  # those that give fields
        self.quoted: dict[str, Component] = {}  # dependencies, which give variables only
        self._load = load
        self._loaded: dict[str, Component] = {}

    def add(self, component: Component, relation: Relation, above: tuple[str, ...]) -> Part:
        """Take in *component* and its parts; *above* are the names that led to it."""
        name, path = component.name, (*above, component.name)
        (self.quoted if relation == "dependency" else self.lineage)[name] = component
        parts = tuple(
            self._part(each, "dependency" if relation == "dependency" else kind, path)
            for kind, each in _references(component)
        )
        text = "" if name in self.texts else component.text.strip("\n")
        self.texts.setdefault(name, text)
        if component.plain:
            self.plain.add(name)
        if sum(map(len, self.texts.values())) > MAX_TEXT:
            raise ComponentError(f"{path[0]!r} has more than {MAX_TEXT} characters of text in all")
        return Part(name, relation, _set_fields(component), len(text), parts)

    def _part(self, name: str, relation: Relation, above: tuple[str, ...]) -> Part:
        if name in above:
            cycle = " -> ".join((*above[above.index(name) :], name))
            raise ComponentError(f"components refer in a circle: {cycle}", code="component_cycle")
        component = self._loaded.get(name)
        if component is None:
            if len(self._loaded) >= MAX_PARTS:
                raise ComponentError(f"{above[0]!r} is made of more than {MAX_PARTS} parts")
            component = self._loaded[name] = self._load(name)
        if name in (self.quoted if relation == "dependency" else self.lineage):
            return Part(name, relation, _set_fields(component), 0)  # it is in the tree already
        return self.add(component, relation, above)


def _references(component: Component) -> Iterator[tuple[Relation, str]]:
    """Yield the parts that *component* names, in the order in which their texts stand."""
    for name in component.dependencies:
        yield "dependency", name
    if component.extends is not None:
        yield "extends", component.extends
    for name in component.mixins:
        yield "mixin", name


def _set_fields(component: Component) -> tuple[str, ...]:
    skipped = ("name", "text", "plain", "dependencies", "extends", "mixins", "component_type")
    return tuple(key for key in msgspec.to_builtins(component) if key not in skipped)


def _composed(component: Component, tree: Part, gathered: _Gathering) -> Composed:
    origins: dict[str, str] = {}
    fields: dict[str, Any] = {}
    lineage = _by_strength(component, gathered.lineage)
    quoted = [*gathered.quoted.values()]
    for key in _SINGLE:
        for each in lineage:
            if getattr(each, key) is not None:
                fields[key], origins[key] = getattr(each, key), each.name
                break
    for key in _ADDED:
        givers = [each for each in reversed(lineage) if getattr(each, key)]
        if givers:
            fields[key] = list(dict.fromkeys(v for each in givers for v in getattr(each, key)))
            origins[key] = ", ".join(each.name for each in givers)
    fields["limits"] = _limits(lineage, origins)
    fields["variables"] = _variables(lineage, quoted, origins)
    fields["text"], fields["plain"] = _joined(gathered)
    return Composed(msgspec.structs.replace(component, **fields), tree, origins)


def _joined(gathered: _Gathering) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the texts as one, and the stretches of it in which nothing is filled in."""
    pieces: list[str] = []
    plain: list[tuple[int, int]] = []
    at = 0
    for name, text in gathered.texts.items():
        if not text:
            continue
        if name in gathered.plain:
            plain.append((at, at + len(text)))
        pieces.append(text)
        at += len(text) + len(_BETWEEN)
    return _BETWEEN.join(pieces) + "\n", tuple(plain)


def _by_strength(component: Component, found: dict[str, Component]) -> list[Component]:
    """Return those that give fields, the strongest first: itself, its mixins, its parent.

    What a mixin is made of ranks behind the mixin and before the next one.
    """
    ranked: dict[str, Component] = {}

    def rank(each: Component) -> None:
        if each.name in ranked:
            return
        ranked[each.name] = each
        for name in (*each.mixins, *([each.extends] if each.extends else [])):
            rank(found[name])

    rank(component)
    return list(ranked.values())


def _limits(lineage: list[Component], origins: dict[str, str]) -> Limits:
    values: dict[str, int] = {}
    for each in lineage:
        for key, value in msgspec.to_builtins(each.limits).items():
            if key not in values:
                values[key], origins[f"limits.{key}"] = value, each.name
    return msgspec.convert(values, Limits)


def _variables(
    lineage: list[Component], quoted: list[Component], origins: dict[str, str]
) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in (*lineage, *quoted):
        for key, value in each.variables.items():
            if key not in values:
                values[key], origins[f"variables.{key}"] = value, each.name
    return values

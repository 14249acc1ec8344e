"""One component: a Markdown file with YAML front matter, as a value. Pure: text in, text out."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec
import yaml

from ksi_daemon.errors import ComponentError, InvalidData

__all__ = [
    "MAX_BYTES",
    "Component",
    "Limits",
    "parse",
    "placeholders",
    "render",
    "unknown_fields",
]

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 20
_FRONT: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_VARIABLE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\|([^{}]*))?\}\}")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an agent may use up in one exchange; None is the daemon's setting.

    *tokens* are those of all its requests and replies, *usd* what they cost in US dollars,
    *wall_s* seconds.
    """

    turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    mistakes: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    calls: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    wall_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None


class Component(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file: its front matter's fields and its text.

    *extends*, *mixins* and *dependencies* name the components that it is made of (see
    ``composition``). *variables* are the defaults of the placeholders; *allow* are the event
    patterns that a profile grants. *script* is what the scripted provider says when the agent
    has no other: the fields of a scripted provider object. Fields that ksi does not know are left
    out: files that were written for other programs load as they are.
    """

    name: str = ""
    text: str = ""
    component_type: str = "agent"
    version: str | None = None
    description: str | None = None
    extends: str | None = None
    mixins: list[str] = msgspec.field(default_factory=list)
    dependencies: list[str] = msgspec.field(default_factory=list)
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    model: str | None = None
    provider: str | dict[str, Any] | None = None
    script: dict[str, Any] | None = None
    protocol: str | dict[str, Any] | None = None
    tools: list[str] | None = None
    profile: str | None = None
    allow: list[str] | None = None
    subscriptions: list[str] = msgspec.field(default_factory=list)
    limits: Limits = Limits()


def parse(text: str, *, name: str) -> Component:
    """Return the component that *text* is; without front matter all of it is text.

    Raise ComponentError if the front matter is not a YAML mapping of the known shape.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ComponentError(f"{name!r} is larger than {MAX_BYTES} bytes")
    text = text.removeprefix("\ufeff")  # some editors put a byte order mark in front
    front = _FRONT.match(text)
    fields = _front_matter(front[1], name) if front else {}
    body = text[front.end() :] if front else text
    known = {key: fields[key] for key in fields if key in Component.__struct_fields__}
    try:
        component = msgspec.convert(_foreign(known), Component, strict=False)
    except msgspec.ValidationError as exc:
        raise ComponentError(f"{name!r}: {exc}") from exc
    return msgspec.structs.replace(component, name=name, text=body.strip() + "\n")


def unknown_fields(text: str, *, name: str) -> list[str]:
    """Return the fields of the front matter of *text* that ksi does not know."""
    front = _FRONT.match(text.removeprefix("\ufeff"))
    fields = _front_matter(front[1], name) if front else {}
    return [key for key in fields if key not in Component.__struct_fields__]


def placeholders(component: Component) -> list[str]:
    """Return the variables of *component* that have no value until somebody gives one.

    None for plain text, as ``render`` understands it.
    """
    found = list(_VARIABLE.finditer(component.text))
    if not component.variables and all(match[2] is None for match in found):
        return []
    unset = (m[1] for m in found if m[2] is None and m[1] not in component.variables)
    return list(dict.fromkeys(unset))


def render(component: Component, variables: dict[str, str]) -> str:
    """Return the text of *component* with each ``{{name}}`` or ``{{name|default}}`` filled in.

    One pass: what a value holds is never filled in again. A component that declares no variables,
    not even by a default, and is given none is plain text. Raise InvalidData for a placeholder
    without a value.
    """
    values = component.variables | variables
    if not values and all(match[2] is None for match in _VARIABLE.finditer(component.text)):
        return component.text

    def fill(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in values:
            return values[name]
        if default is not None:
            return default
        raise InvalidData(
            f"component {component.name!r}: no value for {{{{{name}}}}}", details={"path": name}
        )

    return _VARIABLE.sub(fill, component.text)


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


def _front_matter(text: str, name: str) -> dict[str, Any]:
    try:
        _check_structure(text)
        fields = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise ComponentError(f"{name!r}: front matter is not usable YAML: {exc}") from exc
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise ComponentError(f"{name!r}: front matter must be a mapping with text keys")
    return fields


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


def _foreign(fields: dict[str, Any]) -> dict[str, Any]:
    """Return *fields* with what other programs write in their own way put into ours."""
    tools = fields.get("tools")
    if isinstance(tools, str):
        # the comma form of agent files of other programs
        fields["tools"] = [tool.strip() for tool in tools.split(",") if tool.strip()]
    for key in ("version", "description"):
        if key in fields:
            fields[key] = _as_written(fields[key])
    variables = fields.get("variables")
    if isinstance(variables, dict):
        fields["variables"] = {name: _as_written(value) for name, value in variables.items()}
    return {key: value for key, value in fields.items() if value is not None}


def _as_written(value: Any) -> Any:
    """Return the text of a YAML number or truth value where text is wanted."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value

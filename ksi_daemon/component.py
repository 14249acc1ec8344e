"""One component: a Markdown file with YAML front matter, as a value. Pure: text in, text out.

Agent and skill files of other programs are components as they are. They are told by their front
matter, which has none of the fields that only ksi has; their text is *plain*: ``{{`` in it means
what it meant to whoever wrote it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon import front_matter
from ksi_daemon.errors import ComponentError, InvalidData, nearest
from ksi_daemon.security import Grant

__all__ = [
    "MAX_BYTES",
    "MAX_RENDERED",
    "Component",
    "Limits",
    "parse",
    "placeholders",
    "render",
    "unknown_fields",
]

MAX_BYTES: Final = 64 * 1024
# Characters. A text that names one long value in each line would fill the memory.
MAX_RENDERED: Final = 1024 * 1024
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
    ``composition``). *variables* are the defaults of the placeholders; *allow* are the rights
    that a profile grants (``security.grants``), *ask* patterns of events that need a person's
    approval each time, *deny* what it takes away. *script* is what the scripted provider says when
    the agent has no other: the fields of a scripted provider object. *plain* are the stretches of
    the text in which nothing is a placeholder. Fields that ksi does not know are left out.
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
    allow: list[str | Grant] | None = None
    ask: list[str] = msgspec.field(default_factory=list)
    deny: list[str] = msgspec.field(default_factory=list)
    subscriptions: list[str] = msgspec.field(default_factory=list)
    limits: Limits = Limits()
    plain: tuple[tuple[int, int], ...] = ()


# Not for front matter to say: a name is where the file is, the text is behind the front matter.
_GIVEN: Final = frozenset({"name", "text", "plain"})
# What the files of other programs have as well. Whatever has any other field was written for ksi.
_SHARED: Final = frozenset({"name", "description", "version", "tools", "model"})
_OWN: Final = frozenset(Component.__struct_fields__) - _GIVEN - _SHARED


def parse(text: str, *, name: str) -> Component:
    """Return the component that *text* is; without front matter all of it is text.

    Raise ComponentError if the front matter is not a YAML mapping of the known shape. A file of
    another program is taken as it is.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ComponentError(f"{name!r} is larger than {MAX_BYTES} bytes")
    if "\0" in text:
        raise ComponentError(f"{name!r} is no text: it holds a NUL character")
    front, body = front_matter.split(text)
    body = body.strip() + "\n"
    fields = _fields(front, name)
    if _is_foreign(fields):
        plain = ((0, len(body)),) if _VARIABLE.search(body) else ()
        return Component(name=name, text=body, plain=plain, **_understood(fields))
    known = {key: fields[key] for key in fields if key in Component.__struct_fields__}
    try:
        component = msgspec.convert(_as_wanted(known), Component, strict=False)
    except msgspec.ValidationError as exc:
        raise ComponentError(f"{name!r}: {exc}") from exc
    return msgspec.structs.replace(component, name=name, text=body)


def unknown_fields(text: str, *, name: str) -> list[str]:
    """Return the fields of the front matter of *text* that ksi does not know.

    None of a file of another program, which means by them what it likes.
    """
    fields = _fields(front_matter.split(text)[0], name)
    if _is_foreign(fields):
        return []
    known = {*Component.__struct_fields__} - {"text", "plain"}
    return [key for key in fields if key not in known]


def placeholders(component: Component) -> list[str]:
    """Return the variables of *component* that have no value until somebody gives one."""
    unset = (m[1] for m in _found(component) if m[2] is None and m[1] not in component.variables)
    return list(dict.fromkeys(unset))


def render(component: Component, variables: dict[str, str]) -> str:
    """Return the text of *component* with each ``{{name}}`` or ``{{name|default}}`` filled in.

    One pass: what a value holds is never filled in again. Raise InvalidData for placeholders
    without a value, naming all of them, for a variable that there is none for, and for more than
    MAX_RENDERED characters.
    """
    _check_given(component, variables)
    values = component.variables | variables
    pieces, end = [], 0
    for match in _found(component):
        default = match[2] or ""
        pieces += [component.text[end : match.start()], values.get(match[1], default)]
        end = match.end()
    pieces.append(component.text[end:])
    if sum(map(len, pieces)) > MAX_RENDERED:
        raise InvalidData(
            f"component {component.name!r} with its variables is longer than {MAX_RENDERED}"
            " characters",
            details={"path": "variables"},
        )
    return "".join(pieces)


def _found(component: Component) -> list[re.Match[str]]:
    """Return the placeholders of *component*, in the order of the text."""
    found: list[re.Match[str]] = []
    at = 0
    for start, end in (*component.plain, (len(component.text), 0)):
        found += _VARIABLE.finditer(component.text, at, start)
        at = end
    return found


def _check_given(component: Component, variables: dict[str, str]) -> None:
    """Raise InvalidData unless *variables* are what *component* still needs, or can be given."""
    missing = [name for name in placeholders(component) if name not in variables]
    if missing:
        named = ", ".join(f"{{{{{name}}}}}" for name in missing)
        raise InvalidData(
            f"component {component.name!r}: no value for {named}",
            hint="give it as one of variables (--var-set NAME=TEXT)",
            details={"path": missing[0]},
        )
    known = {*component.variables, *(match[1] for match in _found(component))}
    for name in variables:
        if name not in known:
            close = nearest(name, known)
            raise InvalidData(
                f"component {component.name!r} has no variable {name!r:.80}",
                hint=f"did you mean {close!r}?" if close else None,
                details={"path": "variables"},
            )


def _fields(front: str, name: str) -> dict[str, Any]:
    """Return the fields of *front*; what other programs read as YAML is often none."""
    try:
        return front_matter.mapping(front, name)
    except ComponentError:
        fields: dict[str, Any] = front_matter.lines(front)
        if "description" in fields and _is_foreign(fields):
            return fields
        raise


def _is_foreign(fields: dict[str, Any]) -> bool:
    return _OWN.isdisjoint(fields)


def _understood(fields: dict[str, Any]) -> dict[str, Any]:
    """Return what ksi can use of the *fields* of a file of another program."""
    fields = _as_wanted({key: fields[key] for key in fields if key in _SHARED - _GIVEN})
    tools = fields.pop("tools", None)
    understood: dict[str, Any] = {k: v for k, v in fields.items() if isinstance(v, str)}
    # To say that all tools are meant is to say nothing; a right to all events it must not become.
    if isinstance(tools, list) and "*" not in tools:
        understood["tools"] = [tool for tool in tools if isinstance(tool, str)]
    if understood.get("model") == "inherit":
        del understood["model"]
    return understood


def _as_wanted(fields: dict[str, Any]) -> dict[str, Any]:
    """Return *fields* with what can be written in several ways in the one that we use."""
    tools = fields.get("tools")
    if isinstance(tools, str):
        # the comma form of agent files of other programs
        fields["tools"] = [tool for each in tools.split(",") if (tool := each.strip(" \t[]\"'"))]
    elif isinstance(tools, dict) and all(isinstance(each, bool) for each in tools.values()):
        fields["tools"] = [tool for tool, is_on in tools.items() if is_on]
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

"""What is wrong with a component: every fault at once, for those who write them.

A component that loads may still teach an event that does not exist, or show an example that no
parser takes. ``problems`` finds that by the means that the daemon itself uses: the composition,
the registry, the extractor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ksi_daemon import extraction
from ksi_daemon.component import Component, parse, placeholders, unknown_fields
from ksi_daemon.composition import compose
from ksi_daemon.errors import InvalidData, KsiError, nearest
from ksi_daemon.events import is_event_name, matches
from ksi_daemon.extraction import Call
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.registry import Registry
from ksi_daemon.security import agent, is_permitted

__all__ = ["TAUGHT", "Problem", "problems"]

# An event in running text is written in back quotes.
_NAMED_EVENT: Final = re.compile(r"`([A-Za-z][A-Za-z0-9_.-]*:[A-Za-z0-9_.*-]+)`")
_NAMED_DIALECT: Final = re.compile(r"\b(?:dialect|preset|protocol) `([a-z_0-9]+)`")
# The dialects in which components show calls. The rest is what models write by habit.
TAUGHT: Final = (
    "ksi_tool_use",
    "event",
    "ksi_body",
    "prompt_json",
    "json_action",
    "text_tagged",
    "command",
)

_PROTOCOL: Final = extraction.protocol("any", dialects=TAUGHT, legacy_event="warn")


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong. *code* is stable; *part* is the component that it stands in."""

    code: str
    message: str
    part: str
    hint: str | None = None


def problems(
    name: str, text: str, load: Callable[[str], Component], registry: Registry
) -> list[Problem]:
    """Return what is wrong with the component *name*, whose file holds *text*."""
    try:
        component = parse(text, name=name)
    except KsiError as exc:
        return [_problem(exc, name)]
    found = [
        Problem("unknown_field", f"ksi does not know the field {key!r}", name)
        for key in unknown_fields(text, name=name)
    ]
    try:
        composed = compose(component, load).component
    except KsiError as exc:
        found.append(_problem(exc, name))
        composed = component
    known = {*registry.names(), *(notice.event for notice in registry.notices())}
    return [
        *found,
        *_unset_variables(composed),
        *_unknown_presets(component),
        *_unknown_patterns(component, known),
        *_unknown_names(component, known),
        *_bad_examples(component, registry),
        *_denied_calls(component, composed, load, registry),
    ]


def _problem(exc: KsiError, part: str) -> Problem:
    return Problem(exc.code, exc.message, part, exc.hint)


def _unset_variables(component: Component) -> Iterator[Problem]:
    for variable in placeholders(component):
        message = f"{{{{{variable}}}}} has no default; whoever uses the component must give it"
        yield Problem("unset_variable", message, component.name)


def _unknown_presets(component: Component) -> Iterator[Problem]:
    wanted = component.protocol
    overrides = dict(wanted) if isinstance(wanted, dict) else {}
    preset = overrides.pop("preset", "ksi") if isinstance(wanted, dict) else wanted
    if wanted is None:
        return
    try:
        extraction.protocol(str(preset), **{k: v for k, v in overrides.items() if k == "dialects"})
    except KsiError as exc:
        yield _problem(exc, component.name)


def _unknown_patterns(component: Component, known: set[str]) -> Iterator[Problem]:
    for field in ("tools", "subscriptions", "allow"):
        for pattern in getattr(component, field) or ():
            if not any(matches(pattern, event) for event in known):
                yield _unknown_event(pattern, known, component.name, f"{field}: ")


def _unknown_names(component: Component, known: set[str]) -> Iterator[Problem]:
    named = dict.fromkeys(_NAMED_EVENT.findall(component.text))
    for event in named:
        if not any(matches(event, each) for each in known):
            yield _unknown_event(event, known, component.name)
    for dialect in dict.fromkeys(_NAMED_DIALECT.findall(component.text)):
        if dialect not in extraction.PRESETS and dialect not in DIALECTS:
            yield Problem("unknown_dialect", f"there is no {dialect!r}", component.name)


def _unknown_event(event: str, known: set[str], part: str, where: str = "") -> Problem:
    close = nearest(event, known)
    hint = f"did you mean {close!r}?" if close else None
    return Problem("unknown_event", f"{where}no event fits {event!r}", part, hint)


def _bad_examples(component: Component, registry: Registry) -> Iterator[Problem]:
    """Yield what is wrong with the calls that the text and the script show."""
    found = extraction.extract(component.text, _PROTOCOL)
    for block in found.rejected:
        yield Problem(block.code, f"an example is no call: {block.message}", component.name)
    for note in found.diagnostics:
        if note.code == "legacy_complex":
            message = f"show it as ksi_tool_use or ksi_body: {note.message}"
            yield Problem(note.code, message, component.name)
    for call in _calls(component):
        yield from _bad_call(call, component.name, registry)


def _denied_calls(
    component: Component,
    composed: Component,
    load: Callable[[str], Component],
    registry: Registry,
) -> Iterator[Problem]:
    """Yield the events that an agent shows or plays and may not emit.

    Nothing of one without a profile or tools: its rights are those of the daemon's default.
    """
    if composed.profile is None and composed.tools is None:
        return
    try:
        granted = load(f"profiles/{composed.profile}").allow if composed.profile else None
    except KsiError as exc:
        yield _problem(exc, component.name)
        return
    principal = agent("agent", (*(granted or ()), *(composed.tools or ())))
    for name in dict.fromkeys(call.name for call in _calls(component)):
        for handler in registry.handlers(name)[:1]:
            if not is_permitted(principal, name, handler.effect):
                message = f"it shows {name!r}, which its profile and its tools do not grant"
                yield Problem("denied", message, component.name)


def _calls(component: Component) -> Iterator[Call]:
    """Yield the calls that the text and the script show."""
    for text in (component.text, *_replies(component)):
        yield from extraction.extract(text, _PROTOCOL).calls


def _replies(component: Component) -> Iterator[str]:
    """Yield the texts of the component's script."""
    for reply in (component.script or {}).get("replies", ()):
        text = reply.get("text") if isinstance(reply, dict) else reply
        if isinstance(text, str):
            yield text


def _bad_call(call: Call, part: str, registry: Registry) -> Iterator[Problem]:
    handlers = registry.handlers(call.name)
    if not handlers:
        # A tool of a preset's example may come with a plugin; an event may not.
        if is_event_name(call.name):
            yield _unknown_event(call.name, {*registry.names()}, part, "an example: ")
        return
    # The daemon puts the agent's own id where the event wants it, as it does when the call runs.
    own = {handlers[0].own: "agent"} if handlers[0].own else {}
    try:
        _decode(handlers[0].decode, own | call.args)
    except (InvalidData, msgspec.ValidationError) as exc:
        yield Problem("args_schema", f"an example of {call.name!r}: {exc}", part)


def _decode(decode: Callable[[msgspec.Raw], Any], args: dict[str, Any]) -> None:
    decode(msgspec.Raw(msgspec.json.encode(args)))

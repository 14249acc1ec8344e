"""What is wrong with a component: every fault at once, for those who write them.

A component that loads may still teach an event that does not exist, or show an example that no
parser takes. ``problems`` finds that by the means that the daemon itself uses: the composition,
the registry, the extractor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from ksi_daemon import extraction
from ksi_daemon.component import Component, parse, placeholders, unknown_fields
from ksi_daemon.composition import compose
from ksi_daemon.errors import InvalidData, KsiError, nearest
from ksi_daemon.events import is_event_name, matches
from ksi_daemon.extraction import Call
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.loop import BEST, agreement
from ksi_daemon.providers import scripted
from ksi_daemon.registry import Registry
from ksi_daemon.security import agent, as_rights, check_grants, is_permitted
from ksi_daemon.security.grants import pattern_of

__all__ = ["MAX_PROBLEMS", "TAUGHT", "Problem", "problems"]

# To look for what was meant by each of ten thousand names would take seconds.
MAX_PROBLEMS: Final = 50
# An event in running text is written in back quotes.
_NAMED_EVENT: Final = re.compile(r"`([A-Za-z][A-Za-z0-9_.-]*:[A-Za-z0-9_.*-]+)`")
# So is a component, by its whole name.
_NAMED_COMPONENT: Final = re.compile(r"`((?:agents|behaviors|examples|profiles)/[a-z0-9_/-]+)`")
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
    """Return what is wrong with the component *name*, whose file holds *text*.

    At most MAX_PROBLEMS, the last of which then says that there are more.
    """
    found = list(islice(_problems(name, text, load, registry), MAX_PROBLEMS))
    if len(found) == MAX_PROBLEMS:
        found[-1] = Problem("too_many", f"there are {MAX_PROBLEMS} problems or more", name)
    return found


def _problems(
    name: str, text: str, load: Callable[[str], Component], registry: Registry
) -> Iterator[Problem]:
    try:
        component = parse(text, name=name)
    except KsiError as exc:
        yield _problem(exc, name)
        return
    for key in unknown_fields(text, name=name):
        yield Problem("unknown_field", f"ksi does not know the field {key!r:.80}", name)
    try:
        composed = compose(component, load).component
    except KsiError as exc:
        yield _problem(exc, name)
        composed = component
    known = {*registry.names(), *(notice.event for notice in registry.notices())}
    yield from _unset_variables(composed)
    yield from _bad_protocol(component)
    yield from _bad_script(component)
    yield from _bad_grants(component)
    yield from _unknown_patterns(component, known)
    yield from _unknown_names(component, known)
    yield from _bad_examples(component)
    calls = _calls(component)
    for call in calls:
        yield from _bad_call(call, name, registry)
    yield from _unknown_components(component, calls, load)
    yield from _denied_calls(component, composed, {call.name for call in calls}, load, registry)


def _problem(exc: KsiError, part: str) -> Problem:
    return Problem(exc.code, exc.message, part, exc.hint)


def _unset_variables(component: Component) -> Iterator[Problem]:
    for variable in placeholders(component):
        message = f"{{{{{variable}}}}} has no default; whoever uses the component must give it"
        yield Problem("unset_variable", message, component.name)


def _bad_protocol(component: Component) -> Iterator[Problem]:
    if component.protocol in (None, BEST):
        return
    try:
        agreement(component.protocol)
    except KsiError as exc:
        yield _problem(exc, component.name)


def _bad_script(component: Component) -> Iterator[Problem]:
    """Yield why the scripted provider cannot play the script."""
    if component.script is None:
        return
    try:
        msgspec.convert({**component.script, "type": "scripted"}, scripted.Spec)
    except msgspec.ValidationError as exc:
        yield Problem("bad_script", f"script: {exc}", component.name)


def _bad_grants(component: Component) -> Iterator[Problem]:
    try:
        check_grants(component.allow or ())
    except KsiError as exc:
        yield _problem(exc, component.name)


def _unknown_patterns(component: Component, known: set[str]) -> Iterator[Problem]:
    for field in ("tools", "subscriptions", "allow", "ask", "deny"):
        for pattern in map(pattern_of, getattr(component, field) or ()):
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


def _unknown_components(
    component: Component, calls: list[Call], load: Callable[[str], Component]
) -> Iterator[Problem]:
    """Yield those components that the text names, or a call brings to life, and that are none."""
    spawned = [call.args.get("component") for call in calls if call.name == "agent:spawn"]
    for name in dict.fromkeys((*_NAMED_COMPONENT.findall(component.text), *spawned)):
        if isinstance(name, str):
            try:
                load(name)
            except KsiError as exc:
                yield _problem(exc, component.name)


def _unknown_event(event: str, known: set[str], part: str, where: str = "") -> Problem:
    close = nearest(event, known)
    hint = f"did you mean {close!r}?" if close else None
    return Problem("unknown_event", f"{where}no event fits {event!r}", part, hint)


def _bad_examples(component: Component) -> Iterator[Problem]:
    """Yield what is wrong with the form of the calls that the text shows."""
    found = extraction.extract(component.text, _PROTOCOL)
    for block in found.rejected:
        yield Problem(block.code, f"an example is no call: {block.message}", component.name)
    for note in found.diagnostics:
        if note.code == "legacy_complex":
            message = f"show it as ksi_tool_use or ksi_body: {note.message}"
            yield Problem(note.code, message, component.name)


def _denied_calls(
    component: Component,
    composed: Component,
    shown: set[str],
    load: Callable[[str], Component],
    registry: Registry,
) -> Iterator[Problem]:
    """Yield those events *shown* by an agent that it may not emit.

    Nothing of one without a profile or tools: its rights are those of the daemon's default.
    """
    if composed.profile is None and composed.tools is None:
        return
    try:
        granted = load(f"profiles/{composed.profile}").allow if composed.profile else None
    except KsiError as exc:
        yield _problem(exc, component.name)
        return
    principal = agent("agent", as_rights((*(granted or ()), *(composed.tools or ()))))
    for name in sorted(shown):
        for handler in registry.handlers(name)[:1]:
            if not is_permitted(principal, name, handler.effect):
                message = f"it shows {name!r}, which its profile and its tools do not grant"
                yield Problem("denied", message, component.name)


def _calls(component: Component) -> list[Call]:
    """Return the calls that the text and the script show."""
    texts = (component.text, *_replies(component))
    return [call for text in texts for call in extraction.extract(text, _PROTOCOL).calls]


def _replies(component: Component) -> Iterator[str]:
    """Yield the texts of the component's script, which may be of any shape."""
    replies = (component.script or {}).get("replies")
    for reply in replies if isinstance(replies, list) else ():
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

"""Handlers and what they take: the marker, the table, the description.

``handles`` only marks a function. ``Registry.include`` finds the marked functions of a module or
an object, works out from their annotations how their data is decoded, and keeps them by name.
``tool`` makes a handler of a function whose data a JSON Schema describes; these come and go while
the daemon runs (``add``, ``remove``). Nobody but the router calls what is kept here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec

from ksi_daemon import schemas
from ksi_daemon.errors import InvalidData
from ksi_daemon.events import MAX_NAME, is_event_name, is_tool_name
from ksi_daemon.security import Effect

__all__ = ["Handler", "Nothing", "Notice", "Registry", "handles", "plain", "tool"]

Kind = Literal["task", "thread", "inline", "transaction"]
Function = TypeVar("Function", bound=Callable[..., Any])

_MARK: Final = "__ksi_handles__"


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """The data of an event that takes none."""


class Notice(NamedTuple):
    """An event that the daemon tells and nobody handles."""

    event: str
    summary: str


class _Mark(NamedTuple):
    event: str
    effect: Effect
    transaction: bool
    inline: bool
    receipt: bool
    own: str | None
    timeout_s: float | None
    example: dict[str, Any] | None
    outside: bool
    keeps: bool


class Handler(NamedTuple):
    """One registered handler, ready to be called.

    *decode* makes the payload from the event's raw data or raises; *payload* is its type, or the
    JSON Schema of an object. *receipt*: the result is for the sender's books and is not an answer
    that an agent waits for. *own*: the field of the data that must name the sending agent.
    *outside*: the result holds what strangers wrote, and taints an agent that reads it. *keeps*:
    the data are kept to be read again, so a secret in them is refused, where it is masked else.
    """

    event: str
    effect: Effect
    kind: Kind
    call: Callable[..., Any]
    decode: Callable[[msgspec.Raw], Any]
    payload: Any
    summary: str
    receipt: bool = False
    own: str | None = None
    timeout_s: float | None = None
    example: dict[str, Any] | None = None
    outside: bool = False
    keeps: bool = False

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the event's data."""
        if isinstance(self.payload, Mapping):
            return dict(self.payload)
        if hasattr(self.payload, "model_json_schema"):
            return dict(self.payload.model_json_schema())
        (schema,), components = msgspec.json.schema_components([self.payload])
        name = schema.get("$ref", "").rpartition("/")[2]
        described = components.pop(name, schema)
        return {**described, "$defs": components} if components else dict(described)


def handles(
    event: str,
    *,
    effect: Effect = "write",
    transaction: bool = False,
    inline: bool = False,
    receipt: bool = False,
    own: str | None = None,
    timeout_s: float | None = None,
    example: dict[str, Any] | None = None,
    outside: bool | None = None,
    keeps: bool = False,
) -> Callable[[Function], Function]:
    """Mark a function as the handler of *event*; ``Registry.include`` registers it.

    The function takes the data (a msgspec Struct, a pydantic model or ``dict``, by its
    annotation) and a Context; a transaction handler takes the SQLite connection as well. Its
    result is the reply; an agent that sent the event is told it, unless *receipt* is set, and is
    tainted by it if it comes from *outside*, as that of ``egress`` and ``exec`` does unless said
    otherwise. Data that it *keeps* to be read again may hold no secrets. The first sentence of the
    docstring describes the event to people and to models.
    """

    def mark(function: Function) -> Function:
        marks = getattr(function, _MARK, ())
        strange = effect in ("egress", "exec") if outside is None else outside
        new = _Mark(
            event, effect, transaction, inline, receipt, own, timeout_s, example, strange, keeps
        )
        setattr(function, _MARK, (*marks, new))
        return function

    return mark


def tool(
    name: str,
    call: Callable[..., Any],
    *,
    schema: Mapping[str, Any],
    summary: str,
    effect: Effect = "write",
    timeout_s: float | None = None,
    example: dict[str, Any] | None = None,
    outside: bool = True,
) -> Handler:
    """Return the handler of tool *name*: *call* takes an object that fits *schema*, and a Context.

    What it returns is strangers' word unless *outside* is false. A name may have a namespace or
    not. Raise ValueError for what is no name or no schema.
    """
    if not is_tool_name(name):
        raise ValueError(f"{name!r:.200} is no tool name: want letters, digits and _ . - / :")
    return Handler(
        event=name,
        effect=effect,
        kind="task" if inspect.iscoroutinefunction(call) else "thread",
        call=call,
        decode=schemas.decoder(schema),
        payload=schema,
        summary=summary,
        timeout_s=timeout_s,
        example=example,
        outside=outside,
    )


class Registry:
    """The handlers and notices by event name."""

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[Handler, ...]] = {}
        self._notices: dict[str, Notice] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, call: Callable[[], None]) -> None:
        """Have *call* called whenever a handler comes or goes, as long as the registry lives."""
        self._watchers.append(call)

    def include(self, plugin: object) -> tuple[Handler, ...]:
        """Register all marked functions and the ``NOTICES`` of *plugin*, a module or an object.

        Return the handlers, for ``exclude``. Raise ValueError or TypeError for what cannot be
        one; nothing is registered then.
        """
        notices = self._notices | {each.event: each for each in getattr(plugin, "NOTICES", ())}
        handlers, own = dict(self._handlers), tuple(_marked(plugin))
        for handler in own:
            others = handlers.get(handler.event, ())
            if others and "transaction" in (handler.kind, others[0].kind):
                raise ValueError(f"a transaction handler shares {handler.event!r} with another")
            handlers[handler.event] = (*others, handler)
        if both := notices.keys() & handlers.keys():
            raise ValueError(f"{min(both)!r} is a notice: no handler would ever be called")
        self._notices, self._handlers = notices, handlers
        self._tell()
        return own

    def exclude(self, handlers: Iterable[Handler]) -> None:
        """Forget *handlers* and leave others of their events; calls that run go on."""
        for handler in handlers:
            left = tuple(each for each in self.handlers(handler.event) if each is not handler)
            if left:
                self._handlers[handler.event] = left
            else:
                self._handlers.pop(handler.event, None)
        self._tell()

    def add(self, handler: Handler) -> None:
        """Register *handler*; raise ValueError if its name is taken."""
        if handler.event in self._handlers or handler.event in self._notices:
            raise ValueError(f"{handler.event!r} is registered already")
        self._handlers[handler.event] = (handler,)
        self._tell()

    def remove(self, event: str) -> None:
        """Forget the handlers of *event*; calls of it that run go on."""
        self._handlers.pop(event, None)
        self._tell()

    def handlers(self, event: str) -> tuple[Handler, ...]:
        """Return the handlers of *event* in the order of registration; empty if unknown."""
        return self._handlers.get(event, ())

    def notice(self, event: str) -> Notice | None:
        """Return the notice *event*, or None."""
        return self._notices.get(event)

    def names(self) -> list[str]:
        """Return every event that has a handler, sorted."""
        return sorted(self._handlers)

    def first(self) -> Iterator[Handler]:
        """Yield the answering handler of each event, sorted by name."""
        return (self._handlers[name][0] for name in self.names())

    def notices(self) -> list[Notice]:
        """Return every notice, sorted by name."""
        return sorted(self._notices.values())

    def _tell(self) -> None:
        for call in self._watchers:
            call()


def plain(value: object) -> object:
    """Turn what msgspec cannot encode into what it can: pydantic models, else their text."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else str(value)


def _marked(plugin: object) -> Iterator[Handler]:
    # Looked up without touching them: reading an attribute may run a property.
    found: dict[str, object] = {}
    for holder in reversed((plugin, *type(plugin).__mro__)):
        found |= getattr(holder, "__dict__", {})
    for name in sorted(found):
        for mark in getattr(found[name], _MARK, ()):
            yield _handler(mark, getattr(plugin, name))


def _handler(mark: _Mark, call: Callable[..., Any]) -> Handler:
    if not is_event_name(mark.event):
        raise ValueError(
            f"{mark.event!r} is no event name: want namespace:action, at most {MAX_NAME} characters"
        )
    payload = _payload_type(call)
    return Handler(
        event=mark.event,
        effect=mark.effect,
        kind=_kind(mark, call),
        call=call,
        decode=_decoder(payload),
        payload=payload,
        summary=(inspect.getdoc(call) or mark.event).partition("\n\n")[0].replace("\n", " "),
        receipt=mark.receipt,
        own=mark.own,
        timeout_s=mark.timeout_s,
        example=mark.example,
        outside=mark.outside,
        keeps=mark.keeps,
    )


def _kind(mark: _Mark, call: Callable[..., Any]) -> Kind:
    if inspect.iscoroutinefunction(call):
        if mark.transaction or mark.inline:
            raise ValueError(f"the handler of {mark.event!r} must be a plain function")
        return "task"
    if mark.transaction:
        return "transaction"
    return "inline" if mark.inline else "thread"


def _payload_type(call: Callable[..., Any]) -> Any:
    names = [name for name in inspect.signature(call).parameters if name != "self"]
    if len(names) < 2:
        raise TypeError(f"handler {call!r} must take its data and a Context")
    annotation = getattr(call, "__annotations__", {}).get(names[0], dict)
    if isinstance(annotation, str):
        # Most name a class of their module; to work out all annotations costs a tenth of a start.
        known = getattr(call, "__globals__", {}).get(annotation)
        return get_type_hints(call)[names[0]] if known is None else known
    return annotation


def _decoder(payload: Any) -> Callable[[msgspec.Raw], Any]:
    validate = getattr(payload, "model_validate_json", None)
    if validate is None:
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(payload)
        return decoder.decode

    def decode(raw: msgspec.Raw) -> Any:
        try:
            return validate(bytes(raw))
        # pydantic's ValidationError is a ValueError; naming it would import pydantic here.
        except ValueError as exc:
            raise _pydantic_error(exc) from exc

    return decode


def _pydantic_error(exc: ValueError) -> InvalidData:
    errors: list[dict[str, Any]] = getattr(exc, "errors", list)()
    first = errors[0] if errors else {"msg": str(exc), "loc": ()}
    path = ".".join(str(part) for part in first["loc"])
    message = f"{first['msg']} - at `$.{path}`" if path else str(first["msg"])
    return InvalidData(message, details={"path": path, "errors": len(errors)})

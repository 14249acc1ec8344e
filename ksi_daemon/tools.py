"""Python functions as tools: ``@tool`` marks one, ``handler`` makes the router's handler of it.

    from ksi_daemon.tools import tool

    @tool
    def count_words(text: str) -> int:
        \"\"\"Count the words of a text.\"\"\"
        return len(text.split())

The schema is that of the signature, the description the first line of the docstring. Arguments
come as the types that the annotations name. A parameter called ``ctx`` is given the Context of the
event and hidden from models. A plain function runs in a thread, so it may block.

A result is whatever JSON can say; ``bytes`` and ``File`` are kept beside the log, and the result
holds a reference to each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar, overload

import anyio.to_thread
import msgspec

from ksi_daemon import registry
from ksi_daemon.errors import InvalidData
from ksi_daemon.extraction.functions import arguments, tool_of
from ksi_daemon.files import File, FileStore
from ksi_daemon.registry import Handler
from ksi_daemon.security import Effect

__all__ = ["File", "handler", "tool", "tools_in"]

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK: Final = "__ksi_tool__"
_CONTEXT: Final = ("ctx", "context")


class _Mark(NamedTuple):
    name: str | None
    effect: Effect
    timeout_s: float | None
    example: dict[str, Any] | None
    trusted: bool


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = "write",
    timeout_s: float | None = None,
    example: dict[str, Any] | None = None,
    trusted: bool = False,
) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = "write",
    timeout_s: float | None = None,
    example: dict[str, Any] | None = None,
    trusted: bool = False,
) -> Function | Callable[[Function], Function]:
    """Mark a function as a tool; a plugin that holds it registers it.

    *name* is the function's own unless given. *effect* is what the tool does to the world
    (``observe`` for one that only reads), *timeout_s* how long it may take. *trusted*: what it
    returns is nothing that strangers wrote; else an agent that reads it is tainted.
    """

    def mark(marked: Function) -> Function:
        setattr(marked, _MARK, _Mark(name, effect, timeout_s, example, trusted))
        return marked

    return mark if function is None else mark(function)


def tools_in(plugin: object) -> Iterator[Callable[..., Any]]:
    """Yield the functions of *plugin*, a module or an object, that are marked as tools, once each.

    What a module imported from elsewhere is that module's.
    """
    own = getattr(plugin, "__name__", None) if inspect.ismodule(plugin) else None
    for name in dir(plugin):
        static = inspect.getattr_static(plugin, name)
        if isinstance(getattr(static, _MARK, None), _Mark) and (
            own is None or getattr(static, "__module__", own) == own
        ):
            yield getattr(plugin, name)


def handler(function: Callable[..., Any], files: FileStore) -> Handler:
    """Return the handler of the tool *function*, whose files go to *files*.

    Raise ValueError for one that cannot be a tool.
    """
    mark: _Mark = getattr(function, _MARK, _Mark(None, "write", None, None, False))
    described = tool_of(function, mark.name)
    made = registry.tool(
        described.name,
        _caller(function, files),
        schema={**described.schema, "additionalProperties": False},
        summary=described.description or described.name,
        effect=mark.effect,
        timeout_s=mark.timeout_s,
        example=mark.example,
        outside=not mark.trusted,
    )
    return made._replace(decode=_typed(made.decode, arguments(function)))


def _typed(
    decode: Callable[[msgspec.Raw], dict[str, Any]], kinds: Mapping[str, Any]
) -> Callable[[msgspec.Raw], dict[str, Any]]:
    """Return *decode* with the values of its object made what their annotations name."""

    def decode_typed(raw: msgspec.Raw) -> dict[str, Any]:
        given = decode(raw)
        return {name: _converted(name, value, kinds[name]) for name, value in given.items()}

    return decode_typed


def _converted(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=_validated)
    # pydantic's ValidationError is a ValueError too, as msgspec's is.
    except ValueError as exc:
        raise InvalidData(f"{name}: {exc}"[:500], details={"path": name}) from exc


def _validated(kind: Any, value: Any) -> Any:
    return kind.model_validate(value)


def _caller(function: Callable[..., Any], files: FileStore) -> Callable[..., Any]:
    """Return what calls *function* with an object of arguments and a Context."""
    taken = inspect.signature(function).parameters
    contexts = [name for name in _CONTEXT if name in taken]
    by_place = [
        name for name, each in taken.items() if each.kind is inspect.Parameter.POSITIONAL_ONLY
    ]

    def call(given: dict[str, Any], ctx: Any) -> Any:
        named = {**given, **dict.fromkeys(contexts, ctx)}
        return function(*[named.pop(name) for name in by_place if name in named], **named)

    async def call_async(given: dict[str, Any], ctx: Any) -> Any:
        result = await call(given, ctx)
        if _holds_file(result):
            return await anyio.to_thread.run_sync(_kept, result, files)
        return result

    def call_and_keep(given: dict[str, Any], ctx: Any) -> Any:
        return _kept(call(given, ctx), files)

    return call_async if inspect.iscoroutinefunction(function) else call_and_keep


def _holds_file(result: Any) -> bool:
    if isinstance(result, list | tuple):
        return any(map(_holds_file, result))
    if isinstance(result, dict):
        return any(map(_holds_file, result.values()))
    return isinstance(result, bytes | bytearray | File)


def _kept(result: Any, files: FileStore) -> Any:
    """Return *result* with a reference in the place of each file."""
    if not _holds_file(result):
        return result
    if isinstance(result, dict):
        return {name: _kept(each, files) for name, each in result.items()}
    if isinstance(result, list | tuple):
        return [_kept(each, files) for each in result]
    return files.keep(result if isinstance(result, File) else File(bytes(result)))

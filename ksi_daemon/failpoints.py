"""Places where a daemon can be made to die, for tests of what the next one makes of it.

``KSI_FAILPOINT=NAME`` in the environment puts one in. They are wrapped around the methods of a turn
from outside, so a daemon that is not asked to die carries nothing of them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import anyio
import anyio.lowlevel

from ksi_daemon.errors import UsageError, nearest
from ksi_daemon.router import Router
from ksi_daemon.services.completions.exchange import Exchange

__all__ = ["DIED_EXIT", "POINTS", "install"]

DIED_EXIT: Final = 137  # 128 + SIGKILL, as a shell reports it
CONFIG_EXIT: Final = 78


class Point(NamedTuple):
    """Before, during or after the first call of *method* for which *counts* holds."""

    owner: type
    method: str
    when: Literal["before", "during", "after"]
    counts: Callable[..., bool] = lambda *args, **named: True


def _is_call(router: Router, delivery: Any, *, logged: bool) -> bool:
    return logged and delivery.event.call is not None


def _is_end_of_call(router: Router, context: Any, outcome: Any) -> bool:
    return context.event.call is not None


# In the order of a turn.
POINTS: Final[Mapping[str, Point]] = MappingProxyType(
    {
        "turn_begun": Point(Exchange, "_complete", "before"),
        "reply_awaited": Point(Exchange, "_complete", "during"),
        "reply_received": Point(Exchange, "_store", "before"),
        "reply_stored": Point(Exchange, "_act", "before"),
        "call_logged": Point(Router, "_start", "before", _is_call),
        "call_handled": Point(Router, "_conclude", "before", _is_end_of_call),
        "first_call_done": Point(Exchange, "_run", "after"),
        "turn_ended": Point(Exchange, "_act", "after"),
        "exchange_ended": Point(Exchange, "run", "after"),
    }
)


def install(name: str) -> None:
    """Have this process die at the point *name*; raise UsageError if there is none."""
    if name not in POINTS:
        close = nearest(name, POINTS)
        raise UsageError(
            f"no failpoint {name!r}",
            exit_code=CONFIG_EXIT,
            hint=f"did you mean {close!r}?" if close else f"there are {', '.join(POINTS)}",
        )
    point = POINTS[name]
    method = getattr(point.owner, point.method)
    wrapped = _awaited(method, point) if inspect.iscoroutinefunction(method) else _at(method, point)
    setattr(point.owner, point.method, wrapped)


def _at(method: Callable[..., Any], point: Point) -> Callable[..., Any]:
    @wraps(method)
    def dying(*args: Any, **named: Any) -> Any:
        if point.counts(*args, **named):
            _die()
        return method(*args, **named)

    return dying


def _awaited(method: Callable[..., Any], point: Point) -> Callable[..., Any]:
    @wraps(method)
    async def dying(*args: Any, **named: Any) -> Any:
        if not point.counts(*args, **named):
            return await method(*args, **named)
        if point.when == "during":
            await _begun(method, *args)
        elif point.when == "after":
            await method(*args, **named)
        return _die()

    return dying


async def _begun(method: Callable[..., Any], *args: Any) -> None:
    """Call *method*, and return as soon as it waits for something."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(method, *args)
        await anyio.lowlevel.checkpoint()
        _die()


def _die() -> None:
    os._exit(DIED_EXIT)

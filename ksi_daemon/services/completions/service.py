"""The service: who holds an exchange now, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec

from ksi_daemon.conversation import Answer, Cutoff, Inbound, Session
from ksi_daemon.errors import Conflict, Denied, InvalidData, KsiError, NotFound, ProviderError
from ksi_daemon.events import ErrorInfo, Outcome
from ksi_daemon.providers.model import Price
from ksi_daemon.router import (
    Context,
    Nothing,
    Notice,
    Router,
    Submission,
    handles,
    new_id,
)
from ksi_daemon.security import SYSTEM
from ksi_daemon.services.completions.exchange import Exchange
from ksi_daemon.services.completions.manners import Manners
from ksi_daemon.services.completions.records import failure_row
from ksi_daemon.services.completions.single import Ask, Making, check, complete
from ksi_daemon.services.completions.turnstile import Turnstile
from ksi_daemon.work import Statement

__all__ = ["Completions"]


# Providers have deadlines of their own.
WAIT_S: Final = 86_400.0
_ASK: Final = {"prompt": "Say hello.", "provider": "scripted"}


class Which(msgspec.Struct, forbid_unknown_fields=True):
    """Of an agent its exchange, or a completion by the id of its request."""

    agent_id: str | None = None
    request_id: str | None = None


class Completions:
    """The exchanges under way."""

    NOTICES: Final = (
        Notice("completion:result", "A model replied; the data hold its text and what it cost."),
        Notice("completion:error", "An exchange failed: no completion, or a limit was reached."),
        Notice("completion:cancelled", "An exchange was cancelled before it ended."),
    )

    def __init__(
        self,
        router: Router,
        *,
        price_of: Callable[[str], Price | None],
        provider_of: Making,
    ) -> None:
        self._router = router
        self.price_of = price_of
        self.provider_of = provider_of
        self._turnstile = Turnstile()
        self._manners = Manners()
        self._running: dict[str, Exchange] = {}
        self._asked: dict[str, anyio.CancelScope] = {}

    async def answer(
        self, session: Session, inbound: Inbound, cutoff: Cutoff | None = None
    ) -> Answer:
        """Hold the exchange that *inbound* begins; return how it ended. One at a time per agent.

        *cutoff* is where a crash cut it off. Rows of its last turn are left in the session.
        """
        exchange = Exchange(
            self._router,
            session,
            inbound,
            self.price_of,
            self._turnstile,
            self._manners,
            cutoff,
        )
        self._running[session.agent_id] = exchange
        try:
            return await exchange.run()
        finally:
            # By now it may be the exchange of a new agent that has taken the id.
            if self._running.get(session.agent_id) is exchange:
                del self._running[session.agent_id]

    @handles("completion:run", effect="admin", timeout_s=WAIT_S, example=_ASK)
    async def run(self, data: Ask, ctx: Context) -> dict[str, Any]:
        """Ask a model once, without an agent; what it calls is told and not run."""
        check(data)
        # A provider may be a command.
        if isinstance(data.provider, dict) and not ctx.principal.operator:
            raise Denied("an agent may not choose a provider object")
        provider = self.provider_of(data.provider)
        request_id = ctx.event.id
        scope = self._asked[request_id] = anyio.CancelScope()
        try:
            with scope:
                price = provider.price or self.price_of(data.model or provider.model)
                return await complete(data, provider, price, ctx)
        except ProviderError as exc:
            row = failure_row(f"{request_id}.error", None, provider, exc.code)
            self._tell("completion:error", ctx, {"error": exc.info()}, exc.info(), (row,))
            raise
        except KsiError as exc:
            self._tell("completion:error", ctx, {"error": exc.info()}, exc.info())
            raise
        finally:
            del self._asked[request_id]
        cancelled = Conflict("the completion was cancelled", code="cancelled")
        self._tell("completion:cancelled", ctx, {"reason": "cancelled"})
        raise cancelled

    @handles("completion:async", effect="admin", example=_ASK)
    async def start(self, data: Ask, ctx: Context) -> dict[str, str]:
        """Do as completion:run does, and reply at once; completion:result tells the rest."""
        check(data)
        request_id = new_id()
        self._router.submit(
            Submission(
                event="completion:run",
                data=ctx.event.data,
                principal=ctx.principal,
                cause=ctx.event,
                event_id=request_id,
            )
        )
        return {"request_id": request_id}

    @handles("completion:status", effect="observe", inline=True, example={})
    def status(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List what is under way: exchanges of agents with their turn, and single requests."""
        running = [exchange.status() for exchange in self._running.values()]
        return {"running": running, "requests": list(self._asked)}

    @handles("completion:cancel", effect="admin", example={"agent_id": "greeter"})
    async def cancel(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Cancel the exchange that an agent holds, or a completion; its request is stopped."""
        if (data.agent_id is None) == (data.request_id is None):
            raise InvalidData("give either agent_id or request_id", details={"path": "agent_id"})
        if data.request_id is not None:
            if data.request_id not in self._asked:
                raise NotFound("completion under way of request", data.request_id, self._asked)
            self._asked[data.request_id].cancel()
            return {"cancelled": data.request_id}
        if not self.stop(str(data.agent_id), "cancelled"):
            raise NotFound("exchange under way of agent", str(data.agent_id), self._running)
        return {"cancelled": data.agent_id}

    def stop(self, agent_id: str, reason: str) -> bool:
        """Cancel the exchange of *agent_id*, if it holds one; say whether it did."""
        exchange = self._running.get(agent_id)
        if exchange is not None:
            exchange.cancel(reason)
        return exchange is not None

    def _tell(
        self,
        event: str,
        ctx: Context,
        data: dict[str, Any],
        error: ErrorInfo | None = None,
        rows: tuple[Statement, ...] = (),
    ) -> None:
        outcome = Outcome("failed", error=error) if error else None
        told = {"request_id": ctx.event.id, **data}
        self._router.submit(
            Submission(
                event=event,
                data=msgspec.Raw(msgspec.json.encode(told)),
                principal=SYSTEM,
                cause=ctx.event,
                outcome=outcome,
                event_id=f"{ctx.event.id}.error" if error else None,
                statements=rows,
            )
        )

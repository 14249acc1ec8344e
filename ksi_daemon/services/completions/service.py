"""The service: who holds an exchange now, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ksi_daemon.conversation import Answer, Inbound, Session
from ksi_daemon.errors import NotFound
from ksi_daemon.events import Event
from ksi_daemon.loop import Price
from ksi_daemon.router import Context, Nothing, Notice, Router, handles
from ksi_daemon.services.completions.exchange import Exchange

__all__ = ["Completions"]


class Which(msgspec.Struct, forbid_unknown_fields=True):
    agent_id: str


class Completions:
    """The exchanges under way."""

    NOTICES: Final = (
        Notice("completion:result", "A model replied; the data hold its text and what it cost."),
        Notice("completion:error", "An exchange failed: no completion, or a limit was reached."),
        Notice("completion:cancelled", "An exchange was cancelled before it ended."),
    )

    def __init__(
        self, router: Router, price_of: Callable[[str], Price | None] = lambda model: None
    ) -> None:
        self._router = router
        self._price_of = price_of
        self._running: dict[str, Exchange] = {}

    async def answer(
        self, session: Session, inbound: Inbound, unfinished: Event | None = None
    ) -> Answer:
        """Hold the exchange that *inbound* begins; return how it ended. One at a time per agent.

        *unfinished* is the completion:result event after which a crash cut the exchange off.
        """
        exchange = Exchange(self._router, session, inbound, self._price_of)
        self._running[session.agent_id] = exchange
        try:
            return await exchange.run(unfinished)
        finally:
            # By now it may be the exchange of a new agent that has taken the id.
            if self._running.get(session.agent_id) is exchange:
                del self._running[session.agent_id]

    @handles("completion:status", effect="observe", inline=True, example={})
    def status(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the exchanges under way: agent, request, turn."""
        return {"running": [exchange.status() for exchange in self._running.values()]}

    @handles("completion:cancel", effect="admin", example={"agent_id": "greeter"})
    async def cancel(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Cancel the exchange that an agent holds; its request to the model is stopped."""
        if not self.stop(data.agent_id, "cancelled"):
            raise NotFound("exchange under way of agent", data.agent_id, self._running)
        return {"cancelled": data.agent_id}

    def stop(self, agent_id: str, reason: str) -> bool:
        """Cancel the exchange of *agent_id*, if it holds one; say whether it did."""
        exchange = self._running.get(agent_id)
        if exchange is not None:
            exchange.cancel(reason)
        return exchange is not None

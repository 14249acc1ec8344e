"""approval:*: calls of agents that wait for a person.

An agent's rights may say of an event: ask. Its call is denied then, and an approval is asked for.
A person who grants it has the very same call submitted, once; the agent hears of the end by a
message. An approval is void when it is old, when the agent is gone, or when its rights are others.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Protocol

import msgspec
import structlog

from ksi_daemon.errors import Conflict, Denied, KsiError, NotFound
from ksi_daemon.events import Event, now
from ksi_daemon.log.approvals import Approval, approval, verdict
from ksi_daemon.router import Context, Nothing, Router, Submission, Submitted, handles, new_id
from ksi_daemon.security import Principal, binding
from ksi_daemon.work import Statement

__all__ = ["EXPIRES_S", "MAX_PENDING", "Approvals"]

log = structlog.get_logger()

EXPIRES_S: Final = 600.0
# Of one agent; whoever asks for more is to wait for answers first.
MAX_PENDING: Final = 16
# What is granted may take as long as a tool takes.
GRANT_S: Final = 3_600.0


class Which(msgspec.Struct, forbid_unknown_fields=True):
    approval_id: str


class Refusal(msgspec.Struct, forbid_unknown_fields=True):
    """*reason* is told to the agent."""

    approval_id: str
    reason: str = ""


class ApprovalReader(Protocol):
    """The part of the log that is read here."""

    async def pending_approvals(self) -> list[Approval]: ...

    async def event(self, key: str) -> Event | None: ...


class Approvals:
    """What waits for a person. *principal_of* tells who an agent is to the router by now."""

    def __init__(
        self,
        router: Router,
        reader: ApprovalReader,
        principal_of: Callable[[str], Principal | None],
    ) -> None:
        self._router = router
        self._reader = reader
        self._principal_of = principal_of
        self._pending: dict[str, Approval] = {}

    async def restore(self) -> int:
        """Take up what waited when the daemon stopped; return how many."""
        self._pending = {each.approval_id: each for each in await self._reader.pending_approvals()}
        return len(self._pending)

    def forget(self, agent_id: str) -> None:
        """Drop what waits of an agent that has ended."""
        self._pending = {k: v for k, v in self._pending.items() if v.agent_id != agent_id}

    def ask(self, event: Event, principal: Principal) -> tuple[str, tuple[Statement, ...]]:
        """Return the id of the approval that *event* needs, and the rows that ask for it.

        The same call does not ask twice. Raise Denied if the agent waits for too many.
        """
        self._drop_expired()
        digest, agent_id = binding(principal, event.name, event.data), principal.agent_id or ""
        own = [each for each in self._pending.values() if each.agent_id == agent_id]
        for each in own:
            if each.digest == digest:
                return each.approval_id, ()
        if len(own) >= MAX_PENDING:
            raise Denied(
                f"{MAX_PENDING} approvals are asked for already", code="too_many_approvals"
            )
        asked = Approval(
            approval_id=f"ap_{new_id()[-12:]}",
            agent_id=agent_id,
            event_id=event.id,
            event=event.name,
            data=event.data,
            digest=digest,
            made=now(),
            expires=now() + timedelta(seconds=EXPIRES_S),
        )
        self._pending[asked.approval_id] = asked
        return asked.approval_id, (approval(asked),)

    @handles("approval:list", effect="observe", inline=True, example={})
    def list(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the calls that wait for a person, the oldest first."""
        self._drop_expired()
        return {"approvals": [_shown(each) for each in self._pending.values()]}

    @handles(
        "approval:grant",
        effect="admin",
        timeout_s=GRANT_S,
        example={"approval_id": "ap_0123456789ab"},
    )
    async def grant(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Have a call run that waits for a person; only a person may."""
        asked = self._taken(data.approval_id, ctx.principal)
        submitted = await self._submit(asked, ctx.principal)
        outcome = submitted.outcome
        error = outcome.error
        told = (
            f"Error {error.code}: {error.message}"
            if error
            else bytes(outcome.result or b"null").decode()
        )
        ctx.outside = submitted.outside
        await self._tell(ctx, asked, f"was approved. It is {outcome.status}:\n{told}")
        return {
            "approval_id": asked.approval_id,
            "event_id": submitted.event.id,
            "status": outcome.status,
            **({"error": error} if error else {"result": outcome.result}),
        }

    @handles("approval:deny", effect="admin", example={"approval_id": "ap_0123456789ab"})
    async def deny(self, data: Refusal, ctx: Context) -> dict[str, Any]:
        """Refuse a call that waits for a person; only a person may."""
        asked = self._taken(data.approval_id, ctx.principal)
        await self._router.record(verdict(asked.approval_id, "denied", ctx.principal.source, now()))
        reason = f": {data.reason}" if data.reason else "."
        await self._tell(ctx, asked, f"was refused{reason}")
        return {"approval_id": asked.approval_id}

    def _taken(self, approval_id: str, principal: Principal) -> Approval:
        """Take a pending approval out for its verdict; raise what forbids it."""
        if not principal.human:
            raise Denied(
                f"{principal.source} is no person, and persons approve",
                hint="`ksi approvals` asks as a person",
            )
        self._drop_expired()
        asked = self._pending.pop(approval_id, None)
        if asked is None:
            raise NotFound("pending approval", approval_id, self._pending)
        return asked

    async def _submit(self, asked: Approval, granter: Principal) -> Submitted:
        """Submit the call; its event and the verdict that lets it through are one commit."""
        principal = self._principal_of(asked.agent_id)
        if principal is None or binding(principal, asked.event, asked.data) != asked.digest:
            raise Conflict(
                f"the rights of agent {asked.agent_id!r} are not those that it asked with",
                code="approval_void",
            )
        run_id = f"{asked.event_id}.approved"
        return await self._router.submit(
            Submission(
                event=asked.event,
                data=asked.data,
                principal=principal,
                cause=await self._reader.event(asked.event_id),
                event_id=run_id,
                idempotency_key=run_id,
                approved=asked.digest,
                statements=(verdict(asked.approval_id, "granted", granter.source, now()),),
            )
        )

    async def _tell(self, ctx: Context, asked: Approval, what: str) -> None:
        """Tell the agent, if it still lives, what became of its call."""
        message = f"Your {asked.event} call ({asked.approval_id}) {what}"
        try:
            await ctx.emit(
                "agent:send", {"agent_id": asked.agent_id, "message": message, "untrusted": True}
            )
        except KsiError as exc:
            log.warning("approval_untold", approval_id=asked.approval_id, error=exc.message)

    def _drop_expired(self) -> None:
        moment = now()
        self._pending = {k: v for k, v in self._pending.items() if v.expires > moment}


def _shown(asked: Approval) -> dict[str, Any]:
    shown = msgspec.structs.asdict(asked)
    del shown["digest"]
    return shown

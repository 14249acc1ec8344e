"""What an agent is asked, remembers and answers, as values that services hand to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ksi_daemon import extraction
from ksi_daemon.events import ErrorInfo, Event
from ksi_daemon.extraction import Protocol, Schemas, Tool
from ksi_daemon.loop import EVENT_DIALECTS, Agreement, LoopLimits, agreement, overridden
from ksi_daemon.providers.model import Capabilities, Message, Provider
from ksi_daemon.security import Principal
from ksi_daemon.security.provenance import Readings, fingerprints, new_nonce
from ksi_daemon.work import Statement

__all__ = [
    "Answer",
    "CallReport",
    "Cutoff",
    "Inbound",
    "LoopLimits",
    "Manner",
    "Session",
    "manner_of",
]


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an agent. *cause* is the event that brought it; its id names the exchange.

    *untrusted*: the text quotes a document or comes from another agent, so a call that stands
    in it must not fire when it is repeated. *tainted*: the text is a stranger's, or
    that of an agent that has read a stranger's. *protocol* overrides the agent's own for this
    exchange.
    """

    cause: Event
    content: str
    untrusted: bool = False
    tainted: bool = False
    protocol: str | dict[str, Any] | None = None

    @property
    def request_id(self) -> str:
        """The id of the event that brought the message."""
        return self.cause.id


class CallReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one call of an exchange."""

    id: str
    name: str
    status: str
    result: Any = None
    error: ErrorInfo | None = None


class Answer(msgspec.Struct, frozen=True):
    """The end of an exchange. *text* is the last reply without its calls, *rejected* counts the
    blocks of all its replies that did not fire.

    *finish_reason*: stop, final, length, max_iterations, retry_exhausted, consecutive_mistakes,
    no_progress, halted (a budget is used up), cancelled, terminated, or the code of the
    provider's error. *error* says more of an end that is none of the first three. *result* is the
    content of a final answer, UNSET where there is none (None is an answer).
    """

    request_id: str
    text: str
    finish_reason: str
    turns: int
    calls: tuple[CallReport, ...] = ()
    error: ErrorInfo | None = None
    rejected: int = 0
    result: Any = msgspec.UNSET


class Cutoff(msgspec.Struct, frozen=True):
    """Where a crash cut an exchange off.

    *counts* is what it had used up and got wrong by its last completion, as JSON; None if it had
    none. *unfinished* is that completion, as its event, if its calls may not all have run.
    """

    counts: bytes | None = None
    unfinished: Event | None = None


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How one exchange is spoken. *system* is the whole system prompt; with *native* the tools
    go to the provider as such, and the prompt says nothing of them. *examples* are the fingerprints
    of the calls that stand in the agent's own text.

    *proof* is what a turn is told of its nonce, with *blank* in the nonce's place; in a strict
    agreement it stands in *system* already, and in each example there. Both are empty where calls
    have no place for one. *digest* is over all that decides how a reply is read.
    """

    agreement: Agreement
    protocol: Protocol
    system: str
    tools: tuple[Tool, ...]
    schemas: Schemas
    native: bool
    examples: frozenset[bytes] = frozenset()
    proof: str = ""
    blank: str = ""
    digest: bytes = b""

    @property
    def has_nonce(self) -> bool:
        """Whether a call can carry a nonce."""
        return bool(self.blank)

    @property
    def strict_nonce(self) -> bool:
        """Whether a call must carry one."""
        return self.agreement.settings.nonce == "strict"

    def new_nonce(self, *, asked_for: bool, unlike: Sequence[Message] = ()) -> str | None:
        """Return the nonce of a new turn, which stands in no message of *unlike*; None if it is
        told none.

        In a lenient agreement a turn is told one if it is *asked_for*, because the turn before had
        a call held: to change the prompt at each turn makes a vendor's cache of it useless.
        """
        if not self.has_nonce or not (self.strict_nonce or asked_for):
            return None
        return new_nonce(message.content for message in unlike)

    def with_nonce(self, nonce: str | None) -> Manner:
        """Return the manner of a turn that is told *nonce*, if there is one."""
        if nonce is None:
            return self
        told = self.system if self.strict_nonce else f"{self.system.rstrip()}\n\n{self.proof}\n"
        return msgspec.structs.replace(self, system=told.replace(self.blank, nonce))


class Session(msgspec.Struct, kw_only=True):
    """One agent's side of its conversation, while the daemon runs.

    *system* is the agent's own text, without what teaches its protocol, *spoken* names that.
    *messages* holds the conversation without the system prompt; *position* counts the rows that
    the log has of it. *tools* are what the agent may emit, *readings* what it was given to read.
    *unsaved* are rows that go to the log together with the next completion, or with the end of the
    exchange: what a crash loses of them, the completion before them leads to again. *on_taint* is
    called with the event by which the agent is given untrusted text.
    """

    agent_id: str
    principal: Principal
    system: str
    provider: Provider
    model: str | None
    spoken: str | dict[str, Any]
    limits: LoopLimits
    tools: tuple[Tool, ...] = ()
    messages: list[Message] = msgspec.field(default_factory=list)
    position: int = 0
    unsaved: list[Statement] = msgspec.field(default_factory=list)
    on_taint: Callable[[str], None] = lambda event_id: None
    usual: Manner | None = None
    readings: Readings = msgspec.field(default_factory=Readings)

    def take_unsaved(self) -> tuple[Statement, ...]:
        """Return the rows that the log lacks; whoever takes them writes them."""
        rows = tuple(self.unsaved)
        self.unsaved.clear()
        return rows

    def manner(self, override: str | Mapping[str, Any] | None = None) -> Manner:
        """Return how an exchange is spoken; *override* is what its request says. Raise KsiError."""
        if override is None and self.usual is not None:
            return self.usual
        manner = manner_of(
            agreement(overridden(self.spoken, override)),
            self.system,
            self.tools,
            self.provider.capabilities,
            max_calls=self.limits.calls,
        )
        if override is None:
            # To make up and try the examples of a prompt costs more than a turn does.
            self.usual = manner
        return manner


def manner_of(
    agreed: Agreement,
    system: str,
    tools: Sequence[Tool],
    capabilities: Capabilities,
    *,
    max_calls: int,
) -> Manner:
    """Return how an agent with the text *system* and *tools* speaks with a provider.

    Of a provider that runs tools of its own only events are read (CONFORMANCE S004-42). Whoever
    has no tools was taught no ``prompt_json``: what looks like it is data (S003-12).
    """
    protocol, wanted = agreed.protocol, agreed.settings.use_native_tools
    able = capabilities.native_tool_calls if wanted == "auto" else wanted
    native = able and bool(tools)
    if capabilities.self_contained_tools:
        native, protocol = False, _only_events(protocol)
    blank = new_nonce()
    proof = "" if native else extraction.proof(protocol, tools, blank)
    strict = agreed.settings.nonce == "strict"
    taught = extraction.augment(system, protocol, tools, nonce=blank if strict else None)
    schemas = {tool.name: tool.schema for tool in tools}
    read_by = msgspec.structs.replace(
        _readable(protocol, tools), max_calls=min(protocol.max_calls, max_calls)
    )
    return Manner(
        agreement=agreed,
        protocol=read_by,
        system=system if native else taught,
        tools=tuple(tools),
        schemas=schemas,
        native=native,
        examples=fingerprints([system], protocol, schemas),
        proof=proof,
        blank=blank if proof else "",
        digest=_digest(read_by, schemas, native=native),
    )


def _digest(protocol: Protocol, schemas: Schemas, *, native: bool) -> bytes:
    return blake2b(msgspec.json.encode((protocol, schemas, native)), digest_size=16).digest()


def _only_events(protocol: Protocol) -> Protocol:
    events = tuple(name for name in protocol.dialects if name in EVENT_DIALECTS)
    events = events or extraction.protocol("ksi").dialects
    return msgspec.structs.replace(protocol, mode="lenient", dialects=events)


def _readable(protocol: Protocol, tools: Sequence[Tool]) -> Protocol:
    if tools:
        return protocol
    dialects = tuple(name for name in protocol.dialects if name != "prompt_json")
    return msgspec.structs.replace(protocol, dialects=dialects)

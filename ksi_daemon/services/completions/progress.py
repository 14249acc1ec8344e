"""What an exchange has used up and got wrong so far, and the reason for which it ends. Pure.

The counts are logged with each completion, so that no crash gives back what a budget has lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from ksi_daemon.conversation import Manner
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Call, Rejected
from ksi_daemon.loop import LoopLimits
from ksi_daemon.providers.model import Completion, Price, Request, Usage
from ksi_daemon.services.completions.blocks import Block, Done, is_fault

__all__ = ["FAILURES", "Counts", "Fault", "Progress"]

# For providers that do not tell their usage: a budget must not fail open.
CHARACTERS_PER_TOKEN: Final = 4

# A model is told so many calls before it is stopped.
_WARN_BEFORE: Final = 2
# Different calls of one exchange that are counted; the oldest is forgotten beyond that.
MAX_SAME: Final = 32

# Ends that are none of the agent's own, and what a person is told of them.
FAILURES: Final = {
    "max_iterations": "the agent came to the limit of its turns",
    "retry_exhausted": "the model was asked again and its replies were still refused",
    "consecutive_mistakes": "the model made nothing but mistakes, turn after turn",
    "no_progress": "the model said the very same again and again",
    "halted": "a budget is used up",
    "provider_error": "the model's reply broke off, so nothing of it was run",
}


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """A block that went wrong through the model, until a later turn makes it good.

    It was the model's try of number *tries*; those that were tries of the same have the same
    *root*.
    """

    completion_id: str
    ordinal: int
    turn: int
    tool: str | None
    tries: int = 1
    root: str = ""


class Counts(msgspec.Struct, omit_defaults=True):
    """The counts of one exchange after *turn* turns: *tokens* and US dollars, *seconds* on the
    clock, and in a row: replies *refused*, turns of *mistakes*, *repeats* of the reply with digest
    *last*. *faults* are not made good yet. *same* counts calls by what they were and came to."""

    turn: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    refused: int = 0
    mistakes: int = 0
    repeats: int = 0
    last: str = ""
    faults: tuple[Fault, ...] = ()
    same: dict[str, int] = {}


class Progress:
    """One exchange so far; *counts* are those that a crash cut off.

    Raise KsiError (``no_price``) for a budget of money over a model without a price.
    """

    def __init__(
        self,
        limits: LoopLimits,
        manner: Manner,
        price: Price | None,
        counts: Counts | None = None,
    ) -> None:
        if limits.usd is not None and price is None:
            raise KsiError(
                "the agent has a budget of money, and its model has no price",
                code="no_price",
                hint="give one with prices in its provider, or with the setting prices",
            )
        self.counts = counts or Counts()
        self._limits = limits
        self._retries = manner.agreement.settings.max_protocol_retries
        self._strict = manner.agreement.on_malformed == "reject_reply"
        self._turns = manner.agreement.settings.max_iterations or limits.turns
        self._price = price

    def may_ask(self) -> bool:
        """Say whether the model may be asked again, as far as turns go."""
        return self.counts.turn < self._turns

    def spend(self, request: Request, completion: Completion) -> None:
        """Count what *completion* cost, by its usage or else by the length of the texts."""
        usage = completion.usage
        if not usage.input_tokens and not usage.output_tokens:
            asked = sum(len(message.content) for message in request.messages)
            usage = Usage(_tokens(asked), _tokens(len(completion.text)))
        self.counts.tokens += usage.input_tokens + usage.output_tokens
        if self._price is not None:
            self.counts.usd += self._price.of(usage)

    def tries(self, blocks: Sequence[Block]) -> list[int]:
        """Return of which number each of *blocks* is a try: 1 for a first, 2 for a second."""
        return [1 if fault is None else fault.tries + 1 for fault in self._again(blocks)]

    def judge(self, done: Sequence[Done], text: str, completion_id: str, turn: int) -> list[Fault]:
        """Count the mistakes of a turn; return the earlier ones that it made good."""
        tried = list(zip(done, self._again([each.block for each in done]), strict=True))
        good = [each for each in tried if each[0].report and each[0].report.status == "handled"]
        roots = {before.root for _, before in good if before is not None}
        faults = [
            _fault(completion_id, each.block, turn, before)
            for each, before in tried
            if is_fault(each)
        ]
        counts = self.counts
        made_good = [fault for fault in counts.faults if fault.root in roots]
        counts.faults = (*(each for each in counts.faults if each.root not in roots), *faults)
        counts.refused = counts.refused + 1 if faults and self._strict else 0
        counts.mistakes = counts.mistakes + 1 if faults and not good else 0
        reply = _digest(text, done)
        counts.repeats = counts.repeats + 1 if reply == counts.last else 1
        counts.last = reply
        return made_good

    def repeated(self, done: Sequence[Done]) -> list[str]:
        """Count the calls of a turn; return the tools that were called again and again in vain.

        A call that comes to something else each time, such as one that looks whether something
        has changed yet, is not in vain.
        """
        same = self.counts.same
        tools: list[str] = []
        for each in done:
            if each.report is None or each.receipt:
                continue
            key = _outcome_digest(each)
            same[key] = same.pop(key, 0) + 1
            if same[key] >= self._limits.same_calls - _WARN_BEFORE:
                tools.append(each.report.name)
        for oldest in [*same][:-MAX_SAME]:
            del same[oldest]
        return tools

    def end(self) -> str | None:
        """Return why the model must not be asked again, None if it may be."""
        if self.spent() is not None:
            return "halted"
        counts = self.counts
        if counts.refused:
            # How often a refused reply is asked for again is a setting of its own.
            return "retry_exhausted" if counts.refused > self._retries else None
        if counts.mistakes >= self._limits.mistakes:
            return "consecutive_mistakes"
        again = max(counts.same.values(), default=0)
        if counts.repeats >= self._limits.identical or again >= self._limits.same_calls:
            return "no_progress"
        return None

    def spent(self) -> str | None:
        """Say which budget is used up, None if none is."""
        limits, counts = self._limits, self.counts
        if limits.tokens is not None and counts.tokens >= limits.tokens:
            return f"{counts.tokens} tokens, the limit is {limits.tokens}"
        if limits.usd is not None and counts.usd >= limits.usd:
            return f"{counts.usd:.6f} US dollars, the limit is {limits.usd:g}"
        return None

    def _again(self, blocks: Sequence[Block]) -> list[Fault | None]:
        """Return for each of *blocks* the fault of an earlier turn that it is another try of.

        What can be read comes before what cannot: it is more likely what was asked for again.
        """
        last = {fault.root: fault for fault in self.counts.faults}
        found: dict[int, Fault] = {}
        for at in sorted(range(len(blocks)), key=lambda at: isinstance(blocks[at].found, Rejected)):
            tool = getattr(blocks[at].found, "name", None)
            for root, fault in last.items():
                if tool is None or fault.tool in (None, tool):
                    found[at] = last.pop(root)
                    break
        return [found.get(at) for at in range(len(blocks))]


def _fault(completion_id: str, block: Block, turn: int, before: Fault | None) -> Fault:
    tool = getattr(block.found, "name", None)
    if before is None:
        root = f"{completion_id}.{block.ordinal}"
        return Fault(completion_id, block.ordinal, turn, tool, 1, root)
    tool = tool or before.tool
    return Fault(completion_id, block.ordinal, turn, tool, before.tries + 1, before.root)


def _digest(text: str, done: Sequence[Done]) -> str:
    """Return what a reply with the calls beside it is known by; their ids are no part of it."""
    founds = [each.block.found for each in done if each.block.native]
    calls = [(each.name, each.args) if isinstance(each, Call) else each.excerpt for each in founds]
    written = msgspec.json.encode((text, calls))
    return blake2b(written, digest_size=8).hexdigest()


def _outcome_digest(done: Done) -> str:
    """Return what a call and its end are known by."""
    found, report = done.block.found, done.report
    args = found.args if isinstance(found, Call) else None
    error = report and report.error and (report.error.code, report.error.message)
    written = (report and (report.name, report.status, report.result), args, error)
    return blake2b(msgspec.json.encode(written, order="deterministic"), digest_size=8).hexdigest()


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)

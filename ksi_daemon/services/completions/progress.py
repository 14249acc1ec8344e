"""What an exchange has used up and got wrong so far, and the reason for which it ends. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from ksi_daemon.conversation import Manner
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Call
from ksi_daemon.loop import LoopLimits, Price
from ksi_daemon.providers.model import Completion, Request, Usage
from ksi_daemon.services.completions.blocks import Done, is_fault

__all__ = ["FAILURES", "Fault", "Progress"]

# For providers that do not tell their usage: a budget must not fail open.
CHARACTERS_PER_TOKEN: Final = 4

# Ends that are none of the agent's own, and what a person is told of them.
FAILURES: Final = {
    "max_iterations": "the agent came to the limit of its turns",
    "retry_exhausted": "the model was asked again and its replies were still refused",
    "consecutive_mistakes": "the model made nothing but mistakes, turn after turn",
    "no_progress": "the model said the very same again and again",
    "halted": "a budget is used up",
    "provider_error": "the model's reply broke off, so nothing of it was run",
}


class Fault(NamedTuple):
    """A block that went wrong through the model, until a later turn makes it good."""

    completion_id: str
    ordinal: int
    turn: int
    tool: str | None


class Progress:
    """The counts of one exchange.

    Raise KsiError (``no_price``) for a budget of money over a model without a price.
    """

    def __init__(self, limits: LoopLimits, manner: Manner, price: Price | None) -> None:
        if limits.usd is not None and price is None:
            raise KsiError(
                "the agent has a budget of money, and its model has no price",
                code="no_price",
                hint="give one with the setting prices, like MODEL=IN/OUT",
            )
        self.tokens = 0
        self.usd = 0.0
        self._limits = limits
        self._retries = manner.agreement.settings.max_protocol_retries
        self._strict = manner.agreement.on_malformed == "reject_reply"
        self._turns = manner.agreement.settings.max_iterations or limits.turns
        self._price = price
        self._faults: list[Fault] = []
        self._refused = 0
        self._mistakes = 0
        self._repeats = 0
        self._last_reply: tuple[str, bytes] | None = None

    def may_ask(self, turn: int) -> bool:
        """Say whether the model may be asked after *turn* turns."""
        return turn < self._turns

    def spend(self, request: Request, completion: Completion) -> None:
        """Count what *completion* cost, by its usage or else by the length of the texts."""
        usage = completion.usage
        if not usage.input_tokens and not usage.output_tokens:
            asked = sum(len(message.content) for message in request.messages)
            usage = Usage(_tokens(asked), _tokens(len(completion.text)))
        self.tokens += usage.input_tokens + usage.output_tokens
        if self._price is not None:
            self.usd += self._price.of(usage)

    def judge(self, done: Sequence[Done], text: str, completion_id: str, turn: int) -> list[Fault]:
        """Count the mistakes of a turn; return the earlier ones that it made good."""
        good = [each.report for each in done if each.report and each.report.status == "handled"]
        mended = [fault for report in good if (fault := self._mended(report.name))]
        faults = [
            Fault(completion_id, block.ordinal, turn, getattr(block.found, "name", None))
            for block in (each.block for each in done if is_fault(each))
        ]
        self._faults += faults
        self._refused = self._refused + 1 if faults and self._strict else 0
        self._mistakes = self._mistakes + 1 if faults and not good else 0
        reply = (text, _native_calls(done))
        self._repeats = self._repeats + 1 if reply == self._last_reply else 1
        self._last_reply = reply
        return mended

    def end(self) -> str | None:
        """Return why the model must not be asked again, None if it may be."""
        if self.spent() is not None:
            return "halted"
        if self._refused:
            # How often a refused reply is asked for again is a setting of its own.
            return "retry_exhausted" if self._refused > self._retries else None
        if self._mistakes >= self._limits.mistakes:
            return "consecutive_mistakes"
        return "no_progress" if self._repeats >= self._limits.identical else None

    def spent(self) -> str | None:
        """Say which budget is used up, None if none is."""
        limits = self._limits
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"{self.tokens} tokens, the limit is {limits.tokens}"
        if limits.usd is not None and self.usd >= limits.usd:
            return f"{self.usd:.6f} US dollars, the limit is {limits.usd:g}"
        return None

    def _mended(self, tool: str) -> Fault | None:
        """Take away the oldest earlier fault that a call of *tool* makes good."""
        for fault in self._faults:
            if fault.tool in (None, tool):
                self._faults.remove(fault)
                return fault
        return None


def _native_calls(done: Sequence[Done]) -> bytes:
    """Return the calls beside the text as a value that can be compared; ids are not part of it."""
    founds = [each.block.found for each in done if each.block.native]
    calls = [(each.name, each.args) if isinstance(each, Call) else each.excerpt for each in founds]
    return msgspec.json.encode(calls)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)

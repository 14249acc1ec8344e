"""What was found in one text so far, and what comes of a block: admission, limits, ids.

The reader (``extractor``) knows where blocks are; here it is decided which of them are calls of the
reply, and kept what is told of the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects import Answer, Dialect, Draft, Fault
from ksi_daemon.extraction.legacy import complexity
from ksi_daemon.extraction.model import Call, Diagnostic, Extraction, Rejected
from ksi_daemon.extraction.presets import Protocol
from ksi_daemon.extraction.reader import unsound
from ksi_daemon.extraction.scanner import Plan, plan

__all__ = ["AFTERMATH", "EXCERPT", "Findings"]

MAX_BLOCKS: Final = 1024  # calls and rejected ones, from which on a reply is not read further
EXCERPT: Final = 60  # characters on either side of the place in question
# Behind a call: a closing brace, or a member. Both belong to an object, and perhaps to the call.
AFTERMATH: Final = re.compile(r'\s*+(?:(?P<brace>\})|,?+\s*+"[^"\\\n]*+"\s*+:)')
_sorted_json: Final = msgspec.json.Encoder(order="sorted").encode


class Findings:
    """The calls of a text, its rejected blocks and all that is noted of it, while it is read."""

    def __init__(self, text: str, protocol: Protocol, new_id: Callable[[], str]) -> None:
        self._text = text
        self._protocol = protocol
        self._plan: Plan = plan(protocol.dialects)
        self._new_id = new_id
        self._calls: list[Call] = []
        self._rejected: list[Rejected] = []
        self._diagnostics: list[Diagnostic] = []
        self._ids: dict[str, Call] = {}
        self._answers: list[Answer] = []
        self._thought = ""
        self._hidden: list[tuple[int, int]] = []  # neither calls nor rejected, and no prose
        self._unlisted = 0  # rejected beyond the limit
        self._braces = 0  # that prose behind the last call opened, less those that it closed
        self._counted = 0  # up to where they are counted

    def result(self) -> Extraction:
        return Extraction(
            self._residual(),
            tuple(self._calls),
            tuple(self._rejected),
            tuple(self._diagnostics),
            self._final(),
            self._thought,
        )

    @property
    def _text_end(self) -> tuple[int, int]:
        return len(self._text), len(self._text)

    def _is_spent(self) -> bool:
        """Say whether no block that follows could be a call, or the text is nothing but blocks."""
        calls, rejected, limit = len(self._calls), len(self._rejected), self._protocol.max_calls
        if rejected < limit:
            return False
        return calls >= limit or calls + rejected + self._unlisted >= MAX_BLOCKS

    @property
    def _first(self) -> Dialect:
        return (*self._plan.dialects, *self._plan.framed)[0]

    def _final(self) -> Any:
        """Return the content of the final answer, if the text holds just that and no call.

        An answer beside a call was written before the result of the call was known.
        """
        if not self._answers or self._calls:
            return msgspec.UNSET
        return self._answers[0].content

    def _residual(self) -> str:
        spans = [(call.start, call.end) for call in self._calls]
        if self._rejected or self._hidden:
            spans = sorted(spans + [block.span for block in self._rejected] + self._hidden)
        pieces, at = [], 0
        for start, end in spans:
            pieces.append(self._text[at:start])
            at = max(at, end)
        pieces.append(self._text[at:])
        return "".join(pieces)

    def _note_repeated(self, repeated: tuple[str, ...], start: int, end: int) -> None:
        names = ", ".join(map(repr, repeated))
        self._note("duplicate_keys", f"the last value counts of {names}", start, end)

    def _note_shown(self, dialect: Dialect, shown: str, start: int, end: int) -> None:
        self._note("shown", f"a block of {dialect.name} is {shown}, so it was not run", start, end)

    def _checked(self, draft: Draft | Fault, dialect: Dialect, length: int) -> Draft | Fault:
        """Apply what holds for calls of every dialect, and the policy for the direct form."""
        if isinstance(draft, Fault):
            return draft
        limits = self._protocol
        if length > limits.max_block_chars:
            message = f"the block has {length} characters, more than {limits.max_block_chars}"
            return Fault("size_limit", message)
        flaw = unsound(draft.args, limits.max_depth - 1)
        if flaw == "depth":
            return Fault("depth_limit", self._too_deep())
        if flaw == "surrogate":
            return Fault("malformed_block", "a string holds half of a surrogate pair")
        if len(self._calls) >= limits.max_calls:
            return Fault("size_limit", f"a reply may hold {limits.max_calls} calls, not more")
        if dialect.name == "event" and limits.legacy_event != "allow":
            return self._legacy(draft)
        return draft

    def _legacy(self, draft: Draft) -> Draft | Fault:
        if self._protocol.legacy_event == "reject":
            return Fault("legacy_rejected", "the direct form is switched off; use ksi_tool_use")
        found = complexity(draft.args)
        if found is None:
            return draft
        if self._protocol.legacy_event == "reject_complex":
            return Fault("legacy_complex", f"the data has {found}; use ksi_tool_use")
        notes = (*draft.notes, ("legacy_complex", f"the data has {found}"))
        return Draft(draft.name, draft.args, draft.id, draft.nonce, notes)

    def _admit(
        self, draft: Draft, dialect: Dialect, start: int, end: int, repairs: tuple[str, ...]
    ) -> None:
        for code, message in draft.notes:
            self._note(code, message, start, end)
        id, generated = self._own_id(draft, start, end)
        if not generated and id in self._ids:
            self._note("duplicate_id", f"the call {id!r} was repeated, and is one", start, end)
            self._hidden.append((start, end))
            return
        if generated and self._protocol.dedupe and self._repeats(draft):
            self._note("duplicate_call", "the same call came before and was dropped", start, end)
            self._hidden.append((start, end))
            return
        call = Call(
            draft.name, draft.args, id, generated, dialect.name, start, end, repairs, draft.nonce
        )
        self._calls.append(call)
        self._keep_thought(draft.thought, start, end)
        self._ids[id] = call
        self._note_closers(start, end)

    def _own_id(self, draft: Draft, start: int, end: int) -> tuple[str, bool]:
        """Return the call's id and whether it was generated.

        A block that repeats both the id and the content of an earlier one keeps the id: it is
        the same call again, to be executed once. With other content it gets an id of its own.
        """
        if draft.id is None:
            return self._new_id(), True
        same = self._ids.get(draft.id)
        if same is None or _is_same(same, draft):
            return draft.id, False
        self._note("duplicate_id", f"the id {draft.id!r} was used before", start, end)
        return self._new_id(), True

    def _repeats(self, draft: Draft) -> bool:
        return any(call.id_generated and _is_same(call, draft) for call in self._calls)

    def _is_alone(self, start: int) -> bool:
        """Say whether each brace that the prose behind the last call opens is closed in it."""
        self._count_braces(start)
        return self._braces <= 0

    def _count_braces(self, until: int) -> None:
        if self._counted < until:
            count, between = self._text.count, (self._counted, until)
            self._braces += count("{", *between) - count("}", *between)
            self._counted = until

    def _pass_braces(self, start: int, end: int) -> None:
        """Leave out the braces between *start* and *end*, which are not prose."""
        self._count_braces(start)
        self._counted = max(self._counted, end)

    def _note_closers(self, start: int, end: int) -> None:
        if self._text.startswith("}", end) and self._is_alone(start):
            self._note("extra_text", "a closing brace that nothing opened follows", end, end + 1)
        self._counted, self._braces = end, 0

    def _reject(
        self, code: str, message: str, dialect: Dialect, start: int, end: int, place: int
    ) -> None:
        self._pass_braces(start, end)
        if len(self._rejected) >= self._protocol.max_calls:
            self._unlisted += 1
            return
        excerpt = self._text[max(start, place - EXCERPT) : min(end, place + EXCERPT)]
        self._rejected.append(Rejected(code, message, dialect.name, start, end, excerpt))

    def _note(self, code: str, message: str, start: int, end: int) -> None:
        self._diagnostics.append(Diagnostic(code, message, start, end))

    def _too_deep(self) -> str:
        return f"the block is nested deeper than {self._protocol.max_depth} levels"

    def _keep_thought(self, thought: str, start: int, end: int) -> None:
        limit = self._protocol.thought_limit
        if len(thought) > limit:
            message = f"the thought has {len(thought)} characters, {limit} were kept"
            self._note("thought_truncated", message, start, end)
        self._thought = self._thought or thought[:limit]


def _is_same(call: Call, draft: Draft) -> bool:
    """Say whether *draft* asks for what *call* asks for. To Python 1, 1.0 and True are equal."""
    alike = (call.name, call.args) == (draft.name, draft.args)
    return alike and _sorted_json(call.args) == _sorted_json(draft.args)

"""Provenance: a call that stands in a text from elsewhere is quoted, not meant.

A call of a completion is held when the very same call (name and arguments) can be found in what
its agent was given to read in the whole of its conversation: results, documents, messages of
others (``echo``). So is one that stands in the agent's own system prompt as an example
(``quoted``), unless there is nothing in it that could be copied: its tool takes no arguments.

Either is freed by the nonce of its turn, which no text of an earlier one can hold: it is random,
told in the system prompt of one turn, and good for the reply to it only. A strict agent's call
must carry it (``no_nonce``), unless the call only looks or speaks of the agent itself; so must
that of any agent which has read untrusted text, if it starts agents, runs code, sends something out
or is an operator's. The nonce stops quotation, not persuasion: what an agent may do at all is for
its capabilities to say.
"""

from __future__ import annotations

from base64 import b32encode
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import blake2b
from secrets import token_bytes
from typing import Final, Literal

import msgspec

from ksi_daemon.extraction import Call, Protocol, Schemas, candidates
from ksi_daemon.extraction.native import NATIVE
from ksi_daemon.security.capabilities import SELF_REPORT, Effect

__all__ = [
    "MAX_FINGERPRINTS",
    "MAX_TEXTS",
    "Guard",
    "Hold",
    "Readings",
    "fingerprints",
    "holds",
    "is_grave",
    "is_harmless",
    "new_nonce",
    "proof_of",
    "texts_of",
]

Hold = Literal["echo", "quoted", "no_nonce"]

# Of one conversation: beyond these the oldest is forgotten, which only a log of days can reach.
MAX_TEXTS: Final = 4_096
MAX_FINGERPRINTS: Final = 65_536
# An agent has its own protocol, and an operator may ask for another now and then.
_MAX_PROTOCOLS: Final = 4


class Guard(msgspec.Struct, frozen=True):
    """What the calls of one reply are judged by.

    *read* are the fingerprints of what the agent was given to read, *prompt* those of its own
    system prompt; *tools* say which calls take arguments. *proof* is that of the nonce which the
    turn was told, if any. With *strict* a call must carry it whose name is not in *unproven*.
    """

    read: Container[bytes] = frozenset()
    prompt: Container[bytes] = frozenset()
    tools: Schemas | None = None
    proof: str | None = None
    strict: bool = False
    unproven: Container[str] = frozenset()


class Readings:
    """What an agent was given to read that is not its own word, and the calls that stand in it.

    The texts are kept beside the fingerprints: an exchange in another protocol reads other calls
    in them.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: deque[str] = deque(texts, MAX_TEXTS)
        self._found: dict[tuple[str, ...], dict[bytes, None]] = {}

    def add(self, texts: Iterable[str], protocol: Protocol, tools: Schemas | None = None) -> None:
        """Remember *texts*, which the agent is given while it speaks *protocol*."""
        texts = tuple(texts)
        known = self._fingerprints(protocol, tools)
        self._found = {protocol.dialects: known}
        self._texts.extend(texts)
        _remember(known, fingerprints(texts, protocol, tools))

    def calls(self, protocol: Protocol, tools: Schemas | None = None) -> Container[bytes]:
        """Return the fingerprints of the calls that stand in the texts, read by *protocol*."""
        return self._fingerprints(protocol, tools)

    def _fingerprints(self, protocol: Protocol, tools: Schemas | None) -> dict[bytes, None]:
        known = self._found.get(protocol.dialects)
        if known is None:
            if len(self._found) >= _MAX_PROTOCOLS:
                self._found.clear()
            known = self._found[protocol.dialects] = {}
            _remember(known, fingerprints(self._texts, protocol, tools))
        return known


def fingerprints(
    texts: Iterable[str], protocol: Protocol, tools: Schemas | None = None
) -> frozenset[bytes]:
    """Return the fingerprints of all calls that stand in *texts*, fenced and quoted ones too.

    *tools* are the schemas by which the agent's own calls are read.
    """
    return frozenset(
        _fingerprint(call) for text in texts for call in candidates(text, protocol, tools=tools)
    )


def holds(calls: Sequence[Call], guard: Guard) -> tuple[Hold | None, ...]:
    """Say for each of *calls* why it is held, None if it is not."""
    return tuple(_hold(call, guard) for call in calls)


def is_harmless(event: str, effect: Effect) -> bool:
    """Say whether *event* may come from a quotation: it looks, or speaks of the agent itself."""
    return effect == "observe" or event in SELF_REPORT


def is_grave(effect: Effect) -> bool:
    """Say whether an agent that has read untrusted text must prove that it means such a call."""
    return effect in ("spawn", "exec", "egress", "admin")


def new_nonce(unlike: Iterable[str] = ()) -> str:
    """Return a fresh nonce: eight characters of base 32 that stand in no text of *unlike*."""
    while True:
        nonce = b32encode(token_bytes(5)).decode()
        if not any(nonce in text for text in unlike):
            return nonce


def proof_of(nonce: str) -> str:
    """Return what *nonce* is known by in the log, which tells nobody what it was."""
    return blake2b(nonce.encode(), digest_size=16).hexdigest()


def texts_of(content: str) -> list[str]:
    """Return every text that a model can read in the result *content*.

    Of JSON these are also its strings, without their escapes.
    """
    try:
        value = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        # Maybe JSON that was cut to length: a model sees through the escapes all the same.
        plain = content.replace('\\"', '"').replace("\\n", "\n")
        return [content] if plain == content else [content, plain]
    return [content, *_strings(value)]


def _hold(call: Call, guard: Guard) -> Hold | None:
    if guard.proof is not None and call.nonce and proof_of(call.nonce) == guard.proof:
        return None
    fingerprint, native = _fingerprint(call), call.dialect == NATIVE
    if fingerprint in guard.read:
        return "echo"
    # What is called natively is called: no text that is only shown becomes a native call.
    if native:
        return None
    if fingerprint in guard.prompt and _takes_arguments(call, guard.tools or {}):
        return "quoted"
    return "no_nonce" if guard.strict and call.name not in guard.unproven else None


def _takes_arguments(call: Call, tools: Schemas) -> bool:
    schema = tools.get(call.name)
    return bool(call.args) if schema is None else bool(schema.get("properties") or call.args)


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list):
            waiting += found


def _remember(known: dict[bytes, None], found: Iterable[bytes]) -> None:
    known.update(dict.fromkeys(found))
    for oldest in tuple(known)[: max(0, len(known) - MAX_FINGERPRINTS)]:
        del known[oldest]


def _fingerprint(call: Call) -> bytes:
    # A quotation with a new id, or with its keys in another order, is still a quotation.
    written = msgspec.json.encode((call.name, call.args), order="deterministic")
    return blake2b(written, digest_size=16).digest()

"""What goes back to an agent after its reply: results of its calls and corrections. Pure.

A native call and a call of a tool always have a result. An event has one only if something needs
an answer: a handler's result does, and so does whatever did not go as the agent wrote it; a
receipt does not. What was wrong is told shortly: where, the piece of the schema that was not met,
the nearest names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ksi_daemon import extraction
from ksi_daemon.conversation import CallReport
from ksi_daemon.errors import nearest
from ksi_daemon.events import ErrorInfo
from ksi_daemon.extraction import Call, Rejected, Schemas
from ksi_daemon.loop import EVENT_DIALECTS, OnMalformed
from ksi_daemon.providers.model import Message
from ksi_daemon.security.provenance import Hold
from ksi_daemon.services.completions.blocks import Block, Done

__all__ = ["MAX_NAMES", "MAX_RESULT", "MAX_SNIPPET", "answers", "results", "shown"]

# Characters of one result that a model is shown; all of it is in the log.
MAX_RESULT: Final = 20_000
# Names of tools in the answer to an unknown one; characters of a piece of a schema.
MAX_NAMES: Final = 64
MAX_SNIPPET: Final = 1_000

# The router's word for an event without a handler, in the words of the calling protocols.
_TOLD_AS: Final = {"unknown_event": "unknown_tool"}
_EMPTY: Final = "(no output)"
_HELD: Final = MappingProxyType(
    {
        "echo": "stands word for word in a text that you were given.",
        "quoted": "is the example in your instructions, word for word.",
        "no_nonce": "does not carry the key of its turn.",
    }
)
_PROVE: Final = "write it again with the key that your instructions name now."
_CHANGE: Final = "write it with arguments of your own."
_REFUSED: Final = "Not run: the reply holds something that is refused, so nothing of it was run."
_IN_VAIN: Final = (
    "You have made the very same {} call several times, and it came to the same each time."
    " Do something else, or end."
)
_AGAIN: Final = "Nothing of your reply was run. Send the whole reply again, as it should be."


def results(
    done: Sequence[Done], schemas: Schemas, *, refused: bool = False
) -> list[Message | None]:
    """Return for each block the message of role tool that tells its result, None if it needs none.

    *refused*: no block of the reply was run.
    """
    return [_result(each, schemas, refused=refused) for each in done]


def answers(
    done: Sequence[Done],
    told_each: Sequence[Message | None],
    *,
    on_malformed: OnMalformed,
    refused: bool = False,
    provable: bool = False,
    repeated: Sequence[str] = (),
) -> list[Message]:
    """Return the messages that answer a reply's blocks, none if nothing needs an answer.

    First the results, *told_each*, in the order of the calls; those of native calls come first.
    All that is wrong with blocks in the text is one message of the user behind them. *refused*:
    no block of the reply was run. *provable*: the agent's next prompt has a key with which it can
    say that a call is its own. *repeated*: the tools that it calls again and again in vain.
    """
    told = [message for message in told_each if message is not None]
    parts = list(_corrections([each.block for each in done], on_malformed, provable=provable))
    if refused:
        parts.append(_AGAIN)
    parts += [_IN_VAIN.format(name) for name in dict.fromkeys(repeated)]
    return [*told, Message("user", "\n\n".join(parts))] if parts else told


def shown(report: CallReport, schemas: Schemas, *, as_json: bool = False) -> str:
    """Return what a model is shown of one call's end; *as_json*: as JSON, whatever it is."""
    error = report.error
    if error is None:
        empty = report.result in (None, "") and not as_json
        return _EMPTY if empty else _shortened(_text(report.result, as_json=as_json))
    code = _TOLD_AS.get(error.code, error.code)
    told = error.message + "".join(_more(report, error, schemas))
    if as_json:
        return _text({"error": {"code": code, "message": _shortened(told)}}, as_json=True)
    return _shortened(f"Error {code}: {told}")


def _result(done: Done, schemas: Schemas, *, refused: bool) -> Message | None:
    """Return the message of one block, None if it needs none."""
    block, report = done.block, done.report
    found = block.found
    if report is not None:
        if not _needs_answer(done):
            return None
        content = shown(report, schemas, as_json=found.dialect == "json_action")
        return Message("tool", content, report.name, report.id, report.error is not None)
    if isinstance(found, Rejected):
        told = extraction.corrections([found])
    elif block.held:
        told = _held(found.name, block.held, provable=False)
    else:
        told = _REFUSED
    if not block.native:
        return None  # a call in text has its word in the corrections
    return Message("tool", told, getattr(found, "name", "unknown"), found.id, is_error=True)


def _needs_answer(done: Done) -> bool:
    report, block = done.report, done.block
    if block.native or block.found.dialect not in EVENT_DIALECTS:
        return True
    if report is None or report.error is not None:
        return True
    return not done.receipt and report.result not in (None, {}, "")


def _corrections(
    blocks: Sequence[Block], on_malformed: OnMalformed, *, provable: bool
) -> Iterator[str]:
    in_text = [block for block in blocks if not block.native]
    for block in in_text:
        if block.held and isinstance(block.found, Call):
            yield _held(block.found.name, block.held, provable=provable)
    rejected = [block.found for block in in_text if isinstance(block.found, Rejected)]
    if rejected and on_malformed != "ignore":
        yield extraction.corrections(rejected)


def _more(report: CallReport, error: ErrorInfo, schemas: Schemas) -> Iterator[str]:
    """Yield what helps to write the call right."""
    if error.code == "unknown_event":
        yield from _names(report.name, schemas)
        return
    if error.hint:
        yield f" ({error.hint})"
    if error.code == "args_schema":
        snippet = _snippet(error.details or {}, schemas.get(report.name))
        yield f"\nExpected: {snippet}" if snippet else ""


def _names(name: str, schemas: Schemas) -> Iterator[str]:
    close = nearest(name, schemas)
    if close is not None:
        yield f"; did you mean {close!r}?"
    names = sorted(schemas)
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    if names:
        yield f"\nThere are: {', '.join(names[:MAX_NAMES])}{more}"


def _snippet(details: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    """Return the piece of a tool's schema that its arguments did not meet, as JSON."""
    errors = details.get("errors")
    if isinstance(errors, list):
        pieces = {each["path"]: each["schema"] for each in errors if each.get("schema")}
    elif schema is not None:
        path = str(details.get("path") or "")
        piece = _piece(schema, path)
        pieces = {path: piece} if piece else {}
    else:
        return ""
    told = pieces.get("") if len(pieces) == 1 and "" in pieces else pieces
    return msgspec.json.encode(told).decode()[:MAX_SNIPPET] if told else ""


def _piece(schema: Mapping[str, Any], path: str) -> Any:
    """Return what *schema* says of *path*; of the whole, its fields and which are required."""
    at: Any = schema
    for step in path.partition("[")[0].split(".") if path else ():
        at = at.get("properties", {}).get(step) if isinstance(at, Mapping) else None
        if at is None:
            return None
    if at is schema:
        return {key: at[key] for key in ("required", "properties") if key in at}
    return at


def _text(result: Any, *, as_json: bool) -> str:
    if isinstance(result, str) and not as_json:
        return result
    return msgspec.json.encode(result).decode()


def _shortened(text: str) -> str:
    if len(text) <= MAX_RESULT:
        return text
    return f"{text[:MAX_RESULT]}\n[{len(text) - MAX_RESULT} more characters are in the log]"


def _held(name: str, why: Hold, *, provable: bool) -> str:
    mend = _PROVE if provable else _CHANGE
    return f"Not run, {why}: your {name} call {_HELD[why]} If you mean it, {mend}"

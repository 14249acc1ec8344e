"""What goes back to an agent after its reply: one message for all calls, or none. Pure.

Policy of preset ``ksi``: nothing is said unless something needs an answer. A handler's result
does, and so does whatever did not go as the agent wrote it; a receipt does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ksi_daemon import extraction
from ksi_daemon.conversation import CallReport
from ksi_daemon.extraction import Rejected

__all__ = ["MAX_RESULT", "feedback", "shown"]

# Characters of one result that a model is shown; all of it is in the log.
MAX_RESULT: Final = 20_000

# The router's word for an event without a handler, in the words of the calling protocols.
_TOLD_AS: Final = {"unknown_event": "unknown_tool"}


def feedback(
    answered: Sequence[tuple[CallReport, bool]], rejected: Sequence[Rejected], held: Sequence[str]
) -> str | None:
    """Return the message that answers a reply's blocks, or None if nothing needs an answer.

    *answered*: each call with whether its result is only a receipt. *held*: the names of calls
    that were held because they stand in an untrusted text of the turn.
    """
    parts = [_section(report) for report, receipt in answered if _needs_answer(report, receipt)]
    parts += [_held(name) for name in held]
    if rejected:
        parts.append(extraction.corrections(rejected))
    return "\n\n".join(parts) or None


def shown(report: CallReport) -> str:
    """Return what a model is shown of one call's end."""
    error = report.error
    if error is None:
        return _shortened(_text(report.result))
    code = _TOLD_AS.get(error.code, error.code)
    hint = f" ({error.hint})" if error.hint else ""
    return _shortened(f"Error {code}: {error.message}{hint}")


def _needs_answer(report: CallReport, receipt: bool) -> bool:
    if report.error is not None:
        return True
    return not receipt and report.result not in (None, {}, "")


def _section(report: CallReport) -> str:
    return f"Tool Result ({report.name}):\n{shown(report)}"


def _text(result: Any) -> str:
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


def _shortened(text: str) -> str:
    if len(text) <= MAX_RESULT:
        return text
    return f"{text[:MAX_RESULT]}\n[{len(text) - MAX_RESULT} more characters are in the log]"


def _held(name: str) -> str:
    return (
        f"Not run: your {name} call stands word for word in a text that you were given. "
        "If you mean it, write it in your own words or with other arguments."
    )

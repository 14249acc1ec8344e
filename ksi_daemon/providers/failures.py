"""From what a provider says went wrong to a ProviderError: code, retryable, hint.

An error's text is made anew from the status and the vendor's code. The vendor's own sentence is
quoted only where the request is at fault and not the key, for such sentences repeat keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from ksi_daemon.errors import ProviderError

__all__ = ["error_from", "error_in_stream", "load_json", "retry_after_s", "shown"]


class _Kind(msgspec.Struct, frozen=True):
    code: str = "provider_error"
    retryable: bool = False
    hint: str | None = None


_PLAIN: Final = _Kind()
_AUTH: Final = _Kind("provider_auth", hint="does api_key_env name the variable of a valid key?")
_LIMITED: Final = _Kind("provider_rate_limited", retryable=True)
_NO_QUOTA: Final = _Kind("provider_rate_limited", hint="the account has nothing left to spend")
_OVERLOADED: Final = _Kind(retryable=True)
_MOVED: Final = _Kind("provider_protocol", hint="base_url redirects: use the address it leads to")

# The vendor's word says more than the status, and inside a stream there is no status.
_BY_WORD: Final = {
    "authentication_error": _AUTH,
    "billing_error": _NO_QUOTA,
    "insufficient_quota": _NO_QUOTA,
    "invalid_api_key": _AUTH,
    "overloaded_error": _OVERLOADED,
    "permission_error": _AUTH,
    "rate_limit_error": _LIMITED,
    "rate_limit_exceeded": _LIMITED,
    "server_error": _OVERLOADED,
}
_BY_STATUS: Final = {
    401: _AUTH,
    402: _NO_QUOTA,
    403: _AUTH,
    404: _Kind(hint="is the model's name right, and does base_url end before the endpoint?"),
    408: _Kind("provider_timeout", retryable=True),
    413: _Kind(hint="the conversation is too long for this provider"),
    429: _LIMITED,
    501: _PLAIN,
    505: _PLAIN,
}
_QUOTED: Final = frozenset({400, 404, 413, 422})
# No digits: a key has some, a vendor's code has none.
_WORD: Final = re.compile(r"[A-Za-z_]{1,48}")


def error_from(
    name: str, status: int, headers: Mapping[str, str], body: str, *, key: str | None = None
) -> ProviderError:
    """Return the error that an answer with *status* means; *key* is kept out of it."""
    error = _reported(body)
    word = _word(error)
    kind = _kind(status, word)
    quote = _quote(error, key) if status in _QUOTED else None
    asked_s = retry_after_s(headers)
    return ProviderError(
        f"{name} answered {status}{_aside(word)}",
        code=kind.code,
        retryable=kind.retryable,
        hint=quote or kind.hint,
        status=status,
        retry_after_s=_delay_s(error) if asked_s is None else asked_s,
    )


def error_in_stream(name: str, error: Any) -> ProviderError:
    """Return the error that a vendor reports inside an answer that began well."""
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    word = _word(error)
    # Without a status it is one or the other: our request, or something that may pass.
    kind = _kind(status or (400 if word == "invalid_request_error" else 500), word)
    return ProviderError(
        f"{name} broke off with an error{_aside(word)}",
        code=kind.code,
        retryable=kind.retryable,
        hint=kind.hint,
        status=status,
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the provider asks to wait (RFC 9110, 10.2.3), None if it does not.

    A date is compared with the answer's own Date: the provider's clock may differ from ours.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, "")) * unit_s
        if seconds >= 0:
            return seconds
    return _until(headers.get("retry-after", ""), headers.get("date", ""))


def load_json(name: str, data: str) -> Any:
    """Return the value of *data*; raise ProviderError (provider_protocol) if it is no JSON.

    By the standard parser, which keeps the halves of a surrogate pair that some servers put
    into two pieces of a stream.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise ProviderError(
            f"{name} answered what is not JSON: {shown(data)!r}",
            code="provider_protocol",
            hint="does base_url name an API and not a web page? it often ends in /v1",
        ) from exc


def shown(text: str, limit: int = 40) -> str:
    """Return the beginning of *text* on one line, without control characters."""
    line = " ".join(text[: 2 * limit].split())
    return "".join(character for character in line if character.isprintable())[:limit]


def _kind(status: int, word: str | None) -> _Kind:
    if word in _BY_WORD:
        return _BY_WORD[word]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return _OVERLOADED
    return _MOVED if status < 400 else _PLAIN


def _reported(body: str) -> Any:
    """Return the error object in *body*, None if there is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer.get("error", answer) if isinstance(answer, dict) else None


def _word(error: Any) -> str | None:
    """Return the vendor's code for *error* if it is a word and not a sentence or a secret."""
    fields = error if isinstance(error, dict) else {}
    words = (fields.get(field) for field in ("code", "status", "type"))
    return next((w for w in words if isinstance(w, str) and _WORD.fullmatch(w)), None)


def _aside(word: str | None) -> str:
    return f" ({word})" if word else ""


def _quote(error: Any, key: str | None) -> str | None:
    said = error.get("message") if isinstance(error, dict) else error
    if not isinstance(said, str) or not said:
        return None
    return f"the provider says: {shown(said.replace(key, '***') if key else said, 200)}"


def _delay_s(error: Any) -> float | None:
    """Return how long Google asks to wait: it says so in the body ("34.5s") and in no header."""
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _number(delay.removesuffix("s"))) >= 0:
            return seconds
    return None


def _number(text: str) -> float:
    """Return the number in *text*, -1 if there is none that can be waited for."""
    try:
        value = float(text)
    except ValueError:
        return -1.0
    return value if math.isfinite(value) else -1.0


def _until(then: str, now: str) -> float | None:
    try:
        waiting = parsedate_to_datetime(then) - parsedate_to_datetime(now)
    except (ValueError, TypeError):
        return None
    return max(0.0, waiting.total_seconds())

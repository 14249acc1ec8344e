"""Redaction: no secret reaches the log, the text log or a subscriber. Pure.

A secret is the value of an environment variable whose name says so, also as JSON, a URL or base64
write it, and whatever has the form of a key of one of the great vendors. It is masked by as many
asterisks as it has characters, so that the places of calls in a text stay what they were; of a
vendor's key its beginning stays, which says whose it is.

Most texts hold none, and every event is looked at, so what is searched for first is literal: a
search for a literal costs a few dozen nanoseconds, and only where one is found a regular expression
is tried.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from string import ascii_letters, digits
from typing import Final

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.events import ErrorInfo, Outcome
from ksi_daemon.work import Statement, Work

__all__ = ["MIN_SECRET", "Redactor", "secrets_in"]

# Characters. Shorter values stand in too many texts by chance.
MIN_SECRET: Final = 8
_NAME: Final = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:$|_)"
    r"|APIKEY|AUTHTOKEN",
    re.IGNORECASE,
)
# What such a variable names instead of holding it.
_NO_SECRET: Final = re.compile(r"_(?:ENV|FILE|PATH|DIR|ID|URL|NAME)$", re.IGNORECASE)
# How keys of vendors begin, and what follows: a key has digits, a placeholder in an example none.
_KEYS: Final = ("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "AKIA", "earer ")
_KEY: Final = re.compile(r"(?=[A-Za-z_.~+/=-]{0,512}[0-9])[A-Za-z0-9_.~+/=-]{16,512}")


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """Return the values of those variables of *environ* that hold secrets by their names."""
    return [
        value
        for name, value in environ.items()
        if len(value) >= MIN_SECRET
        and _NAME.search(name)
        and not _NO_SECRET.search(name)
        and not value.startswith(("/", "./"))
        and value not in environ
    ]


class Redactor:
    """What masks *secrets*, and the keys of vendors."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        masks = {form: mask for secret in secrets for form, mask in _written(secret)}
        # A secret that begins with another goes first.
        self._masks = sorted(masks.items(), key=lambda pair: -len(pair[0]))
        self._hints = (*_KEYS, *masks)
        self._bytes = tuple(hint.encode() for hint in self._hints)

    def text(self, text: str) -> str:
        """Return *text* with its secrets masked, itself if it holds none."""
        if not any(map(text.__contains__, self._hints)):
            return text
        for form, mask in self._masks:
            text = text.replace(form, mask)
        for begin in _KEYS:
            text = _without_keys(text, begin)
        return text

    def raw(self, data: msgspec.Raw) -> msgspec.Raw:
        """Return *data* with its secrets masked, itself if it holds none."""
        written = bytes(data)
        if len(written) < MIN_SECRET or not any(map(written.__contains__, self._bytes)):
            return data
        try:
            text = written.decode()
        except UnicodeDecodeError:
            return data  # it is refused, and kept in a form that is asked for again
        masked = self.text(text)
        return data if masked == text else msgspec.Raw(masked.encode())

    def refuse(self, data: msgspec.Raw, event: str) -> None:
        """Raise InvalidData if *data*, which *event* keeps to be read again, hold a secret."""
        if self.raw(data) is not data:
            raise InvalidData(
                f"{event!r} keeps its data in the clear, and they hold what looks like a secret",
                code="holds_secret",
                hint="put it into an environment variable of the daemon, and name that",
            )

    def work(self, work: Work) -> Work:
        """Mask the secrets of *work*; return it."""
        event = work.event
        if event is not None:
            event.data = self.raw(event.data)
            if event.error is not None:
                event.error = self._error(event.error)
        if work.outcome is not None:
            work.outcome = self._outcome(work.outcome)
        if work.ended is not None:
            outcome = self._outcome(work.ended.outcome)
            if outcome is not work.ended.outcome:
                work.ended = msgspec.structs.replace(work.ended, outcome=outcome)
        if work.statements:
            work.statements = tuple(self._statement(each) for each in work.statements)
        return work

    def _outcome(self, outcome: Outcome) -> Outcome:
        result = None if outcome.result is None else self.raw(outcome.result)
        error = None if outcome.error is None else self._error(outcome.error)
        if result is outcome.result and error is outcome.error:
            return outcome
        return msgspec.structs.replace(outcome, result=result, error=error)

    def _error(self, error: ErrorInfo) -> ErrorInfo:
        written = msgspec.Raw(msgspec.json.encode(error))
        masked = self.raw(written)
        return error if masked is written else msgspec.json.decode(masked, type=ErrorInfo)

    def _statement(self, statement: Statement) -> Statement:
        sql, values = statement
        masked = tuple(self.text(each) if type(each) is str else each for each in values)
        return statement if masked == values else (sql, masked)


def _without_keys(text: str, begin: str) -> str:
    """Return *text* with the keys masked that have this beginning."""
    pieces, done = [], 0
    at = text.find(begin)
    while at >= 0:
        end = at + len(begin)
        key = None if _is_within_word(text, at, begin) else _KEY.match(text, end)
        if key is not None:
            pieces += [text[done:end], "*" * len(key[0])]
            end = done = key.end()
        at = text.find(begin, end)
    return "".join((*pieces, text[done:])) if pieces else text


def _is_within_word(text: str, at: int, begin: str) -> bool:
    if begin == "earer ":
        at -= 1
        if at < 0 or text[at] not in "Bb":
            return True
    return at > 0 and text[at - 1].isalnum()


def _written(secret: str) -> Iterator[tuple[str, str]]:
    """Yield the ways in which *secret* is written, each with its mask."""
    mask = "*" * len(secret)
    for form in (secret, *_escaped(secret), repr(secret)[1:-1]):
        yield form, mask
    for safe in ("/", ""):
        form = _percent_encoded(secret, safe)
        for written in (form, form.replace("%20", "+")):
            yield written, "*" * len(written)
    for encode in (b64encode, urlsafe_b64encode):
        for form in _encoded(secret.encode(), encode):
            if len(form) >= MIN_SECRET:
                yield form, "*" * len(form)


def _escaped(secret: str) -> Iterator[str]:
    """Yield *secret* as JSON has it, also with all but ASCII escaped, and as JSON within JSON."""
    for ascii_only in (False, True):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]


def _percent_encoded(secret: str, safe: str) -> str:
    # urllib.parse would do it, and bring all of urllib.
    kept = f"{ascii_letters}{digits}_.-~{safe}"
    return "".join(c if c in kept else "".join(f"%{b:02X}" for b in c.encode()) for c in secret)


def _encoded(secret: bytes, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """Yield what of *secret* stays the same in base64 whatever stands before and behind it.

    A character stands for six bits, so where a text begins is one of three places.
    """
    for before in range(3):
        begin = -(-before * 8 // 6)
        whole = (before + len(secret)) * 8 // 6
        yield encode(bytes(before) + secret).decode()[begin:whole]

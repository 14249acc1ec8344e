"""Spans on their way to a collector of OpenTelemetry, by OTLP over HTTP as JSON.

What may pass is tried again, as the protocol says: 429, 502, 503 and 504, after Retry-After if
the collector names a time. No redirect is followed and no proxy is asked: spans go where the
command line says and nowhere else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from ksi_daemon.errors import KsiError

__all__ = ["send"]

PATH: Final = "/v1/traces"
HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
TRIES: Final = 4
PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
TIMEOUT_S: Final = 30.0
MAX_ANSWER: Final = 64 * 1024
_PASSING: Final = frozenset({429, 502, 503, 504})


class _Partial(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _Partial | None = None


def send(
    requests: Iterable[bytes],
    url: str,
    *,
    environ: Mapping[str, str] | None = None,
    pause_s: float = PAUSE_S,
) -> int:
    """Send each of *requests* to the collector at *url*; return how many there were.

    A URL without a path means OTLP's own. Headers come from OTEL_EXPORTER_OTLP_HEADERS in
    *environ*, by default that of the process: there a key does not stand in a list of commands.
    Raise KsiError ``collector`` if the collector takes one of them not, or not all of its spans.
    """
    connection, path = _opened(url)
    headers = _headers(os.environ if environ is None else environ)
    sent = 0
    try:
        for request in requests:
            _send(connection, path, request, headers, url, pause_s)
            sent += 1
    finally:
        connection.close()
    return sent


def _opened(url: str) -> tuple[HTTPConnection, str]:
    """Return the connection to *url*, which is made when it is used, and the path to post to."""
    try:
        target = urlsplit(url)
        host, port = target.hostname, target.port
    except ValueError:
        host = None
    if not host or target.scheme not in ("http", "https"):
        raise KsiError(
            f"{url!r} is no URL of a collector", code="collector", hint="http://HOST:4318"
        )
    made = HTTPSConnection if target.scheme == "https" else HTTPConnection
    path = target.path if target.path not in ("", "/") else PATH
    return made(host, port, timeout=TIMEOUT_S), path


def _send(
    connection: HTTPConnection,
    path: str,
    request: bytes,
    headers: dict[str, str],
    url: str,
    pause_s: float,
) -> None:
    why = ""
    for attempt in range(TRIES):
        try:
            connection.request("POST", path, request, headers)
            response = connection.getresponse()
            answer = response.read(MAX_ANSWER)
        except (OSError, HTTPException) as exc:
            connection.close()
            why, pause = str(exc) or type(exc).__name__, pause_s * 2**attempt
        else:
            if response.status < 300:
                _check_all_taken(answer, url)
                return
            if not response.isclosed():
                connection.close()
            why = f"{response.status} {response.reason}"
            if response.status not in _PASSING:
                break
            pause = _retry_after(response) or pause_s * 2**attempt
        if attempt + 1 < TRIES:
            time.sleep(min(pause, LONGEST_PAUSE_S))
    raise KsiError(f"the collector at {url!r} does not take the spans: {why}", code="collector")


def _headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request: those named as ``name=value,name=value``, values quoted."""
    given = environ.get(HEADERS, "")
    pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
    named = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    if not all(name and value.isprintable() for name, value in named.items()):
        raise KsiError(f"{HEADERS} is not name=value,name=value", code="collector")
    return {**named, "Content-Type": "application/json"}


def _check_all_taken(answer: bytes, url: str) -> None:
    try:
        partial = msgspec.json.decode(answer or b"{}", type=_Answer).partial_success
    except msgspec.DecodeError:
        return  # it need not say anything
    if partial is not None and int(partial.rejected_spans):
        raise KsiError(
            f"the collector at {url!r} refused {partial.rejected_spans} spans: "
            f"{partial.error_message}",
            code="collector",
        )


def _retry_after(response: HTTPResponse) -> float | None:
    try:
        return float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None

from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.failures import (
    error_from,
    error_in_stream,
    load_json,
    retry_after_s,
    shown,
)

KEY = "sk-proj-0123456789abcdef"
AUTH_HINT = "does api_key_env name the variable of a valid key?"
WHERE_HINT = "is the model's name right, and does base_url end before the endpoint?"
SPENT_HINT = "the account has nothing left to spend"


def body(**error: Any) -> str:
    return json.dumps({"error": error})


@pytest.mark.parametrize(
    ("status", "text", "message", "code", "retryable", "hint"),
    [
        pytest.param(
            401,
            body(code="invalid_api_key", message=f"Incorrect API key provided: {KEY}"),
            "openai answered 401 (invalid_api_key)",
            "provider_auth",
            False,
            AUTH_HINT,
            id="the wrong key is not repeated",
        ),
        pytest.param(
            401,
            body(type="invalid_request_error", message="no key"),
            "openai answered 401 (invalid_request_error)",
            "provider_auth",
            False,
            AUTH_HINT,
            id="a word that says less than the status",
        ),
        pytest.param(403, "", "openai answered 403", "provider_auth", False, AUTH_HINT, id="403"),
        pytest.param(
            402, "", "openai answered 402", "provider_rate_limited", False, SPENT_HINT, id="402"
        ),
        pytest.param(
            429,
            body(code="rate_limit_exceeded"),
            "openai answered 429 (rate_limit_exceeded)",
            "provider_rate_limited",
            True,
            None,
            id="429",
        ),
        pytest.param(
            429,
            body(code="insufficient_quota"),
            "openai answered 429 (insufficient_quota)",
            "provider_rate_limited",
            False,
            SPENT_HINT,
            id="429 that no waiting helps",
        ),
        pytest.param(
            400,
            body(type="invalid_request_error", code=None, message="too\nmany\x1b[31m tokens"),
            "openai answered 400 (invalid_request_error)",
            "provider_error",
            False,
            "the provider says: too many[31m tokens",
            id="400 quotes the vendor, on one line",
        ),
        pytest.param(
            400,
            body(message=f"no: {KEY}!"),
            "openai answered 400",
            "provider_error",
            False,
            "the provider says: no: ***!",
            id="400 quotes the vendor without the key",
        ),
        pytest.param(
            404,
            "<html>",
            "openai answered 404",
            "provider_error",
            False,
            WHERE_HINT,
            id="404 of a web server",
        ),
        pytest.param(
            404,
            body(code=404, message="model 'x' not found"),
            "openai answered 404",
            "provider_error",
            False,
            "the provider says: model 'x' not found",
            id="404 of the vendor",
        ),
        pytest.param(408, "", "openai answered 408", "provider_timeout", True, None, id="408"),
        pytest.param(500, "{", "openai answered 500", "provider_error", True, None, id="500"),
        pytest.param(
            501, "", "openai answered 501", "provider_error", False, None, id="501 stays so"
        ),
        pytest.param(
            503,
            body(code=503, type="unavailable_error", message="Loading model"),
            "openai answered 503 (unavailable_error)",
            "provider_error",
            True,
            None,
            id="503",
        ),
        pytest.param(
            529,
            body(type="overloaded_error"),
            "openai answered 529 (overloaded_error)",
            "provider_error",
            True,
            None,
            id="529",
        ),
        pytest.param(
            302,
            "",
            "openai answered 302",
            "provider_protocol",
            False,
            "base_url redirects: use the address it leads to",
            id="redirect",
        ),
        pytest.param(
            400,
            json.dumps({"error": "no such model"}),
            "openai answered 400",
            "provider_error",
            False,
            "the provider says: no such model",
            id="error is a string",
        ),
        pytest.param(
            400,
            json.dumps([{"error": {"status": "INVALID_ARGUMENT", "message": "m"}}]),
            "openai answered 400 (INVALID_ARGUMENT)",
            "provider_error",
            False,
            "the provider says: m",
            id="error in an array",
        ),
        pytest.param(
            401,
            body(code=KEY, type="a sentence with spaces"),
            "openai answered 401",
            "provider_auth",
            False,
            AUTH_HINT,
            id="a code that is no word",
        ),
        pytest.param(
            400, "[" * 100_000, "openai answered 400", "provider_error", False, None, id="deep"
        ),
    ],
)
def test_error_from(
    status: int, text: str, message: str, code: str, retryable: bool, hint: str | None
) -> None:
    error = error_from("openai", status, {}, text, key=KEY)
    assert (error.message, error.code, error.retryable, error.hint, error.status) == (
        message,
        code,
        retryable,
        hint,
        status,
    )


def test_an_error_carries_what_the_provider_asked_for() -> None:
    assert error_from("openai", 429, {"retry-after": "7"}, "").retry_after_s == 7.0


@pytest.mark.parametrize(
    ("reported", "message", "code", "retryable", "status"),
    [
        pytest.param(
            {"code": 429, "message": "x"},
            "openai broke off with an error",
            "provider_rate_limited",
            True,
            429,
            id="with a status",
        ),
        pytest.param(
            {"type": "overloaded_error"},
            "openai broke off with an error (overloaded_error)",
            "provider_error",
            True,
            None,
            id="with a word",
        ),
        pytest.param(
            {"code": "invalid_api_key"},
            "openai broke off with an error (invalid_api_key)",
            "provider_auth",
            False,
            None,
            id="that stays",
        ),
        pytest.param(
            {"type": "invalid_request_error"},
            "openai broke off with an error (invalid_request_error)",
            "provider_error",
            False,
            None,
            id="the request is at fault",
        ),
        pytest.param(
            "boom", "openai broke off with an error", "provider_error", True, None, id="string"
        ),
    ],
)
def test_error_in_stream(
    reported: Any, message: str, code: str, retryable: bool, status: int | None
) -> None:
    error = error_in_stream("openai", reported)
    assert (error.message, error.code, error.retryable, error.status) == (
        message,
        code,
        retryable,
        status,
    )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="absent"),
        pytest.param({"retry-after": "0"}, 0.0, id="at once"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="fraction"),
        pytest.param({"retry-after": "9", "retry-after-ms": "250"}, 0.25, id="the finer one"),
        pytest.param({"retry-after": "-3"}, None, id="negative"),
        pytest.param({"retry-after": "nan"}, None, id="not a number"),
        pytest.param({"retry-after": "inf"}, None, id="for ever"),
        pytest.param({"retry-after": "soon"}, None, id="a word"),
        pytest.param(
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
            id="a date, by the provider's clock",
        ),
        pytest.param(
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT",
                "date": "Wed, 21 Oct 2015 07:28:30 GMT",
            },
            0.0,
            id="a date that has passed",
        ),
        pytest.param(
            {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None, id="a date against no clock"
        ),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("data", "beginning"),
    [
        pytest.param("<!DOCTYPE html>\n<p>hi", "'<!DOCTYPE html> <p>hi'", id="web page"),
        pytest.param("", "''", id="nothing"),
        pytest.param("[" * 100_000, repr("[" * 40), id="deeper than the parser goes"),
        pytest.param("1" * 5_000, repr("1" * 40), id="longer than a number may be"),
    ],
)
def test_what_is_not_json(data: str, beginning: str) -> None:
    with pytest.raises(ProviderError) as caught:
        load_json("openai", data)
    assert caught.value.code == "provider_protocol"
    assert caught.value.message == f"openai answered what is not JSON: {beginning}"


def test_shown_is_short_and_on_one_line() -> None:
    assert shown("a\r\n\tb\x00\x1b[2J" + "c" * 100, 10) == "a b[2Jcccc"


@pytest.mark.parametrize(
    ("details", "headers", "seconds"),
    [
        pytest.param([{"@type": "x"}, {"retryDelay": "34.5s"}], {}, 34.5, id="in the body"),
        pytest.param([{"retryDelay": "34s"}], {"retry-after": "7"}, 7, id="the header wins"),
        pytest.param([{"retryDelay": "soon"}], {}, None, id="no number"),
        pytest.param([{"retryDelay": 3}, "x"], {}, None, id="no text"),
        pytest.param({"retryDelay": "3s"}, {}, None, id="no list"),
    ],
)
def test_how_long_google_asks_to_wait(
    details: Any, headers: dict[str, str], seconds: float | None
) -> None:
    body = json.dumps({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}})
    assert error_from("gemini", 429, headers, body).retry_after_s == seconds

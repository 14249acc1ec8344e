from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from ksi_daemon import errors
from ksi_daemon.errors import (
    Conflict,
    Denied,
    KsiError,
    NotFound,
    ProviderError,
    UnknownEvent,
    UsageError,
    nearest,
)
from ksi_daemon.events import ErrorInfo


def below(kind: type[KsiError]) -> Iterator[type[KsiError]]:
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


@pytest.mark.parametrize(
    ("error", "info"),
    [
        pytest.param(
            KsiError("it broke"),
            ErrorInfo("internal", "it broke", retryable=False),
            id="a message only",
        ),
        pytest.param(
            Conflict("full", code="mailbox_full", hint="wait", details={"n": 1}, retryable=True),
            ErrorInfo("mailbox_full", "full", "wait", True, {"n": 1}),
            id="all facts",
        ),
        pytest.param(
            UnknownEvent("agent:spwan", ["agent:spawn", "agent:send"]),
            ErrorInfo(
                "unknown_event",
                "no handler for event 'agent:spwan'",
                "did you mean 'agent:spawn'?",
                False,
                {"nearest": "agent:spawn"},
            ),
            id="unknown event, near",
        ),
        pytest.param(
            UnknownEvent("x:y"),
            ErrorInfo(
                "unknown_event",
                "no handler for event 'x:y'",
                "ksi discover lists the events",
                False,
            ),
            id="unknown event, far",
        ),
        pytest.param(
            NotFound("agent", "greter", ["greeter"]),
            ErrorInfo("not_found", "no agent 'greter'", "did you mean 'greeter'?", False),
            id="not found, near",
        ),
        pytest.param(
            NotFound("agent", "x"),
            ErrorInfo("not_found", "no agent 'x'", None, False),
            id="not found, far",
        ),
        pytest.param(
            ProviderError("slow", code="provider_timeout", retryable=True, status=504),
            ErrorInfo("provider_timeout", "slow", None, True),
            id="provider",
        ),
    ],
)
def test_an_error_on_the_wire(error: KsiError, info: ErrorInfo) -> None:
    assert error.info() == info
    assert str(error) == info.message


def test_the_wire_always_says_whether_to_try_again() -> None:
    encoded = msgspec.json.encode(KsiError("it broke").info())
    assert encoded == b'{"code":"internal","message":"it broke","retryable":false}'


def test_a_code_that_is_given_changes_no_other_error() -> None:
    Conflict("full", code="mailbox_full", retryable=True)
    assert (Conflict("no").code, Conflict("no").retryable) == ("wrong_state", False)


def test_errors_carry_their_facts() -> None:
    assert UsageError("no", exit_code=78).exit_code == 78
    assert UnknownEvent("a:b").event == "a:b"
    provider = ProviderError("no", status=429, retry_after_s=1.5)
    assert (provider.status, provider.retry_after_s) == (429, 1.5)


def test_every_error_is_exported_drawn_in_the_tree_and_has_a_code() -> None:
    for error in below(KsiError):
        if error.__module__ == errors.__name__:
            assert error.__name__ in errors.__all__
            assert error.__name__ in (errors.__doc__ or "")
            assert error is errors.RoutingError or error.code != KsiError.code


def test_refusals_are_routing_errors() -> None:
    assert issubclass(Denied, errors.RoutingError)


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        pytest.param("state:gt", ["state:set", "state:get"], "state:get", id="a slip"),
        pytest.param("state:get", ["state:get"], "state:get", id="itself"),
        pytest.param("zzz", ["state:get"], None, id="nothing like it"),
        pytest.param("a", [], None, id="nothing known"),
        pytest.param("x" * 5_000_000, ["state:get"], None, id="a hostile length"),
    ],
)
def test_nearest(name: str, known: list[str], found: str | None) -> None:
    assert nearest(name, known) == found

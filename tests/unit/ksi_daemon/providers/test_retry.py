from __future__ import annotations

import math
from collections.abc import Callable

import anyio
import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import Capabilities, Completion, Request
from ksi_daemon.providers.retry import CircuitBreaker, Retrying, RetryPolicy

ASK = Request(messages=())
GIVEN = Completion(text="hello", stop_reason="stop", model="m")


def error(
    code: str = "provider_error", *, retryable: bool = True, retry_after_s: float | None = None
) -> ProviderError:
    return ProviderError("x", code=code, retryable=retryable, retry_after_s=retry_after_s)


class Flaky:
    """A provider that fails by each of *errors*, then answers; it speaks before if *speaks*."""

    name = "flaky"
    model = "m"
    price = None
    capabilities = Capabilities()

    def __init__(self, *errors: ProviderError, speaks: bool = False) -> None:
        self._errors = list(errors)
        self._speaks = speaks
        self.asked = 0
        self.closed = False

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self.asked += 1
        if self._speaks and on_text is not None:
            on_text("hel")
        if self._errors:
            raise self._errors.pop(0)
        return GIVEN

    async def aclose(self) -> None:
        self.closed = True


class Silent(Flaky):
    """A provider that never answers."""

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        await anyio.sleep_forever()
        return GIVEN


class Clock:
    """Time that passes when it is told to, and when someone sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def retrying(
    provider: Flaky, clock: Clock, policy: RetryPolicy | None = None, *, failures: int = 100
) -> Retrying:
    return Retrying(
        provider,
        policy=policy or RetryPolicy(),
        breaker=CircuitBreaker(failures=failures, clock=clock),
        uniform=lambda low, high: high,
        sleep=clock.sleep,
    )


@pytest.mark.parametrize(
    ("errors", "waits"),
    [
        pytest.param([], [], id="none"),
        pytest.param([error()] * 4, [0.5, 1.0, 2.0, 4.0], id="each wait is the double"),
        pytest.param(
            [error("provider_rate_limited", retry_after_s=7)], [7.5], id="P1 what was asked for"
        ),
        pytest.param(
            [error("provider_rate_limited", retry_after_s=60)], [60.5], id="P1 a minute at most"
        ),
        pytest.param([error("provider_stalled"), error()], [0.5, 1.0], id="P3 a stall"),
    ],
)
async def test_errors_that_pass(errors: list[ProviderError], waits: list[float]) -> None:
    clock = Clock()
    completion = await retrying(Flaky(*errors), clock).complete(ASK)
    assert (completion.text, completion.attempts, clock.waits) == (
        "hello",
        len(waits) + 1,
        waits,
    )


@pytest.mark.parametrize(
    ("errors", "asked"),
    [
        pytest.param([error()] * 9, 5, id="five attempts"),
        pytest.param([error(retryable=False)] * 9, 1, id="one that stays"),
        pytest.param([error(), error(retryable=False)] * 9, 2, id="one that stays, later"),
        pytest.param([error(retry_after_s=61)] * 9, 1, id="asked for more than a minute"),
    ],
)
async def test_giving_up(errors: list[ProviderError], asked: int) -> None:
    provider = Flaky(*errors)
    with pytest.raises(ProviderError):
        await retrying(provider, Clock()).complete(ASK)
    assert provider.asked == asked


async def test_no_wait_is_longer_than_the_longest() -> None:
    clock, policy = Clock(), RetryPolicy(attempts=9, longest_s=3)
    await retrying(Flaky(*[error()] * 5), clock, policy).complete(ASK)
    assert clock.waits == [0.5, 1.0, 2.0, 3.0, 3.0]


async def test_the_wait_is_drawn_from_nothing_to_its_bound() -> None:
    drawn: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return 0.0

    provider = Flaky(error(), error())
    await Retrying(provider, uniform=uniform, sleep=Clock().sleep).complete(ASK)
    assert drawn == [(0.0, 0.5), (0.0, 1.0)]


async def test_no_attempt_is_waited_for_that_would_come_too_late() -> None:
    clock, provider = Clock(), Flaky(error(retry_after_s=50))
    with pytest.raises(ProviderError) as caught:
        await retrying(provider, clock, RetryPolicy(total_s=40)).complete(ASK)
    assert (caught.value.retry_after_s, clock.waits) == (50, [])


async def test_all_attempts_together_have_a_deadline() -> None:
    with pytest.raises(ProviderError) as caught:
        await retrying(Silent(), Clock(), RetryPolicy(total_s=0.002)).complete(ASK)
    assert caught.value.info().message == "flaky gave no completion in 0.002 s"
    assert (caught.value.code, caught.value.retryable) == ("provider_timeout", True)


async def test_a_listener_does_not_hear_two_beginnings() -> None:
    provider, heard = Flaky(error(), speaks=True), list[str]()
    with pytest.raises(ProviderError) as caught:
        await retrying(provider, Clock()).complete(ASK, heard.append)
    assert (heard, caught.value.retryable) == (["hel"], True)


async def test_where_nobody_listens_a_reply_may_begin_again() -> None:
    completion = await retrying(Flaky(error(), speaks=True), Clock()).complete(ASK)
    assert completion.attempts == 2


@pytest.mark.faults
async def test_P2_an_open_circuit_ends_the_retries() -> None:
    provider, clock = Flaky(*[error()] * 9), Clock()
    with pytest.raises(ProviderError):
        await retrying(provider, clock, failures=2).complete(ASK)
    assert (provider.asked, clock.waits) == (2, [0.5])


async def test_it_looks_like_what_is_inside_and_closes_it() -> None:
    provider = Flaky()
    outside = Retrying(provider)
    await outside.aclose()
    assert (outside.name, outside.model, outside.capabilities, provider.closed) == (
        "flaky",
        "m",
        Capabilities(),
        True,
    )


def outcome(breaker: CircuitBreaker, raised: ProviderError | None = None) -> str:
    """Ask once: "ok", "failed" as *raised* says, or "refused" without asking."""
    asked = False
    try:
        with breaker.attempt("flaky"):
            asked = True
            if raised is not None:
                raise raised
    except ProviderError:
        return "failed" if asked else "refused"
    return "ok"


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(None, id="success"),
        pytest.param(error("provider_auth", retryable=False), id="an answer that is no outage"),
        pytest.param(error("provider_rate_limited"), id="too many requests"),
        pytest.param(error("provider_empty"), id="an empty answer"),
    ],
)
def test_failures_count_only_in_a_row(between: ProviderError | None) -> None:
    breaker = CircuitBreaker(failures=2, clock=Clock())
    outcomes = [outcome(breaker, raised) for raised in (error(), between, error())]
    assert ("refused" in outcomes, breaker.is_open) == (False, False)


@pytest.mark.faults
def test_P2_five_failures_open_it_for_thirty_seconds() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    assert [outcome(breaker, error()) for _ in range(6)] == ["failed"] * 5 + ["refused"]
    clock.now = 29.9
    assert outcome(breaker) == "refused"
    clock.now = 30.0
    assert [outcome(breaker), outcome(breaker)] == ["ok", "ok"]


def test_a_refusal_says_when_to_come_back() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    outcome(breaker, error())
    clock.now = 10.0
    with pytest.raises(ProviderError) as caught, breaker.attempt("flaky"):
        pass
    refusal = caught.value
    assert (refusal.message, refusal.code, refusal.hint, refusal.retry_after_s) == (
        "flaky is not asked after 1 failures in a row",
        "provider_unreachable",
        "the next attempt is due in 20 s",
        20.0,
    )


def test_a_trial_that_fails_opens_it_again() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=3, open_s=30, clock=clock)
    for _ in range(3):
        outcome(breaker, error())
    clock.now = 30.0
    assert [outcome(breaker, error()), outcome(breaker)] == ["failed", "refused"]
    clock.now = 60.0
    assert outcome(breaker) == "ok"


def test_only_one_tries_a_circuit_that_was_open() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    outcome(breaker, error())
    clock.now = math.inf
    with breaker.attempt("flaky"):
        assert outcome(breaker) == "refused"
    assert outcome(breaker) == "ok"


def test_a_trial_that_was_cancelled_leaves_room_for_the_next() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    outcome(breaker, error())
    clock.now = 30.0
    with pytest.raises(KeyboardInterrupt), breaker.attempt("flaky"):
        raise KeyboardInterrupt
    assert outcome(breaker) == "ok"

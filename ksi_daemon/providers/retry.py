"""Retries and the circuit breaker: a provider around a provider.

An error that may pass is tried again after a back-off with full jitter, or after what the
provider asked for. A reply whose text was handed on in part is not tried again: the listener
would hear two beginnings. Its error stays retryable, for a caller that can start the turn over.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import Completion, Provider, Request

__all__ = ["DEFAULT_POLICY", "CircuitBreaker", "RetryPolicy", "Retrying"]

# These say that the provider is there: waiting for it to come back would be beside the point.
_ALIVE: Final = frozenset({"provider_rate_limited", "provider_empty"})


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long to try, in seconds.

    The n-th wait is drawn from 0 to *base_s* * 2**(n-1), at most *longest_s*. A provider that
    asks for more than *longest_asked_s* is not waited for. *total_s* bounds all attempts and
    waits together.
    """

    attempts: int = 5
    base_s: float = 0.5
    longest_s: float = 30.0
    longest_asked_s: float = 60.0
    total_s: float = 900.0


DEFAULT_POLICY: Final = RetryPolicy()


class CircuitBreaker:
    """Keep a provider that fails from being asked.

    After *failures* in a row it refuses for *open_s*; then it lets one caller try, whose success
    closes it and whose failure opens it again.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        open_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = failures
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._retry_at = 0.0
        self._trying = False

    @property
    def is_open(self) -> bool:
        """Say whether callers are refused, or all but one are."""
        return self._failures >= self._limit

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Count how the block ends. Raise ProviderError instead of entering it while open."""
        trial = self._admit(name)
        try:
            yield
        except ProviderError as exc:
            if exc.retryable and exc.code not in _ALIVE:
                self._fail()
            else:
                self._failures = 0
            raise
        else:
            self._failures = 0
        finally:
            # A trial that was cancelled says nothing; the next caller is the trial then.
            if trial:
                self._trying = False

    def _admit(self, name: str) -> bool:
        if not self.is_open:
            return False
        wait_s = self._retry_at - self._clock()
        if wait_s > 0 or self._trying:
            raise ProviderError(
                f"{name} is not asked after {self._failures} failures in a row",
                code="provider_unreachable",
                retryable=True,
                hint=f"the next attempt is due in {max(wait_s, 0):.0f} s",
                retry_after_s=max(wait_s, 0.0),
            )
        self._trying = True
        return True

    def _fail(self) -> None:
        self._failures += 1
        if self.is_open:
            self._retry_at = self._clock() + self._open_s


class Retrying:
    """*provider*, asked again when its errors may pass, and not asked while it is down."""

    def __init__(
        self,
        provider: Provider,
        *,
        policy: RetryPolicy = DEFAULT_POLICY,
        breaker: CircuitBreaker | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.name = provider.name
        self.model = provider.model
        self.price = provider.price
        self.capabilities = provider.capabilities
        self._provider = provider
        self._policy = policy
        self._breaker = breaker or CircuitBreaker()
        self._uniform = uniform
        self._sleep = sleep

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Ask until there is a completion or an error that stays; see ``Provider.complete``."""
        with anyio.move_on_after(self._policy.total_s) as total:
            return await self._persist(request, _Listener(on_text), total)
        raise ProviderError(
            f"{self.name} gave no completion in {self._policy.total_s:g} s",
            code="provider_timeout",
            retryable=True,
        )

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()

    async def _persist(
        self, request: Request, listener: _Listener, total: anyio.CancelScope
    ) -> Completion:
        attempt = 1
        while True:
            try:
                with self._breaker.attempt(self.name):
                    completion = await self._provider.complete(request, listener.callback)
                return msgspec.structs.replace(completion, attempts=attempt)
            except ProviderError as exc:
                wait_s = self._wait_s(attempt, exc)
                late = wait_s is None or anyio.current_time() + wait_s >= total.deadline
                if wait_s is None or late or listener.has_heard or self._breaker.is_open:
                    raise
            await self._sleep(wait_s)
            attempt += 1

    def _wait_s(self, attempt: int, error: ProviderError) -> float | None:
        """Return how long to wait after *attempt* failed by *error*, None to give up."""
        policy = self._policy
        if not error.retryable or attempt >= policy.attempts:
            return None
        jitter_s = self._uniform(0.0, min(policy.longest_s, policy.base_s * 2 ** (attempt - 1)))
        if error.retry_after_s is None:
            return jitter_s
        # All agents were told the same moment; the jitter keeps them from coming back as one.
        return (
            error.retry_after_s + jitter_s
            if error.retry_after_s <= policy.longest_asked_s
            else None
        )


class _Listener:
    """A caller's on_text, and whether it has been called."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self.has_heard = False
        self._on_text = on_text

    @property
    def callback(self) -> Callable[[str], None] | None:
        """What to pass on: None if nobody listens, for then a new attempt harms nobody."""
        return self._hear if self._on_text is not None else None

    def _hear(self, text: str) -> None:
        self.has_heard = True
        if self._on_text is not None:
            self._on_text(text)

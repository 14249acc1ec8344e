from __future__ import annotations

from datetime import datetime, timedelta

import anyio
import pytest

from ksi_daemon import clock
from ksi_daemon.clock import SteadyClock
from ksi_daemon.events import now


def test_D17_it_goes_on_by_itself_when_somebody_sets_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elapsed = [100.0]
    before = now()
    steady = SteadyClock(lambda: elapsed[0])
    started = steady.now()
    assert before <= started <= now()
    # Somebody sets the machine's clock.
    monkeypatch.setattr(clock, "now", lambda: started + timedelta(days=1))
    elapsed[0] += 90.0
    assert steady.now() == started + timedelta(seconds=90)


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(timedelta(0), id="now"),
        pytest.param(timedelta(days=-9), id="in the past"),
        pytest.param(timedelta(milliseconds=20), id="soon"),
    ],
)
async def test_it_waits_until_the_time_has_come(ahead: timedelta) -> None:
    steady = SteadyClock()
    due = steady.now() + ahead
    with anyio.fail_after(20):
        while steady.now() < due:
            await steady.wait(anyio.Event(), due)


@pytest.mark.parametrize("until", [None, datetime.max.replace(tzinfo=now().tzinfo)])
async def test_it_is_woken(until: datetime | None) -> None:
    wake = anyio.Event()
    wake.set()
    with anyio.fail_after(20):
        await SteadyClock().wait(wake, until)


async def test_a_long_wait_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LONGEST_WAIT_S", 0.001)
    steady = SteadyClock()
    with anyio.fail_after(20):
        await steady.wait(anyio.Event(), steady.now() + timedelta(days=1))

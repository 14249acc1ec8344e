from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from ksi_daemon import collector
from ksi_daemon.collector import DUE, OVERDUE, collect_when_quiet, patient


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody else collects, and quiet is a matter of one turn of the loop."""
    monkeypatch.setattr(collector, "QUIET_S", 0)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def old_garbage(collections: int) -> weakref.ref[Ring]:
    """Leave garbage that has lived through so many collections of the middle generation."""
    ring = Ring()
    left = weakref.ref(ring)
    for _ in range(collections):
        gc.collect(1)
    return left


async def turns_of_the_loop() -> None:
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("steps", "collections", "is_gone"),
    [
        pytest.param(0, DUE, True, id="quiet and due"),
        pytest.param(0, DUE - 1, False, id="quiet and not due"),
        pytest.param(1, DUE, False, id="busy"),
    ],
)
@pytest.mark.usefixtures("by_hand")
async def test_full_collections_wait_for_quiet(steps: int, collections: int, is_gone: bool) -> None:
    happened = 0

    def count() -> int:
        nonlocal happened
        happened += steps
        return happened

    left = old_garbage(collections)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect_when_quiet, count)
        await turns_of_the_loop()
        tasks.cancel_scope.cancel()
    assert (left() is None) == is_gone


def test_patience_is_for_the_time_of_the_block() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with patient():
        assert gc.get_threshold() == (*before[:2], OVERDUE)
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == frozen

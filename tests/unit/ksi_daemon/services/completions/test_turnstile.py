from __future__ import annotations

import asyncio

import anyio
import pytest

from ksi_daemon.services.completions.turnstile import AT_ONCE, Turnstile


async def crowd(turnstile: Turnstile, size: int) -> list[list[int]]:
    """Return who passed in each turn of the loop."""
    turns: list[list[int]] = [[]]
    left = size

    async def come(number: int) -> None:
        nonlocal left
        await turnstile.passed()
        turns[-1].append(number)
        left -= 1

    async with anyio.create_task_group() as tasks:
        for number in range(size):
            tasks.start_soon(come, number)
        while left:
            await asyncio.sleep(0)
            turns.append([])
    return [turn for turn in turns if turn]


@pytest.mark.parametrize("size", [1, AT_ONCE, AT_ONCE + 1, 10 * AT_ONCE + 3])
async def test_few_pass_in_one_turn_and_all_in_order(size: int) -> None:
    turns = await crowd(Turnstile(), size)
    assert [number for turn in turns for number in turn] == list(range(size))
    assert max(map(len, turns)) <= AT_ONCE
    assert len(turns) <= size // AT_ONCE + 2


async def test_who_is_cancelled_takes_no_place() -> None:
    turnstile = Turnstile()
    waiting = [asyncio.ensure_future(turnstile.passed()) for _ in range(5 * AT_ONCE)]
    await asyncio.sleep(0)
    cancelled = waiting[-AT_ONCE - 1]
    cancelled.cancel()
    waiting.remove(cancelled)
    with anyio.fail_after(10):
        await asyncio.gather(*waiting)
    assert cancelled.cancelled()

"""How the cost of a call grows when its input doubles: the only timing that the tests assert."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

__all__ = ["LINEAR", "doubling", "seconds"]

# Twice the input at twice the cost is 2.0; at four times, which is what must not be, 4.0.
LINEAR: Final = 2.6
ROUNDS: Final = 10
FLOOR: Final = 1e-3  # seconds; what is cheaper than this cannot be told from noise


def doubling(cost: Callable[[int], object], size: int) -> float:
    """Return how much more CPU time ``cost(2 * size)`` takes than ``cost(size)``.

    Of each the best of up to ten interleaved rounds counts, fewer if they already show that the
    cost is linear: a busy machine makes a round slower and never faster.
    """
    once = twice = float("inf")
    for _ in range(ROUNDS):
        once = min(once, seconds(cost, size))
        twice = min(twice, seconds(cost, 2 * size))
        if twice < LINEAR * max(once, FLOOR):
            break
    return twice / max(once, FLOOR)


def seconds(cost: Callable[[int], object], size: int) -> float:
    """Return the CPU time that ``cost(size)`` takes."""
    gc.collect()
    gc.disable()
    try:
        began = time.thread_time()
        cost(size)
        return time.thread_time() - began
    finally:
        gc.enable()

"""How the cost of a call grows when its input doubles: the only timing that the tests assert."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

__all__ = ["LINEAR", "doubling", "repeated", "seconds"]

# Twice the input at twice the cost is 2.0; at four times, which is what must not be, 4.0.
LINEAR: Final = 2.6
ROUNDS: Final = 16
FLOOR: Final = 1e-3  # seconds; what is cheaper than this cannot be told from noise


def doubling(cost: Callable[[int], object], size: int) -> float:
    """Return how much more CPU time ``cost(2 * size)`` takes than ``cost(size)``.

    Both are measured in turn, in up to sixteen rounds, fewer if they already show that the cost is
    linear. What counts is the least ratio: of the best of each, or of one round. A busy machine
    makes a measurement slower and never faster, and what is not linear shows in every round.
    """
    once = twice = least = float("inf")
    for _ in range(ROUNDS):
        one, two = seconds(cost, size), seconds(cost, 2 * size)
        once, twice = min(once, one), min(twice, two)
        least = min(least, two / max(one, FLOOR), twice / max(once, FLOOR))
        if least < LINEAR:
            break
    return least


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


def repeated(unit: str, size: int) -> str:
    """Return *unit* repeated to about *size* characters, an even number of times.

    Whether a text ends within a string may depend on how often it is repeated, and what it costs
    on that; a size and its double are to be of one kind.
    """
    return unit * (2 * (size // (2 * len(unit))))

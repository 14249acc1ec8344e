"""Token buckets: how often somebody may do something. Pure: the time is given."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["MAX_BUCKETS", "Buckets"]

# Whose bucket was not asked for longest is forgotten beyond that; it is full again by then.
MAX_BUCKETS: Final = 16_384


class Buckets:
    """One bucket for each name, full at first."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, when

    def take(self, name: str, now: float, *, per_s: float, burst: float) -> float:
        """Take a token of *name*; return 0, or the seconds until there is one.

        A bucket holds at most *burst* tokens and gets *per_s* new ones a second.
        """
        tokens, then = self._left.pop(name, (burst, now))
        tokens = min(burst, tokens + max(0.0, now - then) * per_s)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / per_s
        self._left[name] = (tokens if wait else tokens - 1, now)
        if len(self._left) > MAX_BUCKETS:
            self._left.popitem(last=False)
        return wait

"""How results read: pure functions from what the daemon answered to lines of text.

Every view makes visible what it did not write itself; none of them prints.
"""

from __future__ import annotations

__all__: list[str] = []

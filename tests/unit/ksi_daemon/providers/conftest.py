from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import pytest

from tests.serving import Server
from tests.serving import serving as start

Serving: TypeAlias = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture
def serving() -> Serving:
    """Start a server: ``async with serving(answer, ...) as server``."""
    return start

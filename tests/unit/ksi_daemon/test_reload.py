"""Which settings take effect at once, and which wait."""

from __future__ import annotations

import msgspec
import pytest

from ksi_daemon.config import Settings
from ksi_daemon.reload import AT_ONCE, changes

OLD = Settings(var="/v")


@pytest.mark.parametrize(
    ("given", "changed", "needs_restart"),
    [
        pytest.param({}, [], [], id="nothing"),
        pytest.param({"max_turns": 3}, ["max_turns"], [], id="at once"),
        pytest.param({"durability": "process"}, [], ["durability"], id="after a restart"),
        pytest.param(
            {"model": "m", "max_connections": 7}, ["model"], ["max_connections"], id="both"
        ),
    ],
)
def test_what_differs(
    given: dict[str, object], changed: list[str], needs_restart: list[str]
) -> None:
    assert changes(OLD, msgspec.structs.replace(OLD, **given)) == (changed, needs_restart)


def test_what_changes_at_once_is_a_setting() -> None:
    assert set(Settings.__struct_fields__) >= AT_ONCE

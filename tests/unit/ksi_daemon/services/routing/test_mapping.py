from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.services.routing.mapping import MAX_DEPTH, MAX_PLACES, compiled

FIELDS = {
    "event": "task:done",
    "source": "agent:ada",
    "agent_id": None,
    "data": {"title": "T", "n": 7, "by": {"name": "bob"}, "trap": "{{source}}"},
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        pytest.param({"k": 1, "l": [True, None]}, {"k": 1, "l": [True, None]}, id="constants"),
        pytest.param("{{data.n}}", 7, id="a place alone is the value"),
        pytest.param("{{ data.by }}", {"name": "bob"}, id="of any type"),
        pytest.param("{{data.n}} of {{data.by}}", '7 of {"name":"bob"}', id="in a text"),
        pytest.param({"a": ["{{data.title}}"]}, {"a": ["T"]}, id="deep"),
        pytest.param("{{data.none}}", None, id="absent"),
        pytest.param("<{{data.none}}{{agent_id}}>", "<>", id="absent in a text"),
        pytest.param("{{data.trap}}", "{{source}}", id="values are not filled in"),
        pytest.param("!{{data.trap}}", "!{{source}}", id="nor in a text"),
        pytest.param("{{}} { {x}", "{{}} { {x}", id="no place"),
        pytest.param({"{{data.title}}": 1}, {"{{data.title}}": 1}, id="keys are constants"),
    ],
)
def test_what_is_filled_in(template: Any, filled: Any) -> None:
    assert compiled(template)(FIELDS) == filled


def test_bounds() -> None:
    compiled("{{data.n}}" * MAX_PLACES)
    with pytest.raises(InvalidData, match=f"more than {MAX_PLACES} places"):
        compiled(["{{data.n}}"] * (MAX_PLACES + 1))
    with pytest.raises(InvalidData, match="'name' is no path"):
        compiled({"a": "Dear {{name}}"})
    deep: Any = "x"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(InvalidData, match=f"deeper than {MAX_DEPTH}"):
        compiled(deep)

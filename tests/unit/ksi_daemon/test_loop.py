from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon import extraction
from ksi_daemon.errors import KsiError
from ksi_daemon.loop import Agreement, LoopSettings, agreement, overridden, price_list
from ksi_daemon.providers.model import Price


@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        pytest.param("ksi", Agreement(extraction.protocol("ksi")), id="preset"),
        pytest.param({}, Agreement(extraction.protocol("ksi")), id="an object of the default"),
        pytest.param(
            {"preset": "ksi", "mode": "strict"},
            Agreement(extraction.protocol("ksi", mode="strict")),
            id="a preset with overrides",
        ),
        pytest.param(
            "native_auto",
            Agreement(extraction.protocol("native_auto"), LoopSettings(use_native_tools="auto")),
            id="a preset that means something for the loop",
        ),
        pytest.param(
            {"preset": "native_auto", "result_style": "user", "max_iterations": 2},
            Agreement(
                extraction.protocol("native_auto"),
                LoopSettings(use_native_tools="auto", result_style="user", max_iterations=2),
            ),
            id="overrides of both kinds",
        ),
    ],
)
def test_what_is_agreed_on(wanted: Any, agreed: Agreement) -> None:
    assert agreement(wanted) == agreed


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        pytest.param("ski", "not_found", id="no such preset"),
        pytest.param({"preset": 5}, "args_schema", id="a preset that is a number"),
        pytest.param({"name": "x"}, "args_schema", id="a name"),
        pytest.param({"mode": "loose"}, "invalid_configuration", id="no such mode"),
        pytest.param({"odd": 1}, "invalid_configuration", id="no such setting"),
        pytest.param({"use_native_tools": "yes"}, "invalid_configuration", id="yes is not true"),
        pytest.param({"max_iterations": 0}, "invalid_configuration", id="no turns"),
    ],
)
def test_what_cannot_be_agreed_on(wanted: Any, code: str) -> None:
    with pytest.raises(KsiError) as caught:
        agreement(wanted)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("own", "override", "result"),
    [
        pytest.param("ksi", None, "ksi", id="nothing"),
        pytest.param("ksi", "any", "any", id="another preset"),
        pytest.param({"mode": "strict"}, {"preset": "any"}, {"preset": "any"}, id="an object"),
        pytest.param(
            "any", {"mode": "strict"}, {"preset": "any", "mode": "strict"}, id="of a preset"
        ),
        pytest.param(
            {"preset": "any", "mode": "strict"},
            {"mode": "lenient"},
            {"preset": "any", "mode": "lenient"},
            id="of an object",
        ),
    ],
)
def test_what_a_request_changes(own: Any, override: Any, result: Any) -> None:
    assert overridden(own, override) == result


@pytest.mark.parametrize(
    ("wanted", "malformed"),
    [
        pytest.param("ksi", "feedback", id="lenient"),
        pytest.param("json_action", "reject_reply", id="strict"),
        pytest.param({"mode": "strict", "on_malformed": "ignore"}, "ignore", id="as it is set"),
    ],
)
def test_what_a_broken_block_leads_to(wanted: Any, malformed: str) -> None:
    assert agreement(wanted).on_malformed == malformed


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("small-1", Price(0.5, 2.0)),
        ("small", None),
        ("big=1", Price(3.0, 15.0)),
        ("x", None),
        ("cached", Price(3, 15, 0.3)),
    ],
)
def test_the_first_pattern_that_matches_says_the_price(model: str, price: Price | None) -> None:
    written = "small-*=0.5/2  big=1=3/15 small-1=9/9 cached=3/15/0.3"
    assert price_list(written)(model) == price


@pytest.mark.parametrize(
    "written", ["free", "m=1", "m=1/2/3/4", "m=a/b", "=1/2", "m=-1/2", "m=nan/1", "m=1/inf"]
)
def test_what_is_no_price(written: str) -> None:
    with pytest.raises(ValueError, match="is no price; want MODEL=IN/OUT"):
        price_list(written)

from __future__ import annotations

import msgspec
import pytest

from ksi_daemon.providers.model import Completion, Price, Usage, larger, priced

PRICE = Price(2.0, 10.0, 0.5)


@pytest.mark.parametrize(
    ("price", "usage", "usd"),
    [
        pytest.param(PRICE, Usage(500_000, 100_000), 2.0, id="in and out"),
        pytest.param(PRICE, Usage(500_000, 0, 400_000), 0.4, id="the cached cost less"),
        pytest.param(Price(2.0, 10.0), Usage(500_000, 0, 400_000), 1.0, id="no price of a cache"),
        pytest.param(Price(2.0, 10.0, 0.0), Usage(500_000, 0, 500_000), 0.0, id="a cache for free"),
        pytest.param(PRICE, Usage(), None, id="tokens that nobody told"),
        pytest.param(None, Usage(5, 5), None, id="no price"),
        pytest.param(Price(0, 0), Usage(5, 5), 0.0, id="a model for free"),
    ],
)
def test_what_a_completion_cost(price: Price | None, usage: Usage, usd: float | None) -> None:
    completion = Completion(text="", stop_reason="stop", model="m", usage=usage)
    assert priced(completion, price) == msgspec.structs.replace(completion, usd=usd)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ('{"in": 1}', "missing required field `out`"),
        ('{"in": 1, "out": -1}', "a price is a number of US dollars, 0 or more"),
        ('{"in": 1, "out": 1, "cached": -1}', "a price is a number of US dollars, 0 or more"),
        ('{"in": 1, "out": 1, "cashed": 1}', "unknown field `cashed`"),
    ],
)
def test_what_is_no_price(written: str, problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.json.decode(written, type=Price)


def test_counts_only_grow() -> None:
    assert larger(Usage(5, 0, 4), Usage(0, 2)) == Usage(5, 2, 4)


def test_the_cache_is_told_of_only_if_it_was_used() -> None:
    assert msgspec.json.encode([Usage(), Usage(2, 1, 1)]) == (
        b'[{"input_tokens":0,"output_tokens":0},'
        b'{"input_tokens":2,"output_tokens":1,"cached_tokens":1}]'
    )

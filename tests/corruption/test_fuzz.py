"""Random slips at a size that a test run can afford; ``fuzz.main`` has the figures."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corruption.fuzz import KINDS, trials

TRIALS = 150
# A quote that changed places with a letter of a key leaves no key that is known.
UNSEEN = {"swapped": 0.12}


@pytest.mark.parametrize("kind", KINDS)
def test_no_random_slip_is_read_wrongly(kind: str) -> None:
    made = list(trials(kind, TRIALS))
    assert len(made) == TRIALS
    assert [each.text for each in made if each.outcome == "wrong"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_that_looks_like_a_call_is_never_dropped(kind: str) -> None:
    outcomes = Counter(made.outcome for made in trials(kind, TRIALS))
    assert outcomes["unseen"] <= UNSEEN.get(kind, 0) * TRIALS


def test_a_second_try_is_a_call_most_often() -> None:
    outcomes = Counter(made.outcome for made in trials("second_try", TRIALS))
    assert outcomes["exact"] >= 0.8 * TRIALS

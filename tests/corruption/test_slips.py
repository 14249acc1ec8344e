"""The seeded slips at a size that a test run can afford; ``slips.main`` has the figures."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corruption.slips import SLIPS, trials

TRIALS = 120
# What is read although it is not as it should be. A missing closer is not: in a call whose
# arguments nest, it may be an inner one that is missing, and then members change places. An
# escaped apostrophe is, unless it stands where it may be what a lost quote left.
EXACT = frozenset(SLIPS) - {"escaped_apostrophe", "missing_closer", "truncated"}


@pytest.mark.parametrize("kind", SLIPS)
def test_no_slip_is_ever_read_wrongly(kind: str) -> None:
    made = list(trials(kind, TRIALS))
    assert len(made) == TRIALS
    assert [each.text[:200] for each in made if each.outcome == "wrong"] == []


@pytest.mark.parametrize("kind", sorted(EXACT))
def test_what_can_be_read_is_read_exactly(kind: str) -> None:
    outcomes = Counter(made.outcome for made in trials(kind, TRIALS))
    assert outcomes == {"exact": TRIALS}


def test_nearly_every_escaped_apostrophe_is_read() -> None:
    outcomes = Counter(made.outcome for made in trials("escaped_apostrophe", TRIALS))
    assert outcomes["exact"] >= 0.9 * TRIALS


def test_a_truncated_call_never_fires() -> None:
    assert {made.outcome for made in trials("truncated", TRIALS)} == {"rejected"}

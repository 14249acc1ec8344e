from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ksi_daemon.exposition import Family, Histogram, Labels, exposition, largest

A, B, C = (("model", "a"),), (("model", "b"),), (("model", "c"),)


def test_a_family() -> None:
    family = Family("ksi_x_total", "counter", "What is\ncounted.", {B: 2, A: 1.5})
    assert exposition([family]) == (
        "# HELP ksi_x_total What is\\ncounted.\n"
        "# TYPE ksi_x_total counter\n"
        'ksi_x_total{model="a"} 1.5\n'
        'ksi_x_total{model="b"} 2\n'
    )


def test_a_histogram() -> None:
    text = exposition([Histogram("ksi_x", "X.", {2: 3, 1: 5, 4: 0}, 11)])
    assert text.splitlines()[1:] == [
        "# TYPE ksi_x histogram",
        'ksi_x_bucket{le="1"} 5',
        'ksi_x_bucket{le="2"} 8',
        'ksi_x_bucket{le="4"} 8',
        'ksi_x_bucket{le="+Inf"} 8',
        "ksi_x_sum 11",
        "ksi_x_count 8",
    ]
    [family] = text_string_to_metric_families(text)
    assert (family.type, len(family.samples)) == ("histogram", 6)


def test_a_family_without_labels() -> None:
    assert exposition([Family("ksi_y", "gauge", "Y.", {(): 0})]).endswith("\nksi_y 0\n")


def test_a_family_without_samples_is_left_out() -> None:
    assert exposition([Family("ksi_y", "gauge", "Y.", {})]) == ""


@given(value=st.text(st.characters(codec="utf-8")), number=st.integers(0, 2**53))
def test_any_label_reads_back(value: str, number: int) -> None:
    text = exposition([Family("ksi_x_total", "counter", "X.", {(("model", value),): number})])
    [family] = text_string_to_metric_families(text)
    assert [(each.labels, each.value) for each in family.samples] == [({"model": value}, number)]


@pytest.mark.parametrize(
    ("samples", "count", "expected"),
    [
        pytest.param({A: 1, B: 2}, 2, {A: 1, B: 2}, id="few"),
        pytest.param({A: 1, B: 2, C: 5}, 1, {C: 5, (("model", "other"),): 3}, id="the rest is one"),
        pytest.param(
            {(*A, ("v", "x")): 9, (*B, ("v", "x")): 1, (*B, ("v", "y")): 2, (*C, ("v", "y")): 2},
            1,
            {
                (*A, ("v", "x")): 9,
                (("model", "other"), ("v", "x")): 1,
                (("model", "other"), ("v", "y")): 4,
            },
            id="other labels stay apart",
        ),
    ],
)
def test_cardinality_is_bounded(
    samples: dict[Labels, float], count: int, expected: dict[Labels, float]
) -> None:
    assert largest(samples, count, "model") == expected

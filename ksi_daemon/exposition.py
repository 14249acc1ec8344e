"""Prometheus's text exposition format 0.0.4: families of samples as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

__all__ = ["CONTENT_TYPE", "Family", "Histogram", "Labels", "exposition", "largest"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Family(NamedTuple):
    """Samples of one name; the names of counters end in ``_total``, of units in the unit."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Mapping[Labels, float]


class Histogram(NamedTuple):
    """How many values there were up to each upper bound, none counted twice, and their *sum*."""

    name: str
    help: str
    counts: Mapping[float, int]
    sum: float


def exposition(families: Iterable[Family | Histogram]) -> str:
    """Return *families* as text; one without samples is left out."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def largest(samples: Mapping[Labels, float], count: int, label: str) -> dict[Labels, float]:
    """Return *samples* with at most *count* values of *label*, those with the largest sums.

    The rest is added up as ``other``: who names models and tools is not to say how many series a
    collector keeps.
    """
    sums: dict[str, float] = {}
    for labels, value in samples.items():
        name = dict(labels)[label]
        sums[name] = sums.get(name, 0) + value
    kept = set(sorted(sums, key=lambda name: (-sums[name], name))[:count])
    found: dict[Labels, float] = {}
    for labels, value in samples.items():
        key = tuple(
            (name, "other" if name == label and each not in kept else each) for name, each in labels
        )
        found[key] = found.get(key, 0) + value
    return found


def _lines(family: Family | Histogram) -> Iterator[str]:
    if isinstance(family, Histogram):
        yield from _head(family.name, family.help, "histogram")
        yield from _buckets(family)
    elif family.samples:
        yield from _head(family.name, family.help, family.kind)
        for labels, value in sorted(family.samples.items()):
            yield _sample(family.name, labels, value)


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text.translate(_ESCAPES)}"
    yield f"# TYPE {name} {kind}"


def _buckets(family: Histogram) -> Iterator[str]:
    count = 0
    for bound in sorted(family.counts):
        count += family.counts[bound]
        yield _sample(f"{family.name}_bucket", (("le", f"{bound:g}"),), count)
    yield _sample(f"{family.name}_bucket", (("le", "+Inf"),), count)
    yield _sample(f"{family.name}_sum", (), family.sum)
    yield _sample(f"{family.name}_count", (), count)


def _sample(name: str, labels: Labels, value: float) -> str:
    told = ",".join(f'{label}="{each.translate(_ESCAPES)}"' for label, each in labels)
    return f"{name}{{{told}}} {value:.16g}" if told else f"{name} {value:.16g}"

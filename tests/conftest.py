"""The table of cases: which ids of the conformance and fault pages pass.

A test that stands for a case carries its id in its name (``test_S002_40_...``, ``test_D1_...``).
``make conformance`` and ``make faults`` print one line a case at the end: its id, whether it
passes, how many tests stand for it, what they are about, and why one was skipped.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.night import make_night

# Absolute times are noise on a shared machine: what is slow is found by doubling, not by a clock.
# `make test` tries the same examples each time; `make soak` looks for new ones.
settings.register_profile(
    "ksi", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "soak", settings.get_profile("ksi"), max_examples=2_500, derandomize=False
)
settings.load_profile("ksi")

CASE = re.compile(r"test_(S\d{3}(?:_\d+)+|[A-Z]\d+)(?=_|\[|$)")
WORDS = {"passed": "pass", "failed": "FAIL", "skipped": "skip"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.getoption("-m") not in ("conformance", "faults"):
        return
    cases: dict[str, Case] = defaultdict(Case)
    for outcome in WORDS:
        for report in terminalreporter.getreports(outcome):
            name = report.nodeid.rpartition("::")[2]
            found = CASE.search(name)
            for case in _ids(found[1]) if found else ():
                cases[case].add(outcome, name[found.end() :], report)
    terminalreporter.section("cases")
    for name in sorted(cases, key=_natural):
        terminalreporter.write_line(f"{name:10} {cases[name]}")
    passed = sum(set(case.outcomes) == {"passed"} for case in cases.values())
    terminalreporter.write_line(f"{passed} of {len(cases)} cases pass")


class Case:
    """What the tests of one case came to, and what they are about."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.about: dict[str, None] = {}
        self.why: dict[str, None] = {}

    def add(self, outcome: str, name: str, report: pytest.TestReport) -> None:
        self.outcomes[outcome] += 1
        self.about[name.partition("[")[0].strip("_").replace("_", " ")] = None
        if outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.why[report.longrepr[2].removeprefix("Skipped: ")] = None

    def __str__(self) -> str:
        worst = next(word for word in ("failed", "skipped", "passed") if self.outcomes[word])
        about = "; ".join(self.about)
        why = f" ({'; '.join(self.why)})" if self.why else ""
        return f"{WORDS[worst]}  {self.outcomes.total():3}  {about}{why}"


def _ids(name: str) -> list[str]:
    """Return the ids as the pages write them: S002-40, and S1 for what is named S01."""
    if "_" not in name:
        return [name[0] + name[1:].lstrip("0")]
    source, *numbers = name.split("_")
    return [f"{source}-{number}" for number in numbers]


def _natural(case: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", case)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        found = CASE.match(item.name)
        if found:
            # S002_40 is a source's case, K1 one of the daemon's; S1, D4, A5 are faults.
            kind = "conformance" if "_" in found[1] or found[1][0] == "K" else "faults"
            item.add_marker(kind)


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of ``tests.night``; it is for reading."""
    path = tmp_path_factory.mktemp("night") / "events.db"
    make_night(path)
    return path

"""The table of cases: which ids of the conformance and fault pages pass.

A test that stands for a case carries its id in its name (``test_S002_40_...``, ``test_D1_...``).
``make conformance`` and ``make faults`` print one line a case at the end.
"""

from __future__ import annotations

import re
from collections import defaultdict
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
    cases: dict[str, set[str]] = defaultdict(set)
    for outcome in WORDS:
        for report in terminalreporter.getreports(outcome):
            found = CASE.search(report.nodeid.rpartition("::")[2])
            for case in _ids(found[1]) if found else ():
                cases[case].add(outcome)
    terminalreporter.section("cases")
    for case in sorted(cases, key=_natural):
        worst = next(word for word in ("failed", "skipped", "passed") if word in cases[case])
        terminalreporter.write_line(f"{case:10} {WORDS[worst]}")
    passed = sum(outcomes == {"passed"} for outcomes in cases.values())
    terminalreporter.write_line(f"{passed} of {len(cases)} cases pass")


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

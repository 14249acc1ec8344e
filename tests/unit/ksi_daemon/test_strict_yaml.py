"""What it makes of whole files is in ``test_front_matter``."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.strict_yaml import MAX_DEPTH, NotYaml, load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("[1, true, null, ~]", [1, True, None, None], id="what is plain"),
        pytest.param(
            "[no, 1.10, 2026-01-01, 0x10, 012, yes]",
            ["no", "1.10", "2026-01-01", "0x10", "012", "yes"],
            id="all else is text",
        ),
        pytest.param("", None, id="nothing"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert load(text) == value


def test_the_deepest_that_may_be() -> None:
    assert load("[" * MAX_DEPTH + "]" * MAX_DEPTH)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: 'b", "found unexpected end of stream at line 2, column 6", id="place"),
        pytest.param("a: &x 1\nb: *x", "aliases are not allowed", id="alias"),
        pytest.param("a: !!python/object:os.system x", "could not determine", id="tag"),
        pytest.param("[" * 99, f"nests deeper than {MAX_DEPTH}", id="depth"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(NotYaml, match=problem):
        load(text, first_line=2)

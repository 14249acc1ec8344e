"""What the braces behind a place tell of it."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction.braces import Braces


@pytest.mark.parametrize(
    ("text", "closes", "closes_if_quoted"),
    [
        pytest.param("@", False, False, id="nothing"),
        pytest.param("@ } ", True, True, id="closer"),
        pytest.param("@ {} ", False, False, id="pair"),
        pytest.param("@ {} } {", True, True, id="closer behind a pair"),
        pytest.param("} @ {", False, False, id="closer before"),
        pytest.param("@ } {", True, True, id="closer, opened again"),
        pytest.param('@ {a" }', False, True, id="opener in the string"),
        pytest.param('@ {a\\" {b" }', False, True, id="escaped quote"),
        pytest.param('" @ {a" }', False, True, id="quotes before are not counted"),
        pytest.param('@ "}" {', True, True, id="closer in a later string counts too"),
    ],
)
def test_closes_what_was_open(text: str, closes: bool, closes_if_quoted: bool) -> None:
    braces, at = Braces(text), text.index("@")
    assert braces.close_more(at, quoted=False) is closes
    assert braces.close_more(at, quoted=True) is closes_if_quoted

from __future__ import annotations

import pytest

from ksi_daemon.errors import McpError
from ksi_daemon.services.mcp.variables import filled

ENVIRON = {"TOKEN": "s3cret ${HOME} $1 \\1", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("plain", "plain", id="no reference"),
        pytest.param("${TOKEN}", ENVIRON["TOKEN"], id="all of it, taken as it is"),
        pytest.param("Bearer ${EMPTY}.", "Bearer .", id="a part of it"),
        pytest.param("$TOKEN ${} ${A-B} {TOKEN}", "$TOKEN ${} ${A-B} {TOKEN}", id="not quite one"),
    ],
)
def test_what_a_value_becomes(text: str, value: str) -> None:
    assert filled({"x": text}, ENVIRON) == {"x": value}


def test_a_variable_that_is_not_there() -> None:
    with pytest.raises(McpError, match="'GONE' is not in the environment") as caught:
        filled({"x": "${GONE}"}, ENVIRON)
    assert caught.value.code == "mcp_unavailable"

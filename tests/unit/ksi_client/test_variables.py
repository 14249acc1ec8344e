from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from ksi_client.variables import variables_option


@click.command()
@variables_option
def told(variables: dict[str, str]) -> None:
    click.echo(repr(variables))


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["a=b=c", "d="], {"a": "b=c", "d": ""}, id="equals signs and nothing"),
        pytest.param(["a=1", "a=2"], {"a": "2"}, id="the last one wins"),
    ],
)
def test_words_become_variables(words: list[str], variables: dict[str, str]) -> None:
    given = [part for word in words for part in ("--var-set", word)]
    assert CliRunner().invoke(told, given).stdout == f"{variables!r}\n"


@pytest.mark.parametrize("word", ["a", "=b", ""])
def test_what_is_no_variable(word: str) -> None:
    result = CliRunner().invoke(told, ["--var-set", word])
    assert result.exit_code == 2
    assert f"--var-set takes NAME=TEXT, not {word!r}" in result.stderr

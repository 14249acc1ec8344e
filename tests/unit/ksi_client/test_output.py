from __future__ import annotations

import io
import sys
from typing import Any

import msgspec
import pytest

from ksi_client.output import Output, complain, wants_color
from ksi_client.text import Paint
from ksi_daemon.errors import KsiError, NotFound


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdout", "asked", "json"),
    [
        pytest.param(io.StringIO(), None, True, id="a pipe gets JSON"),
        pytest.param(Terminal(), None, False, id="a terminal gets text"),
        pytest.param(Terminal(), True, True, id="--json"),
        pytest.param(io.StringIO(), False, False, id="--text"),
    ],
)
def test_which_form(
    monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO, asked: bool | None, json: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", stdout)
    assert Output.to_stdout(asked).json is json


@pytest.mark.parametrize(
    ("stream", "environ", "color"),
    [
        pytest.param(Terminal(), {}, True, id="a terminal"),
        pytest.param(io.StringIO(), {}, False, id="a pipe"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, True, id="NO_COLOR that is empty"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="a dumb terminal"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "1"}, True, id="FORCE_COLOR"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": ""}, False, id="FORCE_COLOR that is empty"),
        pytest.param(
            Terminal(),
            {"FORCE_COLOR": "1", "NO_COLOR": "1"},
            False,
            id="NO_COLOR has the last word",
        ),
    ],
)
def test_colors(stream: io.StringIO, environ: dict[str, str], color: bool) -> None:
    assert wants_color(stream, environ) is color


@pytest.mark.parametrize(("columns", "width"), [("120", 120), ("10", 40), ("", 100)])
def test_width(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "__stdout__", io.StringIO())
    assert Output.to_stdout().width == width


@pytest.mark.parametrize(
    "value",
    [{"a": "\x1b[31m\u202e\x9b\n"}, [1, None, "é"], "\U000e0041", msgspec.Raw(b'{"a":"\xc2\x9b"}')],
)
def test_a_value_is_one_line_of_json_that_no_terminal_obeys(
    capsys: pytest.CaptureFixture[str], value: Any
) -> None:
    Output(json=True, paint=Paint(False), width=80).show(value, lambda: pytest.fail("text"))
    [line] = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert msgspec.json.decode(line) == msgspec.json.decode(msgspec.json.encode(value))


def test_each_value_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True, paint=Paint(False), width=80).each([1, {"a": 2}], lambda: ["text"])
    assert capsys.readouterr().out == '1\n{"a":2}\n'
    Output(json=False, paint=Paint(False), width=80).each([1, {"a": 2}], lambda: ["text"])
    assert capsys.readouterr().out == "text\n"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        pytest.param(
            NotFound("agent", "adda", ["ada"]),
            "error not_found: no agent 'adda'\nhint: did you mean 'ada'?\n",
            id="with a hint",
        ),
        pytest.param(KsiError("odd"), "error internal: odd\n", id="without"),
        pytest.param(KsiError("a\x1b[2J\nb"), "error internal: a\\e[2J\nb\n", id="from a stranger"),
    ],
)
def test_complaints(capsys: pytest.CaptureFixture[str], error: KsiError, shown: str) -> None:
    complain(error)
    assert capsys.readouterr() == ("", shown)

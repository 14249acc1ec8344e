from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import cli
from ksi_daemon.extraction import PRESETS

EVENT = '{"event": "a:b", "data": {"n": 1}}'


def run(*words: str, stdin: str | None = None) -> Result:
    given = ["protocol", "compare", *words]
    return CliRunner().invoke(cli, given, input=stdin, env={"COLUMNS": "100"})


def test_every_preset_is_a_line_of_json(tmp_path: Path) -> None:
    file = tmp_path / "reply.txt"
    file.write_text(EVENT)
    lines = [msgspec.json.decode(line) for line in run("--json", str(file)).stdout.splitlines()]
    assert {line["preset"]: line["calls"] for line in lines} == {
        preset: int(preset in ("ksi", "any")) for preset in PRESETS
    }
    assert lines[0]["replies"][0]["calls"][0]["args"] == {"n": 1}


def test_files_and_presets_that_are_named(tmp_path: Path) -> None:
    file = tmp_path / "reply.txt"
    file.write_text(EVENT)
    result = run("--text", str(file), "-", "--preset", "ksi", stdin='["a", "b"]')
    assert result.stdout.splitlines() == [
        "preset  calls  mended  rejected  finals  text left  why",
        "ksi         1       0         0       0          2",
        "",
        "reply  ksi",
        "    1  ✓",
        "    2  ·",
        "    3  ·",
        "✓ call  ~ call, mended  ✗ rejected  = final answer  · nothing",
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param([], 2, id="no file"),
        pytest.param(["absent"], 2, id="a file that is not there"),
        pytest.param(["-", "--preset", "kis"], 2, id="no preset of that name"),
    ],
)
def test_what_makes_no_sense(words: list[str], code: int) -> None:
    assert run(*words).exit_code == code


def test_what_is_no_text() -> None:
    result = CliRunner().invoke(cli, ["protocol", "compare", "-"], input=b"\xff")
    assert (result.exit_code, result.stderr) == (
        1,
        "error not_utf8: stdin is not UTF-8: byte 0xff at offset 0\n",
    )

"""What blocks look like from afar."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction import PRESETS
from ksi_daemon.extraction.dialects import DIALECTS, FramedDialect
from ksi_daemon.extraction.glance import glance_of


@pytest.mark.parametrize(
    ("preset", "marks", "others", "unbraced"),
    [
        pytest.param("ksi", "` ~", "", "` ~", id="ksi"),
        pytest.param("prompt_tools", "", "", "", id="objects alone"),
        pytest.param("command", "@", "@", "@", id="command"),
        pytest.param(
            "any",
            "< > @ Action [ ] ` functools ~",
            "< @ Action ] functools",
            "< > @ Action [ ] ` ~",
            id="any",
        ),
    ],
)
def test_tells_what_a_block_begins_with(
    preset: str, marks: str, others: str, unbraced: str
) -> None:
    glance = glance_of(PRESETS[preset].dialects)
    told = (glance.marks, glance.others, glance.unbraced)
    assert told == (tuple(marks.split()), tuple(others.split()), tuple(unbraced.split()))


@pytest.mark.parametrize("name", [name for name in DIALECTS])
def test_nothing_is_written_without_a_mark(name: str) -> None:
    dialect, glance = DIALECTS[name], glance_of((name,))
    text = dialect.write("read_file", {"path": "a.txt"}, "ksiu_1")
    if isinstance(dialect, FramedDialect):
        assert not dialect.braced or dialect.opener.search(text.replace("{", "")) is None
        marked = any(mark in text for mark in glance.marks)
        assert marked or any(opener.match(text) for opener in glance.openers)
    else:
        assert (glance.objects, glance.marks) == ((dialect,), ())

from __future__ import annotations

from ksi_client.text import Paint
from ksi_client.views.tools import listed

PLAIN = Paint(False)


def test_a_description_that_others_wrote_cannot_move_the_cursor() -> None:
    hostile = {"name": "srv/x", "class": "egress", "source": "mcp", "description": "a\x1b[2Jb\nc"}
    assert list(listed([hostile], PLAIN, 80)) == [
        "tool   class   from  what it does",
        r"srv/x  egress  mcp   a\e[2Jb\nc",
    ]


def test_no_tools() -> None:
    [line] = listed([], PLAIN, 80)
    assert line.startswith("no tools; ")

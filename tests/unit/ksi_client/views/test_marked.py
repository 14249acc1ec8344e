from __future__ import annotations

from ksi_client.text import Paint, width
from ksi_client.views.marked import Mark, marked, place, starts_of_lines

PLAIN, COLORS = Paint(False), Paint(True)


def shown(text: str, *spans: tuple[int, int], cells: int = 40, paint: Paint = PLAIN) -> list[str]:
    marks = [Mark(start, end, "✓", "green") for start, end in spans]
    return list(marked(text, marks, paint=paint, cells=cells))


def test_a_whole_line_is_marked_at_its_side() -> None:
    assert shown("one\ntwo\nthree", (4, 7)) == ["1   one", "2 ✓ two", "3   three"]


def test_a_part_of_a_line_is_marked_below() -> None:
    assert shown("one two three", (4, 7)) == ["1 ✓ one two three", "        ^^^"]


def test_with_colours_nothing_stands_below() -> None:
    assert shown("one two", (4, 7), paint=COLORS) == [
        "\x1b[2m1\x1b[0m \x1b[32m✓\x1b[0m one \x1b[32mtwo\x1b[0m"
    ]


def test_long_lines_are_broken_and_marked_in_each_row() -> None:
    assert shown("a" * 10 + "b" * 20, (8, 20), cells=14) == [
        "1 ✓ aaaaaaaaaa",
        "            ^^",
        "    bbbbbbbbbb",
        "    ^^^^^^^^^^",
        "    bbbbbbbbbb",
    ]


def test_no_row_is_wider_than_the_terminal() -> None:
    text = "深い" * 50 + "\n" + "é" * 100
    assert max(map(width, shown(text, (3, 60), cells=30))) <= 30


def test_a_very_long_line_is_cut() -> None:
    rows = shown("x" * 100_000, (0, 5), cells=80)
    assert len(rows) < 20
    assert rows[-1].strip() == "⋮"


def test_what_lies_far_from_any_mark_is_left_out() -> None:
    text = "\n".join(f"line {n}" for n in range(1, 31))
    start = text.index("line 10\n")
    assert shown(text, (start, start + 7)) == [
        " ⋮ 7 lines",
        " 8   line 8",
        " 9   line 9",
        "10 ✓ line 10",
        "11   line 11",
        "12   line 12",
        " ⋮ 18 lines",
    ]


def test_a_few_lines_are_not_left_out() -> None:
    assert len(shown("\n" * 9 + "x", (3, 4), (9, 10))) == 10


def test_the_middle_of_a_long_stretch_is_left_out() -> None:
    text = "\n".join(map(str, range(100)))
    rows = shown(text, (0, len(text)))
    assert [rows[0], rows[12], rows[-1]] == ["  1 ✓ 0", "  ⋮ 84 lines", "100 ✓ 99"]


def test_without_marks_the_beginning_is_shown() -> None:
    assert len(shown("\n" * 12)) == 12
    assert shown("\n" * 50)[-2:] == ["12", " ⋮ 38 lines"]


def test_the_end_of_the_last_line_begins_none() -> None:
    assert shown("one\n", (0, 4)) == ["1 ✓ one"]


def test_what_is_not_visible_is_escaped() -> None:
    assert shown("a\x1b[2Jb\u202e") == [r"1   a\e[2Jb\u202e"]


def test_places_count_from_one() -> None:
    starts = starts_of_lines("ab\n\nc")
    assert [place(starts, at) for at in range(6)] == ["1:1", "1:2", "1:3", "2:1", "3:1", "3:2"]

"""Which parts of a reply are shown rather than said: code, block quotes, thoughts.

A block in such a part does not fire. Fences labelled ``json`` and the like, or not at all, are how
models present their calls, so these count as said. Code within a line begins with a backtick right
before the block, or before a word and not behind one: any other may be anything.

Read lazily and in order: a reply without a block costs nothing, and the text of a call is passed
over, so that a fence within one of its strings opens nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal

__all__ = ["LIVE_LABELS", "Quoting", "Shown"]

Shown = Literal["fenced", "quoted", "thought", "inline code"]

LIVE_LABELS: Final = frozenset({"", "json", "jsonc", "event", "tool", "ksi", "ksi_tool_use"})

# Enough for any document that shows a document; keeps a reply of nothing but fences linear.
_MAX_FENCES: Final = 16
_FENCE: Final = re.compile(r"(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^\n`]*+(?=\n|\Z)")
_BARE_FENCES: Final = ("```\n", "~~~\n")
_RUN: Final = re.compile(r"`++|~++")
_TICKS: Final = re.compile("`++")
_MAX_TICKS: Final = 2  # a longer run is most often a fence that shares its line
# What may stand between so many backticks and their code. A single one may be anything.
_PADDING: Final = {1: ("",), 2: ("", " ")}
_OPENING_TICKS: Final = re.compile(r"(?<![\w`])`++(?=[^\s`])")
_QUOTE_END: Final = re.compile(r"'(?!\w)")  # of a word that a backtick opened: `so'
# What opens a thought, and what ends it.
_THOUGHTS: Final = (
    ("<think>", "</think"),
    ("<thinking>", "</think"),
    ("<seed:think>", "</seed:think"),
    ("[THINK]", "[/THINK]"),
    ("<thought>", "</thought"),
    ("<reasoning>", "</reasoning"),
    ("<analysis>", "</analysis"),
    ("<reflection>", "</reflection"),
    ("<scratchpad>", "</scratchpad"),
)
_CODE_TAG: Final = re.compile(r"(?<![\"'`\\])<(code|pre)(?:\s[^<>\n]{0,100}+)?>")
_LIST_ITEM: Final = r"(?:[-*+]|\d{1,9}+[.)])[ \t]++"
_BLOCK_QUOTE: Final = re.compile(rf"[ \t]*+(?:{_LIST_ITEM})*+>")
_MARK: Final = re.compile(
    r"```|~~~|<think|<seed:think|\[THINK\]|</think"
    r"|<thought>|<reasoning>|<analysis>|<reflection>|<scratchpad>|<code[\s>]|<pre[\s>]"
)
# A closing tag that ends a thought: in the middle of a line, or in quotes, it is talked about.
_CLOSING_TAG: Final = re.compile(r"(?<![\"'`\\])</think(?:ing)?>(?=[ \t]*+(?:\r?\n|\Z|[<{\[`~@]))")


class Quoting:
    """The state of one reply's layout at a place that only moves forward.

    What lies before *thought_until* is a thought: the reply began in the middle of it.
    """

    def __init__(self, text: str, thought_until: int = 0) -> None:
        self._text = text
        self._shown: Shown | None = None  # at the last place that was asked for
        self._at = self._thought_until = thought_until
        self._blank = True  # so far on its line there is nothing, or nothing behind a block
        self._fences: list[tuple[str, bool]] = []  # run of the opening fence, whether it is live
        self._dead_fences = 0  # how many of them are not
        self._thinking = ""  # what will end the thought, "" in none
        self._code_end = ""  # what will end the code that a tag opened, "" in none
        self._code_in_line = False  # whether the end of the line ends it too
        self._unopened: int | None = None if thought_until else 0
        self._quoted_line = False
        self._ticks = ""  # the run of backticks that is open on the line
        self._coded = False  # whether that is code

    def at(self, place: int) -> Shown | None:
        """Say how *place* is shown, None if it is said. No place before an earlier one."""
        if place < self._thought_until:
            return "thought"
        gap = self._text[self._at : place]
        # Without these there can be fences of backticks only.
        plain = ">" not in gap and "~" not in gap and "[THINK]" not in gap
        if plain and self._shown is None and "`" not in gap and not self._ticks:
            return None
        self._read_ticks(gap)
        self._advance(place, plain=plain)
        if self._thinking:
            self._shown = "thought"
        elif self._dead_fences:
            self._shown = "fenced"
        elif self._quoted_line:
            self._shown = "quoted"
        else:
            self._shown = "inline code" if self._coded or self._code_end else None
        return self._shown

    def thought_end(self) -> int:
        """Return the place behind the tag that closes a thought which nothing opened, or 0.

        The text is read to its end for this: nothing can be asked afterwards.
        """
        if "</think" in self._text:
            self.at(len(self._text))
        return self._unopened or 0

    def settle(self, line_end: int) -> int:
        """Take note of the layout up to *line_end*, a line feed in a text that goes on behind it.

        Return the place before which the text is not needed again.
        """
        if line_end > self._at:
            self.at(line_end)
            self._at = line_end
        return self._at

    def move(self, text: str, cut: int) -> None:
        """Go on in *text*, which lacks *cut* characters that were there, and may hold more."""
        self._text, self._at = text, self._at - cut
        self._thought_until = max(self._thought_until - cut, 0)

    @property
    def lone_end(self) -> int | None:
        """The place behind the tag that closed a thought which nothing opened.

        0 while there was none and may be one, None when none will be taken for one.
        """
        return self._unopened

    def pass_over(self, end: int) -> None:
        """Go on at *end*: what lies before it belongs to a block and has no layout."""
        self._at, self._blank = max(end, self._thought_until), True

    def _read_ticks(self, gap: str) -> None:
        """Note whether a run of backticks is open behind *gap*, and whether its end is that."""
        line = gap.rfind("\n")
        if line >= 0:
            self._ticks, self._coded = "", False
        opened = line + 1
        for run in _TICKS.finditer(gap, line + 1):
            if not self._ticks and len(run[0]) <= _MAX_TICKS:
                self._ticks, opened = run[0], run.end()
                # A slice of all that follows would cost the square of a line of code.
                self._coded = gap[opened : opened + 2] in _PADDING[len(run[0])] or bool(
                    _OPENING_TICKS.match(self._text, self._at + run.start())
                )
            elif run[0] == self._ticks:
                self._ticks, self._coded = "", False
        if self._coded and _QUOTE_END.search(gap, opened):
            self._coded = False

    def _advance(self, place: int, *, plain: bool) -> None:
        """Read on to *place*; *plain*: up to there, no marks are met but backticks."""
        text, start = self._text, self._at
        line = text.rfind("\n", start, place) + 1
        if line or not start:
            self._quoted_line = not plain and _BLOCK_QUOTE.match(text, line, place) is not None
        while self._at < place:
            if self._thinking:
                self._at = self._leave_thought(place)
                continue
            if self._code_end:
                self._at = self._leave_code(place)
                continue
            mark = text.find("```", self._at, place) if plain else self._any_mark(place)
            if mark < 0:
                break
            self._at = self._turn(mark, place)
        self._at = place

    def _leave_thought(self, place: int) -> int:
        closer = self._thinking
        end = self._text.find(closer, self._at, place)
        if end < 0:
            return place
        self._thinking = ""
        return end + len(closer)

    def _leave_code(self, place: int) -> int:
        closer = self._code_end
        if self._code_in_line:
            line = self._text.find("\n", self._at, place)
            if line >= 0:
                self._code_end = ""
                place = line
        end = self._text.find(closer, self._at, place)
        if end < 0:
            return place
        self._code_end = ""
        return end + len(closer)

    def _any_mark(self, place: int) -> int:
        found = _MARK.search(self._text, self._at, place)
        return found.start() if found else -1

    def _turn(self, mark: int, place: int) -> int:
        """Apply *mark* to the state and return where it ends."""
        text = self._text
        line = text.rfind("\n", self._at, mark) + 1
        starts_line = bool(line or self._blank) and not text[line or self._at : mark].strip(" \t")
        self._blank = False
        if text[mark] in "<[":
            return self._turn_thought(mark, starts_line)
        return self._turn_fence(mark, place, starts_line)

    def _turn_thought(self, mark: int, starts_line: bool) -> int:
        code = _CODE_TAG.match(self._text, mark) if not self._fences else None
        if code is not None:
            self._code_end, self._code_in_line = f"</{code[1]}", not starts_line
            return code.end()
        # In the middle of a line the tag is talked about; in a fence it is shown.
        if self._unopened == 0 and not self._fences:
            closing = _CLOSING_TAG.match(self._text, mark)
            self._unopened = closing.end() if closing else 0
        for opener, closer in _THOUGHTS:
            if self._text.startswith(opener, mark):
                if starts_line and not self._fences:
                    self._thinking, self._unopened = closer, self._unopened or None
                return mark + len(opener)
        return mark + 1

    def _turn_fence(self, mark: int, place: int, starts_line: bool) -> int:
        if starts_line and self._text.startswith(_BARE_FENCES, mark):
            self._turn_bare_fence(self._text[mark : mark + 3])
            return mark + 3
        fence = _FENCE.match(self._text, mark, place) if starts_line else None
        if fence is None or self._text[fence.end() : fence.end() + 1] != "\n":
            run = _RUN.match(self._text, mark, place)
            return run.end() if run else place
        opening, label = fence.groups()
        if label:
            self._open_fence(opening, label.lower() in LIVE_LABELS)
        else:
            self._turn_bare_fence(opening)
        return fence.end()

    def _turn_bare_fence(self, run: str) -> None:
        if not self._close_fence(run):
            self._open_fence(run, True)

    def _open_fence(self, run: str, live: bool) -> None:
        if len(self._fences) < _MAX_FENCES:
            self._fences.append((run, live))
            self._dead_fences += not live

    def _close_fence(self, run: str) -> bool:
        """Close the innermost fence that *run* is long enough for, and all within it."""
        for index in range(len(self._fences) - 1, -1, -1):
            if run.startswith(self._fences[index][0]):
                if self._dead_fences:
                    self._dead_fences -= sum(not live for _, live in self._fences[index:])
                del self._fences[index:]
                return True
        return False

"""Calls as Python writes them: what Llama 4, LFM2, Olmo 3 and Gemma were trained on.

    [read_file(path="a"), list_files()]
    <|tool_call_start|>[read_file(path="a")]<|tool_call_end|>
    <function_calls>read_file(path="a")
    list_files()</function_calls>

Between marks stand lists of calls, or calls one behind the other; a fence labelled ``tool_code``
counts as marks, and what is printed there is a call too. The forms are those of the models' chat
templates. Arguments are literals given by keyword: see ``python_literals``. A list without marks
is a call where ``python_layout`` says so.

Why this is linear: a reading that fails leaves its text to be read again only by blocks that begin
within one of its strings, and two readings that are in the same kind of string, or in none, have
been so since they began. There are four kinds, so no text is read more than five times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from ksi_daemon.extraction.beginnings import beginning
from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Framed,
    FramedDialect,
    Piece,
    Reading,
    is_tool_name,
)
from ksi_daemon.extraction.dialects.framing import halted, past_space
from ksi_daemon.extraction.dialects.python_layout import (
    WITH_KEYWORD,
    is_class_name,
    is_meant,
    is_told,
    lead,
    stands_alone,
)
from ksi_daemon.extraction.dialects.reach import Reach, reach
from ksi_daemon.extraction.literals import Halt
from ksi_daemon.extraction.python_literals import (
    A_CALL,
    ARGUMENT,
    CALLEE,
    LONG_STRING_END,
    PythonCall,
    is_argument_name,
    read_call,
)

__all__ = ["MARKS", "PythonicDialect"]

_TAG: Final = "<|python_tag|>"
_FENCE: Final = "```tool_code"
# The mark, and what closes it. Which models write it is told behind.
MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "<|tool_call_start|>": "<|tool_call_end|>",  # LFM2
        "<|python_start|>": "<|python_end|>",  # Llama 4
        _TAG: "<|eom_id|>",  # Llama 3, for the tools that it was trained with
        "<function_calls>": "</function_calls>",  # Olmo 3
        _FENCE: "```",  # Gemma 2 and 3
    }
)
# Llama 3 calls a method of these tools.
_METHOD: Final = ".call"
_BLANK_LINE: Final = "\n\n"
_LIST_END: Final = "',' or ']'"
_NONE: Final[tuple[str, ...]] = ()
_CLOSED: Final = ("missing_closer",)

_MARK: Final = "|".join(map(re.escape, MARKS))
_BLOCK: Final = re.compile(rf"{_MARK}|^\[(?=\s*+{CALLEE})", re.MULTILINE)
_CALLEE: Final = re.compile(CALLEE)
_LIST: Final = re.compile(rf"\[(?=\s*+{CALLEE})")
# Another list on the same line.
_NEXT_LIST: Final = re.compile(rf"[ \t]*+[,;]?+[ \t]*+(?=\[\s*+{CALLEE})")
_NEXT_LIST_BEGUN: Final = beginning(_NEXT_LIST)
_JSON: Final = re.compile(r"\[?+\s*+\{")
_PRINT: Final = re.compile(rf"print\(\s*+(?={CALLEE})")
_BETWEEN: Final = re.compile(r"\s*+[,;]?+\s*+")
_GAP: Final = re.compile(r"[\s,;]*+")
_REST_OF_LINE: Final = re.compile(r"[ \t]*+\r?\n")
# What makes a mark one, in doubt.
_ANNOUNCED: Final = [
    beginning(re.compile(rf"\s*+(?:{each})"))
    for each in (CALLEE, r"\[", r"\[?+\s*+\{", *map(re.escape, MARKS.values()))
]
# A token at which reading stopped, when no more text can make another one of it.
_TOKEN_OVER: Final = re.compile(r"[\w.+*-]*+\s*+[^\s\w.+*-]")


class PythonicDialect(FramedDialect):
    name: ClassVar[str] = "pythonic"
    markers: ClassVar[tuple[str, ...]] = (*MARKS, "[")
    begins: ClassVar[str] = "<[`"
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?P<mark>{_MARK})|(?P<bare>\[)(?=\s*+{CALLEE})"
    )
    restart: ClassVar[str] = rf"(?:{_MARK}|{WITH_KEYWORD})"
    closing: ClassVar[re.Pattern[str]] = re.compile(
        r"\][ \t]*+[^ \t<]|(?:```|<\|[a-z_]++\|>|</function_calls>)[\s\S]"
    )

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        if opener["bare"]:
            return _bare(text, opener.start(), reading)
        if not _announces(text, opener):
            return None
        return _marked(text, opener, reading)

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        if opener["bare"]:
            return _is_bare_settled(text, opener.start())
        if framed is None:
            return all(each.match(text, opener.end()) is None for each in _ANNOUNCED)
        return _is_marked_settled(text, opener)

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        given = [f"{key}={value!r}" for key, value in args.items() if is_argument_name(key)]
        others = {key: value for key, value in args.items() if not is_argument_name(key)}
        if others:
            given.append(f"**{others!r}")
        return f"[{name}({', '.join(given)})]"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call tools, write a list of calls in the syntax of Python on a line of its own, "
            "with nothing else on that line. Every argument is given by its name, as a literal "
            "value: no variables, no expressions."
        )


class _Series(msgspec.Struct, frozen=True):
    """Calls in a block, up to *end* or to where it stops making sense."""

    calls: list[PythonCall]
    end: int
    halt: Halt | None = None

    def certain(self, at: int) -> int:
        """Return where the last whole call ends, *at* if there is none."""
        return self.calls[-1].end if self.calls else at


def _announces(text: str, opener: re.Match[str]) -> bool:
    """Say whether what follows a mark is meant to be of this dialect."""
    mark, at = opener["mark"], past_space(text, opener.end())
    if mark == _FENCE:
        return bool(_REST_OF_LINE.match(text, opener.end())) and not _JSON.match(text, at)
    if _JSON.match(text, at):
        return False
    return text.startswith(("[", MARKS[mark]), at) or _CALLEE.match(text, at) is not None


def _marked(text: str, opener: re.Match[str], reading: Reading) -> Framed:
    """Return the block between marks that begins at *opener*."""
    start, mark, at = opener.start(), opener["mark"], past_space(text, opener.end())
    if text.startswith(MARKS[mark], at):
        return _called(text, start, at + len(MARKS[mark]), [], reading)
    series = _series(text, at)
    bounds = reach(text, series.certain(at), _BLOCK, MARKS[mark])
    halt, repairs = series.halt, _NONE
    if halt is not None and halt.expected == LONG_STRING_END and bounds.closes is None:
        bounds = Reach(halt.at, None)
    if halt is None:
        halt = _unclosed(text, series.end, bounds, mark, reading)
    elif reading.repairs and _lacks_bracket(text, series, bounds):
        halt, repairs = None, _CLOSED
    if halt is not None:
        return _broken(text, start, bounds.end, series, halt, reading)
    calls = [_bound(call) for call in series.calls] if mark == _TAG else series.calls
    end = series.end if bounds.closes is None else bounds.end
    return _called(text, start, end, calls, reading, repairs)


def _is_marked_settled(text: str, opener: re.Match[str]) -> bool:
    """Say whether more text cannot change what the block between marks at *opener* is."""
    at = past_space(text, opener.end())
    if text.startswith(MARKS[opener["mark"]], at):
        return True
    series = _series(text, at)
    if series.halt is not None and not _is_over(text, series.halt):
        return False
    begun = series.certain(at)
    bounds = reach(text, begun, _BLOCK, MARKS[opener["mark"]])
    if bounds.closes is None:
        return _BLOCK.search(text, begun) is not None
    # What seems to close a fence may begin the next one.
    return not _FENCE.startswith(text[bounds.closes : bounds.closes + len(_FENCE)])


def _is_over(text: str, halt: Halt) -> bool:
    """Say whether reading would stop at *halt* too if more text came."""
    return not halt.ended and _TOKEN_OVER.match(text, halt.at) is not None


def _series(text: str, at: int) -> _Series:
    """Read the calls from *at* on, in lists or one behind the other, as far as they go."""
    calls: list[PythonCall] = []
    while True:
        read = _read_list if text.startswith("[", at) else _read_statement
        end = read(text, at, calls)
        if isinstance(end, Halt):
            return _Series(calls, end.at, end)
        between = _BETWEEN.match(text, end)
        at = between.end() if between else end
        if not _CALLEE.match(text, at) and not _LIST.match(text, at):
            return _Series(calls, end)


def _read_list(text: str, at: int, calls: list[PythonCall]) -> int | Halt:
    """Add the calls in the list at *at* to *calls* and return where it ends."""
    at = past_space(text, at + 1)
    while not text.startswith("]", at):
        call = read_call(text, at)
        if isinstance(call, Halt):
            return call
        calls.append(call)
        at = past_space(text, call.end)
        if text.startswith(",", at):
            at = past_space(text, at + 1)
        elif not text.startswith("]", at):
            return Halt(at, _LIST_END, at == len(text))
    return at + 1


def _read_lists(text: str, at: int, calls: list[PythonCall]) -> int | Halt:
    """Do the same for the lists that stand side by side at *at*."""
    end = _read_list(text, at, calls)
    while isinstance(end, int) and (following := _NEXT_LIST.match(text, end)):
        end = _read_list(text, following.end(), calls)
    return end


def _read_statement(text: str, at: int, calls: list[PythonCall]) -> int | Halt:
    """Add the call at *at*, or the one that is printed there, and return where it ends."""
    printed = _PRINT.match(text, at)
    call = read_call(text, printed.end() if printed else at)
    if isinstance(call, Halt):
        return call
    calls.append(call)
    if printed is None:
        return call.end
    end = past_space(text, call.end)
    return end + 1 if text.startswith(")", end) else Halt(end, "')'", end == len(text))


def _unclosed(text: str, end: int, bounds: Reach, mark: str, reading: Reading) -> Halt | None:
    """Say what is wrong with how a block goes on behind its calls, if something is."""
    behind, closer = past_space(text, end), repr(MARKS[mark])
    if bounds.closes is not None:
        return None if bounds.closes == behind else Halt(behind, closer, False)
    if reading.strict:
        return Halt(behind, closer, True)
    stray = text[end - 1] != "]" and behind < bounds.end and text.find("\n", end, behind) < 0
    return Halt(behind, closer, False) if stray else None


def _lacks_bracket(text: str, series: _Series, bounds: Reach) -> bool:
    """Say whether all that a list lacks is its closing bracket."""
    halt = series.halt
    if halt is None or not series.calls or halt.expected != _LIST_END:
        return False
    return (halt.ended or bounds.closes == halt.at) and _is_between(text, series)


def _bare(text: str, start: int, reading: Reading) -> Framed | None:
    """Return the list without marks at *start*, None if it is code or prose."""
    told = lead(text, start)
    if told is None:
        return None
    calls: list[PythonCall] = []
    end = _read_lists(text, start, calls)
    if told != "reply" and _has_class(text, start, calls, reading):
        return None
    if isinstance(end, int):
        if not stands_alone(text, end, told):
            return None
        return _called(text, start, end, calls, reading)
    series = _Series(calls, end.at, end)
    complete = reading.repairs and reading.stop_reason == "stop"
    if complete and _lacks_bracket(text, series, Reach(len(text), None)):
        return _called(text, start, calls[-1].end, calls, reading, _CLOSED)
    expression = _is_between(text, series) and not end.ended and not _CALLEE.match(text, end.at)
    if expression or not is_meant(text, start, told):
        return None
    return _broken(text, start, _bare_limit(text, start, end), series, end, reading)


def _is_bare_settled(text: str, start: int) -> bool:
    """Say whether more text cannot change what the list without marks at *start* is."""
    if lead(text, start) is None:
        return True
    end = _read_lists(text, start, [])
    if isinstance(end, int):
        return is_told(text, end) and _NEXT_LIST_BEGUN.match(text, end) is None
    return _is_over(text, end) and text.find("\n", end.at) >= 0


def _has_class(text: str, start: int, calls: list[PythonCall], reading: Reading) -> bool:
    """Say whether a name in the list at *start* is that of a class and of no known tool."""
    first = None if calls else _CALLEE.match(text, past_space(text, start + 1))
    names = {first[0]} if first else {call.name for call in calls}
    return any(is_class_name(name) and name not in (reading.tools or ()) for name in names)


def _bare_limit(text: str, start: int, halt: Halt) -> int:
    """Return where a list without marks ends that cannot be read beyond *halt*."""
    if halt.expected == LONG_STRING_END:
        return halt.at
    line = text.find("\n", halt.at)
    end = line if line >= 0 else len(text)
    following = _BLOCK.search(text, start + 1, end)
    gap = text.find(_BLANK_LINE, start, following.start() if following else end)
    return gap if gap >= 0 else following.start() if following else end


def _is_between(text: str, series: _Series) -> bool:
    """Say whether reading stopped behind a whole call, and not in the next one."""
    return bool(series.calls) and series.end == past_space(text, series.calls[-1].end)


def _is_spilt(halt: Halt) -> bool:
    """Say whether what stands at *halt* is no call and may belong to the one before it."""
    return halt.expected == A_CALL and not halt.ended


def _called(
    text: str,
    start: int,
    end: int,
    calls: list[PythonCall],
    reading: Reading,
    repairs: tuple[str, ...] = _NONE,
) -> Framed:
    pieces = [_piece(call, reading, repairs) for call in calls]
    if not pieces:
        return Framed(start, end, (), (("empty_block", "the block holds no call"),))
    if len(pieces) == 1:  # then the marks are its own
        pieces = [msgspec.structs.replace(pieces[0], start=start, end=end)]
    return Framed(start, end, tuple(pieces))


def _broken(
    text: str, start: int, end: int, series: _Series, halt: Halt, reading: Reading
) -> Framed:
    """Return the block from *start* to *end*, with its last call refused for *halt*.

    What is wrong behind a whole call may be wrong with that call.
    """
    whole, refused = series.calls, start
    end = start + len(text[start:end].rstrip())
    if whole and (series.halt is None or _is_between(text, series) or _is_spilt(halt)):
        *whole, last = whole
        refused = last.start if whole else start
    elif whole:
        refused = _next_call(text, whole[-1].end, end)
    end = max(end, refused + 1)
    fault = halted(text, start, halt, reading.stop_reason)
    if halt.expected == ARGUMENT and not halt.ended:
        fault = Fault("args_type", fault.message)
    pieces = [_piece(call, reading) for call in whole]
    pieces.append(Piece(refused, end, fault, min(halt.at, end)))
    return Framed(start, end, tuple(pieces))


def _next_call(text: str, at: int, before: int) -> int:
    """Return where the call behind the one that ends at *at* begins, if something is there."""
    gap = _GAP.match(text, at)
    return gap.end() if gap and gap.end() < before else at


def _piece(call: PythonCall, reading: Reading, repairs: tuple[str, ...] = _NONE) -> Piece:
    read = call.arguments
    if read.control:
        repairs = (*repairs, "control_character")
    return Piece(call.start, call.end, _draft(call, reading), call.start, repairs, read.repeated)


def _draft(call: PythonCall, reading: Reading) -> Draft | Fault:
    if not is_tool_name(call.name):
        return Fault("missing_name", f"the call must name a tool, got {call.name!r:.60}")
    if call.arguments.control and not reading.repairs:
        return Fault("malformed_block", "a string goes on behind the end of its line")
    return Draft(call.name, call.arguments.value, None)


def _bound(call: PythonCall) -> PythonCall:
    """Return *call* of a tool's one method as a call of the tool."""
    return msgspec.structs.replace(call, name=call.name.removesuffix(_METHOD))

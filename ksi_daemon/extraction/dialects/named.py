"""Calls that tell the tool's name in a mark and its arguments behind it: a table of forms.

    <｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "a"}<｜tool▁call▁end｜>
    <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"path": "a"}<|tool_call_end|>
    [TOOL_CALLS]read_file[ARGS]{"path": "a"}
    <function=read_file>{"path": "a"}</function>
    >>>read_file
    {"path": "a"}

The forms are those of the chat templates that the models are published with: DeepSeek V3 and R1
(the word ``function``, the name, the arguments in a fence) and V3.1; Kimi K2, where name and
number together are the id of the call; Mistral from version 11 of its tokenizer on; Llama 3.1 and
Functionary 3.1; Functionary 3.2. What surrounds several calls is taken when it is there, and so is
what closes a call: models leave both out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from ksi_daemon.extraction.beginnings import beginning
from ksi_daemon.extraction.dialects.arguments import Ends, Named, is_settled, read_arguments
from ksi_daemon.extraction.dialects.base import Fault, Framed, FramedDialect, Piece, Reading
from ksi_daemon.extraction.dialects.framing import past_space

__all__ = ["FORMS", "Form", "NamedDialect"]


class Form(msgspec.Struct, frozen=True):
    """One form of a call, in regular expressions.

    *mark* begins a call, and *head* follows it up to the arguments, with a group ``name`` and
    perhaps one ``id``. *closer* follows the arguments, "" where nothing does. *section* may stand
    before the first of several calls, *after* behind the last one.
    """

    mark: str
    head: str
    closer: str = ""
    section: str = ""
    after: str = ""


# Long enough for any tool: what is longer is prose.
_NAME: Final = r"(?P<name>[^\s<>\[\]{}|｜\"'`]{1,200})"
# The first key of an object, behind a brace, or what stands for one where a slip was made.
_KEY: Final = r'[{}\[\],:"\s]{0,9}+[^"\s{}\[\],:]{0,99}+"\s*+:'
# Text in place of an object, up to what closes the call.
_TEXT: Final = r"(?=[^<`]{1,400}</function>)"
_OBJECT: Final = rf"(?=\{{|{_KEY})"
# DeepSeek's own character between the words, and those that stand in for it.
_GAP: Final = r"(?:▁|_|\\_| )"


def _token(words: str) -> str:
    """Return a pattern for a special token of DeepSeek's."""
    return f"<｜{words.replace(' ', _GAP)}｜>"


FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "deepseek": Form(
            mark=_token("tool call begin"),
            head=rf"\s*+(?:function{_token('tool sep')}\s*+)?{_NAME}"
            rf"\s*+(?:{_token('tool sep')}|```(?:json)?+|(?=\{{))",
            closer=rf"(?:```\s*+)?+{_token('tool call end')}",
            section=_token("tool calls begin"),
            after=_token("tool calls end"),
        ),
        "kimi": Form(
            mark=r"<\|tool_call_begin\|>",
            head=r"\s*+(?P<id>(?:functions\.)?+(?P<name>[^\s<>{}|]{1,200}?)(?::[0-9]{1,9})?)"
            r"\s*+<\|tool_call_argument_begin\|>",
            closer=r"<\|tool_call_end\|>",
            section=r"<\|tool_calls?_section_begin\|>",
            after=r"<\|tool_calls?_section_end\|>",
        ),
        "mistral": Form(
            mark=r"\[TOOL_CALLS\]",
            head=rf"[ \t]*+{_NAME}(?:\[CALL_ID\](?P<id>[^\s\[\]{{}}]{{1,200}}))?+"
            rf"(?:\[ARGS\]|{_OBJECT})",
            after="</s>",
        ),
        "llama": Form(
            mark="<function=",
            head=rf"{_NAME}>\s*+(?:{_OBJECT}|{_TEXT})",
            closer="</function>",
            after=r"<\|eo[mt]_id\|>",
        ),
        "functionary": Form(
            mark=rf"(?<!>)>>>(?=[A-Za-z_][\w.:/-]{{0,200}}+\n(?:\{{\s*+[\"}}]|{_KEY}))",
            head=rf"{_NAME}\n",
        ),
    }
)

_TOKENS: Final = [
    token for form in FORMS.values() for token in (form.mark, form.closer, form.after) if token
]


class NamedDialect(FramedDialect):
    name: ClassVar[str] = "named"
    markers: ClassVar[tuple[str, ...]] = (
        "<｜tool",
        "<|tool",
        "[TOOL_CALLS]",
        "<function=",
        ">>>",
    )
    begins: ClassVar[str] = "<>["
    opener: ClassVar[re.Pattern[str]] = re.compile(
        "|".join(
            rf"(?P<{key}>(?:{form.section}\s*+)?+{form.mark})"
            if form.section
            else rf"(?P<{key}>{form.mark})"
            for key, form in FORMS.items()
        )
    )
    restart: ClassVar[str] = rf"(?:{'|'.join(form.mark for form in FORMS.values())})"
    # Where nothing closes a call, something must stand behind it that cannot belong to it.
    closing: ClassVar[re.Pattern[str] | None] = re.compile(
        rf"(?:{'|'.join(_TOKENS)})(?:[^\n]*+\n\s*+[^\s<]|\s*+[^\s<])" r'|\}\s*+[^\s},\]"<]'
    )

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        key = opener.lastgroup or ""
        start, begun = opener.span()
        told = _told(text, opener)
        if told is not None:
            piece = read_arguments(text, told, _ENDS[key], reading)
        elif _CUT.match(text, begun):
            fault = Fault("unterminated_block", "the reply ends before the arguments")
            piece = Piece(start, len(text), fault, begun)
        else:
            return None
        tail = _TAILS[key].match(text, piece.end)
        return Framed(start, tail.end() if tail else piece.end, (piece,))

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        key, told = opener.lastgroup or "", _told(text, opener)
        if framed is None or told is None:
            return beginning(_HEADS[key]).match(text, opener.end()) is None
        if beginning(_TAILS[key]).match(text, framed.pieces[-1].end):
            return False
        return is_settled(text, told, _ENDS[key])

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        block = json.dumps(args, ensure_ascii=False)
        return f"<function={name}>{block}</function>"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call a tool, write `<function=NAME>`, one JSON object with its arguments, and "
            "`</function>`. One block is one call."
        )


_HEADS: Final = {key: re.compile(form.head) for key, form in FORMS.items()}
_ENDS: Final = {
    key: Ends(
        re.compile(f"{form.section}|{form.mark}" if form.section else form.mark),
        re.compile(form.closer) if form.closer else None,
    )
    for key, form in FORMS.items()
}
# Behind a call: the end of its section, or white space up to the next call.
_TAILS: Final = {
    key: re.compile(
        rf"\s*+(?:{form.after}|(?={form.mark}))" if form.after else rf"\s*+(?={form.mark})"
    )
    for key, form in FORMS.items()
}
# A name, or a part of one and of the token behind it, with which the text ends.
_CUT: Final = re.compile(r"\s*+[A-Za-z_][\w.:/-]{0,200}+(?:[<\[]?[\w|｜▁]{0,40}+)\Z")


def _told(text: str, opener: re.Match[str]) -> Named | None:
    """Return what the head behind *opener* tells, None if none stands there."""
    head = _HEADS[opener.lastgroup or ""].match(text, opener.end())
    if head is None:
        return None
    return Named(head["name"], _id(head), opener.start(), past_space(text, head.end()))


def _id(head: re.Match[str]) -> str | None:
    """Return the id that *head* tells; a name alone is none, for it may come again."""
    told = head.groupdict().get("id")
    return None if told is None or told.removeprefix("functions.") == head["name"] else told

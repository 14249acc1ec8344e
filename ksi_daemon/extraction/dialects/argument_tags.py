"""Calls in tags that hold keys and values in turn.

    <tool_call>read_file
    <arg_key>path</arg_key>
    <arg_value>a.txt</arg_value>
    </tool_call>

The form of the chat templates of GLM 4.5 to 4.7 (the later ones without the line breaks) and of
Hunyuan, which puts ``<tool_sep>`` behind the name and ``<tool_calls>`` around the calls. A call
without arguments counts only at the start of a line, or directly behind another tag, and with
nothing behind it on its line: elsewhere such tags are talked about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from ksi_daemon.extraction.dialects.tag_dialect import (
    RAW_VALUES,
    TagDialect,
    closing_of,
    opener_of,
    padded,
    restart_of,
)
from ksi_daemon.extraction.dialects.tags import Family, Forms

__all__ = ["ArgumentTagsDialect"]

# Where a program has printed the text, a line break may be two characters.
_GAP: Final = r"(?:\s|\\n)*+"
_NAME: Final = r"<tool_call>\s*+(?P<name>[^\s<>{}\[\]\\\"']{0,200}+)"
_LONE: Final = r"<(?<![^\n>]<)tool_call>\s*+[\w.:/-]{1,200}+\s*+(?=</tool_call>[ \t]*+(?:$|<))"

_GLM: Final = Family(
    Forms(
        call=rf"{_NAME}(?:{_GAP}<tool_sep>)?+",
        parameter=rf"<arg_key>(?P<key>[^<>\n]*+)</arg_key>{_GAP}<arg_value>",
        parameter_end="</arg_value>",
        call_end="</tool_call>",
        call_mark="<tool_call>",
        parameter_mark="<arg_key>",
        wrappers=(("<tool_calls>", "</tool_calls>"),),
        gap=_GAP,
        bare=(rf"{_NAME}{_GAP}(?=<arg_key>|<tool_sep>)", _LONE),
    )
)


class ArgumentTagsDialect(TagDialect):
    name: ClassVar[str] = "argument_tags"
    markers: ClassVar[tuple[str, ...]] = ("<tool_call>",)
    families: ClassVar[tuple[Family, ...]] = (_GLM,)
    begins: ClassVar[str] = "<"
    opener: ClassVar[re.Pattern[str]] = opener_of(families)
    restart: ClassVar[str] = restart_of(families)
    closing: ClassVar[re.Pattern[str] | None] = closing_of(families)

    def laid_out(self, name: str, texts: Mapping[str, str]) -> str:
        values = "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{padded(text)}</arg_value>\n"
            for key, text in texts.items()
        )
        return f"<tool_call>{name}\n{values}</tool_call>"

    def teach(self, *, compact: bool) -> str:
        form = (
            "To call a tool, write `<tool_call>` and the tool's name on one line, then its "
            "arguments, each as `<arg_key>KEY</arg_key>` and `<arg_value>VALUE</arg_value>`, then "
            "`</tool_call>`. One such block is one call."
        )
        return form if compact else f"{form} {RAW_VALUES}"

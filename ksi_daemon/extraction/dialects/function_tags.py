"""Calls in tags that name the function and its parameters behind an equals sign.

    <tool_call>
    <function=read_file>
    <parameter=path>
    a.txt
    </parameter>
    </function>
    </tool_call>

The form of the chat templates of Qwen3-Coder, Qwen3.5, Nemotron 3 and Step 3.5, and, within
``<seed:tool_call>``, of Seed-OSS. The tags around the call are often left out. Read as well is the
form of MiniCPM5, ``<function name="f"><param name="k">v</param></function>``, where a value may
stand in a CDATA section; without its own tag around it, only at the start of a line.
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
    restart_of,
)
from ksi_daemon.extraction.dialects.tags import Family, Forms

__all__ = ["FunctionTagsDialect"]

_QWEN: Final = Family(
    Forms(
        call=r"<function=(?P<name>[^<>\n]*+)>",
        parameter=r"<parameter=(?P<key>[^<>\n]*+)>",
        parameter_end="</parameter>",
        call_end="</function>",
        call_mark="<function=",
        parameter_mark="<parameter=",
        wrappers=(("<tool_call>", "</tool_call>"), ("<seed:tool_call>", "</seed:tool_call>")),
        lines=True,
    )
)
_MINICPM: Final = Family(
    Forms(
        call=r'<function\s++name="(?P<name>[^<>"\n]*+)"\s*+>',
        parameter=r'<param\s++name="(?P<key>[^<>"\n]*+)"\s*+>',
        parameter_end="</param>",
        call_end="</function>",
        call_mark=r"<function\s++name=",
        parameter_mark=r"<param\s",
        wrappers=(("<tool_call>", "</tool_call>"),),
        bare=(r'<(?<![^\n]<)function\s++name="[^<>"\n]*+"\s*+>(?=\s*+(?:<param\s|</function>))',),
        quotes=True,
    )
)


class FunctionTagsDialect(TagDialect):
    name: ClassVar[str] = "function_tags"
    markers: ClassVar[tuple[str, ...]] = ("<function=", "<function name=")
    families: ClassVar[tuple[Family, ...]] = (_QWEN, _MINICPM)
    begins: ClassVar[str] = "<"
    opener: ClassVar[re.Pattern[str]] = opener_of(families)
    restart: ClassVar[str] = restart_of(families)
    closing: ClassVar[re.Pattern[str] | None] = closing_of(families)

    def laid_out(self, name: str, texts: Mapping[str, str]) -> str:
        values = "".join(
            f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in texts.items()
        )
        return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"

    def teach(self, *, compact: bool) -> str:
        form = (
            "To call a tool, write `<tool_call>`, `<function=NAME>`, for each argument "
            "`<parameter=KEY>`, its value and `</parameter>`, then `</function>` and "
            "`</tool_call>`, each on a line of its own. One such block is one call."
        )
        return form if compact else f"{form} {RAW_VALUES}"

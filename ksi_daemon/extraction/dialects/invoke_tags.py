"""Calls in tags that name the tool and its parameters in an attribute.

    <function_calls>
    <invoke name="read_file">
    <parameter name="path">a.txt</parameter>
    </invoke>
    </function_calls>

The form of Anthropic's models, where several calls may stand in one outer tag or one without it,
and of models that have their own name for it: MiniMax M2 (``<minimax:tool_call>``), Step 3
(``<steptml:invoke>``), DeepSeek V3.2 (``<｜DSML｜invoke>``, which says of each parameter whether it
is a string) and MiniMax M3, where the name of a parameter is its tag. The forms are those of the
chat templates that these models are published with.
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

__all__ = ["InvokeTagsDialect"]

_QUOTED: Final = r"\s*+=\s*+[\"'](?P<{}>[^<>\"'\n]*+)[\"']"
_NAME: Final = _QUOTED.format("name")
_KEY: Final = _QUOTED.format("key")
# Other attributes are nobody's business; one of DSML says what the value is.
_ATTRIBUTES: Final = r"(?:\s++string=\"(?P<kind>true|false)\")?+[^<>\n]*+"
_M3: Final = re.escape("]<]minimax[>[")


def _invoke(
    prefix: str,
    *wrappers: str,
    others: tuple[tuple[str, str], ...] = (),
    before: str = "",
    behind: str = "",
) -> Family:
    """Return the family of tags with *prefix*, *before* and *behind* being marks of its calls."""
    return Family(
        Forms(
            call=rf"<{before}{prefix}invoke\s++name{_NAME}\s*+(?P<empty>/)?+>",
            parameter=rf"<{prefix}parameter\s++name{_KEY}{_ATTRIBUTES}>",
            parameter_end=rf"</{prefix}parameter>",
            call_end=rf"</{prefix}invoke>{behind}",
            call_mark=rf"<{before}{prefix}invoke\s",
            parameter_mark=rf"<{prefix}parameter\s",
            wrappers=tuple((f"<{each}>", f"</{each}>") for each in wrappers) + others,
        )
    )


_ANTHROPIC: Final = _invoke("", "function_calls", "minimax:tool_call")
_NAMESPACED: Final = _invoke("antml:", "antml:function_calls")
_DSML: Final = _invoke("｜DSML｜", "｜DSML｜function_calls", "｜DSML｜tool_calls")
_STEP: Final = _invoke(
    "steptml:",
    others=(("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),),
    before=r"(?:｜tool_call_begin｜>(?:function<｜tool_sep｜>)?+\s*+<)?+",
    behind=r"(?:\s*+<｜tool_call_end｜>)?+",
)
_MINIMAX_M3: Final = Family(
    Forms(
        call=rf"{_M3}<invoke\s++name{_NAME}\s*+>",
        parameter=rf"{_M3}<(?!invoke\b|tool_call>)(?P<key>[^\s<>/]++)>",
        parameter_end=rf"{_M3}</(?!invoke>|tool_call>)(?P<of>[^\s<>/]++)>",
        call_end=rf"{_M3}</invoke>",
        call_mark=rf"{_M3}<invoke\s",
        parameter_mark=rf"{_M3}<(?!invoke\b|/)",
        wrappers=(("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>"),),
    )
)


class InvokeTagsDialect(TagDialect):
    name: ClassVar[str] = "invoke_tags"
    markers: ClassVar[tuple[str, ...]] = tuple(
        f"<{prefix}invoke name" for prefix in ("", "antml:", "｜DSML｜", "steptml:")
    )
    families: ClassVar[tuple[Family, ...]] = (_ANTHROPIC, _NAMESPACED, _DSML, _STEP, _MINIMAX_M3)
    begins: ClassVar[str] = "<]"
    opener: ClassVar[re.Pattern[str]] = opener_of(families)
    restart: ClassVar[str] = restart_of(families)
    closing: ClassVar[re.Pattern[str] | None] = closing_of(families)

    def laid_out(self, name: str, texts: Mapping[str, str]) -> str:
        values = "".join(
            f'<parameter name="{key}">{padded(text)}</parameter>\n' for key, text in texts.items()
        )
        call = f'<invoke name="{name}">\n{values}</invoke>'
        return f"<function_calls>\n{call}\n</function_calls>"

    def teach(self, *, compact: bool) -> str:
        form = (
            'To call a tool, write `<function_calls>`, `<invoke name="NAME">`, for each argument '
            '`<parameter name="KEY">`, its value and `</parameter>`, then `</invoke>` and '
            "`</function_calls>`. Several calls may stand in one block of `<function_calls>`."
        )
        return form if compact else f"{form} {RAW_VALUES}"

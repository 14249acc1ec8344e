"""The ways to write a call, one a file. Order here means nothing; a protocol sets precedence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from ksi_daemon.extraction.dialects.base import (
    Answer,
    Dialect,
    Draft,
    Fault,
    Framed,
    FramedDialect,
    ObjectDialect,
    Piece,
    Reading,
    Schemas,
)

__all__ = [
    "DIALECTS",
    "Answer",
    "Dialect",
    "Draft",
    "Fault",
    "Framed",
    "FramedDialect",
    "ObjectDialect",
    "Piece",
    "Reading",
    "Schemas",
]

# Where each dialect is: the module here, and its class.
_CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ksi_tool_use": "ksi_tool_use.ToolUseDialect",
        "event": "event.EventDialect",
        "ksi_body": "ksi_body.BodyDialect",
        "prompt_json": "prompt_json.PromptDialect",
        "json_action": "json_action.ActionDialect",
        "text_tagged": "text_tagged.TaggedDialect",
        "command": "command.CommandDialect",
        "headed": "headed.HeadedDialect",
        "named": "named.NamedDialect",
        "harmony": "harmony.HarmonyDialect",
        "function_tags": "function_tags.FunctionTagsDialect",
        "invoke_tags": "invoke_tags.InvokeTagsDialect",
        "argument_tags": "argument_tags.ArgumentTagsDialect",
        "pythonic": "pythonic.PythonicDialect",
        "gemma": "gemma.GemmaDialect",
        "react": "react.ReactDialect",
        "provider_json": "provider_json.ProviderDialect",
        "provider_list": "provider_list.ProviderListDialect",
    }
)


class _Dialects(Mapping[str, Dialect]):
    """The dialects by name, each imported when it is first asked for.

    An agent speaks few of them, and the patterns of all take longer to compile than a daemon may
    take to start.
    """

    def __getitem__(self, name: str) -> Dialect:
        return _dialect(name)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


@cache
def _dialect(name: str) -> Dialect:
    module, _, kind = _CLASSES[name].partition(".")
    dialect: Dialect = getattr(import_module(f"{__name__}.{module}"), kind)()
    return dialect


DIALECTS: Final[Mapping[str, Dialect]] = _Dialects()

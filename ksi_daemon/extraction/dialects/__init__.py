"""The ways to write a call, one a file. Order here means nothing; a protocol sets precedence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ksi_daemon.extraction.dialects.argument_tags import ArgumentTagsDialect
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
from ksi_daemon.extraction.dialects.command import CommandDialect
from ksi_daemon.extraction.dialects.event import EventDialect
from ksi_daemon.extraction.dialects.function_tags import FunctionTagsDialect
from ksi_daemon.extraction.dialects.gemma import GemmaDialect
from ksi_daemon.extraction.dialects.harmony import HarmonyDialect
from ksi_daemon.extraction.dialects.headed import HeadedDialect
from ksi_daemon.extraction.dialects.invoke_tags import InvokeTagsDialect
from ksi_daemon.extraction.dialects.json_action import ActionDialect
from ksi_daemon.extraction.dialects.ksi_body import BodyDialect
from ksi_daemon.extraction.dialects.ksi_tool_use import ToolUseDialect
from ksi_daemon.extraction.dialects.named import NamedDialect
from ksi_daemon.extraction.dialects.prompt_json import PromptDialect
from ksi_daemon.extraction.dialects.provider_json import ProviderDialect
from ksi_daemon.extraction.dialects.provider_list import ProviderListDialect
from ksi_daemon.extraction.dialects.pythonic import PythonicDialect
from ksi_daemon.extraction.dialects.react import ReactDialect
from ksi_daemon.extraction.dialects.text_tagged import TaggedDialect

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

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            ToolUseDialect(),
            EventDialect(),
            BodyDialect(),
            PromptDialect(),
            ActionDialect(),
            TaggedDialect(),
            CommandDialect(),
            HeadedDialect(),
            NamedDialect(),
            HarmonyDialect(),
            FunctionTagsDialect(),
            InvokeTagsDialect(),
            ArgumentTagsDialect(),
            PythonicDialect(),
            GemmaDialect(),
            ReactDialect(),
            ProviderDialect(),
            ProviderListDialect(),
        )
    }
)

"""From the text of a model to the calls in it. Pure: no I/O, no history, no agents."""

from __future__ import annotations

from ksi_daemon.extraction.dialects import Schemas
from ksi_daemon.extraction.extractor import extract, new_call_id
from ksi_daemon.extraction.functions import tool_of
from ksi_daemon.extraction.model import (
    EXTRACTOR_VERSION,
    Call,
    Diagnostic,
    Extraction,
    Rejected,
    as_event,
    to_json,
)
from ksi_daemon.extraction.native import Names, choose, native_names, read_native, replay
from ksi_daemon.extraction.presets import PRESETS, Protocol, protocol
from ksi_daemon.extraction.prompt import Tool, augment, corrections, proof, teach
from ksi_daemon.extraction.reply import read_reply
from ksi_daemon.extraction.stream import Extractor, Text
from ksi_daemon.extraction.survey import candidates

__all__ = [
    "EXTRACTOR_VERSION",
    "PRESETS",
    "Call",
    "Diagnostic",
    "Extraction",
    "Extractor",
    "Names",
    "Protocol",
    "Rejected",
    "Schemas",
    "Text",
    "Tool",
    "as_event",
    "augment",
    "candidates",
    "choose",
    "corrections",
    "extract",
    "native_names",
    "new_call_id",
    "proof",
    "protocol",
    "read_native",
    "read_reply",
    "replay",
    "teach",
    "to_json",
    "tool_of",
]

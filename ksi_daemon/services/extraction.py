"""extraction:*: the extractor over the socket, for whoever wants to try a text."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from ksi_daemon import extraction
from ksi_daemon.errors import InvalidData
from ksi_daemon.extraction.schemas import flaw
from ksi_daemon.router import Context, Notice, handles

__all__ = ["Extraction"]


class Extract(msgspec.Struct, forbid_unknown_fields=True):
    """*preset* names the protocol, *mode* overrides its mode."""

    text: str
    preset: str = "ksi"
    mode: Literal["strict", "lenient"] | None = None
    stop_reason: str | None = None


class Prompt(msgspec.Struct, forbid_unknown_fields=True):
    """*tools* are those that may be called, *nonce* is what proves in this turn that a call is
    the agent's own."""

    preset: str = "ksi"
    compact: bool = False
    tools: list[extraction.Tool] = []
    nonce: str | None = None


class Extraction:
    """Extraction without an agent: nothing fires."""

    NOTICES: Final = (
        Notice("extraction:call", "A call was found in a completion; its event follows."),
        Notice("extraction:rejected", "A block that looks like a call is not usable."),
    )

    @handles(
        "extraction:extract",
        effect="observe",
        example={"text": 'Done. {"event": "agent:status", "data": {"status": "ready"}}'},
    )
    def extract(self, data: Extract, ctx: Context) -> dict[str, Any]:
        """Find the calls in a text and say what was rejected and why; nothing is run."""
        settings = {"mode": data.mode} if data.mode else {}
        result = extraction.extract(
            data.text, extraction.protocol(data.preset, **settings), stop_reason=data.stop_reason
        )
        return extraction.to_json(result)

    @handles("extraction:prompt", effect="observe", inline=True, example={"preset": "ksi"})
    def prompt(self, data: Prompt, ctx: Context) -> dict[str, str]:
        """Return the text that teaches a model to write calls under a preset."""
        for number, tool in enumerate(data.tools):
            wrong = flaw(tool.schema)
            if wrong is not None:
                details = {"path": f"tools[{number}].schema"}
                raise InvalidData(f"the schema of {tool.name!r}: {wrong}", details=details)
        chosen = extraction.protocol(data.preset)
        prompt = extraction.teach(chosen, data.tools, compact=data.compact, nonce=data.nonce)
        return {"prompt": prompt}

"""What models are told: how to write calls, which ones, and what was wrong with those they wrote.

Every example here extracts to a valid call (a test holds it), because a model repeats what it is
shown. What goes back about a rejected block contains nothing that extracts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects import DIALECTS, Dialect
from ksi_daemon.extraction.legacy import complexity
from ksi_daemon.extraction.model import Rejected
from ksi_daemon.extraction.presets import Protocol
from ksi_daemon.extraction.signatures import closed, parameters, signature

__all__ = ["Tool", "corrections", "example_args", "teach"]

_HEADING: Final = "## Emitting events"
_SIMPLE: Final = "event"
_COMPLEX: Final = "ksi_tool_use"
_EVENTS: Final = frozenset({_SIMPLE, _COMPLEX})
# A schema that refers to itself has no end.
_MAX_DEPTH: Final = 4

_INTRODUCTION: Final = (
    "You act by writing events into your reply. Each one is run in the order in which you wrote "
    "it; around them you may write whatever you like. If one cannot be run you are told why."
)
_CHOICE: Final = """Use method 2 when the data holds any of these:
- text of more than one line
- quotes, backslashes, backticks or other special characters
- JSON within JSON"""
_RULES: Final = (
    "A block must be valid JSON: double quotes, no comments, no trailing commas, line breaks in "
    "text as \\n. Write a block only when you mean it to run: not as an illustration, not as a "
    "quotation."
)


class Tool(msgspec.Struct, frozen=True):
    """An event that an agent may emit. *schema* is the JSON Schema of its data."""

    name: str
    description: str
    schema: Mapping[str, Any]
    example: Mapping[str, Any] | None = None


def teach(protocol: Protocol, tools: Sequence[Tool] = (), *, compact: bool = False) -> str:
    """Return the end of a system prompt: how to write calls under *protocol*, and which.

    Of the dialects that *protocol* reads, those of events are taught, or else the first one.
    """
    if _EVENTS.isdisjoint(protocol.dialects):
        first = protocol.dialects[0]
        prompt = _TOOL_PROMPTS.get(first) or partial(_calling, first)
        return prompt(tools, compact)
    parts = [_HEADING, _INTRODUCTION, *_methods(protocol, compact=compact), _RULES]
    if tools:
        parts.append("## Events that you may emit")
        parts += (_described(tool, protocol, compact=compact) for tool in tools)
    return "\n\n".join(parts) + "\n"


def corrections(rejected: Sequence[Rejected]) -> str:
    """Return what a model is told of its rejected blocks, one short paragraph each."""
    return "\n\n".join(_correction(block) for block in rejected)


def example_args(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return data that fits *schema*: its required fields, each of its type."""
    found = _example(schema, schema.get("$defs", {}), 0)
    return found if isinstance(found, dict) else {}


def _methods(protocol: Protocol, *, compact: bool) -> Iterator[str]:
    # Precedence is about reading; a model is shown the simple form first.
    dialects = [DIALECTS[name] for name in sorted(_EVENTS.intersection(protocol.dialects))]
    if len(dialects) == 1:
        yield dialects[0].teach(compact=compact)
        return
    for number, dialect in enumerate(dialects, start=1):
        heading = "" if compact else f"### Method {number}\n\n"
        yield f"{heading}{dialect.teach(compact=compact)}"
    if _COMPLEX in protocol.dialects and not compact:
        yield _CHOICE


def _prompted(tools: Sequence[Tool], compact: bool) -> str:
    """Return the prompt for ``prompt_json``: none without tools, for then there is none to call."""
    if not tools:
        return ""
    dialect = DIALECTS["prompt_json"]
    shown = [_signed(tool) if compact else _listed_with_form(tool, dialect) for tool in tools]
    return _joined(
        "## Available Tools", *shown, dialect.teach(compact=compact), _example_call(dialect, tools)
    )


def _listed_with_form(tool: Tool, dialect: Dialect) -> str:
    lines = [
        f"**{tool.name}**",
        tool.description or f"Tool: {tool.name}",
        "Parameters:",
        *parameters(tool.schema),
        "To use: Output JSON in this format:",
        dialect.write(tool.name, _args_of(tool), ""),
    ]
    return "\n".join(lines)


def _calling(name: str, tools: Sequence[Tool], compact: bool) -> str:
    dialect = DIALECTS[name]
    shown = [_signed(tool) if compact else _with_schema(tool, tool.schema) for tool in tools]
    example = _example_call(dialect, tools)
    return _joined("## Calling tools", dialect.teach(compact=compact), example, *shown)


def _acting(tools: Sequence[Tool], compact: bool) -> str:
    paragraph = DIALECTS["json_action"].teach(compact=compact)
    shown = [_with_schema(tool, closed(dict(tool.schema))) for tool in tools]
    return _joined("## How to reply", paragraph, *(["## Tools", *shown] if tools else []))


def _joined(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def _signed(tool: Tool) -> str:
    return f"- {signature(tool.name, tool.schema)} — {tool.description}"


def _with_schema(tool: Tool, schema: Mapping[str, Any]) -> str:
    written = json.dumps(schema, ensure_ascii=False)
    return f"**{tool.name}**: {tool.description}\nArguments: {written}"


def _example_call(dialect: Dialect, tools: Sequence[Tool]) -> str:
    """Return a call of the first of *tools*, or of one that stands for any."""
    if not tools:
        return dialect.write("read_file", {"path": "notes.txt"}, "")
    return dialect.write(tools[0].name, _args_of(tools[0]), "")


def _args_of(tool: Tool) -> Mapping[str, Any]:
    return tool.example if tool.example is not None else example_args(tool.schema)


def _described(tool: Tool, protocol: Protocol, *, compact: bool) -> str:
    fields = list(_fields(tool.schema))
    if compact:
        inline = ", ".join(f"{name}: {kind}" for name, kind, _ in fields)
        return f"- `{tool.name}` {{{inline}}}: {tool.description}"
    lines = [f"**{tool.name}**: {tool.description}"]
    lines += [f"- {name} ({kind}{', required' if must else ''})" for name, kind, must in fields]
    args = _args_of(tool)
    example = _dialect_for(args, protocol).write(tool.name, args, "ksiu_01")
    return "\n".join([*lines, f"Example: {example}"])


def _dialect_for(args: Mapping[str, Any], protocol: Protocol) -> Dialect:
    """Return the dialect in which a model should write *args*."""
    simple = complexity(dict(args)) is None
    wanted = _SIMPLE if simple else _COMPLEX
    other = _COMPLEX if simple else _SIMPLE
    return DIALECTS[wanted if wanted in protocol.dialects else other]


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and type of each field of *schema*, and whether it is required."""
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        yield name, _type(field), name in required


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(json.dumps(value) for value in field["enum"])
    if "anyOf" in field:
        kinds = [_type(each) for each in field["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    kind = field.get("type", "object" if "$ref" in field else "any")
    return f"list of {_type(field.get('items', {}))}" if kind == "array" else str(kind)


def _example(schema: Mapping[str, Any], known: Mapping[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        schema = known.get(str(schema["$ref"]).rpartition("/")[2], {})
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf") and depth < _MAX_DEPTH:
        return _example(schema["anyOf"][0], known, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else None)
    match kind:
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
        case "null":
            return None
        case "string":
            return "x" * schema.get("minLength", 0) or "text"
        case "object" if depth < _MAX_DEPTH:
            fields = schema.get("properties", {})
            wanted = schema.get("required", ())
            return {name: _example(fields.get(name, {}), known, depth + 1) for name in wanted}
    return {} if kind == "object" else "text"


def _correction(block: Rejected) -> str:
    excerpt = json.dumps(block.excerpt, ensure_ascii=False)
    told = (
        f"Not run, {block.code}: your {block.dialect} block cannot be used: {block.message}. "
        f"There it says {excerpt}. If you meant it, write the whole block again."
    )
    # What quotes a broken block must not be one: within a JSON string this is the same brace.
    return told.replace("{", "\\u007b")


# Behind the functions that it names.
_TOOL_PROMPTS: Final[Mapping[str, Callable[[Sequence[Tool], bool], str]]] = MappingProxyType(
    {
        "prompt_json": _prompted,
        "json_action": _acting,
    }
)

from __future__ import annotations

from sqlite3 import Connection
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from ksi_daemon.errors import InvalidData
from ksi_daemon.registry import Handler, Nothing, Notice, Registry, handles, plain, tool
from ksi_daemon.router import Context


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int
    y: int = 0


class Line(msgspec.Struct, forbid_unknown_fields=True):
    start: Point
    end: Point


class Named(BaseModel):
    name: str = Field(min_length=1)
    inner: dict[str, int] = {}


class Kinds:
    """One handler of each kind."""

    NOTICES = (Notice("a:told", "It happened."),)

    @handles("a:task", effect="spawn", receipt=True, own="x", timeout_s=2.0, example={"x": 1})
    async def task(self, data: Point, ctx: Context) -> None:
        """Do it in a task,
        with a summary of two lines.

        And more that is not the summary.
        """

    @handles("a:thread")
    def thread(self, data: Nothing, ctx: Context) -> None: ...

    @handles("a:inline", inline=True)
    def inline(self, data: Nothing, ctx: Context) -> None: ...

    @handles("a:transaction", transaction=True)
    def transaction(self, data: Nothing, ctx: Context, connection: Connection) -> None: ...

    @handles("a:one")
    @handles("a:two")
    async def two_names(self, data: Nothing, ctx: Context) -> None: ...

    def unmarked(self) -> None: ...


def included(*plugins: object) -> Registry:
    registry = Registry()
    for plugin in plugins:
        registry.include(plugin)
    return registry


def taking(payload: Any) -> Handler:
    """Return a registered handler whose data is annotated with *payload*."""

    class Plugin:
        async def take(self, data: Any, ctx: Context) -> None: ...

    Plugin.take.__annotations__["data"] = payload
    handles("a:b")(Plugin.take)
    return included(Plugin()).handlers("a:b")[0]


def test_marking_registers_nothing_and_including_registers_all_marked() -> None:
    assert included().names() == []
    assert included(Kinds()).names() == [
        "a:inline",
        "a:one",
        "a:task",
        "a:thread",
        "a:transaction",
        "a:two",
    ]


@pytest.mark.parametrize("kind", ["task", "thread", "inline", "transaction"])
def test_the_kind_follows_from_how_the_function_is_written(kind: str) -> None:
    [handler] = included(Kinds()).handlers(f"a:{kind}")
    assert handler.kind == kind


def test_a_handler_carries_what_its_mark_says() -> None:
    plugin = Kinds()
    [handler] = included(plugin).handlers("a:task")
    assert handler._replace(decode=int) == Handler(
        event="a:task",
        effect="spawn",
        kind="task",
        call=plugin.task,
        decode=int,
        payload=Point,
        summary="Do it in a task, with a summary of two lines.",
        receipt=True,
        own="x",
        timeout_s=2.0,
        example={"x": 1},
    )


def test_without_a_docstring_the_event_is_its_own_summary() -> None:
    assert included(Kinds()).handlers("a:thread")[0].summary == "a:thread"


def test_handlers_of_one_event_keep_the_order_of_registration() -> None:
    first, second = Kinds(), Echo()
    found = included(first, second).handlers("a:task")
    assert [handler.call for handler in found] == [first.task, second.act]


def test_the_first_of_each_event_answers() -> None:
    first, second = Kinds(), Echo()
    assert {h.event: h.call for h in included(first, second).first()}["a:task"] == first.task


def test_notices_are_known_by_name() -> None:
    registry = included(Kinds())
    assert registry.notices() == [Notice("a:told", "It happened.")]
    assert registry.notice("a:told") == Notice("a:told", "It happened.")
    assert registry.notice("a:task") is None
    assert registry.handlers("a:told") == ()


class Echo:
    @handles("a:task")
    async def act(self, data: Point, ctx: Context) -> None: ...


class NoEventName:
    @handles("no event name")
    async def act(self, data: Nothing, ctx: Context) -> None: ...


class NoContext:
    @handles("a:b")
    async def act(self, data: Nothing) -> None: ...


class AsyncTransaction:
    @handles("a:b", transaction=True)
    async def act(self, data: Nothing, ctx: Context) -> None: ...


class AsyncInline:
    @handles("a:b", inline=True)
    async def act(self, data: Nothing, ctx: Context) -> None: ...


class TwoTransactions:
    @handles("a:b", transaction=True)
    def act(self, data: Nothing, ctx: Context, connection: Connection) -> None: ...

    @handles("a:b", transaction=True)
    def again(self, data: Nothing, ctx: Context, connection: Connection) -> None: ...


class HandledNotice:
    NOTICES = (Notice("a:b", "It is told."),)

    @handles("a:b")
    async def act(self, data: Nothing, ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("plugin", "error", "message"),
    [
        pytest.param(
            NoEventName(),
            ValueError,
            "'no event name' is no event name: want namespace:action, at most 128 characters",
            id="name",
        ),
        pytest.param(NoContext(), TypeError, "must take its data and a Context", id="no context"),
        pytest.param(
            AsyncTransaction(),
            ValueError,
            "the handler of 'a:b' must be a plain function",
            id="async transaction",
        ),
        pytest.param(
            AsyncInline(),
            ValueError,
            "the handler of 'a:b' must be a plain function",
            id="async inline",
        ),
        pytest.param(
            TwoTransactions(),
            ValueError,
            "a transaction handler shares 'a:b' with another",
            id="two transactions",
        ),
        pytest.param(
            HandledNotice(),
            ValueError,
            "'a:b' is a notice: no handler would ever be called",
            id="handler of a notice",
        ),
    ],
)
def test_what_cannot_be_included(plugin: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        included(plugin)


def test_a_notice_cannot_take_the_name_of_a_handled_event() -> None:
    class Told:
        NOTICES = (Notice("a:task", "It happened."),)

    with pytest.raises(ValueError, match="'a:task' is a notice"):
        included(Kinds(), Told())


def test_a_plugin_that_cannot_be_included_leaves_nothing_behind() -> None:
    class Half:
        NOTICES = (Notice("b:told", "It happened."),)

        @handles("b:a")
        async def good(self, data: Nothing, ctx: Context) -> None: ...

        @handles("a:transaction")
        async def shares(self, data: Nothing, ctx: Context) -> None: ...

    registry = included(Kinds())
    with pytest.raises(ValueError, match="shares 'a:transaction'"):
        registry.include(Half())
    assert (registry.handlers("b:a"), registry.notice("b:told")) == ((), None)


@pytest.mark.parametrize(
    ("payload", "raw", "decoded"),
    [
        pytest.param(Point, b'{"x": 1}', Point(1), id="struct"),
        pytest.param(Named, b'{"name": "n"}', Named(name="n"), id="pydantic"),
        pytest.param(dict, b'{"any": [1]}', {"any": [1]}, id="dict"),
        pytest.param(dict[str, int], b'{"any": 1}', {"any": 1}, id="typed dict"),
    ],
)
def test_data_is_decoded_by_the_annotation(payload: Any, raw: bytes, decoded: Any) -> None:
    assert taking(payload).decode(msgspec.Raw(raw)) == decoded


@pytest.mark.parametrize(
    ("raw", "message", "details"),
    [
        pytest.param(
            b'{"name": "", "inner": {}}',
            "String should have at least 1 character - at `$.name`",
            {"path": "name", "errors": 1},
            id="one field",
        ),
        pytest.param(
            b'{"name": "n", "inner": {"k": "no"}}',
            "Input should be a valid integer, unable to parse string as an integer"
            " - at `$.inner.k`",
            {"path": "inner.k", "errors": 1},
            id="nested",
        ),
        pytest.param(
            b"{}", "Field required - at `$.name`", {"path": "name", "errors": 1}, id="absent"
        ),
    ],
)
def test_pydantics_errors_read_like_all_others(
    raw: bytes, message: str, details: dict[str, Any]
) -> None:
    with pytest.raises(InvalidData) as caught:
        taking(Named).decode(msgspec.Raw(raw))
    assert (caught.value.message, caught.value.details) == (message, details)


@pytest.mark.parametrize(
    ("payload", "schema"),
    [
        pytest.param(
            Nothing,
            {
                "title": "Nothing",
                "description": "The data of an event that takes none.",
                "type": "object",
                "properties": {},
                "required": [],
                "additionalProperties": False,
            },
            id="none",
        ),
        pytest.param(
            Point,
            {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
                "additionalProperties": False,
            },
            id="struct",
        ),
        pytest.param(dict, {"type": "object"}, id="dict"),
        pytest.param(
            Named,
            {
                "title": "Named",
                "type": "object",
                "properties": {
                    "name": {"minLength": 1, "title": "Name", "type": "string"},
                    "inner": {
                        "additionalProperties": {"type": "integer"},
                        "default": {},
                        "title": "Inner",
                        "type": "object",
                    },
                },
                "required": ["name"],
            },
            id="pydantic",
        ),
    ],
)
def test_the_schema_of_the_data(payload: Any, schema: dict[str, Any]) -> None:
    assert taking(payload).schema() == schema


def test_a_schema_of_parts_brings_their_definitions() -> None:
    schema = taking(Line).schema()
    assert schema["properties"] == {
        "start": {"$ref": "#/$defs/Point"},
        "end": {"$ref": "#/$defs/Point"},
    }
    assert list(schema["$defs"]) == ["Point"]


@pytest.mark.parametrize(
    ("value", "made"),
    [
        pytest.param(Named(name="n"), {"name": "n", "inner": {}}, id="pydantic"),
        pytest.param(1j, "1j", id="anything else"),
    ],
)
def test_plain(value: object, made: object) -> None:
    assert plain(value) == made


def echo(data: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return data


SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.mark.parametrize("name", ["echo", "kom.memory.v1.search_memory", "notes:save"])
def test_a_tool_comes_and_goes(name: str) -> None:
    registry = Registry()
    registry.add(tool(name, echo, schema=SCHEMA, summary="Echo."))
    (handler,) = registry.handlers(name)
    assert (handler.kind, handler.schema()) == ("thread", SCHEMA)
    assert handler.decode(msgspec.Raw(b'{"text":"a"}')) == {"text": "a"}
    registry.remove(name)
    assert registry.handlers(name) == ()


def test_a_name_that_is_taken_is_refused() -> None:
    registry = Registry()
    registry.add(tool("echo", echo, schema=SCHEMA, summary="Echo."))
    with pytest.raises(ValueError, match="'echo' is registered already"):
        registry.add(tool("echo", echo, schema=SCHEMA, summary="Echo."))


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 129])
def test_what_is_no_tool_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no tool name"):
        tool(name, echo, schema=SCHEMA, summary="")


def test_who_watches_is_told_of_each_change() -> None:
    registry, told = Registry(), []
    registry.watch(lambda: told.append(registry.names()))
    made = tool("word", lambda data, ctx: None, schema={"type": "object"}, summary="A word.")
    registry.add(made)
    registry.remove("word")
    registry.add(made)
    registry.exclude([made])
    assert told == [["word"], [], ["word"], []]
    with pytest.raises(ValueError, match="no usable JSON Schema"):
        registry.add(tool("bad", lambda data, ctx: None, schema={"type": 3}, summary=""))
    assert len(told) == 4

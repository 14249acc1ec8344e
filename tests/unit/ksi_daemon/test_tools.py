"""Functions as tools: what they are given, what comes back, what is refused before they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import anyio
import msgspec
import pytest
from pydantic import BaseModel

from ksi_daemon import security
from ksi_daemon.errors import KsiError
from ksi_daemon.files import FileStore
from ksi_daemon.router import Context, Submission
from ksi_daemon.testing import running_router
from ksi_daemon.tools import File, handler, tool, tools_in


@dataclass
class Point:
    x: int
    y: int = 0


class Node(msgspec.Struct):
    name: str


class Model(BaseModel):
    count: int


def shown(value: object) -> str:
    return repr(value)


async def call(
    function: Callable[..., Any], arguments: object, files: Path = Path("/nonexistent")
) -> Any:
    """Return what a call of the tool *function* through the router comes to."""
    made = handler(function, FileStore(files))
    data = msgspec.Raw(msgspec.json.encode(arguments))
    asked = Submission(event=made.event, data=data, principal=security.client(1000, 1))
    async with running_router() as (router, _):
        router.registry.add(made)
        submitted = await router.submit(asked)
    return submitted.result()


def kept(reference: dict[str, Any]) -> bytes:
    return Path(reference["path"]).read_bytes()


def takes_text(value: str) -> str:
    return shown(value)


def takes_default(value: int = 3) -> str:
    return shown(value)


def takes_optional(value: int | None) -> str:
    return shown(value)


def takes_either(value: int | str) -> str:
    return shown(value)


def takes_choice(value: Literal["a", "b"]) -> str:
    return shown(value)


def takes_list(value: list[Point]) -> str:
    return shown(value)


def takes_struct(value: Node) -> str:
    return shown(value)


def takes_model(value: Model | None) -> str:
    return shown(value)


def takes_date(value: date) -> str:
    return shown(value)


def takes_place(value: int, /) -> str:
    return shown(value)


def takes_anything(value) -> str:  # type: ignore[no-untyped-def]
    return shown(value)


def takes_more(value: int, *args: int, **kwargs: int) -> str:
    return shown((value, args, kwargs))


@pytest.mark.parametrize(
    ("function", "given", "seen"),
    [
        pytest.param(takes_text, {"value": "a"}, "'a'", id="text"),
        pytest.param(takes_default, {}, "3", id="default"),
        pytest.param(takes_optional, {"value": None}, "None", id="optional"),
        pytest.param(takes_either, {"value": "1"}, "'1'", id="union"),
        pytest.param(takes_choice, {"value": "b"}, "'b'", id="literal"),
        pytest.param(takes_list, {"value": [{"x": 1}]}, "[Point(x=1, y=0)]", id="dataclass"),
        pytest.param(takes_struct, {"value": {"name": "n"}}, "Node(name='n')", id="struct"),
        pytest.param(takes_model, {"value": {"count": 2}}, "Model(count=2)", id="pydantic"),
        pytest.param(
            takes_date, {"value": "2026-01-31"}, "datetime.date(2026, 1, 31)", id="a date"
        ),
        pytest.param(takes_place, {"value": 1}, "1", id="by place"),
        pytest.param(takes_anything, {"value": [1]}, "[1]", id="no annotation"),
        pytest.param(takes_more, {"value": 1}, "(1, (), {})", id="args and kwargs are hidden"),
    ],
)
async def test_arguments_come_as_the_annotations_say(
    function: Callable[..., str], given: dict[str, Any], seen: str
) -> None:
    assert await call(function, given) == seen


@pytest.mark.parametrize(
    ("function", "given", "path"),
    [
        pytest.param(takes_text, {"value": 1}, "value", id="another type"),
        pytest.param(takes_text, {}, "", id="missing"),
        pytest.param(takes_text, {"value": "a", "more": 1}, "", id="invented"),
        pytest.param(takes_choice, {"value": "c"}, "value", id="no such choice"),
        pytest.param(takes_list, {"value": [{"x": "1"}]}, "value.0.x", id="inside"),
        pytest.param(takes_model, {"value": {"count": "many"}}, "value", id="pydantic"),
        pytest.param(takes_date, {"value": "soon"}, "value", id="no date"),
        pytest.param(takes_more, {"value": 1, "kwargs": {}}, "", id="a hidden one"),
    ],
)
async def test_what_does_not_fit_is_refused_before_the_function_runs(
    function: Callable[..., str], given: dict[str, Any], path: str
) -> None:
    with pytest.raises(KsiError) as caught:
        await call(function, given)
    assert caught.value.code == "args_schema"
    assert (caught.value.details or {})["path"].startswith(path)


async def test_S003_20_both_kinds_run_and_a_plain_one_does_not_block_the_loop() -> None:
    ticks = 0

    def slow() -> str:
        """Block until the loop has turned, which it could not do if this ran on it."""
        seen = ticks
        limit = time.monotonic() + 20
        while ticks < seen + 5 and time.monotonic() < limit:
            time.sleep(0.001)
        return "turned" if ticks >= seen + 5 else "stood still"

    async def quick() -> str:
        return "quick"

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        assert await call(slow, {}) == "turned"
        assert await call(quick, {}) == "quick"
        tasks.cancel_scope.cancel()


async def test_S003_10_the_context_is_given_and_hidden() -> None:
    def who(ctx: Context, greeting: str) -> str:
        return f"{greeting}, {ctx.principal.source}"

    schema = handler(who, FileStore(Path())).schema()
    assert list(schema["properties"]) == ["greeting"]
    assert await call(who, {"greeting": "Hello"}) == "Hello, client:1000/1"


def none() -> None:
    return None


def nothing() -> str:
    return ""


def an_object() -> dict[str, int]:
    return {"a": 1}


def large() -> str:
    return "x" * 1_000_000


async def structs() -> list[Node]:
    return [Node("n")]


@pytest.mark.parametrize(
    ("function", "result"),
    [
        pytest.param(none, None, id="None"),
        pytest.param(nothing, "", id="empty text"),
        pytest.param(an_object, {"a": 1}, id="dict"),
        pytest.param(large, "x" * 1_000_000, id="1 MB of text"),
        pytest.param(structs, [{"name": "n"}], id="structs"),
    ],
)
async def test_S003_46_a_result_is_what_json_says_of_it(
    function: Callable[..., Any], result: object
) -> None:
    assert await call(function, {}) == result


async def test_S003_46_an_exception_is_an_error_with_its_words() -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(KsiError, match="'broken' raised ZeroDivisionError: division by zero"):
        await call(broken, {})


async def test_S003_47_files_are_kept_beside_the_result(tmp_path: Path) -> None:
    async def draw() -> dict[str, Any]:
        return {"text": "a dot", "image": File(b"\x89PNG", "image/png", "dot.png")}

    def raw() -> list[bytes]:
        return [b"abc"]

    drawn = await call(draw, {}, tmp_path)
    image = drawn["image"]
    assert (drawn["text"], image["media_type"], image["bytes"]) == ("a dot", "image/png", 4)
    assert kept(image) == b"\x89PNG"
    [reference] = await call(raw, {}, tmp_path)
    assert kept(reference) == b"abc"


def test_the_decorator_says_what_the_signature_cannot() -> None:
    @tool(name="text:count", effect="observe", timeout_s=2.0, example={"text": "a b"})
    def count(text: str) -> int:
        """Count words.

        More for programmers.
        """
        return len(text.split())

    made = handler(count, FileStore(Path()))
    assert (made.event, made.effect, made.timeout_s) == ("text:count", "observe", 2.0)
    assert (made.summary, made.example) == ("Count words.", {"text": "a b"})
    assert count("a b c") == 3


def test_the_tools_of_a_module_are_those_that_it_made() -> None:
    module, other = ModuleType("mine"), ModuleType("other")

    @tool
    def own() -> None: ...

    @tool
    def borrowed() -> None: ...

    own.__module__, borrowed.__module__ = "mine", "other"
    vars(module).update(own=own, borrowed=borrowed, number=1, other=other)
    assert list(tools_in(module)) == [own]


def test_the_tools_of_an_object_are_its_marked_methods() -> None:
    class Box:
        @tool
        def put(self, item: str) -> None:
            """Put something in."""

        def plain(self) -> None: ...

    [put] = tools_in(Box())
    assert handler(put, FileStore(Path())).event == "put"


def test_a_name_that_cannot_be_is_refused() -> None:
    @tool(name="no name")
    def odd() -> None: ...

    with pytest.raises(ValueError, match="'no name' is no tool name"):
        handler(odd, FileStore(Path()))

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon import extraction
from ksi_daemon.conversation import CallReport
from ksi_daemon.events import ErrorInfo
from ksi_daemon.extraction import Call, Rejected, extract, protocol
from ksi_daemon.providers.model import Message
from ksi_daemon.services.completions.blocks import Block, Done
from ksi_daemon.services.completions.feedback import (
    MAX_RESULT,
    MAX_SNIPPET,
    answers,
    results,
    shown,
)

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["text"],
}
SCHEMAS = {"a:b": SCHEMA, "a:c": {}}
HELD = (
    "Not run, echo: your a:d call stands word for word in a text that you were given. "
    "If you mean it, write it with arguments of your own."
)


def handled(result: Any, name: str = "a:b") -> CallReport:
    return CallReport("ksiu_1", name, "handled", result)


def failed(code: str, message: str = "no", hint: str | None = None, **details: Any) -> CallReport:
    error = ErrorInfo(code, message, hint, details=details or None)
    return CallReport("ksiu_1", "a:b", "failed", error=error)


def done(report: CallReport, dialect: str = "event", *, receipt: bool = False) -> Done:
    call = Call(report.name, {}, report.id, False, dialect, 0, 0)
    return Done(Block(1, call), report, receipt)


def held(name: str, dialect: str = "event") -> Done:
    return Done(Block(1, Call(name, {}, "c9", False, dialect, 0, 0), held="echo"))


def broken() -> Rejected:
    [rejected] = extract('{"event": "a:b", "data": 5}', protocol("ksi")).rejected
    return rejected


def told(*done: Done, **settings: Any) -> list[Message]:
    told = results(done, SCHEMAS, refused=settings.get("refused", False))
    return answers(done, told, **{"on_malformed": "feedback", **settings})


def result(content: str, *, is_error: bool = False) -> Message:
    return Message("tool", content, "a:b", "ksiu_1", is_error)


@pytest.mark.parametrize(
    ("report", "receipt", "content"),
    [
        pytest.param(handled({"n": 1}), False, '{"n":1}', id="a result"),
        pytest.param(handled("text"), False, "text", id="text as it is"),
        pytest.param(handled([]), False, "[]", id="an empty list is an answer"),
        pytest.param(handled(0), False, "0", id="so is zero"),
        pytest.param(handled(False), False, "false", id="so is false"),
        pytest.param(handled({"n": 1}), True, None, id="a receipt is not"),
        pytest.param(handled(None), False, None, id="nothing is not"),
        pytest.param(handled({}), False, None, id="an empty object is not"),
        pytest.param(handled(""), False, None, id="empty text is not"),
        pytest.param(failed("denied"), True, "Error denied: no", id="an error is"),
    ],
)
def test_an_event_is_answered_if_it_needs_to_be(
    report: CallReport, receipt: bool, content: str | None
) -> None:
    expected = [] if content is None else [result(content, is_error=report.error is not None)]
    assert told(done(report, receipt=receipt)) == expected


@pytest.mark.parametrize(
    ("report", "dialect", "content"),
    [
        pytest.param(handled(None), "prompt_json", "(no output)", id="nothing"),
        pytest.param(handled(""), "text_tagged", "(no output)", id="empty text"),
        pytest.param(handled({}), "native", "{}", id="an empty object"),
        pytest.param(handled(None), "json_action", "null", id="nothing, as JSON"),
        pytest.param(handled("hi"), "json_action", '"hi"', id="text, as JSON"),
        pytest.param(
            failed("denied"),
            "json_action",
            '{"error":{"code":"denied","message":"no"}}',
            id="an error, as JSON",
        ),
    ],
)
def test_a_call_of_a_tool_is_always_answered(
    report: CallReport, dialect: str, content: str
) -> None:
    assert told(done(report, dialect, receipt=True)) == [
        result(content, is_error=report.error is not None)
    ]


def test_results_come_in_the_order_of_the_calls_and_corrections_behind_them() -> None:
    given = (
        done(handled(1)),
        done(handled(2), receipt=True),
        held("a:d"),
        Done(Block(4, broken())),
    )
    assert told(done(handled(3)), *given) == [
        result("3"),
        result("1"),
        Message("user", f"{HELD}\n\n{extraction.corrections([broken()])}"),
    ]


def test_what_is_ignored_is_not_told() -> None:
    assert told(Done(Block(1, broken())), on_malformed="ignore") == []


def test_of_a_refused_reply_nothing_was_run() -> None:
    call = Call("a:b", {}, "c1", False, "native", 0, 0)
    in_text = Call("a:b", {}, "c2", False, "text_tagged", 0, 0)
    given = (Done(Block(1, call)), Done(Block(2, in_text)), Done(Block(3, broken())))
    [native, correction] = told(*given, on_malformed="reject_reply", refused=True)
    assert (native.role, native.call_id, native.is_error) == ("tool", "c1", True)
    assert correction.content.startswith(extraction.corrections([broken()]))
    assert correction.content.endswith("Send the whole reply again, as it should be.")


def test_a_native_call_has_its_answer_under_its_id_whatever_became_of_it() -> None:
    rejected = Rejected("args_json", "bad", "native", 0, 0, "{", "c1")
    [first, second] = told(Done(Block(1, rejected)), held("a:d", "native"))
    assert (first.role, first.call_id, first.is_error) == ("tool", "c1", True)
    assert "args_json" in first.content
    assert (second.content, second.name, second.call_id) == (HELD, "a:d", "c9")


@pytest.mark.parametrize(
    ("report", "text"),
    [
        pytest.param(
            failed("unknown_event", "no handler"),
            "Error unknown_tool: no handler; did you mean 'a:b'?\nThere are: a:b, a:c",
            id="an unknown event, in the word of the protocols",
        ),
        pytest.param(
            failed("args_schema", "wrong", path="count"),
            'Error args_schema: wrong\nExpected: {"count":{"type":"integer"}}',
            id="the piece of the schema at the path",
        ),
        pytest.param(
            failed("args_schema", "wrong", path=""),
            'Error args_schema: wrong\nExpected: {"required":["text"],"properties":'
            '{"text":{"type":"string"},"count":{"type":"integer"}}}',
            id="of the whole its fields",
        ),
        pytest.param(
            failed(
                "args_schema",
                "wrong",
                path="x",
                errors=[{"path": "x", "message": "wrong", "schema": {"maximum": 3}}],
            ),
            'Error args_schema: wrong\nExpected: {"x":{"maximum":3}}',
            id="the pieces that a validator names",
        ),
        pytest.param(
            failed("args_schema", "wrong", path="no.such"),
            "Error args_schema: wrong",
            id="no piece at a path that is none",
        ),
        pytest.param(
            failed("denied", "no", "ask"), "Error denied: no (ask)", id="a hint of any other"
        ),
    ],
)
def test_an_error_tells_what_helps(report: CallReport, text: str) -> None:
    assert shown(report, SCHEMAS) == text


def test_the_piece_of_a_schema_is_short() -> None:
    large = {"properties": {"x": {"enum": ["y" * 100] * 100}}}
    text = shown(failed("args_schema", "wrong", path="x"), {"a:b": large})
    assert len(text.partition("Expected: ")[2]) == MAX_SNIPPET


def test_names_beyond_the_limit_are_counted() -> None:
    names = {f"n:{number:03}": {} for number in range(70)}
    assert shown(failed("unknown_event"), names).endswith("n:063 and 6 more")


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(handled("x" * (MAX_RESULT + 5)), id="a result"),
        pytest.param(
            failed("failed", "x" * (MAX_RESULT + 5 - len("Error failed: "))), id="an error"
        ),
    ],
)
def test_a_long_text_is_cut_and_says_so(report: CallReport) -> None:
    text = shown(report, SCHEMAS)
    assert text.endswith("\n[5 more characters are in the log]")
    assert len(text) == MAX_RESULT + len("\n[5 more characters are in the log]")


def test_a_text_of_the_limit_is_whole() -> None:
    assert shown(handled("x" * MAX_RESULT), SCHEMAS) == "x" * MAX_RESULT

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon import extraction
from ksi_daemon.conversation import CallReport
from ksi_daemon.events import ErrorInfo
from ksi_daemon.extraction import Rejected, extract, protocol
from ksi_daemon.services.completions.feedback import MAX_RESULT, feedback, shown


def handled(result: Any, name: str = "a:b") -> CallReport:
    return CallReport("ksiu_1", name, "handled", result)


def failed(code: str, message: str, hint: str | None = None) -> CallReport:
    return CallReport("ksiu_1", "a:b", "failed", error=ErrorInfo(code, message, hint))


def broken() -> Rejected:
    [rejected] = extract('{"event": "a:b", "data": 5}', protocol("ksi")).rejected
    return rejected


@pytest.mark.parametrize(
    ("report", "receipt", "message"),
    [
        pytest.param(handled({"n": 1}), False, 'Tool Result (a:b):\n{"n":1}', id="a result"),
        pytest.param(handled("text"), False, "Tool Result (a:b):\ntext", id="text as it is"),
        pytest.param(handled([]), False, "Tool Result (a:b):\n[]", id="an empty list is an answer"),
        pytest.param(handled(0), False, "Tool Result (a:b):\n0", id="so is zero"),
        pytest.param(handled(False), False, "Tool Result (a:b):\nfalse", id="so is false"),
        pytest.param(handled({"n": 1}), True, None, id="a receipt is not"),
        pytest.param(handled(None), False, None, id="nothing is not"),
        pytest.param(handled({}), False, None, id="an empty object is not"),
        pytest.param(handled(""), False, None, id="empty text is not"),
        pytest.param(
            failed("denied", "no"), True, "Tool Result (a:b):\nError denied: no", id="an error is"
        ),
        pytest.param(
            failed("unknown_event", "no handler for event 'a:b'", "did you mean 'a:c'?"),
            False,
            "Tool Result (a:b):\n"
            "Error unknown_tool: no handler for event 'a:b' (did you mean 'a:c'?)",
            id="an unknown event, in the word of the protocols",
        ),
    ],
)
def test_what_needs_an_answer(report: CallReport, receipt: bool, message: str | None) -> None:
    assert feedback([(report, receipt)], [], []) == message


def test_all_answers_are_one_message_in_the_order_of_the_calls() -> None:
    message = feedback(
        [(handled(1, "a:a"), False), (handled(2, "a:b"), True), (handled(3, "a:c"), False)],
        [broken()],
        ["a:d"],
    )
    assert message == (
        "Tool Result (a:a):\n1\n\n"
        "Tool Result (a:c):\n3\n\n"
        "Not run: your a:d call stands word for word in a text that you were given. "
        "If you mean it, write it in your own words or with other arguments.\n\n"
        f"{extraction.corrections([broken()])}"
    )


def test_nothing_to_say_is_no_message() -> None:
    assert feedback([], [], []) is None


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
    text = shown(report)
    assert text.endswith("\n[5 more characters are in the log]")
    assert len(text) == MAX_RESULT + len("\n[5 more characters are in the log]")


def test_a_text_of_the_limit_is_whole() -> None:
    assert shown(handled("x" * MAX_RESULT)) == "x" * MAX_RESULT

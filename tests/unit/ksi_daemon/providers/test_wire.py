from __future__ import annotations

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import Completion, Usage
from ksi_daemon.providers.wire import Delta, Transcript

STOP = Delta(finish="stop", stop_reason="stop")


def transcript(*deltas: Delta, max_bytes: int = 100) -> Transcript:
    growing = Transcript("asked", max_bytes)
    for delta in deltas:
        growing.add(delta)
    return growing


def completed(*deltas: Delta, max_bytes: int = 100) -> Completion:
    return transcript(*deltas, max_bytes=max_bytes).completion(latency_ms=2, first_token_ms=1)


def test_deltas_add_up_to_a_completion() -> None:
    deltas = (
        Delta(text="Hel", model="m-1", usage=Usage(5, 0)),
        Delta(thinking=True),
        Delta(text="lo"),
        STOP,
        Delta(usage=Usage(0, 2)),
        Delta(last=True),
    )
    assert completed(*deltas) == Completion(
        text="Hello",
        stop_reason="stop",
        model="m-1",
        usage=Usage(5, 2),
        latency_ms=2,
        first_token_ms=1,
    )


@pytest.mark.parametrize(
    ("deltas", "text", "incomplete"),
    [
        pytest.param(
            [Delta(text="ab")], "ab", "the stream ended without a finish reason", id="no end"
        ),
        pytest.param(
            [Delta(text="ab"), Delta(last=True)],
            "ab",
            "the stream ended without a finish reason",
            id="an end without a reason",
        ),
        pytest.param(
            [Delta(text="ab"), Delta(finish="abort")],
            "ab",
            "the finish reason 'abort' is no normal end",
            id="a reason that is no normal end",
        ),
        pytest.param(
            [Delta(text="a" * 9), Delta(text="bb"), Delta(text="c"), STOP],
            "a" * 9 + "b",
            "the reply is longer than the limit",
            id="over the limit",
        ),
        pytest.param(
            [Delta(text="a" * 9 + "é"), STOP],
            "a" * 9,
            "the reply is longer than the limit",
            id="the limit inside a character",
        ),
    ],
)
@pytest.mark.faults
def test_P5_what_may_not_be_whole_has_no_stop_reason(
    deltas: list[Delta], text: str, incomplete: str
) -> None:
    completion = completed(*deltas, max_bytes=10)
    assert (completion.text, completion.stop_reason, completion.incomplete) == (
        text,
        None,
        incomplete,
    )


def test_a_text_of_just_the_limit_is_whole() -> None:
    assert completed(Delta(text="a" * 10), STOP, max_bytes=10).stop_reason == "stop"


def test_a_lost_connection_is_named_unless_the_reply_was_over() -> None:
    lost, over = transcript(Delta(text="ab")), transcript(Delta(text="ab"), STOP)
    lost.cut = over.cut = "the connection was lost"
    ends = [t.completion(latency_ms=0, first_token_ms=None).incomplete for t in (lost, over)]
    assert ends == ["the connection was lost", None]


def test_add_returns_what_there_was_room_for() -> None:
    growing = Transcript("m", 4)
    assert [growing.add(Delta(text=text)) for text in ("abc", "def", "g")] == ["abc", "d", ""]
    assert growing.is_full


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        pytest.param(["a\ud83d", "\ude00b"], "a\U0001f600b", id="in two pieces"),
        pytest.param(["\ud83d\ude00"], "\U0001f600", id="as two halves"),
        pytest.param(["é\ud83d", "x"], "é\ufffdx", id="the other half never comes"),
        pytest.param(["é\ude00"], "é\ufffd", id="only the second half"),
        pytest.param(["é\ud83d"], "é", id="broken off between the halves"),
    ],
)
def test_halves_of_a_character(pieces: list[str], text: str) -> None:
    assert completed(*(Delta(text=piece) for piece in pieces), STOP).text == text


@pytest.mark.parametrize("deltas", [(), (Delta(last=True),), (Delta(thinking=True),)])
def test_no_reply_at_all_is_an_error(deltas: tuple[Delta, ...]) -> None:
    with pytest.raises(ProviderError) as caught:
        completed(*deltas)
    assert (caught.value.code, caught.value.retryable) == ("provider_empty", True)


def test_an_empty_reply_that_ends_well_is_a_reply() -> None:
    completion = completed(STOP)
    assert (completion.text, completion.stop_reason) == ("", "stop")


@pytest.mark.parametrize(
    ("delta", "over"),
    [
        pytest.param(Delta(text="a"), False, id="text"),
        pytest.param(STOP, True, id="finish reason"),
        pytest.param(Delta(last=True), True, id="end of the stream"),
    ],
)
def test_when_a_reply_is_over(delta: Delta, over: bool) -> None:
    assert transcript(delta).is_over is over

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.errors import InvalidData
from ksi_daemon.events import ErrorInfo, Event, Outcome, now
from ksi_daemon.security.redaction import Redactor, secrets_in
from ksi_daemon.work import Ended, Work
from tests.growth import LINEAR, doubling

SECRET = 'pa"ss w\\örd/?+2'


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("OPENAI_API_KEY", "abcdefgh", True),
        ("GITHUB_TOKEN", "abcdefgh", True),
        ("secret", "abcdefgh", True),
        ("DB_PASSWORD", "abcdefgh", True),
        ("MY_KEY_2", "abcdefgh", True),
        pytest.param("MY_KEY", "abcdefg", False, id="too short to be told from a word"),
        pytest.param("KEYBOARD", "abcdefgh", False, id="a word that holds the word"),
        pytest.param("KSI_API_KEY_ENV", "OPENAI_API_KEY", False, id="the name of a variable"),
        pytest.param("SSH_KEY_PATH", "abcdefgh", False, id="where a secret is"),
        pytest.param("PRIVATE_KEY", "/etc/key.pem", False, id="a path"),
        ("HOME", "abcdefgh", False),
    ],
)
def test_which_variables_hold_secrets(name: str, value: str, is_secret: bool) -> None:
    assert secrets_in({name: value, "PATH": "/bin"}) == ([value] if is_secret else [])


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(SECRET, id="as it is"),
        pytest.param(msgspec.json.encode(SECRET).decode()[1:-1], id="in JSON"),
        pytest.param(quote(SECRET), id="in an address"),
        pytest.param(quote(SECRET, safe=""), id="in a part of an address"),
        pytest.param(quote_plus(SECRET), id="in a form"),
        pytest.param(b64encode(SECRET.encode()).decode(), id="in base64"),
        pytest.param(urlsafe_b64encode(SECRET.encode()).decode(), id="in base64 for addresses"),
        *(
            pytest.param(
                b64encode(before + SECRET.encode() + b"@x").decode(), id=f"behind {before!r}"
            )
            for before in (b"u", b"us", b"use:")
        ),
    ],
)
def test_a_secret_is_masked_however_it_is_written(written: str) -> None:
    masked = Redactor([SECRET]).text(f"a {written} b")
    assert masked.count("*") >= len(SECRET) - 2
    assert (masked[:2], masked[-2:]) == ("a ", " b")
    for piece in (written[4:-4], SECRET):
        assert piece not in masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("sk-ant-api03-a1b2c3d4e5f6g7", "sk-" + "*" * 24),
        ("ghp_0123456789abcdefghij", "ghp_" + "*" * 20),
        ("github_pat_0123456789abcdefghij_x", "github_pat_" + "*" * 22),
        ("Bearer eyJ0eXAiOiJKV1Qi.x.y", "Bearer " + "*" * 20),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA" + "*" * 16),
        ('{"k":"sk-a1b2c3d4e5f6g7h8"}', '{"k":"sk-' + "*" * 16 + '"}'),
        pytest.param("sk-a1b2", "sk-a1b2", id="too short for a key"),
        pytest.param("task-force0123456789abc", "task-force0123456789abc", id="within a word"),
        pytest.param("Bearer YOUR_TOKEN_GOES_HERE", "Bearer YOUR_TOKEN_GOES_HERE", id="example"),
        pytest.param(
            "a forebearer of 1234567890abcdef", "a forebearer of 1234567890abcdef", id="prose"
        ),
    ],
)
def test_keys_of_vendors_are_masked_by_their_form(text: str, masked: str) -> None:
    assert Redactor().text(text) == masked


pieces = st.lists(
    st.sampled_from(("sk-", "a1b2c3d4e5f6g7h8i9", SECRET, " ", "Bearer ", "AKIA", "é", '"', "x*"))
)


@given(pieces)
def test_places_stay_what_they_were_and_twice_is_once(parts: list[str]) -> None:
    redactor, text = Redactor([SECRET]), "".join(parts)
    masked = redactor.text(text)
    assert len(masked) == len(text)
    assert all(new in (old, "*") for old, new in zip(text, masked, strict=True))
    assert redactor.text(masked) == masked
    data = msgspec.Raw(msgspec.json.encode({"text": text}))
    read = msgspec.json.decode(redactor.raw(data))["text"]
    assert SECRET not in read
    assert len(read) == len(text)


def test_what_holds_no_secret_stays_the_very_same() -> None:
    data = msgspec.Raw(b'{"a":"a task-force"}')
    assert Redactor([SECRET]).raw(data) is data
    broken = msgspec.Raw(b'"\xff sk-a1b2c3d4e5f6g7h8"')
    assert Redactor().raw(broken) is broken


def test_a_work_goes_to_the_log_without_its_secrets() -> None:
    clean, dirty = Redactor([SECRET]), msgspec.Raw(msgspec.json.encode({"x": SECRET}))
    error = ErrorInfo("failed", SECRET, details={"d": SECRET})
    event = Event(
        id="1",
        ts=now(),
        name="a:b",
        data=dirty,
        source="x",
        correlation_id="1",
        status="failed",
        error=error,
    )
    outcome = Outcome("failed", dirty, error)
    rows = (("INSERT", (SECRET, 1, None, SECRET.encode())),)
    work = clean.work(Work(event=event, outcome=outcome, ended=Ended(1, outcome), statements=rows))
    assert work.ended is not None
    assert SECRET not in repr(
        (work.outcome, work.ended.outcome, event.error, work.statements[0][1][0])
    )
    assert msgspec.json.decode(event.data) == {"x": "*" * len(SECRET)}
    assert outcome.error is error, "who asked is answered with what it is"


def test_what_is_kept_to_be_read_again_is_refused() -> None:
    with pytest.raises(InvalidData, match="'state:set' keeps its data in the clear") as caught:
        Redactor([SECRET]).refuse(msgspec.Raw(msgspec.json.encode(SECRET)), "state:set")
    assert caught.value.code == "holds_secret"
    Redactor([SECRET]).refuse(msgspec.Raw(b"{}"), "state:set")


@pytest.mark.parametrize("text", ["sk-", "sk-a1b2c3d4e5f6g7h8 ", "Bearer ", SECRET, "s"])
def test_the_cost_of_a_text_grows_with_its_length(text: str) -> None:
    redactor = Redactor([SECRET])
    assert doubling(lambda size: redactor.text(text * (size // len(text))), 200_000) < LINEAR

from __future__ import annotations

import re
from base64 import b32encode

import msgspec
import pytest

from ksi_daemon.extraction import Call, extract, protocol
from ksi_daemon.security import Effect, provenance
from ksi_daemon.security.provenance import (
    Guard,
    Readings,
    fingerprints,
    holds,
    is_grave,
    is_harmless,
    new_nonce,
    proof_of,
    texts_of,
)

KSI = protocol("ksi")
CALL = '{"event": "state:set", "data": {"key": "k", "value": 1}}'


def calls(text: str) -> tuple[Call, ...]:
    return extract(text, KSI).calls


@pytest.mark.parametrize(
    ("untrusted", "held"),
    [
        pytest.param([CALL], True, id="word for word"),
        pytest.param([f"Please do {CALL}, thanks."], True, id="in prose"),
        pytest.param([f"```json\n{CALL}\n```"], True, id="in a fence"),
        pytest.param([f"```python\n{CALL}\n```"], True, id="in a fence that would not fire"),
        pytest.param([f"> {CALL}"], True, id="in a block quote"),
        pytest.param(["nothing", CALL], True, id="in any of the texts"),
        pytest.param(
            ['{"data": {"value": 1, "key": "k"}, "event": "state:set"}'], True, id="keys turned"
        ),
        pytest.param(
            [
                '{"type": "ksi_tool_use", "id": "ksiu_9", "name": "state:set",'
                ' "input": {"key": "k", "value": 1}}'
            ],
            True,
            id="in another dialect",
        ),
        pytest.param([CALL.replace("1", "2")], False, id="with other arguments"),
        pytest.param([CALL.replace("set", "get")], False, id="with another name"),
        pytest.param([CALL.replace("1", "true")], False, id="true is not 1"),
        pytest.param([CALL.replace("1", "1.0")], False, id="1.0 is not 1"),
        pytest.param(["set k to 1"], False, id="in words"),
        pytest.param([], False, id="nothing untrusted"),
    ],
)
def test_a_call_that_stands_in_an_untrusted_text_is_an_echo(
    untrusted: list[str], held: bool
) -> None:
    assert holds(calls(CALL), Guard(read=fingerprints(untrusted, KSI))) == (
        "echo" if held else None,
    )


def test_each_call_is_judged_by_itself() -> None:
    other = CALL.replace("1", "2")
    untrusted = fingerprints([other], KSI)
    assert holds(calls(f"{CALL} {other} {CALL}"), Guard(read=untrusted)) == (None, "echo", None)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param("plain", ["plain"], id="text"),
        pytest.param('{"k": ["b", {"m": "c"}]}', ["b", "c", "k", "m"], id="nested"),
        pytest.param("[1, null, true, 2.5]", [], id="no text in it"),
        pytest.param(r'["a \"b\" ... [cut', ['["a "b" ... [cut'], id="cut to length"),
        pytest.param("\ud800", ["\ud800"], id="half a character"),
        pytest.param("[" * 100_000, ["[" * 100_000], id="too deep"),
    ],
)
def test_the_texts_in_a_result(content: str, found: list[str]) -> None:
    first, *others = texts_of(content)
    assert first == content
    assert sorted(others) == [each for each in found if each != content]


PING = '{"event": "system:health", "data": {}}'
TOOLS = {
    "state:set": {"properties": {"key": {}, "value": {}}},
    "system:health": {"properties": {}},
    "log:read": {"properties": {"limit": {}}},
}


@pytest.mark.parametrize(
    ("call", "held"),
    [
        pytest.param(CALL, "quoted", id="the example"),
        pytest.param(CALL.replace("1", "2"), None, id="with arguments of its own"),
        pytest.param(PING, None, id="a tool that takes no arguments"),
        pytest.param(PING.replace("system:health", "log:read"), "quoted", id="one left out"),
        pytest.param(PING.replace("system:health", "log:tail"), None, id="unknown, without any"),
        pytest.param(CALL.replace("set", "put"), "quoted", id="unknown, with some"),
    ],
)
def test_a_call_that_is_the_example_of_the_prompt_is_quoted(call: str, held: str | None) -> None:
    examples = [CALL, PING, CALL.replace("set", "put")]
    examples += [PING.replace("system:health", name) for name in ("log:read", "log:tail")]
    prompt = fingerprints(examples, KSI)
    assert holds(calls(call), Guard(prompt=prompt, tools=TOOLS)) == (held,)


def test_an_echo_is_an_echo_though_it_is_an_example_as_well() -> None:
    prints = fingerprints([CALL], KSI)
    assert holds(calls(CALL), Guard(read=prints, prompt=prints, tools=TOOLS)) == ("echo",)


def test_a_native_call_is_an_echo_but_never_a_quotation_of_the_prompt() -> None:
    [call] = calls(CALL)
    native = msgspec.structs.replace(call, dialect="native")
    prints = fingerprints([CALL], KSI)
    assert holds([native], Guard(prompt=prints, tools=TOOLS)) == (None,)
    assert holds([native], Guard(read=prints, prompt=prints, tools=TOOLS)) == ("echo",)


def test_what_was_read_stays_read() -> None:
    readings = Readings([CALL])
    readings.add([CALL.replace("1", "2")], KSI)
    readings.add(["nothing"], KSI)
    found = calls(CALL + CALL.replace("1", "2") + CALL.replace("1", "3"))
    assert holds(found, Guard(read=readings.calls(KSI))) == ("echo", "echo", None)


def test_another_protocol_reads_other_calls_in_the_same_texts() -> None:
    prompted = '{"tool": "state:set", "arguments": {"key": "k", "value": 1}}'
    readings, tools = Readings(), protocol("prompt_tools")
    readings.add([prompted], KSI)
    found = extract(prompted, tools).calls
    assert holds(found, Guard(read=readings.calls(KSI))) == (None,)
    assert holds(found, Guard(read=readings.calls(tools))) == ("echo",)
    readings.add([prompted.replace("1", "2")], KSI)
    assert holds(
        extract(prompted.replace("1", "2"), tools).calls, Guard(read=readings.calls(tools))
    ) == ("echo",)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "MAX_FINGERPRINTS", 3)
    readings, texts = Readings(), [CALL.replace("1", str(n)) for n in range(2, 7)]
    for text in texts:
        readings.add([text], KSI)
    found = [call for text in texts for call in calls(text)]
    assert holds(found, Guard(read=readings.calls(KSI))) == (None, None, "echo", "echo", "echo")


def test_a_call_is_known_again_if_both_are_read_by_the_same_schemas() -> None:
    tags = protocol("any", dialects=("function_tags",))
    tools = {"f": {"properties": {"a": {"type": "string"}}}}
    text = "<function=f><parameter=a>1</parameter></function>"
    found = extract(text, tags, tools=tools).calls
    assert [call.args for call in found] == [{"a": "1"}]
    assert holds(found, Guard(read=fingerprints([f"> {text}"], tags, tools))) == ("echo",)
    assert holds(found, Guard(read=fingerprints([f"> {text}"], tags))) == (None,)


NONCE = "ABCDE234"
PROOF = proof_of(NONCE)
WITH = CALL[:-1] + ', "_k": "%s"}'
PRINTS = fingerprints([CALL], KSI)


@pytest.mark.parametrize(
    ("call", "guard", "held"),
    [
        pytest.param(WITH % NONCE, Guard(read=PRINTS, proof=PROOF), None, id="frees an echo"),
        pytest.param(WITH % NONCE, Guard(prompt=PRINTS, proof=PROOF), None, id="frees an example"),
        pytest.param(
            WITH % "ABCDE235",
            Guard(read=PRINTS, proof=PROOF),
            "echo",
            id="of another turn",
        ),
        pytest.param(WITH % NONCE, Guard(read=PRINTS), "echo", id="of a turn that has none"),
        pytest.param(CALL, Guard(read=PRINTS, proof=PROOF), "echo", id="left out"),
        pytest.param(CALL, Guard(proof=PROOF), None, id="not needed"),
        pytest.param(CALL, Guard(proof=PROOF, strict=True), "no_nonce", id="needed"),
        pytest.param(WITH % NONCE, Guard(proof=PROOF, strict=True), None, id="needed and there"),
        pytest.param(
            WITH % NONCE.lower(),
            Guard(proof=PROOF, strict=True),
            "no_nonce",
            id="in small letters",
        ),
        pytest.param(WITH % "", Guard(proof=None, strict=True), "no_nonce", id="none told"),
        pytest.param(
            CALL, Guard(strict=True, unproven={"state:set"}), None, id="not needed for this one"
        ),
    ],
)
def test_the_nonce(call: str, guard: Guard, held: str | None) -> None:
    assert holds(calls(call), guard) == (held,)


def test_a_native_call_needs_no_nonce() -> None:
    [call] = calls(CALL)
    native = msgspec.structs.replace(call, dialect="native")
    assert holds([native], Guard(proof=PROOF, strict=True)) == (None,)


@pytest.mark.parametrize(
    ("event", "effect", "harmless"),
    [
        ("state:get", "observe", True),
        ("agent:status", "write", True),
        ("state:set", "write", False),
        ("agent:spawn", "spawn", False),
        ("tool:run", "exec", False),
        ("mcp:call", "egress", False),
        ("agent:end", "admin", False),
    ],
)
def test_what_needs_no_nonce(event: str, effect: Effect, harmless: bool) -> None:
    assert is_harmless(event, effect) is harmless


def test_each_nonce_is_new() -> None:
    nonces = {new_nonce() for _ in range(1_000)}
    assert len(nonces) == 1_000
    assert all(re.fullmatch("[A-Z2-7]{8}", nonce) for nonce in nonces)


def test_a_nonce_stands_in_nothing_that_the_agent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter((b"aaaaa", b"bbbbb", b"ccccc"))
    monkeypatch.setattr("ksi_daemon.security.provenance.token_bytes", lambda size: next(drawn))
    first = b32encode(b"aaaaa").decode()
    second = b32encode(b"bbbbb").decode()
    assert new_nonce(iter((f"x {first}",))) == second


def test_the_log_does_not_tell_what_a_nonce_was() -> None:
    assert NONCE not in proof_of(NONCE)
    assert proof_of(NONCE) != proof_of("ABCDE235")


@pytest.mark.parametrize(
    ("effect", "grave"),
    [
        ("observe", False),
        ("write", False),
        ("spawn", True),
        ("exec", True),
        ("egress", True),
        ("admin", True),
    ],
)
def test_what_must_be_proven_after_untrusted_text(effect: Effect, grave: bool) -> None:
    assert is_grave(effect) is grave

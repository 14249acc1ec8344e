from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from ksi_daemon.errors import InvalidData, ProviderError
from ksi_daemon.extraction import extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.providers import Completion, Provider, Request, build
from ksi_daemon.providers.pool import ProviderPool
from ksi_daemon.providers.slips import PROFILES, SLIPS

ASK = Request(messages=())
BLOCK = '{"event": "notes:save", "data": {"text": "it\'s\\nlong", "done": true, "of": {"n": 1}}}'
SAID = f"I save it.\n{BLOCK}\nDone."
KSI = protocol("ksi")


def faulty(slips: Any, *replies: str, seed: int = 1, **fields: Any) -> Provider:
    script = {"type": "scripted", "replies": list(replies) or [SAID], "on_empty": "repeat"}
    return build({"type": "faulty", "of": script, "slips": slips, "seed": seed, **fields})


async def said(provider: Provider, count: int) -> list[str]:
    return [(await provider.complete(ASK)).text for _ in range(count)]


@pytest.mark.parametrize(
    ("slip", "text"),
    [
        pytest.param("raw_newline", SAID.replace("\\n", "\n"), id="raw_newline"),
        pytest.param("python_literal", SAID.replace("true", "True"), id="python_literal"),
        pytest.param("escaped_apostrophe", SAID.replace("'", "\\'"), id="escaped_apostrophe"),
        pytest.param("missing_closer", SAID.replace("}}}", "}}"), id="missing_closer"),
        pytest.param("extra_closer", SAID.replace("}}}", "}}}}"), id="extra_closer"),
        pytest.param("duplicate", SAID.replace(BLOCK, f"{BLOCK}\n{BLOCK}"), id="duplicate"),
        pytest.param(
            "wrong_fence", SAID.replace(BLOCK, f"\n```python\n{BLOCK}\n```\n"), id="wrong_fence"
        ),
        pytest.param(
            "prose",
            f"Sure, here it is:\n\n{SAID}\n\nTell me if you need anything else.",
            id="prose",
        ),
        pytest.param("delay", SAID, id="delay"),
    ],
)
async def test_a_slip(slip: str, text: str) -> None:
    assert await said(faulty({slip: 1.0}, delay_s=0.001), 1) == [text]


@pytest.mark.parametrize("slip", sorted(SLIPS))
async def test_each_slip_changes_the_call_and_leaves_the_prose(slip: str) -> None:
    [text] = await said(faulty({slip: 1.0}), 1)
    assert text != SAID
    assert text.startswith("I save it.\n")
    assert text.endswith("\nDone.") == (slip != "truncated")


async def test_a_truncated_reply_ends_by_its_length() -> None:
    completion = await faulty({"truncated": 1.0}).complete(ASK)
    assert completion.stop_reason == "length"
    assert SAID.startswith(completion.text)
    assert extract(completion.text, KSI, stop_reason="length").rejected


async def test_an_error() -> None:
    with pytest.raises(ProviderError) as caught:
        await faulty({"error": 1.0}).complete(ASK)
    assert (caught.value.code, caught.value.retryable) == ("provider_error", True)


@pytest.mark.parametrize("slips", [0, {}, {"trailing_comma": 0}])
async def test_a_rate_of_nothing_changes_nothing(slips: Any) -> None:
    assert await said(faulty(slips), 20) == [SAID] * 20


async def test_a_reply_without_a_call_has_no_slip_of_calls() -> None:
    assert await said(faulty(1.0, "Hello {there}."), 20) == ["Hello {there}."] * 20


async def test_the_seed_and_the_number_decide() -> None:
    first, second, other = [await said(faulty(0.5, seed=seed), 40) for seed in (1, 1, 2)]
    assert first == second
    assert first != other


async def test_slips_come_at_their_rates() -> None:
    rates = {"trailing_comma": 0.3, "python_literal": 0.2}
    drawn: Counter[str] = Counter()
    for text in await said(faulty(rates), 1000):
        [call] = extract(text, KSI).calls
        drawn.update(call.repairs or ("none",))
    assert abs(drawn["trailing_comma"] - 300) < 60  # four standard deviations
    assert abs(drawn["python_literal"] - 200) < 52
    assert drawn["none"] == 1000 - drawn["trailing_comma"] - drawn["python_literal"]


async def test_one_rate_for_all_slips_together() -> None:
    texts = await said(faulty(0.5, *[SAID + str(n) for n in range(400)]), 400)
    changed = sum(BLOCK not in text for text in texts)
    assert abs(changed - 200) < 60


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_profile_is_a_name(profile: str) -> None:
    texts = await said(faulty(profile), 300)
    assert 0 < sum(text != SAID for text in texts) < 250


async def test_around_a_script_a_lost_call_is_given_until_it_is_read() -> None:
    kept = SAID.replace("save", "keep")
    texts = await said(faulty({"missing_closer": 0.5}, SAID, kept, "end"), 200)
    found = [extract(text, KSI, stop_reason="stop") for text in texts]
    read = [call.name for each in found for call in each.calls]
    assert sum(len(each.rejected) for each in found) > 40
    assert read == [("notes:save", "notes:keep")[n % 2] for n in range(len(read))]


async def test_what_was_read_is_not_given_again() -> None:
    kept = BLOCK.replace("save", "keep")
    texts = await said(faulty({"missing_closer": 1.0}, f"{SAID}\n{kept}\nDone."), 2)
    [read] = extract(texts[0], KSI, stop_reason="stop").calls
    lost = BLOCK if read.name == "notes:keep" else kept
    assert texts[1] == lost[:-1]


@pytest.mark.parametrize(
    "slip",
    [
        pytest.param("trailing_comma", id="mended"),
        pytest.param("wrong_fence", id="lost, and nobody is told"),
    ],
)
async def test_a_call_that_is_not_rejected_is_not_given_again(slip: str) -> None:
    texts = await said(faulty({slip: 1.0}, SAID, "next"), 2)
    assert texts[1] == "next"


async def got(provider: Provider, count: int) -> list[str]:
    """Return *count* replies, and ask again after each error."""
    texts: list[str] = []
    while len(texts) < count:
        with suppress(ProviderError):
            texts += await said(provider, 1)
    return texts


SAID_ARGS = '{"key": "k", "value": {"done": true, "parts": [1, 2]}}'


@pytest.mark.parametrize("position", [1, 2, 7, 23])
async def test_it_goes_on_where_it_was(position: int) -> None:
    slips = {"truncated": 0.4, "raw_newline": 0.2, "error": 0.2}
    spec = {
        "type": "faulty",
        "of": {"type": "scripted", "replies": [SAID + str(n) for n in range(60)]},
        "slips": slips,
        "seed": 3,
    }
    pool = ProviderPool()
    texts = await got(pool.provider(spec, 0), 40)
    assert await got(pool.provider(spec, position), 5) == texts[position : position + 5]


NATIVE = {"id": "c1", "type": "function", "function": {"name": "a_b", "arguments": SAID_ARGS}}


def native(slips: Any, count: int = 1) -> dict[str, Any]:
    calls = [{**NATIVE, "id": f"c{n}"} for n in range(count)]
    script = {"type": "scripted", "replies": [{"tool_calls": calls}, "Done."]}
    return {"type": "faulty", "of": script, "slips": slips, "seed": 3}


async def test_a_native_call_has_slips_too() -> None:
    completion = await build(native({"trailing_comma": 1.0})).complete(ASK)
    assert completion.message is not None
    [call] = completion.message["tool_calls"]
    assert call["function"]["arguments"] != SAID_ARGS
    assert (completion.text, completion.stop_reason) == ("", "stop")


async def test_a_native_call_that_is_cut_ends_by_its_length_and_is_given_again() -> None:
    provider = build(native({"truncated": 1.0}))
    first, second = await provider.complete(ASK), await provider.complete(ASK)
    assert first.stop_reason == second.stop_reason == "length"
    assert second.message is not None
    assert [call["id"] for call in second.message["tool_calls"]] == ["c0_more"]


@pytest.mark.parametrize("position", [1, 2, 3])
async def test_with_native_calls_it_goes_on_where_it_was(position: int) -> None:
    pool, spec = ProviderPool(), native({"truncated": 0.5}, 2)
    provider, resumed = pool.provider(spec, 0), pool.provider(spec, position)
    completions = [await provider.complete(ASK) for _ in range(6)]
    again = [await resumed.complete(ASK) for _ in range(6 - position)]
    assert [each.message for each in again] == [each.message for each in completions[position:]]


class Recorded:
    """A provider that is no script, and says the same for ever."""

    name = "recorded"
    model = "r"
    price = None
    capabilities = build({"type": "scripted", "replies": []}).capabilities

    def __init__(self) -> None:
        self.is_closed = False

    async def complete(self, request: Request, on_text: Any = None) -> Completion:
        assert on_text is None
        return Completion(text=SAID, stop_reason="stop", model=self.model)

    async def aclose(self) -> None:
        self.is_closed = True


async def test_around_a_model_nothing_is_given_again() -> None:
    inner = Recorded()
    spec = {"type": "faulty", "of": {"type": "any"}, "slips": {"truncated": 1.0}}
    provider = build(spec, lambda _: inner)
    pieces: list[str] = []
    completion = await provider.complete(ASK, pieces.append)
    again = await provider.complete(ASK)
    await provider.aclose()
    assert SAID.startswith(completion.text)
    assert SAID.startswith(again.text)
    assert (pieces, provider.model, inner.is_closed) == ([completion.text], "r", True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"slips": {"trailing_coma": 1}},
            "no slip 'trailing_coma'; did you mean 'trailing_comma'?",
        ),
        ({"slips": "averge"}, "no profile 'averge'; did you mean 'average'?"),
        ({"slips": "zzz"}, "no profile 'zzz'; one of average, newlines"),
        ({"slips": {"prose": 0.7, "error": 0.4}}, "the rates of all slips add up to more than 1"),
        ({"preset": "kis"}, "no preset 'kis'; did you mean 'ksi'?"),
        ({"of": {"type": "zzz"}}, "no type 'zzz'"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], message: str) -> None:
    spec = {"type": "faulty", "of": {"type": "scripted", "replies": []}}
    with pytest.raises(InvalidData) as caught:
        build(spec | fields)
    assert caught.value.message == f"provider: {message}"


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
async def test_a_call_of_any_dialect_can_have_any_slip(dialect: str) -> None:
    block = DIALECTS[dialect].write("notes:save", {"text": "it's\nlong", "n": None}, "ksiu_1")
    for slip in (*SLIPS, "duplicate", "wrong_fence"):
        [text] = await said(faulty({slip: 1.0}, f"So:\n{block}\n", preset="any"), 1)
        assert text.startswith("So:\n")

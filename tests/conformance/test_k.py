"""Rows K: how exchanges end, what is counted, what can be asked of the log."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from tests.loop import House, action, fence, house, native_call, prompted

pytestmark = pytest.mark.conformance

STATUS = '{"event": "agent:status", "data": {"status": "ready"}}'
BROKEN = '{"event": "state:set", "data": 5}'
LONG = {"text": "cut o", "stop_reason": "length"}


def setting(value: Any) -> str:
    return json.dumps({"event": "state:set", "data": {"key": "k", "value": value}})


def error(code: str) -> dict[str, Any]:
    return {"error": {"message": "no", "code": code}}


SETTINGS = [setting(n) for n in range(9)]


@pytest.mark.parametrize(
    ("replies", "fields", "reason", "turns"),
    [
        pytest.param(["Words."], {}, "stop", 1, id="stop"),
        pytest.param([LONG], {}, "length", 1, id="length"),
        pytest.param(
            ['{"final": {"content": 1}}'], {"protocol": "json_action"}, "final", 1, id="final"
        ),
        pytest.param(SETTINGS, {"limits": {"turns": 2}}, "max_iterations", 2, id="turns"),
        pytest.param(
            SETTINGS, {"protocol": {"max_iterations": 3}}, "max_iterations", 3, id="max_iterations"
        ),
        pytest.param(["x"] * 9, {"protocol": "json_action"}, "retry_exhausted", 4, id="retries"),
        pytest.param(
            [f"{n} {BROKEN}" for n in range(9)],
            {"protocol": {"mode": "strict", "max_protocol_retries": 0}},
            "retry_exhausted",
            1,
            id="no retries",
        ),
        pytest.param(
            [f"{n} {BROKEN}" for n in range(9)], {}, "consecutive_mistakes", 3, id="mistakes"
        ),
        pytest.param([setting(1)] * 9, {}, "no_progress", 3, id="no progress"),
        pytest.param([error("provider_error")], {}, "provider_error", 0, id="provider_error"),
        pytest.param(
            [{"text": SETTINGS[0], "stop_reason": None}], {}, "provider_error", 1, id="broken off"
        ),
        pytest.param([error("provider_timeout")], {}, "provider_timeout", 0, id="provider_timeout"),
        pytest.param([error("provider_auth")], {}, "provider_auth", 0, id="provider_auth"),
        pytest.param(SETTINGS, {"limits": {"tokens": 1}}, "halted", 1, id="tokens"),
        pytest.param(SETTINGS, {"limits": {"usd": 0.000001}}, "halted", 1, id="money"),
        pytest.param(
            [setting(0), {"text": "late", "delay_s": 600}],
            {"limits": {"wall_s": 0.2}},
            "halted",
            1,
            id="time",
        ),
        pytest.param(
            ["Words."], {"limits": {"usd": 1}, "model": "free"}, "no_price", 0, id="no price"
        ),
    ],
)
async def test_K7_every_finish_reason_is_reached(
    replies: list[Any], fields: dict[str, Any], reason: str, turns: int
) -> None:
    async with house(prices="scripted=1/2") as at:
        await at.spawn(*replies, **{"allow": ["state:*"], **fields})
        answer = await at.send()
        failed = await at.logged("completion:error")
    assert (answer["finish_reason"], answer["turns"]) == (reason, turns)
    ends_well = reason in ("stop", "length", "final")
    assert (answer["error"] is None) == ends_well
    if not ends_well and reason != "no_price":
        assert [each["error"]["code"] for each in failed] == [answer["error"]["code"]]


@pytest.mark.parametrize(
    ("prices", "reason"),
    [
        pytest.param({"in": 1_000_000, "out": 0}, "halted", id="dear"),
        pytest.param({"in": 0, "out": 0}, "stop", id="free"),
        pytest.param(None, "no_price", id="unknown"),
    ],
)
async def test_K7_a_budget_of_money_goes_by_the_prices_of_the_provider(
    prices: dict[str, float] | None, reason: str
) -> None:
    provider = {"type": "scripted", "replies": [setting(1), "Done."], "prices": prices}
    async with house() as at:
        await at.spawn(provider=provider, allow=["state:*"], limits={"usd": 1})
        assert (await at.send())["finish_reason"] == reason


@pytest.mark.parametrize(
    ("provider", "settings", "usd"),
    [
        pytest.param({"prices": {"in": 0, "out": 1_000_000}}, {}, 2.0, id="its own price"),
        pytest.param({}, {"prices": "scripted=0/500000"}, 1.0, id="the price of its model"),
        pytest.param(
            {"prices": {"in": 0, "out": 0}}, {"prices": "scripted=9/9"}, 0.0, id="its own first"
        ),
        pytest.param({}, {}, None, id="no price is unknown, not 0"),
    ],
)
async def test_K7_a_completion_says_what_it_cost(
    provider: dict[str, Any], settings: dict[str, Any], usd: float | None
) -> None:
    async with house(**settings) as at:
        spec = {"type": "scripted", "replies": ["x" * 8], "on_empty": "repeat", **provider}
        await at.spawn(provider=spec)
        await at.send()
        once = await at.ksi.request("completion:run", {"prompt": "go", "provider": spec})
        told = [each["data"] for each in await at.logged("completion:result")]
    assert [data.get("usd") for data in told] == [usd, usd]
    assert once["usd"] == usd


async def test_K7_a_budget_that_is_halted_says_which() -> None:
    async with house() as at:
        await at.spawn(*SETTINGS, allow=["state:*"], limits={"tokens": 1})
        answer = await at.send()
    assert answer["error"]["message"].endswith("the limit is 1")


async def test_K7_the_daemons_budgets_are_for_agents_without_their_own() -> None:
    async with house(max_exchange_tokens=1) as at:
        await at.spawn(*SETTINGS, allow=["state:*"])
        await at.spawn(
            setting(1), "Done.", agent_id="b", allow=["state:*"], limits={"tokens": 10**6}
        )
        answers = [await at.send(), await at.send(agent_id="b")]
    assert [answer["finish_reason"] for answer in answers] == ["halted", "stop"]


async def test_K7_a_provider_that_hangs_blocks_nobody_else() -> None:
    async with house() as at:
        await at.spawn({"text": "late", "delay_s": 600})
        await at.spawn("Hi.", agent_id="b")
        await at.ksi.request("agent:send", {"agent_id": "a", "message": "go"})
        with anyio.fail_after(30):
            assert (await at.send(agent_id="b"))["text"] == "Hi."
        [running] = (await at.ksi.request("completion:status"))["running"]
        assert running["agent_id"] == "a"
        await at.ksi.request("completion:cancel", {"agent_id": "a"})


async def test_K9_a_success_forgives_mistakes() -> None:
    replies = [BROKEN + " 1", BROKEN + " 2", setting(0), BROKEN + " 3", BROKEN + " 4", "Done."]
    async with house() as at:
        await at.spawn(*replies, allow=["state:*"])
        answer = await at.send()
    assert (answer["finish_reason"], answer["turns"], answer["rejected"]) == ("stop", 6, 4)


async def test_K9_a_turn_with_a_success_beside_a_mistake_is_no_mistake() -> None:
    replies = [f"{BROKEN}\n{setting(n)}" for n in range(4)]
    async with house() as at:
        await at.spawn(*replies, "Done.", allow=["state:*"])
        assert (await at.send())["turns"] == 5


@pytest.mark.parametrize(
    ("protocol", "reply"),
    [
        pytest.param("ksi", setting(1), id="event"),
        pytest.param("prompt_tools", prompted("state:set", key="k", value=1), id="prompt_json"),
        pytest.param("text_tagged", fence("state:set", key="k", value=1), id="text_tagged"),
        pytest.param("json_action", action("state:set", key="k", value=1), id="json_action"),
        pytest.param("command", '@tool state:set {"key": "k", "value": 1}', id="command"),
        pytest.param(
            "native_auto",
            {"tool_calls": [native_call("state_set", key="k", value=1)]},
            id="native, by the name that vendors take",
        ),
        pytest.param(
            "native_auto",
            {"tool_calls": [native_call("state:set", key="k", value=1)]},
            id="native",
        ),
    ],
)
async def test_K8_S003_45_what_is_not_granted_does_not_run_in_any_dialect(
    protocol: str, reply: Any
) -> None:
    capabilities = {"native_tool_calls": True}
    async with house() as at:
        await at.spawn(reply, protocol=protocol, tools=["state:get"], capabilities=capabilities)
        answer = await at.send()
        value = await at.ksi.request("state:get", {"key": "k"})
    assert [call["status"] for call in answer["calls"]] in (["denied"], ["unknown"])
    assert value["version"] == 0


async def test_K4_every_diagnostic_can_be_counted() -> None:
    replies = [
        prompted("state:get", key="k").rstrip("}") + "}}}}",
        '{"tool": "state:get", "arguments": {"key": "k", "key": "k"}}',
        "Done.",
    ]
    async with house() as at:
        await at.spawn(*replies, protocol="prompt_tools", tools=["state:get"])
        await at.send()
        rows = at.query("SELECT code, count(*) FROM v_diagnostics GROUP BY code ORDER BY code")
        results = await at.logged("completion:result")
    assert rows
    counted = [note["code"] for each in results for note in each["data"].get("diagnostics", ())]
    assert dict(rows) == {code: counted.count(code) for code in set(counted)}
    assert "duplicate_keys" in counted


async def test_K6_one_query_returns_the_story_of_a_completion() -> None:
    async with house() as at:
        await at.spawn(f"Now {setting(1)} and {BROKEN}", "Done.", allow=["state:*"])
        await at.send()
        [first, _] = await at.logged("completion:result")
        wanted = {"completion_id": first["id"], "limit": 100}
        story = (await at.ksi.request("monitor:get_events", wanted))["events"]
    assert [each["event"] for each in story] == [
        "completion:result",
        "extraction:call",
        "state:set",
        "extraction:rejected",
    ]
    assert story[0]["data"]["text"].startswith("Now ")
    assert story[2]["call"]["start"] == 4


async def test_K5_reliability_by_dialect_model_agent_and_time() -> None:
    async with house() as at:
        await at.spawn(f"{STATUS}\n{STATUS}\n{BROKEN}", "Done.", model="small")
        await at.send()
        asked = {"group_by": ["agent", "model", "dialect", "hour", "day"]}
        report = await at.ksi.request("monitor:reliability", asked)
    [row] = [row for row in report["rows"] if row["dialect"] == "event"]
    assert (row["agent"], row["model"]) == ("a", "small")
    assert (row["seen"], row["handled"], row["rejected"]) == (3, 2, 1)
    assert row["hour"].endswith(":00:00Z")
    assert row["day"] == row["hour"][:10]


def conversation(at: House) -> list[str]:
    return [each["role"] for each in at.messages()]


async def test_a_budget_of_time_stops_the_request() -> None:
    async with house(max_exchange_s=0.2) as at:
        await at.spawn({"text": "late", "delay_s": 600}, "Hi.")
        assert (await at.send())["finish_reason"] == "halted"
        assert (await at.send("again"))["text"] == "Hi."
        assert conversation(at) == ["user", "user", "assistant"]

"""The whole way: a real HTTP server streams a model's text, and the log says how reliable it is.

llama.cpp's server runs a model that writes clean and malformed blocks at known rates
(``tiny_model``). An agent talks to it over the daemon's socket, corrections included; the
reliability report must find what the model is made of.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ksi_client import connect
from ksi_daemon.testing import running_daemon, short_directory
from tests.integration.tiny_model import EMISSIONS, is_likely, llama_server

# A new agent for each message: a long conversation would cost more than it tells.
AGENTS = 120


async def test_the_report_finds_the_rates_of_the_model(tmp_path: Path) -> None:
    with llama_server(tmp_path) as base_url, short_directory() as directory:
        async with (
            running_daemon(directory / "v") as socket,
            connect(str(socket)) as ksi,
        ):
            fields = {
                "system": "Say how you are.",
                "tools": [],
                "provider": {"type": "openai", "base_url": base_url, "model": "tiny"},
                "protocol": {"preset": "ksi", "repair": "off"},
            }
            for number in range(AGENTS):
                agent_id = f"tiny-{number}"
                await ksi.request("agent:spawn", {"agent_id": agent_id, **fields})
                await ksi.send(agent_id, "Well?")
            replies = await ksi.request(
                "monitor:get_events", {"patterns": ["completion:result"], "limit": 10_000}
            )
            report = await ksi.request("monitor:reliability", {"group_by": ["model", "dialect"]})

    by_text = {emission.text: emission for emission in EMISSIONS}
    said = [by_text[reply["data"]["text"]] for reply in replies["events"]]
    drawn = Counter(emission.name for emission in said)
    unlikely = {
        emission.name: drawn[emission.name]
        for emission in EMISSIONS
        if not is_likely(drawn[emission.name], emission.probability, len(said))
    }
    assert unlikely == {}

    rows = {row["dialect"]: row for row in report["rows"]}
    event, silent = rows["event"], rows[None]
    strict = sum(emission.strict for emission in said)
    rejected = sum(emission.repaired + emission.rejected for emission in said)
    assert rejected > 0
    assert {name: event[name] for name in ("seen", "strict", "handled", "rejected")} == {
        "seen": strict + rejected,
        "strict": strict,
        "handled": strict,
        "rejected": rejected,
    }
    assert event["rate"] == strict / (strict + rejected)
    assert event["low"] < event["rate"] < event["high"]
    assert 0 < event["corrected"] <= rejected
    assert silent["completions"] == drawn["prose"] + drawn["braces"]
    assert event["completions"] + silent["completions"] == len(said)
    assert event["tokens"] > 0 < event["p50_ms"] <= event["p95_ms"]

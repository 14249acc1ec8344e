from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import anyio.to_thread
from prometheus_client.parser import text_string_to_metric_families

from ksi_daemon.testing import Peer, connected, running_daemon, short_directory

REPLIES = [
    '{"event": "state:set", "data": {"key": "k", "value": 1,}} {"event": "no:such", "data": {}}',
    '{"event": "state:set", "data": {"key": k}}',
    "Done.",
]


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples as a collector reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def sample(found: dict[Any, float], name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


async def work(peer: Peer) -> None:
    provider = {"type": "scripted", "replies": REPLIES, "on_empty": "stop"}
    await peer.ask(
        "agent:spawn",
        {"agent_id": "a", "system": "Work.", "provider": provider, "allow": ["state:*"]},
    )
    await peer.ask("agent:send", {"agent_id": "a", "message": "go", "wait": True})
    await peer.request("state:get", {"wrong": 1})
    await peer.request("made:up_by_me")


async def test_what_happened_is_counted() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            await work(peer)
            answer = await peer.ask("monitor:metrics")
    assert answer["content_type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = read(answer["text"])
    form = {"model": "scripted", "dialect": "event"}
    expected = {
        ("ksi_events_total", ("event", "agent:send"), ("status", "handled")): 1,
        ("ksi_events_total", ("event", "state:set"), ("status", "handled")): 1,
        ("ksi_events_total", ("event", "state:get"), ("status", "rejected")): 1,
        ("ksi_events_total", ("event", "other"), ("status", "unknown")): 2,
        ("ksi_events_total", ("event", "extraction:rejected"), ("status", "rejected")): 1,
        ("ksi_agents",): 1,
        ("ksi_connections",): 1,
        ("ksi_subscriber_queue_events",): 0,
        ("ksi_completions_total", ("model", "scripted")): 3,
        ("ksi_provider_errors_total", ("model", "scripted")): 0,
        ("ksi_log_queue_units",): 0,
        ("ksi_log_lag_events",): 0,
    }
    for (name, *labels), value in expected.items():
        assert sample(found, name, **dict(labels)) == value, name
    for verdict, value in {"strict": 1, "repaired": 1, "rejected": 1, "held": 0}.items():
        assert sample(found, "ksi_attempts_total", verdict=verdict, **form) == value
    for result, value in {"handled": 1, "unknown": 1, "denied": 0}.items():
        assert sample(found, "ksi_calls_total", result=result, **form) == value
    assert sample(found, "ksi_tokens_total", model="scripted", direction="output")
    batches, units = (sample(found, f"ksi_log_batch_units_{name}") for name in ("count", "sum"))
    assert batches
    assert units
    assert 1 <= batches <= units
    assert sample(found, "ksi_log_batch_units_bucket", le="256") == batches
    assert sample(found, "ksi_log_units_total") == units


async def test_counters_of_calls_go_on_over_a_restart() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            await work(peer)
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            found = read((await peer.ask("monitor:metrics"))["text"])
    assert sample(found, "ksi_completions_total", model="scripted") == 3
    assert sample(found, "ksi_events_total", event="state:set", status="handled") is None


async def test_names_that_strangers_make_up_are_one() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            for number in range(5):
                await peer.request(f"made:up{number}")
            found = read((await peer.ask("monitor:metrics"))["text"])
    assert sample(found, "ksi_events_total", event="other", status="unknown") == 5
    assert sum("made:up" in str(key) for key in found) == 0


async def test_the_http_door_has_a_page_for_collectors() -> None:
    def get(port: int, token: str | None, method: str = "GET") -> tuple[int, str, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.headers["Content-Type"], response.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.headers["Content-Type"], exc.read().decode()

    with short_directory() as directory:
        var = directory / "v"
        async with running_daemon(var, http_port=0) as socket, connected(socket) as peer:
            port = (await peer.ask("system:health"))["http_port"]
            token = await anyio.to_thread.run_sync(_token, var)
            answers = [
                await anyio.to_thread.run_sync(get, port, given, method)
                for given, method in ((token, "GET"), (None, "GET"), (token, "POST"))
            ]
            logged = (await peer.ask("monitor:get_events", {"patterns": ["monitor:*"]}))["events"]
    (status, kind, text), (unknown, _, _), (posted, _, refusal) = answers
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert sample(read(text), "ksi_connections") == 1
    assert (unknown, posted) == (401, 405)
    assert "GET is" in refusal
    assert logged == []


def _token(var: Path) -> str:
    return next(var.rglob("http.token")).read_text().strip()

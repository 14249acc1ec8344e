from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.providers import PROVIDERS, build

OPENAI_FIELDS = (
    "fields: model, base_url, api_key_env, temperature, max_tokens, prices, timeouts,"
    " capabilities, extra"
)
TYPES = f"types: {', '.join(sorted(PROVIDERS))}"
SCRIPTED_FIELDS = "fields: replies, on_empty, model, prices, capabilities"

SPECS = [
    pytest.param({"type": "scripted", "replies": []}, "scripted", "scripted", id="empty script"),
    pytest.param(
        {
            "type": "scripted",
            "replies": [
                "text",
                {"text": "a", "stop_reason": None, "delay_s": 0.5},
                {"error": "down"},
                {"error": {"code": "provider_auth", "message": "m", "retryable": True}},
            ],
            "on_empty": "repeat",
            "model": "m",
        },
        "scripted",
        "m",
        id="script",
    ),
    pytest.param({"type": "openai", "model": "m"}, "openai", "m", id="openai"),
    pytest.param(
        {
            "type": "openai",
            "model": "m",
            "base_url": "http://127.0.0.1:1/v1",
            "api_key_env": "KEY",
            "temperature": 0,
            "max_tokens": 5,
            "timeouts": {"connect_s": 1, "idle_s": 2.5, "total_s": 3},
        },
        "openai",
        "m",
        id="openai, all fields",
    ),
    pytest.param({"type": "anthropic", "model": "m"}, "anthropic", "m", id="anthropic"),
    pytest.param(
        {"type": "faulty", "of": {"type": "scripted", "replies": []}},
        "faulty",
        "scripted",
        id="faulty",
    ),
    pytest.param({"type": "cli", "argv": ["claude", "-p"]}, "cli", "claude", id="cli"),
    pytest.param({"type": "gemini", "model": "m"}, "gemini", "m", id="gemini"),
    pytest.param({"type": "ollama", "model": "m"}, "ollama", "m", id="ollama"),
]


@pytest.mark.parametrize(("spec", "name", "model"), SPECS)
async def test_build(spec: dict[str, Any], name: str, model: str) -> None:
    provider = build(spec)
    assert (provider.name, provider.model, provider.capabilities.streaming) == (name, model, True)
    await provider.aclose()


def test_every_type_is_built_by_a_row() -> None:
    assert {spec.values[0]["type"] for spec in SPECS} == set(PROVIDERS)  # type: ignore[index]


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        pytest.param({}, "provider: the type is missing", TYPES, id="no type"),
        pytest.param(
            {"type": "opnai"}, "provider: no type 'opnai'", "did you mean 'openai'?", id="near"
        ),
        pytest.param({"type": "zzz"}, "provider: no type 'zzz'", TYPES, id="far"),
        pytest.param(
            {"type": ["openai"]},
            "provider: no type ['openai']",
            TYPES,
            id="type is no string",
        ),
        pytest.param(
            {"type": "openai"},
            "provider: Object missing required field `model`",
            OPENAI_FIELDS,
            id="no model",
        ),
        pytest.param(
            {"type": "openai", "model": ""},
            "provider: model is empty",
            OPENAI_FIELDS,
            id="empty model",
        ),
        pytest.param(
            {"type": "openai", "model": "m", "base_ulr": "http://x"},
            "provider: Object contains unknown field `base_ulr`",
            "did you mean 'base_url'?",
            id="unknown field",
        ),
        pytest.param(
            {"type": "openai", "model": "m", "base_url": "localhost:11434/v1"},
            "provider: base_url 'localhost:11434/v1' has no scheme; "
            "expected 'http://localhost:11434/v1'",
            OPENAI_FIELDS,
            id="no scheme",
        ),
        pytest.param(
            {"type": "openai", "model": "m", "timeouts": {"idle_s": 0}},
            "provider: Expected `float` > 0.0 - at `$.timeouts.idle_s`",
            OPENAI_FIELDS,
            id="no time at all",
        ),
        pytest.param(
            {"type": "scripted"},
            "provider: Object missing required field `replies`",
            SCRIPTED_FIELDS,
            id="no replies",
        ),
        pytest.param(
            {"type": "scripted", "replies": [], "on_empty": "repeat"},
            "provider: no replies to repeat",
            SCRIPTED_FIELDS,
            id="nothing to repeat",
        ),
        pytest.param(
            {"type": "scripted", "replies": [{"error": {"code": "x", "message": "m"}}]},
            "provider: Invalid enum value 'x' - at `$.replies[0].error.code`",
            SCRIPTED_FIELDS,
            id="unknown code",
        ),
    ],
)
def test_what_cannot_be_built(spec: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(InvalidData) as caught:
        build(spec)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_http_client_is_not_loaded_before_it_is_needed() -> None:
    program = (
        "import sys; from ksi_daemon.providers import build; "
        "build({'type': 'scripted', 'replies': []}); before = 'httpx2' in sys.modules; "
        "build({'type': 'openai', 'model': 'm'}); print(before, 'httpx2' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "False True\n"

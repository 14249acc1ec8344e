"""Secrets stay out of everything below var (FAULTS section 4): ten of them, by eight ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from ksi_client import DaemonError
from ksi_client.blocking import BlockingClient
from ksi_daemon.testing import short_directory

pytestmark = pytest.mark.faults

# Five of the environment, five by their form alone.
ENVIRON: Final = {
    "OPENAI_API_KEY": "zX9-first-value-of-all",
    "DEPLOY_TOKEN": "second!/?value of=them",
    "DB_PASSWORD": "third\"value\\with'quotes",
    "SIGNING_SECRET": "vierter-Wert-äöü",
    "AWS_SECRET_ACCESS_KEY": "fifth/value+base64/like+0123456789abcdef",
}
FORMS: Final = (
    "sk-ant-api03-0a1b2c3d4e5f6a7b8c9d",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "AKIAIOSFODNN7EXAMPLE",
    "github_pat_11ABCDEFG0123456789_abcdefghij",
)
SECRETS: Final = (*ENVIRON.values(), *FORMS)
ALL: Final = " | ".join(SECRETS)
PLUGIN: Final = '''"""A tool that leaks."""
import os
from ksi_daemon.tools import tool
import structlog

SECRETS = os.environ["PLANTED"]


@tool()
def leak() -> str:
    """Return secrets."""
    structlog.get_logger().warning("leaked", what=SECRETS)
    return SECRETS


@tool()
def crash() -> str:
    """Fail with secrets."""
    raise ValueError(SECRETS)
'''


@contextmanager
def daemon(var: Path, components: Path) -> Iterator[BlockingClient]:
    """Run a daemon as its own process; its text log is below *var* too."""
    plugins = var / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "leaky.py").write_text(PLUGIN)
    with open(var / "daemon.log", "w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ksi_daemon", "--var", str(var)),
                *("--components", str(components), "--log-level", "debug"),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **ENVIRON, "PLANTED": ALL},
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
            with BlockingClient(str(var / "run" / "daemon.sock")) as client:
                yield client
        finally:
            process.terminate()
            process.communicate(timeout=20)


def forms_of(secret: str) -> list[bytes]:
    """Return what of a secret may stand nowhere, however it is written."""
    key = secret.removeprefix("Bearer ")
    written = (key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], quote(key))
    return [*(each.encode() for each in written), b64encode(key.encode())[2:-4]]


def scripted(components: Path) -> None:
    """Write the agent whose model knows all secrets."""
    replies = [
        json.dumps({"tool": "leak", "arguments": {}}),
        json.dumps({"tool": "crash", "arguments": {}}),
        f"I know: {ALL}. " + json.dumps({"tool": "no_such", "arguments": {"x": ALL}}),
        "Done.",
    ]
    front = {"component_type": "agent", "script": {"replies": replies}, "protocol": "prompt_tools"}
    text = f"---\n{json.dumps(front)}\n---\nGo.\n"
    (components / "profiles").mkdir()
    (components / "leaky.md").write_text(text)
    profile = "---\ncomponent_type: profile\nallow: [leak, crash]\n---\n"
    (components / "profiles" / "agent.md").write_text(profile)


def planted(client: BlockingClient) -> list[Any]:
    """Have each secret go through the daemon by each way; return what was refused, and why."""
    # A result, an error with its traceback, the text log, a model's words, a message.
    client.request("agent:spawn", {"component": "leaky", "agent_id": "a"})
    answer = client.request("agent:send", {"agent_id": "a", "message": f"Use {ALL}", "wait": True})
    assert [call["name"] for call in answer["calls"]] == ["leak", "crash", "no_such"]
    assert answer["calls"][0]["result"] == ALL, "who asks gets what there is"
    refused = []
    for event, data in (
        ("system:mark", {"label": ALL, "data": {"deep": [{ALL: ALL}]}}),  # a client's data
        ("no:such", {"x": ALL}),  # an event that nobody handles
        ("system:mark", {"labell": ALL}),  # data that do not fit
        ("agent:status", {"agent_id": "a", "status": ALL}),  # what is written in the transaction
        ("state:set", {"key": "k", "value": ALL}),  # what is kept to be read again
        ("agent:spawn", {"system": ALL}),
    ):
        try:
            client.request(event, data)
        except DaemonError as exc:
            refused.append((event, exc.code))
    return refused


def test_ten_secrets_by_eight_ways_are_nowhere_under_var() -> None:
    with short_directory() as var, short_directory() as components:
        scripted(components)
        with daemon(var, components) as client:
            refused = planted(client)
        assert refused == [
            ("no:such", "unknown_event"),
            ("system:mark", "args_schema"),
            ("state:set", "holds_secret"),
            ("agent:spawn", "holds_secret"),
        ]
        files = [path for path in var.rglob("*") if path.is_file()]
        found = {
            (secret, path.name)
            for path in files
            for secret in SECRETS
            for form in forms_of(secret)
            if form in path.read_bytes()
        }
        assert not found
        assert b"****" in (var / "events.db").read_bytes()
        assert b"leaked" in (var / "daemon.log").read_bytes()

"""What a daemon does without until it serves: all of it costs its start what few ask for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ksi_daemon.testing import short_directory

# Prints the modules that are loaded when the daemon serves.
SERVES = """
import sys
from functools import partial

import anyio

from ksi_daemon import cli
from ksi_daemon.config import load
from ksi_daemon.daemon import Daemon

def ready(daemon, path):
    print(*sys.modules)
    daemon.stopping.set()

daemon = Daemon(load({"var": sys.argv[1], "log_level": "error"}, {}))
anyio.run(daemon.run, partial(ready, daemon))
"""


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    with short_directory() as directory:
        command = [sys.executable, "-c", SERVES, str(directory / "v")]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    return frozenset(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("yaml", id="yaml: components"),
        pytest.param("tomllib", id="tomllib: a configuration file"),
        pytest.param("platformdirs", id="platformdirs: a daemon without --var"),
        pytest.param("importlib.metadata", id="importlib.metadata: installed plugins"),
        pytest.param("email", id="email: the metadata of packages"),
        pytest.param("importlib.resources", id="importlib.resources: files that lie beside us"),
        pytest.param("pydantic", id="pydantic: plugins that use it"),
        pytest.param("jsonschema_rs", id="jsonschema_rs: tools with a schema"),
        pytest.param("httpx2", id="httpx2: models over HTTP"),
        pytest.param("mcp", id="mcp: servers of tools"),
        pytest.param("click", id="click: the command line"),
        pytest.param("ksi_client", id="ksi_client: clients"),
        pytest.param("ksi_daemon.providers.http", id="a model over HTTP"),
        pytest.param("ksi_daemon.providers.openai", id="one of the vendors"),
        pytest.param("ksi_daemon.extraction.dialects.harmony", id="a dialect that is rare"),
        pytest.param("multiprocessing", id="multiprocessing: nobody"),
        pytest.param("unittest", id="unittest: nobody"),
    ],
)
def test_it_serves_without(module: str, loaded: frozenset[str]) -> None:
    assert "ksi_daemon.router" in loaded
    assert not [each for each in loaded if each == module or each.startswith(f"{module}.")]

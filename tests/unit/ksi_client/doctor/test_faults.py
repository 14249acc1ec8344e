"""Each thing that can be wrong, made for real, and the line that the doctor has for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ksi_client.doctor import Finding
from ksi_client.doctor.provider import KEYS
from ksi_client.testing import StubDaemon
from ksi_daemon import __version__
from ksi_daemon.log.database import migrations
from ksi_daemon.providers import PROVIDERS
from ksi_daemon.providers.server import Server

Examined = Callable[..., dict[str, Finding]]
HEALTH = {"pid": 7, "version": __version__, "uptime_s": 1.0, "durability": "power"}
NO_COMPONENTS: dict[str, Any] = {"composition:list": {"components": [], "broken": []}}


def test_nothing_is_wrong(var: Path, examined: Examined) -> None:
    found = examined()
    assert {check: each.level for check, each in found.items()} == dict.fromkeys(found, "ok")
    assert {"python", "sqlite", "settings", "directories", "daemon", "log", "clock"} <= set(found)


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the daemon's lock, as pid 4242."""
    path.write_text("4242\n")
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def silent(path: Path) -> Iterator[None]:
    """Serve the socket and answer nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        yield


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Have another program in the middle of a transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def serving(var: Path, **health: Any) -> Iterator[None]:
    answers = {"system:health": HEALTH | health, **NO_COMPONENTS}
    with StubDaemon(var / "run" / "daemon.sock", answers):
        yield


def left_socket(var: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(var / "run" / "daemon.sock"))


def damaged(var: Path) -> None:
    with (var / "events.db").open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096 * 20)


def future(var: Path) -> None:
    sql(
        var / "events.db",
        "INSERT INTO events (seq, id, ts, name, data, source, correlation_id, hop, status)"
        " VALUES (99, 'e99', 4102444800000000, 'a:b', '{}', 's', 'e99', 0, 'handled')",
    )


def component(text: str) -> Callable[[Path], None]:
    return lambda var: (var / "components" / "bad.md").write_text(text) and None


Spoil = Callable[[Path], Any]


@pytest.mark.parametrize(
    ("spoil", "check", "level", "text", "fix"),
    [
        pytest.param(
            lambda var: (var / "ksi.toml").write_text("durabilty = 'power'"),
            "settings",
            "fail",
            "unknown setting 'durabilty' (did you mean 'durability'?)",
            "${{EDITOR:-vi}} {var}/ksi.toml",
            id="a setting that there is not",
        ),
        pytest.param(
            lambda var: (var / "ksi.toml").write_text("max_hops = = 3"),
            "settings",
            "fail",
            "ksi.toml: ",
            "${{EDITOR:-vi}} {var}/ksi.toml",
            id="no TOML",
        ),
        pytest.param(
            lambda var: var.chmod(0o755),
            "directories",
            "warn",
            "others may use {var} (mode 755)",
            "chmod 700 {var}",
            id="others may look in",
        ),
        pytest.param(
            lambda var: (var / "events.db").chmod(0o644),
            "directories",
            "warn",
            "others may use {var}/events.db (mode 644)",
            "chmod 600 {var}/events.db",
            id="others may read the log",
        ),
        pytest.param(
            lambda var: (var / "run").chmod(0o500),
            "directories",
            "fail",
            "we may not use {var}/run (mode 500)",
            "chmod 700 {var}/run",
            id="no socket can be made",
        ),
        pytest.param(
            lambda var: var.chmod(0o1777),
            "directories",
            "fail",
            "{var} is shared by all",
            "export KSI_VAR=/var/tmp/ksi-$USER",
            id="a directory like /tmp",
        ),
        pytest.param(
            lambda var: ((var / "run").rmdir(), (var / "run").write_text("")),
            "directories",
            "fail",
            "{var}/run is no directory",
            "mv {var}/run {var}/run.old",
            id="a file where a directory should be",
        ),
        pytest.param(
            left_socket,
            "daemon",
            "warn",
            "{var}/run/daemon.sock is left of a daemon that died",
            "ksi up -d --var {var}",
            id="a stale socket",
        ),
        pytest.param(
            lambda var: (var / "run" / "daemon.sock").write_text(""),
            "daemon",
            "fail",
            "{var}/run/daemon.sock is no socket",
            "rm {var}/run/daemon.sock",
            id="a file where the socket should be",
        ),
        pytest.param(
            lambda var: locked(var / "run" / "daemon.lock"),
            "daemon",
            "fail",
            "pid 4242 holds {var}/run/daemon.lock and serves no socket",
            "kill 4242",
            id="a daemon that lost its socket",
        ),
        pytest.param(
            lambda var: silent(var / "run" / "daemon.sock"),
            "daemon",
            "fail",
            "has the socket and does not answer",
            "kill -CONT",
            id="a daemon that is stopped",
        ),
        pytest.param(
            lambda var: serving(var, version="0.0.1"),
            "version",
            "warn",
            f"the daemon is 0.0.1, this ksi is {__version__}",
            "ksi down --var {var} && ksi up -d --var {var}",
            id="a daemon of another version",
        ),
        pytest.param(
            lambda var: serving(var, durability="process"),
            "durability",
            "warn",
            "the daemon runs with 'process', the settings say 'power'",
            "ksi down --var {var}; ksi up -d --var {var}",
            id="a daemon of other durability than is set",
        ),
        pytest.param(
            lambda var: (var / "ksi.toml").write_text("durability = 'process'"),
            "durability",
            "warn",
            "'process': a power cut may take the last acknowledged events",
            "ksi down --var {var}; ksi up -d --var {var} --durability power",
            id="less durability than there could be",
        ),
        pytest.param(
            lambda var: sql(var / "events.db", "PRAGMA user_version = 9999"),
            "log",
            "fail",
            f"has schema 9999, this ksi knows up to {len(migrations())}",
            "pip install --upgrade ksi",
            id="a newer log",
        ),
        pytest.param(
            lambda var: sql(var / "events.db", "PRAGMA user_version = 1"),
            "log",
            "warn",
            "has schema 1, this ksi reads",
            "ksi up -d --var {var}",
            id="an older log",
        ),
        pytest.param(
            lambda var: sql(var / "events.db", "PRAGMA application_id = 1"),
            "log",
            "fail",
            "is no log of ksi",
            "mv {var}/events.db {var}/events.db.old",
            id="another program's database",
        ),
        pytest.param(
            lambda var: (var / "events.db").write_text("all work and no play" * 400),
            "log",
            "fail",
            "file is not a database",
            "ksi log repair --var {var}",
            id="no database",
        ),
        pytest.param(
            damaged, "log", "fail", "malformed", "ksi log repair --var {var}", id="a damaged log"
        ),
        pytest.param(
            lambda var: sql(
                var / "events.db",
                "DROP TRIGGER events_unchanged",
                "UPDATE events SET source = 'agent:bob' WHERE seq = 9",
            ),
            "log",
            "fail",
            "the log is damaged at event 9: it",
            "ksi log repair --var {var}",
            id="an event that was changed",
        ),
        pytest.param(
            lambda var: writing(var / "events.db"),
            "write_lock",
            "fail",
            "another program holds {var}/events.db locked",
            "fuser -v {var}/events.db",
            id="a log that is locked",
        ),
        pytest.param(
            future, "clock", "warn", "ahead: the clock was set back", "timedatectl status",
            id="an event from the future",
        ),
        pytest.param(
            component("---\nextends: nobody\n---\nHi"),
            "components",
            "fail",
            "bad: ",
            "ksi components validate bad --var {var}",
            id="a component of what is not there",
        ),
        pytest.param(
            lambda var: shutil.rmtree(var / "components"),
            "components",
            "fail",
            "not_found: no directory '{var}/components'",
            "",
            id="a directory of components that is not there",
        ),
        pytest.param(
            component("---\nlimits: [\n---\nHi"),
            "components",
            "fail",
            "bad: ",
            "ksi components validate bad --var {var}",
            id="a component that cannot be read",
        ),
    ],
)  # fmt: skip
def test_a_fault_has_its_line(
    var: Path, examined: Examined, spoil: Spoil, check: str, level: str, text: str, fix: str
) -> None:
    with ExitStack() as stack:
        spoilt = spoil(var)
        if hasattr(spoilt, "__enter__"):
            stack.enter_context(spoilt)
        found = examined()
    assert found[check].level == level
    assert text.replace("{var}", str(var)) in found[check].text
    assert (found[check].fix or "").startswith(fix.format(var=var))
    (var / "run").chmod(0o700)


@pytest.mark.parametrize(
    ("environ", "check", "level", "text", "fix"),
    [
        pytest.param(
            {"KSI_MAX_HOP": "3"},
            "settings",
            "fail",
            "the environment: unknown setting 'max_hop' (did you mean 'max_hops'?)",
            "unset KSI_MAX_HOP",
            id="a variable that is misspelt",
        ),
        pytest.param(
            {"KSI_MAX_HOPS": "many"},
            "settings",
            "fail",
            "the environment: Expected `int`",
            "unset KSI_MAX_HOPS",
            id="a value that does not fit",
        ),
        pytest.param(
            {"KSI_PROVIDER": "openai", "KSI_API_KEY_ENV": "MY_KEY"},
            "provider",
            "fail",
            "'MY_KEY' is not set",
            "export MY_KEY=…",
            id="a key that is not there",
        ),
        pytest.param(
            {"KSI_PROVIDER": "anthropic"},
            "provider",
            "fail",
            "'ANTHROPIC_API_KEY' is not set",
            "export ANTHROPIC_API_KEY=…",
            id="a vendor's own key that is not there",
        ),
        pytest.param(
            {"KSI_PROVIDER": "openai", "KSI_BASE_URL": "http://a b/"},
            "provider",
            "fail",
            "does not answer",
            "curl -sS -o /dev/null 'http://a b/'",
            id="no address",
        ),
        pytest.param(
            {"KSI_PROVIDER": "opnai"}, "provider", "fail", "no type 'opnai'", None,
            id="no such provider",
        ),
        pytest.param(
            {"KSI_PROVIDER": "ollama", "KSI_BASE_URL": "http://127.0.0.1:1"},
            "provider",
            "fail",
            "ollama at http://127.0.0.1:1 does not answer",
            "curl -sS -o /dev/null http://127.0.0.1:1",
            id="a provider that does not answer",
        ),
    ],
)  # fmt: skip
def test_a_wrong_environment_has_its_line(
    examined: Examined, environ: dict[str, str], check: str, level: str, text: str, fix: str | None
) -> None:
    found = examined(environ=environ)[check]
    assert (found.level, found.fix) == (level, fix)
    assert text in found.text


def test_a_path_that_is_too_long_for_a_socket(var: Path, examined: Examined) -> None:
    long = var / ("x" * 120)
    found = examined(var=long, socket=long / "run" / "daemon.sock")
    assert found["socket_path"].level == "fail"
    assert f"has {len(str(long)) + 16} bytes, and sockets take 107" in found["socket_path"].text
    assert found["daemon"].level == "ok"


MOUNTS = """\
22 1 252:1 / / rw shared:1 - ext4 /dev/vda1 rw
90 22 0:50 / {var} rw - {kind} server:/export rw
"""


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        pytest.param("nfs4", "fail", id="a network"),
        pytest.param("fuse.sshfs", "fail", id="a network by another name"),
        pytest.param("tmpfs", "warn", id="memory"),
        pytest.param("xfs", "ok", id="a disk"),
    ],
)
def test_file_systems(var: Path, examined: Examined, kind: str, level: str) -> None:
    mounts = var / "mountinfo"
    mounts.write_text(MOUNTS.format(var=var.resolve(), kind=kind))
    found = examined(mounts=mounts)["file_system"]
    assert found.level == level
    assert kind in found.text


def test_a_network_that_is_allowed_is_worth_a_look(var: Path, examined: Examined) -> None:
    mounts = var / "mountinfo"
    mounts.write_text(MOUNTS.format(var=var.resolve(), kind="nfs4"))
    found = examined(mounts=mounts, environ={"KSI_ALLOW_NETWORK_FS": "true"})["file_system"]
    assert found.level == "warn"


@pytest.mark.parametrize(
    ("free", "level"),
    [
        pytest.param(10**6, "fail", id="full"),
        pytest.param(5 * 10**8, "warn", id="nearly full"),
        pytest.param(10**11, "ok", id="not full"),
    ],
)
def test_disks(examined: Examined, monkeypatch: pytest.MonkeyPatch, free: int, level: str) -> None:
    usage = SimpleNamespace(free=free, total=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert examined()["disk"].level == level


def test_an_old_python_and_an_old_sqlite(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 0))
    found = examined()
    assert (found["python"].level, found["sqlite"].level) == ("fail", "fail")


@pytest.mark.parametrize("name", KEYS)
def test_a_vendor_takes_its_key_from_where_the_doctor_looks(name: str) -> None:
    module = import_module(PROVIDERS[name])
    [vendor] = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Server) and each is not Server
    ]
    assert vendor(module.Spec(model="m")).api_key_env == KEYS[name]


class _Provider(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen = (self.path, self.headers.get("Authorization"))  # type: ignore[attr-defined]
        self.send_response(404)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


def test_a_provider_that_answers_is_sent_no_key(examined: Examined) -> None:
    with HTTPServer(("127.0.0.1", 0), _Provider) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        environ = {"KSI_PROVIDER": "openai", "KSI_BASE_URL": url, "OPENAI_API_KEY": "secret"}
        found = examined(environ=environ)["provider"]
        thread.join()
        assert (found.level, found.text) == ("ok", f"openai at {url} answers")
        assert server.seen == ("/v1", None)  # type: ignore[attr-defined]


def test_what_is_not_there_yet_is_no_fault(var: Path, examined: Examined) -> None:
    shutil.rmtree(var)
    found = examined(environ={"KSI_COMPONENTS": str(var.parent)})
    assert {each.level for each in found.values()} == {"ok"}


def test_it_changes_nothing(var: Path, examined: Examined) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in var.rglob("*.*")}
    examined()
    after = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in var.rglob("*.*")}
    assert after == before

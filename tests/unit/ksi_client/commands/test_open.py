from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ksi_client.cli import cli
from ksi_client.commands import open as module
from ksi_daemon.log import queries

pytest.importorskip("datasette")


class Browser:
    """Who has the link, or has not."""

    def __init__(self, link: str) -> None:
        self.link = link
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    def enter(self) -> None:
        self._opener.open(self.link, timeout=10).close()

    def get(self, path: str) -> Any:
        return json.loads(self.page(path))

    def page(self, path: str) -> str:
        with self._opener.open(self.link.partition("/-/")[0] + path, timeout=10) as response:
            text: str = response.read().decode()
            return text


@pytest.fixture(scope="module")
def served(night: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``ksi open`` on the log, and the link that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ksi_client", "open", "--no-browser", "--log", str(night)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Uvicorn running" in line:
                break
        found = re.search(r"http://\S+/-/auth-token\S+", "".join(said))
        assert found, "".join(said)
        yield process, found[0]
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture(scope="module")
def browser(served: tuple[subprocess.Popen[str], str]) -> Browser:
    found = Browser(served[1])
    found.enter()
    return found


def test_only_the_browser_with_the_link_is_let_in(
    served: tuple[subprocess.Popen[str], str], browser: Browser
) -> None:
    for path in ("/", "/events.json", "/events/v_events.json", "/events.json?sql=select+1"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            Browser(served[1]).get(path)
        assert caught.value.code == 403
        caught.value.close()
    with pytest.raises(urllib.error.HTTPError) as caught:
        Browser(served[1]).enter()  # the link is used up
    caught.value.close()


def test_views_have_facets(browser: Browser) -> None:
    found = browser.get("/events/v_events.json?_shape=objects&_size=3")
    assert [row["seq"] for row in found["rows"]] == [26, 25, 24]
    assert {"event", "status", "agent_id", "error_code"} == set(found["facet_results"])
    attempts = browser.get("/events/v_attempts.json")["facet_results"]["verdict"]["results"]
    assert {each["value"]: each["count"] for each in attempts} == {
        "strict": 4,
        "repaired": 1,
        "rejected": 1,
    }


@pytest.mark.parametrize("name", [each.name for each in queries.ready()])
def test_a_ready_query_answers(browser: Browser, name: str) -> None:
    assert browser.get(f"/events/{name}.json?_shape=array")


def test_the_views_stand_before_the_tables(browser: Browser) -> None:
    found = browser.get("/events.json")
    shown = {each["name"] for each in found["tables"] if not each["hidden"]}
    assert shown == {"agents", "messages", "state"}
    assert "v_events" in {each["name"] for each in found["views"]}


def test_every_link_of_the_first_page_leads_somewhere(browser: Browser) -> None:
    links = re.findall(r'<li><a href="(/events/\w+)">', browser.page("/"))
    assert len(links) == len(queries.ready()) + 5
    for link in links:
        assert browser.get(f"{link}.json")


def test_nothing_is_written(browser: Browser, night: Path) -> None:
    before = night.read_bytes()
    with pytest.raises(urllib.error.HTTPError) as caught:
        browser.get("/events.json?sql=delete+from+events")
    caught.value.close()
    assert night.read_bytes() == before


def test_it_ends_with_the_command(served: tuple[subprocess.Popen[str], str]) -> None:
    process, link = served
    process.terminate()
    process.wait(10)
    port = int(re.findall(r":(\d+)/", link)[0])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--log", "/none.db"], "not_found: no log '/none.db'", id="no log"),
        pytest.param(["--log", __file__], "file is not a database", id="no database"),
    ],
)
def test_what_cannot_be_shown(words: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["open", *words])
    assert (result.exit_code, message in result.stderr) == (1, True)


def test_a_port_that_is_taken(night: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(cli, ["open", "--port", port, "--log", str(night)])
    assert result.exit_code == 1
    assert f"port_taken: port {port}: Address already in use" in result.stderr


def test_without_datasette(monkeypatch: pytest.MonkeyPatch, night: Path) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    result = CliRunner().invoke(cli, ["open", "--log", str(night)])
    assert result.exit_code == 1
    assert "hint: pip install 'ksi[open]'" in result.stderr

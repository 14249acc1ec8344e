from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ksi_client.collector import send
from ksi_daemon.errors import KsiError


class Collector(HTTPServer):
    """A collector that answers as it is told: a status, or a status with headers and a body."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.taken: list[tuple[str, str | None, bytes]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, self.headers["Content-Type"], body))
        self.server.keys.append(self.headers["x-key"])
        answer = self.server.answers.pop(0) if self.server.answers else 200
        status, headers, text = answer if isinstance(answer, tuple) else (answer, {}, b"{}")
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector([])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_request_is_sent_in_order(collector: Collector) -> None:
    assert send([b'{"a":1}', b'{"a":2}'], collector.url) == 2
    assert collector.taken == [
        ("/v1/traces", "application/json", b'{"a":1}'),
        ("/v1/traces", "application/json", b'{"a":2}'),
    ]


def test_a_path_is_kept(collector: Collector) -> None:
    send([b"{}"], f"{collector.url}/otlp/v1/traces")
    assert collector.taken[0][0] == "/otlp/v1/traces"


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        pytest.param("x-key=secret", "secret", id="one"),
        pytest.param("other=1, x-key = a%20b=c", "a b=c", id="quoted, among others"),
        pytest.param("", None, id="none"),
    ],
)
def test_headers_come_from_the_environment(
    collector: Collector, given: str, sent: str | None
) -> None:
    send([b"{}"], collector.url, environ={"OTEL_EXPORTER_OTLP_HEADERS": given})
    assert collector.keys == [sent]
    assert collector.taken[0][1] == "application/json"


@pytest.mark.parametrize(
    "given", [pytest.param("=x", id="no name"), pytest.param("a=b%0d%0ac: d", id="two in one")]
)
def test_headers_that_are_none(collector: Collector, given: str) -> None:
    with pytest.raises(KsiError, match="is not name=value"):
        send([b"{}"], collector.url, environ={"OTEL_EXPORTER_OTLP_HEADERS": given})
    assert collector.taken == []


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([503], id="not just now"),
        pytest.param([(429, {"Retry-After": "0.01"}, b""), 502], id="too many, then a gateway"),
    ],
)
def test_what_may_pass_is_tried_again(collector: Collector, answers: list[Any]) -> None:
    count = len(answers)
    collector.answers = answers
    send([b"{}"], collector.url, pause_s=0.01)
    assert len(collector.taken) == count + 1


@pytest.mark.parametrize(
    ("answers", "message", "tries"),
    [
        pytest.param([400], "400 Bad Request", 1, id="refused"),
        pytest.param([503] * 9, "503 Service Unavailable", 4, id="never"),
        pytest.param([(301, {"Location": "http://127.0.0.1:1/"}, b"")], "301", 1, id="elsewhere"),
        pytest.param(
            [(200, {}, b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"old"}}')],
            "refused 3 spans: old",
            1,
            id="taken in part",
        ),
    ],
)
def test_what_is_not_taken(
    collector: Collector, answers: list[Any], message: str, tries: int
) -> None:
    collector.answers = answers
    with pytest.raises(KsiError, match=message) as caught:
        send([b"{}"], collector.url, pause_s=0.01)
    assert (caught.value.code, len(collector.taken)) == ("collector", tries)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("localhost:4318", id="no scheme"),
        pytest.param("file:///etc/passwd", id="a file"),
        pytest.param("http://", id="no host"),
        pytest.param("http://127.0.0.1:x", id="no port"),
    ],
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(KsiError, match="no URL"):
        send([b"{}"], url)


def test_nobody_there() -> None:
    with pytest.raises(KsiError, match="does not take the spans"):
        send([b"{}"], "http://127.0.0.1:1", pause_s=0.001)

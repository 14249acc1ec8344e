from __future__ import annotations

import pytest

from ksi_daemon.providers.model import Capabilities
from ksi_daemon.providers.server import Server, ServerSpec

OFFICIAL = "https://api.example.com/v1"
LOCAL = "http://127.0.0.1:8080/v1"


def server(**fields: object) -> Server:
    spec = ServerSpec(**{"model": "m", "base_url": OFFICIAL} | fields)  # type: ignore[arg-type]
    return Server(spec, Capabilities(streaming=True), host="api.example.com", key_env="THE_KEY")


@pytest.mark.parametrize(
    ("fields", "key_env"),
    [
        pytest.param({}, "THE_KEY", id="the vendor's own host"),
        pytest.param({"base_url": LOCAL}, None, id="another host gets no key"),
        pytest.param({"base_url": LOCAL, "api_key_env": "K"}, "K", id="unless one is named"),
        pytest.param({"api_key_env": "K"}, "K", id="a key of one's own"),
    ],
)
def test_who_gets_which_key(fields: dict[str, object], key_env: str | None) -> None:
    assert server(**fields).api_key_env == key_env


def test_capabilities_over_the_vendors() -> None:
    told = server(capabilities={"native_tool_calls": True}).capabilities
    assert told == Capabilities(streaming=True, native_tool_calls=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"model": ""}, "model is empty", id="no model"),
        pytest.param({"base_url": "ftp://x"}, "base_url|http", id="no address of a server"),
    ],
)
def test_what_is_no_server(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        server(**fields)

from __future__ import annotations

import re

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.access import api_key, check_base_url, is_loopback

FAR = "https://api.example.com/v1"
NEAR = "http://127.0.0.1:8080/v1"


@pytest.mark.parametrize("base_url", [FAR, NEAR, "http://[::1]:11434", "http://localhost/v1/"])
def test_an_address_that_can_be_built_on(base_url: str) -> None:
    check_base_url(base_url)


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        pytest.param(
            "localhost:8080",
            "base_url 'localhost:8080' has no scheme; expected 'http://localhost:8080'",
            id="no scheme",
        ),
        pytest.param(
            "ftp://x/v1", "base_url has scheme 'ftp'; expected 'http' or 'https'", id="other scheme"
        ),
        pytest.param("http:///v1", "base_url 'http:///v1' names no host", id="no host"),
        pytest.param("http://x:0", "base_url 'http://x:0' names no host", id="port 0"),
        pytest.param("http://x:99999", "Port out of range 0-65535", id="port out of range"),
        pytest.param(
            "http://me:secret@x/v1",
            "base_url holds credentials or a query; name a key by api_key_env",
            id="password",
        ),
        pytest.param(
            "http://x/v1?key=secret",
            "base_url holds credentials or a query; name a key by api_key_env",
            id="query",
        ),
    ],
)
def test_an_address_that_cannot(base_url: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_base_url(base_url)


@pytest.mark.parametrize(
    ("base_url", "near"),
    [
        pytest.param(NEAR, True, id="127.0.0.1"),
        pytest.param("http://127.9.9.9", True, id="any of 127/8"),
        pytest.param("http://[::1]:1/v1", True, id="IPv6"),
        pytest.param("http://LocalHost:1", True, id="localhost"),
        pytest.param("http://gpu.localhost", True, id="under localhost"),
        pytest.param("http://192.168.1.2", False, id="the local network is not this machine"),
        pytest.param("http://localhost.example.com", False, id="only looks like it"),
        pytest.param("http://127.0.0.1.example.com", False, id="name that begins with an address"),
    ],
)
def test_is_loopback(base_url: str, near: bool) -> None:
    assert is_loopback(base_url) is near


@pytest.mark.parametrize(
    ("variable", "base_url", "environ", "key"),
    [
        pytest.param("KEY", FAR, {"KEY": "k1"}, "k1", id="set"),
        pytest.param("KEY", FAR, {"KEY": " k1\n"}, "k1", id="white space around it"),
        pytest.param("KEY", NEAR, {"KEY": "k1"}, "k1", id="set, on this machine"),
        pytest.param("KEY", NEAR, {}, None, id="not needed on this machine"),
        pytest.param(None, FAR, {"KEY": "k1"}, None, id="none is named"),
    ],
)
def test_api_key(
    variable: str | None, base_url: str, environ: dict[str, str], key: str | None
) -> None:
    assert api_key(variable, base_url, environ) == key


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("", "the environment variable 'KEY' is not set", id="empty"),
        pytest.param(
            "k\n1",
            "the environment variable 'KEY' holds characters that no key has",
            id="two lines",
        ),
        pytest.param(
            "kéy", "the environment variable 'KEY' holds characters that no key has", id="accent"
        ),
    ],
)
def test_a_key_that_cannot_be_used(value: str, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        api_key("KEY", FAR, {"KEY": value})
    error = caught.value
    assert (error.code, error.message, error.retryable) == ("provider_auth", message, False)
    assert error.hint == "set KEY where the daemon starts, or name another by api_key_env"

"""Where an HTTP provider is, and the key it is asked with. Reads nothing by itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from ksi_daemon.errors import ProviderError

__all__ = ["api_key", "check_base_url", "is_loopback"]


def check_base_url(base_url: str) -> None:
    """Raise ValueError with the remedy if *base_url* is no address to build on."""
    parts = urlsplit(base_url)
    if "://" not in base_url:
        raise ValueError(f"base_url {base_url!r} has no scheme; expected 'http://{base_url}'")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"base_url has scheme {parts.scheme!r}; expected 'http' or 'https'")
    if not parts.hostname or parts.port == 0:
        raise ValueError(f"base_url {base_url!r} names no host")
    # What stands in an address ends up in logs and errors.
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("base_url holds credentials or a query; name a key by api_key_env")


def is_loopback(base_url: str) -> bool:
    """Say whether *base_url* is on this machine."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def api_key(variable: str | None, base_url: str, environ: Mapping[str, str]) -> str | None:
    """Return the key in the environment's *variable*, None where none is needed.

    Raise ProviderError (provider_auth) if the variable is named and not set; a server on this
    machine needs no key, so there it may be missing.
    """
    key = environ.get(variable, "").strip() if variable else ""
    if variable is None or (not key and is_loopback(base_url)):
        return None
    if key and key.isascii() and key.isprintable():
        return key
    problem = "holds characters that no key has" if key else "is not set"
    raise ProviderError(
        f"the environment variable {variable!r} {problem}",
        code="provider_auth",
        hint=f"set {variable} where the daemon starts, or name another by api_key_env",
    )

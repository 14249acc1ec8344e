"""A check of the provider that the settings name: its key is there, and somebody answers.

It is asked for nothing, and no key is sent: any answer over HTTP will do.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from ksi_client.doctor.finding import Finding
from ksi_client.doctor.patient import Patient
from ksi_daemon import __version__
from ksi_daemon.config import Settings
from ksi_daemon.errors import KsiError
from ksi_daemon.providers.access import api_key
from ksi_daemon.providers.specs import spec_of

__all__ = ["KEYS", "provider"]

TIMEOUT_S: Final = 5.0
# Where a vendor's own host takes its key from unless told otherwise. Written again, because the
# modules that know it load an HTTP client; a test holds the two together.
KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "ANTHROPIC_API_KEY",
        "gemini": "GEMINI_API_KEY",
        "openai": "OPENAI_API_KEY",
    }
)


def provider(patient: Patient) -> Iterator[Finding]:
    """The provider of the settings, if they name one, is there."""
    settings = patient.settings
    if not isinstance(settings, Settings):
        return
    if settings.provider is None:
        yield Finding("provider", "ok", "the settings name none; components and spawns may")
        return
    given = {
        "type": settings.provider,
        "base_url": settings.base_url,
        "api_key_env": settings.api_key_env,
        "model": settings.model or "any",
    }
    key = None
    try:
        spec = spec_of({name: value for name, value in given.items() if value is not None})
        url = getattr(spec, "base_url", None)
        if url is None:
            yield _command(settings.provider, getattr(spec, "argv", ()))
            return
        key = settings.api_key_env or (None if settings.base_url else KEYS.get(settings.provider))
        api_key(key, url, patient.environ)
    except KsiError as exc:
        fix = f"export {key}=…" if exc.code == "provider_auth" else None
        yield Finding("provider", "fail", exc.message, fix)
        return
    yield _answer(settings.provider, url)


def _command(name: str, argv: Any) -> Finding:
    if argv and shutil.which(argv[0]) is None:
        return Finding("provider", "fail", f"{name}: there is no command {argv[0]!r}")
    return Finding("provider", "ok", name)


def _answer(name: str, url: str) -> Finding:
    target = urlsplit(url)
    made = HTTPSConnection if target.scheme == "https" else HTTPConnection
    try:
        with closing(made(target.hostname or "", target.port, timeout=TIMEOUT_S)) as connection:
            agent = {"User-Agent": f"ksi/{__version__}"}
            connection.request("GET", target.path or "/", headers=agent)
            status = connection.getresponse().status
    except (OSError, HTTPException) as exc:
        why = str(exc) or type(exc).__name__
        fix = f"curl -sS -o /dev/null {shlex.quote(url)}"
        return Finding("provider", "fail", f"{name} at {url} does not answer: {why}", fix)
    if status >= 500:
        return Finding("provider", "warn", f"{name} at {url} answers with status {status}")
    return Finding("provider", "ok", f"{name} at {url} answers")

"""Who may come in by HTTP, and with how much: asked before anything else sees a request.

Loopback keeps other machines out, not the browser of this one: a page can name this address by
a name of its own (DNS rebinding) and post to it. So the Host must be loopback's, the Origin too if
a browser sends one, and the token must be there, which no page has.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import anyio

from ksi_daemon.errors import Denied, KsiError, NotFound, ProtocolError
from ksi_daemon.transports.http.asgi import App, Message, Receive, Scope, Send, header, refuse

__all__ = ["LOOPBACK", "Guard"]

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="ksi"')


class _Refused(Exception):
    """A request that goes no further: the *status* and the *error* that it is answered with."""

    def __init__(self, status: int, error: KsiError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


class Guard:
    """The application that lets through to *routes*, by path, what may come in.

    A body has at most *max_body_bytes* and arrives within *body_timeout_s*.
    """

    def __init__(
        self,
        routes: Mapping[str, App],
        token: str,
        *,
        max_body_bytes: int,
        body_timeout_s: float,
    ) -> None:
        self._routes = routes
        self._token = token.encode()
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            app = self._admitted(scope)
            body = await self._body(scope, receive)
        except _Refused as refused:
            more = (_CHALLENGE,) if refused.status == 401 else ()
            await refuse(send, refused.status, refused.error, more)
        else:
            await app(scope, _replaying(body, receive), send)

    def _admitted(self, scope: Scope) -> App:
        if _host_of(header(scope, b"host")) not in LOOPBACK:
            raise _Refused(421, Denied("this host is not served", code="host_refused"))
        if not _is_local_origin(header(scope, b"origin"), scope):
            raise _Refused(403, Denied("this origin may not ask", code="origin_refused"))
        if not self._has_token(header(scope, b"authorization")):
            hint = "send Authorization: Bearer and what the file http.token holds"
            raise _Refused(401, Denied("wrong token or none", code="not_authorized", hint=hint))
        app = self._routes.get(scope["path"])
        if app is None:
            raise _Refused(404, NotFound("page", scope["path"][:200], self._routes))
        return app

    def _has_token(self, given: str | None) -> bool:
        scheme, _, token = (given or "").partition(" ")
        sent = token.strip().encode("utf-8", "replace")
        return scheme.lower() == "bearer" and hmac.compare_digest(sent, self._token)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body; a client that leaves meanwhile has sent what it has sent."""
        declared = header(scope, b"content-length") or ""
        if declared.isdecimal() and int(declared[:20]) > self._max_body_bytes:
            raise self._too_large()
        body = bytearray()
        with anyio.move_on_after(self._body_timeout_s) as waiting:
            more = True
            while more:
                message = await receive()
                more = bool(message.get("more_body"))
                body += message.get("body", b"")
                if len(body) > self._max_body_bytes:
                    raise self._too_large()
        if waiting.cancelled_caught:
            late = f"the body did not arrive within {self._body_timeout_s:g} s"
            raise _Refused(408, ProtocolError(late, code="frame_timeout"))
        return bytes(body)

    def _too_large(self) -> _Refused:
        message = f"a body has at most {self._max_body_bytes} bytes"
        hint = "raise max_frame_bytes, or send less"
        return _Refused(413, ProtocolError(message, code="frame_too_large", hint=hint))


def _host_of(host: str | None) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname if host else None
    except ValueError:
        return None


def _is_local_origin(origin: str | None, scope: Scope) -> bool:
    """Say whether *origin* is a page of this machine; programs send none."""
    if origin is None:
        return not any(key == b"origin" for key, _ in scope["headers"])
    try:
        return urlsplit(origin).hostname in LOOPBACK
    except ValueError:
        return False


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a *receive* that gives *body* first, then what comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay

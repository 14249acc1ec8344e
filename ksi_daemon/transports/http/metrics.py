"""The page of the HTTP door that Prometheus asks: what ``monitor:metrics`` returns, as it is."""

from __future__ import annotations

from ksi_daemon import security
from ksi_daemon.errors import InvalidData, KsiError
from ksi_daemon.router import Router, Submission
from ksi_daemon.transports.http.asgi import Receive, Scope, Send, refuse

__all__ = ["MetricsRoute"]

_WHO = security.stand_in("http:metrics", security.SYSTEM)


class MetricsRoute:
    """An application of ASGI that asks *router*."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise InvalidData(f"{scope['method']} is nothing to ask with; GET is")
            submission = Submission(event="monitor:metrics", principal=_WHO)
            found = (await self._router.submit(submission)).result()
        except KsiError as exc:
            await refuse(send, 405 if exc.code == "args_schema" else 503, exc)
            return
        body = found["text"].encode()
        headers = [
            (b"content-type", found["content_type"].encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

"""The HTTP door: off unless a port is set, on loopback only, for those who have the token."""

from __future__ import annotations

from ksi_daemon.transports.http.asgi import App
from ksi_daemon.transports.http.door import HttpDoor
from ksi_daemon.transports.http.token import token

__all__ = ["App", "HttpDoor", "token"]

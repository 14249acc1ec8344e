"""What all vendors that are HTTP servers share: the fields of their objects, address and key."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from ksi_daemon.providers.access import check_base_url
from ksi_daemon.providers.model import Capabilities, Overrides, Price
from ksi_daemon.providers.wire import Timeouts

__all__ = ["Server", "ServerSpec"]


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that completes.

    *api_key_env* names the variable that holds its key. *temperature* and *max_tokens* are for
    requests that name none. *prices* say what its model costs. *capabilities* say what the
    vendor's own do not, *extra* are fields for each body.
    """

    model: str
    base_url: str
    api_key_env: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    prices: Price | None = None
    timeouts: Timeouts = Timeouts()
    capabilities: Overrides = {}
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model is empty")
        check_base_url(self.base_url)


class Server:
    """The part of a vendor (``wire.Vendor``) that says where and as whom to ask."""

    def __init__(
        self, spec: ServerSpec, own: Capabilities, *, host: str = "", key_env: str | None = None
    ) -> None:
        """*host* is the vendor's own: only that one gets the key of *key_env* unasked."""
        self.is_official = urlsplit(spec.base_url).hostname == host
        self.model = spec.model
        self.price = spec.prices
        self.base_url = spec.base_url
        self.timeouts = spec.timeouts
        self.api_key_env = spec.api_key_env or (key_env if self.is_official else None)
        self.capabilities = msgspec.structs.replace(own, **spec.capabilities)

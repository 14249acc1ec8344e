"""Every error of ksi, in one tree. ``code`` is part of the protocol and never changes.

    KsiError                    extra_missing, file_too_large, file_not_kept, pruned, ...
    ├── UsageError              invalid_configuration, newer_schema, already_running, ...
    ├── ProtocolError           bad_json, bad_request, frame_too_large, frame_timeout, ...
    ├── RoutingError
    │   ├── UnknownEvent        unknown_event
    │   ├── InvalidData         args_schema, depth_limit, holds_secret
    │   ├── Denied              denied, tainted, budget_spent, hop_limit, root_budget,
    │   │                       spawn_limit, rate_limit
    │   │   └── ApprovalRequired  approval_required
    │   ├── HandlerFailed       handler_failed
    │   └── HandlerTimeout      handler_timeout
    ├── NotFound                not_found
    ├── Conflict                already_exists, version_conflict, idem_conflict, wrong_state
    ├── StorageError            storage_failed, storage_full, storage_busy, storage_lost,
    │                           storage_refused, storage_read
    ├── ComponentError          component_invalid, component_cycle, component_name
    ├── McpError                mcp_error, mcp_tool_error, mcp_timeout, mcp_unavailable
    └── ProviderError           provider_error, provider_auth, provider_timeout, ...

What a model writes wrong is not an exception: it is a value (``extraction.Rejected``).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from ksi_daemon.events import ErrorInfo

__all__ = [
    "ApprovalRequired",
    "ComponentError",
    "Conflict",
    "Denied",
    "HandlerFailed",
    "HandlerTimeout",
    "InvalidData",
    "KsiError",
    "McpError",
    "NotFound",
    "ProtocolError",
    "ProviderError",
    "RoutingError",
    "StorageError",
    "UnknownEvent",
    "UsageError",
    "nearest",
]


class KsiError(Exception):
    """The base of all errors that ksi raises on purpose.

    *hint* says what to do about it, *details* are facts for programs, *retryable* says that the
    same request may succeed later.
    """

    code = "internal"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: dict[str, Any] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable

    def info(self) -> ErrorInfo:
        """Return the error in the form of the wire and of the log."""
        return ErrorInfo(self.code, self.message, self.hint, self.retryable, self.details)


class UsageError(KsiError):
    """The program was started in a way that cannot work; *exit_code* follows sysexits.h."""

    code = "invalid_configuration"

    def __init__(self, message: str, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class ProtocolError(KsiError):
    """A frame or a request that is not of the wire protocol's form."""

    code = "bad_request"


class RoutingError(KsiError):
    """An event that the router did not bring to a good end."""

    code = "routing"


class UnknownEvent(RoutingError):
    """No handler is registered for this event."""

    code = "unknown_event"

    def __init__(self, event: str, known: Iterable[str] = ()) -> None:
        close = nearest(event, known)
        super().__init__(
            f"no handler for event {event!r}",
            hint=f"did you mean {close!r}?" if close else "ksi discover lists the events",
            details={"nearest": close} if close else None,
        )
        self.event = event


class InvalidData(RoutingError):
    """The event's data does not fit what its handler takes."""

    code = "args_schema"


class Denied(RoutingError):
    """The principal may not do this, or a limit of its story was reached."""

    code = "denied"


class ApprovalRequired(Denied):
    """A person must approve first; *approval_id* is None if nobody was asked."""

    code = "approval_required"

    def __init__(self, event: str, approval_id: str | None = None) -> None:
        if approval_id is None:
            super().__init__(f"{event!r} needs a person's approval, and only an agent asks for it")
            return
        super().__init__(
            f"a person must approve of {event!r} first and was asked ({approval_id}); "
            "you will be told by a message",
            details={"approval_id": approval_id},
        )


class HandlerFailed(RoutingError):
    """A handler raised something other than a KsiError."""

    code = "handler_failed"


class HandlerTimeout(RoutingError):
    """A handler overran its time limit and was cancelled."""

    code = "handler_timeout"


class NotFound(KsiError):
    """A named thing does not exist."""

    code = "not_found"

    def __init__(self, what: str, name: str, known: Iterable[str] = ()) -> None:
        close = nearest(name, known)
        super().__init__(f"no {what} {name!r}", hint=f"did you mean {close!r}?" if close else None)


class Conflict(KsiError):
    """The request does not fit the present state."""

    code = "wrong_state"


class StorageError(KsiError):
    """The log could not be written or read."""

    code = "storage_failed"


class ComponentError(KsiError):
    """A component file that cannot be used."""

    code = "component_invalid"


class McpError(KsiError):
    """An MCP server did not do what it was asked.

    Codes: mcp_error (it answered with an error, or not as MCP has it), mcp_tool_error (the tool
    says that it failed), mcp_timeout, mcp_unavailable.
    """

    code = "mcp_error"


class ProviderError(KsiError):
    """A provider gave no completion.

    Codes: provider_error, provider_auth, provider_rate_limited, provider_timeout,
    provider_stalled, provider_unreachable, provider_protocol, provider_empty. *status* is the
    HTTP status if there was one, *retry_after_s* what the provider asked for.
    """

    code = "provider_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool = False,
        hint: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, retryable=retryable)
        self.status = status
        self.retry_after_s = retry_after_s


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that *name* was probably meant to be, or None."""
    # difflib costs the product of the lengths: a hostile name must not buy much of it.
    return next(iter(get_close_matches(name[:128], known, n=1)), None)

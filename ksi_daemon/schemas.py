"""JSON Schema for what is described by one: tools of other programs, functions of plugins.

The validator is a library's (jsonschema-rs). It is imported when the first such schema is, since
the daemon's own events need none and its import costs a fifth of the start. Nothing is fetched:
a schema that refers to an address is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.errors import InvalidData

__all__ = ["MAX_SCHEMA_BYTES", "decoder"]

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_ERRORS: Final = 8  # told of one object; a model reads them all


def decoder(schema: Mapping[str, Any]) -> Callable[[msgspec.Raw], dict[str, Any]]:
    """Return the function that decodes raw data and checks it against *schema*.

    It raises InvalidData that names every place that does not fit, up to MAX_ERRORS; its details
    hold ``path`` (of the first) and ``errors``, objects with ``path``, ``message`` and
    ``schema``, the piece of the schema that was not met. Raise ValueError for what is no schema.
    """
    import jsonschema_rs

    if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    # The library raises its ValidationError, which is a ValueError, and others for odd patterns.
    except ValueError as exc:
        raise ValueError(f"no usable JSON Schema: {exc}"[:500]) from exc

    def decode(raw: msgspec.Raw) -> dict[str, Any]:
        value: dict[str, Any] = msgspec.json.decode(raw)
        errors = []
        for error in validator.iter_errors(value):
            errors.append(_told(error, schema))
            if len(errors) == MAX_ERRORS:
                break
        if errors:
            raise _invalid(errors)
        return value

    return decode


def _refuse(address: str) -> Any:
    raise ValueError(f"the schema refers to {address!r}; nothing is fetched")


def _told(error: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    path = ".".join(map(str, error.instance_path))
    return {"path": path, "message": error.message[:300], "schema": _piece(error, schema)}


def _piece(error: Any, schema: Mapping[str, Any]) -> Any:
    """Return the part of *schema* that says what belongs where *error* is."""
    at: Any = schema
    for step in error.schema_path[:-1]:
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            return None  # behind a reference; the message says enough
    return at


def _invalid(errors: list[dict[str, Any]]) -> InvalidData:
    told = "; ".join(
        f"{each['message']} at '{each['path']}'" if each["path"] else each["message"]
        for each in errors
    )
    return InvalidData(told, details={"path": errors[0]["path"], "errors": errors})

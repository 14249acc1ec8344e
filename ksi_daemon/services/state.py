"""state:*: values that agents and people share, each with a version that counts its writes."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Annotated, Any, Protocol

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.log import statements
from ksi_daemon.log.model import LoggedState
from ksi_daemon.router import Context, handles

__all__ = ["State", "StateReader"]

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class Set(msgspec.Struct, forbid_unknown_fields=True):
    """*expect_version* makes the write conditional; 0 means that the key must be new."""

    key: Key
    value: msgspec.Raw
    namespace: Key = "default"
    expect_version: int | None = None


class Name(msgspec.Struct, forbid_unknown_fields=True):
    key: Key
    namespace: Key = "default"


class Delete(Name, forbid_unknown_fields=True):
    """*expect_version* makes the deletion conditional."""

    expect_version: int | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of *namespace* that match *pattern*, sorted, at most *limit*."""

    namespace: Key = "default"
    pattern: str = "*"
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class StateReader(Protocol):
    """The part of the log that is read here."""

    async def state(self, namespace: str, key: str) -> LoggedState | None: ...

    async def states(self, namespace: str, pattern: str, limit: int) -> list[LoggedState]: ...


class State:
    """The values; a write is one commit with its event."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader

    @handles(
        "state:set", transaction=True, keeps=True, example={"key": "draft", "value": "# A title"}
    )
    def set(self, data: Set, ctx: Context, connection: Connection) -> dict[str, int]:
        """Write a value under a key; with expect_version only if nobody wrote it meanwhile."""
        _check_readable(data.value)
        version = statements.set_state(
            connection,
            data.namespace,
            data.key,
            data.value,
            data.expect_version,
            tainted=ctx.tainted,
        )
        return {"version": version}

    @handles("state:get", effect="observe", example={"key": "draft"})
    async def get(self, data: Name, ctx: Context) -> dict[str, Any]:
        """Return the value of a key and its version; null and 0 if there is none."""
        found = await self._reader.state(data.namespace, data.key)
        if found is None:
            return {"value": None, "version": 0}
        ctx.outside = found.tainted
        return {"value": found.value, "version": found.version}

    @handles("state:delete", transaction=True, example={"key": "draft"})
    def delete(self, data: Delete, ctx: Context, connection: Connection) -> dict[str, bool]:
        """Delete a key; say whether it was there."""
        deleted = statements.delete_state(connection, data.namespace, data.key, data.expect_version)
        return {"deleted": deleted}

    @handles("state:query", effect="observe", example={"pattern": "draft*"})
    async def query(self, data: Query, ctx: Context) -> dict[str, Any]:
        """List the keys of a namespace that match a pattern, with values and versions."""
        found = await self._reader.states(data.namespace, data.pattern, data.limit)
        ctx.outside = any(each.tainted for each in found)
        rows = [{"key": each.key, "value": each.value, "version": each.version} for each in found]
        return {"entries": rows}


def _check_readable(value: msgspec.Raw) -> None:
    """Refuse what is JSON by its form and yet no reader can decode, such as 1e999."""
    try:
        msgspec.json.decode(value)
    except msgspec.MsgspecError as exc:
        raise InvalidData(f"value: {exc}", details={"path": "value"}) from exc

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon import security
from ksi_daemon.errors import Denied, InvalidData, KsiError
from ksi_daemon.security import Principal, checked, storable
from ksi_daemon.security.data import MAX_DEPTH
from tests.growth import LINEAR, doubling

CLIENT = security.client(1000, 1)
AGENT = security.agent("ada", ("*",))
HANDLER = security.handler("a:b", AGENT)
PROGRAM = Principal("client", "mcp:1", "mcp:1", ("*",))


def check(data: bytes, principal: Principal = AGENT, own: str | None = None) -> bytes:
    return bytes(checked(msgspec.Raw(data), principal, event="a:b", own=own))


def nested(levels: int) -> bytes:
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    ("data", "principal", "own", "seen"),
    [
        pytest.param(b'{"a": 1 }', CLIENT, None, b'{"a": 1 }', id="as it was written"),
        pytest.param(b'{"a":"\\"_b"}', AGENT, None, b'{"a":"\\"_b"}', id="no key"),
        pytest.param(b'{"a":{"_b":1}}', AGENT, None, b'{"a":{"_b":1}}', id="not at the top"),
        pytest.param(b'{"_b":1,"a":2}', AGENT, None, b'{"a":2}', id="an agent's is dropped"),
        pytest.param(b'{"_b":1,"a":2}', HANDLER, None, b'{"a":2}', id="a handler's is dropped"),
        pytest.param(b'{"\\u005fb":1,"a":2}', AGENT, None, b'{"a":2}', id="escaped"),
        pytest.param(b'{"\\u005Fb":1,"a":2}', AGENT, None, b'{"a":2}', id="escaped in capitals"),
        pytest.param(b"{}", AGENT, "agent_id", b'{"agent_id":"ada"}', id="own is filled in"),
        pytest.param(b"{}", HANDLER, "agent_id", b'{"agent_id":"ada"}', id="for a handler too"),
        pytest.param(b"{}", CLIENT, "agent_id", b"{}", id="a client has no own"),
        pytest.param(
            b'{"agent_id":"bob"}', CLIENT, "agent_id", b'{"agent_id":"bob"}', id="a client may name"
        ),
        pytest.param(
            b'{"agent_id":"ada"}', AGENT, "agent_id", b'{"agent_id":"ada"}', id="own that is right"
        ),
        pytest.param(
            b'{"agent_id":"bob","agent_id":"ada"}',
            AGENT,
            "agent_id",
            b'{"agent_id":"ada"}',
            id="the last of two is the one",
        ),
    ],
)
def test_what_a_handler_sees(
    data: bytes, principal: Principal, own: str | None, seen: bytes
) -> None:
    assert check(data, principal, own) == seen


@pytest.mark.parametrize(
    ("data", "principal", "own", "error", "code", "message"),
    [
        pytest.param(
            b"[]", AGENT, None, InvalidData, "args_schema", "data must be an object", id="array"
        ),
        pytest.param(
            b"", AGENT, None, InvalidData, "args_schema", "data must be an object", id="nothing"
        ),
        pytest.param(
            nested(MAX_DEPTH + 1),
            AGENT,
            None,
            InvalidData,
            "depth_limit",
            "data nests deeper than 64",
            id="too deep",
        ),
        pytest.param(
            b'{"_b":1}',
            CLIENT,
            None,
            InvalidData,
            "args_schema",
            "'_b': keys that start with '_' are the daemon's",
            id="a client is told",
        ),
        pytest.param(
            b"{}",
            PROGRAM,
            "agent_id",
            Denied,
            "denied",
            "'a:b' is for agents: mcp:1 is none",
            id="a program that is no agent",
        ),
        pytest.param(
            b'{"\\u005fb":1}',
            CLIENT,
            None,
            InvalidData,
            "args_schema",
            "'_b': keys that start with '_' are the daemon's",
            id="escaped",
        ),
        pytest.param(
            b'{"agent_id":"bob"}',
            AGENT,
            "agent_id",
            Denied,
            "denied",
            "agent:ada may emit 'a:b' about itself only",
            id="another agent",
        ),
        pytest.param(
            b'{"agent_id":null}',
            AGENT,
            "agent_id",
            Denied,
            "denied",
            "agent:ada may emit 'a:b' about itself only",
            id="nobody",
        ),
        pytest.param(
            b'{"_b":"\xff"}',
            AGENT,
            None,
            InvalidData,
            "args_schema",
            "data is not JSON: ",
            id="not UTF-8",
        ),
        pytest.param(
            b'{"_b":1e999}',
            AGENT,
            None,
            InvalidData,
            "args_schema",
            "data is not JSON: ",
            id="no number",
        ),
    ],
)
def test_what_is_refused(
    data: bytes,
    principal: Principal,
    own: str | None,
    error: type[KsiError],
    code: str,
    message: str,
) -> None:
    with pytest.raises(error) as caught:
        check(data, principal, own)
    assert caught.value.code == code
    assert caught.value.message.startswith(message)


def test_data_may_be_as_deep_as_the_limit_and_as_wide_as_it_likes() -> None:
    wide = b'{"a":[' + b"[]," * 500 + b"[]]}"
    assert check(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    assert check(wide) == wide


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        pytest.param(b'{"a":1}', {"a": 1}, id="sound data as it is"),
        pytest.param(nested(65), {"refused": nested(65).decode()}, id="too deep as text"),
        pytest.param(
            nested(50_000), {"refused": nested(50_000).decode()}, id="far too deep as text"
        ),
        pytest.param(b'{"a":"\xff"}', {"refused": '{"a":"�"}'}, id="not UTF-8 as text"),
        pytest.param(b'{"a":1e999}', {"refused": '{"a":1e999}'}, id="no number as text"),
    ],
)
def test_refused_data_in_a_form_that_the_log_takes(data: bytes, kept: Any) -> None:
    assert msgspec.json.decode(storable(msgspec.Raw(data))) == kept


def test_checking_costs_time_in_proportion() -> None:
    def cost(size: int) -> None:
        check(b'{"a":[' + b'{"_":1},' * size + b"1]}")

    assert doubling(cost, 40_000) < LINEAR

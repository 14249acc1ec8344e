from __future__ import annotations

import msgspec
import pytest

from ksi_daemon import security
from ksi_daemon.security import Principal, binding

ADA = security.agent("ada", ("a:*", "b:c"), ("a:b",), ("a:d",))
DATA = b'{"k": 1, "l": [1, 2]}'


def bound(principal: Principal = ADA, event: str = "a:b", data: bytes = DATA) -> bytes:
    return binding(principal, event, msgspec.Raw(data))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(bound(data=b'{"l":[1,2],"k":1}'), True, id="keys turned, no spaces"),
        pytest.param(
            bound(security.agent("ada", ("b:c", "a:*"), ("a:b",), ("a:d",))),
            True,
            id="rights turned",
        ),
        pytest.param(bound(data=b'{"k": 1, "l": [2, 1]}'), False, id="a list turned"),
        pytest.param(bound(data=b'{"k": 1.0, "l": [1, 2]}'), False, id="another number"),
        pytest.param(bound(data=b'{"k": 1}'), False, id="less data"),
        pytest.param(bound(event="a:c"), False, id="another event"),
        pytest.param(
            bound(security.agent("bob", ADA.allow, ADA.ask, ADA.deny)), False, id="another agent"
        ),
        pytest.param(bound(security.agent("ada", ADA.allow, ADA.ask)), False, id="other rights"),
        pytest.param(bound(security.handler("a:b", ADA)), False, id="a handler for it"),
    ],
)
def test_what_an_approval_is_good_for(other: bytes, same: bool) -> None:
    assert (other == bound()) is same

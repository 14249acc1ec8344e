from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Call, Rejected
from ksi_daemon.log.statements import FAILURE
from ksi_daemon.providers.model import Capabilities, Completion
from ksi_daemon.services.completions.blocks import Block
from ksi_daemon.services.completions.records import attempt_rows, failure_row

SCHEMAS: dict[str, dict[str, Any]] = {"a:b": {}, "a:c": {}}
# The last four values of an attempt's row.
COLUMNS = ("size", "tries", "suspect", "complex")


class Source:
    """A provider, as far as rows know one."""

    name = "p"
    model = "m"
    capabilities = Capabilities()


class Talk:
    """A session, as far as rows know one."""

    agent_id = "ann"
    provider = Source()


def call(name: str = "a:b", dialect: str = "event", end: int = 9, **args: Any) -> Call:
    return Call(name, args, "c", True, dialect, 2, end)


def broken(dialect: str = "event") -> Rejected:
    return Rejected("malformed_block", "no", dialect, 2, 30, "")


def facts(*found: Call | Rejected, refused: bool = False) -> list[dict[str, Any]]:
    blocks = [Block(n, each) for n, each in enumerate(found, start=1)]
    rows = attempt_rows(
        "c1",
        Talk(),  # type: ignore[arg-type]
        Completion(text="", stop_reason="stop", model="m"),
        blocks,
        schemas=SCHEMAS,
        tries=[1] * len(blocks),
        refused=refused,
    )
    return [dict(zip(COLUMNS, values[-4:], strict=True)) for _, values in rows]


@pytest.mark.parametrize(
    ("found", "size"),
    [
        pytest.param(call(end=40, k=1), 38, id="a call in text: as written"),
        pytest.param(call(dialect="native", k="v"), len('{"k":"v"}'), id="native: its arguments"),
        pytest.param(broken(), 28, id="a rejected block"),
    ],
)
def test_how_large_a_block_is(found: Call | Rejected, size: int) -> None:
    assert facts(found)[0]["size"] == size


@pytest.mark.parametrize(
    ("found", "suspect"),
    [
        pytest.param([call()], [0], id="a call"),
        pytest.param([call("no:such")], [1], id="of what it was not told"),
        pytest.param([call(k=1), call(k=1)], [0, 1], id="the same again"),
        pytest.param([call(k=1), call(k=2)], [0, 0], id="other arguments"),
        pytest.param([call(k=1), call("a:c", k=1)], [0, 0], id="another name"),
        pytest.param([call("no:such", "native")] * 2, [0, 0], id="native"),
        pytest.param([broken(), call()], [0, 0], id="beside what cannot be read"),
    ],
)
def test_what_may_have_fired_falsely(found: list[Any], suspect: list[int]) -> None:
    assert [each["suspect"] for each in facts(*found)] == suspect


def test_what_did_not_run_did_not_fire_falsely() -> None:
    assert facts(call("no:such"), refused=True)[0]["suspect"] == 0


@pytest.mark.parametrize(
    ("found", "complex_"),
    [
        pytest.param(call(k="plain"), 0, id="simple"),
        pytest.param(call(k="two\nlines"), 1, id="complex"),
        pytest.param(broken(), None, id="nobody knows"),
    ],
)
def test_complex_data(found: Call | Rejected, complex_: int | None) -> None:
    assert facts(found)[0]["complex"] == complex_


def test_a_completion_that_never_came() -> None:
    sql, (event_id, ts, *rest) = failure_row("e1", "ann", Source(), "provider_timeout")  # type: ignore[arg-type]
    assert (sql, event_id, rest) == (FAILURE, "e1", ["ann", "p", "m", "provider_timeout"])
    assert ts > 0

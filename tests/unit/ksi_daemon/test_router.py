from __future__ import annotations

import asyncio
import threading
from sqlite3 import Connection
from typing import Any

import anyio
import msgspec
import pytest
from pydantic import BaseModel

from ksi_daemon import security
from ksi_daemon.errors import Conflict, KsiError, StorageError
from ksi_daemon.events import Event, Outcome, now
from ksi_daemon.router import (
    Committed,
    Context,
    Limits,
    Nothing,
    Notice,
    Router,
    Submission,
    Submitted,
    Subscription,
    handles,
)
from ksi_daemon.security import Principal
from ksi_daemon.testing import running_router

CLIENT = security.client(1000, 1)


class Text(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class Model(BaseModel):
    text: str


class Self(msgspec.Struct):
    agent_id: str


class Bench:
    """Handlers of each kind, and some that go wrong."""

    NOTICES = (Notice("bench:told", "Something happened."),)

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.release = asyncio.Event()

    @handles("bench:echo")
    async def echo(self, data: Text, ctx: Context) -> dict[str, str]:
        """Return the text."""
        self.seen.append(data.text)
        return {"text": data.text}

    @handles("bench:model")
    async def model(self, data: Model, ctx: Context) -> Model:
        """Return a pydantic model."""
        return data

    @handles("bench:read", effect="observe", inline=True)
    def read(self, data: Nothing, ctx: Context) -> dict[str, int]:
        """Read memory."""
        return {"seen": len(self.seen)}

    @handles("bench:thread")
    def thread(self, data: Nothing, ctx: Context) -> str:
        """Run somewhere else."""
        return threading.current_thread().name

    @handles("bench:store", transaction=True)
    def store(self, data: Text, ctx: Context, connection: Connection) -> list[Any]:
        """Use the log's connection."""
        return list(connection.execute("SELECT ?", (data.text,)).fetchone())

    @handles("bench:conflict", transaction=True)
    def conflict(self, data: Nothing, ctx: Context, connection: Connection) -> None:
        """Refuse."""
        raise Conflict("not now", code="version_conflict")

    @handles("bench:raise")
    async def fail(self, data: Nothing, ctx: Context) -> None:
        """Raise."""
        raise ValueError("broken")

    @handles("bench:exit")
    async def leave(self, data: Nothing, ctx: Context) -> None:
        """Try to end the process."""
        raise SystemExit(3)

    @handles("bench:hang", timeout_s=0.01)
    async def hang(self, data: Nothing, ctx: Context) -> None:
        """Never end."""
        await anyio.sleep_forever()

    @handles("bench:wait")
    async def wait(self, data: Nothing, ctx: Context) -> str:
        """End when released."""
        await self.release.wait()
        return "released"

    @handles("bench:emit")
    async def emit(self, data: Text, ctx: Context) -> Any:
        """Emit another event."""
        return await ctx.emit(data.text, {"text": "from a handler"})

    @handles("bench:about", own="agent_id")
    async def about(self, data: Self, ctx: Context) -> str:
        """Say whom it is about."""
        return data.agent_id

    @handles("bench:admin", effect="admin")
    async def admin(self, data: Nothing, ctx: Context) -> None:
        """Do what few may."""

    @handles("bench:odd")
    async def odd(self, data: Nothing, ctx: Context) -> object:
        """Return what is no JSON."""
        return {1, float("nan")}


def asked(
    event: str, data: bytes = b"{}", principal: Principal = CLIENT, **rest: Any
) -> Submission:
    return Submission(event=event, data=msgspec.Raw(data), principal=principal, **rest)


async def submit(router: Router, event: str, data: bytes = b"{}", **rest: Any) -> Submitted:
    return await router.submit(asked(event, data, **rest))


def code(submitted: Submitted) -> str | None:
    return submitted.outcome.error.code if submitted.outcome.error else None


@pytest.mark.parametrize(
    ("event", "data", "result"),
    [
        pytest.param("bench:echo", b'{"text":"a"}', {"text": "a"}, id="async"),
        pytest.param("bench:model", b'{"text":"a"}', {"text": "a"}, id="pydantic"),
        pytest.param("bench:read", b"{}", {"seen": 0}, id="inline"),
        pytest.param("bench:store", b'{"text":"a"}', ["a"], id="transaction"),
    ],
)
async def test_a_handler_answers(event: str, data: bytes, result: Any) -> None:
    async with running_router(Bench()) as (router, _):
        submitted = await submit(router, event, data)
        assert submitted.outcome.status == "handled"
        assert submitted.result() == result


async def test_a_plain_function_runs_in_a_worker_thread() -> None:
    async with running_router(Bench()) as (router, _):
        name = (await submit(router, "bench:thread")).result()
    assert name != threading.main_thread().name


@pytest.mark.parametrize(
    ("event", "data", "status", "error"),
    [
        pytest.param("bench:nope", b"{}", "unknown", "unknown_event", id="unknown"),
        pytest.param("bench:echo", b"{}", "rejected", "args_schema", id="missing field"),
        pytest.param("bench:model", b"{}", "rejected", "args_schema", id="pydantic refuses"),
        pytest.param("bench:echo", b"[]", "rejected", "args_schema", id="not an object"),
        pytest.param("bench:echo", b'{"text":"\xff"}', "rejected", "args_schema", id="not UTF-8"),
        pytest.param(
            "bench:echo", b'{"text":"","_agent_id":"x"}', "rejected", "args_schema", id="forged key"
        ),
        pytest.param(
            "bench:echo",
            b'{"text":' + b"[" * 80 + b"]" * 80 + b"}",
            "rejected",
            "depth_limit",
            id="too deep",
        ),
        pytest.param("bench:told", b"{}", "denied", "denied", id="a notice"),
        pytest.param("bench:raise", b"{}", "failed", "handler_failed", id="handler raises"),
        pytest.param("bench:exit", b"{}", "failed", "handler_failed", id="handler exits"),
        pytest.param("bench:conflict", b"{}", "failed", "version_conflict", id="refuses"),
        pytest.param("bench:hang", b"{}", "timeout", "handler_timeout", id="overruns"),
    ],
)
async def test_what_goes_wrong_is_in_the_log(
    event: str, data: bytes, status: str, error: str
) -> None:
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(router, event, data)
        assert (submitted.outcome.status, code(submitted)) == (status, error)
        [logged] = journal.events
        assert (logged.name, logged.status) == (event, status)
        # It costs only its own event.
        assert (await submit(router, "bench:echo", b'{"text":"b"}')).outcome.status == "handled"


async def test_a_name_that_is_too_long_does_not_fill_the_log() -> None:
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(router, "a:" + "b" * 10_000)
    assert submitted.outcome.status == "unknown"
    assert len(journal.events[0].name) <= 129


async def test_H5_an_unknown_event_names_the_nearest_one() -> None:
    async with running_router(Bench()) as (router, _):
        error = (await submit(router, "bench:ehco")).outcome.error
    assert error is not None
    assert error.hint == "did you mean 'bench:echo'?"


async def test_a_result_that_is_no_json_becomes_text_or_null() -> None:
    async with running_router(Bench()) as (router, _):
        submitted = await submit(router, "bench:odd")
    assert submitted.outcome.status == "handled"


async def test_the_event_is_durable_before_its_handler_and_the_outcome_before_the_reply() -> None:
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(router, "bench:echo", b'{"text":"a"}')
        event_work, outcome_work = journal.works
        assert event_work.event is submitted.event
        assert outcome_work.ended is not None
        assert outcome_work.ended.seq == submitted.event.seq == 1


async def test_a_transaction_is_one_commit() -> None:
    async with running_router(Bench()) as (router, journal):
        await submit(router, "bench:store", b'{"text":"a"}')
        [work] = journal.works
    assert work.outcome is not None
    assert work.outcome.status == "handled"


async def test_reads_of_an_operator_are_counted_and_not_logged() -> None:
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(router, "bench:read")
        assert (submitted.event.seq, journal.works) == (0, [])
        assert router.counts["bench:read"] == 1


async def test_reads_of_an_agent_are_logged() -> None:
    reader = security.agent("a", ("bench:read",))
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(router, "bench:read", principal=reader)
        assert submitted.result() == {"seen": 0}
        assert [event.name for event in journal.events] == ["bench:read"]


async def test_wait_logged_answers_before_the_handler_ends() -> None:
    bench = Bench()
    async with running_router(bench) as (router, journal):
        submitted = await submit(router, "bench:wait", wait="logged")
        assert submitted.outcome == Outcome("received")
        assert journal.outcomes == {}
        bench.release.set()
        await router.drained()
        assert journal.outcomes[1].status == "handled"


async def test_the_source_is_stamped() -> None:
    async with running_router(Bench()) as (router, journal):
        await submit(router, "bench:echo", b'{"text":"a"}')
        [event] = journal.events
    assert (event.source, event.correlation_id, event.cause_id) == ("client:1000/1", event.id, None)


async def test_a_handlers_event_is_caused_by_its_own() -> None:
    async with running_router(Bench()) as (router, journal):
        await submit(router, "bench:emit", b'{"text":"bench:echo"}')
        first, second = journal.events
    assert (second.source, second.cause_id, second.hop) == ("handler:bench:emit", first.id, 1)
    assert second.correlation_id == first.id


async def test_a_handler_has_no_more_rights_than_its_cause() -> None:
    agent = security.agent("a", ("bench:emit",))
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(router, "bench:emit", b'{"text":"bench:echo"}', principal=agent)
        assert code(submitted) == "denied"
        assert [(event.name, event.status) for event in journal.events] == [
            ("bench:emit", "failed"),
            ("bench:echo", "denied"),
        ]


@pytest.mark.parametrize(
    ("allow", "event", "status"),
    [
        pytest.param((), "bench:echo", "denied", id="nothing granted"),
        pytest.param(("bench:echo",), "bench:echo", "handled", id="granted by name"),
        pytest.param(("bench:*",), "bench:echo", "handled", id="granted by pattern"),
        pytest.param(("*",), "bench:admin", "denied", id="admin needs its name"),
        pytest.param(("bench:admin",), "bench:admin", "handled", id="admin by name"),
        pytest.param(("other:*",), "bench:nope", "unknown", id="unknown is unknown"),
    ],
)
async def test_what_an_agent_may(allow: tuple[str, ...], event: str, status: str) -> None:
    agent = security.agent("a", allow)
    async with running_router(Bench()) as (router, journal):
        submitted = await submit(
            router, event, b'{"text":"x"}' if "echo" in event else b"{}", principal=agent
        )
        assert submitted.outcome.status == status
        assert journal.events[0].agent_id == "a"


async def test_the_hint_of_an_unknown_event_names_nothing_that_is_denied() -> None:
    agent = security.agent("a", ("bench:read",))
    async with running_router(Bench()) as (router, _):
        error = (await submit(router, "bench:ehco", principal=agent)).outcome.error
    assert error is not None
    assert "bench:echo" not in (error.hint or "") + error.message


async def test_S002_45_an_agent_cannot_speak_as_another_nor_forge_metadata() -> None:
    agent = security.agent("a", ("bench:*",))
    async with running_router(Bench()) as (router, journal):
        forged = b'{"agent_id":"b"}'
        assert code(await submit(router, "bench:about", forged, principal=agent)) == "denied"
        own = b'{"_agent_id":"b","_context":{}}'
        assert (await submit(router, "bench:about", own, principal=agent)).result() == "a"
        assert msgspec.json.decode(journal.events[1].data) == {"agent_id": "a"}


async def test_a_story_ends_at_the_hop_limit() -> None:
    cause = Event(
        id="e",
        ts=now(),
        name="a:b",
        data=msgspec.Raw(b"{}"),
        source="x",
        correlation_id="e",
        hop=2,
        status="handled",
    )
    async with running_router(Bench(), limits=Limits(hops=2)) as (router, _):
        submitted = await submit(router, "bench:echo", b'{"text":"a"}', cause=cause)
    assert code(submitted) == "hop_limit"


async def test_a_story_ends_at_its_budget_of_events() -> None:
    agent = security.agent("a", ("bench:*",))
    async with running_router(Bench(), limits=Limits(events_per_root=2)) as (router, _):
        codes = [
            code(
                await submit(
                    router, "bench:echo", b'{"text":"a"}', principal=agent, correlation_id="root"
                )
            )
            for _ in range(3)
        ]
    assert codes == [None, None, "root_budget"]


async def test_A6_the_same_idempotency_key_is_logged_once() -> None:
    bench = Bench()
    async with running_router(bench) as (router, journal):
        first = await submit(router, "bench:echo", b'{"text":"a"}', idempotency_key="k")
        again = await submit(router, "bench:echo", b'{"text":"a"}', idempotency_key="k")
        other = await submit(router, "bench:echo", b'{"text":"b"}', idempotency_key="k")
    assert (again.event.seq, again.duplicate, again.result()) == (1, True, first.result())
    assert code(other) == "idem_conflict"
    assert (bench.seen, len(journal.events)) == (["a"], 1)


async def test_a_request_that_is_sent_again_while_it_runs_gets_the_same_answer() -> None:
    bench = Bench()
    async with running_router(bench) as (router, journal):
        first = router.submit(asked("bench:wait", idempotency_key="k"))
        again = router.submit(asked("bench:wait", idempotency_key="k"))
        logged = await submit(router, "bench:wait", idempotency_key="k", wait="logged")
        assert (logged.duplicate, logged.outcome) == (True, Outcome("received"))
        bench.release.set()
        answers = [(await each).result() for each in (first, again)]
        assert answers == ["released", "released"]
        assert ((await first).duplicate, (await again).duplicate) == (False, True)
        assert len(journal.events) == 1


async def test_notices_are_counted_by_their_names() -> None:
    async with running_router(Bench()) as (router, _):
        await router.notify("bench:told", {})
        await submit(router, "bench:nope")
    assert router.counts == {"bench:told": 1, "unknown": 1}


@pytest.mark.parametrize(
    ("event", "status"),
    [
        pytest.param("bench:nope", "unknown", id="unknown"),
        pytest.param("bench:admin", "denied", id="denied"),
        pytest.param("bench:model", "rejected", id="rejected"),
    ],
)
async def test_a_refusal_that_a_crash_repeats_is_logged_once(event: str, status: str) -> None:
    agent = security.agent("a", ("*",))
    async with running_router(Bench()) as (router, journal):
        first, again = [
            await submit(router, event, principal=agent, event_id="c1.1", idempotency_key="c1.1")
            for _ in range(2)
        ]
        assert [each.status for each in journal.events] == [status]
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.outcome, again.event.seq) == (first.outcome, 1)


async def test_a_refusal_is_no_answer_for_a_client_that_tries_again() -> None:
    async with running_router(Bench()) as (router, journal):
        refused = await submit(router, "later:added", idempotency_key="k")
        again = await submit(router, "later:added", idempotency_key="k")
        assert [each.status for each in journal.events] == ["unknown", "unknown"]
    assert (refused.duplicate, again.duplicate) == (False, False)


async def test_a_receipt_stays_one_when_a_crash_repeats_its_event() -> None:
    class Clerk:
        @handles("clerk:take", receipt=True)
        async def take(self, data: Nothing, ctx: Context) -> dict[str, int]:
            """Take."""
            return {"number": 1}

    async with running_router(Clerk()) as (router, _):
        first, again = [
            await submit(router, "clerk:take", event_id="e", idempotency_key="e") for _ in range(2)
        ]
    assert (first.receipt, first.duplicate) == (True, False)
    assert (again.receipt, again.duplicate) == (True, True)


async def test_nothing_is_acknowledged_when_the_storage_fails() -> None:
    bench = Bench()
    async with running_router(bench) as (router, journal):
        journal.error = StorageError("no space", code="storage_full", retryable=True)
        submitted = await submit(router, "bench:echo", b'{"text":"a"}')
    assert (submitted.outcome.status, code(submitted)) == ("failed", "storage_full")
    assert (submitted.event.seq, bench.seen) == (0, [])


async def test_notices_go_to_the_log_in_the_daemons_name() -> None:
    async with running_router(Bench()) as (router, journal):
        (await router.notify("bench:told", {"n": 1}, agent_id="a")).result()
        [event] = journal.events
    assert (event.source, event.status, event.agent_id) == ("system", "handled", "a")


async def test_subscribers_are_told_in_order_after_the_commit() -> None:
    told: list[tuple[str, int]] = []
    ends: list[str] = []

    def committed(each: Committed) -> None:
        told.append((each.event.name, each.event.seq))

    def ended(event: Event, outcome: Outcome) -> None:
        ends.append(outcome.status)

    async with running_router(Bench()) as (router, _):
        stop = router.subscribe(Subscription(("bench:echo",), committed, ended))
        await submit(router, "bench:echo", b'{"text":"a"}')
        await submit(router, "bench:store", b'{"text":"a"}')
        stop()
        await submit(router, "bench:echo", b'{"text":"a"}')
    assert (told, ends) == ([("bench:echo", 1)], ["handled"])


async def test_several_handlers_run_in_order_and_the_first_answers() -> None:
    class Second:
        @handles("bench:echo")
        async def also(self, data: Text, ctx: Context) -> str:
            """Come second."""
            bench.seen.append(f"second {data.text}")
            return "ignored"

    bench = Bench()
    async with running_router(bench, Second()) as (router, _):
        assert (await submit(router, "bench:echo", b'{"text":"a"}')).result() == {"text": "a"}
    assert bench.seen == ["a", "second a"]


async def test_result_raises_what_went_wrong() -> None:
    async with running_router(Bench()) as (router, _):
        submitted = await submit(router, "bench:conflict")
    with pytest.raises(KsiError, match="not now") as caught:
        submitted.result()
    assert caught.value.code == "version_conflict"

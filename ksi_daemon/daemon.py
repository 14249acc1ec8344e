"""The life of the daemon: starts, serves, reads its settings again, stops in reverse.

Start: private directories, the lock, the log (migrated, checked), the services, recovery, and
last the socket, so that no client ever sees a half recovered daemon. Stop: no new connections,
subscribers are told, what is under way may end within the drain time, the log is closed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import msgspec
import structlog

from ksi_daemon import provisions
from ksi_daemon.clock import Clock, SteadyClock
from ksi_daemon.collector import collect_when_quiet, patient
from ksi_daemon.config import CONFIG_EXIT, Settings
from ksi_daemon.errors import UsageError
from ksi_daemon.events import ErrorInfo, Outcome
from ksi_daemon.feed import Feed
from ksi_daemon.house import House, furnish, offer_code
from ksi_daemon.log import EventLog
from ksi_daemon.log.mounts import check_local
from ksi_daemon.reload import AT_ONCE, changes
from ksi_daemon.router import Router
from ksi_daemon.security.redaction import Redactor, secrets_in
from ksi_daemon.services.mcp import specs_of
from ksi_daemon.stacks import stacks
from ksi_daemon.transports.lock import held, private_directory
from ksi_daemon.transports.systemd import ServiceManager
from ksi_daemon.watchdog import watched
from ksi_daemon.work import Ended, Work

__all__ = ["STORAGE_EXIT", "Daemon"]

STORAGE_EXIT: Final = 74  # sysexits.h: EX_IOERR

# The log's queue is bounded; so is what waits for it here.
LOST_AT_ONCE: Final = 1_000

_LOST: Final = Outcome(
    "lost", error=ErrorInfo("lost", "the daemon died before the handler's end was known")
)

log = structlog.get_logger()


class Daemon:
    """What runs between start and stop."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        *,
        manager: ServiceManager | None = None,
        read_settings: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock or SteadyClock()
        self._manager = manager or ServiceManager({})
        self._read_settings = read_settings or (lambda: settings)
        self._mcp_servers = specs_of(settings.mcp_servers, exit_code=CONFIG_EXIT)
        self.stopping = anyio.Event()
        self.storage_error: BaseException | None = None

    async def run(self, ready: Callable[[Path], None]) -> int:
        """Serve until a signal or system:shutdown; return the exit code."""
        settings = self.settings
        private_directory(settings.var_path)
        private_directory(settings.socket_path.parent)
        if not settings.allow_network_fs:
            check_local(settings.var_path)
        with held(settings.lock_path), _unwrapped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_signals, tasks.cancel_scope)
                await self._serve(ready)
                tasks.cancel_scope.cancel()
        return STORAGE_EXIT if self.storage_error is not None else 0

    async def _serve(self, ready: Callable[[Path], None]) -> None:
        settings = self.settings
        feed, redactor = Feed(), Redactor(secrets_in(os.environ))
        async with (
            EventLog.open(
                settings.log_path,
                durability=settings.durability,
                on_commit=feed.publish,
                on_failure=self._storage_failed,
            ) as event_log,
            Router(event_log, feed, provisions.limits(settings), redactor) as router,
            anyio.create_task_group() as tasks,
        ):
            feed.last_seq = event_log.last_seq
            house = furnish(
                settings, router, event_log, tasks, clock=self._clock, stop=self.stopping.set
            )
            if settings.run_code:
                await offer_code(settings, router)
            await self._recover(router, event_log, house)
            tasks.start_soon(house.rules.run)
            tasks.start_soon(house.timers.run)
            tasks.start_soon(house.plugins.watch)
            tasks.start_soon(house.retention.run)
            tasks.start_soon(collect_when_quiet, router.counts.total)
            await house.programs.start(tasks)
            await house.server.start(self._manager.listener(settings.socket_path))
            await tasks.start(self._watch_requests, router, house)
            tasks.start_soon(self._manager.keep_alive)
            with patient(), watched():
                ready(settings.socket_path)
                self._manager.ready("serving")
                await self.stopping.wait()
                self._manager.stopping()
                await self._stop(router, house)
            await house.pool.aclose()
            tasks.cancel_scope.cancel()

    async def _recover(self, router: Router, event_log: EventLog, house: House) -> None:
        """Bring back what an earlier run left, and say so in the log."""
        found = await house.plugins.load()
        started, pending = time.perf_counter(), await event_log.reader.pending_messages()
        servers = await house.mcp.restore(self._mcp_servers)
        lost = await _end_unfinished(event_log)
        restored = await house.agents.restore()
        await house.approvals.restore()
        rules, timers = await house.rules.restore(), await house.timers.restore()
        if lost or pending:
            interrupted = sum(message.taken for message in pending)
            recovered = {
                "redispatched": len(pending) - interrupted,
                "unknown": lost,
                "interrupted": interrupted,
                "ms": round((time.perf_counter() - started) * 1000, 3),
            }
            (await router.notify("system:recovered", recovered)).result()
        data = {
            "lost": lost,
            "agents": restored,
            "rules": rules,
            "timers": timers,
            "plugins": found,
            "mcp": servers,
        }
        (await router.notify("system:started", data)).result()

    def _storage_failed(self, error: BaseException) -> None:
        """Stop at once: what cannot be written must not be acknowledged."""
        log.error("storage_failed", error=str(error))
        self.storage_error = error
        self.stopping.set()

    async def _stop(self, router: Router, house: House) -> None:
        await house.server.stop_listening()
        house.programs.stop_listening()
        house.subscriptions.close()
        if self.storage_error is None:
            router.notify("system:stopping", {"running": router.running})
        with anyio.move_on_after(self.settings.drain_timeout_s):
            await house.mailboxes.idle()
            await router.drained()
        with anyio.move_on_after(self.settings.drain_timeout_s):
            await house.programs.stop()
        house.server.close()

    async def _watch_signals(self, scope: anyio.CancelScope) -> None:
        """End in good order at the first SIGTERM or SIGINT, at once at the second."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                log.info("signal_received", signal=signal.Signals(number).name)
                if self.stopping.is_set():
                    scope.cancel()
                self.stopping.set()

    async def _watch_requests(
        self, router: Router, house: House, *, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        """Read the settings again at SIGHUP, say what everything is doing at SIGUSR1.

        A terminal that is closed sends SIGHUP too: a daemon in its foreground ends with it.
        """
        with anyio.open_signal_receiver(signal.SIGHUP, signal.SIGUSR1) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGUSR1:
                    log.warning("stacks", text=stacks())
                elif sys.stdin is not None and sys.stdin.isatty():
                    self.stopping.set()
                else:
                    self._manager.reloading()
                    await self._reload(router, house)
                    self._manager.ready("serving")

    async def _reload(self, router: Router, house: House) -> None:
        """Take over the settings as they are now, or keep the old ones and say why."""
        try:
            new = self._read_settings()
            provisions.providers(new)
            price_of = provisions.prices(new)
        except UsageError as exc:
            log.error("not_reloaded", error=exc.message)
            await router.notify("system:not_reloaded", {"error": exc.message, "hint": exc.hint})
            return
        changed, needs_restart = changes(self.settings, new)
        now = {name: getattr(new, name) for name in AT_ONCE}
        self.settings = msgspec.structs.replace(self.settings, **now)
        router.limits = router.admission.limits = provisions.limits(self.settings)
        house.agents.defaults = house.mailboxes.defaults = provisions.defaults(self.settings)
        house.completions.price_of = price_of
        house.completions.provider_of = provisions.provider_of(self.settings, house.pool)
        await house.plugins.refresh()
        data = {"changed": changed, "needs_restart": needs_restart}
        await router.notify("system:reloaded", data)


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Raise the one error of a task group as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__


async def _end_unfinished(event_log: EventLog) -> int:
    """Give the events whose handlers were cut off an outcome; return how many are ``lost``.

    A message that is in its mailbox has been sent: it will be answered, only nobody waits here.
    """
    delivered = await event_log.reader.delivered()
    unfinished = await event_log.reader.unfinished()
    for start in range(0, len(unfinished), LOST_AT_ONCE):
        ends = [
            Ended(seq, _sent(delivered[seq]) if seq in delivered else _LOST)
            for seq in unfinished[start : start + LOST_AT_ONCE]
        ]
        for written in [event_log.submit(Work(ended=end)) for end in ends]:
            await written
    return len(unfinished) - len(delivered)


def _sent(request_id: str) -> Outcome:
    result = msgspec.Raw(msgspec.json.encode({"request_id": request_id}))
    return Outcome("handled", result)

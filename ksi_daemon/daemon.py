"""The composition root: the one module that knows everyone. Starts, serves, stops in reverse.

Start: private directories, the lock, the log (migrated, checked), the services, recovery, and
last the socket, so that no client ever sees a half recovered daemon. Stop: no new connections,
subscribers are told, what is under way may end within the drain time, the log is closed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc
import msgspec
import structlog

from ksi_daemon import provisions
from ksi_daemon.clock import Clock, SteadyClock
from ksi_daemon.collector import collect_when_quiet, patient
from ksi_daemon.config import CONFIG_EXIT, Settings
from ksi_daemon.errors import KsiError, UsageError
from ksi_daemon.events import ErrorInfo, Outcome
from ksi_daemon.feed import Feed
from ksi_daemon.files import FileStore
from ksi_daemon.log import EventLog
from ksi_daemon.log.inbox import Inbox
from ksi_daemon.log.mounts import check_local
from ksi_daemon.log.purses import purse_used
from ksi_daemon.log.reader import LogReader
from ksi_daemon.plugins import Plugins
from ksi_daemon.providers.pool import ProviderPool
from ksi_daemon.reload import AT_ONCE, changes
from ksi_daemon.router import Router
from ksi_daemon.security.redaction import Redactor, secrets_in
from ksi_daemon.services.agents import Agents, FamilyLimits, Mailboxes
from ksi_daemon.services.approvals import Approvals
from ksi_daemon.services.attempts import Attempts
from ksi_daemon.services.causes import Causes
from ksi_daemon.services.completions import Completions
from ksi_daemon.services.components import Components
from ksi_daemon.services.extraction import Extraction
from ksi_daemon.services.mcp import McpServers, specs_of
from ksi_daemon.services.metrics import Metrics
from ksi_daemon.services.monitor import Monitor
from ksi_daemon.services.permissions import Permissions
from ksi_daemon.services.retention import Retention
from ksi_daemon.services.routing import Rules, Timers
from ksi_daemon.services.run_code import CodeLimits, RunCode
from ksi_daemon.services.state import State
from ksi_daemon.services.subscriptions import Subscriptions
from ksi_daemon.services.system import System
from ksi_daemon.services.tools import Tools
from ksi_daemon.stacks import stacks
from ksi_daemon.tools import handler
from ksi_daemon.transports.http import App, HttpDoor, token
from ksi_daemon.transports.http.metrics import MetricsRoute
from ksi_daemon.transports.lock import held, private_directory
from ksi_daemon.transports.mcp import Callers, Library, McpRoute, McpSocket
from ksi_daemon.transports.systemd import ServiceManager
from ksi_daemon.transports.unix import UnixServer
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


class Programs(NamedTuple):
    """The ways in for programs that are no operators: MCP by lines, and HTTP if it is open."""

    callers: Callers
    mcp_socket: McpSocket
    mcp_route: McpRoute
    http: HttpDoor | None

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Let them in; raise UsageError if a door cannot be opened."""
        tasks.start_soon(self.mcp_route.run)
        await self.mcp_socket.start(tasks)
        if self.http is not None:
            await self._check_profile()
            await self.http.start(tasks)

    def stop_listening(self) -> None:
        """Let no more in."""
        self.mcp_socket.stop_listening()
        if self.http is not None:
            self.http.stop_listening()

    async def stop(self) -> None:
        """Send away who is in."""
        await self.mcp_socket.stop()
        if self.http is not None:
            await self.http.stop()
        self.mcp_route.stop()

    async def _check_profile(self) -> None:
        """Refuse to start with a profile that nobody could be given."""
        try:
            await self.callers.principal("http")
        except KsiError as exc:
            raise UsageError(
                f"mcp_profile: {exc.message}", exit_code=CONFIG_EXIT, hint=exc.hint
            ) from exc


class House(NamedTuple):
    """The parts that are spoken to while the daemon runs."""

    server: UnixServer
    programs: Programs
    subscriptions: Subscriptions
    agents: Agents
    mailboxes: Mailboxes
    completions: Completions
    rules: Rules
    approvals: Approvals
    timers: Timers
    pool: ProviderPool
    plugins: Plugins
    mcp: McpServers
    retention: Retention


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
            house = self._furnish(router, event_log, tasks)
            if settings.run_code:
                await _offer_code(settings, router)
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

    def _furnish(self, router: Router, event_log: EventLog, tasks: anyio.abc.TaskGroup) -> House:
        """Make the services, give each what it needs, and include them."""
        settings, reader = self.settings, event_log.reader
        server = _server(settings, router)
        subscriptions = Subscriptions(
            router,
            reader,
            tasks,
            max_events=settings.subscriber_events,
            max_bytes=settings.subscriber_bytes,
        )
        pool = provisions.providers(settings)
        components = Components(router, settings.components_path, settings.base_components_path)
        completions = Completions(
            router,
            price_of=provisions.prices(settings),
            provider_of=provisions.provider_of(settings, pool),
        )
        files = FileStore(settings.files_path)
        plugins = Plugins(router, settings.plugins_path, files)
        mcp = McpServers(router, reader, tasks, files)
        agents, mailboxes = _agents(settings, router, reader, components, completions, tasks, pool)
        rules, timers, approvals = _standing(router, reader, agents, self._clock)
        retention = Retention(
            router,
            event_log,
            self._clock,
            days=settings.retention_days,
            limit_bytes=settings.retention_bytes,
        )
        programs = _programs(settings, router, components, files)
        gauges = {
            "connections": lambda: len(server.connections),
            "http_port": lambda: programs.http and programs.http.port,
            "agents": lambda: len(agents),
            "mailbox_messages": lambda: agents.waiting,
            "subscriber_queue_events": lambda: subscriptions.queued,
            "writer": event_log.gauges,
        }
        metrics = Metrics(
            router,
            reader,
            log_path=settings.log_path,
            writer=event_log.gauges,
            gauges=(
                ("ksi_agents", "Agents that live.", lambda: len(agents)),
                ("ksi_connections", "Clients.", lambda: len(server.connections)),
                ("ksi_subscriptions", "Subscriptions of clients.", lambda: len(router.feed)),
                (
                    "ksi_subscriber_queue_events",
                    "Events that wait for slow clients.",
                    lambda: subscriptions.queued,
                ),
            ),
        )
        for service in (
            self._system(router, gauges),
            agents,
            agents.reports,
            approvals,
            Attempts(router, reader, Inbox(reader)),
            Causes(router, reader, Inbox(reader)),
            completions,
            components,
            Extraction(),
            metrics,
            Monitor(router, reader),
            Permissions(router, components.profiles, components.load_given, agents.principal),
            rules,
            State(reader),
            subscriptions,
            timers,
            Tools(router, plugins),
            mcp,
            retention,
        ):
            router.include(service)
        return House(
            server,
            programs,
            subscriptions,
            agents,
            mailboxes,
            completions,
            rules,
            approvals,
            timers,
            pool,
            plugins,
            mcp,
            retention,
        )

    def _system(self, router: Router, gauges: dict[str, Callable[[], Any]]) -> System:
        return System(
            router,
            stop=self.stopping.set,
            log_path=self.settings.log_path,
            durability=self.settings.durability,
            gauges=gauges,
        )


def _server(settings: Settings, router: Router) -> UnixServer:
    return UnixServer(
        router,
        settings.socket_path,
        durability=settings.durability,
        max_frame_bytes=settings.max_frame_bytes,
        frame_timeout_s=settings.frame_timeout_s,
        stall_timeout_s=settings.stall_timeout_s,
        max_connections=settings.max_connections,
    )


def _programs(
    settings: Settings, router: Router, components: Components, files: FileStore
) -> Programs:
    """Return the doors for programs; the HTTP door has one route for each thing it offers."""
    library, callers = Library(router, files), Callers(components.load_given, settings.mcp_profile)
    mcp_socket = McpSocket(
        settings.mcp_socket_path,
        library,
        callers,
        max_frame_bytes=settings.max_frame_bytes,
        frame_timeout_s=settings.frame_timeout_s,
        stall_timeout_s=settings.stall_timeout_s,
        max_connections=settings.max_connections,
    )
    mcp_route = McpRoute(library, callers, max_body_bytes=settings.max_frame_bytes)
    routes: dict[str, App] = {"/mcp": mcp_route, "/metrics": MetricsRoute(router)}
    return Programs(callers, mcp_socket, mcp_route, _http_door(settings, routes))


def _http_door(settings: Settings, routes: Mapping[str, App]) -> HttpDoor | None:
    if settings.http_port is None:
        return None
    return HttpDoor(
        settings.http_host,
        settings.http_port,
        routes,
        token=token(settings.token_path),
        max_body_bytes=settings.max_frame_bytes,
        frame_timeout_s=settings.frame_timeout_s,
        stall_timeout_s=settings.stall_timeout_s,
        max_connections=settings.max_connections,
    )


def _agents(
    settings: Settings,
    router: Router,
    reader: LogReader,
    components: Components,
    completions: Completions,
    tasks: anyio.abc.TaskGroup,
    pool: ProviderPool,
) -> tuple[Agents, Mailboxes]:
    defaults = provisions.defaults(settings)
    mailboxes = Mailboxes(
        router,
        reader,
        completions,
        tasks,
        build_provider=pool.provider,
        defaults=defaults,
        limit=settings.max_mailbox,
    )
    agents = Agents(
        router,
        mailboxes,
        load_component=components.load_given,
        check_provider=pool.check,
        defaults=defaults,
        max_agents=settings.max_agents,
        family=FamilyLimits(
            settings.max_spawn_depth,
            settings.max_children,
            settings.max_descendants,
            settings.agent_spawns_per_s,
            settings.agent_spawns_burst,
        ),
    )
    return agents, mailboxes


def _standing(
    router: Router, reader: LogReader, agents: Agents, clock: Clock
) -> tuple[Rules, Timers, Approvals]:
    """Return what agents leave standing until it is due, and have it end with them."""
    rules = Rules(router, reader, agents.principal)
    timers = Timers(router, reader, agents.principal, clock)
    approvals = Approvals(router, reader, agents.principal)
    router.admission.approver = approvals
    router.admission.children_of = agents.children
    router.admission.keep_use = purse_used
    agents.on_end += [rules.forget, timers.forget, approvals.forget]
    return rules, timers, approvals


async def _offer_code(settings: Settings, router: Router) -> None:
    """Register run_code; refuse to start where its programs could not be kept in."""
    code = RunCode(CodeLimits(settings.run_code_timeout_s, settings.run_code_memory_bytes))
    try:
        await code.check()
    except KsiError as exc:
        raise UsageError(f"run_code: {exc.message}", exit_code=CONFIG_EXIT, hint=exc.hint) from exc
    router.registry.add(handler(code.run_code, FileStore(settings.files_path)))


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

"""The composition root: what the daemon is made of, and who is given whom. It alone knows everyone.

``furnish`` makes the parts from the settings and includes the services in the router; the life of
the whole, from lock to last reply, is ``daemon``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import anyio
import anyio.abc

from ksi_daemon import provisions
from ksi_daemon.clock import Clock
from ksi_daemon.config import CONFIG_EXIT, Settings
from ksi_daemon.errors import KsiError, UsageError
from ksi_daemon.files import FileStore
from ksi_daemon.log import EventLog
from ksi_daemon.log.inbox import Inbox
from ksi_daemon.log.purses import purse_used
from ksi_daemon.log.reader import LogReader
from ksi_daemon.plugins import Plugins
from ksi_daemon.providers.pool import ProviderPool
from ksi_daemon.router import Router
from ksi_daemon.services.agents import Agents, FamilyLimits, Mailboxes
from ksi_daemon.services.approvals import Approvals
from ksi_daemon.services.attempts import Attempts
from ksi_daemon.services.causes import Causes
from ksi_daemon.services.completions import Completions
from ksi_daemon.services.components import Components
from ksi_daemon.services.extraction import Extraction
from ksi_daemon.services.mcp import McpServers
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
from ksi_daemon.tools import handler
from ksi_daemon.transports.http import App, HttpDoor, token
from ksi_daemon.transports.http.metrics import MetricsRoute
from ksi_daemon.transports.mcp import Callers, Library, McpRoute, McpSocket
from ksi_daemon.transports.unix import UnixServer

__all__ = ["House", "Programs", "furnish", "offer_code"]


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


def furnish(
    settings: Settings,
    router: Router,
    event_log: EventLog,
    tasks: anyio.abc.TaskGroup,
    *,
    clock: Clock,
    stop: Callable[[], None],
) -> House:
    """Make the parts, give each what it needs, and include those that handle events.

    *stop* is what ``system:shutdown`` calls. Raise UsageError for settings that cannot be used.
    """
    reader = event_log.reader
    pool, files = provisions.providers(settings), FileStore(settings.files_path)
    components = Components(router, settings.components_path, settings.base_components_path)
    completions = Completions(
        router,
        price_of=provisions.prices(settings),
        provider_of=provisions.provider_of(settings, pool),
    )
    agents, mailboxes = _agents(settings, router, reader, components, completions, tasks, pool)
    rules, timers, approvals = _standing(router, reader, agents, clock)
    house = House(
        server=_server(settings, router),
        programs=_programs(settings, router, components, files),
        subscriptions=Subscriptions(
            router,
            reader,
            tasks,
            max_events=settings.subscriber_events,
            max_bytes=settings.subscriber_bytes,
        ),
        agents=agents,
        mailboxes=mailboxes,
        completions=completions,
        rules=rules,
        approvals=approvals,
        timers=timers,
        pool=pool,
        plugins=Plugins(router, settings.plugins_path, files),
        mcp=McpServers(router, reader, tasks, files),
        retention=Retention(
            router,
            event_log,
            clock,
            days=settings.retention_days,
            limit_bytes=settings.retention_bytes,
        ),
    )
    for service in (
        _system(settings, router, event_log, house, stop),
        _metrics(settings, router, event_log, house),
        *_readers(router, reader, house.plugins),
        components,
        Permissions(router, components.profiles, components.load_given, agents.principal),
        agents.reports,
        agents,
        approvals,
        completions,
        house.mcp,
        house.retention,
        house.subscriptions,
        rules,
        timers,
    ):
        router.include(service)
    return house


async def offer_code(settings: Settings, router: Router) -> None:
    """Register run_code; refuse to start where its programs could not be kept in."""
    code = RunCode(CodeLimits(settings.run_code_timeout_s, settings.run_code_memory_bytes))
    try:
        await code.check()
    except KsiError as exc:
        raise UsageError(f"run_code: {exc.message}", exit_code=CONFIG_EXIT, hint=exc.hint) from exc
    router.registry.add(handler(code.run_code, FileStore(settings.files_path)))


def _readers(router: Router, reader: LogReader, plugins: Plugins) -> tuple[object, ...]:
    """Return the services that need no more than what has been logged."""
    return (
        Attempts(router, reader, Inbox(reader)),
        Causes(router, reader, Inbox(reader)),
        Extraction(),
        Monitor(router, reader),
        State(reader),
        Tools(router, plugins),
    )


def _system(
    settings: Settings,
    router: Router,
    event_log: EventLog,
    house: House,
    stop: Callable[[], None],
) -> System:
    gauges: dict[str, Callable[[], Any]] = {
        "connections": lambda: len(house.server.connections),
        "http_port": lambda: house.programs.http and house.programs.http.port,
        "agents": lambda: len(house.agents),
        "mailbox_messages": lambda: house.agents.waiting,
        "subscriber_queue_events": lambda: house.subscriptions.queued,
        "writer": event_log.gauges,
    }
    return System(
        router,
        stop=stop,
        log_path=settings.log_path,
        durability=settings.durability,
        gauges=gauges,
    )


def _metrics(settings: Settings, router: Router, event_log: EventLog, house: House) -> Metrics:
    return Metrics(
        router,
        event_log.reader,
        log_path=settings.log_path,
        writer=event_log.gauges,
        gauges=(
            ("ksi_agents", "Agents that live.", lambda: len(house.agents)),
            ("ksi_connections", "Clients.", lambda: len(house.server.connections)),
            ("ksi_subscriptions", "Subscriptions of clients.", lambda: len(router.feed)),
            (
                "ksi_subscriber_queue_events",
                "Events that wait for slow clients.",
                lambda: house.subscriptions.queued,
            ),
        ),
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

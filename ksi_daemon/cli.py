"""``ksi-daemon``: arguments to settings, settings to a running daemon, its end to an exit code.

``ksi-daemon repair`` is for a log that a daemon refuses.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import structlog

from ksi_daemon import __version__, failpoints, upkeep
from ksi_daemon.config import Settings, load, var_directory
from ksi_daemon.daemon import STORAGE_EXIT, Daemon
from ksi_daemon.errors import Conflict, KsiError, StorageError, UsageError
from ksi_daemon.security.redaction import Redactor, secrets_in
from ksi_daemon.transports.systemd import ServiceManager

__all__ = ["main"]

USAGE_EXIT: Final = 64
INTERNAL_EXIT: Final = 70  # sysexits.h: EX_SOFTWARE

# How long the threads of handlers may still take when all else has ended.
_LAST_WORK_S: Final = 1.0

# Every setting that is worth a flag; all of them are also environment variables and TOML keys.
_FLAGS: Final = (
    ("--var", "DIR", "directory of run-time files"),
    ("--config", "FILE", "settings as TOML"),
    ("--components", "DIR", "directory of component files"),
    ("--plugins", "DIR", "directory of plugin files"),
    ("--durability", "power|process", "what an acknowledged event survives"),
    ("--allow-network-fs", "yes|no", "use a directory on a network file system all the same"),
    ("--provider", "TYPE", "provider of agents that name none"),
    ("--base-url", "URL", "where that provider is"),
    ("--api-key-env", "NAME", "environment variable that holds its key"),
    ("--model", "NAME", "its model"),
    ("--http-port", "PORT", "open the HTTP door, on loopback and for those who have the token"),
    ("--mcp-profile", "NAME", "what programs may do that ask over MCP"),
    ("--log-level", "LEVEL", "debug, info, warning or error"),
    ("--log-format", "FORMAT", "auto, json or text"),
)

log = structlog.get_logger()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon in the foreground, or repair its log; return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        if argv[:1] == ["repair"]:
            return _repair(argv[1:])
        flags = _arguments(argv)
        settings = load(flags)
        os.umask(0o077)  # whatever is made from here on is ours alone
        _configure_logging(settings)
        if "KSI_FAILPOINT" in os.environ:
            failpoints.install(os.environ["KSI_FAILPOINT"])
        daemon = Daemon(
            settings, manager=ServiceManager(os.environ), read_settings=partial(load, flags)
        )
        return _left(anyio.run(daemon.run, _announce))
    except UsageError as exc:
        return _complain(exc.message, exc.hint, exc.exit_code)
    except KsiError as exc:
        # What recovery could not write comes back as the error of its event.
        broken = isinstance(exc, StorageError) or exc.code.startswith("storage_")
        return _complain(exc.message, exc.hint, STORAGE_EXIT if broken else INTERNAL_EXIT)


def _left(code: int) -> int:
    """Return *code*, or leave with it at once if the thread of a handler does not end.

    The interpreter would wait for it for ever; the log is closed, so nothing else is to be done.
    """
    deadline = time.monotonic() + _LAST_WORK_S
    for thread in threading.enumerate():
        if thread.name.startswith("AnyIO worker"):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                log.warning("handler_left_behind", thread=thread.name)
                sys.stderr.flush()
                os._exit(code)
    return code


def _arguments(argv: Sequence[str] | None) -> dict[str, Any]:
    parser = _Parser(prog="ksi-daemon", description="Run LLM agents as members of an event bus.")
    parser.add_argument("--version", action="version", version=f"ksi {__version__}")
    for flag, metavar, help_text in _FLAGS:
        parser.add_argument(flag, metavar=metavar, help=help_text)
    return vars(parser.parse_args(argv))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        raise UsageError(message, exit_code=USAGE_EXIT)


def _configure_logging(settings: Settings) -> None:
    """Log life-cycle and faults to stderr: for people on a terminal, else JSON lines."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    is_text = settings.log_format == "text" or (
        settings.log_format == "auto" and sys.stderr.isatty()
    )
    last: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if is_text
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
            _masked(Redactor(secrets_in(os.environ))),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def _repair(argv: Sequence[str]) -> int:
    """Save what can be saved of the log of a daemon that is down."""
    parser = _Parser(prog="ksi-daemon repair", description="Save what can be read of a log.")
    parser.add_argument("--var", metavar="DIR", help="directory of run-time files")
    var = parser.parse_args(argv).var or var_directory(os.environ)
    try:
        found = upkeep.repair(Path(var))
    except Conflict as exc:
        return _complain(exc.message, exc.hint, 0)
    rows = ", ".join(f"{count} {name}" for name, count in found.saved.items() if count)
    sys.stdout.write(
        f"saved {rows or 'nothing'}; lost {found.lost} events that are known of\n"
        f"the damaged log is kept: {found.kept}\n"
    )
    return 0


def _masked(redactor: Redactor) -> structlog.typing.Processor:
    """Return what masks the secrets in a line of the log, whatever put them there."""

    def mask(logger: object, method: str, line: Any) -> str:
        return redactor.text(line)

    return mask


def _announce(socket: Path) -> None:
    sys.stdout.write(f"ready {socket}\n")
    sys.stdout.flush()


def _complain(message: str, hint: str | None, exit_code: int) -> int:
    sys.stderr.write(f"ksi-daemon: {message}\n")
    if hint:
        sys.stderr.write(f"hint: {hint}\n")
    return exit_code

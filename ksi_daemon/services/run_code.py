"""run_code: an agent's program, run in a sandbox (``security.sandbox``) or not at all.

Off unless the setting ``run_code`` is on. Where bubblewrap is missing, or may not make namespaces,
the daemon does not start with it on, and a call is refused: nothing ever runs outside a sandbox.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import ByteReceiveStream, Process

from ksi_daemon.errors import KsiError
from ksi_daemon.security.sandbox import UNPRIVILEGED, SandboxLimits, command
from ksi_daemon.tools import tool

__all__ = ["CodeLimits", "RunCode"]

Ended = Literal["exit", "signal", "timeout", "output_limit"]

_PROGRAMS: Final = {"python": ("python3", "-I", "-"), "sh": ("sh", "-s")}
# What a system's programs are made of. On most systems all but the first are links into it.
_SYSTEM: Final = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin")
_MAX_CODE: Final = 256 * 1024  # characters of a program
_MAX_OUTPUT: Final = 64 * 1024  # bytes kept of each output
# A reply may hold many calls, and each run has the memory that one is allowed.
_AT_ONCE: Final = 2
_TOOL_S: Final = 600.0


class CodeLimits(NamedTuple):
    """Bounds of one run: seconds of wall time, and bytes of memory of each process."""

    timeout_s: float
    memory_bytes: int

    def of_sandbox(self) -> SandboxLimits:
        """Return the bounds that the kernel keeps."""
        return SandboxLimits(int(self.timeout_s) + 1, self.memory_bytes, self.memory_bytes // 4)


class _Output:
    """What a program printed, as far as it is kept."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.is_full = False

    def take(self, chunk: bytes) -> None:
        room = _MAX_OUTPUT - len(self.kept)
        self.kept += chunk[:room]
        self.is_full = self.is_full or len(chunk) > room

    def text(self) -> str:
        return self.kept.decode(errors="replace")


class RunCode:
    """The tool ``run_code``."""

    def __init__(self, limits: CodeLimits) -> None:
        self._limits = limits
        self._places = anyio.CapacityLimiter(_AT_ONCE)

    async def check(self) -> None:
        """Run an empty program. Raise KsiError (no_sandbox) where there can be no sandbox."""
        await self.run_code("", "sh")

    @tool(
        name="run_code", effect="exec", timeout_s=_TOOL_S, example={"code": "print('hello world')"}
    )
    async def run_code(
        self, code: str, language: Literal["python", "sh"] = "python"
    ) -> dict[str, Any]:
        """Run a program in a sandbox without network and files, and return what it prints."""
        if len(code) > _MAX_CODE:
            raise KsiError(
                f"the program has {len(code)} characters, more than {_MAX_CODE}",
                code="program_too_large",
            )
        await self._places.acquire()
        try:
            return await self._run(code, _PROGRAMS[language])
        finally:
            self._places.release()

    async def _run(self, code: str, program: tuple[str, ...]) -> dict[str, Any]:
        began = anyio.current_time()
        out, err = _Output(), _Output()
        told, tell = os.pipe()
        with os.fdopen(told, "rb") as status:
            try:
                process = await self._start(program, tell)
            finally:
                os.close(tell)
            ended = await self._attend(process, code, out, err)
            exit_code = _exit_code(await anyio.to_thread.run_sync(status.read))
        if ended == "exit":
            if exit_code is None:
                raise _no_sandbox(err.text().strip())
            ended = "signal" if exit_code > 128 else "exit"
        return {
            "stdout": out.text(),
            "stderr": err.text(),
            "exit_code": exit_code,
            "ended": ended,
            "duration_ms": round((anyio.current_time() - began) * 1000, 1),
        }

    async def _start(self, program: tuple[str, ...], status_fd: int) -> Process:
        if shutil.which("bwrap") is None or shutil.which("prlimit") is None:
            raise _no_sandbox("bwrap or prlimit is not installed")
        argv = command(
            program, self._limits.of_sandbox(), system=_shown(Path("/")), status_fd=status_fd
        )
        other = UNPRIVILEGED if os.geteuid() == 0 else None
        groups: list[str | int] | None = None if other is None else []
        # Cancelled while it starts, it would run on, and nobody would know its id.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                argv,
                cwd="/",
                env={"PATH": os.defpath},
                pass_fds=[status_fd],
                user=other,
                group=other,
                extra_groups=groups,
            )
        return process

    async def _attend(self, process: Process, code: str, out: _Output, err: _Output) -> Ended:
        """Give *process* its program and keep what it prints; nothing of it is left afterwards."""
        try:
            with anyio.move_on_after(self._limits.timeout_s) as total:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_feed, process, code.encode(errors="replace"))
                    tasks.start_soon(_keep, process, process.stdout, out)
                    tasks.start_soon(_keep, process, process.stderr, err)
                    await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                _kill(process)
                await process.aclose()
        if total.cancelled_caught:
            return "timeout"
        return "output_limit" if out.is_full or err.is_full else "exit"


def _shown(root: Path) -> list[str]:
    """Return the arguments that show the system's programs, links as links."""
    arguments: list[str] = []
    for name in _SYSTEM:
        place = root / name.lstrip("/")
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), name]
        elif place.is_dir():
            arguments += ["--ro-bind", str(place), name]
    return arguments


async def _feed(process: Process, program: bytes) -> None:
    if process.stdin is not None:
        # A program may end before it is read to its end.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(program)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()


async def _keep(process: Process, stream: ByteReceiveStream | None, output: _Output) -> None:
    if stream is None:
        return
    async for chunk in stream:
        output.take(chunk)
        if output.is_full:
            _kill(process)
            break


def _kill(process: Process) -> None:
    """End bubblewrap; what runs in the sandbox dies with it."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)


def _exit_code(status: bytes) -> int | None:
    """Return the exit code that bubblewrap told, or None if it ran nothing to its end."""
    for line in status.splitlines():
        told = msgspec.json.decode(line)
        if "exit-code" in told:
            return int(told["exit-code"])
    return None


def _no_sandbox(why: str) -> KsiError:
    return KsiError(
        f"there is no sandbox to run code in: {why[:300]}",
        code="no_sandbox",
        hint="install bubblewrap (apt-get install bubblewrap) and allow user namespaces",
    )

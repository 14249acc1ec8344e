"""A program as a server: lines of JSON over its standard input and output.

Not the package's own transport, for that passes variables of ours on and keeps a line of any
length. Here the environment is what was named, a line has a limit, the program has a group of
its own that ends with the connection, and what it complains is kept for people.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ksi_daemon.errors import McpError
from ksi_daemon.services.mcp.model import MAX_MESSAGE_BYTES

__all__ = ["Stdio"]

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]

# How long a program may take to end after its input has, and after it was asked to.
END_S: Final = 2.0
KEPT_COMPLAINT: Final = 2_000


class Stdio:
    """One run of the program *argv*; *on_end* is called when it says no more.

    *ended* says why that is, once it is.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], on_end: Callable[[], None]
    ) -> None:
        self._argv = argv
        self._env = env
        self._on_end = on_end
        self._complaint = b""
        self.ended: str | None = None

    @property
    def complaint(self) -> str:
        """The last that the program wrote to its standard error."""
        return self._complaint.decode(errors="replace").strip()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Incoming, Outgoing]]:
        """Run the program; yield where its messages come from and where ours go to."""
        process = await self._start()
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, incoming)
                tasks.start_soon(_write, process, outgoing)
                tasks.start_soon(self._listen, process)
                try:
                    yield read, write
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)

    async def _start(self) -> anyio.abc.Process:
        # Looked up on our own path: the program's environment may have none.
        program = shutil.which(self._argv[0])
        if program is None:
            raise McpError(f"no program {self._argv[0]!r:.200}", code="mcp_unavailable")
        try:
            return await anyio.open_process(
                [program, *self._argv[1:]],
                env=dict(self._env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as exc:
            raise McpError(f"{program}: {exc.strerror}", code="mcp_unavailable") from exc

    async def _read(
        self,
        process: anyio.abc.Process,
        messages: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        """Send on what the program says, until it ends or says too much at once."""
        assert process.stdout is not None
        line = bytearray()
        async with messages:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for chunk in process.stdout:
                    *whole, rest = chunk.split(b"\n")
                    for part in whole:
                        await messages.send(_message(bytes(line + part)))
                        line.clear()
                    line += rest
                    if len(line) > MAX_MESSAGE_BYTES:
                        self.ended = f"it sent a message of more than {MAX_MESSAGE_BYTES} bytes"
                        break
        self.ended = self.ended or "the program has ended"
        self._on_end()

    async def _listen(self, process: anyio.abc.Process) -> None:
        assert process.stderr is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in process.stderr:
                self._complaint = (self._complaint + chunk)[-KEPT_COMPLAINT:]


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as exc:
        return exc  # what is no message, such as a line of a log, is passed over by the session


async def _write(
    process: anyio.abc.Process, messages: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for each in messages:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")


async def _end(process: anyio.abc.Process) -> None:
    """End the program and all that it started: its input ends, it is asked to, it is made to."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if process.stdin is not None:
            await process.stdin.aclose()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with anyio.move_on_after(END_S):
            await process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
    await process.wait()
    await process.aclose()

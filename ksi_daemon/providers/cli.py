"""A command as a provider: ``claude -p``, ``codex exec``, ``gemini -p``, or any other.

The command gets the conversation on its standard input and prints the reply. There is no shell,
the prompt is never an argument, and the environment is empty but for what is named. The command
runs in a process group of its own that is ended with the request. It is asked once: such programs
act with tools of their own, and what they did must not be done twice.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import PurePath
from typing import Annotated, Final

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.cli_output import Format, Output, Place, place_of, read_line, read_whole
from ksi_daemon.providers.failures import shown
from ksi_daemon.providers.guard import guarded
from ksi_daemon.providers.history import prepare
from ksi_daemon.providers.model import (
    Capabilities,
    Completion,
    Overrides,
    Price,
    Request,
    Usage,
    larger,
)
from ksi_daemon.providers.wire import MAX_REPLY_BYTES

__all__ = ["CliProvider", "Spec", "build"]

_ALWAYS: Final = ("PATH", "HOME")
_MODEL: Final = "{model}"
_TAIL: Final = 4_096  # bytes of what the command complains that are kept
_SHOWN: Final = 300  # characters of them that an error shows
# How long a command may take to end when it is told to, and to be done with its output when it
# has ended; something that it has started may hold that open.
_GRACE_S: Final = 1.0
_SHORTEST_SECRET: Final = 6
_SECRET: Final = re.compile(r"\b(?:sk|ghp|gho|xox[bp]|AKIA|AIza)[-_A-Za-z0-9]{8,}|(?<=Bearer )\S+")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_HEADS: Final = {"user": "User", "assistant": "Assistant"}


class Spec(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="cli",
):
    """The command *argv*, in which ``{model}`` stands for the model.

    *output* is what it prints, *text* the place of the reply in that (known of claude, codex and
    gemini). *env* names variables that it gets beside PATH and HOME, *cwd* is where it runs, by
    default where the daemon does. *timeout_s* bounds one reply, *prices* say what its model costs.
    """

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    model: str = ""
    output: Output = "text"
    text: Place | None = None
    env: tuple[str, ...] = ()
    cwd: str | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 600.0
    prices: Price | None = None
    capabilities: Overrides = {}

    def __post_init__(self) -> None:
        if not self.argv[0]:
            raise ValueError("argv names no program")
        if any("\0" in argument for argument in self.argv):
            raise ValueError("argv holds a NUL")
        place_of(self.program, self.output, self.text)

    @property
    def program(self) -> str:
        """The name of the program, without its directory."""
        return PurePath(self.argv[0]).name


def build(spec: Spec) -> CliProvider:
    """Return the provider that *spec* describes."""
    return CliProvider(spec)


class CliProvider:
    """A provider that runs a command for each reply. Its variables are read at each request."""

    name = "cli"

    def __init__(
        self,
        spec: Spec,
        *,
        environ: Mapping[str, str] = os.environ,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self.model = spec.model or spec.program
        self.price = spec.prices
        own = Capabilities(streaming=spec.output != "json", self_contained_tools=True)
        self.capabilities = msgspec.structs.replace(own, **spec.capabilities)
        self._spec = spec
        self._place = place_of(spec.program, spec.output, spec.text)
        self._environ = environ
        self._max_bytes = max_bytes

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Run the command once; see ``Provider.complete``."""
        began = anyio.current_time()
        reading = _Reading(self._spec, self._place, on_text, self._max_bytes)
        with anyio.move_on_after(self._spec.timeout_s) as total:
            await self._run(request, reading)
        if total.cancelled_caught:
            raise ProviderError(
                f"{self._spec.program} was not done after {self._spec.timeout_s:g} s",
                code="provider_timeout",
                hint="a command that works for long needs a larger timeout_s",
            )
        first = reading.first_at
        return reading.completion(
            model=request.model or self.model,
            latency_ms=(anyio.current_time() - began) * 1000,
            first_token_ms=None if first is None else (first - began) * 1000,
        )

    async def aclose(self) -> None:
        """Do nothing: a command ends with its request."""

    async def _run(self, request: Request, reading: _Reading) -> None:
        env = self._env()
        complaint = bytearray()
        async with (
            _running(self._argv(request), env, self._spec.cwd) as process,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_feed, process, _prompt(request).encode(errors="replace"))
            tasks.start_soon(_keep_tail, process.stderr, complaint)
            tasks.start_soon(_read, process, reading)
            code = await process.wait()
            tasks.cancel_scope.deadline = anyio.current_time() + _GRACE_S
        reading.end()
        if code != 0 and not reading.is_full:
            secrets = [env[name] for name in self._spec.env]
            complained = _shown_end(complaint.decode(errors="replace"), secrets)
            raise reading.reported or _failed(self._spec.program, code, complained)

    def _argv(self, request: Request) -> list[str]:
        model = request.model or self._spec.model
        if model.startswith("-"):
            raise ProviderError(f"the model's name {model!r} would be taken for an option")
        return [argument.replace(_MODEL, model) for argument in self._spec.argv]

    def _env(self) -> dict[str, str]:
        missing = [name for name in self._spec.env if name not in self._environ]
        if missing:
            raise ProviderError(
                f"the environment variable {missing[0]!r} is not set",
                code="provider_auth",
                hint=f"set {missing[0]} where the daemon starts, or leave it out of 'env'",
            )
        names = (*_ALWAYS, *self._spec.env)
        return {name: self._environ[name] for name in names if name in self._environ}


class _Reading:
    """What a command prints, while it does."""

    def __init__(
        self,
        spec: Spec,
        place: Place | None,
        on_text: Callable[[str], None] | None,
        max_bytes: int,
    ) -> None:
        self.is_full = False
        self.first_at: float | None = None
        self._spec = spec
        self._place = place
        self._on_text = on_text
        # JSON around and inside a text makes it longer, seldom to the double.
        self._room = max_bytes if place is None else 2 * max_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._printed: list[str] = []
        self._texts: list[str] = []
        self._usage = Usage()
        self._failure: ProviderError | None = None

    def take(self, chunk: bytes) -> None:
        """Take what was printed, up to the limit."""
        self.is_full = len(chunk) > self._room
        chunk = chunk[: self._room]
        self._room -= len(chunk)
        self._decoded(self._decoder.decode(chunk))

    def end(self) -> None:
        """Take note that nothing follows."""
        self._decoded(self._decoder.decode(b"", final=True))
        if self._spec.output == "stream-json":
            self._line(self._rest)
        if self._spec.output == "json":
            self._whole("".join(self._printed))

    @property
    def reported(self) -> ProviderError | None:
        """The error that the command itself reports in what it prints."""
        failure = self._failure
        return failure if failure is not None and failure.code == "provider_error" else None

    def completion(
        self, *, model: str, latency_ms: float, first_token_ms: float | None
    ) -> Completion:
        """Return the reply. Raise ProviderError if there is none."""
        if self._failure is not None:
            raise self._failure
        text = "".join(self._texts)
        if not text.strip():
            raise self._nothing()
        return Completion(
            text=text,
            stop_reason=None if self.is_full else "stop",
            model=model,
            usage=self._usage,
            latency_ms=latency_ms,
            first_token_ms=first_token_ms,
            incomplete="the reply is longer than the limit" if self.is_full else None,
        )

    def _decoded(self, text: str) -> None:
        if self._spec.output == "text":
            self._say(text)
        elif self._spec.output == "json":
            self._printed.append(text)
        else:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._line(line)

    def _line(self, line: str) -> None:
        if self._place is None or self._failure is not None or not line.strip():
            return
        if not self._printed:
            self._printed.append(line)
        try:
            found = read_line(self._spec.program, line, self._place)
        except ProviderError as exc:
            # The command goes on; what it was asked for has failed.
            self._failure = exc
            return
        if found.text and self._texts:
            found = msgspec.structs.replace(found, text=self._place.join + found.text)
        self._found(found)

    def _whole(self, printed: str) -> None:
        if self._place is None or not printed.strip():
            return
        try:
            if self.is_full:
                raise _too_long(self._spec.program)
            self._found(read_whole(self._spec.program, printed, self._place))
        except ProviderError as exc:
            self._failure = exc

    def _found(self, found: Format) -> None:
        self._usage = larger(self._usage, found.usage)
        self._say(found.text or "")

    def _say(self, text: str) -> None:
        if not text:
            return
        self.first_at = self.first_at or anyio.current_time()
        self._texts.append(text)
        if self._on_text is not None:
            self._on_text(text)

    def _nothing(self) -> ProviderError:
        printed = "".join(self._printed).strip()
        if not printed:
            return ProviderError(f"{self._spec.program} printed no reply", code="provider_empty")
        return ProviderError(
            f"{self._spec.program} printed no line with a reply, but {shown(printed)!r}",
            code="provider_protocol",
            hint="is 'text' the place of the reply in its output?",
        )


@asynccontextmanager
async def _running(
    argv: list[str], env: Mapping[str, str], cwd: str | None
) -> AsyncIterator[Process]:
    """Run *argv* in a process group of its own, of which nothing is left afterwards, not even if
    the daemon is killed."""
    try:
        # Cancelled while it starts, it would run on, and nobody would know its id.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(argv, env=env, cwd=cwd, start_new_session=True)
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise ProviderError(
            f"cannot run {argv[0]!r}: {why}",
            code="provider_unreachable",
            hint="is it installed, and on the PATH that the daemon has?",
        ) from exc
    async with guarded(process.pid):
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
    _signal(process, signal.SIGKILL)
    await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _feed(process: Process, prompt: bytes) -> None:
    """Give the prompt to a command, which need not read it."""
    if process.stdin is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(prompt)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()


async def _read(process: Process, reading: _Reading) -> None:
    if process.stdout is None:
        return
    async for chunk in process.stdout:
        reading.take(chunk)
        if reading.is_full:
            _signal(process, signal.SIGKILL)
            break


async def _keep_tail(stream: ByteReceiveStream | None, kept: bytearray) -> None:
    if stream is not None:
        async for chunk in stream:
            kept += chunk
            del kept[:-_TAIL]


def _prompt(request: Request) -> str:
    """Return the conversation as one text; a single message stands without a heading."""
    conversation = prepare(request, "openai")
    turns = conversation.turns
    if len(turns) == 1:
        said = [turns[0].text]
    else:
        said = [f"### {_HEADS[turn.role]}\n\n{turn.text}" for turn in turns]
        said.append("### Assistant\n")
    return "\n\n".join(text for text in (conversation.system, *said) if text.strip())


def _too_long(program: str) -> ProviderError:
    return ProviderError(
        f"{program} printed more than is taken for one reply", code="provider_protocol"
    )


def _failed(program: str, code: int, complaint: str) -> ProviderError:
    how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
    hint = f"it says: {complaint}" if complaint else None
    return ProviderError(f"{program} ended {how}", hint=hint)


def _shown_end(complaint: str, secrets: list[str]) -> str:
    """Return the end of *complaint* on one line, without *secrets* and what looks like one."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            complaint = complaint.replace(secret, "***")
    clean = _SECRET.sub("***", _ANSI.sub("", complaint))
    return shown(clean.strip()[-_SHOWN:], _SHOWN)

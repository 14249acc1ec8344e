"""Real processes: each command is a short Python program."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ksi_daemon.errors import InvalidData, ProviderError
from ksi_daemon.providers import Completion, Message, Request, Tool, Usage, build
from ksi_daemon.providers.cli import CliProvider, Spec
from ksi_daemon.providers.cli_output import Place

ASK = Request(messages=(Message("system", "Be brief."), Message("user", "hi")))
ECHO = "import sys; sys.stdout.write(sys.stdin.read())"
CLAUDE: dict[str, Any] = {"output": "json", "text": {"path": "result"}}
STREAM: dict[str, Any] = {
    "output": "stream-json",
    "text": {"path": "item.text", "where": {"type": "done", "item.type": "say"}, "join": "+"},
}


def spec(program: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    argv = [sys.executable, "-c", program, *arguments]
    return {"type": "cli", "argv": argv, "timeout_s": 20, **fields}


def provider(program: str, *arguments: str, **options: Any) -> CliProvider:
    own = {name: options.pop(name) for name in ("environ", "max_bytes") if name in options}
    return CliProvider(
        Spec(argv=(sys.executable, "-c", program, *arguments), **({"timeout_s": 20} | options)),
        **own,
    )


def prints(*values: Any) -> str:
    lines = "\n".join(v if isinstance(v, str) else json.dumps(v) for v in values)
    return f"print({lines!r})"


async def complete(program: str, *arguments: str, **fields: Any) -> Completion:
    return await build(spec(program, *arguments, **fields)).complete(ASK)


async def failure(program: str, *arguments: str, **fields: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await complete(program, *arguments, **fields)
    return caught.value


async def test_the_prompt_comes_on_standard_input() -> None:
    completion = await complete(ECHO)
    assert completion == Completion(
        text="Be brief.\n\nhi",
        stop_reason="stop",
        model=Path(sys.executable).name,
        latency_ms=completion.latency_ms,
        first_token_ms=completion.first_token_ms,
    )
    assert completion.first_token_ms is not None
    assert 0 < completion.first_token_ms <= completion.latency_ms


async def test_a_conversation_has_headings() -> None:
    messages = (
        *ASK.messages,
        Message("assistant", "hello"),
        Message("tool", "42", name="sum"),
    )
    request = Request(messages=messages, tools=(Tool("sum", "", {}),))
    completion = await provider(ECHO).complete(request)
    assert completion.text == (
        "Be brief.\n\n### User\n\nhi\n\n### Assistant\n\nhello\n\n"
        "### User\n\nTool Result (sum):\n42\n\n### Assistant\n"
    )


async def test_a_long_prompt_that_is_not_read() -> None:
    request = Request(messages=(Message("user", "x" * 3_000_000),))
    assert (await provider("print('ok')").complete(request)).text == "ok\n"


async def test_a_long_prompt_and_a_long_reply_at_once() -> None:
    program = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stderr.write(line)"
    text = ("x" * 99 + "\n") * 20_000
    request = Request(messages=(Message("user", text),))
    assert (await provider(program).complete(request)).text == text


async def test_text_streams_whatever_its_pieces() -> None:
    program = (
        "import sys\nout = sys.stdout.buffer\n"
        "for byte in 'grüße 😀'.encode(): out.write(bytes([byte])); out.flush()"
    )
    pieces: list[str] = []
    completion = await provider(program).complete(ASK, pieces.append)
    assert ("".join(pieces), completion.text) == ("grüße 😀", "grüße 😀")


@pytest.mark.parametrize(
    ("printed", "fields", "text", "usage"),
    [
        pytest.param(
            [{"type": "result", "result": "hi", "usage": {"input_tokens": 3, "output_tokens": 2}}],
            CLAUDE,
            "hi",
            Usage(3, 2),
            id="json",
        ),
        pytest.param(
            [
                {
                    "type": "result",
                    "result": "hi",
                    "usage": {
                        "input_tokens": 3,
                        "cache_creation_input_tokens": 20,
                        "cache_read_input_tokens": 100,
                        "output_tokens": 2,
                    },
                }
            ],
            CLAUDE,
            "hi",
            Usage(123, 2, 100),
            id="a cache beside the input",
        ),
        pytest.param(
            [
                {"type": "done", "item": {"type": "say", "text": "a"}},
                {"usage": {"input_tokens": 9, "cached_input_tokens": 8, "output_tokens": 1}},
            ],
            STREAM,
            "a",
            Usage(9, 1, 8),
            id="a cache within the input",
        ),
        pytest.param(
            [{"a": [{"b": "hi"}], "usage": {"input_tokens": "many"}}],
            {"output": "json", "text": {"path": "a.0.b"}},
            "hi",
            Usage(),
            id="an index in the path",
        ),
        pytest.param(
            [
                "Reading prompt...",
                {"type": "done", "item": {"type": "think", "text": "hm"}},
                {"type": "done", "item": {"type": "say", "text": "a"}},
                [1],
                {"type": "done", "item": {"type": "say", "text": 7}},
                {"type": "done", "item": {"type": "say", "text": "b"}},
                {"type": "end", "usage": {"input_tokens": 9, "output_tokens": 1}},
            ],
            STREAM,
            "a+b",
            Usage(9, 1),
            id="stream-json",
        ),
    ],
)
async def test_output(printed: list[Any], fields: dict[str, Any], text: str, usage: Usage) -> None:
    completion = await complete(prints(*printed), **fields)
    assert (completion.text, completion.usage, completion.stop_reason) == (text, usage, "stop")


@pytest.mark.parametrize(
    ("name", "output", "printed", "text"),
    [
        ("claude", "json", [{"type": "result", "is_error": False, "result": "hi"}], "hi"),
        (
            "claude",
            "stream-json",
            [
                {"type": "assistant", "message": {"content": [{"type": "text", "text": "h"}]}},
                {"type": "result", "result": "hi"},
            ],
            "hi",
        ),
        (
            "codex",
            "stream-json",
            [
                {"type": "thread.started"},
                {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
                {"type": "item.completed", "item": {"type": "agent_message", "text": "a"}},
                {"type": "item.completed", "item": {"type": "agent_message", "text": "b"}},
            ],
            "a\n\nb",
        ),
        ("gemini", "json", [{"response": "hi", "stats": {}}], "hi"),
        (
            "gemini",
            "stream-json",
            [
                {"type": "message", "role": "user", "content": "q"},
                {"type": "message", "role": "assistant", "content": "h", "delta": True},
                {"type": "message", "role": "assistant", "content": "i", "delta": True},
            ],
            "hi",
        ),
    ],
)
async def test_what_known_programs_print(
    tmp_path: Path, name: str, output: str, printed: list[Any], text: str
) -> None:
    program = tmp_path / name
    await anyio.Path(program).write_text(f"#!{sys.executable}\n{prints(*printed)}")
    await anyio.Path(program).chmod(0o700)
    command = {"type": "cli", "argv": [str(program), "-p"], "output": output}
    completion = await build(command).complete(ASK)
    assert (completion.text, completion.model) == (text, name)


@pytest.mark.parametrize(
    ("program", "fields", "code", "message", "hint"),
    [
        pytest.param(
            "import sys; print('\\x1b[31mno\\nway', file=sys.stderr); sys.exit(3)",
            {},
            "provider_error",
            "python ended with exit code 3",
            "it says: no way",
            id="exit code",
        ),
        pytest.param(
            "import os; print('text', flush=True); os.kill(os.getpid(), 9)",
            {},
            "provider_error",
            "python ended by signal 9",
            None,
            id="killed",
        ),
        pytest.param("", {}, "provider_empty", "python printed no reply", None, id="nothing"),
        pytest.param("", CLAUDE, "provider_empty", "python printed no reply", None, id="no JSON"),
        pytest.param(
            "print('<html>')",
            CLAUDE,
            "provider_protocol",
            "python printed what is not JSON: '<html>'",
            "does the command have the option that makes it print JSON?",
            id="not JSON",
        ),
        pytest.param(
            prints({"answer": "hi"}),
            CLAUDE,
            "provider_protocol",
            "python printed JSON without a text at 'result'",
            "set the provider's 'text' to the place of the reply",
            id="text elsewhere",
        ),
        pytest.param(
            prints({"is_error": True, "result": "out of credit"}) + "; exit(1)",
            CLAUDE,
            "provider_error",
            "python reported an error",
            "it says: out of credit",
            id="an error that it reports itself",
        ),
        pytest.param(
            prints({"type": "error", "error": {"message": "no"}}),
            STREAM,
            "provider_error",
            "python reported an error",
            "it says: no",
            id="an error in the stream",
        ),
        pytest.param(
            prints("hello"),
            STREAM,
            "provider_protocol",
            "python printed no line with a reply, but 'hello'",
            "is 'text' the place of the reply in its output?",
            id="no line with a reply",
        ),
        pytest.param(
            prints("hello"),
            {"timeout_s": 0.001},
            "provider_timeout",
            "python was not done after 0.001 s",
            "a command that works for long needs a larger timeout_s",
            id="too slow",
        ),
        pytest.param(
            prints("hello"),
            {"cwd": "/nowhere"},
            "provider_unreachable",
            f"cannot run {sys.executable!r}: No such file or directory",
            "is it installed, and on the PATH that the daemon has?",
            id="no such directory",
        ),
        pytest.param(
            prints("hello"),
            {"model": "--unsafe"},
            "provider_error",
            "the model's name '--unsafe' would be taken for an option",
            None,
            id="a model that is an option",
        ),
    ],
)
@pytest.mark.faults
async def test_P4_a_command_that_fails(
    program: str, fields: dict[str, Any], code: str, message: str, hint: str | None
) -> None:
    error = await failure(program, **fields)
    name = Path(sys.executable).name
    assert error.message.replace(name, "python") == message.replace(name, "python")
    assert (error.code, error.hint, error.retryable) == (code, hint, False)


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ProviderError) as caught:
        await build({"type": "cli", "argv": ["no-such-program-of-ksi"]}).complete(ASK)
    assert caught.value.message == (
        "cannot run 'no-such-program-of-ksi': No such file or directory"
    )


async def test_no_shell_and_the_model_in_its_place() -> None:
    program = "import sys, json; print(json.dumps(sys.argv[1:]))"
    completion = await complete(program, "--model={model}", "$HOME; `id`", model="m-1")
    assert json.loads(completion.text) == ["--model=m-1", "$HOME; `id`"]
    assert completion.model == "m-1"


async def test_the_environment_is_what_is_named() -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": "/h", "WANTED": "w", "SECRET": "s"}
    program = "import os, json; print(json.dumps(dict(os.environ)))"
    completion = await provider(program, env=("WANTED",), environ=environ).complete(ASK)
    seen = json.loads(completion.text)
    assert {k: v for k, v in seen.items() if k != "LC_CTYPE"} == {
        "PATH": os.environ["PATH"],
        "HOME": "/h",
        "WANTED": "w",
    }


async def test_a_variable_that_is_missing() -> None:
    with pytest.raises(ProviderError) as caught:
        await provider("", env=("MISSING",), environ={}).complete(ASK)
    assert (caught.value.code, caught.value.message) == (
        "provider_auth",
        "the environment variable 'MISSING' is not set",
    )


async def test_an_error_holds_no_secret() -> None:
    program = (
        "import os, sys\n"
        "sys.exit('key ' + os.environ['KEY'] + ' or sk-abcdefgh12345 or Bearer abc.def')"
    )
    environ = {"PATH": os.environ["PATH"], "KEY": "topsecret"}
    with pytest.raises(ProviderError) as caught:
        await provider(program, env=("KEY",), environ=environ).complete(ASK)
    assert caught.value.hint == "it says: key *** or *** or Bearer ***"


@pytest.mark.faults
async def test_P6_a_reply_without_end_is_cut() -> None:
    program = "while True: print('x' * 1000)"
    completion = await provider(program, max_bytes=100_000).complete(ASK)
    assert (len(completion.text), completion.stop_reason, completion.incomplete) == (
        100_000,
        None,
        "the reply is longer than the limit",
    )


@pytest.mark.faults
async def test_P6_json_without_end_is_no_reply() -> None:
    program = "print('{\"a\": \"')\nwhile True: print('x' * 1000)"
    options: dict[str, Any] = {"output": "json", "text": Place("a"), "max_bytes": 10_000}
    with pytest.raises(ProviderError) as caught:
        await provider(program, **options).complete(ASK)
    assert caught.value.code == "provider_protocol"


PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
{then}
"""


def gone(pidfd: int) -> bool:
    """Wait for the end of a process, and say whether it came."""
    ended, _, _ = select.select([pidfd], [], [], 20)
    os.close(pidfd)
    return bool(ended)


@pytest.mark.parametrize(
    ("then", "stop"),
    [
        pytest.param("time.sleep(600)", lambda scope: scope.cancel(), id="cancelled"),
        pytest.param("", None, id="ended"),
    ],
)
async def test_nothing_of_a_command_is_left(
    then: str, stop: Callable[[anyio.CancelScope], None] | None
) -> None:
    children: list[int] = []

    async with anyio.create_task_group() as tasks:

        def hear(text: str) -> None:
            children.append(os.pidfd_open(int(text)))
            if stop is not None:
                stop(tasks.cancel_scope)

        tasks.start_soon(provider(PARENT.format(then=then)).complete, ASK, hear)
    [child] = children
    assert await anyio.to_thread.run_sync(gone, child)


async def test_what_holds_the_output_open_is_not_waited_for() -> None:
    program = (
        "import subprocess, sys; print('done', flush=True);"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    assert (await complete(program)).text == "done\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": []}, "Expected `array` of length >= 1 - at `$.argv`"),
        ({"argv": [""]}, "argv names no program"),
        ({"argv": ["a\0b"]}, "argv holds a NUL"),
        (
            {"argv": ["mine"], "output": "json"},
            "output 'json' of 'mine' needs 'text', the place of the reply",
        ),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidData) as caught:
        build({"type": "cli", **fields})
    assert caught.value.message == f"provider: {message}"


def test_its_tools_are_its_own() -> None:
    capabilities = provider("").capabilities
    assert (capabilities.self_contained_tools, capabilities.native_tool_calls) == (True, False)

"""run_code: what a program gets, and the ways out of the sandbox that must be none."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from ksi_daemon.errors import KsiError
from ksi_daemon.services.run_code import CodeLimits, RunCode

LIMITS = CodeLimits(timeout_s=20.0, memory_bytes=128 * 1024 * 1024)

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ,
    reason="bubblewrap is not installed (apt-get install bubblewrap)",
)


def run(code: str, language: Any = "python", limits: CodeLimits = LIMITS) -> dict[str, Any]:
    return anyio.run(RunCode(limits).run_code, code, language)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("language", "code", "expected"),
    [
        pytest.param("python", "print('hello world')", ("hello world\n", 0, "exit"), id="python"),
        pytest.param("sh", "echo $((6 * 7))", ("42\n", 0, "exit"), id="sh"),
        pytest.param("python", "print('ü – 🙂')", ("ü – 🙂\n", 0, "exit"), id="not ascii"),
        pytest.param("python", "", ("", 0, "exit"), id="nothing"),
        pytest.param("python", "import sys; sys.exit(3)", ("", 3, "exit"), id="exit code"),
        pytest.param("sh", "kill -9 $$", ("", 137, "signal"), id="signal"),
        pytest.param("sh", "cat", ("", 0, "exit"), id="no standard input"),
        pytest.param(
            "python",
            "open('/tmp/a', 'w').write('x'); print(open('/tmp/a').read())",
            ("x\n", 0, "exit"),
            id="a place to write",
        ),
    ],
)
def test_a_program_runs(language: str, code: str, expected: tuple[str, int, str]) -> None:
    result = run(code, language)
    assert (result["stdout"], result["exit_code"], result["ended"]) == expected


@needs_bubblewrap
def test_an_error_is_told() -> None:
    result = run("1 / 0")
    assert result["exit_code"] == 1
    assert "ZeroDivisionError" in result["stderr"]


@needs_bubblewrap
def test_runs_share_nothing() -> None:
    run("open('/tmp/left', 'w').write('x')")
    assert "left" not in run("ls -A /tmp", "sh")["stdout"]


@needs_bubblewrap
@pytest.mark.parametrize(
    ("code", "ended"),
    [
        pytest.param("while True: pass", "timeout", id="busy"),
        pytest.param("import time; time.sleep(900)", "timeout", id="asleep"),
        pytest.param("import os\nif os.fork() == 0:\n os.setsid()\nimport time\ntime.sleep(900)",
                     "timeout", id="a child of its own session"),
        pytest.param("while True: print('x' * 1000)", "output_limit", id="endless output"),
        pytest.param("import sys\nsys.stderr.write('x' * 70_000)", "output_limit", id="errors"),
    ],
)  # fmt: skip
def test_what_goes_on_too_long_is_ended(code: str, ended: str) -> None:
    result = run(code, limits=CodeLimits(1.0, LIMITS.memory_bytes))
    assert result["ended"] == ended
    assert len(result["stdout"]) <= 64 * 1024
    assert not _sandboxes()


@needs_bubblewrap
def test_a_cancelled_call_leaves_nothing() -> None:
    async def give_up() -> None:
        with anyio.move_on_after(0.5):
            await RunCode(LIMITS).run_code("import time; time.sleep(900)")

    anyio.run(give_up)
    assert not _sandboxes()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("the secret", encoding="utf-8")
    path.chmod(0o644)
    return path


ESCAPES = {
    "the file of a host": "print(open({secret!r}).read())",
    "shadow": "print(open('/etc/shadow').read(), 'the secret')",
    "home": "import os; os.listdir('/root'); print('the secret')",
    "by a link": "import os; os.symlink({secret!r}, '/tmp/l'); print(open('/tmp/l').read())",
    "by the root of process 1": "print(open('/proc/1/root' + {secret!r}).read())",
    "by its working directory": "print(open('/proc/1/cwd' + {secret!r}).read())",
    "environment of process 1": "print(open('/proc/1/environ').read())",
    "its own environment": (
        "import os; print('the secret' if 'KSI_TEST_SECRET' in os.environ else '')"
    ),
    "write to programs": "open('/usr/bin/left', 'w'); print('the secret')",
    "write to the root": "open('/left', 'w'); print('the secret')",
    "write below dev": "open('/dev/shm/left', 'w'); print('the secret')",
    "write to the kernel": (
        "open('/proc/sys/kernel/hostname', 'w').write('left'); print('the secret')"
    ),
    "a socket of the host": (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect({socket!r}); "
        "print('the secret')"
    ),
    "an abstract socket": (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect({abstract!r}); "
        "print('the secret')"
    ),
    "loopback": (
        "import socket; socket.create_connection(('127.0.0.1', {port})); print('the secret')"
    ),
    "processes of others": (
        "import os; print('the secret' if len([p for p in os.listdir('/proc') if p.isdigit()]) > 4"
        " else '')"
    ),
    "a signal to the daemon": "import os; os.kill({pid}, 0); print('the secret')",
    "be root": "import os; os.setuid(0); print('the secret')",
    "a namespace inside": (
        "import subprocess; subprocess.run(['unshare', '-U', 'true'], check=True); "
        "print('the secret')"
    ),
    "mount": (
        "import subprocess; subprocess.run(['mount', '-t', 'tmpfs', 'x', '/tmp'], check=True); "
        "print('the secret')"
    ),
    "a device": (
        "import os, stat; os.mknod('/tmp/d', stat.S_IFBLK | 0o666, os.makedev(254, 0)); "
        "os.open('/tmp/d', os.O_RDONLY); print('the secret')"
    ),
    "a descriptor of the daemon": (
        "import os; print('the secret' if [f for f in os.listdir('/proc/self/fd') "
        "if int(f) > 4 and os.path.exists('/proc/self/fd/' + f)] else '')"
    ),
    "the terminal": "open('/dev/tty').read(); print('the secret')",
    "a fork bomb": (
        "import os\nfor n in range(200):\n  if os.fork() == 0:\n"
        "    import time; time.sleep(5); os._exit(0)\nprint('the secret')"
    ),
    "all memory": "x = bytearray(10**9); print('the secret')",
    "all disk": "open('/tmp/x', 'wb').write(bytes(100 * 2**20)); print('the secret')",
    "many files": (
        "for n in range(3):\n  open(f'/tmp/{{n}}', 'wb').write(bytes(20 * 2**20))\n"
        "print('the secret')"
    ),
}


@needs_bubblewrap
@pytest.mark.parametrize("way", ESCAPES)
def test_there_is_no_way_out_by(way: str, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSI_TEST_SECRET", "the secret")
    with (
        socket.socket() as listening,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        abstract.bind(f"\0ksi-{os.getpid()}")
        abstract.listen()
        named.bind(str(secret.with_name("s")))
        named.listen()
        code = ESCAPES[way].format(
            secret=str(secret),
            socket=str(secret.with_name("s")),
            abstract=abstract.getsockname().decode(),
            port=listening.getsockname()[1],
            pid=os.getpid(),
        )
        result = run(code)
    assert "the secret" not in result["stdout"]
    assert not any(slip in result["stderr"] for slip in ("SyntaxError", "NameError", "KeyError"))
    assert not list(Path("/usr/bin").glob("left"))


def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KsiError, match="no sandbox") as caught:
        run("open('/tmp/left-outside', 'w')")
    assert caught.value.code == "no_sandbox"
    assert not Path("/tmp/left-outside").exists()


def test_a_bubblewrap_that_fails_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: Any, **__: Any) -> Process:
        return await anyio.open_process(["sh", "-c", "echo no namespaces here >&2; exit 1"])

    monkeypatch.setattr(RunCode, "_start", start)
    with pytest.raises(KsiError, match="no namespaces here") as caught:
        run("1")
    assert caught.value.code == "no_sandbox"


def test_a_program_may_be_too_large() -> None:
    with pytest.raises(KsiError) as caught:
        run("#" * 300_000)
    assert caught.value.code == "program_too_large"


DAEMON = """
import anyio
from ksi_daemon.services import run_code

class Telling(run_code.RunCode):
    async def _start(self, *args):
        process = await super()._start(*args)
        print(process.pid, flush=True)
        return process

sandbox = Telling(run_code.CodeLimits(900.0, 2**27))
anyio.run(sandbox.run_code, "import time; time.sleep(900)")
"""


@needs_bubblewrap
def test_the_sandbox_dies_with_the_daemon() -> None:
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        sandbox = os.pidfd_open(int(daemon.stdout.readline()))
        daemon.kill()
    ended, _, _ = select.select([sandbox], [], [], 30)
    os.close(sandbox)
    assert ended


def _sandboxes() -> list[int]:
    """Return the processes called bwrap that this process has started."""
    found = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split() for line in found.stdout.splitlines()]
    return [int(pid) for pid, name in rows if name == "bwrap"]

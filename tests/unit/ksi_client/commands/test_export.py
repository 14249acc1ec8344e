from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import cli
from ksi_daemon.testing import connected, running_daemon, short_directory

Ksi = Callable[..., Result]


@pytest.fixture
def ksi(night: Path) -> Ksi:
    def run(*words: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(cli, [words[0], *words[1:]], input=stdin)

    return run


def events(text: str) -> list[str]:
    rows = [json.loads(line) for line in text.splitlines()]
    return [row["name"] for row in rows if row["table"] == "events"]


def test_json_lines_are_the_default(ksi: Ksi, night: Path) -> None:
    result = ksi("export", "--log", str(night))
    assert result.exit_code == 0
    assert len(events(result.stdout)) == 26


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(["state:set"], ["state:set"], id="pattern"),
        pytest.param(["no:*", "system:mark"], ["no:such", "system:mark"], id="patterns"),
        pytest.param(["--agent", "bob", "agent:*"], ["agent:spawned"], id="agent"),
        pytest.param(["--until", "1h"], [], id="until"),
        pytest.param(["--since", "1h", "system:mark"], ["system:mark"], id="since"),
        pytest.param(["--correlation", "none"], [], id="a story that is not there"),
        pytest.param(["--agent", ""], [], id="no agent's name"),
    ],
)
def test_filters(ksi: Ksi, night: Path, words: list[str], found: list[str]) -> None:
    assert events(ksi("export", "--log", str(night), *words).stdout) == found


@pytest.mark.parametrize(
    ("form", "first"),
    [
        pytest.param("cloudevents", {"specversion": "1.0"}, id="cloudevents"),
        pytest.param("otel", {"resourceSpans"}, id="otel"),
        pytest.param("chrome", {"displayTimeUnit": "ms"}, id="chrome"),
    ],
)
def test_formats(ksi: Ksi, night: Path, form: str, first: object) -> None:
    text = ksi("export", "--log", str(night), "-f", form).stdout
    found = json.loads(text if form == "chrome" else text.splitlines()[0])
    assert first.items() <= found.items() if isinstance(first, dict) else first == set(found)


def test_announcements_are_no_spans(ksi: Ksi, night: Path) -> None:
    text = ksi("export", "--log", str(night), "-f", "otel").stdout
    [scope] = json.loads(text)["resourceSpans"][0]["scopeSpans"]
    names = [span["name"] for span in scope["spans"]]
    assert "extraction:call" not in names
    assert names.count("chat scripted") == 5
    assert "execute_tool state:set" in names


def test_parquet(ksi: Ksi, night: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "night.parquet"
    assert ksi("export", "--log", str(night), "-f", "parquet", "-o", str(out)).exit_code == 0
    assert parquet.read_table(out).num_rows == 26


def test_a_file_is_there_when_it_is_whole(ksi: Ksi, night: Path, tmp_path: Path) -> None:
    out = tmp_path / "night.jsonl"
    out.write_text("the last one")
    broken = tmp_path / "broken.db"
    data = night.read_bytes()
    broken.write_bytes(data[: len(data) // 2])
    result = ksi("export", "--log", str(broken), "-o", str(out))
    assert (result.exit_code, out.read_text()) == (1, "the last one")
    assert ksi("export", "--log", str(night), "-o", str(out)).exit_code == 0
    assert len(events(out.read_text())) == 26
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if "db" not in path.name) == [out.name]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(["--log", "/none.db"], 1, "not_found: no log '/none.db'", id="no log"),
        pytest.param(["-o", "/none/x"], 1, "cannot_write: cannot write '/none/x'", id="no place"),
        pytest.param(["--to", "http://x"], 2, "are for -f otel", id="a collector of JSON lines"),
        pytest.param(["--since", "noon"], 2, "'noon' is no time", id="no time"),
        pytest.param(["-f", "xml"], 2, "'xml' is not one of", id="no format"),
        pytest.param(
            ["-f", "otel", "--to", "http://127.0.0.1:1", "-o", "x"], 2, "either --to", id="both"
        ),
    ],
)
def test_what_goes_wrong(ksi: Ksi, night: Path, words: list[str], code: int, message: str) -> None:
    result = ksi("export", *(() if "--log" in words else ("--log", str(night))), *words)
    assert result.exit_code == code
    assert message in result.stderr


def test_an_export_is_imported(ksi: Ksi, night: Path, tmp_path: Path) -> None:
    exported = ksi("export", "--log", str(night)).stdout_bytes
    var = tmp_path / "new"
    result = ksi("import", "-", "--var", str(var), stdin=exported)
    found = json.loads(result.stdout)
    assert (found["log"], found["part"], found["events"]) == (str(var / "events.db"), False, 26)
    again = ksi("export", "--var", str(var)).stdout_bytes
    assert again.splitlines()[1:-1] == exported.splitlines()[1:-1]


def test_import_says_which_line(ksi: Ksi, night: Path, tmp_path: Path) -> None:
    lines = ksi("export", "--log", str(night)).stdout_bytes.splitlines(keepends=True)
    lines[2] = b"garbage\n"
    result = ksi("import", "-", "--to", str(tmp_path / "new.db"), stdin=b"".join(lines))
    assert result.exit_code == 1
    assert "error export_invalid: line 3: JSON is malformed" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_stays(ksi: Ksi, night: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    assert ksi("export", "--log", str(night), "-o", str(pipe)).exit_code == 0
    text, _ = reader.communicate(timeout=10)
    assert len(events(text)) == 26
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert pipe.is_fifo()


def test_a_full_disk_is_told(ksi: Ksi, night: Path) -> None:
    result = ksi("export", "--log", str(night), "-o", "/dev/full")
    assert result.exit_code == 1
    assert "cannot_write: cannot write '/dev/full': No space left on device" in result.stderr
    assert Path("/dev/full").is_char_device()


@pytest.fixture(scope="module")
def long_log(night: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that takes its time."""
    path = Path(shutil.copy(night, tmp_path_factory.mktemp("long") / "events.db"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "WITH RECURSIVE n (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)"
            " INSERT INTO events (seq, id, ts, name, data, source, correlation_id, hop, status)"
            " SELECT n, 'e' || n, n, 'a:b', '{}', 's', 'c', 0, 'handled' FROM n"
        )
        connection.commit()
    return path


def test_a_reader_that_has_enough_ends_it_quietly(long_log: Path) -> None:
    command = [sys.executable, "-m", "ksi_client", "export", "--log", str(long_log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"header" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_leaves_nothing_half_made(long_log: Path, tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "ksi_client", "export", "--log", str(long_log)]
    with subprocess.Popen([*command, "-o", str(tmp_path / "x")]) as process:
        while not any(path.stat().st_size for path in tmp_path.iterdir()):
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(20) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_signal_leaves_no_half_log(long_log: Path, tmp_path: Path) -> None:
    lines = tmp_path / "x.jsonl"
    ksi = [sys.executable, "-m", "ksi_client"]
    subprocess.run([*ksi, "export", "--log", long_log, "-o", lines], check=True, timeout=60)
    (tmp_path / "new").mkdir()
    with subprocess.Popen([*ksi, "import", lines, "--to", tmp_path / "new" / "x.db"]) as process:
        while not list((tmp_path / "new").iterdir()):
            assert process.poll() is None
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM
    assert list((tmp_path / "new").iterdir()) == []


def test_an_import_where_nothing_can_be_made(ksi: Ksi, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = ksi("import", "-", "--to", str(tmp_path / "file" / "x.db"), stdin=b"")
    assert result.exit_code == 1
    assert "error cannot_create: cannot make" in result.stderr


async def test_a_daemon_goes_on_while_its_log_is_exported() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            exported: list[Result] = []

            def export() -> None:
                words = ["export", "--var", str(directory / "v"), "system:mark"]
                exported.append(CliRunner().invoke(cli, words))

            for round_ in range(3):
                await peer.ask("system:mark", {"label": str(round_)})
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(anyio.to_thread.run_sync, export)
                    await peer.ask("system:mark", {"label": "meanwhile"})
    counts = [len(events(result.stdout)) for result in exported]
    assert [result.exit_code for result in exported] == [0, 0, 0]
    # What was acknowledged before is in it; what comes meanwhile may be.
    assert all(2 * n + 1 <= count <= 2 * n + 2 for n, count in enumerate(counts))

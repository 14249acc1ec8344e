"""``ksi`` as a process: the demo from end to end, and a daemon that cannot be started."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from ksi_client import connect
from ksi_daemon.testing import running_daemon, short_directory


def ksi(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ksi_client", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_demo_tells_what_its_log_says() -> None:
    done = ksi("demo")
    assert (done.returncode, done.stderr) == (0, "")
    place = re.search(r"Its log stays: (\S+)", done.stdout)
    assert place is not None
    log = Path(place[1])
    database = sqlite3.connect(log)
    try:
        counts = database.execute(
            "SELECT count(*) FILTER (WHERE verdict = 'rejected'),"
            " count(*) FILTER (WHERE corrected > 0), count(*) FILTER (WHERE verdict = 'held')"
            " FROM attempts"
        ).fetchone()
        last = database.execute("SELECT name FROM events ORDER BY seq DESC").fetchone()
    finally:
        database.close()
        shutil.rmtree(log.parent)
    assert (counts, last) == ((1, 1, 1), ("system:stopping",))
    for said in ("1 block could not be read", "1 call only quoted from the draft", "agent:result"):
        assert said in done.stdout


def test_the_demo_recovers_from_the_slips_that_it_makes() -> None:
    done = ksi("demo", "--slips", "0.3")
    assert (done.returncode, done.stderr) == (0, "")
    place = re.search(r"Its log stays: (\S+)", done.stdout)
    assert place is not None
    database = sqlite3.connect(place[1])
    try:
        repaired, lost = database.execute(
            "SELECT count(*) FILTER (WHERE verdict = 'repaired'),"
            " count(*) FILTER (WHERE verdict = 'rejected' AND corrected = 0) FROM attempts"
        ).fetchone()
    finally:
        database.close()
        shutil.rmtree(Path(place[1]).parent)
    assert repaired > 0
    assert done.stdout.count("mended, handled") == repaired
    assert (lost, "sent back" in done.stdout, "agent:result" in done.stdout) == (0, True, True)


def test_up_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = ksi("--var", str(tmp_path / "file" / "var"), "up", "-d")
    assert done.returncode == 1
    assert done.stderr.startswith("error cannot_create: cannot write ")
    assert "Traceback" not in done.stderr


async def test_a_provider_that_is_named_gets_the_agents_model() -> None:
    fields = {"agent_id": "a", "system": "x", "provider": "openai", "model": "m"}
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connect(str(socket)) as client:
            await client.request("agent:spawn", fields)
            [agent] = (await client.request("agent:list"))["agents"]
    assert (agent["provider"], agent["model"]) == ("openai", "m")

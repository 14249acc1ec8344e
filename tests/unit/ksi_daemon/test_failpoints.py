from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from ksi_daemon.errors import UsageError
from ksi_daemon.failpoints import DIED_EXIT, POINTS, install


@pytest.mark.parametrize("name", POINTS)
def test_each_stands_for_a_method_that_there_is(name: str) -> None:
    point = POINTS[name]
    method = getattr(point.owner, point.method)
    assert inspect.iscoroutinefunction(method) or point.when == "before"
    assert not hasattr(method, "__wrapped__"), "a failpoint is in nobody's way who did not ask"


def test_one_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="no failpoint 'turn_begn'") as caught:
        install("turn_begn")
    assert (caught.value.exit_code, caught.value.hint) == (78, "did you mean 'turn_begun'?")


@pytest.mark.parametrize(
    ("when", "printed"), [("before", ""), ("during", "begun"), ("after", "begun done")]
)
def test_a_process_dies_where_it_is_told_to(when: str, printed: str) -> None:
    program = f"""
import anyio
from ksi_daemon import failpoints

class Work:
    async def do(self):
        print("begun", end="", flush=True)
        await anyio.sleep(0.05)
        print(" done", end="", flush=True)

failpoints.POINTS = {{"here": failpoints.Point(Work, "do", {when!r})}}
failpoints.install("here")
anyio.run(Work().do)
print("lived on")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout) == (DIED_EXIT, printed), done.stderr

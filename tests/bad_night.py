"""``python -m tests.bad_night DIR``: a night on which much goes wrong, lived by a real daemon.

Three agents on models that make mistakes at known rates take notes and look words up. One of them
tries what it may not, the tool that they share loses its dictionary, and the daemon is killed in
the middle of a reply and started again. What is left in DIR is the log that the README reads.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ksi_client import BlockingClient

__all__ = ["live"]

MESSAGES: Final = 12
# Slips of the calls of each model, by their names in the provider ``faulty``.
MODELS: Final[dict[str, tuple[str, dict[str, float]]]] = {
    "ada": ("large", {"trailing_comma": 0.05}),
    "ben": ("middle", {"comment": 0.2, "single_quotes": 0.1, "missing_closer": 0.1}),
    "cleo": ("small", {"truncated": 0.3, "missing_closer": 0.2, "raw_newline": 0.2}),
}
LOOKUP: Final = (
    '{"type": "ksi_tool_use", "id": "ksiu_1", "name": "lookup", "input": {"word": "comma"}}'
)
TOOL: Final = '''\
from pathlib import Path

from ksi_daemon.tools import tool

WORDS = Path(__file__).parents[1] / "dictionary.txt"


@tool(effect="observe", trusted=True)
def lookup(word: str) -> str:
    """Look a word up in the dictionary of the house."""
    return WORDS.read_text(encoding="utf-8").partition(word)[1]
'''


def live(var: Path) -> None:
    """Leave the log of such a night in the directory *var*."""
    (var / "plugins").mkdir(parents=True, mode=0o700)
    var.chmod(0o700)
    (var / "plugins" / "lookup.py").write_text(TOOL, encoding="utf-8")
    (var / "dictionary.txt").write_text("brace comma quote", encoding="utf-8")
    with _daemon(var) as ksi:
        for agent_id, (model, slips) in MODELS.items():
            replies = [reply for number in range(MESSAGES) for reply in _replies(agent_id, number)]
            ksi.request("agent:spawn", _agent(agent_id, model, replies, slips))
        slow = {"text": "That took long.", "delay_s": 600}
        ksi.request("agent:spawn", _agent("dora", "large", [slow], {}))
        for number in range(MESSAGES):
            if number == MESSAGES // 2:
                (var / "dictionary.txt").unlink()
            for agent_id in MODELS:
                _send(ksi, agent_id, f"Note {number}, please.", wait=True)
        _send(ksi, "dora", "Sum it all up.", wait=False)
    # The daemon was killed while the model of dora was at it.
    with _daemon(var) as ksi:
        ksi.request("system:mark", {"label": "morning"})


@contextmanager
def _daemon(var: Path) -> Iterator[BlockingClient]:
    """Run a daemon on *var*, and kill it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ksi_daemon", "--var", str(var), "--log-level", "error"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        socket = process.stdout.readline().decode().removeprefix("ready ").strip()
        with BlockingClient(Path(socket), patience_s=0) as ksi:
            yield ksi
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _agent(
    agent_id: str, model: str, replies: list[Any], slips: dict[str, float]
) -> dict[str, Any]:
    return {
        "agent_id": agent_id,
        "system": "You take notes.",
        "model": model,
        "provider": {
            "type": "faulty",
            "of": {"type": "scripted", "replies": replies, "on_empty": "stop"},
            "slips": slips,
            "seed": len(agent_id),
        },
        "allow": ["state:*", "lookup"],
    }


def _replies(agent_id: str, number: int) -> list[str]:
    """Return what the model says to a message, and to the results of its calls."""
    note = f'A \\"note\\" with {{braces}},\\nline {number}'
    said = (
        f'Noted.\n\n{{"event": "state:set", "data": {{"key": "{agent_id}", "value": "{note}"}}}}\n'
    )
    if not number % 3:
        said += f"\n{LOOKUP}\n"
    if agent_id == "cleo" and number == 4:
        said += '\n{"event": "agent:spawn", "data": {"agent_id": "helper", "system": "Help."}}\n'
    return [said, "Thank you."]


def _send(ksi: BlockingClient, agent_id: str, message: str, *, wait: bool) -> None:
    ksi.request("agent:send", {"agent_id": agent_id, "message": message, "wait": wait}, timeout=60)


if __name__ == "__main__":
    live(Path(sys.argv[1]))

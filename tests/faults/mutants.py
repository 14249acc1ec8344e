"""Daemons that break a promise: ``python -m tests.faults.mutants NAME [OPTION OF KSI-DAEMON]...``.

Tests that must find the breach are run against them.
"""

from __future__ import annotations

import asyncio
import sys
from copy import copy
from typing import Final

import msgspec

from ksi_daemon.cli import main
from ksi_daemon.events import Outcome
from ksi_daemon.log.writer import LogWriter
from ksi_daemon.work import Work

__all__: list[str] = []

LATE_S: Final = 0.05


def ack_before_commit() -> None:
    """Acknowledge at once, commit a little later."""
    submit = LogWriter.submit

    def early(self: LogWriter, work: Work) -> asyncio.Future[Work]:
        if work.event is None or work.event.name != "system:mark":
            return submit(self, work)
        later = msgspec.structs.replace(work, event=copy(work.event))
        loop = asyncio.get_running_loop()
        loop.call_later(
            LATE_S, lambda: submit(self, later).add_done_callback(asyncio.Future.exception)
        )
        work.event.seq = self.last_seq + 1
        work.outcome = Outcome("handled", msgspec.Raw(b"{}"))
        future: asyncio.Future[Work] = loop.create_future()
        future.set_result(work)
        return future

    LogWriter.submit = early  # type: ignore[method-assign]


if __name__ == "__main__":
    {"ack_before_commit": ack_before_commit}[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))

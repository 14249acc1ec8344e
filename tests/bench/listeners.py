"""Subscribers in a process of their own: each reads all it gets, and looks at none of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

__all__ = ["listening"]

SUBSCRIBE = b'{"id":1,"event":"monitor:subscribe","data":{"patterns":["system:*"]}}\n'


@contextmanager
def listening(socket: Path, count: int) -> Iterator[None]:
    """Have *count* subscribers on *socket* meanwhile."""
    command = [sys.executable, "-m", "tests.bench.listeners", str(socket), str(count)]
    with Popen(command, stdout=PIPE) as process:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise SystemExit("the subscribers did not start")
        try:
            yield
        finally:
            process.terminate()


class _Listener(asyncio.Protocol):
    def __init__(self) -> None:
        self.subscribed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.subscribed.done():
            self.subscribed.set_result(None)


async def main(socket: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        transport, listener = await loop.create_unix_connection(_Listener, socket)
        transport.write(SUBSCRIBE)
        await listener.subscribed
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

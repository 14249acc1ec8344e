"""What can be wrong with a ksi, one check each. ``ksi doctor`` runs them all.

A check looks and changes nothing of what is kept. It works on whatever is there: no daemon, a
stuck one, a var that is broken. What it finds is a value, with the command that mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ksi_client.doctor.components import components
from ksi_client.doctor.daemon import daemon, durability, version
from ksi_client.doctor.finding import Finding
from ksi_client.doctor.log import clock, log, write_lock
from ksi_client.doctor.machine import python, sqlite
from ksi_client.doctor.patient import Patient
from ksi_client.doctor.place import directories, disk, file_system, settings, socket_path
from ksi_client.doctor.provider import provider

__all__ = ["CHECKS", "Finding", "Patient", "examine"]

Check = Callable[[Patient], Iterator[Finding]]

# In the order in which a person would look: what fails early explains what fails later.
CHECKS: Final[tuple[Check, ...]] = (
    python,
    sqlite,
    settings,
    directories,
    socket_path,
    file_system,
    disk,
    daemon,
    version,
    durability,
    log,
    clock,
    write_lock,  # after those that read: its connection is the one that tidies up behind them
    components,
    provider,
)


def examine(patient: Patient) -> Iterator[Finding]:
    """Yield what each check finds; one that breaks on what it looks at is a finding too."""
    for check in CHECKS:
        try:
            yield from check(patient)
        except OSError as exc:
            yield Finding(check.__name__, "fail", f"cannot be looked at: {exc}")

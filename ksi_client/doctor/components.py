"""A check of what agents are made of: by the daemon if one answers, else as far as files tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ksi_client.doctor.finding import Finding
from ksi_client.doctor.patient import Patient
from ksi_daemon.composition import compose
from ksi_daemon.config import Settings
from ksi_daemon.errors import KsiError, NotFound
from ksi_daemon.services.components.files import Files

__all__ = ["components"]

# So many that are wrong are told; the rest is counted.
SHOWN: Final = 5


def components(patient: Patient) -> Iterator[Finding]:
    """Every component can be read, and what it names is there."""
    settings = patient.settings
    try:
        if patient.answers:
            count, wrong = _asked(patient)
        elif isinstance(settings, Settings):
            count, wrong = _read(settings)
        else:
            return
    except KsiError as exc:
        yield Finding("components", "fail", f"{exc.code}: {exc.message}")
        return
    for name, problem in wrong[:SHOWN]:
        fix = patient.command(f"components validate {name}")
        yield Finding("components", "fail", f"{name}: {problem}", fix)
    if len(wrong) > SHOWN:
        text = f"{len(wrong) - SHOWN} more have faults"
        yield Finding("components", "fail", text, patient.command("components validate"))
    if not wrong:
        yield Finding("components", "ok", f"{count} without a fault")


def _asked(patient: Patient) -> tuple[int, list[tuple[str, str]]]:
    found = patient.ask("composition:list")
    names = [each["name"] for each in (*found["components"], *found["broken"])]
    checked = [patient.ask("composition:validate", {"name": name}) for name in sorted(names)]
    wrong = [(each["name"], each["problems"][0]["message"]) for each in checked if each["problems"]]
    return len(names), wrong


def _read(settings: Settings) -> tuple[int, list[tuple[str, str]]]:
    if settings.components is not None and not settings.components_path.is_dir():
        raise NotFound("directory", settings.components)
    files = Files(settings.components_path, settings.base_components_path)
    names = files.names()
    wrong = []
    for name in names:
        try:
            compose(files.load(name), files.load)
        except KsiError as exc:
            wrong.append((name, exc.message))
    return len(names), wrong

"""How the findings of ``ksi doctor`` read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ksi_client.doctor.finding import Finding, Level
from ksi_client.text import Color, Paint, pad, visible, wrapped

__all__ = ["findings"]

_MARKS: Final[Mapping[Level, tuple[str, Color]]] = MappingProxyType(
    {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
)


def findings(found: Sequence[Finding], paint: Paint, cells: int) -> Iterator[str]:
    """Yield a line or more for each finding, and one that counts them."""
    size = max(len(each.check) for each in found)
    lead = " " * (size + 4)
    for each in found:
        mark, color = _MARKS[each.level]
        first, *more = list(wrapped(visible(each.text), max(20, cells - len(lead)))) or [""]
        yield f"{paint(mark, color)} {paint(pad(each.check, size), 'bold')}  {first}"
        for line in more:
            yield f"{lead}{line}"
        if each.fix is not None:
            yield f"{lead}{paint('fix:', 'cyan')} {visible(each.fix)}"
    yield _summary(found)


def _summary(found: Sequence[Finding]) -> str:
    wrong = sum(each.level == "fail" for each in found)
    odd = sum(each.level == "warn" for each in found)
    if not wrong and not odd:
        return "nothing is wrong"
    said = []
    if wrong:
        said.append(f"{wrong} thing{'s' * (wrong != 1)} wrong")
    if odd:
        said.append(f"{odd} worth a look")
    return ", ".join(said)

"""Hold a stream to the result for the whole text: what every test of streaming asks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ksi_daemon.extraction import (
    Call,
    Diagnostic,
    Extraction,
    Extractor,
    Protocol,
    Rejected,
    Text,
    extract,
)
from ksi_daemon.extraction.stream import Outcome

__all__ = ["fed", "streams_soundly", "whole"]


def _id() -> str:
    return "ksiu_generated"


def whole(text: str, settings: Protocol, stop_reason: str | None = None) -> Extraction:
    return extract(text, settings, stop_reason=stop_reason, new_id=_id)


def fed(
    text: str, settings: Protocol, cuts: Iterable[int], stop_reason: str | None = None
) -> tuple[list[Outcome], Extraction]:
    """Return what comes out of *text* in pieces, cut at each of *cuts*, and the result."""
    extractor = Extractor(settings, new_id=_id)
    found: list[Outcome] = []
    for start, end in pairwise([0, *cuts, len(text)]):
        found += extractor.feed(text[start:end])
    return found, extractor.close(stop_reason)


def streams_soundly(
    text: str, settings: Protocol, cuts: Iterable[int], stop_reason: str | None = None
) -> None:
    """The result is that for the whole text, and what came out before is the beginning of it."""
    expected = whole(text, settings, stop_reason)
    found, result = fed(text, settings, cuts, stop_reason)
    assert result == expected
    for kind, all_of_it in (
        (Call, expected.calls),
        (Rejected, expected.rejected),
        (Diagnostic, expected.diagnostics),
    ):
        told = tuple(each for each in found if isinstance(each, kind))
        assert told == all_of_it[: len(told)]
    texts = [each for each in found if isinstance(each, Text)]
    assert all(text[each.start : each.end] == each.text for each in texts)
    assert expected.residual.startswith("".join(each.text for each in texts))
    starts = [each.start for each in found]
    assert [each.start for each in texts] == sorted(each.start for each in texts), starts

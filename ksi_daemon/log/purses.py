"""The rows of purses, what rights with a budget are counted in, for ``work.Statement``."""

from __future__ import annotations

from ksi_daemon.work import Statement

__all__ = ["purse_used", "purses_gone"]


def purse_used(purse: str) -> Statement:
    """Count a use of a right."""
    return (
        "INSERT INTO purses VALUES (?, 1) ON CONFLICT (purse) DO UPDATE SET used = used + 1",
        (purse,),
    )


def purses_gone(family: str) -> Statement:
    """Forget the purses of a family that has ended."""
    # "0" comes right behind "/".
    return "DELETE FROM purses WHERE purse >= ? AND purse < ?", (f"{family}/", f"{family}0")

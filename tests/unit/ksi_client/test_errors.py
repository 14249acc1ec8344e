from __future__ import annotations

import pytest

from ksi_client.errors import DaemonError, LinkLost, NoDaemon
from ksi_daemon.events import ErrorInfo


@pytest.mark.parametrize(
    ("exc", "message", "hint"),
    [
        pytest.param(
            FileNotFoundError(2, "No such file"),
            "no daemon at '/s'",
            "ksi up starts one",
            id="none",
        ),
        pytest.param(
            ConnectionRefusedError(111, "refused"),
            "no daemon at '/s'",
            "ksi up starts one",
            id="a stale socket",
        ),
        pytest.param(
            PermissionError(13, "Permission denied"),
            "no daemon at '/s': Permission denied",
            "look at --var and KSI_SOCKET",
            id="not ours",
        ),
        pytest.param(
            OSError("AF_UNIX path too long"),
            "no daemon at '/s': AF_UNIX path too long",
            "look at --var and KSI_SOCKET",
            id="a long path",
        ),
    ],
)
def test_why_there_is_no_daemon(exc: OSError, message: str, hint: str) -> None:
    error = NoDaemon.because("/s", exc)
    assert (error.message, error.hint, error.code) == (message, hint, "no_daemon")


def test_a_lost_link_is_no_daemon() -> None:
    error: NoDaemon = LinkLost("/s")
    assert str(error) == "no daemon at '/s': the connection broke before the answer came"


def test_a_daemons_error_is_kept_whole() -> None:
    info = ErrorInfo("storage_full", "no space", "free some", True, {"path": "x"})
    assert DaemonError(info).info() == info

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ksi_daemon.errors import UsageError
from ksi_daemon.transports.http import token


def test_it_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "http.token"
    made = token(path)
    assert len(made) >= 43  # 32 random bytes
    assert path.stat().st_mode & 0o777 == 0o600
    assert token(path) == made
    assert token(tmp_path / "other") != made


def test_it_may_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "http.token"
    path.write_text("a-token-of-my-own\n")
    path.chmod(0o600)
    assert token(path) == "a-token-of-my-own"


@pytest.mark.parametrize(
    ("text", "mode", "message", "hint"),
    [
        pytest.param("a-token-of-my-own", 0o640, "others can read it", "chmod 600", id="group"),
        pytest.param("a-token-of-my-own", 0o604, "others can read it", "chmod 600", id="others"),
        pytest.param("", 0o600, "it holds no token of 16 to 1024", "remove it", id="empty"),
        pytest.param("short", 0o600, "it holds no token", "remove it", id="too short"),
        pytest.param("x" * 2000, 0o600, "it holds no token", "remove it", id="too long"),
        pytest.param(
            "a-token-\x07-of-my-own", 0o600, "it holds no token", "remove it", id="a bell"
        ),
    ],
)
def test_a_file_that_is_no_secret_is_refused(
    tmp_path: Path, text: str, mode: int, message: str, hint: str
) -> None:
    path = tmp_path / "http.token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(UsageError, match=message) as caught:
        token(path)
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    if text:
        assert text not in str(caught.value)


def test_a_link_and_a_pipe_are_no_files(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    token(real)
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(UsageError):
        token(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="it is no file"):
        token(tmp_path / "pipe")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory"):
        token(tmp_path / "gone" / "http.token")

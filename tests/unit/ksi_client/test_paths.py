from __future__ import annotations

from pathlib import Path

import pytest

from ksi_client.paths import socket_path, var_directory
from ksi_daemon import config

CHECKOUT = '[build-system]\nrequires = []\n\n[project]\nname = "ksi"\nversion = "1"\n'


@pytest.mark.parametrize(
    ("var", "environ", "pyproject", "expected"),
    [
        pytest.param("/x", {"KSI_VAR": "/y"}, CHECKOUT, "/x", id="a flag wins"),
        pytest.param("x", {}, None, "CWD/x", id="a flag is relative to here"),
        pytest.param(None, {"KSI_VAR": "/y"}, CHECKOUT, "/y", id="then the environment"),
        pytest.param(None, {"KSI_VAR": ""}, CHECKOUT, "CWD/var", id="empty is not set"),
        pytest.param(None, {}, CHECKOUT, "CWD/var", id="then a checkout"),
        pytest.param(None, {"XDG_STATE_HOME": "/s"}, None, "/s/ksi", id="then the state directory"),
        pytest.param(
            None,
            {"XDG_STATE_HOME": "/s"},
            '[project]\nname = "other"\n',
            "/s/ksi",
            id="a checkout of something else",
        ),
        pytest.param(
            None,
            {"XDG_STATE_HOME": "/s"},
            '[project]\ndescription = "x"\n[tool.x]\nname = "ksi"\n',
            "/s/ksi",
            id="the name of another table",
        ),
    ],
)
def test_var_directory(
    tmp_path: Path, var: str | None, environ: dict[str, str], pyproject: str | None, expected: str
) -> None:
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_text(pyproject)
    found = var_directory(var, environ=environ, cwd=tmp_path)
    assert str(found) == expected.replace("CWD", str(tmp_path))


@pytest.mark.parametrize(
    ("var", "environ", "expected"),
    [
        pytest.param(None, {"KSI_SOCKET": "/k/s"}, "/k/s", id="KSI_SOCKET"),
        pytest.param("/v", {"KSI_SOCKET": "/k/s"}, "/v/run/daemon.sock", id="a flag wins"),
        pytest.param(None, {"KSI_VAR": "/v"}, "/v/run/daemon.sock", id="below var"),
    ],
)
def test_socket_path(
    tmp_path: Path, var: str | None, environ: dict[str, str], expected: str
) -> None:
    assert str(socket_path(var, environ=environ, cwd=tmp_path)) == expected


@pytest.mark.parametrize("pyproject", [None, CHECKOUT, '[project]\nname = "other"\n'])
@pytest.mark.parametrize("environ", [{}, {"KSI_VAR": "/v"}, {"KSI_VAR": "v"}])
def test_the_daemon_has_the_same_rule(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pyproject: str | None,
    environ: dict[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_text(pyproject)
    ours = var_directory(environ={**environ, "XDG_STATE_HOME": str(tmp_path / "state")})
    assert ours == config.var_directory(environ)

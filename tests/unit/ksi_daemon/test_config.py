from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_daemon import config
from ksi_daemon.config import CONFIG_EXIT, Settings, load, var_directory
from ksi_daemon.errors import UsageError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a directory that is no checkout and at home nowhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_defaults() -> None:
    assert load({"var": "v"}, {}) == Settings(var="v")


@pytest.mark.parametrize(
    ("flags", "environ", "file", "model"),
    [
        pytest.param({}, {}, "", None, id="default"),
        pytest.param({}, {}, "model = 'f'", "f", id="file"),
        pytest.param({}, {"KSI_MODEL": "e"}, "model = 'f'", "e", id="environment over file"),
        pytest.param({"model": "c"}, {"KSI_MODEL": "e"}, "model = 'f'", "c", id="flag over all"),
        pytest.param({"model": None}, {"KSI_MODEL": "e"}, "", "e", id="a flag not given"),
    ],
)
def test_who_wins(
    flags: dict[str, Any], environ: dict[str, str], file: str, model: str | None
) -> None:
    written(Path("v/ksi.toml"), file)
    assert load({"var": "v"} | flags, environ).model == model


@pytest.mark.parametrize(
    ("flags", "environ", "var"),
    [
        pytest.param({}, {}, "from-file", id="file"),
        pytest.param({}, {"KSI_VAR": "/from-environment"}, "/from-environment", id="environment"),
        pytest.param({}, {"KSI_VAR": ""}, "from-file", id="empty is not set"),
        pytest.param(
            {"var": "from-flag"}, {"KSI_VAR": "/from-environment"}, "from-flag", id="flag"
        ),
    ],
)
def test_who_wins_on_the_var_directory(
    flags: dict[str, Any], environ: dict[str, str], var: str
) -> None:
    written(Path("c.toml"), "var = 'from-file'")
    assert load({"config": "c.toml"} | flags, environ).var == var


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        pytest.param({"config": "c.toml"}, {}, id="flag"),
        pytest.param({}, {"KSI_CONFIG": "c.toml"}, id="environment"),
        pytest.param(
            {"config": "c.toml"}, {"KSI_CONFIG": "absent.toml"}, id="flag over environment"
        ),
    ],
)
def test_the_file_that_is_named_is_read_in_place_of_vars_own(
    flags: dict[str, Any], environ: dict[str, str]
) -> None:
    written(Path("c.toml"), "max_turns = 3")
    written(Path("v/ksi.toml"), "max_agents = 5")
    assert load({"var": "v"} | flags, environ) == Settings(var="v", max_turns=3)


def test_text_from_the_environment_becomes_what_the_setting_is() -> None:
    environ = {
        "KSI_MAX_FRAME_BYTES": "2048",
        "KSI_FRAME_TIMEOUT_S": "1.5",
        "KSI_DURABILITY": "process",
        "HOME": "/nowhere",
    }
    assert load({"var": "v"}, environ) == Settings(
        var="v", max_frame_bytes=2048, frame_timeout_s=1.5, durability="process"
    )


@pytest.mark.parametrize(
    ("flags", "environ", "file", "message", "hint"),
    [
        pytest.param(
            {},
            {"KSI_DURABILTY": "power"},
            "",
            "the environment: unknown setting 'durabilty'",
            "did you mean 'durability'?",
            id="misspelt variable",
        ),
        pytest.param(
            {}, {}, "zzz = 1", "v/ksi.toml: unknown setting 'zzz'", None, id="unknown in the file"
        ),
        pytest.param(
            {},
            {"KSI_DURABILITY": "none"},
            "",
            "the environment: Invalid enum value 'none' - at `$.durability`",
            None,
            id="no such choice",
        ),
        pytest.param(
            {"max_turns": 0},
            {},
            "",
            "the command line: Expected `int` >= 1 - at `$.max_turns`",
            None,
            id="too small",
        ),
        pytest.param(
            {},
            {},
            "max_frame_bytes = 9_000_000",
            "v/ksi.toml: Expected `int` <= 8388608 - at `$.max_frame_bytes`",
            None,
            id="too large",
        ),
        pytest.param(
            {},
            {},
            "[agents]\nmax = 1",
            "v/ksi.toml: unknown setting 'agents'",
            "did you mean 'max_agents'?",
            id="a table",
        ),
        pytest.param(
            {},
            {},
            "max_turns =",
            "v/ksi.toml: Invalid value (at end of document)",
            None,
            id="not TOML",
        ),
        pytest.param(
            {"config": "absent.toml"},
            {},
            "",
            "no configuration file 'absent.toml'",
            None,
            id="file that is not there",
        ),
        pytest.param(
            {"config": "v"},
            {},
            "",
            "v: [Errno 21] Is a directory: 'v'",
            None,
            id="file that is a directory",
        ),
    ],
)
def test_what_is_set_wrong_is_named_with_its_place(
    flags: dict[str, Any], environ: dict[str, str], file: str, message: str, hint: str | None
) -> None:
    written(Path("v/ksi.toml"), file)
    with pytest.raises(UsageError) as caught:
        load({"var": "v"} | flags, environ)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert (caught.value.exit_code, caught.value.code) == (CONFIG_EXIT, "invalid_configuration")


def test_the_file_need_not_be_utf8_to_be_refused() -> None:
    Path("c.toml").write_bytes(b"model = '\xff'")
    with pytest.raises(UsageError, match=r"c\.toml: .*codec can't decode"):
        load({"config": "c.toml"}, {})


@pytest.mark.parametrize(
    ("environ", "project", "expected"),
    [
        pytest.param({"KSI_VAR": "/somewhere"}, "ksi", "/somewhere", id="KSI_VAR"),
        pytest.param({"KSI_VAR": "some/where"}, "ksi", "here/some/where", id="relative KSI_VAR"),
        pytest.param({}, "ksi", "here/var", id="a checkout"),
        pytest.param({}, "other", "here/state/ksi", id="another project"),
        pytest.param({}, "ksi' oops", "here/state/ksi", id="a broken pyproject"),
        pytest.param({}, None, "here/state/ksi", id="anywhere else"),
    ],
)
def test_where_the_runtime_files_are(
    environ: dict[str, str], project: str | None, expected: str, tmp_path: Path
) -> None:
    if project is not None:
        written(Path("pyproject.toml"), f"[project]\nname = '{project}'\n")
    found = var_directory(environ)
    assert str(found).replace(str(tmp_path), "here") == expected


def test_paths_follow_from_var() -> None:
    settings = Settings(var="/v")
    assert [
        str(path)
        for path in (
            settings.var_path,
            settings.socket_path,
            settings.lock_path,
            settings.log_path,
            settings.plugins_path,
        )
    ] == ["/v", "/v/run/daemon.sock", "/v/run/daemon.lock", "/v/events.db", "/v/plugins"]


def test_a_checkouts_components_are_found_without_being_told() -> None:
    settings = Settings(var="/v")
    assert (settings.components_path / "agents" / "greeter.md").is_file()
    assert settings.base_components_path is None


def test_an_installed_ksi_has_components_of_ones_own_and_those_it_came_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_SHIPPED", tmp_path)
    settings = Settings(var="/v")
    assert (settings.components_path, settings.base_components_path) == (
        Path("/v/components"),
        tmp_path,
    )
    assert Settings(var="/v", components="/c").base_components_path is None


def test_directories_that_are_set() -> None:
    settings = Settings(var="/v", components="/c", plugins="/p")
    assert (settings.components_path, settings.plugins_path) == (Path("/c"), Path("/p"))


def test_every_time_and_size_has_its_unit_in_its_name() -> None:
    # Counts are plain numbers; what is not a count says what it is measured in.
    units = {
        "frame_timeout_s": 10.0,
        "stall_timeout_s": 30.0,
        "drain_timeout_s": 10.0,
        "handler_timeout_s": 30.0,
        "retention_days": 30.0,
        "run_code_timeout_s": 10.0,
        "agent_events_per_s": 10.0,
        "agent_spawns_per_s": 1.0,
    }
    settings = msgspec.structs.asdict(Settings(var="v"))
    assert {name: value for name, value in settings.items() if type(value) is float} == units

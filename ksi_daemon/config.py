"""Settings: every path, limit and timeout, and where each may be set.

A flag wins over the environment (``KSI_`` and the name in capitals), which wins over the TOML
file (``--config``, else ``KSI_CONFIG``, else ``ksi.toml`` in the var directory if there is one).
The structs are msgspec's and not pydantic's: importing pydantic costs half of the start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from ksi_daemon.errors import UsageError, nearest

__all__ = ["CONFIG_EXIT", "McpServer", "Settings", "load", "var_directory"]

CONFIG_EXIT: Final = 78  # sysexits.h: EX_CONFIG
_PREFIX: Final = "KSI_"
# In a checkout this is a link to where the components are; an installed package holds them.
_SHIPPED: Final = Path(__file__).parent / "components"
# Read elsewhere: by the client, by the tests.
_NOT_SETTINGS: Final = frozenset({"KSI_CONFIG", "KSI_SOCKET", "KSI_VAR", "KSI_FAILPOINT"})

Count = Annotated[int, msgspec.Meta(ge=1)]
Bytes = Annotated[int, msgspec.Meta(ge=1024, le=8 * 1024 * 1024)]
Dollars = Annotated[float, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that the daemon connects to: a program (*command*, *args*) or an address (*url*).

    ``${NAME}`` in the values of *env* and *headers* is a variable of the daemon's environment.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ("*",)
    prefix: str | None = None
    timeout_s: Seconds = 60.0
    start_timeout_s: Seconds = 30.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. Sizes are in bytes, times in seconds.

    *provider*, *base_url*, *api_key_env* and *model* are for agents that name no provider,
    *protocol* is the preset of those that name none. *prices* are ``MODEL=IN/OUT`` in US dollars
    for a million tokens, with blanks between (``loop.price_list``). What is None has no bound;
    *retention_days* and *retention_bytes* have none when they are 0. *run_code* is for the tool
    of that name (``services.run_code``). *http_port* None keeps the HTTP door closed.
    *mcp_profile* is what programs may do that ask over MCP and name no other; *mcp_servers* are
    servers whose tools the daemon has.
    """

    var: str
    components: str | None = None
    plugins: str | None = None
    durability: Literal["power", "process"] = "power"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "text"] = "auto"

    allow_network_fs: bool = False
    retention_days: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    retention_bytes: Annotated[int, msgspec.Meta(ge=0)] = 4 * 1024 * 1024 * 1024

    provider: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    model: str | None = None
    protocol: str = "ksi"
    prices: str = ""

    max_frame_bytes: Bytes = 1024 * 1024
    frame_timeout_s: Seconds = 10.0
    stall_timeout_s: Seconds = 30.0
    max_connections: Count = 256
    subscriber_events: Count = 1_000
    subscriber_bytes: Count = 4 * 1024 * 1024
    drain_timeout_s: Seconds = 10.0

    http_port: Port | None = None
    http_host: str = "127.0.0.1"
    mcp_profile: str = "auditor"
    mcp_servers: dict[str, McpServer] = {}

    run_code: bool = False
    run_code_timeout_s: Seconds = 10.0
    run_code_memory_bytes: Annotated[int, msgspec.Meta(ge=64 * 1024 * 1024)] = 256 * 1024 * 1024

    handler_timeout_s: Seconds = 30.0
    max_hops: Count = 16
    max_events_per_root: Count = 256
    max_turns: Count = 25
    max_mistakes: Count = 3
    max_identical_turns: Count = 3
    max_same_calls: Count = 5
    max_exchange_tokens: Count | None = None
    max_exchange_usd: Dollars | None = None
    max_exchange_s: Seconds | None = None
    max_agents: Count = 20_000
    agent_events_per_s: Rate = 10.0
    agent_events_burst: Count = 100
    agent_spawns_per_s: Rate = 1.0
    agent_spawns_burst: Count = 5
    max_spawn_depth: Count = 3
    max_children: Count = 5
    max_descendants: Count = 32
    max_mailbox: Count = 256

    @property
    def var_path(self) -> Path:
        """The directory of run-time files."""
        return Path(self.var)

    @property
    def socket_path(self) -> Path:
        """The daemon's socket."""
        return self.var_path / "run" / "daemon.sock"

    @property
    def mcp_socket_path(self) -> Path:
        """The socket for MCP by lines."""
        return self.var_path / "run" / "mcp.sock"

    @property
    def token_path(self) -> Path:
        """The file that holds the token of the HTTP door."""
        return self.var_path / "http.token"

    @property
    def lock_path(self) -> Path:
        """The file whose lock says that a daemon runs."""
        return self.var_path / "run" / "daemon.lock"

    @property
    def log_path(self) -> Path:
        """The event log."""
        return self.var_path / "events.db"

    @property
    def files_path(self) -> Path:
        """The directory of the files that tools make."""
        return self.var_path / "files"

    @property
    def components_path(self) -> Path:
        """The directory of components: as set, else that of a checkout, else one under var."""
        if self.components is not None:
            return Path(self.components)
        return _SHIPPED.resolve() if _SHIPPED.is_symlink() else self.var_path / "components"

    @property
    def base_components_path(self) -> Path | None:
        """Components to read beside one's own: those that an installed ksi came with."""
        return None if self.components is not None or _SHIPPED.is_symlink() else _SHIPPED

    @property
    def plugins_path(self) -> Path:
        """The directory of plugin files."""
        return Path(self.plugins) if self.plugins is not None else self.var_path / "plugins"


def load(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings made of *flags* (None: not given), *environ* and the TOML file.

    Raise UsageError with the name of the setting and the place where it was set wrong.
    """
    environ = os.environ if environ is None else environ
    given = {name: value for name, value in flags.items() if value is not None}
    config = given.pop("config", None) or environ.get("KSI_CONFIG")
    var = given.get("var") or str(var_directory(environ))
    path = Path(config) if config else Path(var) / "ksi.toml"
    values: dict[str, Any] = {"var": var}
    for origin, layer in (
        (str(path), _from_file(path, required=config is not None)),
        ("the environment", _from_environment(environ)),
        ("the command line", given),
    ):
        values |= layer
        _convert(values, origin)
    return _convert(values, "the command line")


def var_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of run-time files when no flag names it.

    KSI_VAR, else ``./var`` of a checkout of ksi, else the user's state directory.
    """
    if environ.get("KSI_VAR"):
        return Path(environ["KSI_VAR"]).absolute()
    if _is_checkout(Path.cwd()):
        return Path.cwd() / "var"
    # Who names the directory, as most do, need not wait for what finds it.
    import platformdirs

    return Path(platformdirs.user_state_dir("ksi", appauthor=False))


def _is_checkout(directory: Path) -> bool:
    try:
        text = (directory / "pyproject.toml").read_text(encoding="utf-8")
        return bool(_toml(text).get("project", {}).get("name") == "ksi")
    except (OSError, ValueError):
        return False


def _from_file(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return _toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not required:
            return {}
        raise UsageError(f"no configuration file {str(path)!r}", exit_code=CONFIG_EXIT) from None
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: {exc}", exit_code=CONFIG_EXIT) from exc


def _toml(text: str) -> dict[str, Any]:
    # A daemon without a file need not wait for what would read it.
    import tomllib

    return tomllib.loads(text)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in *environ*.

    A variable that starts with KSI_ and names no setting is an error: it is nearly always a
    misspelt one, and a setting that is silently not in force is the worse surprise.
    """
    found = {
        name: value
        for name, value in environ.items()
        if name.startswith(_PREFIX) and name not in _NOT_SETTINGS
    }
    values: dict[str, Any] = {n.removeprefix(_PREFIX).lower(): v for n, v in found.items()}
    if "mcp_servers" in values:
        values["mcp_servers"] = _object(values["mcp_servers"])
    return values | {"var": str(var_directory(environ))} if environ.get("KSI_VAR") else values


def _object(text: str) -> Any:
    """Return the object that *text* is as JSON: the one setting that is no single value."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        message = f"the environment: KSI_MCP_SERVERS is not JSON: {exc}"
        raise UsageError(message, exit_code=CONFIG_EXIT) from exc


def _convert(values: dict[str, Any], origin: str) -> Settings:
    unknown = sorted(set(values) - set(Settings.__struct_fields__))
    if unknown:
        close = nearest(unknown[0], Settings.__struct_fields__)
        raise UsageError(
            f"{origin}: unknown setting {unknown[0]!r}",
            exit_code=CONFIG_EXIT,
            hint=f"did you mean {close!r}?" if close else None,
        )
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{origin}: {exc}", exit_code=CONFIG_EXIT) from exc

"""The house as DESIGN draws it: who may import whom, and what no module may do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    path for package in ("ksi_daemon", "ksi_client") for path in (ROOT / package).rglob("*.py")
)

# A room may import from rooms of its own rank and below. Pure rooms do no I/O.
RANKS = {
    "events": 0,
    "errors": 0,
    "work": 1,
    "clock": 1,
    "exposition": 1,
    "collector": 1,
    "moments": 1,
    "protocol": 1,
    "extraction": 1,
    "security": 2,
    "loop": 5,
    "strict_yaml": 1,
    "front_matter": 1,
    "component": 2,
    "composition": 2,
    "schemas": 2,
    "files": 2,
    "registry": 3,
    "submission": 3,
    "admission": 4,
    "tools": 4,
    "feed": 3,
    "router": 4,
    "conversation": 5,
    "log": 5,
    "providers": 5,
    "services": 5,
    "transports": 5,
    "cluster": 5,
    "plugins": 5,
    "config": 5,
    "provisions": 6,
    "house": 6,
    "reload": 6,
    "stacks": 1,
    "daemon": 6,
    "upkeep": 6,
    "watchdog": 6,
    "failpoints": 6,
    "cli": 7,
    "testing": 7,
    "__main__": 8,
}
# What is imported when it is first needed, each for a reason that its module states.
LATE_IMPORTS = {
    "ksi_client/commands/attempts.py",  # the extractor doubles the start, and few calls need it
    "ksi_client/commands/chat.py",  # readline writes to stdout when it is loaded without a terminal
    "ksi_daemon/config.py",
    "ksi_daemon/front_matter.py",
    "ksi_daemon/log/export/parquet.py",  # an extra
    "ksi_daemon/plugins.py",
    "ksi_daemon/schemas.py",
    "ksi_daemon/services/mcp/library.py",
    "ksi_daemon/transports/http/library.py",
    "ksi_daemon/transports/mcp/library.py",
}
PURE = (
    "events",
    "errors",
    "extraction",
    "protocol",
    "security",
    "front_matter",
    "strict_yaml",
    "component",
    "composition",
    "conversation",
    "exposition",
    "loop",
)
# What `ksi extract` and `ksi prompt` are made of.
NEED_NO_DAEMON = (
    "chat.py",
    "compared.py",
    "comparing.py",
    "explained.py",
    "extract.py",
    "extracted.py",
    "golden.py",
    "mending.py",
    "prompt.py",
    "protocol.py",
    "replay.py",
    "replayed.py",
    "replaying.py",
    "tools.py",
)
# What reads a log's file itself, with or without a daemon.
READ_LOG_FILES = ("audit.py", "datasette.py", "export.py", "open.py", "replay.py", "upkeep.py")
# Who says what is wrong with a house must know it.
KNOWN_TO_THE_DOCTOR = {"composition", "config", "log", "providers", "services"}
IO_MODULES = {
    "asyncio",
    "anyio",
    "socket",
    "subprocess",
    "pathlib",
    "os",
    "io",
    "httpx2",
    "aiosqlite",
    "shutil",
    "tempfile",
    "threading",
    "urllib",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(module: str) -> str | None:
    """Return the room of ksi_daemon that *module* is in; None for the package itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "ksi_daemon" and len(parts) > 1 else None


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """Yield each module that *path* imports, also those that are named by ``from package``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module in ("ksi_daemon", "ksi_client"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def everywhere(*names: str) -> list[Path]:
    return [path for path in MODULES if room_of(module_of(path)) in names]


def test_the_rooms_are_those_that_are_ranked() -> None:
    rooms = {room_of(module_of(path)) for path in MODULES} - {None}
    assert rooms <= set(RANKS), f"give {rooms - set(RANKS)} a rank"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_imports_upward(path: Path) -> None:
    own = room_of(module_of(path))
    if own is None:
        return
    for imported in imports(path):
        room = room_of(imported)
        if room in RANKS:
            assert RANKS[room] <= RANKS[own], f"{imported} is above {own}"
        assert not imported.startswith("ksi_client"), f"{imported} is the client's"


@pytest.mark.parametrize("path", everywhere("services"), ids=name_of)
def test_services_do_not_know_each_other(path: Path) -> None:
    def service(module: str) -> str:
        return module.split(".")[2]

    own = module_of(path)
    if own.count(".") < 2:
        return
    for imported in imports(path):
        if imported.startswith("ksi_daemon.services."):
            assert service(imported) == service(own), f"{own} knows {imported}"


@pytest.mark.parametrize("path", everywhere(*PURE), ids=name_of)
def test_pure_rooms_do_no_io(path: Path) -> None:
    found = {imported.split(".")[0] for imported in imports(path)} & IO_MODULES
    assert not found, f"{name_of(path)} imports {found}"


@pytest.mark.parametrize("path", everywhere("extraction"), ids=name_of)
def test_extraction_needs_only_the_standard_library_and_msgspec(path: Path) -> None:
    foreign = {"pydantic", "yaml", "anyio", "structlog", "uuid_utils", "httpx2", "aiosqlite"}
    assert not {imported.split(".")[0] for imported in imports(path)} & foreign


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.is_relative_to(ROOT / "ksi_client")], ids=name_of
)
def test_the_client_knows_only_the_wire(path: Path) -> None:
    allowed = {"protocol", "events", "errors"}
    if path.name in NEED_NO_DAEMON:
        allowed.add("extraction")
    if path.name in READ_LOG_FILES:
        allowed |= {"log", "upkeep"}
    if path.parent.name == "doctor":
        allowed |= KNOWN_TO_THE_DOCTOR
    for imported in imports(path):
        room = room_of(imported)
        assert room is None or room in allowed | {"__version__"}, f"{imported} is the daemon's"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_offers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module begins with what it is for"
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    assert "__all__" in names


@pytest.mark.parametrize(
    "path", [path for path in MODULES if name_of(path) not in LATE_IMPORTS], ids=name_of
)
def test_no_imports_hide_in_functions(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    hidden = [
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not hidden


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_has_global_state(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)]


@pytest.mark.parametrize("path", everywhere("extraction", "services", "security"), ids=name_of)
def test_S003_48_model_text_is_never_evaluated(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}


def test_only_the_router_calls_handlers_and_writes_events() -> None:
    """Security is the router's job, at one place: nobody else has the means."""
    calls_handler = re.compile(r"\.call\(")
    writes_event = re.compile(r"Work\(\s*event=|INSERT INTO events")
    for path in MODULES:
        text, name = path.read_text(encoding="utf-8"), name_of(path)
        if calls_handler.search(text):
            assert name == "ksi_daemon/router.py", f"{name} calls a handler"
        if writes_event.search(text):
            assert name == "ksi_daemon/router.py", f"{name} writes an event"

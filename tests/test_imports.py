"""The arrows of the plan: what may import what, read from the sources."""
from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
EXT = ROOT / "ext"

# A core's files, from the roof down: each imports from the lines below its own. In C a name is a pair,
# `_x.pxd` and `_x.pyx`; in the reference `_x` is `_reference/x.py`. `_section` is the reference's alone.
CORE_FLOORS = [
    {"_timer", "_purgatory", "_timeout", "_idle"},
    {"_timercore", "_operation"},
    {"_firing"},
    {"_scheduling"},
    {"_section"},
    {"_timerstate"},
    {"_wheel", "_ready", "_table", "_replay", "_loop"},
    {"_task", "_ticks", "_saved", "_check", "_onecall", "_watchers", "_tracking"},
    {"_levels", "_slots", "_slab"},
    {"_bucketheap", "_curve", "_histogram", "_runners"},
    {"_bucket", "_stamptable"},
]

# The rooms of the package, from the roof down: each imports from the lines below its own.
FLOORS = [
    {"cli"},
    {"bench"},
    {"spark"},
    {"replication"},
    {"recipes"},
    {"dropin", "prometheus", "replay", "report", "workload"},
    {"purgatory", "trace"},
    {"timer"},
    {"executor", "extras", "futures", "loopexecutor", "machine", "output", "reaper", "units"},
    {"_loopcore", "clock", "closing", "log", "meanwhile", "metrics"},
    {"_core", "bootclock"},
    {"_reference", "locksleeper", *(path.stem for path in EXT.rglob("*.pyx"))},
]

# The rooms that may import what is not the standard library.
OPTIONAL = {
    "aiohttp": {"bench"},
    "cachetools": {"bench"},
    "crc32c": {"bench", "replication"},
    "gevent": {"bench"},
    "hdrh": {"recipes"},
    "kio": {"bench", "replication"},
    "matplotlib": {"report"},
    "prometheus_client": {"prometheus", "recipes"},
    "py4j": {"spark"},
    "numpy": {"bench", "spark"},
    "pandas": {"bench", "spark"},
    "pyarrow": {"bench", "replay", "spark", "trace"},
    "pyspark": {"bench", "spark"},
    "rich": {"cli"},
    "twisted": {"bench"},
    "uvloop": {"bench"},
}


def modules() -> dict[str, Path]:
    """Every module of the package, by its full name."""
    found = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found | {f"tickwheel.{path.stem}": path for path in sorted(EXT.rglob("*.pyx"))}


MODULES = modules()
PYTHON = {name: path for name, path in MODULES.items() if path.suffix == ".py"}


def imported(name: str, path: Path) -> Iterator[str]:
    """The full names of the modules that a module imports, wherever in it, also through `require("...")`."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
                source = ".".join(part for part in (base, module) if part)
                for alias in names:
                    member = f"{source}.{alias.name}"
                    yield member if member in MODULES else source
            case ast.Call(
                func=ast.Name(id="require" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield target


def room(module: str) -> str:
    """tickwheel.trace.lines -> trace."""
    return module.split(".")[1]


def mirror(module: str) -> str:
    """tickwheel._reference.levels -> _levels."""
    return f"_{module.rpartition('.')[2]}"


def below(floors: list[set[str]], name: str) -> set[str]:
    """All that lies under a room or file."""
    for number, names in enumerate(floors):
        if name in names:
            return set().union(*floors[number + 1 :])
    raise AssertionError(f"{name!r} has no floor")


def inside(name: str) -> set[str]:
    return {target for target in imported(name, PYTHON[name]) if target.split(".")[0] == "tickwheel"}


def test_each_floor_is_there():
    """FLOORS and CORE_FLOORS name what there is, and each name once."""
    rooms = {room(name) for name in MODULES.keys() - {"tickwheel"}}
    assert sorted(name for names in FLOORS for name in names) == sorted(rooms)
    reference = {mirror(name) for name in PYTHON if name.startswith("tickwheel._reference.")}
    files = {path.stem for path in EXT.rglob("*.p[yx][xd]")}
    assert reference - files == {"_section"}, "a file of the reference mirrors one in C"
    files |= reference
    assert sorted(name for names in CORE_FLOORS for name in names) == sorted(files)


@pytest.mark.parametrize("name", sorted(PYTHON.keys() - {"tickwheel"}))
def test_imports_point_downward(name):
    """A room imports from the floors below it, and from no other room on its own."""
    own = room(name)
    for target in inside(name) - {"tickwheel"}:
        theirs = room(target)
        assert theirs == own or theirs in below(FLOORS, own), f"{name} imports {target}, not below it"


@pytest.mark.parametrize("name", sorted(name for name in PYTHON if name.startswith("tickwheel._reference.")))
def test_the_reference_has_the_floors_of_the_c_core(name):
    """Both cores are built alike: a file of the reference imports what its mirror may."""
    for target in inside(name):
        assert mirror(target) in below(CORE_FLOORS, mirror(name)), f"{name} imports {target}"


@pytest.mark.parametrize("name", sorted(PYTHON.keys() - {"tickwheel"}))
def test_nothing_imports_the_front_door(name):
    """tickwheel/__init__ names what is public, for users: the rooms import from one another."""
    assert "tickwheel" not in inside(name)


def test_imports_make_no_circle():
    """Also within a room, some order of the modules has every import pointing back."""
    graph = {name: inside(name) - {name} for name in PYTHON}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(PYTHON)


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_other_packages_stay_on_their_floor(name):
    """The standard library is everyone's; an optional package belongs to the rooms in OPTIONAL."""
    for target in imported(name, PYTHON[name]):
        package = target.split(".")[0]
        if package == "tickwheel" or package in sys.stdlib_module_names:
            continue
        assert package in OPTIONAL, f"{name} imports {package}, which is no optional package of ours"
        assert room(name) in OPTIONAL[package], f"{name} imports {package}"


IMPORT = re.compile(r"^\s*(?:from\s+(?P<source>[\w.]+)\s+)?(?P<verb>c?import)\s+(?P<names>[\w., ]+|\()", re.M)


@pytest.mark.parametrize("path", sorted(EXT.rglob("*.p[yx][xd]")), ids=lambda path: path.name)
def test_the_c_floor_points_downward(path):
    """A C file cimports from the floors below it, and imports the standard library at most."""
    for found in IMPORT.finditer(path.read_text(encoding="utf-8")):
        source = found["source"] or found["names"].split(",")[0].split()[0]
        package, _, stem = source.partition(".")
        if found["verb"] == "cimport" and package in ("tickwheel", ""):
            assert stem in below(CORE_FLOORS, path.stem), f"{path.name} cimports {source}"
        elif found["verb"] == "import":
            assert package in sys.stdlib_module_names, f"{path.name} imports {source}"

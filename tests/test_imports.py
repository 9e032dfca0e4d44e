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

# From the roof down. A room may import from the floors below its own, and from the rooms in its own set.
FLOORS: list[list[set[str]]] = [
    [{"cli"}],
    [{"bench"}, {"spark"}],
    [
        {"replay", "report", "workload", "trace", "output", "machine", "units"},
        {"recipes"},
        {"replication"},
        {"dropin"},
    ],
    [{"purgatory"}],
    [{"timer", "futures"}],
    [{"reaper", "clock", "bootclock", "executor", "metrics", "log"}],
    [{"_core"}],
    [{"_reference"}, {"_task", "_wheel", "_table", "_timer"}],
    [{"extras"}],
]

# The floors that may import what is not the standard library.
OPTIONAL = {
    "gevent": {"bench"},
    "matplotlib": {"bench", "report"},
    "numpy": {"spark"},
    "pandas": {"spark"},
    "prometheus_client": {"metrics"},
    "pyarrow": {"replay", "spark", "trace"},
    "pyspark": {"spark"},
    "rich": {"cli"},
    "twisted": {"bench"},
    "uvloop": {"bench"},
}

# The C floor, from the roof down: a file cimports from the lines below its own.
EXT_FLOORS = [
    {"_timer"},
    {"_wheel", "_table"},
    {"_replay", "_saved"},
    {"_task", "_slots"},
    {"_check"},
    {"_levels"},
    {"_bucketheap", "_histogram"},
    {"_bucket"},
]


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


def floor(name: str) -> tuple[int, int]:
    """The number of a room's floor, counted from the roof, and of its set there."""
    for number, sets in enumerate(FLOORS):
        for place, rooms in enumerate(sets):
            if name in rooms:
                return number, place
    raise AssertionError(f"the room {name!r} has no floor in FLOORS")


def inside(name: str) -> set[str]:
    return {target for target in imported(name, PYTHON[name]) if target.split(".")[0] == "tickwheel"}


@pytest.mark.parametrize("name", sorted(PYTHON.keys() - {"tickwheel"}))
def test_imports_point_downward(name):
    """A room imports from the floors below it, or from the rooms beside it in one set."""
    own = floor(room(name))
    for target in inside(name) - {"tickwheel"}:
        theirs = floor(room(target))
        assert theirs == own or theirs[0] > own[0], f"{name} imports {target}, which is not below it"


@pytest.mark.parametrize("name", sorted(PYTHON.keys() - {"tickwheel"}))
def test_nothing_imports_the_front_door(name):
    """tickwheel/__init__ names what is public, for users: the rooms import from one another."""
    assert "tickwheel" not in inside(name)


def test_imports_make_no_circle():
    """Also within a floor, some order of the modules has every import pointing back."""
    graph = {name: inside(name) - {name} for name in PYTHON}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(PYTHON)


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_other_packages_stay_on_their_floor(name):
    """The standard library is everyone's; an optional package belongs to the floors in OPTIONAL."""
    for target in imported(name, PYTHON[name]):
        package = target.split(".")[0]
        if package == "tickwheel" or package in sys.stdlib_module_names:
            continue
        assert package in OPTIONAL, f"{name} imports {package}, which is no optional package of ours"
        assert room(name) in OPTIONAL[package], f"{name} imports {package}"


def ext_floor(stem: str) -> int:
    for number, files in enumerate(EXT_FLOORS):
        if stem in files:
            return number
    raise AssertionError(f"{stem} has no floor in EXT_FLOORS")


IMPORT = re.compile(r"^\s*(?:from\s+(?P<source>[\w.]+)\s+)?(?P<verb>c?import)\s+(?P<names>[\w., ]+|\()", re.M)


@pytest.mark.parametrize("path", sorted(EXT.rglob("*.p[yx][xd]")), ids=lambda path: path.name)
def test_the_c_floor_points_downward(path):
    """A C file cimports from the floors below it, and imports the standard library at most."""
    for found in IMPORT.finditer(path.read_text(encoding="utf-8")):
        source = found["source"] or found["names"].split(",")[0].split()[0]
        package, _, stem = source.partition(".")
        if found["verb"] == "cimport" and package == "tickwheel":
            assert stem == path.stem or ext_floor(stem) > ext_floor(path.stem), f"{path.name} cimports {stem}"
        elif found["verb"] == "import":
            assert package in sys.stdlib_module_names, f"{path.name} imports {source}"

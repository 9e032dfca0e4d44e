"""The package as it is installed: its metadata, what importing it costs, how a core is chosen."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTENSIONS = sorted(path.stem for path in (ROOT / "ext").rglob("*.pyx"))
TOP_LEVEL = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "benchmarks",
    "docs", "ext", "pyproject.toml", "setup.py", "src", "tests",
}


def python(code, *, core=None):
    """Run code in a fresh interpreter, with TICKWHEEL_CORE set to `core` or not at all."""
    environment = {name: value for name, value in os.environ.items() if name != "TICKWHEEL_CORE"}
    if core is not None:
        environment["TICKWHEEL_CORE"] = core
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)


def test_one_version_everywhere():
    """The installed metadata, the package and the changelog name the version of pyproject.toml."""
    import tickwheel

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (newest, *_) = re.findall(r"^## \[(\d[^]]*)\]", changelog, re.M)
    assert metadata.version("tickwheel") == tickwheel.__version__ == newest == PROJECT["version"]


def test_nothing_is_required_at_run_time():
    """What tickwheel needs beyond the standard library, an extra brings."""
    assert [line for line in metadata.requires("tickwheel") or [] if "extra ==" not in line] == []


def test_every_extra_is_there():
    """The extras that error messages and the README name can be installed."""
    extras = set(metadata.metadata("tickwheel").get_all("Provides-Extra"))
    assert extras == {"report", "spark", "prometheus", "pipeline", "broker", "test", "bench"}


@pytest.mark.parametrize("core", ["cython", "python"])
def test_import_brings_the_standard_library_alone(core):
    """`import tickwheel` loads no other package, and no slow part of the standard library."""
    story = """
import json, sys, time
before, start = set(sys.modules), time.perf_counter()
import tickwheel
elapsed = time.perf_counter() - start
new = sorted(set(sys.modules) - before)
print(json.dumps({"core": tickwheel.IMPLEMENTATION, "ms": 1000 * elapsed, "new": new}))
"""
    ended = python(story, core=core)
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    # Compiled modules share state among themselves under these names, with no file behind them.
    shared = ("cython_runtime", "_cython_")
    new = {name.partition(".")[0] for name in seen["new"] if not name.startswith(shared)}
    print(f"{seen['core']} core: {len(seen['new'])} modules in {seen['ms']:.1f} ms")
    assert seen["core"] == core
    assert new - sys.stdlib_module_names == {"tickwheel"}
    assert new & {"argparse", "asyncio", "multiprocessing", "socket", "subprocess"} == set()


def test_the_compiled_core_is_the_default():
    """Without TICKWHEEL_CORE the extensions are used where they are."""
    ended = python("import tickwheel; print(tickwheel.IMPLEMENTATION)")
    assert (ended.returncode, ended.stdout) == (0, "cython\n"), ended.stderr


def test_an_unknown_core_is_refused():
    """A wrong TICKWHEEL_CORE ends the import with the rule and the value seen."""
    ended = python("import tickwheel", core="x")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("Error: TICKWHEEL_CORE must be cython or python, got 'x'")


@pytest.mark.parametrize(("core", "heard"), [(None, "python\n"), ("python", "python\n"), ("cython", "")])
def test_without_extensions_the_reference_serves_unless_cython_is_asked_for(core, heard):
    """Where no wheel fits the reference is the core, and says so; who asks for cython gets no substitute."""
    story = f"""
import sys
for name in {EXTENSIONS}:
    sys.modules["tickwheel." + name] = None
import tickwheel
print(tickwheel.IMPLEMENTATION)
"""
    ended = python(story, core=core)
    assert ended.stdout == heard, ended.stderr
    assert bool(ended.returncode) == (core == "cython")
    assert ("ImportError" in ended.stderr or "ModuleNotFoundError" in ended.stderr) == (core == "cython")


def test_types_are_shipped():
    """py.typed, and one stub for each extension module."""
    import tickwheel

    home = Path(tickwheel.__file__).parent
    assert (home / "py.typed").is_file()
    assert sorted(path.stem for path in home.glob("*.pyi")) == EXTENSIONS


def test_every_extension_is_built():
    """setup.py builds what lies in ext, in at most 60 lines."""
    for name in EXTENSIONS:
        assert Path(import_module(f"tickwheel.{name}").__file__).suffix in (".so", ".pyd")
    assert len((ROOT / "setup.py").read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout knows which files are its own")
def test_nothing_lies_about_at_the_top():
    """The top level holds the files and folders of the plan."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    assert {name.partition("/")[0] for name in files} - TOP_LEVEL == set()

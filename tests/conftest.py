"""Both cores in one process: each test that asks for `tw` runs on the compiled core and on the reference.

TICKWHEEL_TEST_CORES=cython,python selects the cores (default: both). A core that cannot be imported is a
failure, never a skip. TICKWHEEL_TEST_SEED=n repeats the random tests of a run that printed n.
"""

import contextlib
import faulthandler
import importlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import Phase, settings

CORES = tuple(os.environ.get("TICKWHEEL_TEST_CORES", "cython,python").split(","))
WAIT = 30  # seconds for threads to end; guards against hanging, never decides what is right
HANG = 300  # seconds after which a test that hangs dumps every thread's stack and ends the run
_loaded = {}
_stderr = pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--soak", action="store_true", help="run the long soaks too, and more random examples")


def pytest_configure(config):
    config.addinivalue_line("markers", "soak: minutes long; runs with --soak only")
    # A job in the background ignores Ctrl-C, and so would the commands that tests start, and send it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_stderr] = os.fdopen(os.dup(2), "w")  # the real one: a dump must not land in a capture file
    phases = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]  # to explain is to trace: slow
    common = settings(deadline=None, print_blob=True, phases=phases)
    settings.register_profile("contract", common, max_examples=100)
    settings.register_profile("soak", common, max_examples=5000)
    settings.load_profile("soak" if config.getoption("--soak") else "contract")


def pytest_unconfigure(config):
    config.stash[_stderr].close()


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--soak"):
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="needs --soak"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    limit = 3600 if item.config.getoption("--soak") else HANG
    faulthandler.dump_traceback_later(limit, exit=True, file=item.config.stash[_stderr])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _take_modules():
    """Takes the package's modules out of sys.modules."""
    names = [name for name in sys.modules if name.partition(".")[0] == "tickwheel"]
    return {name: sys.modules.pop(name) for name in names}


def _import_core(core):
    with pytest.MonkeyPatch.context() as patch:
        if core is not None:
            patch.setenv("TICKWHEEL_CORE", core)
        return importlib.import_module("tickwheel")


@contextlib.contextmanager
def core_in_place(core):
    """While the block runs, `tickwheel` and all below it is the copy made with this core.

    A compiled module cannot be initialised twice in one process, so each copy is imported once and kept,
    the default one first: it is also what tests outside the contract import.
    """
    if "tickwheel" not in sys.modules:
        _import_core(None)
    outside = _take_modules()
    _loaded.setdefault(outside["tickwheel"].IMPLEMENTATION, outside)
    try:
        sys.modules.update(_loaded.get(core, {}))
        yield _import_core(core)
    finally:
        inside = _take_modules()
        if "tickwheel" in inside:
            _loaded[core] = inside
        sys.modules.update(_loaded.get(outside["tickwheel"].IMPLEMENTATION, outside))


@pytest.fixture(params=CORES)
def core(request):
    return request.param


@pytest.fixture
def tw(core):
    """The package, on one core."""
    with core_in_place(core) as package:
        assert core == package.IMPLEMENTATION
        yield package


@pytest.fixture
def soak(request):
    """Whether this is a long run: multiply your rounds."""
    return request.config.getoption("--soak")


@pytest.fixture
def rng():
    """A random generator whose seed a failing test shows."""
    seed = int(os.environ.get("TICKWHEEL_TEST_SEED", random.SystemRandom().getrandbits(32)))
    print(f"TICKWHEEL_TEST_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def eager_switching():
    """Threads change places as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def no_thread_left():
    """Whatever a test started ends."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)
        assert not thread.is_alive(), f"{thread.name} outlived its test"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, so that messages show bare names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(here, capsys):
    """Runs a command that must fail with one line, exit 2, and leave all files as they were; the line."""
    from tickwheel.cli.__main__ import main

    def contents():
        return {path: path.read_bytes() if path.is_file() else None for path in here.rglob("*")}

    def run(*argv):
        before = contents()
        assert main(list(argv)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("tickwheel: ")
        assert err.endswith("\n") and err.count("\n") == 1
        assert contents() == before
        return err.removeprefix("tickwheel: ").removesuffix("\n")

    return run


@pytest.fixture
def fresh(tw, core, tmp_path):
    """Runs code in a fresh interpreter on this core and returns what it printed.

    The process must end by itself with `code` and write nothing but what it should to stderr; one that
    hangs dumps all its stacks.
    """

    def run(story, *, code=0, stderr="", timeout=60, env=()):
        script = tmp_path / "story.py"
        script.write_text(story)
        root = str(pathlib.Path(tw.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(script)],
            env={**os.environ, "TICKWHEEL_CORE": core, "PYTHONPATH": path, **dict(env)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _abort(process)  # its fault handler, and those of its forked children, dump their stacks
            out, err = process.communicate()
        heard = f"exit code {process.returncode}\n{out}{err}"
        assert process.returncode == code, heard
        assert stderr in err if stderr else not err, heard
        return out

    return run


def _abort(process):
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGABRT)
    else:
        process.kill()

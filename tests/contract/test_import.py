"""What `import tickwheel` chooses, and what it leaves alone."""


def test_the_core_is_chosen_at_import(fresh, core):
    """TICKWHEEL_CORE chooses, and `IMPLEMENTATION` says what is in use."""
    assert fresh("import tickwheel; print(tickwheel.IMPLEMENTATION)") == f"{core}\n"


def test_an_unknown_core_is_named(fresh):
    """A core that does not exist is an error at import, and not another core in silence."""
    fresh(
        "import tickwheel",
        env={"TICKWHEEL_CORE": "rust"},
        code=1,
        stderr="TICKWHEEL_CORE must be",
    )


def test_the_reference_needs_no_extension(fresh, core):
    """On the reference no compiled module is loaded; no import of asyncio or of an optional package."""
    loaded = fresh("import sys, tickwheel; print(*sys.modules)").split()
    compiled = {"tickwheel._task", "tickwheel._wheel", "tickwheel._timer"} & set(loaded)
    assert bool(compiled) == (core == "cython")
    heavy = {"asyncio", "numpy", "pyarrow", "matplotlib", "rich", "multiprocessing"}
    assert not heavy & {name.partition(".")[0] for name in loaded}

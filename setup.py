"""The extension modules, and two switches in the environment.

TICKWHEEL_NO_EXTENSIONS=1   no compiler needed: the pure-Python reference alone
TICKWHEEL_DEBUG=1           line directives, C assertions, the core's own checks (macro TICKWHEEL_DEBUG)
"""
import os
import sys
from pathlib import Path

from setuptools import Extension, setup


def switch(name):
    value = os.environ.get(name, "0")
    if value not in ("0", "1"):
        sys.exit(f"{name} must be 0 or 1, got {value!r}")
    return value == "1"


def extensions(debug, build_dir):
    from Cython.Build import cythonize

    # Ticks are the same on every machine: no fused multiply-add behind our back.
    flags = [] if sys.platform == "win32" else ["-ffp-contract=off", "-g" if debug else "-g0"]
    flags += [] if debug or sys.platform == "win32" else ["-O3"]
    modules = [
        Extension(
            f"tickwheel.{source.stem}",
            [source.as_posix()],
            extra_compile_args=flags,
            define_macros=[("TICKWHEEL_DEBUG", "1")] if debug else [],
            undef_macros=["NDEBUG"] if debug else [],
        )
        for source in sorted(Path("ext/tickwheel").glob("*.pyx"))
    ]
    directives = {
        "language_level": 3, "binding": False, "cdivision": True,
        "boundscheck": False, "wraparound": False, "initializedcheck": False,
        "auto_pickle": False, "autotestdict": False, "freethreading_compatible": True,
        # What inspect.signature and stubtest read.
        "embedsignature": True, "embedsignature.format": "clinic",
    }
    return cythonize(
        modules,
        include_path=["ext"],
        build_dir=build_dir,
        compiler_directives=directives,
        emit_linenums=debug,
    )


pure, debug = switch("TICKWHEEL_NO_EXTENSIONS"), switch("TICKWHEEL_DEBUG")
# A folder for each kind of build: objects of one never end up in another.
base = "build/" + ("pure" if pure else "debug" if debug else "release")
options = {"build": {"build_base": base}}
setup(ext_modules=[] if pure else extensions(debug, f"{base}/cython"), options=options)

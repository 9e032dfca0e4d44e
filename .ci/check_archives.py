"""What must be in the sdist and the wheels, and what must not.

    python .ci/check_archives.py FOLDER     (the sdist, one wheel with extensions, one without)
"""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
STEM = f"{PROJECT['name']}-{PROJECT['version']}"
TRACKED = set(subprocess.check_output(["git", "ls-files"], text=True).split("\n")) - {""}
PACKAGE = {name.removeprefix("src/") for name in TRACKED if name.startswith("src/")}
EXTENSIONS = {Path(name).stem for name in TRACKED if name.endswith(".pyx")}
# Made by setuptools; everything else in the sdist is a file that git knows.
GENERATED = {"PKG-INFO", "setup.cfg"}


def same(what: str, seen: set[str], expected: set[str]) -> None:
    """Exit, naming the differences, unless the two sets are equal."""
    if seen != expected:
        sys.exit(f"{what}: missing {sorted(expected - seen)}, unexpected {sorted(seen - expected)}")
    print(f"{what}: {len(seen)} files, as expected")


def check_sdist(path: Path) -> None:
    """All that is needed to build, test and read about the project; nothing that was built."""
    with tarfile.open(path) as archive:
        names = {member.name.removeprefix(f"{STEM}/") for member in archive if member.isfile()}
    kept = {name for name in TRACKED if not name.startswith((".ci/", ".git"))}
    same(path.name, {name for name in names - GENERATED if ".egg-info/" not in name}, kept)


def check_wheel(path: Path, extensions: set[str]) -> None:
    """The package as it lies in src, one compiled file for each extension, and no requirement."""
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"{STEM}.dist-info/")}
        metadata = message_from_bytes(archive.read(f"{STEM}.dist-info/METADATA"))
        licensed = f"{STEM}.dist-info/licenses/LICENSE" in archive.namelist()
    compiled = {name for name in names if name.endswith((".so", ".pyd"))}
    same(f"{path.name}: package", names - compiled, PACKAGE)
    same(f"{path.name}: extensions", {Path(name).name.split(".")[0] for name in compiled}, extensions)
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    if needed or not licensed:
        sys.exit(f"{path.name}: no requirement and a licence wanted, got {needed} and licence={licensed}")


folder = Path(sys.argv[1])
(sdist,) = folder.glob("*.tar.gz")
(pure,) = folder.glob("*-py3-none-any.whl")
(compiled,) = set(folder.glob("*.whl")) - {pure}
check_sdist(sdist)
check_wheel(compiled, EXTENSIONS)
check_wheel(pure, set())

"""The wheels that wheels.yml would build are all that cibuildwheel builds by default from CPython 3.11 up.

    python .ci/check_identifiers.py

Asked of cibuildwheel itself, once for this project and once for an empty one, for every row of the matrix.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ruamel.yaml import YAML

FLOOR = (3, 11)
# Named here so that a platform lost from the workflow is noticed.
PLATFORMS = {
    "manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64",
    "macosx_x86_64", "macosx_arm64", "win_amd64", "win_arm64",
}


def identifiers(project: Path, platform: str, archs: str) -> set[str]:
    """What cibuildwheel would build for the project on that platform."""
    command = ["cibuildwheel", "--print-build-identifiers", "--platform", platform, "--archs", archs]
    return set(subprocess.check_output([*command, str(project)], text=True).split())


def version(identifier: str) -> tuple[int, int]:
    """cp314t-musllinux_x86_64 -> (3, 14)."""
    match = re.match(r"cp(\d)(\d+)t?-", identifier)
    return (int(match[1]), int(match[2])) if match else (0, 0)


workflow = YAML(typ="safe").load(Path(".github/workflows/wheels.yml"))
ours: set[str] = set()
default: set[str] = set()
with tempfile.TemporaryDirectory() as empty:
    (Path(empty) / "setup.py").touch()
    for row in workflow["jobs"]["wheels"]["strategy"]["matrix"]["include"]:
        ours |= identifiers(Path(), row["platform"], row["archs"])
        default |= identifiers(Path(empty), row["platform"], row["archs"])

expected = {identifier for identifier in default if version(identifier) >= FLOOR}
if ours != expected:
    sys.exit(f"wheels: missing {sorted(expected - ours)}, unexpected {sorted(ours - expected)}")
for series in sorted({version(identifier) for identifier in ours}):
    platforms = {name.split("-")[1] for name in ours if version(name) == series}
    if platforms != PLATFORMS:
        sys.exit(f"wheels for {series}: platforms {sorted(platforms)}, expected {sorted(PLATFORMS)}")
print(f"wheels: {len(ours)} identifiers, all that cibuildwheel builds by default from CPython 3.11:")
print(" ".join(sorted(ours)))

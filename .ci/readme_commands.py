"""Write the README's two set-up commands to FOLDER/readme-1.sh and FOLDER/readme-2.sh, exactly as they stand.

    python .ci/readme_commands.py README.md FOLDER
"""

import re
import sys
from pathlib import Path

readme, folder = map(Path, sys.argv[1:])
blocks = re.findall(r"^```(?:sh|bash|shell)\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.M | re.S)
commands = [block for block in blocks if "-m venv" in block]
if len(commands) != 2:
    sys.exit(f"{readme} must hold two set-up commands (shell blocks that make a venv), found {len(commands)}")
for number, command in enumerate(commands, 1):
    (folder / f"readme-{number}.sh").write_text(command, encoding="utf-8")

"""``python -m tests.package.image_requirements``: makes ``deploy/requirements.txt``, what the image installs.

Each package has the version of constraints.txt and the hashes of its files in the index, for every Python and
machine. Those that build the wheel of moorage are in it as well. Needs uv and the network:
`make image-requirements`.
"""

from __future__ import annotations

import subprocess
import sys

from building.environment import wanted
from tests.house.source import ROOT

FILE = ROOT / "deploy/requirements.txt"
HEAD = "# What the image installs and builds with; `make image-requirements` makes this file.\n"
UV = [sys.executable, "-m", "uv", "--quiet", "pip", "compile", "-", "--universal", "--generate-hashes"]
OPTIONS = ["--no-header", "--no-annotate", "--python-version", "3.11", "--constraints", "constraints.txt"]


def main() -> None:
    asked = "\n".join(wanted(["cli", "kube"]))
    done = subprocess.run([*UV, *OPTIONS], input=asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    FILE.write_text(HEAD + done.stdout)


if __name__ == "__main__":
    main()

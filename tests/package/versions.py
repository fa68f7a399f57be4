"""``python -m tests.package.versions oldest|newest``: the suite with other versions of what users install.

The versions are the oldest, or the newest, that pyproject.toml allows for the run time and for each extra but
ray, which has a suite of its own. Tools of the tests stay at the versions of constraints.txt. uv resolves and
installs them, into a virtual environment that is gone afterwards; the compiled core is that of the checkout.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from building.environment import pins
from tests.house.source import ROOT
from tests.jobs.job import WHOLE
from tests.package.extras import FOR_DEVELOPERS

RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
UV = [sys.executable, "-m", "uv", "--quiet", "pip"]


def requirements() -> Iterator[str]:
    """What users install, as pyproject.toml has it, and the tools of the tests with their versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for_users = [packages for extra, packages in extras.items() if extra not in FOR_DEVELOPERS | {"ray"}]
    packages = chain(project["dependencies"], *for_users)
    installed = [package for package in packages if not package.startswith("moorage[")]
    yield from installed
    names = {Requirement(package).name for package in installed}
    pinned = {canonicalize_name(pin.partition("==")[0]): pin for pin in pins()}
    for tool in (Requirement(package).name for package in extras["test"]):
        if tool != "moorage" and tool not in names:  # a pin would decide what an extra is tried with
            yield pinned[canonicalize_name(tool)]


def main(which: str) -> int:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        python = str(folder / "venv/bin/python")
        (folder / "requirements.in").write_text("\n".join(requirements()))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        for command in (
            ["compile", "--resolution", RESOLUTIONS[which], "requirements.in", "-o", "requirements.txt"],
            ["sync", "requirements.txt"],
        ):
            subprocess.run([*UV, *command, "--python", python], cwd=folder, check=True)
        (site,) = folder.glob("venv/lib/python3*/site-packages")
        (site / "moorage.pth").write_text(f"{ROOT / 'python'}\n")
        print((folder / "requirements.txt").read_text(), flush=True)
        suite = [python, "-m", "pytest", "-q", "-p", "no:benchmark", "-n", "auto", *WHOLE]
        return subprocess.run(suite, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

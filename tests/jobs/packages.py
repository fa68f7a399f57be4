"""The sdist and the wheels."""

from __future__ import annotations

import shutil
import sys

from tests.jobs.job import ROOT, ROOT_USER, given, job, program, python


def built() -> tuple[str, str]:
    """The sdist and its wheel, made anew in dist/."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    python("-m", "build", "--no-isolation", "--outdir", "dist")
    [sdist] = (ROOT / "dist").glob("*.tar.gz")
    [wheel] = (ROOT / "dist").glob("*.whl")
    return str(sdist), str(wheel)


@job("1 min", packages=["build"])
def dist() -> None:
    """The sdist and a wheel, in dist/"""
    built()


@job("3 min", packages=["build"], nightly=True)
def dist_test() -> None:
    """The sdist is complete, and its wheel works in an environment of its own"""
    built()
    python("-m", "tests.package", "dist")


@job("2 min", needs=[ROOT_USER, program("setpriv", "of util-linux")], packages=["build"], nightly=True)
def image_test() -> None:
    """The wheel, installed and started as deploy/Dockerfile says: without root, over files that are read only

    No image is built; the steps of the recipe run in environments of their own.
    """
    python("-m", "tests.package.image", built()[1])


@job("3 min", needs=[ROOT_USER], packages=["build"], takes=["WHEEL"], nightly=True)
def onefile() -> None:
    """A folder in a tar.gz that needs no Python, tried in a bare root; of WHEEL, or of a new one

    It prints the version and the digest for deploy/krew.yaml.
    """
    python("-m", "tests.package.onefile", given("WHEEL") or built()[1], "dist/onefile")


@job("15 min", packages=["build"], nightly=True)
def extras() -> None:
    """The wheel without extras, and with each extra alone, in environments of their own"""
    python("-m", "tests.package.extras", built()[1])


@job("5 min", packages=["build"], takes=["PYTHONS"], nightly=True)
def wheels() -> None:
    """A wheel for each interpreter of PYTHONS in dist/wheels, built twice and compared"""
    python("-m", "tests.package.wheels", built()[0], "dist/wheels", *given("PYTHONS", sys.executable).split())


@job("13 min beside other work, 14 of a processor", packages=["build"], takes=["PYTHONS"])
def wheels_test() -> None:
    """The same, and the whole suite over each wheel"""
    interpreters = given("PYTHONS", sys.executable).split()
    python("-m", "tests.package.wheels", "--suite", built()[0], "dist/wheels", *interpreters)

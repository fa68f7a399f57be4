"""What a job is, and how it runs its commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from building.variants import runtime

ROOT = Path(__file__).resolve().parents[2]
PY = ".venv/bin/python"
# The benchmark plugin would warn that it stands back for xdist, and warnings are errors.
PYTEST = ("-m", "pytest", "-q", "-p", "no:benchmark")
PARALLEL = (*PYTEST, "-n", "auto", "--dist", "worksteal")
ALONE = (*PYTEST, "-p", "no:xdist")


# Nightly tests too, but not those that have a job of their own.
WHOLE = ("-m", "not slow and not debug and not ray and not report and not live")


class JobError(Exception):
    """A job that failed; its commands have said why."""


@dataclass(frozen=True)
class Need:
    """What a machine may lack."""

    name: str
    is_there: Callable[[], bool]


def program(name: str, package: str) -> Need:
    """A program on the path, and what brings it."""
    return Need(f"{name} ({package})", lambda: shutil.which(name) is not None)


def sanitizer(library: str) -> Need:
    return Need(f"{library} of the C compiler", lambda: os.path.isabs(runtime(library)))


INDEX = Need("a package index", lambda: True)
"""Whether it can be reached shows when pip is called."""
ROOT_USER = Need("root", lambda: not os.geteuid())
CHROMIUM = "apt-get install chromium chromium-driver"
GO = program("go", "1.26 or later, https://go.dev/dl, and its module proxy")
VALGRIND = program("valgrind", "apt-get install valgrind")


@dataclass(frozen=True)
class Job:
    """A job by its name."""

    name: str
    run: Callable[[], None]
    time: str
    """On two cores that do nothing else, unless it says otherwise."""
    needs: tuple[Need, ...]
    takes: tuple[str, ...]
    """Variables, as `make NAME SEED=2` gives them."""
    extras: tuple[str, ...]
    packages: tuple[str, ...]
    """What pip installs for this job alone: extras of moorage, and other packages."""
    is_nightly: bool

    @property
    def does(self) -> str:
        """The first sentence of its docstring."""
        return (self.run.__doc__ or "").partition("\n\n")[0].replace("\n   ", "")

    def missing(self) -> list[str]:
        """What this machine lacks for it."""
        return [need.name for need in self.needs if not need.is_there()]


JOBS: dict[str, Job] = {}


def job(
    time: str,
    *,
    needs: Sequence[Need] = (),
    takes: Sequence[str] = (),
    extras: Sequence[str] = (),
    packages: Sequence[str] = (),
    nightly: bool = False,
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function as the job of its name."""

    def register(run: Callable[[], None]) -> Callable[[], None]:
        name = run.__name__.replace("_", "-")
        index = (INDEX,) if extras or packages else ()
        JOBS[name] = Job(
            name, run, time, (*index, *needs), tuple(takes), tuple(extras), tuple(packages), nightly
        )
        return run

    return register


def given(name: str, default: str = "") -> str:
    """A variable of the job."""
    return os.environ.get(name) or default


def python(*arguments: str, environment: Mapping[str, str] | None = None, stdout: int | None = None) -> str:
    """Run the interpreter of .venv; with `stdout=PIPE`, return what it prints, without the end of the line.

    Raises
    ------
    JobError
        It failed.
    """
    found = os.environ | (environment or {})
    done = subprocess.run([PY, *arguments], cwd=ROOT, env=found, stdout=stdout, text=True, check=False)
    if done.returncode:
        raise JobError(f"{PY} {' '.join(arguments)}: exit {done.returncode}")
    return (done.stdout or "").strip()

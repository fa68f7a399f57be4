"""Lists the jobs, or runs one: `python -m tests.jobs [NAME [VARIABLE=value…]]`; `make NAME` is the same."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

from tests.jobs.job import JOBS, ROOT, Job, JobError, python

# Variables of the Makefile itself.
OF_MAKE = {"PYTHON", "CC"}


def listing() -> str:
    """Each job with its time, its variables and what it needs."""
    lines = ["`make NAME` runs a job; `make nightly` runs those with a star, as far as this machine can."]
    for one in sorted(JOBS.values(), key=lambda one: one.name):
        missing = one.missing()
        needs = [f"{need.name}{' (missing here)' if need.name in missing else ''}" for need in one.needs]
        facts = [one.time, f"takes {', '.join(one.takes)}" if one.takes else ""]
        facts.append(f"needs {', '.join(needs)}" if needs else "")
        lines.append(f"\n{'*' if one.is_nightly else ' '} {one.name:17} {one.does}")
        lines.append(f"{'':20}{'; '.join(filter(None, facts))}")
    return "\n".join(lines)


def overridden(flags: str) -> set[str]:
    """The names of the variables that make was called with, from its MAKEFLAGS."""
    _, _, variables = f" {flags}".partition(" -- ")
    return {one.partition("=")[0] for one in shlex.split(variables) if re.match(r"\w+=", one)}


def take(job: Job, arguments: Sequence[str]) -> None:
    """Make the variables of a job part of the environment.

    Raises
    ------
    JobError
        The job takes no such variable.
    """
    values = dict(one.split("=", 1) for one in arguments)
    names = (overridden(os.environ.get("MAKEFLAGS", "")) - OF_MAKE) | set(values)
    if wrong := sorted(names - set(job.takes)):
        takes = ", ".join(job.takes) or "none"
        raise JobError(f"{job.name} takes no variable {', '.join(wrong)}; those that it takes: {takes}")
    os.environ.update(values)


def run(job: Job) -> None:
    """Build what is not up to date, install what the job needs, and run it.

    Raises
    ------
    JobError
        Something is missing, or has failed.
    """
    if missing := job.missing():
        raise JobError(f"{job.name} needs {', '.join(missing)}")
    if subprocess.run(["make", "--no-print-directory", "tools"], cwd=ROOT, check=False).returncode:
        raise JobError(f"{job.name}: what it runs on could not be built")
    if job.extras or job.packages:
        packages = [f"--package={one}" for one in job.packages]
        python("-m", "building.environment", job.name, *job.extras, *packages)
    job.run()


def main(arguments: Sequence[str]) -> int:
    """Run the job that the arguments name; 2 if they name none, 1 if it fails."""
    if not arguments:
        try:
            print(listing(), flush=True)
        except BrokenPipeError:  # of `make jobs | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    name, *variables = arguments
    job = JOBS.get(name)
    if job is None or not all(re.match(r"\w+=", one) for one in variables):
        what = " ".join(arguments)
        print(f"there is no {what}: `make help` lists targets, `make jobs` jobs", file=sys.stderr)
        return 2
    try:
        take(job, variables)
        run(job)
    except (JobError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

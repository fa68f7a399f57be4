"""All jobs that a push does not run."""

from __future__ import annotations

import subprocess
import sys

from tests.jobs.job import JOBS, ROOT, JobError, job


@job("hours")
def nightly() -> None:
    """Every job with a star that this machine can run; names what is missing for the others

    Raises
    ------
    JobError
        Some jobs have failed; their names come at the end.
    """
    results: dict[str, str] = {}
    for one in (one for one in JOBS.values() if one.is_nightly):
        if missing := one.missing():
            results[one.name] = f"left out, needs {', '.join(missing)}"
            continue
        print(f"---- {one.name}: {one.does}", flush=True)
        done = subprocess.run([sys.executable, "-m", "tests.jobs", one.name], cwd=ROOT, check=False)
        results[one.name] = "failed" if done.returncode else "ok"
    print("\n".join(["----", *(f"{name:17} {result}" for name, result in results.items())]), flush=True)
    if failed := [name for name, result in results.items() if result == "failed"]:
        raise JobError(f"failed: {', '.join(failed)}")

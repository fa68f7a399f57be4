"""Long jobs, each with what it does, its time and what it needs: `python -m tests.jobs` lists them.

`make NAME` runs one. This needs the standard library alone, as it runs before anything is installed; a job is
made of commands of .venv.
"""

from tests.jobs import benches, checks, nightly, packages, suites  # noqa: F401  each registers its jobs

"""Installs what a task needs, if that has changed: `.venv/bin/python -m building.environment TASK [EXTRA…]`.

A note in .venv keeps what was installed for a task: the requirements of pyproject.toml, and the versions that
constraints.txt names. Comments, and what other tools read in these files, make no difference.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def wanted(extras: Sequence[str], packages: Sequence[str] = ()) -> list[str]:
    """The requirements of the build, of the run time, of extras and of packages.

    Raises
    ------
    SystemExit
        There is no such extra.
    """
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = metadata["project"]["optional-dependencies"]
    if unknown := [extra for extra in extras if extra not in known]:
        raise SystemExit(f"pyproject.toml has no extra {', '.join(unknown)}")
    found = [*metadata["build-system"]["requires"], *metadata["project"]["dependencies"]]
    for extra in extras:
        found += (one for one in known[extra] if not one.startswith("moorage["))
    return [*found, *packages]


def pins() -> list[str]:
    """The versions that constraints.txt names."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def install(task: str, extras: Sequence[str], packages: Sequence[str] = ()) -> None:
    """Have pip install what a task needs into the environment of this interpreter.

    Nothing happens if the same was installed for it before. What is no longer needed stays.
    """
    requirements = wanted(extras, packages)
    text = "\n".join([*requirements, "", *pins(), ""])
    note = Path(sys.prefix, "installed", task)
    if note.exists() and note.read_text() == text:
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), *requirements], check=False)
    if done.returncode:
        raise SystemExit(f"pip could not install what {task} needs")
    note.parent.mkdir(exist_ok=True)
    note.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m building.environment", description=__doc__)
    parser.add_argument("task")
    parser.add_argument("extras", nargs="*", metavar="EXTRA")
    parser.add_argument("--package", action="append", default=[], help="a requirement that is no extra")
    options = parser.parse_args()
    install(options.task, options.extras, options.package)

"""``python -m tests.inputs FOLDER [--write]``: reads real files whole, and compares the exit codes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .real_files import INPUTS, Input, Result, run, table

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# What moorage makes of real files

`make real_files FOLDER=… OPTIONS=--write` writes this table; the reasons were found by hand. An exit code
of 1 is right only where a cluster had left a pod pending, or an object is missing from an excerpt.

"""

parser = argparse.ArgumentParser("python -m tests.inputs")
parser.add_argument(
    "folder", type=Path, metavar="FOLDER", help="with dumps, cluster_dumps, objects, traces …"
)
parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
given = parser.parse_args()
found: list[tuple[Input, Result]] = []
for one in INPUTS:
    result = run(one, given.folder)
    if result is not None:
        found.append((one, result))
        print("ok  " if result.code == one.code else "FAIL", one.files[0], *result, sep="  ")
wrong = sum(result.code != one.code for one, result in found)
print(f"{len(found)} of {len(INPUTS)} inputs are in the folder, {wrong} with another exit code")
if given.write:
    RESULTS.write_text(HEAD + "\n".join(table(found)) + "\n")
sys.exit(bool(wrong or not found))

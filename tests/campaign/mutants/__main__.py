"""Mutation testing: `python -m tests.campaign.mutants REPORT [--sample N] [--seed N]`.

A mutant is one changed operator, comparison, constant, condition or call in a room of the package, in the
core or in a kernel. It is killed when a vector, a case or a test of its room fails. The tree itself stays as
it is. A report that is there is continued.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from subprocess import PIPE

from tests.campaign.mutants import core, kernels
from tests.campaign.mutants.mutant import ROOT, Mutant
from tests.campaign.mutants.places import OUTER, ROOMS, mutants_of

CHOSEN = "MOORAGE_MUTANTS_LIBRARY"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.campaign.mutants")
    parser.add_argument("report")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--since", metavar="COMMIT", help="draw from the files changed since it alone")
    parser.add_argument("--seconds", type=float, default=1e9, help="no mutant begins later")
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of tests for one mutant")
    parser.add_argument("--again", action="store_true", help="test the survivors of the report once more")
    parser.add_argument(
        "--skip",
        type=float,
        default=0.0,
        help="seconds of the fastest tests, left out for mutants of the report",
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="of a mutant that no vector and no case kills, all tests that do; of any room that is tested",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", default=str(ROOT / "build/campaign/mutants"))
    options = parser.parse_args()
    folder = Path(options.folder)
    mutants = list(mutants_of(ROOMS))
    source = json.dumps(mutants)
    stamp = folder / "built.json"
    if not stamp.exists() or json.loads(stamp.read_text())["source"] != source:
        wrong = sorted(kernels.build(folder, mutants) | core.build(folder, mutants))
        stamp.write_text(json.dumps({"source": source, "wrong": wrong}))
    if os.environ.get(CHOSEN) != str(folder):
        found = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        environment = os.environ | {
            CHOSEN: str(folder),
            "LD_LIBRARY_PATH": found,
            "LD_PRELOAD": str(folder / kernels.NAME),  # the core's modules have its switch, too
            "OPENBLAS_NUM_THREADS": "1",
        }
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.campaign.mutants", *sys.argv[1:]], environment
        )
    wrong = set(json.loads(stamp.read_text())["wrong"])
    rooms = tuple(options.rooms.split(","))
    changed = changed_since(options.since) if options.since else {one.file for one in mutants}
    chosen = [
        at
        for at, one in enumerate(mutants)
        if at not in wrong and one.file.startswith(rooms) and one.file in changed
    ]
    order = sampled(mutants, chosen, options.seed)
    by_room = ([number for number in order if mutants[number].file.startswith(f"{room}/")] for room in rooms)
    sample = [number for numbers in by_room for number in numbers[: options.sample]]
    core.take(folder)

    import pytest

    from tests.campaign.mutants.warm import OPTIONS, Warm

    warm = Warm(mutants, sample, options)
    tests = sorted({test for room in rooms for test in ROOMS[room]} | {*OUTER})
    code = int(pytest.main([*OPTIONS, *tests], plugins=[warm]))
    report = json.loads(Path(options.report).read_text()) if Path(options.report).exists() else {"counts": {}}
    print(json.dumps(report["counts"], indent=1))
    return code


def changed_since(commit: str) -> set[str]:
    """The files of the tree that differ from those of a commit, or that it did not have."""
    command = ["git", "diff", "--name-only", "--no-renames", commit, "--"]
    return set(subprocess.run(command, cwd=ROOT, stdout=PIPE, text=True, check=True).stdout.splitlines())


def sampled(mutants: list[Mutant], chosen: list[int], seed: int) -> list[int]:
    """The chosen mutants in an order by seed, which a change elsewhere in the sources leaves as it is."""
    drawn, equal = dict[int, str](), Counter[tuple[str, str, str]]()
    for number, one in enumerate(mutants):
        what = one.file, one.old, one.new
        equal[what] += 1
        drawn[number] = hashlib.sha256(f"{seed} {what} {equal[what]}".encode()).hexdigest()
    return sorted(chosen, key=lambda number: drawn[number])


if __name__ == "__main__":
    sys.exit(main())

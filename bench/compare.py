"""Two revisions, measured in turn on one machine: `python -m bench.compare BASE [SUITE…]`.

BASE is built in a worktree of its own under build/, which goes away at the end, with the compiler packages of
this interpreter. Both run the suites of the current tree; what only that can run is listed as new.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.table import ROOT, in_units

QUICK = (
    "bench/decide/test_scan.py",
    "bench/decide/test_many_classes.py",
    "bench/decide/test_one_or_none.py",
    "bench/decide/test_kinds.py",
)
# Twins do not change, and what needs the largest clusters takes long.
LEFT_OUT = "not numpy and not twin and not million and not 100000 and not build"
PYTEST = ("-q", "-p", "no:randomly", "-p", "no:xdist", "--benchmark-only", "--benchmark-quiet")
# A suite that BASE cannot import must not hide the others.
LENIENT = ("--continue-on-collection-errors", "-p", "no:cacheprovider", "--tb=line")
Minima = dict[str, float]


@contextmanager
def worktree(root: Path, revision: str) -> Iterator[Path]:
    """The revision, checked out under build/ for as long as this lasts."""
    (root / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compare-", dir=root / "build") as directory:
        tree = Path(directory) / "base"
        git(root, "worktree", "add", "--quiet", "--detach", str(tree), revision)
        try:
            yield tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def git(root: Path, *arguments: str) -> None:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench.compare: git {arguments[0]}: {done.stderr.strip()}")


def build(tree: Path) -> None:
    """The compiled core, in place."""
    log = tree / "build.log"
    with log.open("w") as out:
        command = [sys.executable, "setup.py", "--quiet", "build_clib", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=tree, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"bench.compare: cannot build BASE:\n{log.read_text()[-2000:]}")


def environment(tree: Path) -> dict[str, str]:
    """In which `moorage` is the tree's."""
    found = os.environ | {"PYTHONPATH": str(tree / "python")}
    where = "import moorage; print(moorage.__file__)"
    command = [sys.executable, "-c", where]
    out = subprocess.run(command, env=found, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if not Path(out.strip()).is_relative_to(tree):
        raise SystemExit(f"bench.compare: the package of {tree} is not found first")
    return found


def measure(tree: Path, suites: Sequence[str], results: Path) -> Minima:
    """Best rounds by benchmark, of one run of the current tree's suites over the tree's package."""
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *suites, *PYTEST, *LENIENT, "-k", LEFT_OUT]
    done = subprocess.run(
        [*command, f"--benchmark-json={results}"],
        cwd=ROOT,
        env=environment(tree),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode and tree == ROOT:
        raise SystemExit(f"bench.compare: the current tree fails:\n{done.stdout[-2000:]}")
    return minima(results.read_bytes() if results.exists() else b"")


def minima(document: bytes) -> Minima:
    """Seconds per operation; pytest-benchmark writes nothing where nothing was measured."""
    found: Minima = {}
    for one in json.loads(document)["benchmarks"] if document else ():
        lines = one["extra_info"].get("lines") or [{"operations": 1}]
        found[one["fullname"]] = one["stats"]["min"] / lines[0]["operations"]
    return found


def merge(runs: Sequence[Minima]) -> Minima:
    """The best of several runs."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: min(run[name] for run in runs if name in run) for name in names}


def ratios(base: Mapping[str, float], now: Mapping[str, float]) -> str:
    """A table: above 1 is faster than BASE."""
    rows = ["| per operation | BASE | now | BASE / now |", "| --- | ---: | ---: | ---: |"]
    for name in dict.fromkeys((*now, *base)):
        ratio = f"{base[name] / now[name]:.2f}" if name in base and name in now else ""
        sides = [in_units(side[name]) if name in side else "-" for side in (base, now)]
        rows.append(f"| {name} | {' | '.join(sides)} | {ratio or ('gone' if name in base else 'new')} |")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__.partition("\n")[0])
    parser.add_argument("base", help="a revision")
    parser.add_argument("suites", nargs="*", default=QUICK, help="files, or what else pytest takes")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each, in turn")
    options = parser.parse_args(arguments)
    with worktree(ROOT, options.base) as base:
        build(base)
        runs: dict[Path, list[Minima]] = {base: [], ROOT: []}
        for number in range(options.rounds):
            for tree in (base, ROOT) if number % 2 == 0 else (ROOT, base):
                side = "now" if tree == ROOT else options.base
                print(f"round {number + 1} of {options.rounds}: {side}", file=sys.stderr)
                runs[tree].append(measure(tree, options.suites, base.parent / "results.json"))
        print(ratios(merge(runs[base]), merge(runs[ROOT])))


if __name__ == "__main__":
    main()

"""Mutation testing: `python -m tests.campaign.mutants REPORT [--sample N] [--seed N]`.

A mutant is one changed operator, comparison, constant or condition in a room of the package or in a kernel.
It is killed when the tests of its room fail. The tree itself stays as it is: mutants live in a copy, which is
built there for C.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "python/moorage/scheduler": ["tests/scheduler"],
    "python/moorage/queue": [
        "tests/queue",
        "tests/scheduler/test_queueing.py",
        "tests/scheduler/test_run.py",
    ],
    "python/moorage/preemption": ["tests/preemption", "tests/scheduler/whole"],
    "python/moorage/cache": ["tests/cache", "tests/core/state"],
    "csrc": ["tests/core", "tests/preemption", "tests/scheduler/placing"],
}
"""Source folder to the tests that have to kill its mutants."""
LIMIT = 600.0
"""Seconds after which a mutant counts as killed: it does not end."""
ENOUGH = ["-x", "-q", "-p", "no:benchmark", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header"]


class Mutant(NamedTuple):
    """A change of one place: what stands between two offsets of a file becomes something else."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str


COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
CALCULATED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*")}
IN_C = [
    (r"(?<![<>=!+\-*/&|^-])<(?![<=])", "<="), (r"<=", "<"), (r"(?<![->])>(?![>=])", ">="), (r"(?<!>)>=", ">"),
    (r"==", "!="), (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"), (r"(?<=\w) \+ (?=\w)", " - "),
    (r"(?<=\w) - (?=\w)", " + "), (r"(?<=\w)\+\+", "--"), (r"\+= ", "-= "), (r"\breturn 0;", "return 1;"),
    (r"\? (\w+) : (\w+)", r"? \2 : \1"), (r"\bcontinue;", "break;"),
]  # fmt: skip


def offsets(text: str) -> list[int]:
    """The offset at which each line begins, in bytes."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def of_python(file: str, text: str) -> Iterator[Mutant]:
    """The mutants of a Python file."""
    starts, data = offsets(text), text.encode()

    def place(node: Any, end: bool = False) -> int:
        return starts[(node.end_lineno if end else node.lineno) - 1] + (
            node.end_col_offset if end else node.col_offset
        )

    def between(left: Any, right: Any, names: tuple[str, str]) -> Iterator[Mutant]:
        start, end = place(left, True), place(right)
        held = data[start:end].decode()
        if held.count(names[0]) == 1:
            yield Mutant(file, left.end_lineno, start, end, held, held.replace(*names))

    def whole(node: Any, new: str) -> Mutant:
        start, end = place(node), place(node, True)
        return Mutant(file, node.lineno, start, end, data[start:end].decode(), new)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            yield from between(node.left, node.comparators[0], COMPARED[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            names = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield from between(node.values[0], node.values[1], names)
        elif isinstance(node, ast.BinOp) and type(node.op) in CALCULATED:
            yield from between(node.left, node.right, CALCULATED[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield whole(node, ast.unparse(node.operand))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield whole(node, str(not node.value if isinstance(node.value, bool) else node.value + 1))
        elif isinstance(node, ast.If | ast.While) and not isinstance(
            node.test, ast.Compare | ast.BoolOp | ast.Constant
        ):
            if ast.unparse(node.test) != "TYPE_CHECKING":
                yield whole(node.test, f"(not ({ast.unparse(node.test)}))")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield whole(node, "pass")


def of_c(file: str, text: str) -> Iterator[Mutant]:
    """The mutants of a C file; comments, strings and directives stay."""
    kept = re.sub(r"//[^\n]*|(?s:/\*.*?\*/)", lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    starts = [found.start() for found in re.finditer(r"^", text, re.MULTILINE)]
    for number, start in enumerate(starts):
        line = kept[start : kept.find("\n", start)]
        if line.lstrip().startswith(("#", "_Static_assert")) or "MR_DEBUG" in line or "include" in line:
            continue
        for pattern, new in IN_C:
            for found in re.finditer(pattern, line):
                at = len(text[: start + found.start()].encode())
                yield Mutant(file, number + 1, at, at + len(found[0].encode()), found[0], found.expand(new))


def all_mutants(rooms: list[str]) -> list[Mutant]:
    """The mutants of rooms, in the order of files and places."""
    found: list[Mutant] = []
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.c" if room == "csrc" else "*.py")):
            name = path.relative_to(ROOT).as_posix()
            found += (of_c if path.suffix == ".c" else of_python)(name, path.read_text())
    return found


class Workbench:
    """A copy of the tree in which mutants are made and tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".hypothesis", ".*_cache")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ROOT, folder, ignore=ignored)
        (folder / ".venv").symlink_to(ROOT / ".venv")

    def build(self) -> bool:
        """Compile the kernels anew; false if that fails, as no mutant should."""
        flags = runpy.run_path(str(ROOT / "csrc/flags.py"))
        command = ["cc", "-shared", "-fPIC", "-Icsrc", "-Ipython/moorage/include", *flags["FLAGS"], "-O1"]
        command += [*flags["KERNEL_FLAGS"], *map(str, sorted((self.folder / "csrc").glob("*.c")))]
        command += [*flags["LINK_FLAGS"], "-lm", "-o", "python/moorage/_core/libmoorage_kernels.so"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, check=False).returncode == 0

    def is_killed(self, mutant: Mutant, tests: list[str]) -> bool | None:
        """Whether tests notice a mutant; None if it cannot be built."""
        path = self.folder / mutant.file
        text = path.read_bytes()
        path.write_bytes(text[: mutant.start] + mutant.new.encode() + text[mutant.end :])
        try:
            if path.suffix == ".c" and not self.build():
                return None
            return not self.passes(tests)
        finally:
            path.write_bytes(text)

    def passes(self, tests: list[str]) -> bool:
        environment = os.environ | {"PYTHONPATH": str(self.folder / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", *ENOUGH, *tests]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


@cache
def texts() -> dict[str, str]:
    """The text of each test by its path."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in found}


def nearest(mutant: Mutant, tests: list[str]) -> list[list[str]]:
    """The tests of a mutant in steps: named as its file, those that name it, all of its room."""
    stem = Path(mutant.file).stem
    named = [path for path in texts() if Path(path).stem == f"test_{stem}"]
    naming = [path for path, text in texts().items() if re.search(rf"\b{stem}\b", text)]
    steps = [
        named,
        [path for path in naming if path.startswith(tuple(tests)) and path not in named][:6],
        tests,
    ]
    return [step for step in steps if step]


def campaign(options: argparse.Namespace) -> dict[str, Any]:
    """Test a sample of the mutants."""
    rooms = options.rooms.split(",") if options.rooms else list(ROOMS)
    mutants = all_mutants(rooms)
    sample = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    bench = Workbench(Path(options.folder))
    counts: Counter[str] = Counter()
    survivors: list[dict[str, Any]] = []
    report: dict[str, Any] = {"seed": options.seed, "mutants": len(mutants)}
    end = time.monotonic() + options.seconds
    for mutant in sample:
        if time.monotonic() > end:
            break
        room = next(one for one in rooms if mutant.file.startswith(f"{one}/"))
        killed = any(bench.is_killed(mutant, tests) for tests in nearest(mutant, ROOMS[room]))
        counts[f"{room}: {'killed' if killed else 'survived'}"] += 1
        if not killed:
            survivors.append(mutant._asdict())
        report |= {"tested": counts.total(), "counts": dict(sorted(counts.items())), "survivors": survivors}
        Path(options.report).write_text(json.dumps(report, indent=1))
    return report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--rooms", default="")
    parser.add_argument("--folder", default=str(ROOT / "build/campaign/mutants"))
    report = campaign(parser.parse_args())
    print(json.dumps(report["counts"], indent=1))


if __name__ == "__main__":
    main()

"""Counts the core's instructions on hot paths under callgrind, and compares them with `figures.json`.

    python -m bench.instructions [--write]

Only instructions in the core's own libraries are counted, so neither the interpreter nor the C library
matters. They depend on compiler, Python and processor, which the figures name: elsewhere nothing is compared.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.instructions.hot_paths import PATHS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILT = ROOT / "build/instructions"
FIGURES = HERE / "figures.json"
TOLERANCE = 0.02
CORE = "/moorage/_core/"
NAMED = re.compile(r"\((\d+)\)(?: (.*))?")

Figures = dict[str, int]


def environment() -> str:
    """What the counts depend on, besides the code."""
    compiler = subprocess.run([cc(), "--version"], capture_output=True, text=True, check=True).stdout
    processor = Path("/proc/cpuinfo").read_text()
    vectors = "avx2" if " avx2 " in processor else "base"
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{compiler.splitlines()[0]}; CPython {python}; {platform.machine()}, {vectors}"


def cc() -> str:
    return os.environ.get("CC", "cc")


def missing() -> str:
    """What this machine lacks, in one line; empty if it has all."""
    header = subprocess.run(
        [cc(), "-E", str(HERE / "requests.c")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if shutil.which("valgrind") and header.returncode == 0:
        return ""
    return "instructions needs valgrind with its headers: apt-get install valgrind"


def counted() -> Figures:
    """Instructions by path."""
    shutil.rmtree(BUILT, ignore_errors=True)
    BUILT.mkdir(parents=True)
    library = BUILT / "requests.so"
    subprocess.run([cc(), "-shared", "-fPIC", "-o", library, HERE / "requests.c"], check=True)
    valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no"]
    hot_paths = [sys.executable, "-m", "bench.instructions.hot_paths", str(library)]
    subprocess.run(
        [*valgrind, f"--callgrind-out-file={BUILT / 'counts'}", *hot_paths],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    dumps = (BUILT / f"counts.{at}" for at in range(1, len(PATHS) + 1))
    return dict(map(of_dump, dumps))


def of_dump(dump: Path) -> tuple[str, int]:
    """The path's name, and the instructions of its own code in the core, from a dump of callgrind."""
    name, total, is_core, is_call = "", 0, False, False
    objects: dict[str, str] = {}
    for line in dump.read_text().splitlines():
        key, _, value = line.partition("=")
        if key in {"ob", "cob"} and (named := NAMED.fullmatch(value)):
            number, path = named.groups()
            objects.setdefault(number, path)
            if key == "ob":
                is_core = CORE in objects[number]
        elif key == "calls":
            is_call = True  # the next line is the cost of what was called
        elif line[:1] in {"0", "+", "-", "*"} or line[:1].isdigit():
            if is_core and not is_call:
                total += int(line.split()[1])
            is_call = False
        elif line.startswith("desc: Trigger: Client Request: "):
            name = line.rpartition(" ")[2]
    return name, total


def compare(found: Figures, expected: Figures) -> list[str]:
    """A line for each path that needs more or less than the figures allow."""
    lines = []
    for name, now in found.items():
        before = expected.get(name, 0)
        if abs(now - before) > TOLERANCE * before:
            change = f"{now / before - 1:+.1%}" if before else "new"
            lines.append(f"{name}: {now:,} instructions, {before:,} expected ({change})")
    return lines


def main() -> int:
    if lacking := missing():
        print(lacking, file=sys.stderr)
        return 1
    found, here = counted(), environment()
    if "--write" in sys.argv[1:]:
        FIGURES.write_text(json.dumps({"environment": here, "instructions": found}, indent=2) + "\n")
        return 0
    kept = json.loads(FIGURES.read_text())
    if kept["environment"] != here:
        print(f"instructions: not compared; the figures are of {kept['environment']}, and this is {here}")
        return 0
    wrong = compare(found, kept["instructions"])
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print(
            f"these differ by more than {TOLERANCE:.0%} from bench/instructions/figures.json; "
            "if it is meant: make instructions OPTIONS=--write",
            file=sys.stderr,
        )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

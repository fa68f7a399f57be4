"""The Cython modules with all of their mutants at once, built in a tree of their own.

`MR_IS` of `kernels.py` chooses the active mutant, in C and without the GIL alike.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.campaign.mutants.cython import RETURNED
from tests.campaign.mutants.kernels import with_alternatives
from tests.campaign.mutants.mutant import ROOT, Mutant

DECLARED = "\ncdef extern from *:\n    int MR_IS(int number) noexcept nogil\n"
COPIED = [
    "building",
    "csrc",
    "pyx",
    "python/moorage/_core",
    "python/moorage/include",
    "setup.py",
    "pyproject.toml",
]


def form(number: int, mutant: Mutant, inner: bytes) -> bytes:
    """A place with its alternative. Mutants within it are kept."""
    chosen = b"MR_IS(%d)" % number
    if mutant.new == "pass":
        return b"if not %b: %b" % (chosen, inner)
    if mutant.old in RETURNED:
        return {"True": b"not %b", "False": b"%b != 0", "0": b"0 + %b", "1": b"1 - %b"}[mutant.old] % chosen
    if mutant.new.startswith("not ("):
        return b"((not (%b)) == %b)" % (inner, chosen)
    return b"((%b) if %b else (%b))" % (mutant.new.encode(), chosen, inner)


def build(folder: Path, mutants: list[Mutant]) -> set[int]:
    """Build the core with its mutants in `folder/core`; returns those that Cython refuses."""
    tree = folder / "core"
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, tree / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so")
            )
        else:
            shutil.copy2(ROOT / name, tree / name)
    by_file: dict[str, dict[int, Mutant]] = {}
    for number, mutant in enumerate(mutants):
        if mutant.file.endswith(".pyx"):
            by_file.setdefault(mutant.file, {})[number] = mutant
    flags = f"{os.environ.get('CFLAGS', '')} -w -include {folder / 'switch.h'}"
    wrong: set[int] = set()
    while True:
        for file, numbered in by_file.items():
            kept = {number: one for number, one in numbered.items() if number not in wrong}
            changed = with_alternatives((ROOT / file).read_text(), kept.items(), form) + DECLARED
            if (tree / file).read_text() != changed:
                (tree / file).write_text(changed)
        done = subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            cwd=tree,
            env=os.environ | {"CFLAGS": flags},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return wrong
        refused = {
            number
            for file, line in re.findall(r"(pyx/[\w/]+\.pyx):(\d+):\d+:", done.stdout + done.stderr)
            for number in re.findall(r"MR_IS\((\d+)\)", (tree / file).read_text().splitlines()[int(line) - 1])
        }
        found = {int(one) for one in refused} - wrong
        if not found:
            raise RuntimeError(done.stdout + done.stderr)
        wrong |= found


def take(folder: Path) -> None:
    """Let this process import the core of `folder`. Nothing of the package may be imported before."""
    place = folder / "core/python/moorage/_core"
    spec = importlib.util.spec_from_file_location(
        "moorage._core", place / "__init__.py", submodule_search_locations=[str(place)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["moorage._core"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(importlib.import_module("moorage"))["_core"] = module

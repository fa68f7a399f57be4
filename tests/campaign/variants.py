"""``python -m tests.campaign.variants [LEVEL…]``: the kernels of each level of x86-64, under the same tests.

The library of kernels has dispatched functions three times (csrc/dispatch.h), and a processor only ever calls
one of them. Here each level gets a library of its own, and the twins of the kernels and the vectors of
kube-scheduler run over it. A level that the processor lacks is told, and left out.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from building.flags import FLAGS, KERNEL_FLAGS, LINK_FLAGS
from tests.campaign.mutants.kernels import NAME
from tests.house.source import ROOT
from tests.jobs.job import PARALLEL, WHOLE

FOLDER = ROOT / "build/variants"
TESTS = ["tests/core/decide", "tests/core/preempt", "tests/conformance"]
# What a processor needs beside the level below: the first of the features that a level adds.
FEATURES = {"x86-64": "sse2", "x86-64-v3": "avx2", "x86-64-v4": "avx512f"}


def main(levels: list[str]) -> None:
    found = set(Path("/proc/cpuinfo").read_text().split())
    for level in levels or FEATURES:
        if FEATURES[level] not in found:
            print(f"{level}: this processor has no {FEATURES[level]}", flush=True)
            continue
        folder = str(library(level).parent)
        searched = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        subprocess.run(
            [sys.executable, "-m", "tests.campaign.variants", "--loaded", folder],
            cwd=ROOT,
            env=os.environ | {"LD_LIBRARY_PATH": searched},
            check=True,
        )
        done = subprocess.run(
            [sys.executable, *PARALLEL, *WHOLE, *TESTS],
            cwd=ROOT,
            env=os.environ | {"LD_LIBRARY_PATH": searched},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{level}: {done.stdout[-5000:]}{done.stderr[-5000:]}")
        print(f"{level}: {done.stdout.strip().splitlines()[-1]}", flush=True)


def library(level: str) -> Path:
    """The library of kernels with the instructions of a level, and with each function once."""
    place = FOLDER / level / NAME
    place.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", *FLAGS, *KERNEL_FLAGS, *LINK_FLAGS]
    command += [f"-march={level}", "-DMR_DISPATCHED=", "-Wl,-Bsymbolic"]
    command += [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'python/moorage/include'}"]
    sources = sorted(map(str, (ROOT / "csrc").glob("*.c")))
    subprocess.run([*command, *sources, "-lm", "-o", str(place)], check=True)
    return place


def check_loaded(folder: str) -> None:
    """Fail unless the core of this process calls the library of a folder."""
    from tests.doors.engine import Placer  # noqa: F401  what calls kernels

    ctypes.CDLL(NAME)
    mapped = {
        line.split(maxsplit=5)[5].strip()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if NAME in line
    }
    if mapped != {f"{folder}/{NAME}"}:
        sys.exit(f"expected {folder}/{NAME}, the core has loaded {sorted(mapped)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loaded"]:
        check_loaded(sys.argv[2])
    else:
        main(sys.argv[1:])

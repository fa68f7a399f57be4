"""The kernels with all of their mutants at once, in one library: a global number chooses the active one.

`mr_mutant` is the number, -1 for none; `mr_reached[k]` is 1 once the place of mutant k was calculated.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from building.flags import FLAGS, KERNEL_FLAGS, LINK_FLAGS
from tests.campaign.mutants.mutant import ROOT, Mutant

NAME = "libmoorage_kernels.so"
SWITCH = """
extern int mr_mutant;
extern unsigned char mr_reached[];
#define MR_IS(k) (mr_reached[k] = 1, __builtin_expect(mr_mutant == (k), 0))
"""


def form(number: int, mutant: Mutant, inner: bytes) -> bytes:
    """A place of a C file with its alternative."""
    new = mutant.new.replace("\n", " ").encode()
    if mutant.old.endswith(";"):
        return b"{ if (MR_IS(%d)) { %b } else { %b } }" % (number, new, inner)
    return b"(MR_IS(%d) ? (%b) : (%b))" % (number, new, inner)


def with_alternatives(
    text: str,
    mutants: Iterable[tuple[int, Mutant]],
    form: Callable[[int, Mutant, bytes], bytes] = form,
) -> str:
    """A file in which each mutant is an alternative of its place. Lines keep their numbers."""
    data = text.encode()
    order = sorted(mutants, key=lambda one: (one[1].start, -one[1].end))

    def written(start: int, end: int, at: int) -> tuple[bytes, int]:
        """The bytes of an extent with its mutants from position `at` on; the position of the next."""
        parts = []
        while at < len(order) and order[at][1].end <= end:
            number, mutant = order[at]
            inner, following = written(mutant.start, mutant.end, at + 1)
            parts += [data[start : mutant.start], form(number, mutant, inner)]
            start, at = mutant.end, following
        return b"".join([*parts, data[start:end]]), at

    return written(0, len(data), 0)[0].decode()


def refused(text: str, errors: str) -> set[int]:
    """The mutants that the compiler's errors about a file point at: sums of pointers, for example."""
    lines = text.splitlines()
    found = set()
    for line, column in re.findall(r"^[^\n:]*:(\d+):(\d+): error", errors, re.MULTILINE):
        found |= {
            int(number) for number in re.findall(r"MR_IS\((\d+)\)", lines[int(line) - 1][: int(column)])[-1:]
        }
    return found


def build(folder: Path, mutants: list[Mutant]) -> set[int]:
    """Compile the library into a folder; returns the mutants that do not compile, by their positions."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "switch.h").write_text(SWITCH)
    (folder / "switch.c").write_text(f"int mr_mutant = -1;\nunsigned char mr_reached[{len(mutants) + 1}];\n")
    command = [
        "cc",
        "-c",
        "-fPIC",
        "-I",
        str(ROOT / "csrc"),
        "-I",
        str(ROOT / "python/moorage/include"),
        "-w",
    ]
    command += [*FLAGS, *KERNEL_FLAGS, "-O1", "-include", str(folder / "switch.h")]

    def compiled(path: Path) -> set[int]:
        numbered = {at: one for at, one in enumerate(mutants) if one.file == f"csrc/{path.name}"}
        source, wrong = folder / path.name, set()
        while True:
            text = with_alternatives(path.read_text(), numbered.items())
            source.write_text(text)
            done = subprocess.run(
                [*command, str(source), "-o", str(source.with_suffix(".o"))],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return wrong
            found = refused(text, done.stderr) & numbered.keys()
            if not found:
                raise RuntimeError(done.stderr)
            wrong |= found
            numbered = {at: one for at, one in numbered.items() if at not in found}

    sources = sorted((ROOT / "csrc").glob("*.c"))
    with ThreadPoolExecutor(2) as pool:
        wrong = set().union(*pool.map(compiled, sources))
    objects = [str(folder / one.with_suffix(".o").name) for one in sources]
    whole = ["cc", "-shared", "-fPIC", "-O1", str(folder / "switch.c"), *objects, *LINK_FLAGS, "-lm"]
    subprocess.run([*whole, "-Wl,-Bsymbolic", f"-Wl,-soname,{NAME}", "-o", str(folder / NAME)], check=True)
    return wrong


class Switch:
    """The switch of the library that the process has loaded."""

    def __init__(self, count: int) -> None:
        library = ctypes.CDLL(NAME)  # found by the path of libraries, as the core's modules have found it
        self._active = ctypes.c_int.in_dll(library, "mr_mutant")
        self._reached = (ctypes.c_ubyte * count).in_dll(library, "mr_reached")

    def choose(self, number: int) -> None:
        self._active.value = number

    def take_reached(self) -> list[int]:
        """The mutants that were reached since the last call."""
        held = bytes(self._reached)
        ctypes.memset(self._reached, 0, len(held))
        return [number for number, reached in enumerate(held) if reached]

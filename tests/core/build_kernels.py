"""Builds tests.core._kernels: the C kernels through cffi, as tests call them.

The declarations for cffi are read from the headers, so that they cannot drift apart; the kernels are those of
the library that the compiled core is linked with.
"""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
HEADERS = [
    "state.h",
    "rows.h",
    "terms.h",
    "plugins.h",
    "parallel.h",
    "lanes.h",
    "row_eval.h",
    "scan.h",
    "candidates.h",
    "verdict_histogram.h",
    "dry_run.h",
    "preemption.h",
]


def declarations(header: str) -> str:
    """A header as cffi reads it: types, prototypes and integer constants, without bodies and directives."""
    header = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    header = re.sub(r"^#define (\w+) (.*)$", constant, header, flags=re.MULTILINE)
    header = re.sub(r"^#(?!define \w+ (?:\w+|\.\.\.)$).*$", "", header, flags=re.MULTILINE)
    header = re.sub(r"^_Static_assert\(.*\);$", "", header, flags=re.MULTILINE)
    return re.sub(
        r"^(?:static inline|MR_INLINED) ([^{;]+?)\n\{.*?^\}$", r"\1;", header, flags=re.MULTILINE | re.DOTALL
    )


def constant(match: re.Match[str]) -> str:
    """A constant that cffi can take: a plain integer as it is, an integer expression left to the compiler."""
    name, value = match[1], match[2].strip()
    if re.fullmatch(r"\d+u?", value):
        return f"#define {name} {value}"
    return "" if re.search(r"\d\.\d|\dp", value) else f"#define {name} ..."


flags = runpy.run_path(str(CSRC / "flags.py"))
ffibuilder = FFI()
for name in HEADERS:
    ffibuilder.cdef(declarations((CSRC / name).read_text()))
ffibuilder.set_source(
    "tests.core._kernels",
    '#include "verdict_histogram.h"\n#include "preemption.h"',
    include_dirs=[str(CSRC)],
    extra_compile_args=[*flags["FLAGS"], *flags["KERNEL_FLAGS"]],
    extra_link_args=flags["LINK_FLAGS"],
    libraries=["moorage_kernels"],
    library_dirs=[str(ROOT / "python/moorage/_core")],
    runtime_library_dirs=["$ORIGIN/../../python/moorage/_core"],
)

if __name__ == "__main__":
    shutil.copy(ffibuilder.compile(tmpdir="build/cffi"), "tests/core")

"""Builds moorage._core._kernels: the C kernels through cffi, as tests and tools in Python call them.

What cffi is told comes from the headers themselves, so it cannot drift from them; the kernels come from the
archive that setup.py links with every module.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from cffi import FFI

CSRC = Path(__file__).parent
HEADERS = [
    "state.h",
    "rows.h",
    "terms.h",
    "plugins.h",
    "lanes.h",
    "scan.h",
    "candidates.h",
    "tally.h",
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
    "moorage._core._kernels",
    '#include "tally.h"\n#include "preemption.h"',
    include_dirs=[str(CSRC)],
    depends=[str(CSRC / name) for name in (*HEADERS, "flags.py", "ffi_build.py")],
    extra_compile_args=[*flags["FLAGS"], *flags["KERNEL_FLAGS"]],
    extra_link_args=flags["LINK_FLAGS"],
)

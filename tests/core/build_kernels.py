"""Builds tests.core._kernels, if it is not up to date: `python -m tests.core.build_kernels`.

These are the C kernels through cffi, as tests call them.

The declarations for cffi are read from the headers, so that they cannot drift apart; the kernels are those of
the library that the compiled core is linked with.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from sysconfig import get_config_var

from building.flags import FLAGS, KERNEL_FLAGS, LINK_FLAGS
from building.up_to_date import Made

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


def build() -> None:
    """Compile the module into build/cffi, and copy it beside the tests."""
    from cffi import FFI

    ffi = FFI()
    for name in HEADERS:
        ffi.cdef(declarations((CSRC / name).read_text()))
    ffi.set_source(
        "tests.core._kernels",
        '#include "verdict_histogram.h"\n#include "preemption.h"',
        include_dirs=[str(CSRC)],
        extra_compile_args=[*FLAGS, *KERNEL_FLAGS],
        extra_link_args=LINK_FLAGS,
        libraries=["moorage_kernels"],
        library_dirs=[str(ROOT / "python/moorage/_core")],
        runtime_library_dirs=["$ORIGIN/../../python/moorage/_core"],
    )
    shutil.copy(ffi.compile(tmpdir="build/cffi"), "tests/core")


def main() -> None:
    output = Path(f"tests/core/_kernels{get_config_var('EXT_SUFFIX')}")
    recipe = [*FLAGS, *KERNEL_FLAGS, *LINK_FLAGS, sys.version, version("cffi")]
    made = Made(output, Path("build/cffi", f"{output.name}.made"), recipe)
    if not made.is_current():
        made.begin([*sorted(map(str, Path("csrc").glob("*.h"))), "tests/core/build_kernels.py"])
        build()
        made.end()


if __name__ == "__main__":
    main()

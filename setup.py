"""Builds the compiled core: Cython modules under pyx/, and the cffi module over csrc/."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

INCLUDE = Path("python/moorage/include")
HEADERS = sorted(str(path) for path in (*Path("csrc").glob("*.h"), *INCLUDE.rglob("*.h")))
PXDS = sorted(str(path) for path in Path("pyx").rglob("*.pxd"))
INCLUDES = ["csrc", str(INCLUDE)]
COMPILER = runpy.run_path("csrc/flags.py")

# The C kernels are compiled once, into an archive that every module is linked with: modules are built side by
# side, and would overwrite each other's objects.
SOURCES = sorted(str(path) for path in Path("csrc").glob("*.c"))
KERNELS = {
    "sources": SOURCES,
    "include_dirs": INCLUDES,
    "cflags": COMPILER["FLAGS"] + COMPILER["KERNEL_FLAGS"],
    "obj_deps": {"": [*HEADERS, "csrc/flags.py"]},
}
# Modules with kernels of their own, which see neither NaN nor infinity.
WITH_KERNELS = {
    *("node_table", "view", "search", "supposing", "candidates", "chooser", "prepared", "cycle", "domains"),
    *("terms", "native_plugin", "importance", "dry_runs", "preemptor"),
}

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "nonecheck": False,
    "cdivision": True,
    "embedsignature": True,
}


def extension(path: Path) -> Extension:
    name = path.stem
    return Extension(
        ".".join(path.relative_to("pyx").with_suffix("").parts),
        [str(path)],
        include_dirs=INCLUDES,
        depends=[*HEADERS, *PXDS, *SOURCES, "csrc/flags.py"],
        extra_compile_args=COMPILER["FLAGS"] + (COMPILER["KERNEL_FLAGS"] if name in WITH_KERNELS else []),
        extra_link_args=COMPILER["LINK_FLAGS"],
    )


JOBS = os.cpu_count() or 1

setup(
    ext_modules=cythonize(
        [extension(path) for path in sorted(Path("pyx").rglob("*.pyx"))],
        include_path=["pyx"],
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        nthreads=JOBS if JOBS > 1 else 0,
    ),
    libraries=[("moorage_kernels", KERNELS)],
    cffi_modules=["csrc/ffi_build.py:ffibuilder"],
    options={"build_ext": {"parallel": JOBS}},
)

"""Builds the compiled core: Cython modules under pyx/, and the cffi module over csrc/."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

HEADERS = sorted(str(path) for path in Path("csrc").glob("*.h"))
PXDS = sorted(str(path) for path in Path("pyx").rglob("*.pxd"))

# Which C files each compiled module needs; a module without C kernels is not listed.
KERNELS: dict[str, list[str]] = {
    "node_table": ["csrc/rows.c"],
    "view": ["csrc/scan.c", "csrc/plugins.c", "csrc/rows.c"],
    "cycle": ["csrc/scan.c", "csrc/plugins.c", "csrc/rows.c"],
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
COMPILER = runpy.run_path("csrc/flags.py")
LINK: list[str] = []


def extension(path: Path) -> Extension:
    name = path.stem
    return Extension(
        f"moorage._core.{name}",
        [str(path), *KERNELS.get(name, [])],
        include_dirs=["csrc"],
        depends=[*HEADERS, *PXDS, *KERNELS.get(name, []), "csrc/flags.py"],
        extra_compile_args=COMPILER["FLAGS"] + (COMPILER["KERNEL_FLAGS"] if name in KERNELS else []),
        extra_link_args=LINK,
    )


JOBS = os.cpu_count() or 1

setup(
    ext_modules=cythonize(
        [extension(path) for path in sorted(Path("pyx/moorage/_core").glob("*.pyx"))],
        include_path=["pyx"],
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        nthreads=JOBS if JOBS > 1 else 0,
    ),
    cffi_modules=["csrc/ffi_build.py:ffibuilder"],
    options={"build_ext": {"parallel": JOBS}},
)

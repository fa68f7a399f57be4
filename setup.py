"""Builds the compiled core: Cython modules under pyx/, and the cffi module over csrc/."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

INCLUDE = Path("python/moorage/include")
HEADERS = sorted(str(path) for path in (*Path("csrc").glob("*.h"), *INCLUDE.rglob("*.h")))
PXDS = sorted(str(path) for path in Path("pyx").rglob("*.pxd"))

PLUGINS = ["csrc/plugins.c", "csrc/pod_topology_spread.c", "csrc/inter_pod_affinity.c", "csrc/rows.c"]
SCAN = ["csrc/scan.c", "csrc/lanes.c", *PLUGINS]
CANDIDATES = ["csrc/candidates.c", "csrc/decision.c", "csrc/tally.c", *SCAN]
DRY_RUN = ["csrc/dry_run.c", *SCAN]
# Which C files each compiled module needs; a module without C kernels is not listed.
KERNELS: dict[str, list[str]] = {
    "node_table": ["csrc/rows.c"],
    "view": SCAN,
    "search": SCAN,
    "supposing": SCAN,
    "candidates": CANDIDATES,
    "chooser": CANDIDATES,
    "prepared": ["csrc/tally.c", *SCAN],
    "cycle": PLUGINS,
    "domains": PLUGINS,
    "terms": PLUGINS,
    "native_plugin": ["csrc/native.c"],
    "importance": DRY_RUN,
    "dry_runs": DRY_RUN,
    "preemptor": ["csrc/preemption.c", *DRY_RUN],
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


def extension(path: Path) -> Extension:
    name = path.stem
    return Extension(
        f"moorage._core.{name}",
        [str(path), *KERNELS.get(name, [])],
        include_dirs=["csrc", str(INCLUDE)],
        depends=[*HEADERS, *PXDS, *KERNELS.get(name, []), "csrc/flags.py"],
        extra_compile_args=COMPILER["FLAGS"] + (COMPILER["KERNEL_FLAGS"] if name in KERNELS else []),
        extra_link_args=COMPILER["OPENMP"] if name in KERNELS else [],
    )


# For `make sanitize`: ends at the first bad access or undefined operation. -fwrapv defines signed overflow.
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class BuildExt(build_ext):
    """Adds the sanitizers to every extension, those of cffi included, under MOORAGE_SANITIZE=1."""

    def build_extension(self, ext: Extension) -> None:
        if os.environ.get("MOORAGE_SANITIZE") == "1":
            ext.extra_compile_args = [
                *ext.extra_compile_args,
                *SANITIZE,
                "-O1",
                "-g",
                "-fno-omit-frame-pointer",
            ]
            ext.extra_link_args = [*ext.extra_link_args, *SANITIZE]
        super().build_extension(ext)


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
    cmdclass={"build_ext": BuildExt},
    options={"build_ext": {"parallel": JOBS}},
)

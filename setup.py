"""Builds the compiled core: the library of kernels in csrc/, and the Cython modules under pyx/."""

from __future__ import annotations

import os
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

INCLUDE = Path("python/moorage/include")
HEADERS = sorted(str(path) for path in (*Path("csrc").glob("*.h"), *INCLUDE.rglob("*.h")))
PXDS = sorted(str(path) for path in Path("pyx").rglob("*.pxd"))
INCLUDES = ["csrc", str(INCLUDE)]
COMPILER = runpy.run_path("csrc/flags.py")

LAST = COMPILER["LAST_FLAGS"]
FAST = COMPILER["FLAGS"] + COMPILER["KERNEL_FLAGS"] + LAST
LOOPS = [*FAST, "-O2", *LAST]
GLUE = [*COMPILER["FLAGS"], "-O1", *LAST]
SOURCES = sorted(str(path) for path in Path("csrc").glob("*.c"))
# The C kernels are compiled once, into a library beside the modules that call them.
KERNELS = "moorage._core.libmoorage_kernels"
# What Cython adds to every module is compiled once as well.
UTILITY = "moorage._core._cython_utility"

JOBS = os.cpu_count() or 1
IS_DEBUG = COMPILER["IS_DEBUG"]
IS_COVERAGE = COMPILER["IS_COVERAGE"]
# What the tests of the debug build break its assertions with.
BREAKERS = Path("tests/debug/break_assertions.pyx")

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": IS_DEBUG,
    "wraparound": False,
    "initializedcheck": IS_DEBUG,
    "nonecheck": False,
    "cdivision": True,
    "embedsignature": True,
}


def kernels() -> Extension:
    return Extension(
        KERNELS,
        SOURCES,
        include_dirs=INCLUDES,
        depends=[*HEADERS, "csrc/flags.py"],
        extra_compile_args=FAST,
        extra_link_args=[*COMPILER["LINK_FLAGS"], "-Wl,-Bsymbolic-functions"],
    )


def extension(path: Path, folder: str | Path = "pyx") -> Extension:
    """A module of the core. One that calls kernels without the GIL has loops of its own that matter; the
    rest is glue."""
    name = ".".join(path.relative_to(folder).with_suffix("").parts)
    declared = path.with_suffix(".pxd")
    text = path.read_text() + (declared.read_text() if declared.exists() else "")
    calls_kernels = "mr_" in text
    return Extension(
        name,
        [str(path)],
        include_dirs=INCLUDES,
        depends=[*HEADERS, *PXDS, "csrc/flags.py"],
        extra_compile_args=LOOPS if calls_kernels and "nogil" in text else GLUE,
        extra_link_args=COMPILER["LINK_FLAGS"],
        libraries=["moorage_kernels"] if calls_kernels else [],
        runtime_library_dirs=["$ORIGIN/.."] if calls_kernels else [],
    )


def mended(extensions: list[Extension]) -> list[Extension]:
    """Cython 3.3 releases an item twice if a list comprehension has no memory to grow: once where the item is
    appended, and once more as the function is left. The first one is taken out."""
    for generated in [path for one in extensions if (path := Path(one.sources[0])).exists()]:
        text = generated.read_text()
        better = text.replace(
            "int result = PyList_Append(list, x);\n    Py_DECREF(x);",
            "int result = PyList_Append(list, x);\n    if (!result) Py_DECREF(x);",
        )
        if better != text:
            generated.write_text(better)
    return extensions


class BuildCore(build_ext):
    """Builds the library of kernels before the modules that are linked with it, and those side by side."""

    def get_ext_filename(self, fullname: str) -> str:
        if fullname in {KERNELS, KERNELS.rpartition(".")[2]}:
            return fullname.replace(".", os.sep) + ".so"
        return super().get_ext_filename(fullname)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return [] if ext.name == KERNELS else super().get_export_symbols(ext)

    def build_extension(self, ext: Extension) -> None:
        # The sources of one extension are compiled one after the other otherwise.
        if ext.name == KERNELS:
            with ThreadPoolExecutor(JOBS) as pool:
                compiled = list(pool.map(lambda source: self._compile(ext, source), ext.sources))
            ext.depends = [*ext.depends, *ext.sources]  # linked again when one of them changes
            ext.sources, ext.extra_objects = [], [item for items in compiled for item in items]
        super().build_extension(ext)

    def _compile(self, ext: Extension, source: str) -> list[str]:
        return self.compiler.compile(
            [source],
            output_dir=self.build_temp,
            include_dirs=ext.include_dirs,
            debug=self.debug,
            extra_postargs=ext.extra_compile_args,
            depends=ext.depends,
        )

    def build_extensions(self) -> None:
        extensions = self.extensions
        folder = Path(self.get_ext_fullpath(KERNELS)).parent
        for self.extensions in (
            [one for one in extensions if one.name == KERNELS],
            [one for one in extensions if one.name != KERNELS],
        ):
            for one in self.extensions:
                one.library_dirs = [*one.library_dirs, str(folder)]
            super().build_extensions()
        self.extensions = extensions


setup(
    ext_modules=[
        kernels(),
        *mended(
            cythonize(
                [
                    Extension(
                        UTILITY,
                        ["build/_cython_utility.c"],
                        extra_compile_args=GLUE,
                        extra_link_args=COMPILER["LINK_FLAGS"],
                    ),
                    *(extension(path) for path in sorted(Path("pyx").rglob("*.pyx"))),
                    *([extension(BREAKERS, BREAKERS.parent)] if IS_DEBUG else []),
                ],
                include_path=["pyx"],
                compiler_directives=DIRECTIVES,
                build_dir=f"build/{'debug/' if IS_DEBUG else 'coverage/' if IS_COVERAGE else ''}cython",
                nthreads=JOBS if JOBS > 1 else 0,
                shared_utility_qualified_name=UTILITY,
            )
        ),
    ],
    cmdclass={"build_ext": BuildCore},
    options={"build_ext": {"parallel": JOBS}},
)

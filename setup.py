"""Builds the compiled core: the library of kernels in csrc/, and the Cython modules under pyx/.

What a file is made of is in building/inputs.py, and whether it is up to date in building/up_to_date.py;
building/flags.py has the flags, levels and variants.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import cached_property, partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, OptionError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where pip builds, it is not on the path

from building.flags import (
    GLUE,
    INCLUDES,
    KERNELS,
    LEVELS,
    LIBRARY,
    LINK_FLAGS,
    SHARED,
    SHARED_SOURCE,
    VARIANT,
)
from building.up_to_date import Made

TRANSLATION = "building/translation.py"
# What the tests of the debug build break its assertions with.
BREAKERS = Path("tests/debug/break_assertions.pyx")

JOBS = os.cpu_count() or 1
FOLDER = Path("build", VARIANT)
CYTHON = FOLDER / "cython"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": VARIANT == "debug",
    "wraparound": False,
    "initializedcheck": VARIANT == "debug",
    "nonecheck": False,
    "cdivision": True,
    "embedsignature": True,
}


def library() -> Extension:
    return Extension(
        LIBRARY,
        sorted(str(path) for path in Path("csrc").glob("*.c")),
        include_dirs=INCLUDES,
        extra_compile_args=KERNELS,
        extra_link_args=[*LINK_FLAGS, "-Wl,-Bsymbolic"],
    )


def module(path: Path, folder: str | Path = "pyx") -> Extension:
    name = ".".join(path.relative_to(folder).with_suffix("").parts)
    calls_kernels = name in LEVELS or path == BREAKERS
    return Extension(
        name,
        [str(path)],
        include_dirs=INCLUDES,
        extra_compile_args=LEVELS.get(name, GLUE),
        extra_link_args=LINK_FLAGS,
        libraries=["moorage_kernels"] if calls_kernels else [],
        runtime_library_dirs=["$ORIGIN/.."] if calls_kernels else [],
    )


class BuildPython(build_py):
    """Copies modules and data; what has no source any more leaves, so that no wheel and no variant has it."""

    def run(self) -> None:
        super().run()
        copied = {Path(one).resolve() for one in self.get_outputs()}
        for one in Path(self.build_lib, "moorage").resolve().rglob("*"):
            if one.is_file() and one.suffix != ".so" and one not in copied and not self.editable_mode:
                one.unlink()


def modules() -> list[Extension]:
    found = [Extension(SHARED, [SHARED_SOURCE], extra_compile_args=GLUE, extra_link_args=LINK_FLAGS)]
    found += (module(path) for path in sorted(Path("pyx").rglob("*.pyx")))
    return found + ([module(BREAKERS, BREAKERS.parent)] if VARIANT == "debug" else [])


class BuildCore(build_ext):
    """Makes what is not up to date: C of Cython modules, objects, the library of kernels, then modules."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if VARIANT and self.inplace:
            raise OptionError(f"MOORAGE_VARIANT={VARIANT} is made by `setup.py build`, in build/{VARIANT}")

    def get_ext_filename(self, fullname: str) -> str:
        if fullname in {LIBRARY, LIBRARY.rpartition(".")[2]}:
            return fullname.replace(".", os.sep) + ".so"
        return super().get_ext_filename(fullname)

    def build_extensions(self) -> None:
        self.check_extensions_list(self.extensions)
        modules = [one for one in self.extensions if one.name != LIBRARY]
        self._translate(modules)
        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(lambda step: step(), [*self._compilations()]))
            # Modules are linked with the library, so it comes first.
            for chosen in ([one for one in self.extensions if one.name == LIBRARY], modules):
                list(pool.map(self._link, chosen))
        self._remove_stale()

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        inplace, self.inplace = self.inplace, True
        self._remove_stale()
        self.inplace = inplace

    def _remove_stale(self) -> None:
        """Remove libraries of the core whose source is gone, so that no import finds them."""
        made = {Path(self.get_ext_fullpath(one.name)).resolve() for one in self.extensions}
        for library in Path(self.get_ext_fullpath(SHARED)).resolve().parent.rglob("*.so"):
            if library not in made:
                library.unlink()

    def _translate(self, modules: list[Extension]) -> None:
        """Cython to C. Where one module has an error, the others are translated all the same."""
        recipe = [json.dumps(DIRECTIVES), *(f"{one} {version(one)}" for one in ("cython", "fastrlock"))]
        stale = []
        for one in modules:
            made = Made(translated(one.sources[0]), Path(f"{translated(one.sources[0])}.made"), recipe)
            if not made.is_current():
                stale.append((one, made))
        if not stale:
            return
        from building import inputs, translation

        # Processes are forked: what was found about cimports is known to them, and they do not run this file.
        with ProcessPoolExecutor(min(JOBS, len(stale)), mp_context=get_context("fork")) as pool:
            for one, made in stale:
                read = () if one.name == SHARED else inputs.of_translation(one.sources[0])
                made.begin([TRANSLATION, *read])
            waited = {
                pool.submit(translation.translate, one.name, one.sources[0], str(CYTHON), DIRECTIVES): made
                for one, made in stale
            }
            for future in as_completed(waited):
                if future.exception() is None:
                    waited[future].end()
        if failed := [future.exception() for future in waited if future.exception()]:
            raise CompileError("\n".join(dict.fromkeys(map(str, failed))))

    def _compilations(self) -> Iterator[Callable[[], None]]:
        """Steps that make the objects which are not up to date."""
        for one in self.extensions:
            for source in one.sources:
                made = self._object(one, source)
                if not made.is_current():
                    from building import inputs

                    found = inputs.of_kernels if one.name == LIBRARY else inputs.of_module
                    code = compiled(one, source)
                    made.begin([code, *(found(source) if one.name != SHARED else ())])
                    yield partial(self._compile, one, code, made)

    def _compile(self, one: Extension, code: str, made: Made) -> None:
        arguments = {"include_dirs": one.include_dirs, "extra_postargs": one.extra_compile_args}
        self.compiler.compile([code], output_dir=self.build_temp, debug=self.debug, **arguments)
        made.end()

    def _object(self, one: Extension, source: str) -> Made:
        [name] = self.compiler.object_filenames([compiled(one, source)], output_dir=self.build_temp)
        recipe = [*self.compiler.compiler_so, *one.include_dirs, *one.extra_compile_args, *self._versions]
        return Made(Path(name), Path(f"{name}.made"), recipe)

    def _link(self, one: Extension) -> None:
        output = Path(self.get_ext_fullpath(one.name))
        objects = [str(self._object(one, source).output) for source in one.sources]
        searched = {"libraries": one.libraries, "runtime_library_dirs": one.runtime_library_dirs}
        recipe = [*self.compiler.linker_so, *one.extra_link_args, json.dumps(searched), *self._versions]
        made = Made(output, Path(self.build_temp, f"{one.name}.made"), recipe)
        if not made.is_current():
            made.begin(objects)
            output.unlink(missing_ok=True)  # else setuptools keeps one that is newer than the objects
            folder = str(Path(self.get_ext_fullpath(LIBRARY)).parent)
            self.compiler.link_shared_object(
                objects,
                str(output),
                library_dirs=[folder],
                extra_postargs=one.extra_link_args,
                debug=self.debug,
                build_temp=self.build_temp,
                **searched,
            )
            made.end()

    @cached_property
    def _versions(self) -> list[str]:
        """Of the interpreter and of the compiler."""
        command = [self.compiler.compiler_so[0], "--version"]
        return [sys.version, subprocess.run(command, capture_output=True, text=True, check=True).stdout]


def translated(source: str) -> Path:
    """The C of a Cython module."""
    return CYTHON / Path(source).with_suffix(".c")


def compiled(one: Extension, source: str) -> str:
    """The C that is compiled for a source of an extension."""
    return source if one.name == LIBRARY else str(translated(source))


FOLDERS = {"build_base": str(FOLDER), "build_lib": str(FOLDER / "lib"), "build_temp": str(FOLDER / "temp")}

setup(
    ext_modules=[library(), *modules()],
    cmdclass={"build_ext": BuildCore, "build_py": BuildPython},
    options={"build": FOLDERS if VARIANT else {}},
)

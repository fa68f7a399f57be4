"""Builds the native driver into a folder: `python tests/campaign/native/build_driver.py FOLDER`, with the
flags of the core.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parents[3]
DIRECTIVES = {"language_level": 3, "wraparound": False, "cdivision": True}


def build(folder: Path) -> None:
    """Translate and compile the driver; what is up to date stays."""
    flags = runpy.run_path(str(ROOT / "csrc/flags.py"))
    extension = Extension(
        "native_driver",
        ["tests/campaign/native/native_driver.pyx"],
        include_dirs=["csrc", "python/moorage/include"],
        extra_compile_args=[*flags["FLAGS"], *flags["KERNEL_FLAGS"], "-O2"],
        extra_link_args=flags["LINK_FLAGS"],
    )
    modules = cythonize(
        [extension], include_path=["pyx"], compiler_directives=DIRECTIVES, build_dir=str(folder / "cython")
    )
    arguments = ["--quiet", "build_ext", "--build-lib", str(folder), "--build-temp", str(folder / "temp")]
    setup(name="native_driver", ext_modules=modules, script_args=arguments)


if __name__ == "__main__":
    build(Path(sys.argv[1]))

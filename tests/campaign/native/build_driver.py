"""Builds the native driver into a folder, with the flags of the core:
`python -m tests.campaign.native.build_driver FOLDER`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

from building.flags import FLAGS, INCLUDES, KERNEL_FLAGS, LINK_FLAGS

DIRECTIVES = {"language_level": 3, "wraparound": False, "cdivision": True}


def build(folder: Path) -> None:
    """Translate and compile the driver; what is up to date stays."""
    extension = Extension(
        "native_driver",
        ["tests/campaign/native/native_driver.pyx"],
        include_dirs=INCLUDES,
        extra_compile_args=[*FLAGS, *KERNEL_FLAGS, "-O2"],
        extra_link_args=LINK_FLAGS,
    )
    modules = cythonize(
        [extension], include_path=["pyx"], compiler_directives=DIRECTIVES, build_dir=str(folder / "cython")
    )
    arguments = ["--quiet", "build_ext", "--build-lib", str(folder), "--build-temp", str(folder / "temp")]
    setup(name="native_driver", ext_modules=modules, script_args=arguments)


if __name__ == "__main__":
    build(Path(sys.argv[1]))

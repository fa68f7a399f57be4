"""Compiling plugins for tests, with the compiler that Python itself was built with."""

from __future__ import annotations

import shlex
import subprocess
import sysconfig
from pathlib import Path

from tests.doors.engine import include_dir

PROBE = Path(__file__).with_name("probe.c")
STRICT = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]


def compiled(directory: Path, source: Path = PROBE, **macros: object) -> Path:
    """A shared library in `directory` of a plugin's source, with macros."""
    library = directory / f"{source.stem}.so"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    options = [*STRICT, *defined, f"-I{include_dir()}", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run([*compiler, *options], check=True)
    return library

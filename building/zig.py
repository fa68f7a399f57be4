"""Wheels for an older glibc than this machine's, and for another architecture, without a container.

Zig's linker knows the symbols of each glibc, and its clang compiles for each architecture. Objects for this
machine's own architecture are its compiler's: clang would leave out the variants of `csrc/dispatch.h`.
"""

from __future__ import annotations

import platform
import shlex
import subprocess
from pathlib import Path

GLIBC = "2.28"


def environment(python: Path, folder: Path, machine: str) -> dict[str, str]:
    """Variables with which setuptools builds for an architecture.

    Headers of the interpreter stay this machine's: both have 64 bits, and the same order of bytes.

    Parameters
    ----------
    python
        An interpreter that has the package ziglang.
    folder
        Where the program goes that setuptools calls.
    """

    def said(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{machine}-linux-gnu-gcc"  # as Debian's cross compiler, which its Python calls
    command = [str(python), "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}"]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} -fno-sanitize=undefined "$@"\n')
    program.chmod(0o755)
    # Without symbols: those of zig's own code name folders of the machine, and wheels would differ.
    linker = {"LDSHARED": f"{program} -shared -s"}
    if machine == platform.machine():
        # It chooses variants. Zig's own library does so as well, but brings its memcpy along.
        return linker | {"LDFLAGS": said("gcc", "-print-libgcc-file-name")}
    suffix = said(str(python), "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
    return linker | {
        "CC": str(program),
        "SETUPTOOLS_EXT_SUFFIX": suffix.replace(platform.machine(), machine),
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }

"""Compiler flags for the C code: the Cython modules and the cffi module."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path

# -fwrapv: int64 arithmetic wraps as in Go. -ffp-contract=off: no fused multiply-add, ever.
FLAGS = ["-std=c11", "-O3", "-g0", "-fwrapv", "-ffp-contract=off"]
# For the kernels, which see neither NaN nor infinity: no value changes, but min, max and select become
# instructions.
KERNEL_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-ffinite-math-only"]


def has_openmp() -> bool:
    """Whether the compiler can build and link OpenMP; MOORAGE_OPENMP=0 turns it off."""
    if os.environ.get("MOORAGE_OPENMP") == "0":
        return False
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <omp.h>\nint main(void) { return omp_get_num_threads() != 1; }\n")
        made = subprocess.run(
            [*compiler, "-fopenmp", str(source), "-o", str(source.with_suffix(""))],
            capture_output=True,
            check=False,
        )
    return made.returncode == 0


# Without OpenMP all kernels run in one thread.
OPENMP = ["-fopenmp"] if has_openmp() else []
KERNEL_FLAGS += OPENMP or ["-Wno-unknown-pragmas"]
LINK_FLAGS = [*OPENMP]

# For `make debug-test`: the assertions of csrc/debug.h.
IS_DEBUG = os.environ.get("MOORAGE_DEBUG") == "1"
if IS_DEBUG:
    FLAGS += ["-DMR_DEBUG", "-g"]

# For `make sanitize`: ends at the first bad access or undefined operation. -fwrapv defines signed overflow.
if os.environ.get("MOORAGE_SANITIZE") == "1":
    SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    FLAGS += [*SANITIZE, "-O1", "-g", "-fno-omit-frame-pointer"]
    LINK_FLAGS += SANITIZE

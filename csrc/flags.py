"""Compiler flags for the C code: the Cython modules and the cffi module."""

from __future__ import annotations

import os

# -fwrapv: int64 arithmetic wraps as in Go. -ffp-contract=off: no fused multiply-add, ever.
FLAGS = ["-std=c11", "-O3", "-g0", "-fwrapv", "-ffp-contract=off"]
# For the kernels, which see neither NaN nor infinity: no value changes, but min, max and select become
# instructions.
KERNEL_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-ffinite-math-only"]

# For the pool of csrc/parallel.c.
FLAGS += ["-pthread"]
LINK_FLAGS = ["-pthread"]

# For `make debug-test`: the assertions of csrc/debug.h.
IS_DEBUG = os.environ.get("MOORAGE_DEBUG") == "1"
if IS_DEBUG:
    FLAGS += ["-DMR_DEBUG", "-g"]

# For `make sanitize` and `make threads`: ends at the first bad access or undefined operation, or reports
# races of threads. -fwrapv defines signed overflow.
SANITIZERS = {
    "1": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
SANITIZE = SANITIZERS.get(os.environ.get("MOORAGE_SANITIZE", ""), [])
if SANITIZE:
    FLAGS += [*SANITIZE, "-O1", "-g", "-fno-omit-frame-pointer"]
    LINK_FLAGS += SANITIZE

# For `make coverage`: counts of executed lines. Without optimization each line has instructions of its own.
IS_COVERAGE = os.environ.get("MOORAGE_COVERAGE") == "1"
LAST_FLAGS = ["-O0"] if IS_COVERAGE else []
if IS_COVERAGE:
    FLAGS += ["--coverage", "-fprofile-update=atomic"]
    LINK_FLAGS += ["--coverage"]

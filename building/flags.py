"""Compiler flags of the C code, by module and by variant of the build.

MOORAGE_VARIANT names a variant; it has a folder of its own in build/, and is built as the ordinary one is.
"""

from __future__ import annotations

import os
from typing import NamedTuple

INCLUDES = ["csrc", "python/moorage/include"]

# The C kernels are compiled once, into a library beside the modules that call them.
LIBRARY = "moorage._core.libmoorage_kernels"
# What Cython adds to every module is compiled once as well.
SHARED = "moorage._core._cython_utility"
SHARED_SOURCE = "build/_cython_utility.c"

# -fwrapv: int64 arithmetic wraps as in Go. -ffp-contract=off: no fused multiply-add, ever. -pthread: for the
# pool of csrc/parallel.c.
FLAGS = ["-std=c11", "-O3", "-g0", "-fwrapv", "-ffp-contract=off", "-pthread"]
LINK_FLAGS = ["-pthread"]
# For the kernels, which see neither NaN nor infinity: no value changes, but min, max and select become
# instructions.
KERNEL_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-ffinite-math-only"]


class Variant(NamedTuple):
    """What a variant adds to the ordinary build."""

    flags: list[str] = []
    link_flags: list[str] = []
    last_flags: list[str] = []
    """After the level of optimization."""
    preloaded: tuple[str, ...] = ()
    """Libraries of the compiler that a process needs before Python is there."""


ADDRESSES = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
READABLE = ["-O1", "-g", "-fno-omit-frame-pointer"]
VARIANTS = {
    "": Variant(),
    # The assertions of csrc/debug.h.
    "debug": Variant(["-DMR_DEBUG", "-g"]),
    # Ends at the first bad access or undefined operation; -fwrapv defines signed overflow.
    "asan": Variant([*ADDRESSES, *READABLE], ADDRESSES, preloaded=("libasan", "libubsan")),
    # Reports races of threads.
    "tsan": Variant(["-fsanitize=thread", *READABLE], ["-fsanitize=thread"], preloaded=("libtsan",)),
    # Counts lines that ran. Without optimization each line has instructions of its own.
    "coverage": Variant(["--coverage", "-fprofile-update=atomic"], ["--coverage"], ["-O0"]),
}
VARIANT = os.environ.get("MOORAGE_VARIANT", "")
if VARIANT not in VARIANTS:
    names = ", ".join(filter(None, VARIANTS))
    raise SystemExit(f"MOORAGE_VARIANT={VARIANT}: the variants are {names}; unset it for the ordinary build")
FLAGS += VARIANTS[VARIANT].flags
LINK_FLAGS += VARIANTS[VARIANT].link_flags
LAST_FLAGS = VARIANTS[VARIANT].last_flags

# ---- levels of optimization --------------------------------------------------------------------------------

KERNELS = [*FLAGS, *KERNEL_FLAGS, *LAST_FLAGS]
# A module with loops of its own that matter, most without the GIL.
LOOPS = [*FLAGS, *KERNEL_FLAGS, *LAST_FLAGS, "-O2", *LAST_FLAGS]
# A module that hands arrays to kernels, or names their types.
CALLS = [*FLAGS, "-O1", *LAST_FLAGS]
# What calls no kernels is not in the table.
GLUE = [*CALLS]

LEVELS = {
    "moorage._core.base.sets": CALLS,
    "moorage._core.decide.class_state": LOOPS,
    "moorage._core.decide.decider": LOOPS,
    "moorage._core.decide.external": CALLS,
    "moorage._core.decide.native_plugin": LOOPS,
    "moorage._core.decide.placer": LOOPS,
    "moorage._core.decide.plan": CALLS,
    "moorage._core.decide.scored_nodes": LOOPS,
    "moorage._core.decide.search": CALLS,
    "moorage._core.decide.terms": CALLS,
    "moorage._core.preempt.budgets": CALLS,
    "moorage._core.preempt.dry_runs": CALLS,
    "moorage._core.preempt.importance": CALLS,
    "moorage._core.preempt.lower_units": CALLS,
    "moorage._core.preempt.preemptor": LOOPS,
    "moorage._core.devices.device_search": CALLS,
    "moorage._core.devices.device_view": LOOPS,
    "moorage._core.devices.gpu_shares": LOOPS,
    "moorage._core.binder.qos": CALLS,
    "moorage._core.state.domains": CALLS,
    "moorage._core.state.node_table": LOOPS,
    "moorage._core.state.pod_class": CALLS,
    "moorage._core.state.view": LOOPS,
}
"""Modules that are linked with the library of kernels, each with its flags; all others are glue."""

"""Compiler flags of everything that is built from C: the Cython modules and the cffi module."""

# -fwrapv: int64 arithmetic wraps as in Go. -ffp-contract=off: no fused multiply-add, ever.
FLAGS = ["-std=c11", "-O3", "-g0", "-fwrapv", "-ffp-contract=off"]
# For the kernels, which see neither NaN nor infinity: no value changes, but min, max and select become
# instructions.
KERNEL_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-ffinite-math-only"]

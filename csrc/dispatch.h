/* Processor dispatch.
 *
 * MR_DISPATCHED marks functions that the compiler builds three times: for any x86-64, with AVX2, with AVX-512. The
 * variant is chosen when the library is loaded. None uses fused multiply-add (-ffp-contract=off). Functions that it
 * calls must be inlined to be built for each variant as well. Defined on the command line it leaves the choice to
 * -march, for the tests of one variant. */
#ifndef MOORAGE_DISPATCH_H
#define MOORAGE_DISPATCH_H

#include <stdint.h> /* defines __GLIBC__ */

#ifndef MR_DISPATCHED
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) \
    && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Whether the processor has pdep and pext, which move bits apart and together. */
#define MR_HAS_BMI2 __builtin_cpu_supports("bmi2")
#define MR_DISPATCHED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MR_DISPATCHED
#endif
#endif
#define MR_INLINED static inline __attribute__((always_inline))

#endif

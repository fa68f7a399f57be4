/* Processor dispatch and parallel loops.
 *
 * MR_DISPATCHED marks functions that the compiler builds twice, with and without AVX2; the variant is chosen when the
 * library is loaded. Neither uses fused multiply-add (-ffp-contract=off). Functions that it calls must be inlined to be
 * built twice as well. */
#ifndef MOORAGE_DISPATCH_H
#define MOORAGE_DISPATCH_H

#include <stdint.h> /* defines __GLIBC__ */

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) \
    && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__)
/* Whether the processor has pdep and pext, which move bits apart and together. */
#define MR_HAS_BMI2 __builtin_cpu_supports("bmi2")
#define MR_DISPATCHED __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define MR_DISPATCHED
#endif
#define MR_INLINED static inline __attribute__((always_inline))

/* Calls `body(at)` for the first position `at` of each block of MR_BLOCK positions, in parallel if there are enough.
 * The variables `search` and `n` (number of positions) must be in scope. Each position is written by one thread, so
 * the result does not depend on the number of threads. */
#define MR_EACH_BLOCK(body)                                                                \
    do {                                                                                   \
        if (mr_is_parallel(search, n)) {                                                   \
            _Pragma("omp parallel for schedule(static) num_threads(search->threads)")      \
            for (int32_t at = 0; at < n; at += MR_BLOCK) body(at);                         \
        } else {                                                                           \
            for (int32_t at = 0; at < n; at += MR_BLOCK) body(at);                         \
        }                                                                                  \
    } while (0)

#endif

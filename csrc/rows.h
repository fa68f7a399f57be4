/* Rows of the node table: exact reads and writes, and the fields derived from a row alone. */
#ifndef MOORAGE_ROWS_H
#define MOORAGE_ROWS_H

#include "state.h"

#define MR_EXACT 9007199254740992.0         /* 2^53 */
#define MR_RECIPROCAL_LIMIT 4398046511104.0 /* 2^42: below it `100.0/cap` times a difference truncates exactly */

/* The exact value of a field of a row. `field` is the index among the doubles of mr_row. */
static inline int64_t mr_row_value(const mr_ledger *ledger, int32_t row, int field)
{
    const mr_row *r = &ledger->rows[row];
    if (r->flags & MR_WIDE) return ledger->wide[(int64_t)row * MR_FIELDS + field];
    return (int64_t)(&r->alloc_cpu)[field];
}

/* Pointer to allocatable and requested of a resource other than cpu and memory. */
static inline int64_t *mr_other(const mr_ledger *ledger, int32_t row, int32_t resource)
{
    return &ledger->others[resource][2 * (int64_t)row];
}

/* A sum by the rules of a ledger. */
static inline int64_t mr_sum(const mr_ledger *ledger, int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum) || !ledger->saturates) return sum;
    return a > 0 ? INT64_MAX : INT64_MIN;
}

/* Rounds to the nearest integer, half away from zero, as Go's math.Round. */
static inline int64_t mr_round(double x)
{
    int64_t whole = (int64_t)x;
    double rest = x - (double)whole;
    return whole + (rest >= 0.5) - (rest <= -0.5);
}

/* Fraction of a resource in use, at most 1. */
static inline double mr_fraction(double requested, double allocatable)
{
    double f = requested / allocatable;
    return f < 1.0 ? f : 1.0;
}

/* BalancedAllocation of two fractions (kube-scheduler v1.36, balanced_allocation.go): (1 - |f0 - f1| / 2) * 100. */
static inline int32_t mr_balance(double f0, double f1)
{
    return (int32_t)((1.0 - __builtin_fabs(f0 - f1) / 2.0) * 100.0);
}

/* mr_balance over cpu and memory of one row; a resource without capacity is left out. */
static inline int32_t mr_balance_row(double alloc_cpu, double alloc_memory, double cpu, double memory)
{
    if (alloc_cpu == 0.0 || alloc_memory == 0.0) return 100;
    return mr_balance(mr_fraction(cpu, alloc_cpu), mr_fraction(memory, alloc_memory));
}

/* Writes all fields of a row, as doubles or (MR_WIDE) int64, and the fields derived from them. */
void mr_row_set(mr_ledger *ledger, int32_t row, const int64_t *values);

/* Adds a pod (sign 1) or subtracts it (sign -1): cpu, memory, NonZeroRequested, other resources, number of pods. */
void mr_row_add_pod(mr_ledger *ledger, int32_t row, const mr_shape *shape, int32_t sign);

/* 1 if what the pods of a row request has reached the bound of 64 bits in some resource. */
int mr_row_is_saturated(const mr_ledger *ledger, int32_t row, int32_t n_others);

/* Sets what the pods of a row request to 0; their number stays. */
void mr_row_clear(mr_ledger *ledger, int32_t row, int32_t n_others);

#endif

#include "rows.h"

static int is_wide(int64_t value)
{
    return value < 0 || value > (int64_t)MR_EXACT;
}

/* Whether a sum of two numbers of at most MR_EXACT is exact, and not negative. */
static int is_narrow(double sum)
{
    return sum >= 0.0 && sum < MR_EXACT;
}

/* Writes the fields of a row that are derived from the others. */
static void refresh_derived(mr_row *r)
{
    int slow = r->flags & MR_WIDE || r->alloc_cpu <= 0.0 || r->alloc_memory <= 0.0
        || r->alloc_cpu > MR_RECIPROCAL_LIMIT || r->alloc_memory > MR_RECIPROCAL_LIMIT;
    r->flags = slow ? r->flags | MR_SLOW : r->flags & ~MR_SLOW;
    r->balanced = mr_balance_row(r->alloc_cpu, r->alloc_memory, r->req_cpu, r->req_memory);
}

void mr_row_set(mr_ledger *ledger, int32_t row, const int64_t *values)
{
    mr_row *r = &ledger->rows[row];
    int64_t *wide = &ledger->wide[(int64_t)row * MR_FIELDS];
    double *field = &r->alloc_cpu;
    int any_wide = 0;
    for (int i = 0; i < MR_FIELDS; i++) {
        any_wide |= is_wide(values[i]);
        field[i] = (double)values[i];
    }
    r->flags = any_wide ? r->flags | MR_WIDE : r->flags & ~MR_WIDE;
    for (int i = 0; i < MR_FIELDS; i++) wide[i] = any_wide ? values[i] : 0;
    refresh_derived(r);
}

static void add_wide(mr_ledger *ledger, int32_t row, const mr_shape *shape, int32_t sign)
{
    int64_t values[MR_FIELDS];
    for (int i = 0; i < MR_FIELDS; i++) values[i] = mr_row_value(ledger, row, i);
    values[2] += sign * shape->cpu;
    values[3] += sign * shape->memory;
    values[4] += sign * shape->nonzero_cpu;
    values[5] += sign * shape->nonzero_memory;
    mr_row_set(ledger, row, values);
}

void mr_row_add_pod(mr_ledger *ledger, int32_t row, const mr_shape *shape, int32_t sign)
{
    mr_row *r = &ledger->rows[row];
    const double cpu = r->req_cpu + (double)(sign * shape->cpu), memory = r->req_memory + (double)(sign * shape->memory);
    const double nonzero_cpu = r->nonzero_cpu + (double)(sign * shape->nonzero_cpu);
    const double nonzero_memory = r->nonzero_memory + (double)(sign * shape->nonzero_memory);
    if (!(r->flags & MR_WIDE) && !(shape->flags & MR_SHAPE_WIDE) && is_narrow(cpu) && is_narrow(memory)
        && is_narrow(nonzero_cpu) && is_narrow(nonzero_memory)) {
        r->req_cpu = cpu;
        r->req_memory = memory;
        r->nonzero_cpu = nonzero_cpu;
        r->nonzero_memory = nonzero_memory;
        r->balanced = mr_balance_row(r->alloc_cpu, r->alloc_memory, cpu, memory);
    } else {
        add_wide(ledger, row, shape, sign);
    }
    for (int32_t i = 0; i < shape->n_others; i++)
        mr_other(ledger, row, shape->others[i].resource)[1] += sign * shape->others[i].value;
    r->pods += sign;
}

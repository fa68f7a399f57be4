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
    const int64_t amounts[] = {shape->cpu, shape->memory, shape->nonzero_cpu, shape->nonzero_memory};
    for (int i = 0; i < MR_FIELDS - 2; i++) values[2 + i] = mr_sum(ledger, values[2 + i], sign * amounts[i]);
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
    for (int32_t i = 0; i < shape->n_others; i++) {
        int64_t *used = mr_other(ledger, row, shape->others[i].resource) + 1;
        *used = mr_sum(ledger, *used, sign * shape->others[i].value);
    }
    r->pods += sign;
}

int mr_row_is_saturated(const mr_ledger *ledger, int32_t row, int32_t n_others)
{
    for (int i = 2; i < MR_FIELDS; i++)
        if (mr_row_value(ledger, row, i) == INT64_MAX) return 1;
    for (int32_t i = 0; i < n_others; i++)
        if (mr_other(ledger, row, i)[1] == INT64_MAX) return 1;
    return 0;
}

void mr_row_clear(mr_ledger *ledger, int32_t row, int32_t n_others)
{
    const int64_t values[MR_FIELDS] = {mr_row_value(ledger, row, 0), mr_row_value(ledger, row, 1)};
    mr_row_set(ledger, row, values);
    for (int32_t i = 0; i < n_others; i++) mr_other(ledger, row, i)[1] = 0;
}

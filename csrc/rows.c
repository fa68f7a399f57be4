#include "rows.h"

static int beyond_exact(int64_t value)
{
    return value > (int64_t)MR_EXACT || value < -(int64_t)MR_EXACT;
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
    int is_wide = 0;
    for (int i = 0; i < MR_FIELDS; i++) {
        is_wide |= beyond_exact(values[i]);
        field[i] = (double)values[i];
    }
    r->flags = is_wide ? r->flags | MR_WIDE : r->flags & ~MR_WIDE;
    for (int i = 0; i < MR_FIELDS; i++) wide[i] = is_wide ? values[i] : 0;
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
    const double limit = MR_EXACT / 2;
    int narrow = !(r->flags & MR_WIDE) && !(shape->flags & MR_SHAPE_WIDE) && r->req_cpu < limit
        && r->req_memory < limit && r->nonzero_cpu < limit && r->nonzero_memory < limit;
    if (narrow && shape->memory < (int64_t)limit && shape->nonzero_memory < (int64_t)limit
        && shape->cpu < (int64_t)limit && shape->nonzero_cpu < (int64_t)limit) {
        r->req_cpu += (double)(sign * shape->cpu);
        r->req_memory += (double)(sign * shape->memory);
        r->nonzero_cpu += (double)(sign * shape->nonzero_cpu);
        r->nonzero_memory += (double)(sign * shape->nonzero_memory);
        r->balanced = mr_balance_row(r->alloc_cpu, r->alloc_memory, r->req_cpu, r->req_memory);
    } else {
        add_wide(ledger, row, shape, sign);
    }
    for (int32_t i = 0; i < shape->n_others; i++)
        mr_other(ledger, row, shape->others[i].resource)[1] += sign * shape->others[i].value;
    r->pods += sign;
}

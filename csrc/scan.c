#include "scan.h"

#include <stddef.h>

#define MR_ANYTHING 1e300
#define MR_MAX_FUSED_WEIGHT 1000000

void mr_columns_set(mr_columns *c, int32_t p, const mr_ledger *ledger, const int32_t *taint_set, int32_t row)
{
    const mr_row *r = &ledger->rows[row];
    int slow = (r->flags & MR_SLOW) != 0;
    int32_t fixed = taint_set[row] * 2 + ((r->flags & MR_UNSCHEDULABLE) != 0);
    /* A slow row goes to the general kernel; here it only must not divide by zero. */
    c->alloc_cpu[p] = slow ? 1.0 : r->alloc_cpu;
    c->alloc_memory[p] = slow ? 1.0 : r->alloc_memory;
    c->used_cpu[p] = slow ? 0.0 : r->req_cpu;
    c->used_memory[p] = slow ? 0.0 : r->req_memory;
    c->free_cpu[p] = r->alloc_cpu - r->req_cpu;
    c->free_memory[p] = r->alloc_memory - r->req_memory;
    c->nonzero_free_cpu[p] = r->alloc_cpu - r->nonzero_cpu;
    c->nonzero_free_memory[p] = r->alloc_memory - r->nonzero_memory;
    c->per_cpu[p] = slow ? 0.0 : 100.0 / r->alloc_cpu;
    c->per_memory[p] = slow ? 0.0 : 100.0 / r->alloc_memory;
    c->balanced[p] = r->balanced;
    c->slots[p] = r->pods < r->pods_max ? r->pods_max - r->pods : 0;
    c->n_slow += slow - c->slow[p];
    c->slow[p] = (uint8_t)slow;
    c->n_fixed += (fixed != 0) - (c->fixed[p] != 0);
    c->fixed[p] = fixed;
}

static int64_t weight_of(const mr_plan *plan, int32_t kernel)
{
    int64_t weight = 0;
    for (int32_t i = 0; i < plan->n_scores; i++)
        if (plan->scores[i] == kernel) weight += plan->weights[i];
    return weight;
}

static int filters(const mr_plan *plan, int32_t kernel)
{
    for (int32_t i = 0; i < plan->n_filters; i++)
        if (plan->filters[i] == kernel) return 1;
    return 0;
}

static int is_cpu_and_memory(const mr_weighted *list, int32_t n)
{
    return n == 2 && list[0].resource == MR_CPU && list[1].resource == MR_MEMORY && list[0].weight == list[1].weight
        && list[0].weight == 1;
}

/* Totals of the fused kernel are 32 bits wide, and 0 is kept for infeasible lanes. */
static int fits_fused(const mr_plan *plan, int32_t kernel)
{
    int64_t weight = weight_of(plan, kernel);
    return weight >= 0 && weight <= MR_MAX_FUSED_WEIGHT;
}

int mr_is_fused(const mr_search *search)
{
    const mr_plan *plan = search->plan;
    const mr_shape *s = search->shape;
    const int64_t limit = (int64_t)MR_RECIPROCAL_LIMIT;
    if (!fits_fused(plan, MR_NODE_RESOURCES_FIT) || !fits_fused(plan, MR_BALANCED_ALLOCATION)
        || !fits_fused(plan, MR_IMAGE_LOCALITY))
        return 0;
    if (s->cpu > limit || s->memory > limit || s->score_cpu > limit || s->score_memory > limit) return 0;
    return search->columns && plan->fit_strategy == MR_LEAST_ALLOCATED
        && filters(plan, MR_NODE_UNSCHEDULABLE) && filters(plan, MR_TAINT_TOLERATION)
        && filters(plan, MR_NODE_RESOURCES_FIT) && is_cpu_and_memory(plan->fit, plan->n_fit)
        && is_cpu_and_memory(plan->balanced, plan->n_balanced);
}

/* The filters that ask for more than the columns show, as far as the pod gives them reason to. */
static int32_t other_filters(const mr_search *search, int32_t *kernels)
{
    const mr_shape *s = search->shape;
    const mr_terms *t = search->pod.terms;
    int32_t n = 0;
    for (int32_t i = 0; i < search->plan->n_filters; i++) {
        int32_t kernel = search->plan->filters[i];
        int asks = (kernel == MR_NODE_NAME && search->pod.node_name)
            || (kernel == MR_NODE_AFFINITY
                && (s->selector.count || s->flags & MR_SHAPE_REQUIRED || search->plan->added))
            || (kernel == MR_NODE_PORTS && s->n_ports) || (kernel == MR_NODE_RESOURCES_FIT && s->n_others)
            || (kernel == MR_POD_TOPOLOGY_SPREAD && t && t->n_hard)
            || (kernel == MR_INTER_POD_AFFINITY && t && (t->n_affinity || t->n_anti || t->n_existing));
        if (asks) kernels[n++] = kernel;
    }
    return n;
}

void mr_local_read(mr_local *local, const mr_search *search)
{
    const mr_shape *s = search->shape;
    const mr_plan *plan = search->plan;
    /* A request of nothing fits however overcommitted the row is. */
    local->need_cpu = s->cpu > 0 ? (double)s->cpu : -MR_ANYTHING;
    local->need_memory = s->memory > 0 ? (double)s->memory : -MR_ANYTHING;
    local->cpu = (double)s->cpu;
    local->memory = (double)s->memory;
    local->score_cpu = (double)s->score_cpu;
    local->score_memory = (double)s->score_memory;
    local->fused = mr_is_fused(search);
    local->difference = plan->balanced_difference;
    local->fit = (int32_t)weight_of(plan, MR_NODE_RESOURCES_FIT);
    local->balanced = s->flags & MR_SHAPE_BEST_EFFORT ? 0 : (int32_t)weight_of(plan, MR_BALANCED_ALLOCATION);
    local->images = search->has_images ? (int32_t)weight_of(plan, MR_IMAGE_LOCALITY) : 0;
    local->n_asked = other_filters(search, local->asked);
}

/* LeastAllocated of one resource: exact truncation of (capacity - requested) * 100 / capacity for capacities up to
 * 2^42, see ARCHITECTURE.md "Arithmetic". */
MR_INLINED int32_t least(double free, double request, double per)
{
    double x = free - request;
    x = x > 0.0 ? x : 0.0;
    return (int32_t)(x * per + 0x1p-44);
}

/* BalancedAllocation where it can differ. */
MR_INLINED int32_t balanced(const mr_local *l, double used_cpu, double used_memory, double alloc_cpu,
                            double alloc_memory, int32_t before)
{
    int32_t score = mr_balance(mr_fraction(used_cpu + l->cpu, alloc_cpu),
                               mr_fraction(used_memory + l->memory, alloc_memory));
    return l->difference ? 50 + ((50 + score - before) >> 1) : score;
}

MR_INLINED void fused_scores(const mr_columns *c, const mr_local *l, int32_t first, int32_t n, int32_t *restrict out)
{
    const double *restrict zero_cpu = c->nonzero_free_cpu + first, *restrict per_cpu = c->per_cpu + first;
    const double *restrict zero_memory = c->nonzero_free_memory + first, *restrict per_memory = c->per_memory + first;
    const double *restrict alloc_cpu = c->alloc_cpu + first, *restrict alloc_memory = c->alloc_memory + first;
    const double *restrict used_cpu = c->used_cpu + first, *restrict used_memory = c->used_memory + first;
    const int32_t *restrict before = c->balanced + first;
    const mr_local local = *l;
    const double cpu = local.score_cpu, memory = local.score_memory;
    const int32_t fit = local.fit, level = local.balanced;
    /* A weight of 1 is the common one, and SSE2 has no 32-bit product: the compiler splits the loops on it. */
    for (int32_t i = 0; i < n; i++) {
        int32_t score = (least(zero_cpu[i], cpu, per_cpu[i]) + least(zero_memory[i], memory, per_memory[i])) >> 1;
        out[i] = 1 + (fit == 1 ? score : fit * score);
    }
    if (level == 0) return;
    for (int32_t i = 0; i < n; i++) {
        int32_t score = balanced(&local, used_cpu[i], used_memory[i], alloc_cpu[i], alloc_memory[i], before[i]);
        out[i] += level == 1 ? score : level * score;
    }
}

MR_INLINED void fused_fit(const mr_columns *c, const mr_local *l, const int8_t *fixed_ok, int32_t first, int32_t n,
                          int32_t *restrict out)
{
    const double *restrict free_cpu = c->free_cpu + first, *restrict free_memory = c->free_memory + first;
    const int32_t *restrict slots = c->slots + first, *restrict fixed = c->fixed + first;
    const double cpu = l->need_cpu, memory = l->need_memory;
    for (int32_t i = 0; i < n; i++) {
        int32_t fits = (cpu <= free_cpu[i]) & (memory <= free_memory[i]) & (slots[i] > 0);
        out[i] &= -fits;
    }
    if (fixed_ok && c->n_fixed)
        for (int32_t i = 0; i < n; i++) out[i] &= -(int32_t)fixed_ok[fixed[i]];
}

MR_DISPATCHED void mr_fused_columns(const mr_columns *columns, const mr_local *local, const int8_t *fixed_ok,
                                    int32_t first, int32_t n, int32_t *out)
{
    fused_scores(columns, local, first, n, out);
    fused_fit(columns, local, fixed_ok, first, n, out);
}

/* Sum of the weighted scores that do not depend on other nodes. */
static int64_t local_total(const mr_search *search, int32_t row)
{
    const mr_plan *plan = search->plan;
    int64_t total = 0;
    for (int32_t i = 0; i < plan->n_scores; i++) {
        int32_t kernel = plan->scores[i];
        if (kernel >= MR_EXTERNAL || mr_is_normalized(kernel)) continue;
        if (!mr_scores(kernel, plan, search->shape, &search->pod)) continue;
        if (kernel == MR_IMAGE_LOCALITY && !search->has_images) continue;
        total += plan->weights[i] * mr_score(kernel, plan, search->cluster, search->shape, &search->pod, row);
    }
    return total;
}

static int64_t exact_lane(const mr_search *search, int32_t row)
{
    return mr_verdict(search->plan, search->cluster, search->shape, &search->pod, row) ? 0
                                                                                       : 1 + local_total(search, row);
}

/* What the columns do not show, of a row that they let pass. */
MR_INLINED int32_t remaining(const mr_search *search, const mr_local *l, int32_t row, int32_t total)
{
    for (int32_t k = 0; k < l->n_asked; k++)
        if (mr_filter(l->asked[k], search->plan, search->cluster, search->shape, &search->pod, row)) return 0;
    if (l->images) total += l->images * (int32_t)mr_image_locality(search->cluster, search->shape, row);
    return total;
}

int64_t mr_local_lane(const mr_search *search, const mr_local *l, int32_t row)
{
    const mr_row *r = &search->cluster->ledger.rows[row];
    const int8_t *ok = search->fixed_ok;
    if (!l->fused || r->flags & MR_SLOW) return exact_lane(search, row);
    if (l->need_cpu > r->alloc_cpu - r->req_cpu || l->need_memory > r->alloc_memory - r->req_memory
        || r->pods >= r->pods_max) return 0;
    if (ok && !ok[search->cluster->taint_set[row] * 2 + ((r->flags & MR_UNSCHEDULABLE) != 0)]) return 0;
    /* Quotients, not the reciprocals of the columns: as exact up to 2^46, and no memory to read. */
    double cpu = r->alloc_cpu - r->nonzero_cpu - l->score_cpu, memory = r->alloc_memory - r->nonzero_memory
        - l->score_memory;
    int32_t score = (int32_t)((cpu > 0.0 ? cpu : 0.0) * 100.0 / r->alloc_cpu)
        + (int32_t)((memory > 0.0 ? memory : 0.0) * 100.0 / r->alloc_memory);
    int32_t total = 1 + l->fit * (score >> 1);
    if (l->balanced)
        total += l->balanced
            * balanced(l, r->req_cpu, r->req_memory, r->alloc_cpu, r->alloc_memory, r->balanced);
    return l->n_asked || l->images ? remaining(search, l, row, total) : total;
}

static int32_t in_lane(int64_t total)
{
    return total >= 0 && total <= MR_LANE_LIMIT ? (int32_t)total : -1;
}

void mr_fused_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    const uint8_t *slow = search->columns->slow + first;
    mr_fused_columns(search->columns, local, search->fixed_ok, first, n, out);
    if (local->n_asked || local->images)
        for (int32_t i = 0; i < n; i++)
            if (out[i] && !slow[i]) out[i] = remaining(search, local, search->order[first + i], out[i]);
    if (search->columns->n_slow)
        for (int32_t i = 0; i < n; i++)
            if (slow[i]) out[i] = (int32_t)exact_lane(search, search->order[first + i]);
}

static void local_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    if (local->fused && !search->columns->n_slow) {
        mr_fused_block(search, local, first, n, out);
        return;
    }
    for (int32_t i = 0; i < n; i++) out[i] = in_lane(mr_local_lane(search, local, search->order[first + i]));
}

/* Blocks side by side where that pays; each lane is written by one thread, so nothing depends on their number. */
#define MR_EACH_BLOCK(search, n, block)                                                                              \
    _Pragma("omp parallel for schedule(static) num_threads((search)->threads) if (is_parallel((search), (n)))")      \
    for (int32_t block = 0; block < (n); block += MR_BLOCK)

static int is_parallel(const mr_search *search, int32_t n)
{
    return search->threads > 1 && n >= search->parallel_from;
}

int mr_local_lanes(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    MR_EACH_BLOCK(search, n, at)
        local_block(search, local, first + at, n - at < MR_BLOCK ? n - at : MR_BLOCK, out + at);
    return is_parallel(search, n);
}

static void general_block(const mr_search *search, int32_t first, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = mr_verdict(search->plan, search->cluster, search->shape, &search->pod, search->order[first + i]) == 0;
}

static void search_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    if (local->fused) mr_fused_block(search, local, first, n, out);
    else general_block(search, first, n, out);
}

int mr_external_filter(const mr_search *search, int32_t filter, const int32_t *rows, int32_t n, uint64_t *verdicts)
{
    const int32_t number = search->plan->filters[filter] - MR_EXTERNAL;
    const mr_external *plugin = &search->plan->externals[number];
    int32_t asked[MR_CALL], lanes[MR_CALL], count = 0;
    uint8_t codes[MR_CALL];
    for (int32_t i = 0; i < n; i++)
        if (!verdicts[i]) {
            lanes[count] = i;
            asked[count++] = rows[i];
        }
    if (!count) return 0;
    if (plugin->filter(plugin->context, search->views[number], asked, count, codes)) return 1;
    for (int32_t i = 0; i < count; i++)
        if (codes[i])
            verdicts[lanes[i]] = (uint64_t)(filter + 1) << MR_VERDICT_SHIFT | (codes[i] == 3 ? MR_UNRESOLVABLE : 0) | 1;
    return 0;
}

int mr_verdicts(const mr_search *search, const int32_t *rows, int32_t n, uint64_t *verdicts)
{
    const mr_plan *plan = search->plan;
    for (int32_t i = 0; i < n; i++) verdicts[i] = 0;
    for (int32_t f = 0; f < plan->n_filters; f++) {
        if (plan->filters[f] >= MR_EXTERNAL) {
            if (mr_external_filter(search, f, rows, n, verdicts)) return 1;
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            if (verdicts[i]) continue;
            uint64_t reasons = mr_filter(plan->filters[f], plan, search->cluster, search->shape, &search->pod, rows[i]);
            if (reasons) verdicts[i] = (uint64_t)(f + 1) << MR_VERDICT_SHIFT | reasons;
        }
    }
    return 0;
}

/* Lets the filters that are no kernels look at the lanes that the kernels have passed. */
static int external_lanes(const mr_search *search, int32_t first, int32_t n, int32_t *out)
{
    uint64_t verdicts[MR_CALL];
    for (int32_t i = 0; i < n; i++) verdicts[i] = !out[i];
    for (int32_t f = 0; f < search->plan->n_filters; f++)
        if (search->plan->filters[f] >= MR_EXTERNAL
            && mr_external_filter(search, f, search->order + first, n, verdicts)) return 1;
    for (int32_t i = 0; i < n; i++)
        if (verdicts[i]) out[i] = 0;
    return 0;
}

/* A nominated node may be full once the pods nominated to it are there. */
static void nominated_lanes(const mr_search *search, int32_t first, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < search->n_nominated; i++) {
        int32_t lane = search->nominated[i].position - first;
        if (lane >= 0 && lane < n && search->nominated[i].verdict) out[lane] = 0;
    }
}

static int has_external(const int32_t *plugins, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (plugins[i] >= MR_EXTERNAL) return 1;
    return 0;
}

int mr_has_external_filters(const mr_plan *plan)
{
    return has_external(plan->filters, plan->n_filters);
}

int mr_has_external_scores(const mr_plan *plan)
{
    return has_external(plan->scores, plan->n_scores);
}

int mr_is_common(const mr_search *search, int32_t kernel)
{
    return kernel == MR_TAINT_TOLERATION && search->taints_alike;
}

/* What the plugins add that judge all rows alike. */
static int64_t common_constant(const mr_search *search)
{
    const mr_plan *plan = search->plan;
    int64_t sum = 0;
    for (int32_t k = 0; k < plan->n_scores; k++)
        if (mr_is_common(search, plan->scores[k])) sum += plan->weights[k] * mr_constant(plan->scores[k], 0, 0, 0);
    return sum;
}

void mr_score_rows(const mr_search *search, int32_t kernel, const int32_t *rows, int32_t n, int64_t *raw, uint8_t *seen)
{
    if (kernel == MR_POD_TOPOLOGY_SPREAD) mr_spread_weigh(search->pod.terms, rows, NULL, n, seen);
    for (int32_t i = 0; i < n; i++)
        raw[i] = mr_score(kernel, search->plan, search->cluster, search->shape, &search->pod, rows[i]);
}

/* Adds the normalized plugins' constants, by each row's bucket. */
static void add_constants(const mr_search *search, mr_found *found)
{
    const mr_plan *plan = search->plan;
    for (int32_t k = 0; k < plan->n_scores; k++) {
        int32_t kernel = plan->scores[k];
        if (kernel >= MR_EXTERNAL || !mr_is_normalized(kernel) || mr_is_common(search, kernel)) continue;
        if (!mr_scores(kernel, plan, search->shape, &search->pod)) continue;
        mr_score_rows(search, kernel, found->rows, found->feasible, found->scores, found->seen);
        mr_normalize(kernel, &search->pod, found->rows, found->scores, found->feasible);
        for (int32_t i = 0; i < found->feasible; i++) found->totals[i] += plan->weights[k] * found->scores[i];
    }
}

/* Adds the scores of plugins that are no kernels. */
static int add_externals(const mr_search *search, mr_found *found)
{
    const mr_plan *plan = search->plan;
    for (int32_t k = 0; k < plan->n_scores; k++) {
        if (plan->scores[k] < MR_EXTERNAL) continue;
        const int32_t number = plan->scores[k] - MR_EXTERNAL;
        const mr_external *plugin = &plan->externals[number];
        if (plugin->score(plugin->context, search->views[number], found->rows, found->feasible, found->scores)) return 1;
        for (int32_t i = 0; i < found->feasible; i++) found->totals[i] += plan->weights[k] * found->scores[i];
    }
    return 0;
}

/* Appends the feasible lanes of a block, at most up to `wanted`; answers how many lanes were looked at. */
static int32_t collect(const int32_t *block, int32_t first, int32_t n, int32_t wanted, int64_t constant,
                       mr_found *found)
{
    int32_t feasible = found->feasible, i = 0;
    int32_t *positions = found->positions;
    int64_t *totals = found->totals;
    for (int32_t sure = wanted - feasible < n ? wanted - feasible : n; i < sure; i++) {
        positions[feasible] = first + i;
        totals[feasible] = block[i] - 1 + constant;
        feasible += block[i] != 0;
    }
    for (; i < n; i++) {
        if (!block[i]) continue;
        if (feasible == wanted) break;
        positions[feasible] = first + i;
        totals[feasible++] = block[i] - 1 + constant;
    }
    found->feasible = feasible;
    return i;
}

/* 1 where a score is still to be asked about the feasible rows. */
static int reads_rows(const mr_search *search, int fused)
{
    const mr_plan *plan = search->plan;
    for (int32_t k = 0; k < plan->n_scores; k++) {
        int32_t kernel = plan->scores[k];
        if (kernel >= MR_EXTERNAL) return 1;
        if (mr_is_normalized(kernel) && !mr_is_common(search, kernel)
            && mr_scores(kernel, plan, search->shape, &search->pod)) return 1;
    }
    return !fused;
}

/* Scores what was found; the fused kernel has already written its totals. */
static int score_found(const mr_search *search, int fused, int64_t constant, mr_found *found)
{
    if (reads_rows(search, fused))
        for (int32_t i = 0; i < found->feasible; i++) found->rows[i] = search->order[found->positions[i]];
    if (!fused)
        for (int32_t i = 0; i < found->feasible; i++)
            found->totals[i] = constant + local_total(search, found->rows[i]);
    add_constants(search, found);
    return add_externals(search, found);
}

/* The lanes of a piece of the list, nominated pods considered; 1 where a plugin failed. */
static int search_lanes(const mr_search *search, const mr_local *local, int external, int32_t first, int32_t n,
                        int32_t *out)
{
    MR_EACH_BLOCK(search, n, at)
        search_block(search, local, first + at, n - at < MR_BLOCK ? n - at : MR_BLOCK, out + at);
    if (search->n_nominated) nominated_lanes(search, first, n, out);
    return external && external_lanes(search, first, n, out);
}

int mr_search_run(const mr_search *search, int32_t start, int32_t wanted, mr_found *found)
{
    int32_t block[MR_CALL], *lanes = block, n = search->n, seen = 0, failed = 0;
    int external = mr_has_external_filters(search->plan);
    int64_t constant = common_constant(search);
    mr_local local;
    mr_local_read(&local, search);
    /* A block as large as may be needed, where each costs a call or is for several threads. */
    int32_t step = !external || wanted < MR_BLOCK ? MR_BLOCK : wanted < MR_CALL ? wanted + 1 : MR_CALL;
    if (!external && is_parallel(search, wanted < n ? wanted : n)) {
        step = wanted < n ? wanted + 1 : n;
        lanes = found->lanes;
        found->parallel++;
    }
    found->feasible = 0;
    while (seen < n && !failed) {
        int32_t first = start + seen < n ? start + seen : start + seen - n;
        int32_t room = first < start ? start - first : n - first;
        int32_t size = room < step ? room : step;
        failed = search_lanes(search, &local, external, first, size, lanes);
        int32_t looked_at = failed ? 0 : collect(lanes, first, size, wanted, constant, found);
        seen += looked_at;
        if (looked_at < size) break;
    }
    found->evaluated = seen;
    if (failed || found->feasible < 2) return failed; /* a single node is not scored */
    return score_found(search, local.fused, constant, found);
}

int32_t mr_pick_first(const int64_t *totals, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (totals[i] > totals[best]) best = i;
    return best;
}

/* The root after Go's heap.Init on totals alone: of the tied maxima, the one that comes first in preorder. */
int32_t mr_pick_heap(const int64_t *totals, int32_t n)
{
    int64_t max = totals[0];
    for (int32_t i = 1; i < n; i++) max = totals[i] > max ? totals[i] : max;
    uint32_t best_key = UINT32_MAX;
    int32_t best = 0;
    for (int32_t i = 0; i < n; i++) {
        if (totals[i] != max) continue;
        uint32_t key = mr_heap_key(i);
        if (best_key == UINT32_MAX || key < best_key) {
            best_key = key;
            best = i;
        }
    }
    return best;
}

/* splitmix64: small, seeded, the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Uniform among the tied maxima, as selectHost up to v1.34 (not its generator). */
int32_t mr_pick_random(const int64_t *totals, int32_t n, uint64_t *state)
{
    int64_t max = totals[0];
    uint64_t ties = 0;
    for (int32_t i = 0; i < n; i++) {
        if (totals[i] > max) {
            max = totals[i];
            ties = 0;
        }
        ties += totals[i] == max;
    }
    uint64_t chosen = ties > 1 ? (uint64_t)(((unsigned __int128)next_random(state) * ties) >> 64) : 0;
    for (int32_t i = 0; i < n; i++)
        if (totals[i] == max && chosen-- == 0) return i;
    return 0;
}

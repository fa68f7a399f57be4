#include "scan.h"

#include <stddef.h>

static void search_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    if (local->fused) {
        mr_fused_block(search, local, first, n, out);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        out[i] = !mr_verdict(search->plan, search->cluster, search->shape, &search->pod, search->order[first + i]);
}

/* Calls the filter with an index in the plan, which is not a kernel, for those of n <= MR_CALL rows whose verdict is 0,
 * and writes the verdicts of rejected rows. Returns what the plugin returns if it failed. */
static int external_filter(const mr_search *search, int32_t filter, const int32_t *rows, int32_t n, uint64_t *verdicts)
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
    const int failed = plugin->filter(plugin->context, search->views[number], asked, count, codes);
    if (failed) return failed;
    for (int32_t i = 0; i < count; i++)
        if (codes[i])
            verdicts[lanes[i]] = (uint64_t)(filter + 1) << MR_VERDICT_SHIFT | (codes[i] == 3 ? MR_UNRESOLVABLE : 0) | 1;
    return 0;
}

int mr_verdicts(const mr_search *search, uint64_t asked, const int32_t *rows, int32_t n, uint64_t *verdicts)
{
    const mr_plan *plan = search->plan;
    for (int32_t i = 0; i < n; i++) verdicts[i] = 0;
    for (int32_t f = 0; f < plan->n_filters; f++) {
        if (!(asked >> f & 1)) continue;
        if (plan->filters[f] >= MR_EXTERNAL) {
            if (external_filter(search, f, rows, n, verdicts)) return 1;
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

/* Calls the filters that are not kernels for the feasible lanes. Returns what one returns that failed. */
static int external_lanes(const mr_search *search, int32_t first, int32_t n, int32_t *out)
{
    uint64_t verdicts[MR_CALL];
    for (int32_t i = 0; i < n; i++) verdicts[i] = !out[i];
    for (int32_t f = 0, failed; f < search->plan->n_filters; f++)
        if (search->plan->filters[f] >= MR_EXTERNAL
            && (failed = external_filter(search, f, search->order + first, n, verdicts)) != 0) return failed;
    for (int32_t i = 0; i < n; i++)
        if (verdicts[i]) out[i] = 0;
    return 0;
}

void mr_nominated_lanes(const mr_search *search, int32_t first, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < n; i++)
        if (search->nominated[search->order[first + i]]) out[i] = 0;
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

/* The sum of the weighted scores of normalized plugins that give all rows the same score. */
static int64_t common_constant(const mr_search *search)
{
    const mr_plan *plan = search->plan;
    int64_t sum = 0;
    for (int32_t k = 0; k < plan->n_scores; k++)
        if (mr_is_common(search, plan->scores[k])) sum += plan->weights[k] * mr_constant(plan->scores[k], 0, 0, 0);
    return sum;
}

typedef struct {
    const mr_search *search;
    int32_t kernel;
    const int32_t *rows;
    int64_t *raw;
} score_loop;

static void score_block(const void *loop, int32_t first, int32_t n)
{
    const score_loop *l = loop;
    const mr_search *search = l->search;
    for (int32_t i = first; i < first + n; i++)
        l->raw[i] = mr_score(l->kernel, search->plan, search->cluster, search->shape, &search->pod, l->rows[i]);
}

void mr_score_rows(const mr_search *search, int32_t kernel, const int32_t *rows, int32_t n, int64_t *raw, uint8_t *seen)
{
    const score_loop loop = {search, kernel, rows, raw};
    if (kernel == MR_POD_TOPOLOGY_SPREAD) mr_spread_weigh(search->pod.terms, rows, NULL, n, seen);
    mr_each_block(search, mr_is_parallel(search, n), n, score_block, &loop);
}

/* Adds the weighted scores of the normalized plugins. Returns 1 if a score is not in 0..100. */
static int add_constants(const mr_search *search, mr_found *found)
{
    const mr_plan *plan = search->plan;
    int invalid = 0;
    for (int32_t k = 0; k < plan->n_scores; k++) {
        int32_t kernel = plan->scores[k];
        if (kernel >= MR_EXTERNAL || !mr_is_normalized(kernel) || mr_is_common(search, kernel)) continue;
        if (!mr_scores(kernel, plan, search->shape, &search->pod)) continue;
        mr_score_rows(search, kernel, found->rows, found->feasible, found->scores, found->seen);
        mr_normalize(kernel, &search->pod, found->rows, found->scores, found->feasible);
        for (int32_t i = 0; i < found->feasible; i++) {
            invalid |= found->scores[i] < 0 || found->scores[i] > 100;
            found->totals[i] += plan->weights[k] * found->scores[i];
        }
    }
    return invalid;
}

/* Adds the scores of plugins that are not kernels. */
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

/* Appends the feasible lanes of a block, up to `wanted`; returns the number of evaluated lanes. */
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

/* 1 if the feasible rows must be scored by a plugin. */
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

int mr_search_score(const mr_search *search, mr_found *found)
{
    const int64_t constant = common_constant(search);
    int invalid = 0;
    for (int32_t i = 0; i < found->feasible; i++) {
        const int64_t total = mr_local_total(search, found->rows[i]);
        invalid |= total == MR_INVALID;
        found->totals[i] = constant + total;
    }
    invalid |= add_constants(search, found);
    return add_externals(search, found) || invalid;
}

/* Scores the feasible rows; the fused kernel has already written its totals. */
static int score_found(const mr_search *search, int fused, mr_found *found)
{
    const int64_t constant = common_constant(search);
    int invalid = 0;
    if (fused && search->columns->n_slow) /* all other totals that are fused are at least the constant */
        for (int32_t i = 0; i < found->feasible; i++) invalid |= found->totals[i] < constant;
    if (invalid || reads_rows(search, fused))
        for (int32_t i = 0; i < found->feasible; i++) found->rows[i] = search->order[found->positions[i]];
    if (!fused) return mr_search_score(search, found);
    invalid |= add_constants(search, found);
    return add_externals(search, found) || invalid;
}

typedef struct {
    const mr_search *search;
    const mr_local *local;
    int32_t first; /* the first position */
    int32_t *out;
} search_loop;

static void search_blocks(const void *loop, int32_t first, int32_t n)
{
    const search_loop *l = loop;
    search_block(l->search, l->local, l->first + first, n, l->out + first);
}

/* Evaluates lanes of the list, with nominated pods; returns what a plugin returns that failed. */
static int search_lanes(const mr_search *search, const mr_local *local, int external, int32_t first, int32_t n,
                        int32_t *out)
{
    const search_loop loop = {search, local, first, out};
    mr_each_block(search, mr_scan_is_parallel(search, n), n, search_blocks, &loop);
    if (search->nominated) mr_nominated_lanes(search, first, n, out);
    return external ? external_lanes(search, first, n, out) : 0;
}

int mr_search_find(const mr_search *search, int32_t start, int32_t wanted, mr_found *found)
{
    int32_t block[MR_CALL], *lanes = block, n = search->n, seen = 0, failed = 0;
    int32_t suspect = n + 1; /* the number of rows up to the end of a block for which a plugin failed */
    if (n) MR_DEBUG_BELOW(start, n, "first position of a search");
    int external = mr_has_external_filters(search->plan);
    int64_t constant = common_constant(search);
    mr_local local;
    mr_local_read(&local, search);
    /* Blocks are as large as needed if each one costs a call of a plugin or is for several threads. */
    int32_t step = !external || wanted < MR_BLOCK ? MR_BLOCK : wanted < MR_CALL ? wanted + 1 : MR_CALL;
    if (!external && mr_scan_is_parallel(search, wanted < n ? wanted : n)) {
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
        if (failed == MR_FAILED && size > 1) { /* find the row, one after the other */
            suspect = seen + size;
            step = 1;
            failed = 0;
            continue;
        }
        int32_t looked_at = failed ? 0 : collect(lanes, first, size, wanted, constant, found);
        seen += looked_at;
        failed = failed || seen == suspect; /* it fails for no row alone */
        if (looked_at < size) break;
    }
    found->evaluated = seen;
    return failed != 0;
}

int mr_search_run(const mr_search *search, int32_t start, int32_t wanted, mr_found *found)
{
    if (mr_search_find(search, start, wanted, found)) return 1;
    return found->feasible < 2 ? 0 : score_found(search, mr_is_fused(search), found); /* a single node is not scored */
}

int mr_scan_suits(const mr_search *search)
{
    const mr_terms *t = search->pod.terms;
    /* Whether terms matter may change with the next pod. */
    const int has_terms = t && (t->n_hard || t->n_soft || t->n_affinity || t->n_anti || t->n_existing || t->n_preferred);
    return mr_is_fused(search) && !search->nominated && !mr_has_external_filters(search->plan) && !has_terms
        && !reads_rows(search, 1);
}

/* The tie, among those offered so far, that would be on top of the heap. */
typedef struct {
    int32_t position; /* -1: none */
    uint32_t key;
} mr_top;
#define NO_TOP ((mr_top){-1, UINT32_MAX})

/* Offers a tie at a position, by its index among the feasible ones; indices must be increasing. */
static inline void offer(mr_top *top, int32_t index, int32_t position)
{
    const uint32_t key = mr_heap_key((uint32_t)index + 1);
    if (key < top->key) *top = (mr_top){position, key};
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
    const int64_t max = totals[mr_pick_first(totals, n)];
    mr_top top = NO_TOP;
    for (int32_t i = 0; i < n; i++)
        if (totals[i] == max) offer(&top, i, i);
    return top.position;
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

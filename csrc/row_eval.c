#include "row_eval.h"

#include <stddef.h>
#include <string.h>

#define MR_ANYTHING 1e300
#define MR_MAX_FUSED_WEIGHT 1000000

static int32_t saturated(double x)
{
    return x > INT32_MAX ? INT32_MAX : x <= MR_NO_SLOT ? MR_NO_SLOT + 1 : (int32_t)x;
}

/* The columns of mr_bound_blocks. */
static void set_shares(mr_columns *c, int32_t p, const mr_row *r, int slow)
{
    const double cpu = slow ? 0.0 : 100.0 / r->alloc_cpu, memory = slow ? 0.0 : 100.0 / r->alloc_memory;
    const double kib = (r->alloc_memory - r->req_memory) / 1024.0;
    c->nonzero_cpu_share[p] = (float)(cpu * r->nonzero_cpu);
    c->nonzero_memory_share[p] = (float)(memory * r->nonzero_memory);
    c->half_cpu_share[p] = (float)(cpu * r->req_cpu * 0.5);
    c->half_memory_share[p] = (float)(memory * r->req_memory * 0.5);
    c->cpu_share[p] = (float)cpu;
    c->memory_share[p] = (float)memory;
    c->free_milli[p] = r->pods < r->pods_max ? saturated(r->alloc_cpu - r->req_cpu) : MR_NO_SLOT;
    c->free_kib[p] = saturated(kib) - (kib > MR_NO_SLOT + 1 && saturated(kib) > kib);
}

void mr_columns_set(mr_columns *c, int32_t p, const mr_ledger *ledger, const int32_t *taint_set, int32_t row)
{
    const mr_row *r = &ledger->rows[row];
    int slow = (r->flags & MR_SLOW) != 0;
    int32_t fixed = taint_set[row] * 2 + ((r->flags & MR_UNSCHEDULABLE) != 0);
    /* The general kernel evaluates slow rows; these values only prevent divisions by zero. */
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
    set_shares(c, p, r, slow);
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
    const int64_t amounts[] = {s->need_cpu, s->need_memory, s->cpu, s->memory, s->score_cpu, s->score_memory};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        if (amounts[i] < 0 || amounts[i] > limit) return 0; /* requests that wrap are below 0 */
    return search->columns && plan->fit_strategy == MR_LEAST_ALLOCATED
        && mr_filters(plan, MR_NODE_UNSCHEDULABLE) && mr_filters(plan, MR_TAINT_TOLERATION)
        && mr_filters(plan, MR_NODE_RESOURCES_FIT) && is_cpu_and_memory(plan->fit, plan->n_fit)
        && is_cpu_and_memory(plan->balanced, plan->n_balanced);
}

/* 1 if a filter depends on names, labels or declared features of nodes for this pod. */
static int asks_for_names(const mr_search *search, int32_t kernel)
{
    const mr_shape *s = search->shape;
    return (kernel == MR_NODE_NAME && search->pod.node_name)
        || (kernel == MR_NODE_AFFINITY
            && (s->selector.count || s->flags & MR_SHAPE_REQUIRED || search->plan->added))
        || (kernel == MR_NODE_DECLARED_FEATURES && s->flags & MR_FEATURES);
}

static int asks_for_any_name(const mr_search *search)
{
    for (int32_t i = 0; i < search->plan->n_filters; i++)
        if (asks_for_names(search, search->plan->filters[i])) return 1;
    return 0;
}

int mr_asks_for_statics(const mr_search *search)
{
    return asks_for_any_name(search) || (search->fixed_ok && search->columns && search->columns->n_fixed);
}

static int32_t fixed_of(const mr_cluster *cluster, int32_t row)
{
    return cluster->taint_set[row] * 2 + ((cluster->ledger.rows[row].flags & MR_UNSCHEDULABLE) != 0);
}

typedef struct {
    const mr_search *search;
    uint64_t *ok;
} static_loop;

static int passes_statics(const mr_search *search, int32_t row)
{
    int ok = !search->fixed_ok || search->fixed_ok[fixed_of(search->cluster, row)];
    for (int32_t i = 0; i < search->plan->n_filters && ok; i++)
        if (asks_for_names(search, search->plan->filters[i]))
            ok = !mr_filter(search->plan->filters[i], search->plan, search->cluster, search->shape, &search->pod, row);
    return ok;
}

static void static_block(const void *loop, int32_t first, int32_t n)
{
    const mr_search *search = ((const static_loop *)loop)->search;
    uint64_t *ok = ((const static_loop *)loop)->ok, word = 0;
    for (int32_t at = first; at < first + n; at++) {
        word |= (uint64_t)passes_statics(search, search->order[at]) << at % MR_LANES;
        if (at % MR_LANES < MR_LANES - 1 && at < first + n - 1) continue;
        ok[at / MR_LANES] = word;
        word = 0;
    }
}

void mr_static_lanes(const mr_search *search, uint64_t *ok)
{
    const static_loop loop = {search, ok};
    mr_each_block(search, mr_is_parallel(search, search->n), search->n, static_block, &loop);
}

void mr_static_lanes_of(const mr_search *search, const int32_t *holders, int32_t n, const int32_t *position,
                        uint64_t *ok)
{
    memset(ok, 0, (size_t)(search->n / MR_LANES + 2) * sizeof *ok);
    for (int32_t word = 0; word < n; word++)
        for (uint32_t bits = (uint32_t)holders[word]; bits; bits &= bits - 1) {
            const int32_t row = word * 32 + __builtin_ctz(bits), at = position[row] - 1; /* -1: not in the list */
            if (at >= 0) ok[at / MR_LANES] |= (uint64_t)passes_statics(search, row) << at % MR_LANES;
        }
}

/* The filters that need more than the columns, the amounts of other resources and the port sets, and can reject a node
 * for this pod. */
static int32_t other_filters(const mr_search *search, int32_t *kernels)
{
    const mr_terms *t = search->pod.terms;
    int32_t n = 0;
    for (int32_t i = 0; i < search->plan->n_filters; i++) {
        int32_t kernel = search->plan->filters[i];
        int asks = (asks_for_names(search, kernel) && !search->static_ok)
            || (kernel == MR_POD_TOPOLOGY_SPREAD && t && t->n_hard)
            || (kernel == MR_INTER_POD_AFFINITY && t && (t->n_affinity || t->n_anti || t->n_existing));
        if (asks) kernels[n++] = kernel;
    }
    if (search->pod.volumes) kernels[n++] = MR_VOLUMES;
    return n;
}

int mr_scan_is_parallel(const mr_search *search, int32_t n)
{
    int32_t asked[MR_MAX_PLUGINS + 1];
    return mr_is_parallel(search, n)
        && (n / MR_PLAIN >= search->parallel_from || !mr_is_fused(search) || search->has_images
            || search->shape->n_others || other_filters(search, asked));
}

void mr_local_read(mr_local *local, const mr_search *search)
{
    const mr_shape *s = search->shape;
    const mr_plan *plan = search->plan;
    /* A request of 0 fits even if the row is overcommitted. */
    local->need_cpu = s->need_cpu > 0 ? (double)s->need_cpu : -MR_ANYTHING;
    local->need_memory = s->need_memory > 0 ? (double)s->need_memory : -MR_ANYTHING;
    local->cpu = (double)s->cpu;
    local->memory = (double)s->memory;
    local->score_cpu = (double)s->score_cpu;
    local->score_memory = (double)s->score_memory;
    local->fused = mr_is_fused(search);
    local->difference = plan->balanced_difference;
    local->fit = (int32_t)weight_of(plan, MR_NODE_RESOURCES_FIT);
    local->balanced = mr_scores(MR_BALANCED_ALLOCATION, plan, s, &search->pod)
        ? (int32_t)weight_of(plan, MR_BALANCED_ALLOCATION) : 0;
    local->images = search->has_images ? (int32_t)weight_of(plan, MR_IMAGE_LOCALITY) : 0;
    local->n_asked = other_filters(search, local->asked);
    local->need_milli = s->need_cpu > 0 ? saturated((double)s->need_cpu) : MR_NO_SLOT + 1;
    local->need_kib = s->need_memory > 0 ? saturated((double)(s->need_memory / 1024)) : MR_NO_SLOT + 1;
    local->narrow = s->need_cpu < INT32_MAX && s->need_memory % 1024 == 0 && s->need_memory / 1024 < INT32_MAX;
    local->bound_cpu = (float)local->score_cpu;
    local->bound_memory = (float)local->score_memory;
    local->half_cpu = (float)(local->cpu * 0.5);
    local->half_memory = (float)(local->memory * 0.5);
    local->most = 1 + 100 * (local->fit + local->balanced + local->images);
    local->search = search;
}

/* LeastAllocated of one resource: exact truncation of (capacity - requested) * 100 / capacity for capacities up to
 * 2^42; rows beyond it are MR_SLOW. */
MR_INLINED int32_t least(double free, double request, double per)
{
    double x = free - request;
    x = x > 0.0 ? x : 0.0;
    return (int32_t)(x * per + 0x1p-44);
}

/* BalancedAllocation, if it can differ between rows. */
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

#define SLACK 1e-3f /* more than the error of the single-precision forms, of percentages that are at most 100 */

/* The share of a resource in use with one more request, which counts up to a limit. */
MR_INLINED float share_of(float used, float request, float share, float limit)
{
    const float x = used + request * share;
    return x < limit ? x : limit;
}

/* The whole percentages that remain, or more by a rounding error. */
MR_INLINED int32_t remaining_percent(float share)
{
    return (int32_t)(100.0f + SLACK - share);
}

/* The scores of fused_scores, or more, for a block; 0 where cpu, memory or slots do not suffice. With `plain` the weights
 * and the strategy are the default ones, constants for the compiler. */
MR_INLINED void bound_lanes(const mr_columns *c, const mr_local *l, int32_t first, int plain, int32_t *restrict out)
{
    const float *restrict nonzero_cpu = c->nonzero_cpu_share + first, *restrict cpu = c->cpu_share + first;
    const float *restrict nonzero_memory = c->nonzero_memory_share + first, *restrict memory = c->memory_share + first;
    const float *restrict half_cpu = c->half_cpu_share + first, *restrict half_memory = c->half_memory_share + first;
    const int32_t *restrict before = c->balanced + first;
    const int32_t *restrict free_milli = c->free_milli + first, *restrict free_kib = c->free_kib + first;
    const float score_cpu = l->bound_cpu, score_memory = l->bound_memory;
    const float more_cpu = l->half_cpu, more_memory = l->half_memory;
    const int32_t milli = l->need_milli, kib = l->need_kib;
    const int32_t fit = plain ? 1 : l->fit, level = plain ? 1 : l->balanced, difference = plain || l->difference;
    for (int32_t i = 0; i < MR_LANES; i++) {
        const int32_t score = (remaining_percent(share_of(nonzero_cpu[i], score_cpu, cpu[i], 100.0f))
                               + remaining_percent(share_of(nonzero_memory[i], score_memory, memory[i], 100.0f))) >> 1;
        const float apart = share_of(half_cpu[i], more_cpu, cpu[i], 50.0f)
            - share_of(half_memory[i], more_memory, memory[i], 50.0f);
        const int32_t even = remaining_percent(__builtin_fabsf(apart));
        const int32_t balance = difference ? 50 + ((50 + even - before[i]) >> 1) : even;
        const int32_t lacks = -((free_milli[i] < milli) | (free_kib[i] < kib));
        out[i] = (1 + fit * score + level * balance) & ~lacks;
    }
}

MR_INLINED void note_block(const mr_blocks *out, int32_t block, int16_t largest)
{
    const int16_t *totals = out->totals + block * MR_LANES;
    out->largest[block] = largest;
    out->fits[block] = ~mr_equal_lanes(totals, 0);
    out->tops[block] = mr_equal_lanes(totals, largest) & out->fits[block];
}

MR_DISPATCHED void mr_block_note(const mr_blocks *out, int32_t block)
{
    note_block(out, block, mr_largest(out->totals + block * MR_LANES, MR_LANES, 0));
}

/* Writes the lanes that have a bit, 0 for the others; returns the largest. */
MR_INLINED int16_t keep_lanes(const int32_t *restrict lanes, uint64_t bits, int16_t *restrict totals)
{
#ifdef __SSE2__
    const __m128i own = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128), next = _mm_slli_epi16(own, 8);
    __m128i max = _mm_setzero_si128();
    for (int32_t i = 0; i < MR_LANES; i += 16) {
        const __m128i *four = (const __m128i *)(lanes + i), word = _mm_set1_epi16((int16_t)(bits >> i));
        __m128i low = _mm_packs_epi32(_mm_loadu_si128(four), _mm_loadu_si128(four + 1));
        __m128i high = _mm_packs_epi32(_mm_loadu_si128(four + 2), _mm_loadu_si128(four + 3));
        low = _mm_and_si128(low, _mm_cmpeq_epi16(_mm_and_si128(word, own), own));
        high = _mm_and_si128(high, _mm_cmpeq_epi16(_mm_and_si128(word, next), next));
        max = _mm_max_epi16(max, _mm_max_epi16(low, high));
        _mm_storeu_si128((__m128i *)(totals + i), low);
        _mm_storeu_si128((__m128i *)(totals + i + 8), high);
    }
    max = _mm_max_epi16(max, _mm_srli_si128(max, 8));
    max = _mm_max_epi16(max, _mm_srli_si128(max, 4));
    max = _mm_max_epi16(max, _mm_srli_si128(max, 2));
    return (int16_t)_mm_extract_epi16(max, 0);
#else
    for (int32_t i = 0; i < MR_LANES; i++) totals[i] = (int16_t)(bits >> i & 1 ? lanes[i] : 0);
    return mr_largest(totals, MR_LANES, 0);
#endif
}

/* The bits of 64 positions from one on. */
MR_INLINED uint64_t bits_from(const uint64_t *bits, int32_t first)
{
    const int32_t at = first / MR_LANES, shift = first % MR_LANES;
    return shift ? bits[at] >> shift | bits[at + 1] << (MR_LANES - shift) : bits[at];
}

/* 1 if one of some positions has a bit. */
MR_INLINED int has_bits(const uint64_t *bits, int32_t first, int32_t n)
{
    uint64_t any = 0;
    for (int32_t at = 0; at < n; at += MR_LANES) {
        const uint64_t word = bits_from(bits, first + at);
        any |= n - at < MR_LANES ? word & ((1ull << (n - at)) - 1) : word;
    }
    return any != 0;
}

/* Writes 0 where a position has no bit. */
MR_INLINED void clear_lanes(const uint64_t *bits, int32_t first, int32_t n, int32_t *restrict out)
{
    for (int32_t at = 0; at < n; at += 32) {
        const uint32_t word = (uint32_t)bits_from(bits, first + at);
        const int32_t end = n - at < 32 ? n - at : 32;
        for (int32_t i = 0; i < end; i++) out[at + i] &= -(int32_t)(word >> i & 1);
    }
}

/* Writes -1 for a row that fits, else 0; returns the number of rows that fit. */
MR_INLINED int32_t fused_fit(const mr_columns *c, const mr_local *l, const int8_t *fixed_ok, const uint64_t *static_ok,
                             int32_t first, int32_t n, int32_t *restrict out)
{
    const double *restrict free_cpu = c->free_cpu + first, *restrict free_memory = c->free_memory + first;
    const int32_t *restrict slots = c->slots + first, *restrict fixed = c->fixed + first;
    const double cpu = l->need_cpu, memory = l->need_memory;
    const int32_t *restrict free_milli = c->free_milli + first, *restrict free_kib = c->free_kib + first;
    const int32_t milli = l->need_milli, kib = l->need_kib;
    int32_t sum = 0;
    if (l->narrow)
        for (int32_t i = 0; i < n; i++)
            out[i] = -((milli <= free_milli[i]) & (kib <= free_kib[i]));
    else
        for (int32_t i = 0; i < n; i++)
            out[i] = -((cpu <= free_cpu[i]) & (memory <= free_memory[i]) & (slots[i] > 0));
    if (static_ok) clear_lanes(static_ok, first, n, out);
    else if (fixed_ok && c->n_fixed)
        for (int32_t i = 0; i < n; i++) out[i] &= -(int32_t)fixed_ok[fixed[i]];
    for (int32_t i = 0; i < n; i++) sum -= out[i];
    return sum;
}

/* 1 if NodeResourcesFit checks that there is enough of a resource other than cpu and memory. */
MR_INLINED int is_checked(const mr_search *search, int32_t i)
{
    return search->shape->others[i].need > 0 && !(search->pod.ignored >> i & 1);
}

MR_INLINED int others_fit(const mr_search *search, int32_t row)
{
    for (int32_t i = 0; i < search->shape->n_others; i++) {
        const int64_t *amounts = mr_other(&search->cluster->ledger, row, search->shape->others[i].resource);
        if (is_checked(search, i) && search->shape->others[i].need > amounts[0] - amounts[1]
            && !(amounts[0] == 0 && search->pod.delegated >> i & 1)) return 0;
    }
    return 1;
}

/* Writes -1 where the resources other than cpu and memory fit, else 0; returns the number of rows where they do. */
MR_INLINED int32_t fit_others(const mr_search *search, int32_t first, int32_t n, int32_t *restrict fits)
{
    const int32_t *restrict rows = search->order + first;
    int32_t sum = 0;
    memset(fits, -1, (size_t)n * sizeof *fits);
    for (int32_t k = 0; k < search->shape->n_others; k++) {
        const int64_t *restrict amounts = search->cluster->ledger.others[search->shape->others[k].resource];
        const int64_t need = search->shape->others[k].need, delegated = search->pod.delegated >> k & 1;
        if (!is_checked(search, k)) continue;
        for (int32_t i = 0; i < n; i++) {
            const int64_t row = rows[i];
            const int64_t all = amounts[2 * row];
            fits[i] &= -(int32_t)((need <= all - amounts[2 * row + 1]) | (delegated & (all == 0)));
        }
    }
    for (int32_t i = 0; i < n; i++) sum -= fits[i];
    return sum;
}

/* Totals of at most MR_BLOCK positions; returns the number of feasible ones. */
MR_DISPATCHED int32_t mr_fused_columns(const mr_search *search, const mr_local *local, int32_t first, int32_t n,
                                       int32_t *restrict out)
{
    const mr_columns *columns = search->columns;
    int32_t fits[MR_BLOCK], others[MR_BLOCK], count = 1;
    if (search->static_ok) count = has_bits(search->static_ok, first, n);
    /* First, as few nodes have an extended resource. */
    if (count && search->shape->n_others) count = fit_others(search, first, n, others);
    if (count) count = fused_fit(columns, local, search->fixed_ok, search->static_ok, first, n, fits);
    if (count && search->shape->n_others) {
        count = 0;
        for (int32_t i = 0; i < n; i++) count -= fits[i] &= others[i];
    }
    for (int32_t i = 0; count && search->pod.ports && i < n; i++)
        if (fits[i] && !mr_ports_fit(search->cluster, &search->pod, search->order[first + i])) fits[i] = 0, count--;
    if (!count) {
        memset(out, 0, (size_t)n * sizeof *out);
        return 0;
    }
    fused_scores(columns, local, first, n, out);
    for (int32_t i = 0; i < n; i++) out[i] &= fits[i];
    return count;
}

int64_t mr_local_total(const mr_search *search, int32_t row)
{
    const mr_plan *plan = search->plan;
    int64_t total = 0;
    for (int32_t i = 0; i < plan->n_scores; i++) {
        int32_t kernel = plan->scores[i];
        if (kernel >= MR_EXTERNAL || mr_is_normalized(kernel)) continue;
        if (!mr_scores(kernel, plan, search->shape, &search->pod)) continue;
        if (kernel == MR_IMAGE_LOCALITY && !search->has_images) continue;
        const int64_t score = mr_score(kernel, plan, search->cluster, search->shape, &search->pod, row);
        if (score < 0 || score > 100) return MR_INVALID;
        total += plan->weights[i] * score;
    }
    return total;
}

static int64_t exact_lane(const mr_search *search, int32_t row)
{
    if (mr_verdict(search->plan, search->cluster, search->shape, &search->pod, row)) return 0;
    const int64_t total = mr_local_total(search, row);
    return total == MR_INVALID ? MR_INVALID : 1 + total;
}

/* Evaluates the filters and scores that the columns do not cover, for a row that passes on the columns. */
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
        || r->pods >= r->pods_max || !mr_ports_fit(search->cluster, &search->pod, row)) return 0;
    if ((ok && !ok[fixed_of(search->cluster, row)]) || !others_fit(search, row)) return 0;
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

int32_t mr_fused_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    const uint8_t *slow = search->columns->slow + first;
    MR_DEBUG_BELOW(first + n, search->n + 1, "end of a block of positions");
    int32_t count = mr_fused_columns(search, local, first, n, out);
    const int more = count && (local->n_asked || local->images);
    if (!more && !search->columns->n_slow) return count;
    if (more)
        for (int32_t i = 0; i < n; i++)
            if (out[i] && !slow[i]) out[i] = remaining(search, local, search->order[first + i], out[i]);
    if (search->columns->n_slow)
        for (int32_t i = 0; i < n; i++)
            if (slow[i]) {
                const int64_t lane = exact_lane(search, search->order[first + i]);
                out[i] = lane == MR_INVALID ? MR_INVALID_LANE : (int32_t)lane;
            }
    count = 0;
    for (int32_t i = 0; i < n; i++) count += out[i] != 0;
    return count;
}

/* The positions of a block that pass the filters other than by cpu, memory and slots, as far as columns, port sets and
 * amounts of other resources tell, as bits. */
MR_INLINED uint64_t passing(const mr_search *search, int32_t first)
{
    const int32_t n = search->n - first < MR_LANES ? search->n - first : MR_LANES;
    const int32_t *fixed = search->columns->fixed + first;
    uint64_t bits = n < MR_LANES ? (1ull << n) - 1 : ~0ull, word = 0;
    if (search->static_ok) {
        bits = search->static_ok[first / MR_LANES];
    } else if (search->fixed_ok && search->columns->n_fixed) {
        bits = 0;
        for (int32_t i = 0; i < n; i++) bits |= (uint64_t)search->fixed_ok[fixed[i]] << i;
    }
    for (int32_t i = 0; search->pod.ports && i < n; i++)
        bits &= ~((uint64_t)!mr_ports_fit(search->cluster, &search->pod, search->order[first + i]) << i);
    if (!search->shape->n_others) return bits;
    for (; bits; bits &= bits - 1)
        if (others_fit(search, search->order[first + __builtin_ctzll(bits)])) word |= bits & -bits;
    return word;
}

/* 1 if some whole amount equals what is needed, so that the rest decides. */
static int is_close(const mr_local *l, int32_t first)
{
    const int32_t *restrict milli = l->search->columns->free_milli + first;
    const int32_t *restrict kib = l->search->columns->free_kib + first;
    int32_t any = 0;
    for (int32_t i = 0; i < MR_LANES; i++) any |= (milli[i] == l->need_milli) | (kib[i] == l->need_kib);
    return any;
}

/* Evaluates what the kernel of bounds does not. */
static void finish_block(const mr_local *local, int32_t block, const mr_blocks *out)
{
    const mr_search *search = local->search;
    const mr_columns *c = search->columns;
    const int32_t first = block * MR_LANES, n = search->n - first < MR_LANES ? search->n - first : MR_LANES;
    int16_t *totals = out->totals + first;
    int in_range = 1;
    if (!local->narrow && is_close(local, first))
        for (int32_t i = 0; i < n; i++)
            if (local->need_cpu > c->free_cpu[first + i] || local->need_memory > c->free_memory[first + i]) totals[i] = 0;
    if (local->n_asked || local->images)
        for (int32_t i = 0; i < n; i++)
            if (totals[i] && !c->slow[first + i])
                totals[i] = (int16_t)remaining(search, local, search->order[first + i], totals[i]);
    for (int32_t i = 0; c->n_slow && i < n; i++) {
        if (!c->slow[first + i]) continue;
        const int64_t lane = exact_lane(search, search->order[first + i]);
        in_range &= lane >= 0 && lane <= MR_CANDIDATE_LIMIT;
        totals[i] = (int16_t)lane;
    }
    mr_block_note(out, block);
    if (!in_range) out->largest[block] = MR_OUT_OF_RANGE;
}

MR_DISPATCHED void mr_bound_blocks(const mr_local *local, int32_t from, int32_t to, const mr_blocks *out)
{
    const mr_columns *columns = local->search->columns;
    const int plain = local->fit == 1 && local->balanced == 1 && local->difference;
    const int more = !local->narrow || local->n_asked || local->images || columns->n_slow;
    MR_DEBUG_BELOW(to * MR_LANES, local->search->n + MR_LANES, "end of blocks of positions");
    for (int32_t block = from; block < to; block++) {
        const int32_t first = block * MR_LANES;
        const uint64_t bits = passing(local->search, first);
        int32_t lanes[MR_LANES];
        if (bits) {
            if (plain) bound_lanes(columns, local, first, 1, lanes);
            else bound_lanes(columns, local, first, 0, lanes);
            note_block(out, block, keep_lanes(lanes, bits, out->totals + first));
        } else { /* few nodes have an extended resource */
            memset(out->totals + first, 0, MR_LANES * sizeof *out->totals);
            out->largest[block] = 0;
            out->fits[block] = out->tops[block] = 0;
        }
        if (more) finish_block(local, block, out);
    }
}

void mr_local_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out)
{
    MR_DEBUG_BELOW(first + n, search->n + 1, "end of a block of positions");
    if (local->fused && !search->columns->n_slow) {
        mr_fused_block(search, local, first, n, out);
        return;
    }
    for (int32_t i = 0; i < n; i++) out[i] = in_lane(mr_local_lane(search, local, search->order[first + i]));
}

typedef struct {
    const mr_search *search;
    const mr_local *local;
    int32_t *out;
} lanes_loop;

static void lanes_block(const void *loop, int32_t first, int32_t n)
{
    const lanes_loop *l = loop;
    mr_local_block(l->search, l->local, first, n, l->out + first);
}

void mr_local_lanes(const mr_search *search, const mr_local *local, int32_t *out)
{
    const lanes_loop loop = {search, local, out};
    mr_each_block(search, mr_scan_is_parallel(search, search->n), search->n, lanes_block, &loop);
}

/* 1 if the filters are in the order that the columns assume: filters whose verdicts are unresolvable, host ports,
 * resources, counters. NodeDeclaredFeatures counts only if the pod needs features. */
static int is_in_order(const mr_search *search)
{
    const mr_plan *plan = search->plan;
    int32_t reached = 0;
    for (int32_t i = 0; i < plan->n_filters; i++) {
        const int32_t kernel = plan->filters[i];
        if (kernel == MR_NODE_DECLARED_FEATURES && !asks_for_names(search, kernel)) continue;
        const int32_t stage = kernel == MR_POD_TOPOLOGY_SPREAD || kernel == MR_INTER_POD_AFFINITY ? 3
            : kernel == MR_NODE_RESOURCES_FIT ? 2 : kernel == MR_NODE_PORTS;
        if (stage < reached || kernel >= MR_EXTERNAL) return 0;
        reached = stage;
    }
    return reached >= 2;
}

int mr_status_by_columns(const mr_search *search, const mr_local *local)
{
    return local->fused && !search->shape->n_others && is_in_order(search);
}

static uint8_t status_of(const mr_search *search, int32_t row)
{
    uint64_t verdict = mr_verdict(search->plan, search->cluster, search->shape, &search->pod, row);
    return !verdict ? 0 : verdict & MR_UNRESOLVABLE ? MR_CODE_UNRESOLVABLE : MR_CODE_UNSCHEDULABLE;
}

/* The codes computed from the columns, without the filters that read counters. */
MR_DISPATCHED void mr_status_columns(const mr_search *search, const mr_local *local, int32_t first, int32_t n,
                                     uint8_t *restrict codes)
{
    const mr_columns *c = search->columns;
    const double *restrict free_cpu = c->free_cpu + first, *restrict free_memory = c->free_memory + first;
    const double *restrict alloc_cpu = c->alloc_cpu + first, *restrict alloc_memory = c->alloc_memory + first;
    const int32_t *restrict slots = c->slots + first, *restrict fixed = c->fixed + first;
    const double cpu = local->need_cpu, memory = local->need_memory;
    const int hopeless = search->plan->fit_unresolvable ? MR_CODE_UNRESOLVABLE : MR_CODE_UNSCHEDULABLE;
    for (int32_t i = 0; i < n; i++) {
        const int fits = (cpu <= free_cpu[i]) & (memory <= free_memory[i]) & (slots[i] > 0);
        const int above = (cpu > alloc_cpu[i]) | (memory > alloc_memory[i]);
        codes[i] = (uint8_t)(fits ? 0 : above ? hopeless : MR_CODE_UNSCHEDULABLE);
    }
    for (int32_t i = 0; search->pod.ports && i < n; i++)
        if (!mr_ports_fit(search->cluster, &search->pod, search->order[first + i])) codes[i] = MR_CODE_UNSCHEDULABLE;
    if (search->static_ok)
        for (int32_t i = 0; i < n; i++)
            codes[i] = bits_from(search->static_ok, first + i) & 1 ? codes[i] : MR_CODE_UNRESOLVABLE;
    else if (search->fixed_ok && c->n_fixed)
        for (int32_t i = 0; i < n; i++) codes[i] = search->fixed_ok[fixed[i]] ? codes[i] : MR_CODE_UNRESOLVABLE;
}

void mr_status_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, uint8_t *codes)
{
    const int by_columns = mr_status_by_columns(search, local);
    const int asks_names = !search->static_ok && asks_for_any_name(search);
    if (by_columns) mr_status_columns(search, local, first, n, codes);
    if (by_columns && !asks_names && !search->columns->n_slow) {
        /* Only the filters that read counters remain, for rows that no other filter rejects. */
        uint8_t *at = search->pod.terms ? memchr(codes, 0, (size_t)n) : NULL;
        for (; at; at = memchr(at + 1, 0, (size_t)(codes + n - at - 1)))
            *at = status_of(search, search->order[first + (at - codes)]);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        if (!by_columns || search->columns->slow[first + i]
            || (asks_names && codes[i] != MR_CODE_UNRESOLVABLE) || (search->pod.terms && !codes[i]))
            codes[i] = status_of(search, search->order[first + i]);
}

#include "candidates.h"

#include <string.h>

/* The buckets that have feasible positions in the window of a decision, and their scores. */
typedef struct {
    int32_t n, ids[MR_BUCKETS];
    int32_t feasible;               /* positions in all of them */
    int16_t best[MR_BUCKETS];       /* [bucket] largest total in the window */
    int64_t constant[MR_BUCKETS];   /* [bucket] */
} mr_live;

/* A range of positions that does not wrap. */
typedef struct {
    int32_t from, to;
} mr_range;

/* Feasible positions of a block in all live buckets. The parameter `stride`, that of the candidates, is constant 1 in
 * most calls, so that the compiler can specialize the code for one bucket. */
MR_INLINED uint64_t fits_in(const mr_candidates *c, const mr_live *live, int32_t stride, int32_t block)
{
    const uint64_t *fits = c->fits + block * stride;
    if (stride == 1) return *fits;
    uint64_t word = 0;
    for (int32_t i = 0; i < live->n; i++) word |= fits[live->ids[i]];
    return word;
}

MR_INLINED int32_t count_in(const mr_candidates *c, const mr_live *live, int32_t stride, int32_t counted)
{
    const uint16_t *counts = c->counts + counted * stride;
    if (stride == 1) return *counts;
    int32_t sum = 0;
    for (int32_t i = 0; i < live->n; i++) sum += counts[live->ids[i]];
    return sum;
}

/* Position of the k-th feasible one (from 0) at or after `from`; -1 if there are too few up to the end, and then `k` is
 * reduced by their number. */
MR_INLINED int32_t nth_feasible(const mr_candidates *c, const mr_live *live, int32_t stride, int32_t from, int32_t *k)
{
    int32_t block = from / MR_LANES, blocks = mr_blocks_of(c);
    uint64_t word = block < blocks ? fits_in(c, live, stride, block) & (~0ull << from % MR_LANES) : 0;
    while (block < blocks) {
        int32_t count = mr_bits(word);
        if (*k < count) return block * MR_LANES + mr_nth_bit(word, *k);
        *k -= count;
        for (block++; block % MR_COUNTED == 0 && block < blocks; block += MR_COUNTED) {
            count = count_in(c, live, stride, block / MR_COUNTED);
            if (*k < count) break;
            *k -= count;
        }
        word = block < blocks ? fits_in(c, live, stride, block) : 0;
    }
    return -1;
}

MR_INLINED int32_t window(const mr_candidates *c, const mr_live *live, int32_t stride, int32_t start, int32_t wanted)
{
    int32_t k = wanted;
    if (live->feasible <= wanted) return c->n;
    int32_t end = nth_feasible(c, live, stride, start, &k);
    if (end < 0) end = nth_feasible(c, live, stride, 0, &k);
    return end > start ? end - start : end - start + c->n;
}

/* The lanes of a block that lie in a range, as bits. */
MR_INLINED uint64_t lanes_in(mr_range range, int32_t first)
{
    uint64_t word = ~0ull;
    if (first < range.from) word &= ~0ull << range.from % MR_LANES;
    if (first + MR_LANES > range.to) word &= (1ull << range.to % MR_LANES) - 1;
    return word;
}

MR_INLINED void raise(int16_t *restrict best, const int16_t *restrict row, int32_t n)
{
    for (int32_t g = 0; g < n; g++) best[g] = row[g] > best[g] ? row[g] : best[g];
}

/* The largest totals of the lanes of a block that lie in a range. */
MR_INLINED void raise_by_lanes(const mr_candidates *c, int32_t stride, mr_range range, int32_t block, int16_t *best)
{
    const int32_t first = block * MR_LANES, end = first + MR_LANES < range.to ? first + MR_LANES : range.to;
    const int16_t *of_block = c->blocks + block * stride;
    int32_t better = 0;
    for (int32_t g = 0; g < stride; g++) better |= of_block[g] > best[g];
    if (!better) return;
    const int32_t from = first < range.from ? range.from : first;
    if (stride == 1) {
        best[0] = mr_largest(c->totals + from, end - from, best[0]);
        return;
    }
    for (int32_t at = from; at < end; at++) {
        const int32_t g = c->bucket[at];
        best[g] = c->totals[at] > best[g] ? c->totals[at] : best[g];
    }
}

/* Raises `best` to the largest totals of each bucket in a range. */
MR_INLINED void find_best(const mr_candidates *c, int32_t stride, mr_range range, int16_t *best)
{
    const int32_t blocks = (range.to + MR_LANES - 1) / MR_LANES, first = range.from / MR_LANES;
    const int32_t whole = range.to == c->n ? blocks : range.to / MR_LANES; /* behind the end, totals are 0 */
    int32_t block = (range.from + MR_LANES - 1) / MR_LANES;
    if (stride == 1 && block < whole) { /* contiguous, so as fast as by superblocks */
        best[0] = mr_largest(c->blocks + block, whole - block, best[0]);
        block = whole;
    }
    while (block < whole) {
        if (block % MR_LANES == 0 && (block + MR_LANES <= whole || range.to == c->n)) {
            raise(best, c->supers + block / MR_LANES * stride, stride);
            block += MR_LANES;
        } else {
            raise(best, c->blocks + block++ * stride, stride);
        }
    }
    if (range.from % MR_LANES) raise_by_lanes(c, stride, range, first, best);
    if (whole < blocks && (whole != first || range.from % MR_LANES == 0)) raise_by_lanes(c, stride, range, whole, best);
}

/* The lanes of a block whose total equals the goal of a bucket. Larger totals are outside of the window. */
MR_INLINED uint64_t ties_of(const mr_candidates *c, int32_t stride, int32_t block, int32_t g, int16_t goal)
{
    const int32_t at = block * stride + g;
    if (c->blocks[at] <= goal) return c->tops[at] & -(uint64_t)(c->blocks[at] == goal);
    return mr_equal_lanes(c->totals + block * MR_LANES, goal) & c->fits[at];
}

/* The lanes of a block whose total equals the goal of their bucket; a goal of 0 means that the bucket cannot win. */
MR_INLINED uint64_t ties_in(const mr_candidates *c, const mr_live *live, int32_t stride, const int16_t *goal,
                            int32_t block)
{
    if (stride == 1) return ties_of(c, 1, block, 0, *goal);
    uint64_t ties = 0;
    for (int32_t i = 0; i < live->n; i++)
        if (goal[live->ids[i]]) ties |= ties_of(c, stride, block, live->ids[i], goal[live->ids[i]]);
    return ties;
}

/* 1 if no block of a superblock can have a winner. */
MR_INLINED int is_poor(const mr_candidates *c, const mr_live *live, int32_t stride, const int16_t *goal, int32_t super)
{
    if (stride == 1) return c->supers[super] < *goal;
    for (int32_t i = 0; i < live->n; i++) {
        const int32_t g = live->ids[i];
        if (goal[g] && c->supers[super * stride + g] >= goal[g]) return 0;
    }
    return 1;
}

MR_INLINED int32_t first_tie(const mr_candidates *c, const mr_live *live, int32_t stride, const int16_t *goal,
                             mr_range range)
{
    for (int32_t block = range.from / MR_LANES; block * MR_LANES < range.to; block++) {
        if (block % MR_LANES == 0 && is_poor(c, live, stride, goal, block / MR_LANES)) {
            block += MR_LANES - 1;
            continue;
        }
        uint64_t ties = ties_in(c, live, stride, goal, block) & lanes_in(range, block * MR_LANES);
        if (ties) return block * MR_LANES + __builtin_ctzll(ties);
    }
    return -1;
}

MR_INLINED int32_t first_in(const mr_candidates *c, const mr_live *live, int32_t stride, const int16_t *goal,
                            const mr_range *ranges)
{
    const int32_t position = first_tie(c, live, stride, goal, ranges[0]);
    return position >= 0 ? position : first_tie(c, live, stride, goal, ranges[1]);
}

/* The ties of a window, of which the one on top of the heap is sought that Go's heap.Init makes of the feasible
 * positions. The nodes of the heap count from 1. An order compares ties by their keys, and then by their places, which
 * grow with the nodes; below HEAD a place is the node, and from there on it counts 64 places a block. */
#define HEAD 64
typedef struct {
    uint64_t head;  /* a bit per tie among the nodes below HEAD, which are the first levels */
    uint64_t least; /* the least order of all ties, once the nodes have reached HEAD */
    uint32_t node;  /* the node of the next feasible position */
    int32_t before; /* number of blocks before block 0 */
} mr_heap;

MR_INLINED uint64_t order_of(uint32_t node, uint32_t place)
{
    return (uint64_t)mr_heap_key(node) << 32 | place;
}

MR_INLINED uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The least order among the nodes below HEAD. */
MR_INLINED uint64_t least_of_head(uint64_t head)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t first = 1; first < HEAD; first *= 2) {
        const uint64_t level = head >> first & ((1ull << first) - 1);
        const uint32_t node = first + (uint32_t)__builtin_ctzll(level | 1ull << 63);
        least = lesser(least, order_of(node, node) | -(uint64_t)(level == 0));
    }
    return least;
}

MR_INLINED uint32_t next_level(uint32_t node)
{
    return 2u << (31 - __builtin_clz(node));
}

/* The first node from `node` on that can be on top. Keys grow within a level. */
MR_INLINED uint32_t next_node(uint64_t least, uint32_t node)
{
    return mr_heap_key(node) < least >> 32 ? node : next_level(node);
}

/* Adds the ties of a block, of which bit i is node `node` + i, up to node `end`. Returns the next node to look at. */
MR_INLINED uint32_t add_ties(mr_heap *heap, uint64_t ties, uint32_t node, uint32_t end, uint32_t next, uint32_t place)
{
    while (next < end) {
        const uint64_t rest = ties >> (next - node);
        if (!rest) return next_node(heap->least, end);
        next += (uint32_t)__builtin_ctzll(rest);
        heap->least = lesser(heap->least, order_of(next, place + next - node));
        next = next_level(next); /* of each level only the first tie can be on top */
    }
    return next;
}

/* Adds the ties of a range. */
MR_INLINED void add_range(const mr_candidates *c, const mr_live *live, int32_t stride, const int16_t *goal,
                          mr_range range, mr_heap *heap)
{
    uint32_t node = heap->node, next = node < HEAD ? node : next_node(heap->least, node), end;
    for (int32_t block = range.from / MR_LANES; block * MR_LANES < range.to; block++, node = end) {
        const int32_t first = block * MR_LANES;
        if (block % MR_COUNTED == 0 && first >= range.from && first + MR_COUNTED * MR_LANES <= range.to) {
            end = node + (uint32_t)count_in(c, live, stride, block / MR_COUNTED);
            if (end <= next) {
                block += MR_COUNTED - 1;
                continue;
            }
        }
        const uint64_t inside = lanes_in(range, first), fits = fits_in(c, live, stride, block) & inside;
        end = node + (uint32_t)mr_bits(fits);
        if (end <= next) continue;
        const uint64_t ties = mr_extract(ties_in(c, live, stride, goal, block) & inside, fits);
        if (node < HEAD) {
            heap->head |= ties << node;
            next = end;
            if (end < HEAD) continue;
            heap->least = least_of_head(heap->head);
            next = next_node(heap->least, HEAD);
        }
        next = add_ties(heap, ties, node, end, next, (uint32_t)(heap->before + block) * MR_LANES + HEAD);
    }
    heap->node = node;
}

/* The position of a place. */
MR_INLINED int32_t position_of(const mr_candidates *c, const mr_live *live, int32_t stride, const mr_range *ranges,
                               const mr_heap *heap, uint32_t place)
{
    int32_t index = (int32_t)place - 1, position;
    if (place < HEAD) {
        position = nth_feasible(c, live, stride, ranges[0].from, &index);
        return position >= 0 ? position : nth_feasible(c, live, stride, 0, &index);
    }
    const int32_t block = ((int32_t)place - HEAD) / MR_LANES, wrapped = block >= heap->before;
    const int32_t at = wrapped ? block - heap->before : block + ranges[0].from / MR_LANES;
    const uint64_t fits = fits_in(c, live, stride, at) & lanes_in(ranges[wrapped], at * MR_LANES);
    return at * MR_LANES + mr_nth_bit(fits, (int32_t)place % MR_LANES);
}

MR_INLINED int32_t heap_tie(const mr_candidates *c, const mr_live *live, int32_t stride, const int16_t *goal,
                            const mr_range *ranges)
{
    mr_heap heap = {.node = 1, .before = -(ranges[0].from / MR_LANES)};
    add_range(c, live, stride, goal, ranges[0], &heap);
    heap.before += (ranges[0].to + MR_LANES - 1) / MR_LANES;
    if (ranges[1].to) add_range(c, live, stride, goal, ranges[1], &heap);
    const uint64_t least = heap.node < HEAD ? least_of_head(heap.head) : heap.least;
    return position_of(c, live, stride, ranges, &heap, (uint32_t)least);
}

/* A feasible row of a bucket that has one. */
static int32_t row_of(mr_candidates *c, int32_t g)
{
    int32_t at = c->member[g], block = at / MR_LANES;
    if (!c->totals[at] || c->bucket[at] != g) {
        while (!c->fits[block * c->stride + g]) block = block + 1 < mr_blocks_of(c) ? block + 1 : 0;
        c->member[g] = at = block * MR_LANES + __builtin_ctzll(c->fits[block * c->stride + g]);
    }
    return c->search.order[at];
}

/* 1 if the filters that read counters over domains pass a row. */
static int domains_pass(const mr_candidates *c, const mr_pod *pod, int32_t row)
{
    const mr_search *s = &c->search;
    for (int32_t i = 0; i < s->plan->n_filters; i++) {
        int32_t kernel = s->plan->filters[i];
        if (kernel != MR_POD_TOPOLOGY_SPREAD && kernel != MR_INTER_POD_AFFINITY) continue;
        if (mr_filter(kernel, s->plan, s->cluster, s->shape, pod, row)) return 0;
    }
    return 1;
}

static void find_buckets(mr_candidates *c, const mr_pod *pod, mr_live *live)
{
    const mr_terms *t = pod->terms;
    int filters = t && (t->n_hard || t->n_affinity || t->n_anti || t->n_existing);
    live->n = live->feasible = 0;
    for (int32_t g = 0; g < c->used; g++) {
        if (!c->feasible[g] || (filters && !domains_pass(c, pod, row_of(c, g)))) continue;
        live->ids[live->n++] = g;
        live->feasible += c->feasible[g];
    }
}

static int32_t count_range(const mr_candidates *c, int32_t g, mr_range range)
{
    int32_t sum = 0;
    for (int32_t block = range.from / MR_LANES; block * MR_LANES < range.to; block++)
        sum += mr_bits(c->fits[block * c->stride + g] & lanes_in(range, block * MR_LANES));
    return sum;
}

/* Number of feasible nodes that each bucket represents, for the weights of soft spread constraints. If all nodes are
 * scored, only the sum matters. */
static void count_buckets(const mr_candidates *c, const mr_terms *t, const int32_t *ids, const int32_t *rows, int32_t n,
                          int32_t feasible, const mr_range *ranges, int32_t *many)
{
    int lacking = 0;
    for (int32_t i = 0; i < n; i++) {
        many[i] = i ? 0 : feasible;
        lacking |= t->soft_needs_all && mr_spread_lacks_key(t, rows[i]);
    }
    if (!lacking) return;
    for (int32_t i = 0; i < n; i++) many[i] = count_range(c, ids[i], ranges[0]) + count_range(c, ids[i], ranges[1]);
}

/* The sum of the normalized plugins' weighted scores for each bucket that is present in the window. */
static void find_constants(mr_candidates *c, const mr_pod *pod, mr_live *live, int32_t feasible,
                           const mr_range *ranges, uint8_t *seen)
{
    const mr_search *s = &c->search;
    int32_t rows[MR_BUCKETS], ids[MR_BUCKETS], many[MR_BUCKETS], n = 0;
    int64_t scores[MR_BUCKETS];
    for (int32_t i = 0; i < live->n; i++) {
        int32_t g = live->ids[i];
        live->constant[g] = 0;
        if (!live->best[g]) continue;
        ids[n] = g;
        rows[n++] = row_of(c, g);
    }
    if (n < 2) return;
    for (int32_t k = 0; k < s->plan->n_scores; k++) {
        int32_t kernel = s->plan->scores[k];
        if (!mr_is_normalized(kernel) || mr_is_common(s, kernel) || !mr_scores(kernel, s->plan, s->shape, pod)) continue;
        if (kernel == MR_POD_TOPOLOGY_SPREAD) {
            count_buckets(c, pod->terms, ids, rows, n, feasible, ranges, many);
            mr_spread_weigh(pod->terms, rows, many, n, seen);
        }
        for (int32_t i = 0; i < n; i++)
            scores[i] = mr_score(kernel, s->plan, s->cluster, s->shape, pod, rows[i]);
        mr_normalize(kernel, pod, rows, scores, n);
        for (int32_t i = 0; i < n; i++) live->constant[ids[i]] += s->plan->weights[k] * scores[i];
    }
}

/* The goal of each bucket: its best total if this plus its constant is the best of all buckets; else 0. */
static void find_goals(const mr_live *live, int16_t *goal)
{
    int64_t best = INT64_MIN;
    for (int32_t i = 0; i < live->n; i++) {
        int32_t g = live->ids[i];
        int64_t total = live->best[g] + live->constant[g];
        if (live->best[g] && total > best) best = total;
    }
    for (int32_t i = 0; i < live->n; i++) {
        int32_t g = live->ids[i];
        goal[g] = live->best[g] + live->constant[g] == best ? live->best[g] : 0;
    }
}

MR_INLINED void decide(mr_candidates *c, int32_t stride, int32_t start, int32_t wanted, int heap, uint8_t *seen,
                       mr_decision *decision)
{
    mr_live live;
    mr_pod pod = c->search.pod;
    int16_t goal[MR_BUCKETS];
    pod.terms = c->terms;
    if (stride == 1) live.feasible = c->feasible[0];
    else find_buckets(c, &pod, &live);
    decision->position = -1;
    decision->looked_at = live.feasible ? window(c, &live, stride, start, wanted) : c->n;
    decision->feasible = live.feasible < wanted ? live.feasible : wanted;
    if (!live.feasible) return;
    const int32_t end = start + decision->looked_at;
    const mr_range ranges[2] = {{start, end < c->n ? end : c->n}, {0, end > c->n ? end - c->n : 0}};
    memset(live.best, 0, sizeof live.best[0] * (size_t)stride);
    find_best(c, stride, ranges[0], live.best);
    if (ranges[1].to) find_best(c, stride, ranges[1], live.best);
    if (stride == 1) {
        goal[0] = live.best[0];
    } else {
        find_constants(c, &pod, &live, decision->feasible, ranges, seen);
        find_goals(&live, goal);
    }
    if (heap) {
        decision->position = heap_tie(c, &live, stride, goal, ranges);
        return;
    }
    decision->position = first_in(c, &live, stride, goal, ranges);
}

MR_DISPATCHED void mr_candidates_decide(mr_candidates *c, int32_t start, int32_t wanted, int heap, uint8_t *seen,
                                        mr_decision *decision)
{
    mr_candidates_check(c);
    if (c->stride == 1) decide(c, 1, start, wanted, heap, seen, decision);
    else decide(c, c->stride, start, wanted, heap, seen, decision);
}

/* A part of the blocks of a scan, for several threads. */
typedef struct {
    const mr_local *local;
    const mr_blocks *out;
    int32_t from, to, share; /* the blocks, and their number in a chunk */
} mr_part;

static void bound_chunk(const void *loop, int32_t chunk)
{
    const mr_part *part = loop;
    const int32_t from = part->from + chunk * part->share, end = from + part->share;
    mr_bound_blocks(part->local, from, end < part->to ? end : part->to, part->out);
}

/* Writes blocks [from, to); returns 1 if several threads took part. */
static int bound_blocks(const mr_local *local, const mr_blocks *out, int32_t from, int32_t to)
{
    const mr_search *search = local->search;
    const int32_t chunks = search->threads * MR_SHARES, share = (to - from + chunks - 1) / chunks;
    const mr_part part = {local, out, from, to, share};
    if (!mr_scan_is_parallel(search, (to - from) * MR_LANES)) {
        mr_bound_blocks(local, from, to, out);
        return 0;
    }
    mr_parallel(search->threads, (to - from + share - 1) / share, bound_chunk, &part);
    return 1;
}

/* Writes the blocks of a window, and ends it where more than `wanted` positions are feasible. Returns 1 if several threads
 * took part. */
MR_DISPATCHED int mr_scan_window(mr_candidates *c, const mr_local *local, int32_t wanted, mr_range *ranges,
                                 mr_decision *decision)
{
    const mr_blocks out = mr_one_bucket(c);
    const int32_t first = ranges[0].from / MR_LANES;
    int parallel = 0;
    decision->looked_at = decision->feasible = 0;
    for (int32_t k = 0; k < 2; k++) {
        const int32_t end = k ? first : mr_blocks_of(c); /* of the blocks to write */
        int32_t written = k ? 0 : first;
        for (int32_t block = ranges[k].from / MR_LANES; block * MR_LANES < ranges[k].to; block++) {
            const int32_t at = block * MR_LANES, left = wanted - decision->feasible;
            uint16_t *count = &c->counts[block / MR_COUNTED];
            if (block == written && block < end) { /* and more, as many as there are at least in the window */
                written = left < c->n - at ? (at + left) / MR_LANES + 1 : end;
                written = written < end ? written : end;
                parallel |= bound_blocks(local, &out, block, written);
            }
            if (c->blocks[block] == MR_OUT_OF_RANGE) {
                decision->feasible = MR_UNDECIDED;
                return parallel;
            }
            /* The block of `start` counts in both ranges: its last position may be one of the second. */
            *count = (uint16_t)((block % MR_COUNTED ? *count : 0) + mr_bits(c->fits[block]));
            const uint64_t fits = c->fits[block] & lanes_in(ranges[k], at);
            const int32_t found = mr_bits(fits);
            if (found > left) {
                ranges[k].to = at + mr_nth_bit(fits, left);
                if (k == 0) ranges[1].to = 0;
                decision->feasible = wanted;
                decision->looked_at += ranges[k].to - ranges[k].from;
                return parallel;
            }
            decision->feasible += found;
        }
        decision->looked_at += ranges[k].to - ranges[k].from;
    }
    return parallel;
}

MR_DISPATCHED int32_t mr_scan_choose(const mr_candidates *c, const mr_range *ranges, int heap, int16_t *best)
{
    *best = 0;
    find_best(c, 1, ranges[0], best);
    if (ranges[1].to) find_best(c, 1, ranges[1], best);
    return !*best ? -1 : heap ? heap_tie(c, NULL, 1, best, ranges) : first_in(c, NULL, 1, best, ranges);
}

int mr_scan_decide(mr_candidates *c, const mr_local *local, int32_t start, int32_t wanted, int heap,
                   mr_decision *decision)
{
    mr_range ranges[2] = {{start, c->n}, {0, start}};
    decision->position = MR_UNDECIDED;
    MR_DEBUG_BELOW(local->search->n, c->n + 1, "positions of a scan");
    if (local->most > MR_CANDIDATE_LIMIT) return 0;
    const int parallel = mr_scan_window(c, local, wanted, ranges, decision);
    if (decision->feasible == MR_UNDECIDED) return parallel;
    for (;;) {
        int16_t best;
        decision->position = mr_scan_choose(c, ranges, heap, &best);
        if (decision->position < 0) return parallel;
        const int64_t exact = mr_local_lane(local->search, local, local->search->order[decision->position]);
        if (exact >= best) return parallel;
        mr_candidates_lower(c, decision->position, (int16_t)exact);
    }
}

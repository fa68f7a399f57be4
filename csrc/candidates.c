#include "candidates.h"

#define MR_FIRST_KEY 0x80000000u /* of the heap's leftmost path: no key is smaller */

static inline int32_t bits(uint64_t w)
{
    w -= (w >> 1) & 0x5555555555555555ull;
    w = (w & 0x3333333333333333ull) + ((w >> 2) & 0x3333333333333333ull);
    return (int32_t)((((w + (w >> 4)) & 0x0F0F0F0F0F0F0F0Full) * 0x0101010101010101ull) >> 56);
}

/* Place of the k-th bit that is set, counted from 0. */
static inline int32_t nth_bit(uint64_t w, int32_t k)
{
    int32_t place = 0;
    for (int32_t half = 32; half; half >>= 1) {
        int32_t low = bits(w & ((1ull << half) - 1));
        int up = k >= low;
        k -= up ? low : 0;
        place += up ? half : 0;
        w >>= up ? half : 0;
    }
    return place;
}

static inline int16_t largest(const int16_t *restrict lanes)
{
    int16_t max = 0;
    for (int32_t i = 0; i < MR_LANES; i++) max = lanes[i] > max ? lanes[i] : max;
    return max;
}

static inline int32_t blocks_of(const mr_candidates *c)
{
    return (c->n + MR_LANES - 1) / MR_LANES;
}

int mr_candidates_suit(const mr_search *search)
{
    const mr_plan *plan = search->plan;
    int64_t largest_total = 1;
    if (!mr_is_local(search) || search->columns->n_slow) return 0; /* a slow row's score can leave 0..100 */
    for (int32_t i = 0; i < plan->n_scores; i++)
        if (!mr_is_normalized(plan->scores[i])) largest_total += plan->weights[i] * 100;
    return largest_total < MR_CANDIDATE_LIMIT;
}

void mr_candidates_build(mr_candidates *c, const mr_search *search)
{
    int32_t lanes[MR_BLOCK], blocks;
    c->n = search->n;
    c->feasible = 0;
    for (int32_t first = 0; first < c->n; first += MR_BLOCK) {
        int32_t size = c->n - first < MR_BLOCK ? c->n - first : MR_BLOCK;
        mr_fused_block(search, first, size, lanes);
        for (int32_t i = 0; i < size; i++) {
            c->totals[first + i] = (int16_t)lanes[i];
            c->fits[(first + i) / MR_LANES] |= (uint64_t)(lanes[i] != 0) << (first + i) % MR_LANES;
        }
    }
    blocks = blocks_of(c);
    for (int32_t b = 0; b < blocks; b++) {
        int32_t count = bits(c->fits[b]);
        c->blocks[b] = largest(c->totals + b * MR_LANES);
        c->counts[b / MR_COUNTED] = (uint16_t)(c->counts[b / MR_COUNTED] + count);
        c->feasible += count;
    }
    for (int32_t s = 0; s * MR_LANES < blocks; s++) c->supers[s] = largest(c->blocks + s * MR_LANES);
}

void mr_candidates_refresh(mr_candidates *c, const mr_search *search, int32_t position)
{
    int32_t lane, block = position / MR_LANES, super = block / MR_LANES;
    mr_fused_block(search, position, 1, &lane);
    int16_t total = (int16_t)lane, old = c->totals[position], max = c->blocks[block];
    if (total == old) return;
    c->totals[position] = total;
    if (!total != !old) {
        int32_t more = total ? 1 : -1;
        c->fits[block] ^= 1ull << position % MR_LANES;
        c->counts[block / MR_COUNTED] = (uint16_t)(c->counts[block / MR_COUNTED] + more);
        c->feasible += more;
    }
    if (total < max && old < max) return;
    c->blocks[block] = total >= max ? total : largest(c->totals + block * MR_LANES);
    if (c->blocks[block] >= c->supers[super]) c->supers[super] = c->blocks[block];
    else if (max == c->supers[super]) c->supers[super] = largest(c->blocks + super * MR_LANES);
}

/* Position of the k-th feasible one (from 0) at or after `from`; -1 where there are too few up to the end, and then `k`
 * is what is left of it. */
static int32_t nth_feasible(const mr_candidates *c, int32_t from, int32_t *k)
{
    int32_t block = from / MR_LANES, blocks = blocks_of(c);
    uint64_t word = block < blocks ? c->fits[block] & (~0ull << from % MR_LANES) : 0;
    while (block < blocks) {
        int32_t count = bits(word);
        if (*k < count) return block * MR_LANES + nth_bit(word, *k);
        *k -= count;
        block++;
        while (block % MR_COUNTED == 0 && block < blocks && *k >= c->counts[block / MR_COUNTED]) {
            *k -= c->counts[block / MR_COUNTED];
            block += MR_COUNTED;
        }
        word = block < blocks ? c->fits[block] : 0;
    }
    return -1;
}

int32_t mr_candidates_window(const mr_candidates *c, int32_t start, int32_t wanted)
{
    int32_t k = wanted;
    if (c->feasible <= wanted) return c->n;
    int32_t end = nth_feasible(c, start, &k);
    if (end < 0) end = nth_feasible(c, 0, &k);
    return end > start ? end - start : end - start + c->n;
}

/* The leftmost of the largest totals in [from, to), if it is larger than `best`; answers its position, or -1. */
static int32_t best_in(const mr_candidates *c, int32_t from, int32_t to, int16_t *best)
{
    int32_t found = -1, whole = -1;
    for (int32_t block = from / MR_LANES; block * MR_LANES < to; block++) {
        int32_t first = block * MR_LANES;
        if (block % MR_LANES == 0 && first >= from && c->supers[block / MR_LANES] <= *best) {
            block += MR_LANES - 1;
            continue;
        }
        if (c->blocks[block] <= *best) continue;
        if (first >= from && first + MR_LANES <= to) {
            *best = c->blocks[block];
            whole = first;
            continue;
        }
        int32_t end = first + MR_LANES < to ? first + MR_LANES : to;
        for (int32_t at = first < from ? from : first; at < end; at++)
            if (c->totals[at] > *best) {
                *best = c->totals[at];
                found = at;
                whole = -1;
            }
    }
    if (whole >= 0)
        for (found = whole; c->totals[found] != *best; found++) continue;
    return found;
}

int32_t mr_candidates_first(const mr_candidates *c, int32_t start, int32_t looked_at)
{
    int16_t best = 0;
    int32_t end = start + looked_at, before = end > c->n ? end - c->n : 0;
    int32_t found = best_in(c, start, end > c->n ? c->n : end, &best);
    int32_t wrapped = before ? best_in(c, 0, before, &best) : -1;
    return wrapped >= 0 ? wrapped : found;
}

/* Looks for the tie with the smallest key in [from, to); `seen` feasible ones come before. */
static void best_key_in(const mr_candidates *c, int32_t from, int32_t to, int16_t best, int32_t *seen, uint32_t *key,
                        int32_t *found)
{
    for (int32_t block = from / MR_LANES; block * MR_LANES < to; block++) {
        int32_t first = block * MR_LANES;
        uint64_t word = c->fits[block];
        if (first < from) word &= ~0ull << from % MR_LANES;
        if (first + MR_LANES > to) word &= (1ull << to % MR_LANES) - 1;
        if (c->blocks[block] >= best) /* the best of a block can lie outside */
            for (uint64_t rest = word; rest; rest &= rest - 1) {
                int32_t at = first + __builtin_ctzll(rest);
                if (c->totals[at] != best) continue;
                uint32_t it = mr_heap_key(*seen + bits(word & ((rest & -rest) - 1)));
                if (*found < 0 || it < *key) {
                    *key = it;
                    *found = at;
                }
            }
        *seen += bits(word);
    }
}

int32_t mr_candidates_heap(const mr_candidates *c, int32_t start, int32_t looked_at)
{
    int16_t best = 0;
    int32_t end = start + looked_at, before = end > c->n ? end - c->n : 0, last = end > c->n ? c->n : end;
    int32_t seen = 0, found = -1;
    uint32_t key = 0;
    best_in(c, start, last, &best);
    if (before) best_in(c, 0, before, &best);
    best_key_in(c, start, last, best, &seen, &key, &found);
    if (before && !(found >= 0 && key == MR_FIRST_KEY)) best_key_in(c, 0, before, best, &seen, &key, &found);
    return found;
}

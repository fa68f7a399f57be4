#include "preemption.h"

#include <string.h>

void mr_outcomes_forget(mr_outcomes *o)
{
    const size_t bytes = (size_t)mr_words(o->n) * sizeof(uint64_t);
    memset(o->known, 0, bytes);
    memset(o->helps, 0, bytes);
    memset(o->clean, 0, bytes);
    memset(o->winners, MR_NOBODY, (size_t)mr_words(o->n) * 64);
}

/* The winner of a node of the tournament tree of a word, a bit or MR_NOBODY. Node 64 + i is the leaf of bit i; node
 * k < 64 has the children 2 k and 2 k + 1. Node 1 is the root. */
MR_INLINED int winner(const mr_outcomes *o, int32_t word, int node)
{
    if (node < 64) return o->winners[word * 64 + node];
    return o->helps[word] >> (node - 64) & 1 ? node - 64 : MR_NOBODY;
}

/* The better of two positions of a word; of equal ones the left one. */
MR_INLINED int better_of(const mr_outcomes *o, int32_t word, int left, int right)
{
    const mr_eviction *results = o->results + word * 64;
    if (left == MR_NOBODY || right == MR_NOBODY) return left == MR_NOBODY ? right : left;
    return mr_is_better(&results[right], &results[left]) ? right : left;
}

MR_INLINED void play(mr_outcomes *o, int32_t word, int node)
{
    const int best = better_of(o, word, winner(o, word, 2 * node), winner(o, word, 2 * node + 1));
    o->winners[word * 64 + node] = (int8_t)best;
}

/* Updates the tournament tree of a word after the result of a bit has changed. */
MR_INLINED void play_again(mr_outcomes *o, int32_t word, int bit)
{
    for (int node = (64 + bit) / 2; node; node /= 2) play(o, word, node);
}

MR_INLINED void play_all(mr_outcomes *o, int32_t word)
{
    for (int node = 63; node; node--) play(o, word, node);
}

/* The best position of a contiguous range of bits. */
MR_INLINED int best_between(const mr_outcomes *o, int32_t word, uint64_t bits)
{
    int first = 64 + __builtin_ctzll(bits), end = 128 - __builtin_clzll(bits), left = MR_NOBODY, right = MR_NOBODY;
    for (; first < end; first /= 2, end /= 2) {
        if (first & 1) left = better_of(o, word, left, winner(o, word, first++));
        if (end & 1) right = better_of(o, word, winner(o, word, --end), right);
    }
    return better_of(o, word, left, right);
}

MR_DISPATCHED
void mr_outcomes_begin(mr_outcomes *o)
{
    const int32_t words = mr_words(o->n);
    uint8_t is_potential[64];
    o->potentials = o->feasible = 0;
    memset(o->codes + o->n, MR_CODE_UNRESOLVABLE, (size_t)(words * 64 - o->n));
    for (int32_t w = 0; w < words; w++) {
        const uint8_t *codes = o->codes + w * 64;
        int32_t feasible = 0;
        for (int32_t i = 0; i < 64; i++) {
            is_potential[i] = codes[i] == MR_CODE_UNSCHEDULABLE;
            feasible += !codes[i];
        }
        o->potential[w] = mr_bits_of(is_potential);
        o->potentials += mr_bits(o->potential[w]);
        o->feasible += feasible;
    }
    mr_outcomes_forget(o);
}

void mr_outcomes_set_code(mr_outcomes *o, int32_t position, uint8_t code)
{
    const int32_t w = position / 64;
    const uint64_t bit = 1ull << position % 64;
    o->feasible += !code - !o->codes[position];
    o->potentials += (code == MR_CODE_UNSCHEDULABLE) - (o->codes[position] == MR_CODE_UNSCHEDULABLE);
    o->codes[position] = code;
    o->potential[w] = code == MR_CODE_UNSCHEDULABLE ? o->potential[w] | bit : o->potential[w] & ~bit;
    o->known[w] &= ~bit;
    o->clean[w] &= ~bit;
    o->helps[w] &= ~bit;
    if (code != MR_CODE_UNSCHEDULABLE) play_again(o, w, position % 64); /* else a dry run precedes the next read */
}

void mr_outcomes_note(mr_outcomes *o, int32_t position, const mr_eviction *result)
{
    const int32_t w = position / 64;
    const uint64_t bit = 1ull << position % 64;
    o->results[position] = *result;
    o->known[w] |= bit;
    if (!result->verdict && result->victims) {
        o->helps[w] |= bit;
        if (!result->violations) o->clean[w] |= bit;
    }
    play_again(o, w, position % 64);
}

MR_DISPATCHED
void mr_outcomes_try(mr_outcomes *o, const mr_preemptor *p, const mr_pod_span *spans, const mr_pod_entry *entries,
                     int32_t word, uint64_t bits)
{
    uint64_t helps = 0, clean = 0;
    mr_dry_runs(p, p->search->order + word * 64, spans, entries, bits, o->results + word * 64);
    for (uint64_t left = bits; left; left &= left - 1) {
        const mr_eviction *result = &o->results[word * 64 + __builtin_ctzll(left)];
        const uint64_t bit = left & -left & -(uint64_t)(!result->verdict && result->victims);
        helps |= bit;
        clean |= bit & -(uint64_t)(!result->violations);
    }
    o->known[word] |= bits;
    o->helps[word] |= helps;
    o->clean[word] |= clean;
    if (bits & (bits - 1)) play_all(o, word);
    else play_again(o, word, __builtin_ctzll(bits));
}

MR_DISPATCHED
void mr_walk_begin(mr_walk *walk, const mr_outcomes *o, int64_t offset, int32_t percentage, int32_t least)
{
    const int32_t n = o->potentials;
    int64_t wanted = (int64_t)n * percentage / 100;
    int32_t skip = (int32_t)(offset % n), w = 0, here;
    if (skip < 0) skip += n;
    if (wanted < least) wanted = least;
    walk->wanted = percentage < 0 || wanted > n ? n : (int32_t)wanted;
    while (skip >= (here = mr_bits(o->potential[w]))) {
        skip -= here;
        w++;
    }
    walk->first = w * 64 + mr_nth_bit(o->potential[w], skip);
    walk->word = w;
    walk->left = mr_words(o->n) + 1; /* the first word is visited twice, in parts */
    walk->found = walk->clean = 0;
    walk->best = MR_NOBODY;
}

/* The position of a word, as a bit, at which enough positions help; 0 if it is not in this word. */
MR_INLINED uint64_t last_of(const mr_walk *walk, uint64_t helps, uint64_t clean)
{
    const int32_t missing = walk->wanted - walk->found;
    uint64_t enough = 1, harmless = 1;
    if (missing > mr_bits(helps) || (!walk->clean && !clean)) return 0;
    if (missing > 0) enough = 1ull << mr_nth_bit(helps, missing - 1);
    if (!walk->clean) harmless = clean & -clean;
    /* If enough positions help already, the walk ends at the next one that violates no budget. */
    return enough > harmless ? enough : harmless;
}

MR_DISPATCHED
uint64_t mr_walk_on(mr_walk *walk, const mr_outcomes *o)
{
    const int32_t words = mr_words(o->n);
    for (; walk->left > 0; walk->left--, walk->word = walk->word + 1 == words ? 0 : walk->word + 1) {
        const int32_t w = walk->word;
        const uint64_t from = ~0ull << walk->first % 64;
        uint64_t part = walk->left == words + 1 ? from : walk->left == 1 ? ~from : ~0ull;
        const uint64_t unknown = o->potential[w] & part & ~o->known[w];
        if (unknown) return unknown;
        const uint64_t last = last_of(walk, o->helps[w] & part, o->clean[w] & part);
        if (last) part &= last | (last - 1);
        const int best = !part ? MR_NOBODY : part == ~0ull ? winner(o, w, 1) : best_between(o, w, part);
        if (best != MR_NOBODY
            && (walk->best == MR_NOBODY || mr_is_better(&o->results[w * 64 + best], &o->results[walk->best])))
            walk->best = w * 64 + best;
        walk->found += mr_bits(o->helps[w] & part);
        walk->clean |= (o->clean[w] & part) != 0;
        if (last) walk->left = 1;
    }
    return 0;
}

#include "preemption.h"

#include <string.h>

void mr_outcomes_forget(mr_outcomes *o)
{
    const size_t bytes = (size_t)mr_words(o->n) * sizeof(uint64_t);
    memset(o->known, 0, bytes);
    memset(o->helps, 0, bytes);
    memset(o->clean, 0, bytes);
    for (int32_t w = 0; w < mr_words(o->n); w++) o->best[w] = MR_NOBODY;
}

void mr_outcomes_begin(mr_outcomes *o)
{
    const int32_t words = mr_words(o->n);
    uint8_t is_potential[64];
    o->potentials = o->feasible = 0;
    memset(o->codes + o->n, MR_HOPELESS, (size_t)(words * 64 - o->n));
    for (int32_t w = 0; w < words; w++) {
        const uint8_t *codes = o->codes + w * 64;
        int32_t feasible = 0;
        for (int32_t i = 0; i < 64; i++) {
            is_potential[i] = codes[i] == MR_HELPABLE;
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
    o->potentials += (code == MR_HELPABLE) - (o->codes[position] == MR_HELPABLE);
    o->codes[position] = code;
    o->potential[w] = code == MR_HELPABLE ? o->potential[w] | bit : o->potential[w] & ~bit;
    o->known[w] &= ~bit;
    o->helps[w] &= ~bit;
    o->clean[w] &= ~bit;
    if (o->best[w] == position) o->best[w] = MR_STALE;
}

void mr_outcomes_note(mr_outcomes *o, int32_t position, const mr_eviction *result)
{
    const int32_t w = position / 64, best = o->best[w];
    const uint64_t bit = 1ull << position % 64;
    o->results[position] = *result;
    o->known[w] |= bit;
    if (result->verdict || !result->victims) return;
    o->helps[w] |= bit;
    if (!result->violations) o->clean[w] |= bit;
    if (best == MR_STALE) return;
    if (best == MR_NOBODY || mr_is_better(result, &o->results[best])
        || (position < best && !mr_is_better(&o->results[best], result)))
        o->best[w] = position;
}

/* The best of those positions of a word, the first of equal ones. */
MR_INLINED int32_t best_of(const mr_outcomes *o, int32_t word, uint64_t bits)
{
    int32_t best = MR_NOBODY;
    for (; bits; bits &= bits - 1) {
        const int32_t at = word * 64 + __builtin_ctzll(bits);
        if (best == MR_NOBODY || mr_is_better(&o->results[at], &o->results[best])) best = at;
    }
    return best;
}

MR_DISPATCHED
void mr_outcomes_try(mr_outcomes *o, const mr_preemptor *p, const mr_stretch *stretches, const mr_resident *residents,
                     int32_t word, uint64_t bits)
{
    uint64_t helps = 0, clean = 0;
    mr_dry_runs(p, p->search->order + word * 64, stretches, residents, bits, o->results + word * 64);
    for (uint64_t left = bits; left; left &= left - 1) {
        const mr_eviction *result = &o->results[word * 64 + __builtin_ctzll(left)];
        const uint64_t bit = left & -left & -(uint64_t)(!result->verdict && result->victims);
        helps |= bit;
        clean |= bit & -(uint64_t)(!result->violations);
    }
    o->known[word] |= bits;
    o->helps[word] |= helps;
    o->clean[word] |= clean;
    if (helps && o->best[word] != MR_STALE) o->best[word] = best_of(o, word, o->helps[word]);
}

/* The same with what is kept. */
MR_INLINED int32_t best_within(mr_outcomes *o, int32_t word, uint64_t bits)
{
    if (o->best[word] == MR_STALE) o->best[word] = best_of(o, word, o->helps[word]);
    const int32_t best = o->best[word];
    if (best != MR_NOBODY && bits >> best % 64 & 1) return best;
    return bits ? best_of(o, word, bits) : MR_NOBODY;
}

/* The bit number k, from 0, of those that are set. */
MR_INLINED uint64_t nth_bit(uint64_t bits, int32_t k)
{
    for (; k; k--) bits &= bits - 1;
    return bits & -bits;
}

void mr_walk_begin(mr_walk *walk, const mr_outcomes *o, int64_t offset, int32_t percentage, int32_t least)
{
    const int32_t n = o->potentials;
    int64_t wanted = (int64_t)n * percentage / 100;
    int32_t skip = (int32_t)(offset % n), w = 0, here;
    if (wanted < least) wanted = least;
    walk->wanted = percentage < 0 || wanted > n ? n : (int32_t)wanted;
    while (skip >= (here = mr_bits(o->potential[w]))) {
        skip -= here;
        w++;
    }
    walk->first = w * 64 + __builtin_ctzll(nth_bit(o->potential[w], skip));
    walk->word = w;
    walk->left = mr_words(o->n) + 1; /* the first one comes twice, in parts */
    walk->found = walk->clean = walk->dry_runs = 0;
    walk->best = MR_NOBODY;
}

/* The last position of a word, as a bit, at which those that help are enough; 0 where they are not. */
MR_INLINED uint64_t last_of(const mr_walk *walk, uint64_t helps, uint64_t clean)
{
    const int32_t missing = walk->wanted - walk->found;
    uint64_t enough = 1, harmless = 1;
    if (missing > mr_bits(helps) || (!walk->clean && !clean)) return 0;
    if (missing > 0) enough = nth_bit(helps, missing - 1);
    if (!walk->clean) harmless = clean & -clean;
    /* Enough before this word: it ends on the next one that helps and violates nothing. */
    return enough > harmless ? enough : harmless;
}

MR_DISPATCHED
uint64_t mr_walk_on(mr_walk *walk, mr_outcomes *o)
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
        const uint64_t helps = o->helps[w] & part;
        const int32_t best = best_within(o, w, helps);
        if (best != MR_NOBODY
            && (walk->best == MR_NOBODY || mr_is_better(&o->results[best], &o->results[walk->best])))
            walk->best = best;
        walk->found += mr_bits(helps);
        walk->clean |= (o->clean[w] & part) != 0;
        walk->dry_runs += mr_bits(o->potential[w] & part);
        if (last) walk->left = 1;
    }
    return 0;
}

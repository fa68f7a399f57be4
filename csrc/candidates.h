/* Candidates: what a decision about a pod of one class needs to know of every node, in list order, kept so that a change
 * of one row changes one position and no decision looks at all of them again.
 *
 * What depends on a row alone is its total. All else, which scores and filters take from other rows too, is the same
 * for all rows of a bucket: those with equal raw scores of TaintToleration and NodeAffinity, in the same domains, with as
 * many pods where a node is its own domain. It is found out per bucket and decision, by looking at one row of each. */
#ifndef MOORAGE_CANDIDATES_H
#define MOORAGE_CANDIDATES_H

#include <string.h>

#include "scan.h"

#define MR_LANES 64  /* positions per block; a superblock has as many blocks */
#define MR_COUNTED 8 /* blocks per count of feasible positions */
#define MR_CANDIDATE_LIMIT 32000 /* totals fit 16 bits below it */
#define MR_BUCKETS 256    /* at most */
#define MR_FEW_DOMAINS 64 /* a label with more values is not part of a bucket's key */
#define MR_KEY 16         /* numbers in a bucket's key */

/* What the key of a bucket consists of, in order. */
typedef struct {
    int32_t taints, affinity; /* 1: the raw score of TaintToleration, of NodeAffinity */
    int32_t n_domains;        /* the domains of the row for labels with few values */
    int32_t n_counts;         /* pods where a node is its own domain, of hard and of soft constraints */
    int32_t flags;            /* 1: of such domains, whether affinity terms are met, and anti-affinity terms */
    int32_t sum;              /* 1: of such domains, the sum over preferred terms (two numbers) */
    int32_t alone;            /* 1: other counters are read of domains that must be single rows */
    int32_t size;             /* numbers in all; more than MR_KEY where there is no room for all */
    const int32_t *domains[MR_KEY]; /* [row] */
} mr_bucket_key;

typedef struct {
    mr_search search;  /* without what depends on other rows */
    mr_local local;
    mr_bucket_key key;
    mr_terms *terms;   /* what depends on other rows */
    int16_t *totals;   /* [position] total + 1, 0 where infeasible; whole superblocks, the rest 0 */
    int16_t *bucket;   /* [position] where feasible */
    int16_t *blocks;   /* [block][stride] largest total of a bucket */
    int16_t *supers;   /* [superblock][stride] largest total */
    uint64_t *fits;    /* [block][stride] a bit per feasible position */
    uint16_t *counts;  /* [block / MR_COUNTED][stride] feasible positions */
    int32_t *keys;     /* [bucket][MR_KEY] */
    uint32_t *hashes;  /* [bucket] of its key */
    int32_t *feasible; /* [bucket] positions; a bucket without any is free */
    int32_t *member;   /* [bucket] one of its positions, if it still is one */
    int32_t stride;    /* buckets that there is room for */
    int32_t used;      /* buckets from here on have never been used */
    int32_t n;         /* positions */
    int32_t state;     /* one of the below */
    int64_t cursor;    /* how far the change log has been read */
} mr_candidates;

/* How many are set. Where the processor counts them itself, the compiler sees that this is it. */
MR_INLINED int32_t mr_bits(uint64_t w)
{
    w -= (w >> 1) & 0x5555555555555555ull;
    w = (w & 0x3333333333333333ull) + ((w >> 2) & 0x3333333333333333ull);
    return (int32_t)((((w + (w >> 4)) & 0x0F0F0F0F0F0F0F0Full) * 0x0101010101010101ull) >> 56);
}

/* The largest of `max` and the values. */
MR_INLINED int16_t mr_largest(const int16_t *restrict values, int32_t n, int16_t max)
{
    for (int32_t i = 0; i < n; i++) max = values[i] > max ? values[i] : max;
    return max;
}

/* Place of the k-th bit that is set, counted from 0. */
MR_INLINED int32_t mr_nth_bit(uint64_t w, int32_t k)
{
    int32_t place = 0;
    for (int32_t half = 32; half; half >>= 1) {
        int32_t low = mr_bits(w & ((1ull << half) - 1));
        int up = k >= low;
        k -= up ? low : 0;
        place += up ? half : 0;
        w >>= up ? half : 0;
    }
    return place;
}

/* Bytes of 0 or 1 as bits: a product collects eight. */
MR_INLINED uint64_t mr_bits_of(const uint8_t *bytes)
{
    uint64_t word = 0, eight;
    for (int32_t i = 0; i < MR_LANES; i += 8) {
        memcpy(&eight, bytes + i, sizeof eight);
        word |= eight * 0x0102040810204080ull >> 56 << i;
    }
    return word;
}

static inline int32_t mr_blocks_of(const mr_candidates *c)
{
    return (c->n + MR_LANES - 1) / MR_LANES;
}

enum {
    MR_UNMADE,
    MR_VALID,
    MR_MORE_BUCKETS, /* than there is room for: to be built again with more */
    MR_UNSUITED      /* totals out of range, too many buckets, or domains that are neither few nor single rows */
};

/* The change log, and where the rows are that it names. */
typedef struct {
    const uint8_t *kind; /* MR_LOG_…; what comes after those concerns no row */
    const int32_t *id;
    int64_t mask, head;  /* entry i is at i & mask */
    const int32_t *position; /* [row] position + 1, 0 where it has none */
    int32_t rows;
} mr_changes;
enum { MR_LOG_ROW, MR_LOG_STATIC, MR_LOG_ORDER };

/* 1 where the plan can be decided by candidates: no plugin is asked that is no kernel here. */
int mr_candidates_suit(const mr_search *search);

/* Points candidates at a search, whose memory may have moved. They are unmade where the keys of buckets consist of other
 * numbers than before. */
void mr_candidates_point(mr_candidates *candidates, const mr_search *search);

/* Points the arrays, for search.n positions and so many buckets, into `memory`; answers its bytes, which are to be 0.
 * NULL: only answers. */
size_t mr_candidates_layout(mr_candidates *candidates, char *memory, int32_t stride);

/* Fills everything as of now; the arrays are zero before. `lanes` and `seen` are scratch, as in mr_found. Answers
 * whether several threads took part. */
int mr_candidates_build(mr_candidates *candidates, const mr_changes *changes, int32_t *lanes, uint8_t *seen);

/* The row at a position has changed, or the pods nominated to it have: takes over what it is now. */
void mr_candidates_refresh(mr_candidates *candidates, int32_t position);

/* Takes over what has changed since the last time. */
void mr_candidates_follow(mr_candidates *candidates, const mr_changes *changes);

/* Decides from `start` as mr_search_run and mr_pick_first or, with `heap`, mr_pick_heap do. The terms are prepared. */
void mr_candidates_decide(mr_candidates *candidates, int32_t start, int32_t wanted, int heap, uint8_t *seen,
                          mr_decision *decision);

#endif

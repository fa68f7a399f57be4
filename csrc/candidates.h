/* Candidates: the cached evaluation of every node for pods of one class, in list order. A change of a row updates one
 * position, so that a decision need not evaluate all nodes again.
 *
 * The part of an evaluation that depends on the row alone is its total. The other part, which scores and filters
 * derive from other rows too, is the same for all rows of a bucket: rows with equal raw scores of TaintToleration and
 * NodeAffinity, in the same domains and, for topology keys whose domains are single nodes, with equal numbers of
 * matching pods. A decision evaluates this part once per bucket, on one row of it. */
#ifndef MOORAGE_CANDIDATES_H
#define MOORAGE_CANDIDATES_H

#include "scan.h"

#define MR_COUNTED 8 /* blocks per count of feasible positions; MR_LANES of them are a superblock */
#define MR_BUCKETS 256    /* maximum number of buckets */
#define MR_FEW_DOMAINS 64 /* a label with more values is not part of the key of a bucket */
#define MR_KEY 16         /* maximum number of integers in the key of a bucket */

/* The composition of the key of a bucket, in order. */
typedef struct {
    int32_t taints, affinity; /* 1: the raw score of TaintToleration, of NodeAffinity */
    int32_t n_domains;        /* the domains of the row for labels with few values */
    int32_t n_counts;         /* single-node domains: matching pods, of hard and of soft constraints */
    int32_t flags;            /* 1: single-node domains: whether affinity and anti-affinity terms are met */
    int32_t sum;              /* 1: single-node domains: the sum over preferred terms (two integers) */
    int32_t alone;            /* 1: other counters are read, whose domains must be single rows */
    int32_t size;             /* number of integers; more than MR_KEY if they do not fit */
    const int32_t *domains[MR_KEY]; /* [row] */
} mr_bucket_key;

typedef struct {
    mr_search search;  /* without terms */
    mr_local local;
    mr_bucket_key key;
    mr_terms *terms;   /* constraints and terms, which depend on other rows */
    int16_t *totals;   /* [position] total + 1, 0 where infeasible; whole superblocks, the rest 0 */
    int16_t *bucket;   /* [position] where feasible */
    int16_t *blocks;   /* [block][stride] largest total of a bucket */
    int16_t *supers;   /* [superblock][stride] largest total */
    uint64_t *fits;    /* [block][stride] a bit per feasible position */
    uint64_t *tops;    /* [block][stride] a bit per position with the largest total of the bucket in the block */
    uint16_t *counts;  /* [block / MR_COUNTED][stride] feasible positions */
    int32_t *keys;     /* [bucket][MR_KEY] */
    uint32_t *hashes;  /* [bucket] of its key */
    int32_t *feasible; /* [bucket] number of feasible positions; 0: the bucket is free */
    int32_t *member;   /* [bucket] a hint: one of its positions, unless it has left the bucket since */
    int32_t stride;    /* allocated buckets */
    int32_t used;      /* buckets from here on have never been used */
    int32_t n;         /* positions */
    int32_t state;     /* MR_UNMADE, MR_VALID, … */
    int64_t cursor;    /* sequence number up to which the change log has been read */
} mr_candidates;

/* The arrays of blocks, if there is one bucket. */
static inline mr_blocks mr_one_bucket(const mr_candidates *c)
{
    return (mr_blocks){c->totals, c->blocks, c->fits, c->tops};
}

/* Number of blocks. */
static inline int32_t mr_blocks_of(const mr_candidates *c)
{
    return (c->n + MR_LANES - 1) / MR_LANES;
}

enum {
    MR_UNMADE,       /* must be built */
    MR_VALID,
    MR_MORE_BUCKETS, /* must be built again with more buckets */
    MR_UNSUITED      /* totals out of range, too many buckets, or domains that are neither few nor single rows */
};

/* The change log, and the positions of rows in the list. */
typedef struct {
    const uint8_t *kind; /* MR_LOG_ROW …; the ids of later kinds are not rows */
    const int32_t *id;
    int64_t mask, head;  /* entry i is at i & mask */
    const int32_t *position; /* [row] position + 1; 0 if the row is not in the list */
    int32_t rows;
} mr_changes;
enum { MR_LOG_ROW, MR_LOG_STATIC, MR_LOG_ORDER };

/* 1 if candidates can decide the plan: all its plugins are kernels. */
int mr_candidates_suit(const mr_search *search);

/* Sets the pointers to a search, whose memory may have moved. The state becomes MR_UNMADE if the composition of the
 * keys has changed. */
void mr_candidates_point(mr_candidates *candidates, const mr_search *search);

/* Sets the pointers to the arrays, for search.n positions and `stride` buckets, in `memory`, which must be zeroed.
 * Returns the number of bytes; with memory NULL it does nothing else. */
size_t mr_candidates_layout(mr_candidates *candidates, char *memory, int32_t stride);

/* Sets the total of a position that remains feasible, if there is one bucket. */
void mr_candidates_lower(mr_candidates *candidates, int32_t position, int16_t total);

/* Evaluates all positions; the arrays must be zeroed. `lanes` and `seen` are scratch, as in mr_found. Returns 1 if
 * several threads took part. */
int mr_candidates_build(mr_candidates *candidates, const mr_changes *changes, int32_t *lanes, uint8_t *seen);

#ifdef MR_DEBUG
/* Asserts that the cached evaluation of every position is what an evaluation yields now. */
void mr_candidates_check(const mr_candidates *candidates);
#else
#define mr_candidates_check(candidates) ((void)(candidates))
#endif

/* Evaluates a position again, whose row or nominated pods have changed. */
void mr_candidates_refresh(mr_candidates *candidates, int32_t position);

/* Evaluates the positions again whose rows have changed since the last call. */
void mr_candidates_follow(mr_candidates *candidates, const mr_changes *changes);

/* Decides as mr_candidates_decide by a scan: the blocks of the window are written to `room`, candidates with one bucket
 * for as many positions as the search has, whose cached evaluation does not matter. Their totals are upper bounds; the
 * exact total of the choice is computed, and if it is less, another choice is made. mr_scan_suits must hold. */
int mr_scan_decide(mr_candidates *room, const mr_local *local, int32_t start, int32_t wanted, int heap,
                   mr_decision *decision);

/* Decides from `start` as mr_search_run and mr_pick_first (with `heap`: mr_pick_heap) do. Terms must be prepared. */
void mr_candidates_decide(mr_candidates *candidates, int32_t start, int32_t wanted, int heap, uint8_t *seen,
                          mr_decision *decision);

#endif

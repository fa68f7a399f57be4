/* Preemption over all nodes: outcomes of dry runs, cached for the next pod of a class, and the choice among them. */
#ifndef MOORAGE_PREEMPTION_H
#define MOORAGE_PREEMPTION_H

#include "candidates.h"
#include "dry_run.h"

#define MR_NOBODY (-1)

/* The outcomes of dry runs by position. Sets of positions are bit sets in words of 64. */
typedef struct {
    uint8_t *codes;       /* [position] code of the filters' verdict; allocated in whole words */
    mr_eviction *results; /* [position] valid if known */
    uint64_t *potential;  /* positions with the code MR_CODE_UNSCHEDULABLE */
    uint64_t *known;      /* positions with a result */
    uint64_t *helps;      /* positions where evicting pods makes room */
    uint64_t *clean;      /* those of them that violate no disruption budget */
    int8_t *winners;      /* [word][64] tournament tree for the best position of a word (preemption.c) */
    int32_t n;            /* number of positions */
    int32_t potentials;   /* number of positions with MR_CODE_UNSCHEDULABLE */
    int32_t feasible;     /* number of positions with code 0 */
} mr_outcomes;

/* An iteration over the potential positions, circular from one of them, until enough of them help. */
typedef struct {
    int32_t wanted;   /* number of positions that help at which it ends */
    int32_t first;    /* first position */
    int32_t word;     /* next word */
    int32_t left;     /* number of remaining words */
    int32_t found;    /* number of positions that help so far */
    int32_t clean;    /* 1 if one of them violates no budget */
    int32_t best;     /* best position so far, or MR_NOBODY */
} mr_walk;

/* Number of words for n positions. */
static inline int32_t mr_words(int32_t n)
{
    return (n + 63) / 64;
}

/* Initializes the sets from `codes`; no result is known. */
void mr_outcomes_begin(mr_outcomes *outcomes);

/* Sets the code of a position whose row has changed, and discards its result. */
void mr_outcomes_set_code(mr_outcomes *outcomes, int32_t position, uint8_t code);

/* Discards all results; the codes remain. */
void mr_outcomes_forget(mr_outcomes *outcomes);

/* Stores the result of a dry run. */
void mr_outcomes_note(mr_outcomes *outcomes, int32_t position, const mr_eviction *result);

/* Runs and stores dry runs of the positions of a word that are set in `bits`. The pods of their rows must have been
 * read, and there must be no nominated pods. */
void mr_outcomes_try(mr_outcomes *outcomes, const mr_preemptor *preemptor, const mr_pod_span *spans,
                     const mr_pod_entry *entries, int32_t word, uint64_t bits);

/* Begins at the potential position with index `offset` modulo their number, which must not be 0 (kube-scheduler v1.36,
 * GetOffsetAndNumCandidates). It wants `percentage` percent of the potential positions, at least `least`; a negative
 * percentage means all. */
void mr_walk_begin(mr_walk *walk, const mr_outcomes *outcomes, int64_t offset, int32_t percentage, int32_t least);

/* Continues. Returns, as bits of walk->word, the positions whose dry runs must be stored before the next call; 0 at the
 * end, when enough positions help and one of them violates no budget, or when all have been visited. */
uint64_t mr_walk_on(mr_walk *walk, const mr_outcomes *outcomes);

#endif

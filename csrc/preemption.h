/* Preemption over all nodes: what dry runs came to, kept for the next pod of a class, and the choice among them. */
#ifndef MOORAGE_PREEMPTION_H
#define MOORAGE_PREEMPTION_H

#include "candidates.h"
#include "dry_run.h"

#define MR_NOBODY (-1)

/* Per position of a list, and in words of 64 positions. */
typedef struct {
    uint8_t *codes;       /* [position] code of the filters' verdict; room for whole words */
    mr_eviction *results; /* [position] where known */
    uint64_t *potential;  /* the code is MR_CODE_UNSCHEDULABLE */
    uint64_t *known;      /* a dry run has been made */
    uint64_t *helps;      /* and evicting pods helps */
    uint64_t *clean;      /* and violates no budget */
    int8_t *winners;      /* [word][64] who is the best of those that help, as bits: a tournament (preemption.c) */
    int32_t n;            /* positions */
    int32_t potentials;   /* with MR_CODE_UNSCHEDULABLE */
    int32_t feasible;     /* with code 0 */
} mr_outcomes;

/* A walk from one potential position on, round the list, until enough of them help. */
typedef struct {
    int32_t wanted;   /* positions that help */
    int32_t first;    /* position */
    int32_t word;     /* the word that comes next */
    int32_t left;     /* words */
    int32_t found;    /* positions that help so far */
    int32_t clean;    /* 1 where one of them violates no budget */
    int32_t best;     /* position, or MR_NOBODY */
} mr_walk;

static inline int32_t mr_words(int32_t n)
{
    return (n + 63) / 64;
}

/* Has the codes taken over: all else is unknown. */
void mr_outcomes_begin(mr_outcomes *outcomes);

/* The code of a position is another one, or its row has changed: what was known of it is not. */
void mr_outcomes_set_code(mr_outcomes *outcomes, int32_t position, uint8_t code);

/* Nothing is known any more but the codes. */
void mr_outcomes_forget(mr_outcomes *outcomes);

/* Notes what a dry run came to. */
void mr_outcomes_note(mr_outcomes *outcomes, int32_t position, const mr_eviction *result);

/* Dry runs of positions of a word, as bits, noted. The pods of their rows have been read, and nobody is nominated. */
void mr_outcomes_try(mr_outcomes *outcomes, const mr_preemptor *preemptor, const mr_pod_span *spans,
                     const mr_pod_entry *entries, int32_t word, uint64_t bits);

/* Begins at the potential position of this index, modulo their number, which is not 0 (kube-scheduler v1.36,
 * GetOffsetAndNumCandidates): enough are `percentage` of the potential ones, `least` at least; all for a negative
 * percentage. */
void mr_walk_begin(mr_walk *walk, const mr_outcomes *outcomes, int64_t offset, int32_t percentage, int32_t least);

/* Goes on. Answers the positions whose dry runs have to be noted before it can, as bits of walk->word; 0 where it has
 * ended: one of the positions that help violates no budget and they are enough, or all have been walked over. */
uint64_t mr_walk_on(mr_walk *walk, const mr_outcomes *outcomes);

#endif

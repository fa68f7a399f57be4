#include "tally.h"

/* Counts a verdict, or no longer. */
static void count(mr_tally *t, uint64_t verdict, int32_t sign)
{
    int32_t at = 0;
    while (at < t->used && t->values[at] != verdict) at++;
    if (at == MR_TALLIED) {
        t->state = MR_UNSUITED;
        return;
    }
    if (at == t->used) {
        t->values[t->used] = verdict;
        t->counts[t->used++] = 0;
    }
    t->counts[at] += sign;
}

static uint64_t verdict_of(const mr_search *s, int32_t position)
{
    return mr_verdict(s->plan, s->cluster, s->shape, &s->pod, s->order[position]);
}

static void look_at(mr_tally *t, const mr_search *search, int32_t first, int32_t n)
{
    for (int32_t at = first; at < first + n; at++) t->verdicts[at] = verdict_of(search, at);
}

void mr_tally_build(mr_tally *t, const mr_search *search, const mr_changes *changes)
{
    const int32_t n = t->n = search->n;
    t->used = 0;
    t->state = MR_KEPT;
    t->cursor = changes->head;
#define BLOCK(first) look_at(t, search, first, n - (first) < MR_BLOCK ? n - (first) : MR_BLOCK)
    MR_EACH_BLOCK(BLOCK);
    for (int32_t at = 0; at < n; at++) count(t, t->verdicts[at], 1);
}

void mr_tally_follow(mr_tally *t, const mr_search *search, const mr_changes *changes)
{
    const mr_terms *terms = search->pod.terms;
    const int in_domains = terms && (terms->n_hard || terms->n_affinity || terms->n_anti || terms->n_existing);
    if (t->cursor == changes->head) return;
    if (in_domains || changes->head - t->cursor > changes->mask + 1) t->state = MR_UNMADE;
    for (; t->cursor < changes->head && t->state == MR_KEPT; t->cursor++) {
        const int32_t row = changes->id[t->cursor & changes->mask], kind = changes->kind[t->cursor & changes->mask];
        if (kind == MR_LOG_ORDER) t->state = MR_UNMADE;
        if (kind >= MR_LOG_ORDER || row >= changes->rows || !changes->position[row]) continue;
        const int32_t at = changes->position[row] - 1;
        MR_DEBUG_BELOW(at, t->n, "position of verdicts");
        const uint64_t verdict = verdict_of(search, at);
        count(t, t->verdicts[at], -1);
        count(t, verdict, 1);
        t->verdicts[at] = verdict;
    }
    if (t->state == MR_UNMADE) mr_tally_build(t, search, changes);
}

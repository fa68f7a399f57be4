#include "dry_run.h"

#include <string.h>

/* Priorities of the pods of each class, and of each unit. */
typedef struct {
    const mr_class_usage *usages;
    const mr_unit *units;
} ranks;

/* Whether a must precede b, which preceded it so far; one of them is a unit. */
static int unit_goes_before(const mr_pod_entry *a, const mr_pod_entry *b, ranks of)
{
    const mr_unit pod_a = {.count = 0, .priority = a->pod_class < 0 ? 0 : of.usages[a->pod_class].priority};
    const mr_unit pod_b = {.count = 0, .priority = b->pod_class < 0 ? 0 : of.usages[b->pod_class].priority};
    const mr_unit *ours = a->pod_class < 0 ? &of.units[mr_unit_of(a)] : &pod_a;
    const mr_unit *theirs = b->pod_class < 0 ? &of.units[mr_unit_of(b)] : &pod_b;
    if (ours->priority != theirs->priority) return ours->priority > theirs->priority;
    if (ours->count != theirs->count) return ours->count > theirs->count;
    return a->start < b->start;
}

/* Whether a must precede b, which preceded it so far. */
static inline int goes_before(const mr_pod_entry *a, const mr_pod_entry *b, ranks of)
{
    if (a->pod_class < 0 || b->pod_class < 0) return unit_goes_before(a, b, of);
    const int32_t ours = of.usages[a->pod_class].priority, theirs = of.usages[b->pod_class].priority;
    return ours != theirs ? ours > theirs : a->start < b->start;
}

#define FEW 16

static void insert_each(mr_pod_entry *pods, int32_t n, ranks of)
{
    for (int32_t i = 1; i < n; i++) {
        const mr_pod_entry pod = pods[i];
        int32_t at = i;
        for (; at && goes_before(&pod, &pods[at - 1], of); at--) pods[at] = pods[at - 1];
        pods[at] = pod;
    }
}

static void merge(const mr_pod_entry *from, int32_t middle, int32_t end, mr_pod_entry *to, ranks of)
{
    int32_t a = 0, b = middle;
    for (int32_t at = 0; at < end; at++) {
        const int second = a == middle || (b < end && goes_before(&from[b], &from[a], of));
        to[at] = second ? from[b++] : from[a++];
    }
}

void mr_sort_pod_entries(mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch, const mr_class_usage *usages,
                         const mr_unit *units)
{
    const ranks of = {usages, units};
    mr_pod_entry *from = pods, *to = scratch;
    for (int32_t at = 0; at < n; at += FEW) insert_each(pods + at, n - at < FEW ? n - at : FEW, of);
    for (int32_t width = FEW; width < n; width *= 2) {
        for (int32_t at = 0; at < n; at += 2 * width) {
            const int32_t left = n - at;
            merge(from + at, left < width ? left : width, left < 2 * width ? left : 2 * width, to + at, of);
        }
        mr_pod_entry *other = from;
        from = to;
        to = other;
    }
    if (from != pods) memcpy(pods, from, (size_t)n * sizeof *pods);
}

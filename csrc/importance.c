#include "dry_run.h"

#include <string.h>

/* Whether a must precede b, which preceded it so far. */
static inline int goes_before(const mr_pod_entry *a, const mr_pod_entry *b, const mr_class_usage *usages)
{
    const int32_t ours = usages[a->pod_class].priority, theirs = usages[b->pod_class].priority;
    return ours != theirs ? ours > theirs : a->start < b->start;
}

#define FEW 16

static void insert_each(mr_pod_entry *pods, int32_t n, const mr_class_usage *usages)
{
    for (int32_t i = 1; i < n; i++) {
        const mr_pod_entry pod = pods[i];
        int32_t at = i;
        for (; at && goes_before(&pod, &pods[at - 1], usages); at--) pods[at] = pods[at - 1];
        pods[at] = pod;
    }
}

static void merge(const mr_pod_entry *from, int32_t middle, int32_t end, mr_pod_entry *to, const mr_class_usage *usages)
{
    int32_t a = 0, b = middle;
    for (int32_t at = 0; at < end; at++) {
        const int second = a == middle || (b < end && goes_before(&from[b], &from[a], usages));
        to[at] = second ? from[b++] : from[a++];
    }
}

void mr_sort_pod_entries(mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch, const mr_class_usage *usages)
{
    mr_pod_entry *from = pods, *to = scratch;
    for (int32_t at = 0; at < n; at += FEW) insert_each(pods + at, n - at < FEW ? n - at : FEW, usages);
    for (int32_t width = FEW; width < n; width *= 2) {
        for (int32_t at = 0; at < n; at += 2 * width) {
            const int32_t left = n - at;
            merge(from + at, left < width ? left : width, left < 2 * width ? left : 2 * width, to + at, usages);
        }
        mr_pod_entry *other = from;
        from = to;
        to = other;
    }
    if (from != pods) memcpy(pods, from, (size_t)n * sizeof *pods);
}

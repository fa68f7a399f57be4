/* Calls of plugins with the public C ABI (moorage/plugin.h). */
#ifndef MOORAGE_NATIVE_H
#define MOORAGE_NATIVE_H

#include <stddef.h>

#include "moorage/plugin.h"
#include "state.h"

#define MR_SAME(theirs, ours) (offsetof(moorage_row, theirs) == offsetof(mr_row, ours))
_Static_assert(sizeof(moorage_row) == sizeof(mr_row), "plugins read the rows of the node table");
_Static_assert(MR_SAME(allocatable_cpu, alloc_cpu) && MR_SAME(allocatable_memory, alloc_memory), "allocatable");
_Static_assert(MR_SAME(requested_cpu, req_cpu) && MR_SAME(requested_memory, req_memory), "requested");
_Static_assert(MR_SAME(nonzero_cpu, nonzero_cpu) && MR_SAME(nonzero_memory, nonzero_memory), "non-zero requested");
_Static_assert(MR_SAME(pods, pods) && MR_SAME(pods_max, pods_max) && MR_SAME(flags, flags), "pods and flags");
_Static_assert(MOORAGE_FIELDS == MR_FIELDS, "the columns of wide rows");
_Static_assert(MOORAGE_PRESENT == MR_PRESENT && MOORAGE_UNSCHEDULABLE_NODE == MR_UNSCHEDULABLE, "flags");
_Static_assert(MOORAGE_WIDE == MR_WIDE, "flags");

/* Kinds of failures of a plugin. */
enum {
    MR_NATIVE_FINE,      /* no failure */
    MR_NATIVE_FILTER,    /* filter returned an error */
    MR_NATIVE_CODE,      /* the code `value` for `row` is not a code of Filter */
    MR_NATIVE_SCORE,     /* score returned an error */
    MR_NATIVE_NORMALIZE, /* normalize returned an error */
    MR_NATIVE_RANGE      /* the score `value` of `row` is not in 0..100 */
};

/* The view of one search that a plugin receives, and its failure. */
typedef struct {
    moorage_context context;
    moorage_class pod;
    int32_t failure, row;
    int64_t value; /* the wrong code or score, or the error that the function returned */
    char error[MOORAGE_ERROR_SIZE];
} mr_native_view;

/* Minimum of struct_size: the size of struct moorage_plugin in the first version. */
#define MR_NATIVE_FIRST_SIZE (offsetof(struct moorage_plugin, values) + sizeof(const char *const *))

/* The functions of an mr_external whose context is a struct moorage_plugin and whose view is an mr_native_view. */
int mr_native_filter(void *plugin, void *view, const int32_t *rows, int32_t n, uint8_t *codes);
int mr_native_score(void *plugin, void *view, const int32_t *rows, int32_t n, int64_t *scores);

/* The two steps of mr_native_score: calls of score and of normalize. */
int mr_native_raw(void *plugin, void *view, const int32_t *rows, int32_t n, int64_t *scores);
int mr_native_normalize(void *plugin, void *view, const int32_t *rows, int32_t n, int64_t *scores);

#endif

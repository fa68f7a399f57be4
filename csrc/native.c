#include "native.h"

#include <string.h>

/* Clears the error text before a call. */
static mr_native_view *ready(mr_native_view *view)
{
    view->error[0] = 0;
    return view;
}

/* Records a failure, which is one for all rows of the call. */
static int fail(mr_native_view *view, int32_t failure, int32_t row, int64_t value)
{
    view->failure = failure;
    view->row = row;
    view->value = value;
    view->error[MOORAGE_ERROR_SIZE - 1] = 0;
    return MR_FAILED + 1;
}

int mr_native_filter(void *plugin, void *view, const int32_t *rows, int32_t n, uint8_t *codes)
{
    const struct moorage_plugin *p = plugin;
    mr_native_view *v = ready(view);
    memset(codes, MOORAGE_SUCCESS, (size_t)n);
    int answer = p->filter(&v->context, &v->pod, rows, n, codes);
    if (answer) return fail(v, MR_NATIVE_FILTER, -1, answer);
    for (int32_t i = 0; i < n; i++)
        if (codes[i] != MOORAGE_SUCCESS && codes[i] != MOORAGE_UNSCHEDULABLE
            && codes[i] != MOORAGE_UNSCHEDULABLE_AND_UNRESOLVABLE)
            return fail(v, MR_NATIVE_CODE, rows[i], codes[i]);
    return 0;
}

int mr_native_raw(void *plugin, void *view, const int32_t *rows, int32_t n, int64_t *scores)
{
    const struct moorage_plugin *p = plugin;
    mr_native_view *v = ready(view);
    memset(scores, 0, (size_t)n * sizeof *scores);
    int answer = p->score(&v->context, &v->pod, rows, n, scores);
    return answer ? fail(v, MR_NATIVE_SCORE, -1, answer) : 0;
}

int mr_native_normalize(void *plugin, void *view, const int32_t *rows, int32_t n, int64_t *scores)
{
    const struct moorage_plugin *p = plugin;
    mr_native_view *v = ready(view);
    int answer = p->normalize ? p->normalize(&v->context, &v->pod, scores, n) : 0;
    if (answer) return fail(v, MR_NATIVE_NORMALIZE, -1, answer);
    for (int32_t i = 0; i < n; i++)
        if (scores[i] < 0 || scores[i] > MOORAGE_MAX_SCORE) return fail(v, MR_NATIVE_RANGE, rows[i], scores[i]);
    return 0;
}

int mr_native_score(void *plugin, void *view, const int32_t *rows, int32_t n, int64_t *scores)
{
    return mr_native_raw(plugin, view, rows, n, scores) || mr_native_normalize(plugin, view, rows, n, scores);
}

/* GpuPack: pods that ask for GPUs go where few are free, and only to nodes of the pool for them; see README.md. */
#include <moorage/plugin.h>
#include <stddef.h>

static const char *const resources[] = {"nvidia.com/gpu", NULL};
static const char *const labels[] = {"pool", NULL};
static const char *const values[] = {"gpu", NULL};

/* A pod that asks for GPUs fits nodes with the label pool=gpu. */
static int filter(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                  uint8_t *codes)
{
    if (pod->requests[0] == 0) return 0;
    for (int32_t i = 0; i < n; i++)
        if (context->labels[0][rows[i]] != context->values[0]) codes[i] = MOORAGE_UNSCHEDULABLE_AND_UNRESOLVABLE;
    return 0;
}

/* The number of free GPUs. */
static int score(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                 int64_t *scores)
{
    const int64_t *gpus = context->resources[0]; /* per row: allocatable, requested */
    (void)pod;
    for (int32_t i = 0; i < n; i++) scores[i] = gpus[2 * rows[i]] - gpus[2 * rows[i] + 1];
    return 0;
}

/* The most free GPUs count 0, none count 100. */
static int normalize(const moorage_context *context, const moorage_class *pod, int64_t *scores, int32_t n)
{
    int64_t most = 1;
    (void)context;
    (void)pod;
    for (int32_t i = 0; i < n; i++)
        if (scores[i] > most) most = scores[i];
    for (int32_t i = 0; i < n; i++) scores[i] = MOORAGE_MAX_SCORE - scores[i] * MOORAGE_MAX_SCORE / most;
    return 0;
}

MOORAGE_EXPORT const struct moorage_plugin moorage_plugin = {
    .abi_major = MOORAGE_ABI_MAJOR,
    .struct_size = sizeof(struct moorage_plugin),
    .name = "GpuPack",
    .filter = filter,
    .score = score,
    .normalize = normalize,
    .reason = "node(s) were not in the GPU pool",
    .weight = 10,
    .resources = resources,
    .labels = labels,
    .values = values,
};

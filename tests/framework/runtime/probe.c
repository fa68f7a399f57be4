/* A plugin that tests compile in many variants (-D): it says what it sees, and does what it should not. */
#include <moorage/plugin.h>
#include <stdio.h>
#include <string.h>

#ifndef ABI
#define ABI MOORAGE_ABI_MAJOR
#endif
#ifndef SIZE
#define SIZE sizeof(struct moorage_plugin)
#endif
#ifndef NAME
#define NAME "Probe"
#endif
#ifndef REASON
#define REASON 0
#endif
#ifndef WEIGHT
#define WEIGHT 0
#endif
#ifndef RESOURCE
#define RESOURCE "example.com/gpu"
#endif
#ifndef FILTER
#define FILTER 0
#endif
#ifndef SCORE
#define SCORE 0
#endif
#ifndef NORMALIZE
#define NORMALIZE 0
#endif

static const char *const resources[] = {RESOURCE, "example.com/fpga", 0};
static const char *const labels[] = {"pool", "app", 0};
static const char *const values[] = {"bad", "worse", "break", 0};
static const char *const arguments[] = {"target", "mode", "who", 0};

MOORAGE_EXPORT int32_t moorage_counts[64]; /* [row] pods that it was told of */
MOORAGE_EXPORT int32_t moorage_told; /* how often */

/* 1 for pods that the failing variants fail for. */
static int breaks(const moorage_context *context, const moorage_class *pod)
{
    return pod->labels[1] == context->values[2];
}

#define UNUSED __attribute__((unused))

UNUSED static int by_pool(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                          uint8_t *codes)
{
    (void)pod;
    for (int32_t i = 0; i < n; i++) {
        int32_t pool = context->labels[0][rows[i]];
        if (pool == context->values[0]) codes[i] = MOORAGE_UNSCHEDULABLE;
        if (pool == context->values[1]) codes[i] = MOORAGE_UNSCHEDULABLE_AND_UNRESOLVABLE;
    }
    return 0;
}

UNUSED static int by_count(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                           uint8_t *codes)
{
    const int32_t *told = context->state;
    (void)pod;
    for (int32_t i = 0; i < n; i++)
        if (told[rows[i]]) codes[i] = MOORAGE_UNSCHEDULABLE;
    return 0;
}

UNUSED static int wrong_code(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                             uint8_t *codes)
{
    (void)rows;
    if (breaks(context, pod)) codes[n - 1] = 7;
    return 0;
}

UNUSED static int filter_fails(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                               uint8_t *codes)
{
    (void)rows;
    (void)n;
    (void)codes;
    return breaks(context, pod) ? 5 : 0;
}

/* Fails with a text that tells what a call is shown of its first row. */
UNUSED static int tells_row(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                            uint8_t *codes)
{
    const moorage_row *row = &context->rows[rows[0]];
    const int64_t *gpu = context->resources[0] + 2 * rows[0], *fpga = context->resources[1] + 2 * rows[0];
    const char *pool = context->texts[context->labels[0][rows[0]]];
    int32_t name = context->names[rows[0]];
    (void)pod;
    (void)codes;
    snprintf(context->error, MOORAGE_ERROR_SIZE,
             "%s of %d, %d asked: cpu %g-%g-%g memory %g-%g-%g pods %d/%d flags %u gpu %lld-%lld fpga %lld-%lld pool %s "
             "number %d:%lld none %d",
             context->texts[name], context->nodes, n, row->allocatable_cpu, row->requested_cpu, row->nonzero_cpu,
             row->allocatable_memory, row->requested_memory, row->nonzero_memory, row->pods, row->pods_max,
             row->flags & (MOORAGE_PRESENT | MOORAGE_UNSCHEDULABLE_NODE | MOORAGE_WIDE), (long long)gpu[0],
             (long long)gpu[1], (long long)fpga[0], (long long)fpga[1], pool ? pool : "-", context->are_numbers[name],
             (long long)context->numbers[name], context->texts[0] == 0);
    return 1;
}

UNUSED static int tells_pod(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                            uint8_t *codes)
{
    const char *pool = context->texts[pod->labels[0]], *app = context->texts[pod->labels[1]];
    (void)rows;
    (void)n;
    (void)codes;
    snprintf(context->error, MOORAGE_ERROR_SIZE, "%s cpu %lld %lld memory %lld %lld gpu %lld fpga %lld pool %s app %s %d",
             context->texts[pod->name_space], (long long)pod->cpu, (long long)pod->nonzero_cpu, (long long)pod->memory,
             (long long)pod->nonzero_memory, (long long)pod->requests[0], (long long)pod->requests[1],
             pool ? pool : "-", app ? app : "-",
             context->struct_size == sizeof *context && pod->struct_size == sizeof *pod);
    return 1;
}

UNUSED static int add_text(const moorage_context *context, int at, const char *text)
{
    return at + snprintf(context->error + at, (size_t)(MOORAGE_ERROR_SIZE - at), "%s", text);
}

UNUSED static int tells_arguments(const moorage_context *context, const moorage_class *pod, const int32_t *rows,
                                  int32_t n, uint8_t *codes)
{
    const moorage_argument *target = context->arguments, *mode = target + 1, *who = target + 2;
    (void)pod;
    (void)rows;
    (void)n;
    (void)codes;
    snprintf(context->error, MOORAGE_ERROR_SIZE, "target %s %g mode %s who %s", target->text ? target->text : "-",
             target->is_number ? target->number : 0, mode->text ? mode->text : "-", who->text ? who->text : "-");
    return 1;
}

UNUSED static int tells_containers(const moorage_context *context, const moorage_class *pod, const int32_t *rows,
                                   int32_t n, uint8_t *codes)
{
    char text[96];
    int at;
    (void)rows;
    (void)n;
    (void)codes;
    snprintf(text, sizeof text, "containers %d:", pod->n_containers);
    at = add_text(context, 0, text);
    for (int32_t i = 0; i < pod->n_containers; i++) {
        const moorage_container *c = pod->containers + i;
        snprintf(text, sizeof text, " %lld %lld %lld %lld;", (long long)c->cpu_request, (long long)c->cpu_limit,
                 (long long)c->memory_request, (long long)c->memory_limit);
        at = add_text(context, at, text);
    }
    return 1;
}

UNUSED static int tells_exact(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                              uint8_t *codes)
{
    (void)pod;
    (void)n;
    (void)codes;
    snprintf(context->error, MOORAGE_ERROR_SIZE, "%lld %lld %lld",
             (long long)moorage_value(context, rows[0], MOORAGE_ALLOCATABLE_CPU),
             (long long)moorage_value(context, rows[0], MOORAGE_ALLOCATABLE_MEMORY),
             (long long)moorage_value(context, rows[0], MOORAGE_NONZERO_MEMORY));
    return 1;
}

UNUSED static int overflows(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                            uint8_t *codes)
{
    (void)pod;
    (void)rows;
    (void)n;
    (void)codes;
    memset(context->error, 'x', MOORAGE_ERROR_SIZE);
    return 1;
}

UNUSED static int by_gpus(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                          int64_t *scores)
{
    (void)pod;
    for (int32_t i = 0; i < n; i++)
        scores[i] = context->resources[0][2 * rows[i]] - context->resources[0][2 * rows[i] + 1];
    return 0;
}

UNUSED static int by_taken(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                           int64_t *scores)
{
    (void)pod;
    for (int32_t i = 0; i < n; i++) scores[i] = 40 * context->resources[0][2 * rows[i] + 1];
    return 0;
}

UNUSED static int too_high(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                           int64_t *scores)
{
    (void)rows;
    if (breaks(context, pod)) scores[n - 1] = 101;
    return 0;
}

UNUSED static int too_low(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                          int64_t *scores)
{
    (void)rows;
    if (breaks(context, pod)) scores[n - 1] = -1;
    return 0;
}

UNUSED static int score_fails(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                              int64_t *scores)
{
    (void)rows;
    (void)n;
    (void)scores;
    if (!breaks(context, pod)) return 0;
    strcpy(context->error, "no idea");
    return 1;
}

UNUSED static int doubles(const moorage_context *context, const moorage_class *pod, int64_t *scores, int32_t n)
{
    (void)context;
    (void)pod;
    for (int32_t i = 0; i < n; i++) scores[i] *= 2;
    return 0;
}

UNUSED static int normalize_fails(const moorage_context *context, const moorage_class *pod, int64_t *scores, int32_t n)
{
    (void)scores;
    (void)n;
    return breaks(context, pod) ? -3 : 0;
}

static void add_pod(const moorage_context *context, const moorage_class *pod, const moorage_class *other, int32_t row)
{
    int32_t *told = context->state;
    (void)pod;
    told[row] += (int32_t)other->cpu;
    moorage_told++;
}

static void remove_pod(const moorage_context *context, const moorage_class *pod, const moorage_class *other, int32_t row)
{
    int32_t *told = context->state;
    (void)pod;
    told[row] -= (int32_t)other->cpu;
    moorage_told++;
}

static void destroy(void *state)
{
    *(int32_t *)state = -1;
}

#ifndef SYMBOL
#define SYMBOL moorage_plugin
#endif
MOORAGE_EXPORT const struct moorage_plugin SYMBOL = {
    .abi_major = ABI,
    .struct_size = SIZE,
    .name = NAME,
    .filter = FILTER,
    .score = SCORE,
    .normalize = NORMALIZE,
    .add_pod = add_pod,
    .remove_pod = remove_pod,
    .destroy = destroy,
    .state = moorage_counts,
    .reason = REASON,
    .weight = WEIGHT,
    .resources = resources,
    .labels = labels,
    .values = values,
    .arguments = arguments,
};

/* A plugin that answers what its script says, and reads all that it is shown. */
#include <moorage/plugin.h>
#include <string.h>

enum { ROWS = 3 };

struct script {
    int32_t filter_answer, score_answer, normalize_answer;
    int32_t resources, labels, values; /* how many it declares */
    uint32_t error_size;
    uint8_t codes[ROWS];
    int64_t scores[ROWS];
    int64_t factor, shift; /* of normalized scores */
    char error[MOORAGE_ERROR_SIZE];
    uint64_t seen;
};

static uint64_t symbol(const moorage_context *context, int32_t at)
{
    const char *text = context->texts[at];
    return (text ? strlen(text) : 0) + (context->are_numbers[at] ? (uint64_t)context->numbers[at] : 0);
}

static void pod_seen(const moorage_context *context, const moorage_class *pod)
{
    struct script *script = context->state;
    script->seen += symbol(context, pod->name_space) + (uint64_t)(pod->cpu + pod->memory);
    for (int32_t k = 0; k < script->resources; k++) script->seen += (uint64_t)pod->requests[k];
    for (int32_t k = 0; k < script->labels; k++) script->seen += symbol(context, pod->labels[k]);
    for (int32_t k = 0; k < script->values; k++) script->seen += symbol(context, context->values[k]);
}

static void row_seen(const moorage_context *context, int32_t row)
{
    struct script *script = context->state;
    for (int field = 0; field < MOORAGE_FIELDS; field++) script->seen += (uint64_t)moorage_value(context, row, field);
    for (int32_t k = 0; k < script->resources; k++)
        script->seen += (uint64_t)(context->resources[k][2 * row] - context->resources[k][2 * row + 1]);
    for (int32_t k = 0; k < script->labels; k++) script->seen += symbol(context, context->labels[k][row]);
    script->seen += symbol(context, context->names[row]);
}

static int answer(const moorage_context *context, int32_t value)
{
    const struct script *script = context->state;
    if (value) memcpy(context->error, script->error, script->error_size);
    return value;
}

static int filter(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                  uint8_t *codes)
{
    const struct script *script = context->state;
    pod_seen(context, pod);
    for (int32_t i = 0; i < n; i++) {
        row_seen(context, rows[i]);
        codes[i] = script->codes[rows[i] % ROWS];
    }
    return answer(context, script->filter_answer);
}

static int score(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                 int64_t *scores)
{
    const struct script *script = context->state;
    pod_seen(context, pod);
    for (int32_t i = 0; i < n; i++) {
        row_seen(context, rows[i]);
        scores[i] = script->scores[rows[i] % ROWS];
    }
    return answer(context, script->score_answer);
}

static int normalize(const moorage_context *context, const moorage_class *pod, int64_t *scores, int32_t n)
{
    const struct script *script = context->state;
    pod_seen(context, pod);
    for (int32_t i = 0; i < n; i++)
        scores[i] = (int64_t)((uint64_t)scores[i] * (uint64_t)script->factor + (uint64_t)script->shift);
    return answer(context, script->normalize_answer);
}

static void change(const moorage_context *context, const moorage_class *pod, const moorage_class *other, int32_t row)
{
    pod_seen(context, pod);
    pod_seen(context, other);
    row_seen(context, row);
}

/* The struct whose functions a target chooses from. */
MOORAGE_EXPORT const struct moorage_plugin moorage_plugin = {
    .abi_major = MOORAGE_ABI_MAJOR, .struct_size = sizeof(struct moorage_plugin), .name = "Scripted",
    .filter = filter, .score = score, .normalize = normalize, .add_pod = change, .remove_pod = change,
};

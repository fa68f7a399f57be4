/* moorage/plugin.h: the ABI of scheduling plugins in C, or in any language that can define C functions and structs.
 *
 * A plugin is one `struct moorage_plugin`, usually the global `moorage_plugin` of a shared library:
 *
 *     #include <moorage/plugin.h>
 *
 *     static const char *const resources[] = {"nvidia.com/gpu", 0};
 *
 *     static int score(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
 *                      int64_t *scores)
 *     {
 *         const int64_t *gpu = context->resources[0];
 *         for (int32_t i = 0; i < n; i++) {
 *             int64_t free = gpu[2 * rows[i]] - gpu[2 * rows[i] + 1];
 *             scores[i] = free < 100 ? 100 - free : 0;
 *         }
 *         return 0;
 *     }
 *
 *     MOORAGE_EXPORT const struct moorage_plugin moorage_plugin = {
 *         .abi_major = MOORAGE_ABI_MAJOR, .struct_size = sizeof(struct moorage_plugin),
 *         .name = "GpuPack", .score = score, .resources = resources,
 *     };
 *
 * In Python, `moorage.load_native_plugin(path)` loads it, or from_capsule or from_address of
 * `moorage.engine.framework.out_of_tree_plugins`.
 *
 * Rules:
 * - Functions take and return arrays. They are called without Python's global interpreter lock and must not call
 *   Python. Calls can be concurrent if schedulers in several threads share a plugin.
 * - Arguments are valid until the function returns. Only memory that is not const may be written.
 * - A function with the result int returns 0, or another value if it failed. It may then write a text to
 *   `context->error`, which becomes the error of the pod's scheduling cycle. Other cycles continue.
 * - A plugin declares in its struct the resources (other than cpu, memory and pods), the label keys, the strings and
 *   the arguments that it reads. The context has their data in the order of the declaration.
 *
 * Versions: a change of `abi_major` means that plugins must be compiled again. Within a major version fields are only
 * added at the end of structs, and `struct_size` tells which fields exist: fields that the struct of a plugin lacks are
 * taken as 0, and a plugin that reads a field added later must check `struct_size` of the context first. */
#ifndef MOORAGE_PLUGIN_H
#define MOORAGE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
#define MOORAGE_EXPORT extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define MOORAGE_EXPORT __attribute__((visibility("default")))
#endif

#define MOORAGE_ABI_MAJOR 1u

/* The result of a filter for a row, a code of a Status. Unresolvable: removing pods from the node would not help. */
#define MOORAGE_SUCCESS 0
#define MOORAGE_UNSCHEDULABLE 2
#define MOORAGE_UNSCHEDULABLE_AND_UNRESOLVABLE 3

#define MOORAGE_MAX_SCORE 100

/* Bytes of `moorage_context.error`, including the terminating 0. */
#define MOORAGE_ERROR_SIZE 256

/* Flags of a row. */
#define MOORAGE_PRESENT 1u            /* the node exists */
#define MOORAGE_UNSCHEDULABLE_NODE 4u /* spec.unschedulable */
#define MOORAGE_WIDE 8u               /* a value is not in 0..2^53, see moorage_value */

/* A node. Cpu in millicores, memory in bytes. `nonzero` is NonZeroRequested: containers without a request count 100m of
 * cpu and 200Mi of memory. */
typedef struct {
    double allocatable_cpu, allocatable_memory;
    double requested_cpu, requested_memory;
    double nonzero_cpu, nonzero_memory;
    int32_t reserved;
    int32_t pods, pods_max; /* number of pods, and its limit */
    uint32_t flags;
} moorage_row;

/* Fields of a row for moorage_value. */
enum {
    MOORAGE_ALLOCATABLE_CPU, MOORAGE_ALLOCATABLE_MEMORY, MOORAGE_REQUESTED_CPU, MOORAGE_REQUESTED_MEMORY,
    MOORAGE_NONZERO_CPU, MOORAGE_NONZERO_MEMORY, MOORAGE_FIELDS
};

/* An argument of the plugin in the configuration of the scheduler. */
typedef struct {
    const char *text;  /* UTF-8: a string as it is, another value as JSON; NULL if the configuration does not name it */
    double number;     /* a number; 1 for true */
    int32_t is_number; /* 1 for a number, true or false */
    int32_t reserved;
} moorage_argument;

/* The state of the cluster during one call. A node is a row, a number that stays the same while the node exists; the
 * argument `rows` of a function lists the rows to evaluate. A symbol is the number of a string: equal strings have equal
 * symbols; 0 means "no string". */
typedef struct {
    uint32_t struct_size;
    int32_t nodes;                    /* nodes in the cluster */
    void *state;                      /* moorage_plugin.state */
    const moorage_row *rows;          /* [row] */
    const int64_t *wide;              /* [row][MOORAGE_FIELDS], valid for rows with MOORAGE_WIDE */
    const int64_t *const *resources;  /* [declared resource][row][2]: allocatable, requested */
    const int32_t *const *labels;     /* [declared label key][row]: symbol of the node's value; 0 without the label */
    const int32_t *values;            /* [declared value]: its symbol */
    const int32_t *names;             /* [row]: symbol of the node name */
    const char *const *texts;         /* [symbol]: UTF-8 text; NULL for 0 and for strings without a UTF-8 form */
    const int64_t *numbers;           /* [symbol]: the string as a decimal integer, */
    const uint8_t *are_numbers;       /* [symbol]: if this is 1 */
    char *error;                      /* [MOORAGE_ERROR_SIZE], initially empty: error text of a function that fails */
    const moorage_argument *arguments; /* [declared argument]; added later */
} moorage_context;

/* What a container asks for; -1 where its spec names no amount. Requests default to limits. */
typedef struct {
    int64_t cpu_request, cpu_limit;       /* millicores */
    int64_t memory_request, memory_limit; /* bytes */
} moorage_container;

/* The data of a pod. Requests are effective requests: they include init containers, overhead and pod-level
 * resources. */
typedef struct {
    uint32_t struct_size;
    int32_t name_space;               /* symbol of the namespace */
    int64_t cpu, memory;              /* millicores, bytes */
    int64_t nonzero_cpu, nonzero_memory;
    const int64_t *requests;          /* [declared resource] */
    const int32_t *labels;            /* [declared label key]: symbol of the pod's value; 0 without the label */
    const moorage_container *containers; /* spec.containers in their order; added later */
    int32_t n_containers;
    int32_t reserved;
} moorage_class;

struct moorage_plugin {
    uint32_t abi_major;   /* MOORAGE_ABI_MAJOR */
    uint32_t struct_size; /* sizeof(struct moorage_plugin) */
    const char *name;

    /* Filter: writes a code for each of the `n` `rows`, which have passed the filters of the core. `codes` is initially
     * MOORAGE_SUCCESS. A search calls it block by block until it has enough feasible nodes. */
    int (*filter)(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                  uint8_t *codes);
    /* Score: writes a score for each of the `n` `rows`, all feasible rows, in one call per pod. `scores` is initially 0.
     * Without `normalize` scores must be in 0..100. A single feasible node is not scored. */
    int (*score)(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                 int64_t *scores);
    /* NormalizeScore: scales the scores of all feasible rows to 0..100, in place. */
    int (*normalize)(const moorage_context *context, const moorage_class *pod, int64_t *scores, int32_t n);
    /* AddPod, RemovePod: for a plugin that counts pods itself. Called before filters run as if `other` were on `row`
     * (because it is nominated there) or were removed from it; the rows of the context include the change. The opposite
     * call afterwards undoes it. */
    void (*add_pod)(const moorage_context *context, const moorage_class *pod, const moorage_class *other, int32_t row);
    void (*remove_pod)(const moorage_context *context, const moorage_class *pod, const moorage_class *other,
                       int32_t row);
    /* Releases the plugin: called once per load, after all other calls. */
    void (*destroy)(void *state);
    void *state; /* data of the plugin, passed to every call */

    const char *reason;   /* reason of a rejection by the filter; NULL: "node(s) were rejected by plugin <name>" */
    int32_t weight;       /* default weight of the scores; 0 means 1 */
    int32_t reserved;
    const char *const *resources; /* resources other than cpu, memory and pods; these lists end with NULL */
    const char *const *labels;    /* label keys */
    const char *const *values;    /* strings whose symbols are needed, to compare with those of labels and names */
    const char *const *arguments; /* names of arguments in a configuration, which refuses all others; added later */
};

/* The exact value of a field of a row. */
static inline int64_t moorage_value(const moorage_context *context, int32_t row, int field)
{
    const moorage_row *r = &context->rows[row];
    if (r->flags & MOORAGE_WIDE) return context->wide[(int64_t)row * MOORAGE_FIELDS + field];
    return (int64_t)(&r->allocatable_cpu)[field];
}

#ifdef __cplusplus
}
#endif

#endif

/* moorage/plugin.h: scheduling plugins in C, or in whatever can make C functions and structs.
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
 * In Python, `moorage.framework.profiles.native_library` makes a plugin of it: load_native_plugin(path),
 * from_capsule, from_address.
 *
 * The rules:
 * - Arrays in, arrays out. Functions are called without Python's interpreter lock; they must not call Python. They
 *   are called from several threads at once if several schedulers that share a plugin are.
 * - Everything that a function is handed may be read until it returns, and no longer. Only what is not const may be
 *   written.
 * - A function that answers an int answers 0, or another value where it failed. Then it may have left a text in
 *   `context->error`. The pod's cycle fails with that; others go on.
 * - What a plugin reads beyond cpu, memory and pods it declares in the struct: resources, label keys, texts to compare
 *   with. It finds them in the context, in the order declared.
 *
 * Versions: `abi_major` changes where a plugin must be compiled anew. Until then fields are only added at the end of
 * structs, and each side tells the other how much it knows by `struct_size`: what a plugin's struct does not have is
 * taken as 0, and a plugin that wants a field which was added to a context later asks its `struct_size` first. */
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

/* What a filter says of a row, as the codes of a Status. Unresolvable: removing pods would not help. */
#define MOORAGE_SUCCESS 0
#define MOORAGE_UNSCHEDULABLE 2
#define MOORAGE_UNSCHEDULABLE_AND_UNRESOLVABLE 3

#define MOORAGE_MAX_SCORE 100

/* Bytes of `moorage_context.error`, the closing 0 included. */
#define MOORAGE_ERROR_SIZE 256

/* Flags of a row. */
#define MOORAGE_PRESENT 1u            /* the node exists */
#define MOORAGE_UNSCHEDULABLE_NODE 4u /* spec.unschedulable */
#define MOORAGE_WIDE 8u               /* a value is beyond 2^53: see moorage_value */

/* A node, in one cache line. Cpu in millicores, memory in bytes. `nonzero` is requested with upstream's defaults for
 * containers that request nothing. */
typedef struct {
    double allocatable_cpu, allocatable_memory;
    double requested_cpu, requested_memory;
    double nonzero_cpu, nonzero_memory;
    int32_t reserved;
    int32_t pods, pods_max; /* pods there, and how many fit */
    uint32_t flags;
} moorage_row;

/* Fields of a row for moorage_value. */
enum {
    MOORAGE_ALLOCATABLE_CPU, MOORAGE_ALLOCATABLE_MEMORY, MOORAGE_REQUESTED_CPU, MOORAGE_REQUESTED_MEMORY,
    MOORAGE_NONZERO_CPU, MOORAGE_NONZERO_MEMORY, MOORAGE_FIELDS
};

/* The cluster as one call sees it. Nodes are rows: stable numbers below some bound; a function is told which to look
 * at. Symbols stand for strings: equal strings have equal symbols, and 0 is no string. */
typedef struct {
    uint32_t struct_size;
    int32_t nodes;                    /* nodes in the cluster */
    void *state;                      /* the plugin's own */
    const moorage_row *rows;          /* [row] */
    const int64_t *wide;              /* [row][MOORAGE_FIELDS], valid where MOORAGE_WIDE */
    const int64_t *const *resources;  /* [declared resource][row][2]: allocatable, requested */
    const int32_t *const *labels;     /* [declared label key][row]: symbol of the node's value, 0 where it has none */
    const int32_t *values;            /* [declared value]: its symbol */
    const int32_t *names;             /* [row]: symbol of the node's name */
    const char *const *texts;         /* [symbol]: UTF-8; NULL for 0 and for what UTF-8 cannot say */
    const int64_t *numbers;           /* [symbol]: the string as an integer, */
    const uint8_t *are_numbers;       /* [symbol]: where this is 1 */
    char *error;                      /* [MOORAGE_ERROR_SIZE], empty: what went wrong, where a function fails */
} moorage_context;

/* What a decision knows of a pod. Requests are effective ones: init containers, overhead and pod-level resources
 * included. */
typedef struct {
    uint32_t struct_size;
    int32_t name_space;               /* symbol */
    int64_t cpu, memory;              /* millicores, bytes */
    int64_t nonzero_cpu, nonzero_memory;
    const int64_t *requests;          /* [declared resource] */
    const int32_t *labels;            /* [declared label key]: symbol of the pod's value, 0 where it has none */
} moorage_class;

struct moorage_plugin {
    uint32_t abi_major;   /* MOORAGE_ABI_MAJOR */
    uint32_t struct_size; /* sizeof(struct moorage_plugin) */
    const char *name;

    /* Filter: a code for each of `rows`, which are `n` rows that the filters of the core have passed; `codes` comes
     * filled with MOORAGE_SUCCESS. A search asks block by block until it has enough feasible nodes. */
    int (*filter)(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                  uint8_t *codes);
    /* Score: a value for each of `rows`, all feasible ones, in one call per pod; `scores` comes filled with 0. Without
     * `normalize` they must be 0 to 100. A single feasible node is not scored. */
    int (*score)(const moorage_context *context, const moorage_class *pod, const int32_t *rows, int32_t n,
                 int64_t *scores);
    /* NormalizeScore: bring the scores of all feasible rows to 0 to 100, in place. */
    int (*normalize)(const moorage_context *context, const moorage_class *pod, int64_t *scores, int32_t n);
    /* AddPod, RemovePod: for a plugin that counts pods itself. While filters are asked as if `other` were on `row` (it
     * is nominated there, say), or as if it were off it, the rows show it so too; afterwards it is taken back by the
     * opposite call. */
    void (*add_pod)(const moorage_context *context, const moorage_class *pod, const moorage_class *other, int32_t row);
    void (*remove_pod)(const moorage_context *context, const moorage_class *pod, const moorage_class *other,
                       int32_t row);
    /* Nobody will call the plugin any more; once for each time that it was loaded. */
    void (*destroy)(void *state);
    void *state; /* handed to every call */

    const char *reason;   /* why the filter rejects a node; NULL: "node(s) were rejected by plugin <name>" */
    int32_t weight;       /* of the scores, where a profile gives none; 0 counts as 1 */
    int32_t reserved;
    const char *const *resources; /* names of resources besides cpu, memory and pods; ends with NULL, as those below */
    const char *const *labels;    /* label keys */
    const char *const *values;    /* strings whose symbols it wants, to compare with those of labels and names */
};

/* A field of a row, exactly. */
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

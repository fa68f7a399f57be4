#include "gpu_share.h"

#include <math.h>

#define MAX_SCORE 100

static int32_t total_free(const mr_gpu_node *node)
{
    int32_t total = 0;
    for (int32_t i = 0; i < node->n; i++) total += node->free[i];
    return total;
}

/* Whether at least `count` GPUs have `milli` free. */
static int has_gpus(const mr_gpu_node *node, int32_t milli, int32_t count)
{
    int32_t found = 0;
    for (int32_t i = 0; i < node->n; i++) found += node->free[i] >= milli;
    return found >= count;
}

static int allows_model(const mr_gpu_node *node, const mr_gpu_demand *demand)
{
    return !demand->models || (demand->models & node->model);
}

int mr_gpu_fits(const mr_gpu_node *node, const mr_gpu_demand *demand)
{
    if (!demand->milli) return 1;
    return allows_model(node, demand) && has_gpus(node, demand->milli, demand->count);
}

/* The GPU to share that a rule selects. */
static int32_t shared_gpu(const mr_gpu_node *node, int32_t milli, int rule, uint64_t draw)
{
    int32_t best = MR_NO_GPU, suffice = 0;
    for (int32_t i = 0; i < node->n; i++) suffice += node->free[i] >= milli;
    int32_t skip = suffice ? (int32_t)(draw % (uint64_t)suffice) : 0;
    for (int32_t i = 0; i < node->n; i++) {
        if (node->free[i] < milli) continue;
        if (rule == MR_GPU_RANDOM) {
            if (skip-- == 0) return i;
        } else if (best == MR_NO_GPU ||
                   (rule == MR_GPU_BEST_FIT ? node->free[i] < node->free[best] : node->free[i] > node->free[best])) {
            best = i;
        }
    }
    return best;
}

uint32_t mr_gpu_choose(const mr_gpu_node *node, const mr_gpu_demand *demand, int rule, uint64_t draw)
{
    uint32_t gpus = 0;
    if (demand->milli && demand->milli < MR_GPU_WHOLE) {
        const int32_t gpu = shared_gpu(node, demand->milli, rule, draw);
        return gpu == MR_NO_GPU ? 0 : 1u << gpu;
    }
    int32_t left = demand->milli ? demand->count : 0;
    for (int32_t i = 0; i < node->n && left; i++)
        if (node->free[i] >= MR_GPU_WHOLE) {
            gpus |= 1u << i;
            left--;
        }
    return gpus;
}

void mr_gpu_take(mr_gpu_node *node, const mr_gpu_demand *demand, uint32_t gpus)
{
    node->cpu -= demand->cpu;
    for (int32_t i = 0; i < node->n; i++)
        if (gpus & (1u << i)) node->free[i] -= demand->milli;
}

void mr_gpu_fragment_classes(const mr_gpu_node *node, const mr_gpu_shape *shapes, int32_t n, double *sums)
{
    const int32_t total = total_free(node);
    for (int c = 0; c < MR_FRAGMENT_CLASSES; c++) sums[c] = 0;
    if (!total) return;
    for (int32_t s = 0; s < n; s++) {
        const mr_gpu_demand *pod = &shapes[s].demand;
        const int has_cpu = node->cpu >= pod->cpu;
        int32_t found = 0, useless = 0;
        int cause;
        if (!pod->milli) {
            cause = has_cpu ? MR_NO_GPU_ASKED : MR_NO_GPU_ASKED_LACKS_CPU;
        } else if (!allows_model(node, pod)) {
            cause = MR_OTHER_MODEL;
        } else {
            for (int32_t i = 0; i < node->n; i++) {
                const int suffices = node->free[i] >= pod->milli;
                found += suffices;
                useless += suffices ? 0 : node->free[i];
            }
            const int has_gpu = found >= pod->count;
            if (has_gpu && has_cpu) {
                sums[MR_LACKS_GPU] += shapes[s].share * useless;
                continue;
            }
            cause = has_gpu ? MR_LACKS_CPU : has_cpu ? MR_LACKS_GPU : MR_LACKS_BOTH;
        }
        sums[cause] += shapes[s].share * total;
    }
}

double mr_gpu_fragmentation(const mr_gpu_node *node, const mr_gpu_shape *shapes, int32_t n)
{
    double sums[MR_FRAGMENT_CLASSES], out = 0;
    mr_gpu_fragment_classes(node, shapes, n, sums);
    for (int c = 0; c < MR_FRAGMENT_CLASSES; c++) out += sums[c];
    return out;
}

static int32_t gradient_score(double decrease)
{
    return (int32_t)(1.0 / (1.0 + exp(-decrease / 1000)) * MAX_SCORE);
}

/* Whether a GPU before `at` has as much free. */
static int seen_before(const mr_gpu_node *node, int32_t at)
{
    for (int32_t i = 0; i < at; i++)
        if (node->free[i] == node->free[at]) return 1;
    return 0;
}

int32_t mr_gpu_gradient(const mr_gpu_node *node, double before, const mr_gpu_demand *demand,
                        const mr_gpu_shape *shapes, int32_t n, int32_t *gpu)
{
    int32_t best = 0;
    *gpu = MR_NO_GPU;
    if (!demand->milli || demand->milli == MR_GPU_WHOLE) {
        mr_gpu_node after = *node;
        mr_gpu_take(&after, demand, mr_gpu_choose(node, demand, MR_GPU_BEST_FIT, 0));
        return gradient_score(before - mr_gpu_fragmentation(&after, shapes, n));
    }
    for (int32_t i = 0; i < node->n; i++) {
        if (node->free[i] < demand->milli || seen_before(node, i)) continue;
        mr_gpu_node after = *node;
        mr_gpu_take(&after, demand, 1u << i);
        const int32_t score = gradient_score(before - mr_gpu_fragmentation(&after, shapes, n));
        if (*gpu == MR_NO_GPU || score > best) {
            best = score;
            *gpu = i;
        }
    }
    return best;
}

int32_t mr_gpu_packing(const mr_gpu_node *node, const mr_gpu_demand *demand)
{
    if (!demand->milli) return 0;
    int32_t idle = 0;
    for (int32_t i = 0; i < node->n; i++) idle += node->free[i] == MR_GPU_WHOLE;
    if (idle == node->n) return MAX_SCORE / 3 - idle > idle ? MAX_SCORE / 3 - idle : idle;
    if (demand->milli == MR_GPU_WHOLE) {
        const int32_t score = MAX_SCORE / 2 - demand->count;
        return score > MAX_SCORE / 3 ? score : MAX_SCORE / 3;
    }
    const int32_t gpu = shared_gpu(node, demand->milli, MR_GPU_BEST_FIT, 0);
    if (gpu == MR_NO_GPU) return 0;
    if (node->free[gpu] == MR_GPU_WHOLE) return MAX_SCORE / 2 - 1;
    const int32_t score = MAX_SCORE - node->free[gpu] * 100 / MR_GPU_WHOLE / 10;
    return score > MAX_SCORE / 2 ? score : MAX_SCORE / 2;
}

int32_t mr_gpu_clustering(const mr_gpu_node *node, const mr_gpu_demand *demand, int64_t most)
{
    if (!demand->milli) return 0;
    const int32_t kind = 1 << (demand->milli < MR_GPU_WHOLE ? 0 : demand->count);
    const int32_t quarter = MAX_SCORE / 4;
    const int32_t within = (int32_t)(quarter * (most - total_free(node)) / most);
    if (node->kinds & kind) return within + (node->kinds == kind ? 3 * quarter : 2 * quarter);
    return within + (node->kinds ? 0 : quarter);
}

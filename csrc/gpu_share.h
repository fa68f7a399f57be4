/* GPUs that pods share: the free part of each GPU of a node, in thousandths, and what policies make of it. */
#ifndef MOORAGE_GPU_SHARE_H
#define MOORAGE_GPU_SHARE_H

#include <stdint.h>

#define MR_GPUS 16      /* most GPUs of a node */
#define MR_GPU_WHOLE 1000
#define MR_NO_GPU (-1)

/* A node. */
typedef struct {
    int64_t cpu;            /* free millicores */
    int32_t free[MR_GPUS];  /* free thousandths of each GPU */
    int32_t n;              /* number of GPUs */
    int32_t kinds;          /* bit set of the kinds of GPU pods on it: bit 0 shares a GPU, bit k has k whole GPUs */
    uint64_t model;         /* the bit of its GPU model */
} mr_gpu_node;

/* What a pod asks for. */
typedef struct {
    int64_t cpu;            /* millicores */
    int32_t milli;          /* thousandths of each GPU; below 1000 only with one GPU; 0: no GPU */
    int32_t count;          /* number of GPUs */
    uint64_t models;        /* bit set of the models that are allowed; 0: any */
} mr_gpu_demand;

/* A typical pod. */
typedef struct {
    mr_gpu_demand demand;
    double share;           /* of all pods */
} mr_gpu_shape;

/* How a GPU is chosen for a pod that shares one. */
enum { MR_GPU_BEST_FIT, MR_GPU_WORST_FIT, MR_GPU_RANDOM };

/* Whether the GPUs of a node suffice for a demand. */
int mr_gpu_fits(const mr_gpu_node *node, const mr_gpu_demand *demand);

/* The GPUs for a demand that fits, as a bit set: whole GPUs by index; of GPUs to share the one with the least or most
 * free thousandths, or the one that `draw` (0 or more) selects among those that suffice. */
uint32_t mr_gpu_choose(const mr_gpu_node *node, const mr_gpu_demand *demand, int rule, uint64_t draw);

/* Take a demand from the GPUs of a bit set, and its cpu. */
void mr_gpu_take(mr_gpu_node *node, const mr_gpu_demand *demand, uint32_t gpus);

/* Why the free GPUs of a node are of no use for a typical pod. */
enum {
    MR_LACKS_BOTH, MR_LACKS_GPU, MR_LACKS_CPU, MR_NO_GPU_ASKED, MR_NO_GPU_ASKED_LACKS_CPU, MR_OTHER_MODEL,
    MR_FRAGMENT_CLASSES
};

/* The fragmentation of a node by class, written to `sums`; their sum in this order is `mr_gpu_fragmentation`. */
void mr_gpu_fragment_classes(const mr_gpu_node *node, const mr_gpu_shape *shapes, int32_t n, double *sums);

/* The fragmentation of a node: the expected free thousandths that a typical pod cannot use (Weng et al., USENIX ATC
 * 2023). All free GPUs count where the pod cannot run on the node or asks for no GPU; otherwise those GPUs that have
 * less free than it asks for on one. Memory has no part in it. */
double mr_gpu_fragmentation(const mr_gpu_node *node, const mr_gpu_shape *shapes, int32_t n);

/* The score of fragmentation gradient descent: 100 times the sigmoid of the decrease of the fragmentation by the demand,
 * in thousands; for a demand that shares a GPU that of the best GPU, which is written to `gpu` (else MR_NO_GPU). */
int32_t mr_gpu_gradient(const mr_gpu_node *node, double before, const mr_gpu_demand *demand,
                        const mr_gpu_shape *shapes, int32_t n, int32_t *gpu);

/* The score of packing: 50 to 100 for GPUs in use, less free is better; 33 to 50 for whole GPUs of a node in use; below
 * for an idle node. 0 for a demand without GPUs. */
int32_t mr_gpu_packing(const mr_gpu_node *node, const mr_gpu_demand *demand);

/* The score of clustering, for a node with at most `most` free thousandths: 75 to 100 for nodes with pods of the kind of
 * the demand alone, 50 to 75 with others beside, 25 to 50 for nodes without GPU pods, 0 to 25 for the rest; in each
 * range less free is better. 0 for a demand without GPUs. */
int32_t mr_gpu_clustering(const mr_gpu_node *node, const mr_gpu_demand *demand, int64_t most);

#endif

"""Plan: a profile compiled for the kernels. The order of filters and scores is the profile's."""

from libc.string cimport memset

from moorage._core.csrc cimport (
    MR_BALANCED_ALLOCATION,
    MR_CPU,
    MR_IMAGE_LOCALITY,
    MR_MAX_PLUGINS,
    MR_MAX_RESOURCES,
    MR_MEMORY,
    MR_NODE_AFFINITY,
    MR_NODE_NAME,
    MR_NODE_PORTS,
    MR_NODE_RESOURCES_FIT,
    MR_NODE_UNSCHEDULABLE,
    MR_REASONS,
    MR_TAINT_TOLERATION,
    MR_UNRESOLVABLE,
    MR_VERDICT_SHIFT,
    mr_plan,
    mr_weighted,
)
from moorage._core.node_table cimport NodeTable

# How `Cycle.verdicts` packs a verdict, for those who read it.
VERDICT_SHIFT = MR_VERDICT_SHIFT
UNRESOLVABLE = MR_UNRESOLVABLE
REASONS = MR_REASONS

KERNELS = {
    "NodeUnschedulable": MR_NODE_UNSCHEDULABLE,
    "NodeName": MR_NODE_NAME,
    "TaintToleration": MR_TAINT_TOLERATION,
    "NodeAffinity": MR_NODE_AFFINITY,
    "NodePorts": MR_NODE_PORTS,
    "NodeResourcesFit": MR_NODE_RESOURCES_FIT,
    "NodeResourcesBalancedAllocation": MR_BALANCED_ALLOCATION,
    "ImageLocality": MR_IMAGE_LOCALITY,
}


cdef class Plan:
    """Kernels in profile order.

    Parameters
    ----------
    filters : list of str
        Native filter plugins, in order.
    scores : list of (str, int)
        Native score plugins with their weights, in order.
    fit, balanced : list of (str, int)
        Resources and weights of NodeResourcesFit's strategy and of NodeResourcesBalancedAllocation.
    balanced_difference : bool
        The formula of 1.36 (what the pod changes) instead of the one up to 1.35.
    fit_unresolvable : bool
        A request above a node's allocatable is unresolvable (since 1.34).
    """

    def __cinit__(self, NodeTable table, list filters, list scores, list fit, list balanced,
                  bint balanced_difference=True, bint fit_unresolvable=True):
        if max(len(filters), len(scores)) > MR_MAX_PLUGINS or max(len(fit), len(balanced)) > MR_MAX_RESOURCES:
            raise ValueError("too many plugins or scored resources in one profile")
        memset(&self.c, 0, sizeof(mr_plan))
        self.filters = filters
        self.scores = [name for name, _ in scores]
        self.weights = dict(scores)
        self.c.n_filters = len(filters)
        self.c.n_scores = len(scores)
        for at, name in enumerate(filters):
            self.c.filters[at] = KERNELS[name]
        for at, (name, weight) in enumerate(scores):
            self.c.scores[at] = KERNELS[name]
            self.c.weights[at] = weight
        self.c.n_fit = _weigh(table, fit, &self.c.fit[0])
        self.c.n_balanced = _weigh(table, balanced, &self.c.balanced[0])
        self.c.balanced_difference = balanced_difference
        self.c.fit_unresolvable = fit_unresolvable


cdef int _weigh(NodeTable table, list resources, mr_weighted* out) except -1:
    for at, (name, weight) in enumerate(resources):
        out[at].weight = weight
        if name == "cpu":
            out[at].resource = MR_CPU
        elif name == "memory":
            out[at].resource = MR_MEMORY
        else:
            out[at].resource = table.resource_id(name)
    return <int>len(resources)

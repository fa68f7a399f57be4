"""Plan: a profile compiled for the kernels. The order of filters and scores is the profile's."""

from libc.string cimport memset

from moorage._core.base cimport Journal

from moorage._core.csrc cimport *
from moorage._core.decide.external cimport External

# How `Search.verdicts` packs a verdict, for those who read it.
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
    "PodTopologySpread": MR_POD_TOPOLOGY_SPREAD,
    "InterPodAffinity": MR_INTER_POD_AFFINITY,
}
STRATEGIES = {
    "LeastAllocated": MR_LEAST_ALLOCATED,
    "MostAllocated": MR_MOST_ALLOCATED,
    "RequestedToCapacityRatio": MR_REQUESTED_TO_CAPACITY_RATIO,
}


cdef class Plan:
    """Kernels and other plugins in profile order.

    Parameters
    ----------
    filters : list of str or External
        Filter plugins, in order: native ones by name.
    scores : list of (str or External, int)
        Score plugins with their weights, in order.
    fit, balanced : list of (str, int)
        Resources and weights of NodeResourcesFit's strategy and of NodeResourcesBalancedAllocation.
    balanced_difference : bool
        The formula of 1.36 (what the pod changes) instead of the one up to 1.35.
    fit_unresolvable : bool
        A request above a node's allocatable is unresolvable (since 1.34).
    strategy : str
        LeastAllocated, MostAllocated or RequestedToCapacityRatio.
    points : sequence of (int, int)
        Of RequestedToCapacityRatio: percent in use and score (0 to 100), by percent.
    ignored, ignored_groups : iterable of str
        Extended resources, and prefixes of them, that NodeResourcesFit does not check.
    added : Shape, optional
        NodeAffinity's addedAffinity, as the shape of a pod that has it.
    default_constraints : tuple of TopologySpreadConstraint
        Of PodTopologySpread, for pods without constraints of their own.
    system_defaulted : bool
        They are the scheduler's own, so nodes that lack a label are scored too.
    hard_pod_affinity_weight : int
    ignore_preferred : bool
        InterPodAffinity's ignorePreferredTermsOfExistingPods.
    """

    def __cinit__(self, NodeTable table not None, list filters not None, list scores not None,
                  list fit not None, list balanced not None, bint balanced_difference=True,
                  bint fit_unresolvable=True, str strategy="LeastAllocated", points=(), ignored=(),
                  ignored_groups=(), Shape added=None, tuple default_constraints=(),
                  bint system_defaulted=True, int hard_pod_affinity_weight=1, bint ignore_preferred=False):
        if max(len(filters), len(scores)) > MR_MAX_PLUGINS or max(len(fit), len(balanced)) > MR_MAX_RESOURCES:
            raise ValueError("too many plugins or scored resources in one profile")
        memset(&self.c, 0, sizeof(mr_plan))
        self.externals = []
        self.masks = {}
        self.filters = [_name(plugin) for plugin in filters]
        self.scores = [_name(plugin) for plugin, _ in scores]
        self.weights = {_name(plugin): weight for plugin, weight in scores}
        self.c.n_filters = len(filters)
        self.c.n_scores = len(scores)
        for at, plugin in enumerate(filters):
            self.c.filters[at] = self.kernel_of(plugin)
        for at, (plugin, weight) in enumerate(scores):
            self.c.scores[at] = self.kernel_of(plugin)
            self.c.weights[at] = weight
        self._keep_externals()
        self.c.n_fit = _weigh(table, fit, &self.c.fit[0])
        self.c.n_balanced = _weigh(table, balanced, &self.c.balanced[0])
        self.c.balanced_difference = balanced_difference
        self.c.fit_unresolvable = fit_unresolvable
        self.c.fit_strategy = STRATEGIES[strategy]
        self._keep_points(points)
        self.ignored = frozenset(ignored)
        self.ignored_groups = frozenset(ignored_groups)
        self.added = added
        if added is not None:
            self.c.added = &added.c
        self.default_constraints = default_constraints
        for constraint in default_constraints:  # columns are filled cheaply while nodes come
            table.label_keys.intern(constraint.topology_key)
        self.system_defaulted = system_defaulted
        self.hard_pod_affinity_weight = hard_pod_affinity_weight
        self.ignore_preferred = ignore_preferred

    cdef int kernel_of(self, plugin) except -1:
        """The number of a plugin in the plan."""
        if isinstance(plugin, str):
            return KERNELS[plugin]
        if plugin not in self.externals:
            self.externals.append(plugin)
        return MR_EXTERNAL + <int>self.externals.index(plugin)

    cdef int32_t number(self, str plugin) except -1:
        """The number of a plugin by its name, in the plan or not."""
        for at, external in enumerate(self.externals):
            if external.name == plugin:
                return MR_EXTERNAL + <int32_t>at
        return KERNELS[plugin]

    def _keep_externals(self):
        cdef External plugin
        cdef Py_ssize_t at
        self.needs_python = not all([external.is_native for external in self.externals])
        self.external_memory = Buffer(Journal(), sizeof(mr_external), len(self.externals) + 1)
        for at, plugin in enumerate(self.externals):
            (<mr_external*>self.external_memory.data)[at] = plugin.c
        self.c.externals = <mr_external*>self.external_memory.data

    def _keep_points(self, points):
        self.points = Buffer(Journal(), sizeof(mr_point), len(points) + 1)
        for at, (utilization, score) in enumerate(points):
            (<mr_point*>self.points.data)[<Py_ssize_t>at].utilization = utilization
            (<mr_point*>self.points.data)[<Py_ssize_t>at].score = score
        self.c.points = <mr_point*>self.points.data
        self.c.n_points = <int>len(points)

    cdef uint64_t ignored_of(self, Shape shape) except? 1:
        """Which of a shape's other requests are not checked, as bits."""
        if not self.ignored and not self.ignored_groups:
            return 0
        found = self.masks.get(shape.id)
        if found is None:
            found = 0
            for at, name in enumerate(shape.others):
                if _is_extended(name) and (name in self.ignored or name.split("/")[0] in self.ignored_groups):
                    found |= 1 << at
            self.masks[shape.id] = found
        return found

    def raise_error(self):
        """Raise what an external plugin has failed with, if any has."""
        cdef External plugin
        for plugin in self.externals:
            if plugin.error is not None:
                error, plugin.error = plugin.error, None
                raise error


def _name(plugin):
    return plugin if isinstance(plugin, str) else plugin.name


def _is_extended(str name):
    """Neither a native resource nor a quota's name (v1helper.IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


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

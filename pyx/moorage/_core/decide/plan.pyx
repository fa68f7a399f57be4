"""Plan: the filters and scores of a profile, compiled for the kernels."""

from libc.string cimport memset

from moorage._core.base cimport Journal

from moorage._core.csrc cimport *
from moorage._core.decide.external cimport External, PythonExternal

# The packing of a verdict; see `Search.verdicts`.
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
    "NodeDeclaredFeatures": MR_NODE_DECLARED_FEATURES,
}
STRATEGIES = {
    "LeastAllocated": MR_LEAST_ALLOCATED,
    "MostAllocated": MR_MOST_ALLOCATED,
    "RequestedToCapacityRatio": MR_REQUESTED_TO_CAPACITY_RATIO,
}

# The arguments of plugins, with their defaults.
ARGUMENTS = {
    "fit": [],
    "balanced": [],
    "balanced_difference": True,
    "fit_unresolvable": True,
    "exact_shares": False,
    "narrows": True,
    "narrows_to_named": False,
    "strategy": "LeastAllocated",
    "points": (),
    "ignored": (),
    "ignored_groups": (),
    "added": None,
    "default_constraints": (),
    "system_defaulted": True,
    "hard_pod_affinity_weight": 1,
    "ignore_preferred": False,
    "externals": (),
    "with_skipped": None,
}


cdef class Plan:
    """The filters and scores of a profile, with their arguments, in the order of the profile.

    Parameters
    ----------
    table : NodeTable
        Has the ids of resources and label keys.
    filters : list of (str or External)
        The filter plugins in order. Those of the core are given by name.
    scores : list of (str or External, int)
        The score plugins in order, with their weights.
    fit, balanced : list of (str, int), optional
        The resources and weights of the strategy of NodeResourcesFit, and of NodeResourcesBalancedAllocation.
    balanced_difference : bool
        Whether NodeResourcesBalancedAllocation scores the change of balance by the pod, as in v1.36, instead
        of the resulting balance, as up to v1.35.
    fit_unresolvable : bool
        Whether a request above a node's allocatable is UnschedulableAndUnresolvable, as since v1.34.
    exact_shares : bool
        Whether NodeResourcesFit scores shares without overflow, as since v1.38.
    narrows : bool
        Whether NodeAffinity has PreFilter, which restricts the search to the nodes that matchFields name.
    narrows_to_named : bool
        Whether NodeName has PreFilter, which restricts it to the node of spec.nodeName, as since v1.37.
    strategy : str
        LeastAllocated, MostAllocated or RequestedToCapacityRatio.
    points : sequence of (int, int)
        The shape of RequestedToCapacityRatio: utilization (percent) and score (0 to 100), by increasing
        utilization.
    ignored, ignored_groups : iterable of str
        The arguments ignoredResources and ignoredResourceGroups of NodeResourcesFit.
    added : Shape, optional
        The addedAffinity of NodeAffinity, as the shape of a pod that has it.
    default_constraints : tuple of TopologySpreadConstraint
        The constraints of PodTopologySpread for pods that have none.
    system_defaulted : bool
        Whether they are the scheduler's own (defaultingType System). Then nodes without a topology label are
        scored too.
    hard_pod_affinity_weight : int
        The argument hardPodAffinityWeight of InterPodAffinity, 0 to 100.
    ignore_preferred : bool
        The argument ignorePreferredTermsOfExistingPods of InterPodAffinity.
    externals : iterable of External
        Plugins outside the core that get the first numbers, as in another plan of the profile.
    with_skipped : callable, optional
        Makes the plan of the pods for which no plugin is skipped from this one; see `complete`.

    Attributes
    ----------
    filters, scores : list of str
        The names of the plugins in order.
    externals : list of External
        The plugins outside the core, each once.
    begins, follows : list of callable
        `PythonExternal.begin` and `PythonExternal.follow` of those that have them.
    needs_python : bool
        Whether one of them is a Python plugin.
    scored : frozenset of str
        The resources that NodeResourcesFit or NodeResourcesBalancedAllocation scores.

    Raises
    ------
    ValueError
        There are too many plugins or scored resources.
    KeyError
        There is no plugin or strategy of that name.
    """

    def __cinit__(self, NodeTable table not None, list filters not None, list scores not None, **arguments):
        unknown = arguments.keys() - ARGUMENTS.keys()
        if unknown:
            raise TypeError(f"a plan takes no argument {', '.join(sorted(unknown))}")
        arguments = ARGUMENTS | arguments
        cdef list fit = arguments["fit"], balanced = arguments["balanced"]
        cdef Shape added = arguments["added"]
        if max(len(filters), len(scores)) > MR_MAX_PLUGINS or max(len(fit), len(balanced)) > MR_MAX_RESOURCES:
            raise ValueError("too many plugins or scored resources in one profile")
        memset(&self.c, 0, sizeof(mr_plan))
        self.externals = list(arguments["externals"])
        self.with_skipped = arguments["with_skipped"]
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
        self.fit = [name for name, _ in fit]
        self.scored = frozenset([name for name, _ in (*fit, *balanced)])
        self.c.n_balanced = _weigh(table, balanced, &self.c.balanced[0])
        self.c.balanced_difference = arguments["balanced_difference"]
        self.c.fit_unresolvable = arguments["fit_unresolvable"]
        self.c.exact_shares = arguments["exact_shares"]
        self.narrows = arguments["narrows"]
        self.narrows_to_named = arguments["narrows_to_named"]
        self.c.fit_strategy = STRATEGIES[arguments["strategy"]]
        self._keep_points(arguments["points"])
        self.ignored = frozenset(arguments["ignored"])
        self.ignored_groups = frozenset(arguments["ignored_groups"])
        self.delegated = frozenset()
        self.added = added
        if added is not None:
            self.c.added = &added.c
        self.default_constraints = arguments["default_constraints"]
        for constraint in self.default_constraints:  # filling a column is cheapest while nodes are added
            table.label_keys.intern(constraint.topology_key)
        self.system_defaulted = arguments["system_defaulted"]
        self.hard_pod_affinity_weight = arguments["hard_pod_affinity_weight"]
        self.ignore_preferred = arguments["ignore_preferred"]

    cdef int kernel_of(self, plugin) except -1:
        """The number of a plugin for the kernels. A plugin outside the core is added on first use."""
        if isinstance(plugin, str):
            return KERNELS[plugin]
        if plugin not in self.externals:
            self.externals.append(plugin)
        return MR_EXTERNAL + <int>self.externals.index(plugin)

    cdef int32_t number(self, str plugin) except -1:
        """The number of a plugin by its name. Plugins of the core need not be in the plan."""
        for at, external in enumerate(self.externals):
            if external.name == plugin:
                return MR_EXTERNAL + <int32_t>at
        return KERNELS[plugin]

    cpdef Plan complete(self):
        """Return the plan for pods that plugins are asked about which are skipped for all others: those of
        `PodClasses.with_plugins`.

        Returns
        -------
        Plan
            Made by the first call; this plan, if no plugin is ever skipped.

        Raises
        ------
        ValueError
            The plan does not begin with the externals of this one, or it has more native ones.
        """
        cdef Plan made
        if self.completed is None and self.with_skipped is not None:
            made = self.with_skipped(self)
            others = made.externals[len(self.externals):]
            if self.externals + others != made.externals or any([one.is_native for one in others]):
                raise ValueError("a plan that completes another has its externals, and no more native ones")
            self.completed = made
        return self if self.completed is None else self.completed

    def _keep_externals(self):
        """Compile the plugins outside the core."""
        cdef External plugin
        cdef Py_ssize_t at
        self.needs_python = not all([external.is_native for external in self.externals])
        in_python = [one for one in self.externals if isinstance(one, PythonExternal)]
        self.begins = [one.begin for one in in_python if one.begin is not None]
        self.follows = [one.follow for one in in_python if one.follow is not None]
        self.external_memory = Buffer(Journal(), sizeof(mr_external), len(self.externals) + 1)
        for at, plugin in enumerate(self.externals):
            (<mr_external*>self.external_memory.data)[at] = plugin.c
        self.c.externals = <mr_external*>self.external_memory.data

    def _keep_points(self, points):
        """Compile the shape of RequestedToCapacityRatio."""
        self.points = Buffer(Journal(), sizeof(mr_point), len(points) + 1)
        for at, (utilization, score) in enumerate(points):
            (<mr_point*>self.points.data)[<Py_ssize_t>at].utilization = utilization
            (<mr_point*>self.points.data)[<Py_ssize_t>at].score = score
        self.c.points = <mr_point*>self.points.data
        self.c.n_points = <int>len(points)

    cdef bint narrows_for(self, Shape shape) noexcept:
        """Whether the search for a pod of a shape is restricted to the nodes that its matchFields name."""
        return self.narrows and (shape.is_pinned or shape.node_names is not None)

    cdef uint64_t ignored_of(self, Shape shape) except? 1:
        """The requests of a shape that NodeResourcesFit ignores: bit i is `shape.others[i]`."""
        if not self.ignored and not self.ignored_groups:
            return 0
        mask = self.masks.get(shape.id)
        if mask is None:
            mask = 0
            for at, name in enumerate(shape.others):
                if _is_extended(name) and (name in self.ignored or name.split("/")[0] in self.ignored_groups):
                    mask |= 1 << at
            self.masks[shape.id] = mask
        return mask

    def delegate(self, names):
        """Set the extended resources that NodeResourcesFit does not check on nodes without them, because
        device classes provide them.

        Parameters
        ----------
        names : iterable of str
        """
        self.delegated = frozenset(names)

    def provide(self, dict devices not None):
        """Set the devices that NodeResourcesFit scores as resources of nodes that have none themselves.

        Parameters
        ----------
        devices : dict of str to (rows, 2) int64 array
            By resource, for each row of the node table the number of devices and of those in use.
        """
        cdef const int64_t[:, ::1] numbers
        self.devices = devices
        for at, name in enumerate(self.fit):
            self.c.fit[<int>at].devices = NULL
            if name in devices:
                numbers = devices[name]
                if numbers.shape[1] == 2 and numbers.shape[0]:
                    self.c.fit[<int>at].devices = &numbers[0, 0]

    cdef uint64_t delegated_of(self, Shape shape) except? 1:
        """The requests of a shape for resources of `delegate`: bit i is `shape.others[i]`."""
        cdef uint64_t mask = 0
        if self.delegated:
            for at, name in enumerate(shape.others):
                if name in self.delegated:
                    mask |= <uint64_t>1 << at
        return mask

    def raise_error(self):
        """Raise the error of the plugin outside the core that has failed last, and clear all errors.

        Raises
        ------
        BaseException
            The error; nothing is raised if no plugin has failed.
        """
        cdef External plugin, latest = None
        for plugin in self.externals:
            if plugin.error is not None and (latest is None or plugin.failures > latest.failures):
                latest = plugin
        if latest is None:
            return
        error = latest.error
        for plugin in self.externals:
            plugin.error = None
        raise error

    def raise_interrupt(self):
        """Raise what ended a call of a plugin and is no Exception, such as KeyboardInterrupt, if anything
        did."""
        cdef External plugin
        for plugin in self.externals:
            if not isinstance(plugin.error, Exception | None):
                self.raise_error()


def _name(plugin):
    """The name of a plugin of the core or outside it."""
    return plugin if isinstance(plugin, str) else plugin.name


def _is_extended(str name):
    """Whether a resource is extended: neither a native one nor a quota (v1helper.IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


cdef int _weigh(NodeTable table, list resources, mr_weighted* out) except -1:
    """Compile resources and their weights. Returns the number of resources."""
    for at, (name, weight) in enumerate(resources):
        out[at].weight = weight
        if name == "cpu":
            out[at].resource = MR_CPU
        elif name == "memory":
            out[at].resource = MR_MEMORY
        else:
            out[at].resource = table.resource_id(name)
    return <int>len(resources)

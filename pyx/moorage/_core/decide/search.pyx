"""Search: the inputs of a scheduling cycle for one pod, and the filter verdicts of its nodes.

`Decider` chooses a node by a search. Diagnosis and explanations read the verdicts of all nodes. What-if
queries, for nominated pods and preemption, change rows in a transaction, run the filters, and roll back
(kube-scheduler v1.36, AddPod and RemovePod of PreFilterExtensions).
"""

import numpy as np
from libc.stdint cimport INT32_MAX, int16_t, int64_t
from libc.string cimport memcpy

from moorage._core.base cimport LOG_ORDER, IntLists, Journal, PortSets, Symbols
from moorage._core.csrc cimport *
from moorage._core.decide.class_state cimport ClassState
from moorage._core.decide.native_plugin cimport NativeExternal, NativeView
from moorage._core.settings cimport within

cdef enum:
    PARALLEL_FROM = 10_000  # nodes; for fewer, waking a thread costs more than it saves
    FEW = 8  # rows that have a resource are few if they are at most one in so many

MAX_THREADS = 1024

cdef uint64_t ALL = ~<uint64_t>0

cdef class Search:
    """The search of one profile over one cluster.

    Its methods raise IndexError for rows, classes and symbols that do not exist, and the error of a plugin
    outside the core that fails.

    Parameters
    ----------
    state : ClusterState
        The nodes and the pods on them.
    plan : Plan
        The filters and scores of the profile. For pods of `PodClasses.with_plugins` it is completed.

    Attributes
    ----------
    states : ClassStates
        What is cached for each class of pods.
    threads : int
        Threads of a loop over at least `parallel_from` nodes, 1 to 1024. No result depends on them
        (`tests/house/special_paths.toml`).
    parallel_from : int
        The number of nodes from which on several threads are used. For a scan that reads nothing but the
        columns of a node, 20 times as many nodes are needed.
    node_names : frozenset of str or None
        The names of the only nodes to search. None: the node affinity of the pod decides.
    on_nominated : callable or None
        Called with (row, pods) after nominated pods are added to a row, with (row, None) after removal.
    nominator : PodNominator or None
        The nominator whose pods `Placer.place` takes into account.
    invalid_score : callable
        Returns the exception for a score outside 0..100, from the plugin's name and the score.
    """

    def __cinit__(self, ClusterState state not None, Plan plan not None):
        cdef Journal journal = Journal()
        self.state = state
        self.plan = self.current = plan
        self.positions = Buffer(journal, sizeof(int32_t))
        self.totals = Buffer(journal, sizeof(int64_t))
        self.rows = Buffer(journal, sizeof(int32_t))
        self.scratch = Buffer(journal, sizeof(int64_t))
        self.lanes = Buffer(journal, sizeof(int32_t))
        self.seen = Buffer(journal, 1)
        self.fixed_ok = {}
        self.wanted_threads = 1
        self.shared_from = PARALLEL_FROM
        self.restricted = Buffer(journal, sizeof(int32_t))
        self.listing = state.view
        self._make_views()
        self.states = ClassStates(state.classes)
        self.nominations = Nominations(state)
        self.invalid_score = _invalid_score

    def _make_views(self):
        """Create the view of each native plugin, in the order of the plan. Python plugins have none."""
        cdef NativeView view
        cdef Py_ssize_t at
        self.views = []
        self.view_pointers = Buffer(Journal(), sizeof(void*), len(self.plan.externals) + 1)
        for at, plugin in enumerate(self.plan.externals):
            if isinstance(plugin, NativeExternal):
                view = NativeView(plugin, self.state)
                self.views.append(view)
                (<void**>self.view_pointers.data)[at] = &view.c

    cpdef Plan plan_of(self, int32_t pod_class):
        """Return the plan of the pods of a class.

        Parameters
        ----------
        pod_class : int

        Returns
        -------
        Plan
        """
        return self.plan.complete() if self.state.classes.asks_plugins(pod_class) else self.plan

    @property
    def threads(self):
        """The number of threads of a large search, 1 to 1024."""
        return self.wanted_threads

    @threads.setter
    def threads(self, value):
        self.wanted_threads = <int32_t>within("threads", value, 1, MAX_THREADS)

    @property
    def parallel_from(self):
        """The number of nodes from which on a search uses several threads."""
        return self.shared_from

    @parallel_from.setter
    def parallel_from(self, value):
        self.shared_from = <int32_t>within("parallel_from", value, 0, INT32_MAX // MR_PLAIN)

    def search_in(self, const int32_t[::1] rows=None):
        """Restrict the search to the nodes of a placement, as in a pod group cycle.

        Parameters
        ----------
        rows : (n,) int32 array, optional
            The rows of the nodes, in list order. None: all nodes of the cluster's view. Pods and images are
            counted over all nodes in any case.
        """
        cdef View view = self.state.view
        self.listing, self.in_placement = view, rows is not None
        if rows is not None:
            self.state.table.check_rows(rows)
            if self.placement is None:
                self.placement = View(Journal(), view.table, view.tree, view.images)
            self.placement.show_only(rows)
            self.listing = self.placement

    def is_in_placement(self, int32_t row):
        """Whether a row is one of the placement that is searched; each is, if there is none."""
        return not self.in_placement or self.placement.position_of(row) >= 0

    @property
    def nodes(self):
        """The number of nodes that can be searched, as of the last refresh of the view."""
        return self.listing.size

    @property
    def has_nominated(self):
        """Whether pods are nominated to nodes of the view, as of the last call of `follow_nominator`."""
        return bool(self.nominations.rows)

    def nominated_on(self, int32_t row, int32_t priority):
        """The nominated pods that count on a row for a pod of some priority, as of the last search.

        Parameters
        ----------
        row, priority : int

        Returns
        -------
        list of Pod
        """
        self.state.table.check_row(row)
        return [pod for pod, _ in self.nominations.counted_pods(row, priority)]

    cdef int _prepare(self, int32_t pod_class, int32_t node_name, int32_t pinned) except -1:
        """Bring the view and the counters up to date, and point the search to them and to a pod's class."""
        cdef Shape shape
        cdef Terms terms
        cdef NativeView view
        self.state.classes.check(pod_class)
        self.state.symbols.check(node_name)
        self.state.symbols.check(pinned)
        shape = self.state.classes.shape(pod_class)
        self.current = self.plan_of(pod_class)
        self.search.pod.node_name, self.search.pod.pinned_name = node_name, pinned
        self.search.pod.ignored = self.current.ignored_of(shape)
        self.search.pod.delegated = self.current.delegated_of(shape)
        self.search.nominated = NULL
        self.search.pod.volumes = self.states.point_to_demand(pod_class)
        self.state.view.refresh()
        if self.in_placement:
            self.listing.follow_usage()
        terms = self._terms_of(pod_class, pinned)
        self.terms = None if terms.is_empty() else terms
        for view in self.views:
            view.set_pod(pod_class)
        for begin in self.current.begins:
            begin(pod_class)
        _point(self, shape)
        if not self.leaves_out_nominated:
            _update_nominated_verdicts(self, pod_class)
        if self.node_names is not None:
            _restrict(self, self.node_names, 0)
        elif node_name and self.current.narrows_to_named:
            _restrict(self, _named_of(self, shape, node_name, pinned), 0)
        elif self.current.narrows_for(shape):
            _restrict(self, shape.node_names, pinned)

    cdef int reserve_found(self, Py_ssize_t nodes) except -1:
        """Reserve memory for the results of a search over a number of nodes."""
        self.found.positions = <int32_t*>self.positions.reserved(nodes)
        self.found.totals = <int64_t*>self.totals.reserved(nodes)
        self.found.rows = <int32_t*>self.rows.reserved(nodes)
        self.found.scores = <int64_t*>self.scratch.reserved(nodes)
        self.found.lanes = <int32_t*>self.lanes.reserved(nodes)

    cdef Terms _terms_of(self, int32_t pod_class, int32_t pinned):
        """Return the `Terms` of a pod with up-to-date counters. The parameters are those of `verdicts`."""
        cdef ClassState class_state = self.states.get(pod_class, 0, pinned)
        if class_state.terms is None or not class_state.terms.is_current():
            self.state.domains.enforce_limit()
            class_state.terms = Terms(self.state, self.plan, pod_class, pinned)
        return class_state.terms

    def terms_of(self, int32_t pod_class, int32_t pinned=0):
        """Return the spread constraints and affinity terms of a pod, with up-to-date counters.

        Parameters
        ----------
        pod_class : int
            The class of the pod.
        pinned : int
            The symbol of the node that the pod is pinned to by matchFields; 0: none.

        Returns
        -------
        Terms
        """
        self.state.classes.check(pod_class)
        self.state.symbols.check(pinned)
        cdef Terms terms = self._terms_of(pod_class, pinned)
        self.state.domains.refresh()
        terms.fill()
        return terms

    def nominate(self, nominations):
        """Set the nominated pods that the filters take into account for all pods that come next.

        The filters of a node must pass both with its nominated pods and without them (kube-scheduler v1.36,
        RunFilterPluginsWithNominatedPods). A nominated pod that is in the cache counts on its own node alone.

        Parameters
        ----------
        nominations : iterable of (int, sequence of Pod)
            A row, and the pods nominated to its node. They replace all earlier nominations.
        """
        self.nominations.replace(nominations)

    def follow_nominator(self, nominator, pod):
        """Take the nominated pods of a `PodNominator` into account, for pods of at most their priority.

        The cost is proportional to the number of changes since the last call.

        Parameters
        ----------
        nominator : PodNominator
        pod : Pod
            The pod that is scheduled next. Its own nomination does not count.
        """
        with nominator.lock:
            self.nominations.follow(nominator, pod)

    def verdicts(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Return the verdict of every searched node.

        Parameters
        ----------
        pod_class : int
            The class of the pod.
        node_name, pinned : int
            The symbols of its spec.nodeName and of the node that it is pinned to by matchFields; 0: none.

        Returns
        -------
        rows : (n,) int32 array
            The rows of the searched nodes, in list order.
        verdicts : (n,) uint64 array
            0 where the pod fits; else bits 56 to 63 are the index of the rejecting filter plus 1, bit 55 is
            set for UnschedulableAndUnresolvable, and the other bits are the reasons (csrc/state.h).
        """
        cdef int32_t at
        self._prepare(pod_class, node_name, pinned)
        cdef uint64_t[::1] out = _verdicts(self, ALL)
        if self.search.nominated:
            for at in range(self.search.n):
                out[at] = self.search.nominated[self.search.order[at]] or out[at]
        return self._searched(), np.asarray(out[:self.search.n])

    def mark_feasible(self, signed char[::1] out not None, int32_t pod_class, int32_t node_name=0,
                      int32_t pinned=0):
        """Mark the rows of the searched nodes where a pod fits.

        Parameters
        ----------
        out : (rows,) int8 array
            Becomes 1 for a row where the pod fits, and 0 for the others. It may have more items than there
            are rows.
        pod_class, node_name, pinned : int
            See `verdicts`.

        Returns
        -------
        int
            The number of these rows.

        Raises
        ------
        ValueError
            `out` has fewer items than the node table has rows.
        """
        cdef int32_t at, fitting = 0
        if out.shape[0] < self.state.table.used:
            raise ValueError(f"{self.state.table.used} rows, where {out.shape[0]} have room")
        self._prepare(pod_class, node_name, pinned)
        cdef uint64_t[::1] verdicts = _verdicts(self, ALL)
        out[:] = 0
        for at in range(self.search.n):
            if not verdicts[at] and not (self.search.nominated and
                                         self.search.nominated[self.search.order[at]]):
                out[self.search.order[at]] = 1
                fitting += 1
        return fitting

    def verdict(self, int32_t row, int32_t pod_class, int32_t node_name=0, int32_t pinned=0,
                bint nominated=True):
        """Return the verdict of the node of a row, which need not be searched; see `verdicts`.

        Parameters
        ----------
        nominated : bool
            Whether to take nominated pods into account.
        """
        cdef uint64_t out
        self.state.table.check_row(row)
        self.leaves_out_nominated = not nominated
        try:
            self._prepare(pod_class, node_name, pinned)
        finally:
            self.leaves_out_nominated = False
        if self.search.nominated and self.search.nominated[row]:
            return self.search.nominated[row]
        if mr_verdicts(&self.search, ALL, &row, 1, &out):
            self._raise_failure()
        return out

    def filter_verdicts(self, str plugin not None, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Return the verdicts of one filter of the plan on every searched node, regardless of other filters.

        Returns
        -------
        rows : (n,) int32 array
            The rows of the searched nodes, in list order.
        reasons : (n,) uint64 array
            The reasons as bits, with bit 55 for UnschedulableAndUnresolvable; 0 where the filter passes. A
            node that is rejected only with its nominated pods counts for the filter that rejects it then.
        """
        cdef int32_t place = <int32_t>self.plan_of(pod_class).filters.index(plugin), at
        cdef uint64_t verdict
        self._prepare(pod_class, node_name, pinned)
        cdef uint64_t[::1] out = _verdicts(self, <uint64_t>1 << place)
        for at in range(self.search.n if self.search.nominated else 0):
            verdict = self.search.nominated[self.search.order[at]]
            if verdict >> MR_VERDICT_SHIFT == <uint64_t>place + 1 and not out[at]:
                out[at] = verdict
        return self._searched(), np.asarray(out[:self.search.n]) & np.uint64(MR_REASONS | MR_UNRESOLVABLE)

    def searched_rows(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Return the rows of the nodes searched for a pod, in list order: a (n,) int32 array."""
        self._prepare(pod_class, node_name, pinned)
        return self._searched()

    def _searched(self):
        """A copy of the searched rows."""
        cdef int32_t[::1] rows = np.empty(self.search.n + 1, dtype=np.int32)
        memcpy(&rows[0], self.search.order, self.search.n * sizeof(int32_t))
        return np.asarray(rows[:self.search.n])

    def scores(self, str plugin not None, const int32_t[::1] rows not None, int32_t pod_class,
               int32_t node_name=0, int32_t pinned=0):
        """Return the scores of one native plugin for feasible nodes.

        Parameters
        ----------
        rows : (n,) int32 array
            The rows of the feasible nodes. The other parameters are those of `verdicts`.

        Returns
        -------
        raw, normalized : (n,) int64 array
            The scores before and after NormalizeScore; 0 to 100 after it.
        """
        cdef int32_t kernel = self.plan_of(pod_class).number(plugin)
        self.state.table.check_rows(rows)
        self._prepare(pod_class, node_name, pinned)
        return self._scores_of(kernel, rows)

    cdef tuple _scores_of(self, int32_t kernel, const int32_t[::1] rows):
        """The raw and normalized scores of a plugin for rows, for the prepared pod."""
        cdef NativeView view
        if len(rows) and kernel >= MR_EXTERNAL:
            plugin = self.current.externals[kernel - MR_EXTERNAL]
            for view in self.views:
                if view.plugin is plugin:
                    return view.scores(rows) or self._raise_failure()
            return plugin.examine(np.asarray(rows))
        return _scores(self, kernel, rows)

    def raw_scores(self, const int32_t[::1] rows not None, int32_t pod_class, int32_t node_name=0,
                   int32_t pinned=0):
        """Return the raw scores of all plugins for feasible nodes.

        Parameters
        ----------
        rows : (n,) int32 array
            The rows of the feasible nodes. The other parameters are those of `verdicts`.

        Returns
        -------
        (plugins, n) int64 array
            A row for each of the plan's scores. 0 for a plugin whose PreScore returns Skip.
        """
        cdef int32_t at
        self.state.table.check_rows(rows)
        self._prepare(pod_class, node_name, pinned)
        out = np.zeros((self.current.c.n_scores, len(rows)), dtype=np.int64)
        for at in range(self.current.c.n_scores):
            out[at] = self._scores_of(self.current.c.scores[at], rows)[0]
        return out

    def _raise_failure(self):
        """Raise the error of the plugin that has failed."""
        cdef NativeView view
        for view in self.views:
            error = view.take_failure()
            if error is not None:
                raise error
        self.current.raise_error()
        self._raise_invalid_score()
        raise RuntimeError("a plugin failed and did not say why")

    def _raise_invalid_score(self):
        """Raise the error for a kernel's score outside 0..100, if there is one: that of the first node found
        and its first plugin (kube-scheduler v1.36, RunScorePlugins with one worker)."""
        cdef int32_t[::1] rows = np.empty(self.found.feasible, dtype=np.int32)
        cdef int32_t at
        for at in range(self.found.feasible):
            rows[at] = self.found.rows[at]
        kernels = [(name, self.current.number(name)) for name in self.current.scores]
        scored = [(name, _scores(self, kernel, rows)[1]) for name, kernel in kernels if kernel < MR_EXTERNAL]
        for at in range(self.found.feasible):
            for name, scores in scored:
                if not 0 <= scores[at] <= 100:
                    raise self.invalid_score(name, int(scores[at]))

    def verdict_after(self, list changes not None, uint64_t filters, tuple target not None):
        """Return the verdict of a node with some pods removed and others added. All changes are undone.

        As upstream, AddPod and RemovePod of PodTopologySpread match by labels alone: terminating pods, and
        up to v1.37 all pods for an empty selector, are not counted by PreFilter, but change the counts when
        they are added or removed.

        Parameters
        ----------
        changes : list of (int, list of Pod, list of Pod, frozenset or None)
            Rows, each with the pods that are removed, those that are added and not in the cache, and the host
            ports (ip, protocol, port) in use then; None: those of its pods (see `PortSets`). The verdict is
            that of the first row.
        filters : int
            The filters to run: bit i is the filter of index i in the plan.
        target : (int, int, int)
            The class of the pod, and the symbols of its spec.nodeName and of the node that it is pinned to by
            matchFields; 0: none.

        Raises
        ------
        ValueError
            There is no change, or the target is not of three numbers.
        """
        cdef uint64_t verdict
        cdef int32_t row, pod_class, node_name, pinned
        if not changes:
            raise ValueError("no row")
        row = changes[0][0]
        pod_class, node_name, pinned = target
        self._prepare(pod_class, node_name, pinned)
        if self.terms is None and not self.current.externals:  # these alone read other rows
            changes = changes[:1]
        if any([removed or added for _, removed, added, _ in changes]):
            failed = _verdict_after_changes(self, pod_class, changes, filters, None, &verdict)
        else:
            failed = mr_verdicts(&self.search, filters, &row, 1, &verdict)
        if failed:
            self._raise_failure()
        return verdict

    def _repoint(self):
        """Refresh cached pointers and the minima of counters after a change of rows."""
        _fill_cluster(self)
        if self.terms is not None:
            self.state.domains.refresh()
            self.terms.fill()

    def notify_pod_change(self, int32_t pod_class, pods, int32_t row, bint adds):
        """Call add_pod (`adds`) or remove_pod of native plugins. The opposite call undoes it."""
        cdef NativeView view
        for pod in pods if self.views else ():
            for view in self.views:
                view.set_pod(pod_class)
                view.set_other_pod(self.state.classes.intern(pod))
            _fill_cluster(self)
            for view in self.views:
                view.notify_pod_change(row, adds)


cdef int _point(Search search, Shape shape) except -1:
    """Refresh the pointers to all inputs of the search, whose memory may have moved."""
    search.shape = shape
    _fill_cluster(search)
    _keep_memory(search, shape)
    search.reserve_found(search.state.view.size + 1)
    search.search.threads = search.wanted_threads
    search.search.plan = &search.current.c
    search.view_pointers.reserve(len(search.current.externals) + 1)
    search.search.views = <void**>search.view_pointers.data
    search.search.cluster = &search.cluster
    search.search.shape = &shape.c
    search.search.columns = &search.listing.columns
    search.search.order = search.listing.order.int32()
    search.search.n = search.listing.size
    search.search.has_images = _has_images(search, shape)
    search.search.scarce = _scarce_resource(search, shape)
    search.search.pod.terms = NULL
    if search.terms is not None:
        search.state.domains.refresh()
        search.terms.fill()
        search.search.pod.terms = &search.terms.c
        search.seen.reserve(search.terms.domains())
        search.found.seen = search.seen.uint8()
    _set_fixed_ok(search, shape)
    search.search.parallel_from = search.shared_from


cdef int _fill_cluster(Search search) except -1:
    """Refresh the pointers that kernels and native plugins read, after changes of pods alone."""
    cdef NativeView view
    cdef PortSets ports = search.state.table.port_sets
    search.state.view.fill_cluster(&search.cluster)
    search.port_conflicts, search.search.pod.ports = None, NULL
    if search.shape is not None and search.shape.c.n_ports and len(ports.sets) > 1 \
            and mr_filters(&search.current.c, MR_NODE_PORTS):
        search.port_conflicts = ports.conflicts_of(search.shape.ports, search.shape.c.ports)
        search.search.pod.ports = search.port_conflicts.uint8()
    for view in search.views:
        view.bind_cluster(&search.cluster)


cdef int _keep_memory(Search search, Shape shape) except -1:
    """Hold references to memory that is shared with forks: another thread may reallocate it meanwhile."""
    cdef Buffer taints = search.state.table.taint_sets.verdicts_of(shape.tolerations)
    cdef Symbols symbols = search.state.symbols
    cdef PortSets ports = search.state.table.port_sets
    search.search.pod.taints = <const int16_t*>taints.data
    search.held = (
        taints.memory, symbols.numbers.memory, symbols.are_numbers.memory,
        ports.ports.memory, ports.first.memory, ports.count.memory, search.port_conflicts, search.terms,
    )


cdef int32_t _scarce_resource(Search search, Shape shape) noexcept:
    """See `mr_search.scarce`. Where sums of requests can wrap, a row may have enough without having any: they
    may be below 0."""
    if not shape.c.n_others or search.state.classes.sums_may_wrap \
            or not mr_filters(&search.current.c, MR_NODE_RESOURCES_FIT):
        return -1
    cdef IntLists holders = search.state.table.holders
    cdef uint64_t unchecked = search.search.pod.ignored | search.search.pod.delegated
    cdef int32_t found = -1, fewest = search.state.table.used // FEW, at, rows
    for at in range(shape.c.n_others):
        if shape.c.others[at].need > 0 and not unchecked >> at & 1:
            rows = holders.count_bits(shape.c.others[at].resource, fewest)
            if rows <= fewest:
                found, fewest = shape.c.others[at].resource, rows
    return found


cdef bint _has_images(Search search, Shape shape) noexcept:
    """Whether a node has one of the shape's images."""
    cdef int32_t at
    for at in range(shape.c.n_images):
        if search.state.images.nodes(shape.c.images[at]):
            return True
    return False


cdef int _set_fixed_ok(Search search, Shape shape) except -1:
    """For each taint set, of schedulable and unschedulable nodes: whether NodeUnschedulable and
    TaintToleration pass the shape. Also whether TaintToleration scores all nodes alike."""
    cdef Py_ssize_t at, sets = len(search.state.table.taint_sets.sets)
    cdef bint tolerates = (shape.c.flags & MR_SHAPE_TOLERATES_UNSCHEDULABLE) != 0
    cdef Buffer out
    search.search.fixed_ok = NULL
    search.search.taints_alike = True
    if search.state.view.columns.n_fixed == 0:
        return 0
    out = search.fixed_ok.get(shape.tolerations)
    if out is None:
        out = search.fixed_ok[shape.tolerations] = Buffer(Journal(), 1)
    out.reserve(2 * sets)
    for at in range(sets):
        search.search.taints_alike &= mr_prefer_no_schedule(search.search.pod.taints[at]) == 0
        out.data[2 * at] = search.search.pod.taints[at] >= 0
        out.data[2 * at + 1] = search.search.pod.taints[at] >= 0 and tolerates
    search.search.fixed_ok = <const signed char*>out.data


cdef list _named_of(Search search, Shape shape, int32_t node_name, int32_t pinned):
    """The name of a pod's spec.nodeName, unless its required node affinity names other nodes."""
    name = search.state.symbols.names[node_name]
    if search.current.narrows_for(shape):
        if node_name != pinned and (shape.node_names is None or name not in shape.node_names):
            return []
    return [name]


cdef int _restrict(Search search, object names, int32_t pinned) except -1:
    """Restrict the search to the named nodes that exist, in list order (upstream's PreFilterResult)."""
    cdef int32_t* order = search.state.view.order_column()
    cdef int32_t* position = search.state.view.position_column()
    cdef int32_t row, at
    if names is None:
        symbols = [pinned]
    else:
        symbols = [search.state.symbols.find(name) for name in names]
    places = []
    for symbol in symbols:
        row = search.state.table.find(symbol)
        if row >= 0 and row < search.state.view.position.capacity and position[row]:
            places.append(position[row] - 1)
    if search.in_placement:
        inside = {position[search.search.order[at]] - 1 for at in range(search.search.n)}
        places = [place for place in places if place in inside]
    search.restricted.reserve(len(places) + 1)
    for at, place in enumerate(sorted(places)):
        search.restricted.int32()[at] = order[<int32_t>place]
    search.search.columns = NULL
    search.search.order = search.restricted.int32()
    search.search.n = <int32_t>len(places)


cdef uint64_t[::1] _verdicts(Search search, uint64_t filters):
    """The verdicts of all searched nodes by the filters whose bits are set, and one spare item."""
    cdef uint64_t[::1] out = np.empty(search.search.n + 1, dtype=np.uint64)
    cdef int32_t at, n
    for at in range(0, search.search.n, MR_CALL):
        n = min(MR_CALL, search.search.n - at)
        if mr_verdicts(&search.search, filters, search.search.order + at, n, &out[at]):
            search._raise_failure()
    return out


cdef tuple _scores(Search search, int32_t kernel, const int32_t[::1] rows):
    """The raw and normalized scores of a kernel over rows, for the prepared pod."""
    cdef int32_t n = <int32_t>rows.shape[0]
    cdef int64_t[::1] raw = np.empty(n + 1, dtype=np.int64)
    cdef int64_t[::1] normalized
    if n == 0 or not mr_scores(kernel, &search.current.c, search.search.shape, &search.search.pod):
        return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    mr_score_rows(&search.search, kernel, &rows[0], n, &raw[0], search.found.seen)
    normalized = np.array(raw)
    if mr_is_normalized(kernel):
        mr_normalize(kernel, &search.search.pod, &rows[0], &normalized[0], n)
    return np.asarray(raw[:n]), np.asarray(normalized[:n])


cdef int _update_nominated_verdicts(Search search, int32_t pod_class) except -1:
    """Bring the verdicts with nominated pods up to date, and point the search to them."""
    cdef const mr_pod* pod = &search.search.pod
    cdef ClassState class_state = search.states.get(pod_class, pod.node_name, pod.pinned_name)
    cdef NominatedVerdicts verdicts = class_state.nominated_verdicts
    if search.nominations.rows:
        verdicts = class_state.verdicts_with_nominated()
        verdicts.verdicts.reserve(search.state.table.used)
        search.nominations.has_pods.reserve(search.state.table.used)
        _update_row_verdicts(search, verdicts, pod_class)
    elif verdicts is None or not verdicts.n:
        return 0
    else:
        verdicts.clear()
        verdicts.epoch = -1
    if verdicts.n:
        search.search.nominated = verdicts.verdicts.uint64()


cdef int _update_row_verdicts(Search search, NominatedVerdicts verdicts, int32_t pod_class) except -1:
    """Run the filters again for the rows whose verdicts may have changed."""
    cdef dict rows = search.nominations.rows, changed = rows
    cdef int32_t row
    cdef int64_t at, head = search.state.log.head, last = search.state.log.capacity - 1
    if search.terms is not None:
        search.terms.c.affinity_off = mr_inter_pod_skips(&search.terms.c)
    if _can_follow_nominations(search, verdicts):
        changed = dict.fromkeys(search.nominations.changed[verdicts.cursor:])
        for at in range(verdicts.log_cursor, head):
            row = search.state.log.id[at & last]
            if search.state.log.kind[at & last] < LOG_ORDER and row in rows:
                changed[row] = None
    else:
        verdicts.clear()
    for row in changed:
        _update_row_verdict(search, verdicts, row, pod_class)
    if search.terms is not None:
        search.terms.c.affinity_off = False
    verdicts.epoch, verdicts.cursor = search.nominations.epoch, len(search.nominations.changed)
    verdicts.terms, verdicts.log_cursor = search.terms, head


cdef bint _can_follow_nominations(Search search, NominatedVerdicts verdicts) except -1:
    """Whether only rows that nominations or log have named since can have other verdicts. Terms count pods of
    other rows, and plugins outside the core may read anything."""
    if verdicts.epoch != search.nominations.epoch or search.terms is not None or verdicts.terms is not None \
            or search.current.externals:
        return False
    return not search.state.log.lost(verdicts.log_cursor)


cdef int _update_row_verdict(Search search, NominatedVerdicts verdicts, int32_t row,
                             int32_t pod_class) except -1:
    """Run the filters for a row with its nominated pods."""
    cdef Shape shape = search.state.classes.shape(pod_class)
    cdef uint64_t verdict
    cdef list pods = [pod for pod, _ in search.nominations.counted_pods(row, shape.c.priority)]
    if not pods:
        return verdicts.set(row, 0)
    if _is_plain(search, pods):
        _verdict_with_plain_pods(search, row, pods, &verdict)
    elif _verdict_after_changes(search, pod_class, [(row, [], pods, None)], ALL,
                                search.on_nominated if search.current.needs_python else None, &verdict):
        search._raise_failure()
    return verdicts.set(row, verdict)


cdef bint _verdict_after_changes(Search search, int32_t pod_class, list changes, uint64_t filters,
                                 object on_nominated, uint64_t* verdict) except -1:
    """The verdict of the first row of changes, which are as for `Search.verdict_after`. True if a plugin
    fails."""
    cdef int32_t row = changes[0][0]
    cdef bint failed, notified = False
    cdef dict watched = search.state.ledger.watched
    search.state.ledger.watched = None  # the nominator is not notified of changes that are undone
    _count_unlisted(search, changes, 1)
    mark = search.state.begin()
    try:
        for other, removed, added, _ in changes:
            for pod in removed:
                search.state._take_away(search.state._known(pod))
            for pod in added:
                search.state.put(pod, other)
        for other, _, _, ports in changes:
            if ports is not None:
                search.state.table.set_ports(other, ports)
        if on_nominated is not None:
            on_nominated(row, changes[0][2])
        for other, removed, added, _ in changes:
            search.notify_pod_change(pod_class, removed, other, False)
            search.notify_pod_change(pod_class, added, other, True)
        notified = True
        search._repoint()
        failed = mr_verdicts(&search.search, filters, &row, 1, verdict)
    finally:
        if on_nominated is not None:
            on_nominated(row, None)
        search.state.rollback(mark)
        search.state.ledger.watched = watched
        _count_unlisted(search, changes, -1)
        search.state.view.refresh()
        if notified:
            for other, removed, added, _ in reversed(changes):
                search.notify_pod_change(pod_class, reversed(added), other, False)
                search.notify_pod_change(pod_class, reversed(removed), other, True)
    search._repoint()
    return failed


cdef int _count_unlisted(Search search, list changes, int32_t sign) except -1:
    """Count the changed pods that only AddPod and RemovePod count; see `Terms.count_unlisted`."""
    if search.terms is not None:
        for row, removed, added, _ in changes:
            search.terms.count_unlisted(removed, row, -sign)
            search.terms.count_unlisted(added, row, sign)


cdef bint _is_plain(Search search, list pods) except -1:
    """Whether pods affect the filters of the prepared pod by their cpu and memory requests alone."""
    cdef Shape shape
    if search.terms is not None or search.current.externals:
        return False
    for pod in pods:
        shape = search.state.classes.shape(search.state.classes.intern(pod))
        if shape.c.n_ports or shape.c.n_others or shape.c.flags & MR_SHAPE_WIDE:
            return False
    return True


cdef int _verdict_with_plain_pods(Search search, int32_t row, list pods, uint64_t* verdict) except -1:
    """The verdict of a row with plain pods: adding their requests and subtracting them again is exact."""
    cdef Shape shape
    cdef list shapes = [search.state.classes.shape(search.state.classes.intern(pod)) for pod in pods]
    for shape in shapes:
        mr_row_add_pod(&search.cluster.ledger, row, &shape.c, 1)
    mr_verdicts(&search.search, ALL, &row, 1, verdict)
    for shape in shapes:
        mr_row_add_pod(&search.cluster.ledger, row, &shape.c, -1)


def _invalid_score(str plugin, score):
    """The exception for a score outside 0..100."""
    return ValueError(f'plugin "{plugin}" returns an invalid score {score}')

"""Search: what a scheduling cycle reads, brought up to date for one pod, and the verdict of every node.

`Decider` chooses by it; diagnosis, examination and explanation read the verdicts of all nodes. What-if
questions, for nominated pods and for preemption, change rows inside a transaction, ask the filters, and undo
the change (kube-scheduler v1.36, AddPod and RemovePod of the PreFilter extensions).
"""

import os

import numpy as np
from libc.stdint cimport INT32_MAX, int16_t, int64_t
from libc.string cimport memcpy

from moorage._core.base cimport LOG_ORDER, Journal, PortSets, Symbols
from moorage._core.csrc cimport *
from moorage._core.decide.class_state cimport ClassState
from moorage._core.decide.native_plugin cimport NativeExternal, NativeView
from moorage._core.settings cimport within

cdef enum:
    PARALLEL_FROM = 20_000  # nodes; below, to wake a thread costs more than it does
    PLAIN = 20  # times as many, where a node costs a nanosecond

MAX_THREADS = 1024

cdef uint64_t ALL = ~<uint64_t>0
# Threads of OpenMP do not survive a fork of the process: a child that asked for them would wait for ever.
cdef bint is_forked = False


def _after_fork():
    global is_forked
    is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


cdef class Search:
    """The search of one profile over one cluster.

    Attributes
    ----------
    threads, parallel_from : int
        Threads (1 to 1024) of a look at `parallel_from` nodes, 20 times as many for plain pods. No result
        depends on it.
    node_names : frozenset of str or None
        The only nodes to search, in place of those that the shape names.
    on_nominated : callable, optional
        Called with (row, pods) while nominated pods are on a row, and with (row, None) when they are off it.
    nominator : PodNominator or None
        The one that `Placer.place` follows.
    invalid_score : callable
        A native plugin's name and its score that is not in 0..100, to the exception that ends the cycle.
    """

    def __cinit__(self, ClusterState state not None, Plan plan not None):
        cdef Journal journal = Journal()
        self.state = state
        self.plan = plan
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
        """What native plugins are shown, in the order of the plan; plugins in Python need nothing."""
        cdef NativeView view
        cdef Py_ssize_t at
        self.views = []
        self.view_pointers = Buffer(Journal(), sizeof(void*), len(self.plan.externals) + 1)
        self.search.views = <void**>self.view_pointers.data
        for at, plugin in enumerate(self.plan.externals):
            if isinstance(plugin, NativeExternal):
                view = NativeView(plugin, self.state)
                self.views.append(view)
                (<void**>self.view_pointers.data)[at] = &view.c

    @property
    def threads(self):
        return self.wanted_threads

    @threads.setter
    def threads(self, value):
        self.wanted_threads = <int32_t>within("threads", value, 1, MAX_THREADS)

    @property
    def parallel_from(self):
        return self.shared_from

    @parallel_from.setter
    def parallel_from(self, value):
        self.shared_from = <int32_t>within("parallel_from", value, 0, INT32_MAX // PLAIN)

    # ---- preparing -----------------------------------------------------------------------------------------

    def search_in(self, const int32_t[::1] rows=None):
        """Search as if there were no other nodes than those of some rows, which are given in list order; by
        default all of the view again. Pods and images are counted over all nodes in any case."""
        cdef View view = self.state.view
        self.listing, self.in_placement = view, rows is not None
        if rows is not None:
            self.state.table.check_rows(rows)
            if self.placement is None:
                self.placement = View(Journal(), view.table, view.tree, view.images)
            self.placement.show_only(rows)
            self.listing = self.placement

    @property
    def nodes(self):
        """How many nodes there are for a search, as the view was last brought up to date."""
        return self.listing.size

    @property
    def has_nominated(self):
        """Whether pods are nominated to nodes of the view, as the nominator was last followed."""
        return bool(self.nominations.rows)

    cdef int _prepare(self, int32_t pod_class, int32_t node_name, int32_t pinned) except -1:
        """Bring the view and the counters up to date and point the search at them."""
        cdef Shape shape
        cdef Terms terms
        cdef NativeView view
        self.state.classes.check(pod_class)
        self.state.symbols.check(node_name)
        self.state.symbols.check(pinned)
        shape = self.state.classes.shape(pod_class)
        self.search.pod.node_name = node_name
        self.search.pod.pinned_name = pinned
        self.search.pod.ignored = self.plan.ignored_of(shape)
        self.search.nominated = NULL
        self.state.view.refresh()
        if self.in_placement:
            self.listing.follow_usage()
        terms = self._terms_of(pod_class, pinned)
        self.terms = None if terms.is_empty else terms
        for view in self.views:
            view.set_pod(pod_class)
        _point(self, shape)
        if not self.leaves_out_nominated:
            _judge_nominated(self, pod_class)
        if self.node_names is not None:
            _restrict(self, self.node_names, 0)
        elif shape.is_pinned:
            _restrict(self, None, pinned)
        elif shape.node_names is not None:
            _restrict(self, shape.node_names, 0)

    cdef int reserve_found(self, Py_ssize_t nodes) except -1:
        """Have the memory for what is found among so many nodes."""
        for buffer in (self.positions, self.totals, self.rows, self.scratch, self.lanes):
            (<Buffer>buffer).reserve(nodes)
        self.found.positions = <int32_t*>self.positions.data
        self.found.totals = <int64_t*>self.totals.data
        self.found.rows = <int32_t*>self.rows.data
        self.found.scores = <int64_t*>self.scratch.data
        self.found.lanes = <int32_t*>self.lanes.data

    cdef Terms _terms_of(self, int32_t pod_class, int32_t pinned):
        cdef ClassState one = self.states.get(pod_class, 0, pinned)
        if one.terms is None or not one.terms.is_current():
            self.state.domains.enforce_limit()
            one.terms = Terms(self.state, self.plan, pod_class, pinned)
        return one.terms

    def terms_of(self, int32_t pod_class, int32_t pinned=0):
        """The spread constraints and affinity terms that a pod is judged by, as the counters are now."""
        self.state.classes.check(pod_class)
        self.state.symbols.check(pinned)
        cdef Terms terms = self._terms_of(pod_class, pinned)
        self.state.domains.refresh()
        terms.fill()
        return terms

    # ---- nominated pods ------------------------------------------------------------------------------------

    def nominate(self, nominations):
        """Pods that go before the next ones where they are nominated: (row, pods) per node. Filters run with
        them there, and again without (kube-scheduler v1.36, RunFilterPluginsWithNominatedPods). One that is
        in the cache by now counts where it is."""
        self.nominations.give(nominations)

    def follow_nominator(self, nominator, pod):
        """The same for all pods of a `PodNominator`: those of at least the priority of the pods that come
        next. The next question is about `pod`. Costs what has changed since the last time."""
        with nominator.lock:
            self.nominations.follow(nominator, pod)

    cdef int32_t _follow(self, PodBatch batch, int32_t first, int32_t end) except -1:
        """Follow the nominator for the pods of a batch from `first` on; the end of those that it has no node
        for."""
        if self.nominator is None:
            return end
        if not self.nominator.nodes:
            self.nominations.give(())
            return end
        end = batch.until_one_of(self.nominator.nodes, first, end)
        if first < end:
            self.follow_nominator(self.nominator, batch.pod(first))
        return end

    cdef int32_t _place_of(self, int32_t row) noexcept:
        """Position of a row in the searched list, or -1."""
        cdef int32_t at
        for at in range(self.search.n):
            if self.search.order[at] == row:
                return at
        return -1

    # ---- looking -------------------------------------------------------------------------------------------

    def verdicts(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """The verdict of every searched node: (rows, verdicts), int32 and uint64 arrays in list order.

        A verdict is 0 where the pod fits, else (index of the rejecting filter + 1) << 56, bit 55 where it is
        unresolvable, and the plugin's reasons as bits (csrc/state.h).
        """
        cdef int32_t at
        self._prepare(pod_class, node_name, pinned)
        cdef uint64_t[::1] out = _verdicts(self, ALL)
        if self.search.nominated:
            for at in range(self.search.n):
                out[at] = self.search.nominated[self.search.order[at]] or out[at]
        return self._searched(), np.asarray(out[:self.search.n])

    def verdict(self, int32_t row, int32_t pod_class, int32_t node_name=0, int32_t pinned=0,
                bint nominated=True):
        """The verdict of one node of the view, searched or not; without `nominated`, as if nobody were
        nominated there."""
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
        """What one filter of the plan alone says of every searched node: (rows, reason bits, 0 where it
        passes). Of a node that only nominated pods make unfit, the filter that rejects it then."""
        cdef int32_t place = <int32_t>self.plan.filters.index(plugin), at
        cdef uint64_t verdict
        self._prepare(pod_class, node_name, pinned)
        cdef uint64_t[::1] out = _verdicts(self, <uint64_t>1 << place)
        for at in range(self.search.n if self.search.nominated else 0):
            verdict = self.search.nominated[self.search.order[at]]
            if verdict >> MR_VERDICT_SHIFT == <uint64_t>place + 1 and not out[at]:
                out[at] = verdict
        return self._searched(), np.asarray(out[:self.search.n]) & np.uint64(MR_REASONS | MR_UNRESOLVABLE)

    def searched_rows(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Rows of the nodes that are searched for a pod, an int32 array in list order."""
        self._prepare(pod_class, node_name, pinned)
        return self._searched()

    def _searched(self):
        cdef int32_t[::1] rows = np.empty(self.search.n + 1, dtype=np.int32)
        memcpy(&rows[0], self.search.order, self.search.n * sizeof(int32_t))
        return np.asarray(rows[:self.search.n])

    def scores(self, str plugin not None, const int32_t[::1] rows not None, int32_t pod_class,
               int32_t node_name=0, int32_t pinned=0):
        """Raw and normalized scores of one native plugin over feasible rows: two int64 arrays."""
        cdef int32_t kernel = self.plan.number(plugin)
        cdef NativeView view
        self.state.table.check_rows(rows)
        self._prepare(pod_class, node_name, pinned)
        if len(rows) and kernel >= MR_EXTERNAL:
            for view in self.views:
                if view.plugin.name == plugin:
                    return view.scores(rows) or self._raise_failure()
        return _scores(self, kernel, rows)

    def _raise_failure(self):
        """Raise what a plugin has failed with."""
        cdef NativeView view
        for view in self.views:
            error = view.take_failure()
            if error is not None:
                raise error
        self.plan.raise_error()
        self._raise_invalid_score()
        raise RuntimeError("a plugin failed and did not say why")

    def _raise_invalid_score(self):
        """Raise that a score of a kernel is not in 0..100: that of the first node found, of its first plugin
        (kube-scheduler v1.36, RunScorePlugins with one worker)."""
        cdef int32_t[::1] rows = np.empty(self.found.feasible, dtype=np.int32)
        cdef int32_t at
        for at in range(self.found.feasible):
            rows[at] = self.found.rows[at]
        kernels = [(name, self.plan.number(name)) for name in self.plan.scores]
        scored = [(name, _scores(self, kernel, rows)[1]) for name, kernel in kernels if kernel < MR_EXTERNAL]
        for at in range(self.found.feasible):
            for name, scores in scored:
                if not 0 <= scores[at] <= 100:
                    raise self.invalid_score(name, int(scores[at]))

    # ---- what if -------------------------------------------------------------------------------------------

    def verdict_after(self, int32_t row, list removed not None, list added not None, uint64_t asked,
                      object ports, int32_t pod_class, int32_t node_name=0, int32_t pinned=0, elsewhere=()):
        """The verdict of a node without some of its pods and with others; nothing of that stays.

        What PreFilter computed follows each pod's labels alone, as upstream: spread constraints with an empty
        selector, and terminating pods, count in neither case before, but when they are added and removed.

        Parameters
        ----------
        removed, added : list of Pod
            Pods that are on the row, and pods that are not in the cache.
        asked : int
            The filters to ask, as bits by their place in the plan.
        ports : frozenset of (ip, protocol, port), optional
            The host ports in use then, where they are not what follows from the pods (see `PortSets`).
        elsewhere : sequence of (int, list of Pod)
            Other rows, and pods that are removed from them.
        """
        cdef uint64_t verdict
        self._prepare(pod_class, node_name, pinned)
        changes = [(row, removed, added)] if removed or added else []
        if self.terms is not None or self.plan.externals:  # nobody else looks at other rows
            changes += [(other, pods, []) for other, pods in elsewhere]
        if not changes:
            failed = mr_verdicts(&self.search, asked, &row, 1, &verdict)
        else:
            failed = _judge(self, pod_class, row, changes, ports, asked, None, &verdict)
        if failed:
            self._raise_failure()
        return verdict

    def _repoint(self):
        """After a change of rows only: memory may have moved, and minima are other ones."""
        _fill_cluster(self)
        if self.terms is not None:
            self.state.domains.refresh()
            self.terms.fill()

    def notify_pod_change(self, int32_t pod_class, pods, int32_t row, bint adds):
        """Tell plugins in C that the next questions, which are about a pod of this class, suppose `pods` on a
        row, or off it. Each call is to be taken back by the opposite one."""
        cdef NativeView view
        for pod in pods if self.views else ():
            for view in self.views:
                view.set_pod(pod_class)
                view.set_other_pod(self.state.classes.intern(pod))
            _fill_cluster(self)
            for view in self.views:
                view.notify_pod_change(row, adds)


cdef int _point(Search search, Shape shape) except -1:
    """Take the addresses of everything that the search reads; the memory may have moved."""
    _fill_cluster(search)
    _hold(search, shape)
    search.reserve_found(search.state.view.size + 1)
    search.search.threads = 1 if is_forked else search.wanted_threads
    search.search.plan = &search.plan.c
    search.search.cluster = &search.cluster
    search.search.shape = &shape.c
    search.search.columns = &search.listing.columns
    search.search.order = <int32_t*>search.listing.order.data
    search.search.n = search.listing.size
    search.search.has_images = _has_images(search, shape)
    search.search.pod.terms = NULL
    if search.terms is not None:
        search.state.domains.refresh()
        search.terms.fill()
        search.search.pod.terms = &search.terms.c
        search.seen.reserve(search.terms.domains())
        search.found.seen = <unsigned char*>search.seen.data
    _set_fixed_ok(search, shape)
    search.search.parallel_from = search.shared_from * (1 if _asks_much(search, shape) else PLAIN)


# ---- preparing


cdef bint _asks_much(Search search, Shape shape) except -1:
    """Whether a node is asked more about than its columns show."""
    cdef bint names = shape.has_node_affinity or shape.has_preferred
    return names or bool(shape.ports) or search.terms is not None or not mr_is_fused(&search.search)


cdef int _fill_cluster(Search search) except -1:
    """Take the addresses of what kernels and native plugins read, as long as no node changes."""
    cdef NativeView view
    search.state.view.fill_cluster(&search.cluster)
    for view in search.views:
        view.bind_cluster(&search.cluster)


cdef int _hold(Search search, Shape shape) except -1:
    """Keep the memory of what is shared with forks: another thread may make it grow meanwhile."""
    cdef Buffer taints = search.state.table.taint_sets.verdicts_of(shape.tolerations)
    cdef Symbols symbols = search.state.symbols
    cdef PortSets ports = search.state.table.port_sets
    search.search.pod.taints = <const int16_t*>taints.data
    search.held = (
        taints.memory, symbols.numbers.memory, symbols.are_numbers.memory,
        ports.ports.memory, ports.first.memory, ports.count.memory,
    )


cdef bint _has_images(Search search, Shape shape) noexcept:
    cdef int32_t at
    for at in range(shape.c.n_images):
        if search.state.images.nodes(shape.c.images[at]):
            return True
    return False


cdef int _set_fixed_ok(Search search, Shape shape) except -1:
    """Per (taint set, unschedulable): whether NodeUnschedulable and TaintToleration pass the shape; and
    whether TaintToleration can score one node worse than another."""
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


cdef int _restrict(Search search, object names, int32_t pinned) except -1:
    """Search only the named nodes that exist, in list order (PreFilterResult)."""
    cdef int32_t* order = <int32_t*>search.state.view.order.data
    cdef int32_t* position = <int32_t*>search.state.view.position.data
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
        (<int32_t*>search.restricted.data)[at] = order[<int32_t>place]
    search.search.columns = NULL
    search.search.order = <int32_t*>search.restricted.data
    search.search.n = <int32_t>len(places)


# ---- looking


cdef uint64_t[::1] _verdicts(Search search, uint64_t asked):
    """The verdict of every searched node by the filters whose bits are set; room for one more."""
    cdef uint64_t[::1] out = np.empty(search.search.n + 1, dtype=np.uint64)
    cdef int32_t at, n
    for at in range(0, search.search.n, MR_CALL):
        n = min(MR_CALL, search.search.n - at)
        if mr_verdicts(&search.search, asked, search.search.order + at, n, &out[at]):
            search._raise_failure()
    return out


cdef tuple _scores(Search search, int32_t kernel, const int32_t[::1] rows):
    """Raw and normalized scores of a kernel over rows, for the pod that the search is prepared for."""
    cdef int32_t n = <int32_t>rows.shape[0]
    cdef int64_t[::1] raw = np.empty(n + 1, dtype=np.int64)
    cdef int64_t[::1] normalized
    if n == 0 or not mr_scores(kernel, &search.plan.c, search.search.shape, &search.search.pod):
        return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    mr_score_rows(&search.search, kernel, &rows[0], n, &raw[0], search.found.seen)
    normalized = np.array(raw)
    if mr_is_normalized(kernel):
        mr_normalize(kernel, &search.search.pod, &rows[0], &normalized[0], n)
    return np.asarray(raw[:n]), np.asarray(normalized[:n])


# ---- nominated pods


cdef int _judge_nominated(Search search, int32_t pod_class) except -1:
    """Bring the verdicts with nominated pods up to date, and point the search at them."""
    cdef const mr_pod* pod = &search.search.pod
    cdef ClassState owner = search.states.get(pod_class, pod.node_name, pod.pinned_name)
    cdef Judgements one = owner.judgements
    if search.nominations.rows:
        one = owner.judge()
        one.verdicts.reserve(search.state.table.used)
        search.nominations.has_pods.reserve(search.state.table.used)
        _judge_rows(search, one, pod_class)
    elif one is None or not one.n:
        return 0
    else:
        one.clear()
        one.epoch = -1
    if one.n:
        search.search.nominated = <const uint64_t*>one.verdicts.data


cdef int _judge_rows(Search search, Judgements one, int32_t pod_class) except -1:
    """Judge the rows whose verdicts may have changed since the last time."""
    cdef dict rows = search.nominations.rows
    cdef int32_t row
    cdef int64_t at, head = search.state.log.head, last = search.state.log.capacity - 1
    if search.terms is not None:
        search.terms.c.affinity_off = mr_inter_pod_skips(&search.terms.c)
    if _can_follow_judgements(search, one):
        for row in search.nominations.changed[one.cursor:]:
            _judge_row(search, one, row, pod_class)
        for at in range(one.log_cursor, head):
            row = search.state.log.id[at & last]
            if search.state.log.kind[at & last] < LOG_ORDER and row in rows:
                _judge_row(search, one, row, pod_class)
    else:
        one.clear()
        for row in rows:
            _judge_row(search, one, row, pod_class)
    if search.terms is not None:
        search.terms.c.affinity_off = False
    one.epoch, one.cursor, one.terms = search.nominations.epoch, len(search.nominations.changed), search.terms
    one.log_cursor = head


cdef bint _can_follow_judgements(Search search, Judgements one) except -1:
    """Whether only rows that were named since can have other verdicts. Terms count pods of other rows,
    and what plugins outside the core look at nobody knows."""
    if one.epoch != search.nominations.epoch or search.terms is not None or one.terms is not None \
            or search.plan.externals:
        return False
    return not search.state.log.lost(one.log_cursor)


cdef int _judge_row(Search search, Judgements one, int32_t row, int32_t pod_class) except -1:
    cdef Shape shape = search.state.classes.shape(pod_class)
    cdef uint64_t verdict
    cdef list pods = [pod for pod, _ in search.nominations.before(row, shape.c.priority)]
    if not pods:
        return one.set(row, 0)
    if _is_plain(search, pods):
        _judge_plain(search, row, pods, &verdict)
    elif _judge(search, pod_class, row, [(row, [], pods)], None, ALL, search.on_nominated, &verdict):
        search._raise_failure()
    return one.set(row, verdict)


# ---- what if


cdef bint _judge(Search search, int32_t pod_class, int32_t row, list changes, object ports, uint64_t asked,
                 object on_nominated, uint64_t* verdict) except -1:
    """The verdict of a row with some changes: (row, removed, added) each; true where a plugin fails."""
    cdef bint failed, told = False
    cdef dict watched = search.state.ledger.watched
    search.state.ledger.watched = None  # nobody is to hear of what is undone again
    _count_unlisted(search, changes, 1)
    search.state.domains.count_unlisted(True)
    mark = search.state.begin()
    try:
        for other, removed, added in changes:
            for pod in removed:
                search.state._take_away(search.state._known(pod))
            for pod in added:
                search.state.put(pod, other)
        if ports is not None:
            search.state.table.set_ports(row, ports)
        if on_nominated is not None:
            on_nominated(row, changes[0][2])
        for other, removed, added in changes:
            search.notify_pod_change(pod_class, removed, other, False)
            search.notify_pod_change(pod_class, added, other, True)
        told = True
        search._repoint()
        failed = mr_verdicts(&search.search, asked, &row, 1, verdict)
    finally:
        if on_nominated is not None:
            on_nominated(row, None)
        search.state.rollback(mark)
        search.state.ledger.watched = watched
        search.state.domains.count_unlisted(False)
        _count_unlisted(search, changes, -1)
        search.state.view.refresh()
        if told:
            for other, removed, added in reversed(changes):
                search.notify_pod_change(pod_class, reversed(added), other, False)
                search.notify_pod_change(pod_class, reversed(removed), other, True)
    search._repoint()
    return failed


cdef int _count_unlisted(Search search, list changes, int32_t sign) except -1:
    if search.terms is not None:
        for row, removed, added in changes:
            search.terms.count_unlisted(removed, row, -sign)
            search.terms.count_unlisted(added, row, sign)


cdef bint _is_plain(Search search, list pods) except -1:
    """Whether some pods matter by cpu and memory alone to the pod in question."""
    cdef Shape shape
    if search.terms is not None or search.plan.externals:
        return False
    for pod in pods:
        shape = search.state.classes.shape(search.state.classes.intern(pod))
        if shape.c.n_ports or shape.c.n_others or shape.c.flags & MR_SHAPE_WIDE:
            return False
    return True


cdef int _judge_plain(Search search, int32_t row, list pods, uint64_t* verdict) except -1:
    """`_judge` for such pods: adding up their requests, and taking them away again, is exact."""
    cdef Shape shape
    cdef list shapes = [search.state.classes.shape(search.state.classes.intern(pod)) for pod in pods]
    for shape in shapes:
        mr_row_add_pod(&search.cluster.ledger, row, &shape.c, 1)
    mr_verdicts(&search.search, ALL, &row, 1, verdict)
    for shape in shapes:
        mr_row_add_pod(&search.cluster.ledger, row, &shape.c, -1)


def _invalid_score(str plugin, score):
    return ValueError(f'plugin "{plugin}" returns an invalid score {score}')

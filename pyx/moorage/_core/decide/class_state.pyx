"""ClassState: the cached data of a pod class between scheduling cycles.

Data that depend on the cluster are valid at one head of the change log, or follow the log from a cursor.
"""

from collections import OrderedDict

from libc.stdint cimport INT16_MAX, uint64_t
from libc.string cimport memcmp, memcpy, memset

from moorage._core.base cimport HEADER, IntLists, Journal
from moorage._core.state cimport Counter, Matched

# Estimated costs in nanoseconds, as bench/ measures them. They choose between algorithms with equal results.
cdef enum:
    DECISION = 60
    LANE = 1             # a node in a scan
    LANE_OF_TERMS = 30   # for a pod with terms
    ROW = 12             # the update of candidates at a changed row
    ROW_OF_TERMS = 60
    BUILD = 2            # a node when candidates are built
    BUILD_OF_TERMS = 40

cdef enum:
    SOME_BUCKETS = 8              # the first capacity of candidates with terms
    BYTES_LIMIT = 256 << 20  # of all class states
    FIXED_BYTES = 4096       # of a class state without its arrays: as measured, with its objects


cdef enum:  # whether the results of filters that read names, labels and taints are cached for all rows
    NOT_CACHED
    CACHED
    NOT_NEEDED  # the class has no such filter


cdef bint candidates_pay_off(ClassSearch* class_search, int64_t head, int64_t following) noexcept nogil:
    """Whether to decide by candidates instead of a scan, where `following` more pods of the class come next.

    Up-to-date candidates are used at once. Building them, or following many changes, must pay off: the extra
    cost of scans is accumulated as credit until it exceeds that cost, as in the ski rental problem (Karlin,
    Manasse, Rudolph and Sleator 1988, competitive snoopy caching).
    """
    cdef bint in_terms = class_search.candidates.key.size > 0
    cdef int64_t row = ROW_OF_TERMS if in_terms else ROW, n = class_search.search.n
    # A search without a feasible node examines all nodes.
    cdef int64_t lanes = n if class_search.failed >= 0 else min(<int64_t>class_search.wanted, n)
    cdef int64_t scan = DECISION + lanes * (LANE_OF_TERMS if in_terms else LANE)
    cdef int64_t build = n * (BUILD_OF_TERMS if in_terms else BUILD)
    cdef bint kept = class_search.candidates.state == MR_VALID
    cdef int64_t behind = min((head - class_search.candidates.cursor) * row, build) if kept else build
    cdef int64_t gap = (head - class_search.last) * row
    class_search.last = head
    if kept and behind <= scan:
        return True
    class_search.credit = max(<int64_t>0, class_search.credit + scan - gap)
    if class_search.credit + following * (scan - row) < behind:
        return False
    class_search.credit = 0
    return True


cdef class Candidates:
    """The totals of all nodes for pods of one class, in list order, updated by the change log.

    Bit sets and block maxima over them yield the nodes that a search would examine, and the one that it would
    choose (csrc/candidates.h).
    """

    def __cinit__(self, Journal journal not None):
        self.memory = Buffer(journal, 1, 0)

    cdef int point(self, const mr_search* search, object terms) except -1:
        """Refresh the pointers to a prepared search. Candidates of other terms become invalid."""
        mr_candidates_point(&self.c, search)
        if terms is not self.terms:
            self.c.state = MR_UNMADE
        self.terms = terms

    cdef int build(self, const mr_changes* changes, int32_t* lanes, uint8_t* seen) except -1:
        """Build the candidates from all nodes. Returns 1 if several threads took part."""
        cdef int parallel = 0
        cdef Py_ssize_t nbytes
        cdef int32_t stride = 1 if self.c.key.size == 0 else max(self.c.stride, SOME_BUCKETS)
        if self.c.state == MR_MORE_BUCKETS:
            stride *= 2
        self.c.state = MR_MORE_BUCKETS
        while self.c.state == MR_MORE_BUCKETS:
            nbytes = mr_candidates_layout(&self.c, NULL, stride)
            self.memory.reserve(nbytes)
            memset(self.memory.data, 0, nbytes)
            mr_candidates_layout(&self.c, self.memory.data, stride)
            with nogil:
                parallel = mr_candidates_build(&self.c, changes, lanes, seen)
            stride *= 2
        return parallel

    cdef int make_room(self, const mr_search* search) except -1:
        """Make room for the blocks of a scan (`mr_scan_decide`) over as many nodes as a search has."""
        cdef Py_ssize_t nbytes
        cdef int32_t at
        if self.c.n == search.n and self.c.stride:
            return 0
        self.c.search.n = self.c.n = search.n
        nbytes = mr_candidates_layout(&self.c, NULL, 1)
        self.memory.reserve(nbytes)
        memset(self.memory.data, 0, nbytes)
        mr_candidates_layout(&self.c, self.memory.data, 1)
        for at in range(search.n // (MR_LANES * MR_LANES) + 1):
            self.c.supers[at] = INT16_MAX  # no block is ruled out by its superblock


cdef class ClassState:
    """The cached data of a search for pods of one target: class, named node and pinned node.

    Parameters
    ----------
    shape : Shape
        The shape of the class.

    Attributes
    ----------
    passes : bool or None
        Whether PreFilter and PreScore pass such pods, which depends on the pod alone. None: not known yet.
    failure : object or None
        Why such pods are unschedulable; see `ClassStates.failure_of`.
    """

    def __cinit__(self, Shape shape not None):
        self.shape = shape
        self.c.shape = &shape.c
        self.c.owner = <void*>self
        self.c.failed = -1
        journal = Journal()
        self.candidates = Candidates(journal)
        self.counted = Buffer(journal, sizeof(void*), 0)  # most classes need few of these
        self.undo = Buffer(journal, sizeof(Undo), 0)
        self.verdicts = Buffer(journal, sizeof(uint64_t), 0)
        self.named = Buffer(journal, sizeof(uint64_t), 0)
        self.named_by = -1
        self.order = Buffer(journal, sizeof(int32_t), 0)

    cdef bint is_made_of(self, const mr_search* search, int64_t version) noexcept nogil:
        """Whether the prepared search of this class is still valid for a search of the profile.

        It is if the search of the profile and the static version of the nodes are unchanged. Classes with
        terms, and searches in a placement, are always prepared again.
        """
        return self.named_by == version and self.named_state != NOT_CACHED and search.columns != NULL \
            and memcmp(&self.source, search, sizeof(mr_search)) == 0

    cdef dict rejections(self, const mr_changes* changes, object terms):
        """The number of nodes of each verdict other than 0; None if there are too many verdicts."""
        cdef int32_t at
        cdef bint is_other = self.histogram_terms is not terms or self.histogram.n != self.c.search.n
        if is_other or self.histogram.state != MR_VALID:
            self.verdicts.reserve(self.c.search.n + 1)
            self.histogram.verdicts = self.verdicts.uint64()
            self.histogram_terms = terms
            self.histogram.state = MR_UNMADE
        with nogil:
            if self.histogram.state == MR_VALID:
                mr_verdict_histogram_follow(&self.histogram, &self.c.search, changes)
            else:
                mr_verdict_histogram_build(&self.histogram, &self.c.search, changes)
        if self.histogram.state != MR_VALID:
            return None
        out = {}
        for at in range(self.histogram.used):
            if self.histogram.values[at] and self.histogram.counts[at]:
                out[self.histogram.values[at]] = self.histogram.counts[at]
        return out

    cdef NominatedVerdicts verdicts_with_nominated(self):
        """The verdicts with nominated pods, created on first use."""
        if self.nominated_verdicts is None:
            self.nominated_verdicts = NominatedVerdicts()
            self.c.flips = &self.nominated_verdicts.flips
        return self.nominated_verdicts

    cdef int count_nominated(self, dict counts, const int32_t* positions) except -1:
        """Replace the verdicts of rows with nominated pods in `counts` by those with these pods."""
        cdef const int32_t* rows = self.nominated_verdicts.rows.int32()
        cdef int32_t at, position, same = 0
        cdef uint64_t before = 0, now = 0, verdict
        for at in range(self.nominated_verdicts.n):
            position = positions[rows[at]] - 1
            if position < 0:
                continue
            verdict = self.nominated_verdicts.get(rows[at])
            if same and (verdict != now or self.histogram.verdicts[position] != before):
                move_count(counts, before, now, same)
                same = 0
            before, now = self.histogram.verdicts[position], verdict
            same += 1
        if same:
            move_count(counts, before, now, same)

    cdef int cache_named(self, mr_search* search, View view) except -1:
        """Cache the results of filters that read names, labels and taints, on the second use of a version; at
        once where few rows have a resource that the pod needs."""
        cdef IntLists holders = view.table.holders
        cdef bint is_new = self.named_by != view.static_version or self.named_scarce != search.scarce
        if is_new:
            self.named_by, self.named_scarce = view.static_version, search.scarce
            self.named_state = NOT_CACHED
        if self.named_state == NOT_CACHED and search.scarce >= 0:
            self.named_state = CACHED
            self.named.reserve(search.n // MR_LANES + 2)
            mr_static_lanes_of(search, holders.items(search.scarce), holders.size(search.scarce),
                               view.position_column(), self.named.uint64())
        elif self.named_state == NOT_CACHED and not is_new:
            self.named_state = CACHED if mr_asks_for_statics(search) else NOT_NEEDED
            if self.named_state == CACHED:
                self.named.reserve(search.n // MR_LANES + 2)
                mr_static_lanes(search, self.named.uint64())
        if self.named_state == CACHED:
            search.static_ok = self.named.uint64()

    cdef int copy_order(self, mr_search* search) except -1:
        """Copy the list of searched nodes, which the next search of the profile overwrites."""
        self.order.reserve(search.n + 1)
        memcpy(self.order.data, search.order, search.n * sizeof(int32_t))
        search.order = self.order.int32()

    cdef int count(self, list matched) except -1:
        """Set the counts that include pods of the class."""
        cdef Matched matched_pods
        cdef Py_ssize_t at = 0
        self.c.n_undo = 0
        self.counted.reserve(len(matched) + 1)
        for matched_pods in matched:
            (<mr_matched**>self.counted.data)[at] = &matched_pods.c
            at += 1
        (<mr_matched**>self.counted.data)[at] = NULL
        self.c.counted = <mr_matched**>self.counted.data

    cdef Py_ssize_t watch(self, NodeTable table, list matched) except -1:
        """Collect the arrays that a placement changes. Returns the bytes of the journal for one placement."""
        cdef Matched matched_pods
        cdef Counter counter
        cdef int32_t at
        self.c.n_undo, self.undo_bytes = 0, 0
        _watch(self, table.rows[0])
        _watch(self, table.wide[0])
        _watch(self, table.generation)
        for at in range(self.shape.c.n_others):
            _watch(self, table.others[0][self.shape.c.others[at].resource])
        for matched_pods in matched:
            _watch(self, matched_pods.pods)
            for counter in matched_pods.counters:
                _watch(self, counter.pods, &counter.c)
        return self.undo_bytes

    cdef Py_ssize_t nbytes(self) except -1:
        """The bytes that the state keeps, about."""
        cdef Buffer buffer
        cdef Py_ssize_t out = FIXED_BYTES + self.candidates.memory.capacity
        for buffer in (self.counted, self.order, self.undo, self.verdicts, self.named):
            out += buffer.capacity * buffer.itemsize
        if self.terms is not None:
            out += self.terms.nbytes()
        return out


cdef int _watch(ClassState state, Buffer buffer, const mr_counter* counter=NULL) except -1:
    """Add an array that a placement changes."""
    cdef Undo undo
    undo.location, undo.counter = buffer.location(), counter
    state.undo.reserve(state.c.n_undo + 1)
    state.c.undo = <Undo*>state.undo.data
    state.c.undo[state.c.n_undo] = undo
    state.c.n_undo += 1
    state.undo_bytes += (1 + (counter != NULL)) * (HEADER + buffer.itemsize)


cdef int move_count(dict counts, uint64_t before, uint64_t now, int32_t nodes) except -1:
    """Move a number of nodes from the count of one verdict to that of another. Verdict 0 is not counted."""
    if before:
        counts[before] -= nodes
        if not counts[before]:
            del counts[before]
    counts[now] = counts.get(now, 0) + nodes


cdef class ClassStates:
    """The class states of one search, in the order of their last use.

    The state used least recently is dropped when they take more than `most_bytes`, and all are dropped when
    the classes are numbered anew.

    Parameters
    ----------
    classes : PodClasses

    Attributes
    ----------
    most_bytes : int
        The limit on the memory of the states, in bytes.
    used_bytes : int
        The memory of the states but the latest, in bytes, about.
    scope : int
        The current scope of failures. A failure is valid only in the scope where it was noted, since other
        nodes may be searched, and other pods evicted, elsewhere.
    """

    def __cinit__(self, PodClasses classes not None):
        self.classes = classes
        self.idle = OrderedDict()
        self.in_use = []
        self.places = Buffer(Journal(), sizeof(int32_t))
        self.most_bytes = BYTES_LIMIT
        self.demands = {}
        self.generation = classes.number

    cdef int follow(self) except -1:
        """Drop what is kept of classes that have been numbered anew."""
        if self.generation != self.classes.number:
            self.release()
            while self.idle:
                _drop_oldest(self)
            self.latest, self.demands = None, {}
            self.generation = self.classes.number
        return 0

    @property
    def volume_demands(self):
        """The demands of classes whose pods have volumes (`PodClasses.with_volumes`): dict of int to
        VolumeDemand."""
        self.follow()
        return self.demands

    @volume_demands.setter
    def volume_demands(self, dict value not None):
        self.demands = value

    cdef ClassState get(self, int32_t pod_class, int32_t node_name, int32_t pinned):
        """The state of a target, created on first use. It becomes the one used last."""
        self.follow()
        cdef ClassState class_state = self.latest
        if class_state is not None:
            if class_state.is_kept and class_state.pod_class == pod_class \
                    and class_state.node_name == node_name and class_state.pinned == pinned:
                return class_state
            self.charge(class_state)
        target = pod_class, node_name, pinned
        class_state = self.find(target)
        if class_state is None:
            class_state = ClassState(self.classes.shape(pod_class))
            class_state.pod_class, class_state.node_name, class_state.pinned = target
            class_state.is_kept = True
            self.idle[target] = class_state
        elif target in self.idle:
            self.idle.move_to_end(target)
        self.latest = class_state
        return class_state

    cdef ClassState find(self, tuple target):
        """The state of a target, or None."""
        cdef ClassState class_state = self.used(target[0])
        if class_state is not None and _target_of(class_state) == target:
            return class_state
        return self.idle.get(target)

    cdef ClassState used(self, int32_t pod_class):
        """The state of a class that the current run needs, or None.

        `places` is never cleared, as in the sparse sets of Briggs and Torczon 1993.
        """
        cdef int32_t at = self.places.int32()[pod_class] if 0 <= pod_class < self.places.capacity else 0
        if at < len(self.in_use) and (<ClassState>self.in_use[at]).pod_class == pod_class:
            return self.in_use[at]
        return None

    cdef int use(self, ClassState class_state) except -1:
        """Add a state to those that the current run needs, and that are not dropped."""
        self.idle.pop(_target_of(class_state), None)
        self.places.reserve(class_state.pod_class + 1)
        self.places.int32()[class_state.pod_class] = <int32_t>len(self.in_use)
        self.in_use.append(class_state)

    cdef int release(self) except -1:
        """End the current run: its states may be dropped, after all others."""
        cdef ClassState class_state
        for class_state in self.in_use:
            self.idle[_target_of(class_state)] = class_state
        self.in_use.clear()

    cdef VolumeDemand demand_of(self, int32_t pod_class):
        """The demand of the volumes of a class, or None."""
        self.follow()
        return self.demands[pod_class] if self.classes.has_volumes(pod_class) else None

    cdef const mr_volume_demand* point_to_demand(self, int32_t pod_class) except? NULL:
        """The demand of the volumes of a class for the kernels; NULL if it has none."""
        cdef VolumeDemand demand = self.demand_of(pod_class)
        if demand is None:
            return NULL
        if demand.devices is not None:
            demand.devices.refresh()
        return &demand.c

    cdef NodeDevices devices_of(self, int32_t pod_class):
        """The devices that pods of a class ask for, or None."""
        cdef VolumeDemand demand = self.demand_of(pod_class)
        return None if demand is None else demand.devices

    def state_of(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Return the state of a target, created on first use.

        Parameters
        ----------
        pod_class, node_name, pinned : int
            As in `Search.verdicts`.

        Returns
        -------
        ClassState
        """
        self.classes.check(pod_class)
        return self.get(pod_class, node_name, pinned)

    cdef int charge(self, ClassState class_state) except -1:
        """Account for the memory of a state, and drop the oldest states if it is too much.

        Each state is dropped once, and none that stays is looked at.
        """
        cdef Py_ssize_t nbytes
        if not class_state.is_kept:  # it is dropped, but the current run needs it
            return 0
        nbytes = class_state.nbytes()
        self.used_bytes += nbytes - class_state.charged
        class_state.charged = nbytes
        while self.used_bytes > self.most_bytes and self.idle:
            _drop_oldest(self)
        if self.used_bytes > self.most_bytes:
            class_state.candidates = Candidates(Journal())
            class_state.c.candidates, class_state.c.is_ready = NULL, False
            nbytes = class_state.nbytes()
            self.used_bytes += nbytes - class_state.charged
            class_state.charged = nbytes

    cdef bint is_failed(self, const ClassSearch* class_search, int64_t head) noexcept nogil:
        """Whether pods of a class are known to be unschedulable at a head of the log, in this scope."""
        return class_search.failed == head and class_search.scope == self.scope

    cdef void note_failure(self, ClassSearch* class_search, int64_t head) noexcept nogil:
        """Note that pods of a class are unschedulable at a head of the change log, in this scope."""
        class_search.failed, class_search.scope = head, self.scope

    def failure_of(self, target, int64_t head):
        """Return why pods of a target are unschedulable.

        Parameters
        ----------
        target : (int, int, int)
            As `PodBatch.target` returns it.
        head : int
            The present head of the change log.

        Returns
        -------
        object or None
            The failure of the last `set_failure`; None if the cluster or the scope has changed since.
        """
        pod_class, node_name, pinned = target
        self.follow()
        cdef ClassState class_state = self.find((pod_class, node_name, pinned))
        return class_state.failure if class_state and self.is_failed(&class_state.c, head) else None

    def set_failure(self, target, failure, int64_t head):
        """Note why pods of a target are unschedulable.

        Parameters
        ----------
        target : (int, int, int)
            As `PodBatch.target` returns it.
        failure : object
            The reason, as `failure_of` is to return it.
        head : int
            The present head of the change log, until which the failure is valid.
        """
        cdef int32_t pod_class, node_name, pinned
        pod_class, node_name, pinned = target
        self.classes.check(pod_class)
        cdef ClassState class_state = self.get(pod_class, node_name, pinned)
        class_state.failure = failure
        self.note_failure(&class_state.c, head)

    def open_scope(self):
        """Open a new scope of failures, in which no failure is noted yet.

        Returns
        -------
        int
            The previous scope. The caller sets `scope` back to it.
        """
        cdef int64_t before = self.scope
        self.scopes += 1
        self.scope = self.scopes
        return before


cdef tuple _target_of(ClassState class_state):
    return class_state.pod_class, class_state.node_name, class_state.pinned


cdef int _drop_oldest(ClassStates states) except -1:
    """Drop the state used least recently of those that the current run does not need."""
    cdef ClassState class_state = states.idle.popitem(False)[1]
    states.used_bytes -= class_state.charged
    class_state.charged, class_state.is_kept = 0, False

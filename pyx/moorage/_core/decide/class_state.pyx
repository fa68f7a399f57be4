"""ClassState: all that is kept of a pod class between its decisions.

What depends on the cluster is valid at one head of the change log, or follows the log from a cursor.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy, memset

from moorage._core.base cimport HEADER, Journal
from moorage._core.state cimport Counter, Matched

# Nanoseconds, roughly, as bench/ measures them: only their ratios matter, and only for speed.
cdef enum:
    DECISION = 60
    LANE = 1         # to look at a node in a scan
    LANE_OF_TERMS = 30
    ROW = 12         # to take a changed row over
    ROW_OF_TERMS = 60
    BUILD = 2        # to look at a node when candidates are made
    BUILD_OF_TERMS = 40

cdef enum:
    SOME_BUCKETS = 8  # that there is room for at first
    STATES_LIMIT = 1 << 14
    CANDIDATES_LIMIT = 256 << 20  # bytes


cdef enum:
    NOT_CACHED
    CACHED
    NOT_NEEDED


cdef bint candidates_pay_off(ClassSearch* class_search, int64_t head, int64_t following) noexcept nogil:
    """Whether to decide by candidates and not by a scan; `following` more pods of the class come right after.

    Candidates that have too much to catch up with, or have to be made, must have been missed often enough:
    what scans have cost more than candidates would have is saved up until it pays for them ("ski rental").
    """
    cdef bint in_terms = class_search.candidates.key.size > 0
    cdef int64_t row = ROW_OF_TERMS if in_terms else ROW, n = class_search.search.n
    cdef int64_t lanes = n if class_search.failed >= 0 else min(<int64_t>class_search.wanted, n)  # in vain, all are looked at
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
    """Every node's total for pods of one class, in list order, kept up to date by the change log: which nodes
    a search would look at, and which of them it would choose, is read off bits and maxima of blocks
    (csrc/candidates.h)."""

    def __cinit__(self):
        self.memory = Buffer(Journal(), 1, 1)

    cdef int point(self, const mr_search* search, object terms) except -1:
        """Refresh the pointers to a prepared search; what rests on other terms or keys is unmade."""
        mr_candidates_point(&self.c, search)
        if terms is not self.terms:
            self.c.state = MR_UNMADE
        self.terms = terms

    cdef int build(self, const mr_changes* changes, int32_t* lanes, uint8_t* seen) except -1:
        """Look at every node. Answers 1 where several threads took part."""
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


cdef class ClassState:
    """What one search keeps of pods of one class that name the same node and are pinned to the same node.

    Attributes
    ----------
    passes : bool or None
        Whether PreFilter and PreScore pass such pods, which depends on the pod alone; None: not asked yet.
    failure : object or None
        Why such pods fit nowhere; see `ClassStates.failure_of`.
    """

    def __cinit__(self, Shape shape not None):
        self.shape = shape
        self.c.shape = &shape.c
        self.c.owner = <void*>self
        self.c.failed = -1
        self.candidates = Candidates()
        self.counted = Buffer(Journal(), sizeof(void*))
        self.undo = Buffer(Journal(), sizeof(Undo))
        self.verdicts = Buffer(Journal(), sizeof(uint64_t), 1)
        self.named = Buffer(Journal(), 1, 1)
        self.named_by = -1
        self.order = Buffer(Journal(), sizeof(int32_t), 1)

    cdef bint is_made_of(self, const mr_search* search, int64_t version) noexcept nogil:
        """Whether the search of this class is what was made of an equal one, when nodes said the same: it
        depends on nothing else, but for terms and placements."""
        return self.named_by == version and self.named_state != NOT_CACHED and search.columns != NULL \
            and memcmp(&self.source, search, sizeof(mr_search)) == 0

    cdef dict rejections(self, const mr_changes* changes, object terms):
        """Verdict to number of nodes, of those that reject such pods; None where there are too many."""
        cdef int32_t at
        cdef bint is_other = self.histogram_terms is not terms or self.histogram.n != self.c.search.n
        if is_other or self.histogram.state != MR_VALID:
            self.verdicts.reserve(self.c.search.n)
            self.histogram.verdicts = <uint64_t*>self.verdicts.data
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
        """The verdicts with nominated pods, which are made on first use."""
        if self.nominated_verdicts is None:
            self.nominated_verdicts = NominatedVerdicts()
            self.c.flips = &self.nominated_verdicts.flips
        return self.nominated_verdicts

    cdef int count_nominated(self, dict counts, const int32_t* positions) except -1:
        """Count the verdicts of nodes to which pods are nominated in place of those without these pods."""
        cdef const int32_t* rows = <const int32_t*>self.nominated_verdicts.rows.data
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

    cdef int cache_named(self, mr_search* search, int64_t version) except -1:
        """Have the filters that look at names and labels asked once for all rows, if this is not the first
        time since any node has said something else."""
        if self.named_by != version:
            self.named_by, self.named_state = version, NOT_CACHED
        elif self.named_state == NOT_CACHED:
            self.named_state = CACHED if mr_asks_for_names(search) else NOT_NEEDED
            if self.named_state == CACHED:
                self.named.reserve(search.n)
                mr_named_lanes(search, <uint8_t*>self.named.data)
        if self.named_state == CACHED:
            search.named_ok = <const uint8_t*>self.named.data

    cdef int copy_order(self, mr_search* search) except -1:
        """Have a list of nodes of one's own in place of the one that is searched."""
        self.order.reserve(search.n)
        memcpy(self.order.data, search.order, search.n * sizeof(int32_t))
        search.order = <int32_t*>self.order.data

    cdef int count(self, list matched) except -1:
        """Pods of the class are counted by these."""
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
        """What a placement changes will be saved before. Answers how many bytes that takes, for one."""
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


cdef int _watch(ClassState state, Buffer buffer, const mr_counter* counter=NULL) except -1:
    cdef Undo undo
    undo.location, undo.counter = buffer.location(), counter
    state.undo.reserve(state.c.n_undo + 1)
    state.c.undo = <Undo*>state.undo.data
    state.c.undo[state.c.n_undo] = undo
    state.c.n_undo += 1
    state.undo_bytes += (1 + (counter != NULL)) * (HEADER + buffer.itemsize)


cdef int move_count(dict counts, uint64_t before, uint64_t now, int32_t nodes) except -1:
    """So many nodes have another verdict; 0 is not counted."""
    if before:
        counts[before] -= nodes
        if not counts[before]:
            del counts[before]
    counts[now] = counts.get(now, 0) + nodes


cdef class ClassStates:
    """The class states of one search, those used least recently first.

    A state is dropped when there are more than 16,384, or when what they hold takes more than `most_bytes`.

    Attributes
    ----------
    most_bytes : int
        Bytes of candidates at most.
    used_bytes : int
        Bytes of candidates now.
    scope : int
        Failures count in the scope in which they were noted: what is searched, and who may be evicted.
    """

    def __cinit__(self, PodClasses classes not None):
        self.classes = classes
        self.by_target = {}
        self.in_use = set()
        self.most_bytes = CANDIDATES_LIMIT

    cdef ClassState get(self, int32_t pod_class, int32_t node_name, int32_t pinned):
        """The state of a class, which is the one used last now."""
        cdef ClassState class_state = self.latest
        if class_state is not None and class_state.is_kept and class_state.pod_class == pod_class and class_state.node_name == node_name \
                and class_state.pinned == pinned:
            return class_state
        target = pod_class, node_name, pinned
        class_state = self.by_target.pop(target, None)
        if class_state is None:
            class_state = ClassState(self.classes.shape(pod_class))
            class_state.pod_class, class_state.node_name, class_state.pinned = target
            if len(self.by_target) >= STATES_LIMIT:
                _drop(self, next(iter(self.by_target)))
        self.by_target[target] = self.latest = class_state
        class_state.is_kept = True
        return class_state

    def state_of(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """The state of a class of pods that name a node (0: none) and are pinned to one."""
        self.classes.check(pod_class)
        return self.get(pod_class, node_name, pinned)

    cdef int charge(self, ClassState class_state) except -1:
        """The candidates of a state have another size now: those of others go until all are within bounds."""
        if not class_state.is_kept:  # a run holds it still
            return 0
        self.used_bytes += class_state.candidates.memory.capacity - class_state.charged
        class_state.charged = class_state.candidates.memory.capacity
        while self.used_bytes > self.most_bytes:
            oldest = next((key for key, kept in self.by_target.items() if kept not in self.in_use), None)
            if oldest is None:
                self.used_bytes -= class_state.charged
                class_state.charged = 0
                class_state.candidates = Candidates()
                class_state.c.candidates, class_state.c.is_ready = NULL, False
                break
            _drop(self, oldest)

    cdef bint is_failed(self, const ClassSearch* class_search, int64_t head) noexcept nogil:
        """Whether pods of a class fit nowhere while the change log ends at `head`, in this scope."""
        return class_search.failed == head and class_search.scope == self.scope

    cdef void note_failure(self, ClassSearch* class_search, int64_t head) noexcept nogil:
        class_search.failed, class_search.scope = head, self.scope

    def failure_of(self, target, int64_t head):
        """Why pods of a target fit nowhere while the change log ends at `head`; None where that is not known.

        Parameters
        ----------
        target : tuple of int
            Class, symbol of the node that pods name, and of the one that they are pinned to (0: none).
        head : int

        Returns
        -------
        object or None
            What `set_failure` was given.
        """
        cdef ClassState class_state = self.by_target.get(target)
        return class_state.failure if class_state is not None and self.is_failed(&class_state.c, head) else None

    def set_failure(self, target, failure, int64_t head):
        """Pods of a target fit nowhere while the change log ends at `head`.

        Parameters
        ----------
        target : tuple of int
        failure : object
        head : int
        """
        cdef int32_t pod_class, node_name, pinned
        pod_class, node_name, pinned = target
        self.classes.check(pod_class)
        cdef ClassState class_state = self.get(pod_class, node_name, pinned)
        class_state.failure = failure
        self.note_failure(&class_state.c, head)

    def open_scope(self):
        """From now on only failures count that are noted after this, until the attribute `scope` is set back.

        Returns
        -------
        int
            The scope until now.
        """
        cdef int64_t before = self.scope
        self.scopes += 1
        self.scope = self.scopes
        return before


cdef int _drop(ClassStates states, target) except -1:
    cdef ClassState class_state = states.by_target.pop(target)
    states.used_bytes -= class_state.charged
    class_state.charged, class_state.is_kept = 0, False

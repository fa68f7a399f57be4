"""PodBatch: pods in the order in which they are to be placed, as the core reads them; where they were placed;
and the sinks that take the placed ones."""

import numpy as np
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t
from libc.string cimport memcpy, memset

from moorage._core.base cimport DELETION_TIMESTAMP, METADATA, NODE_NAME, SPEC, STATUS, UID, Field, Journal
from moorage._core.state cimport ASSUMED, Shape, replicas_of, split_uid, uses_volumes

cdef Field NOMINATED_NODE_NAME = Field("nominated_node_name")


cdef class Routes:
    """What the placements of pods need, as far as their profiles and extenders tell.

    Parameters
    ----------
    of_class : callable
        A pod and its target to bits of `Route` that all pods of its class have, if they have volumes as it
        does, or if they have none. Asked once for each class.
    of_pod : callable, optional
        A pod to the bits that others of its class may not have.
    """

    def __cinit__(self, of_class not None, of_pod=None):
        self.of_class, self.of_pod = of_class, of_pod
        self.known = {}
        self.key = INT32_MIN

    cdef int32_t of(self, pod, const PodSpan* span) except? -1:
        """The bits of a pod whose own ones are in its span."""
        cdef int32_t key = ~span.pod_class if span.route & VOLUMES else span.pod_class
        if key != self.key:  # pods of one class stand together
            found = self.known.get(key)
            if found is None:
                target = span.pod_class, span.node_name, span.pinned
                found = self.known[key] = self.of_class(pod, target)
            self.key, self.bits = key, found
        return self.bits if self.of_pod is None else self.bits | self.of_pod(pod)


cdef class PodBatch:
    """Pods in order, as runs of equal ones: class, named node, node that they are pinned to, and route.

    Parameters
    ----------
    state : ClusterState
        Interns the classes.
    pods : sequence of Pod
    routes : Routes, optional
        Adds to what is read of the pods themselves.

    Attributes
    ----------
    pods : sequence of Pod
        Empty for the replicas of a template, which have no objects.
    """

    def __cinit__(self, ClusterState state not None, pods=None, Routes routes=None):
        self.state, self.routes = state, routes
        self.pods = () if pods is None else pods
        if pods is not None:
            _read(self, pods)

    @staticmethod
    def of_template(ClusterState state not None, template, int32_t n, int64_t first=0, Routes routes=None):
        """`n` pods equal to a template.

        Parameters
        ----------
        template : Pod
        n : int
        first : int
            The ordinal of the first pod; see `ClusterState.assume_template`.
        routes : Routes, optional

        Returns
        -------
        PodBatch

        Raises
        ------
        CacheError
            The template has no name, or there are no such ordinals.
        """
        if n < 0:
            raise ValueError(f"{n} pods")
        cdef PodBatch out = PodBatch(state, None, routes)
        cdef PodSpan span
        out.replicas = replicas_of(template, first, n)
        _fill(out, &span, template, -1)
        span.end = n
        if n:
            _append(out, &span)
        return out

    def __len__(self):
        return self.spans[self.n_spans - 1].end if self.n_spans else 0

    cdef int32_t span_at(self, int32_t at) noexcept nogil:
        """The run that a pod is in."""
        cdef int32_t low = 0, high = self.n_spans, middle
        while low < high:
            middle = (low + high) // 2
            if self.spans[middle].end <= at:
                low = middle + 1
            else:
                high = middle
        return low

    cdef PodSpan* _span(self, int32_t at) except NULL:
        if not 0 <= at < len(self):
            raise IndexError(f"there is no pod {at} among {len(self)}")
        return &self.spans[self.span_at(at)]

    def target(self, int32_t at):
        """Class of a pod, symbol of the node that it names, and of the one that it is pinned to (0: none)."""
        cdef PodSpan* span = self._span(at)
        return span.pod_class, span.node_name, span.pinned

    def pod(self, int32_t at):
        """A pod; one of a template's replicas is made now."""
        self._span(at)
        return self.pods[at] if self.replicas is None else self.replicas.make(self.replicas.first + at)

    def route(self, int32_t at):
        """The route of a pod: what its placement needs, as bits of `Route`."""
        return self._span(at).route

    cdef int32_t until(self, int32_t mask, int32_t first, int32_t end) noexcept:
        """The first pod from `first` on whose route has one of the bits of `mask`; `end` where none before it
        has."""
        cdef int32_t each = self.span_at(first), at = first
        while at < end and each < self.n_spans and not self.spans[each].route & mask:
            at = self.spans[each].end
            each += 1
        return min(at, end)

    cdef int32_t until_one_of(self, dict uids, int32_t first, int32_t end) except -1:
        """The first pod from `first` on whose UID is one of these; `end` where none comes before it."""
        cdef int64_t ordinal
        cdef int32_t at
        if self.replicas is None:
            for at in range(first, end):
                if UID.of(METADATA.of(self.pods[at])) in uids:
                    return at
            return end
        for uid in uids:
            prefix, ordinal = split_uid(uid)
            if prefix == self.replicas.prefix and first <= ordinal - self.replicas.first < end:
                end = <int32_t>(ordinal - self.replicas.first)
        return end

    def cut(self, int32_t mask, int32_t first=0):
        """Cut the batch where the route changes.

        Parameters
        ----------
        mask : int
            The bits that count.
        first : int
            The pod to begin with.

        Returns
        -------
        list of (int, int, int)
            The first pod of each piece, its end, and those bits of its route.
        """
        cdef int32_t each = self.span_at(first), begin = first, route
        cdef list out = []
        if first < 0:
            raise IndexError(f"there is no pod {first}")
        while each < self.n_spans:
            route = self.spans[each].route & mask
            while each + 1 < self.n_spans and self.spans[each + 1].route & mask == route:
                each += 1
            out.append((begin, self.spans[each].end, route))
            begin = self.spans[each].end
            each += 1
        return out

    def classes(self, int32_t first=0, int32_t end=INT32_MAX):
        """The classes of the pods from `first` to `end`, each once."""
        return list(dict.fromkeys([pod_class for pod_class, _, _ in self.targets(first, end)]))

    def targets(self, int32_t first=0, int32_t end=INT32_MAX):
        """The targets of the pods from `first` to `end`, each once."""
        cdef int32_t each
        found = {}
        for each in range(self.span_at(first), self.n_spans):
            if first >= end or (each and self.spans[each - 1].end >= end):
                break
            found[self.spans[each].pod_class, self.spans[each].node_name, self.spans[each].pinned] = None
        return list(found)


cdef int _read(PodBatch batch, pods) except -1:
    """Read each pod once; equal ones that follow one another are one run."""
    cdef PodSpan span
    cdef PodSpan* last = NULL
    cdef int32_t known = -1
    span.end = 0
    for pod in pods:
        known = _fill(batch, &span, pod, known)
        span.end += 1
        if last != NULL and last.pod_class == span.pod_class and last.node_name == span.node_name \
                and last.pinned == span.pinned and last.route == span.route:
            last.end = span.end
        else:
            last = _append(batch, &span)


cdef int32_t _fill(PodBatch batch, PodSpan* out, object pod, int32_t known) except -1:
    """What must be known of a pod; `known` is the class of the pod before. Returns the class."""
    cdef int32_t pod_class = batch.state.classes.intern(pod)
    cdef str name = NODE_NAME.of(SPEC.of(pod))
    cdef Shape shape
    if pod_class != known:  # pods of one class stand together
        shape = batch.state.classes.shape(pod_class)
        batch.of_class = (PINNED if shape.is_pinned else 0) | (PORTS if shape.ports else 0)
    out.pod_class, out.route, out.node_name, out.pinned = pod_class, batch.of_class, 0, 0
    if batch.of_class & PINNED:
        out.pinned = batch.state.classes.pinned_symbol(pod_class, pod)
    if name:
        out.node_name = batch.state.symbols.intern(name)
        out.route |= NAMED
    if DELETION_TIMESTAMP.of(METADATA.of(pod)) is not None:
        out.route |= TERMINATING
    if NOMINATED_NODE_NAME.of(STATUS.of(pod)):
        out.route |= NOMINATED
    if uses_volumes(pod):
        out.route |= VOLUMES
    if batch.routes is not None:
        out.route |= batch.routes.of(pod, out)
    return pod_class


cdef PodSpan* _append(PodBatch batch, const PodSpan* span) except NULL:
    if batch.n_spans == 0:
        batch.spans = &batch.only
    else:
        if batch.memory is None:
            batch.memory = Buffer(Journal(), sizeof(PodSpan))
            (<PodSpan*>batch.memory.data)[0] = batch.only
        batch.memory.reserve(batch.n_spans + 1)
        batch.spans = <PodSpan*>batch.memory.data
    batch.spans[batch.n_spans] = span[0]
    batch.n_spans += 1
    return &batch.spans[batch.n_spans - 1]


cdef class Placements:
    """Where the pods of a batch were placed.

    Parameters
    ----------
    state : ClusterState
    n : int
        Pods, none of which is placed yet.
    batch : PodBatch, optional
        The pods.

    Attributes
    ----------
    failures : dict of int to object
        Place of each pod that fits nowhere to the reason.
    """

    def __cinit__(self, ClusterState state not None, Py_ssize_t n, PodBatch batch=None):
        self.state, self.batch = state, batch
        self.failures = {}
        self.resize(n)

    def __dealloc__(self):
        _free(self)

    cpdef int resize(self, Py_ssize_t n) except -1:
        """Be about `n` pods, none of which is placed yet.

        Parameters
        ----------
        n : int
        """
        if n < 0:
            raise ValueError(f"{n} pods")
        _free(self)
        self.array, self.n = None, 0
        self.own = self.data = <int32_t*>PyMem_Malloc((n + 1) * sizeof(int32_t))
        if self.own == NULL:
            raise MemoryError
        self.n = n
        memset(self.data, -1, n * sizeof(int32_t))
        return 0

    def __len__(self):
        return self.n

    @property
    def rows(self):
        """Row of the node table that each pod was put on, -1 where it has none: a (pods,) int32 array."""
        cdef int32_t[::1] view
        if self.array is None:
            array = np.empty(self.n + 1, dtype=np.int32)
            view = array
            memcpy(&view[0], self.data, self.n * sizeof(int32_t))
            self.array, self.data = array[:self.n], &view[0]
            PyMem_Free(self.own)
            self.own = NULL
        return self.array

    def truncate(self, Py_ssize_t n):
        """Drop all but the first `n` pods.

        Parameters
        ----------
        n : int
        """
        self.n = min(self.n, max(<Py_ssize_t>0, n))
        if self.array is not None:
            self.array = self.array[:self.n]

    cpdef int note_names(self) except -1:
        """Have the names of the nodes that the rows belong to now: a row may be another node's later."""
        cdef Py_ssize_t at
        cdef const int32_t* names = <int32_t*>self.state.table.name.data
        if self.symbols == NULL:
            self.symbols = <int32_t*>PyMem_Malloc((self.n + 1) * sizeof(int32_t))
            if self.symbols == NULL:
                raise MemoryError
        for at in range(self.n):
            if self.data[at] >= self.state.table.used:
                self.state.table.check_row(self.data[at])
            self.symbols[at] = names[self.data[at]] if self.data[at] >= 0 else 0

    @property
    def nodes(self):
        """Name of the node of each pod, None where it has none: a list."""
        cdef Py_ssize_t at
        cdef list names = self.state.symbols.names
        if self.symbols == NULL:
            self.note_names()
        return [names[self.symbols[at]] for at in range(self.n)]


cdef void _free(Placements placements) noexcept:
    """Free what is this object's. The collector may have cleared `array` before."""
    PyMem_Free(placements.own)
    PyMem_Free(placements.symbols)
    placements.own = placements.symbols = placements.data = NULL


cdef class Sink:
    """Takes the pods that were placed. This one takes none: they are entered in the ledger later."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """The pods from `first` to `end` have their rows, if any, and are accounted for there.

        Parameters
        ----------
        batch : PodBatch
        out : Placements
        first, end : int
        """
        return 0


cdef class LedgerSink(Sink):
    """Enters pods in the ledger as assumed; no object is made for replicas of a template."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        cdef int32_t at, each
        cdef ClusterState state = batch.state
        cdef const int32_t* rows = out.data
        cdef Py_ssize_t there = len(batch.pods) if batch.replicas is None else len(batch)
        if not 0 <= first <= end <= min(there, out.n):
            raise IndexError(f"there are no pods {first} to {end} with a row")
        if batch.replicas is not None:
            return _enter_replicas(self, batch, out, first, end)
        for at in range(first, end):
            if rows[at] >= 0:
                state.table.check_row(rows[at])
        each = batch.span_at(first)
        for at in range(first, end):
            while batch.spans[each].end <= at:
                each += 1
            if rows[at] >= 0:
                state.ledger.insert(batch.pods[at], batch.spans[each].pod_class, rows[at], ASSUMED)


cdef int _enter_replicas(LedgerSink sink, PodBatch batch, Placements out, int32_t first,
                         int32_t end) except -1:
    """Enter the replicas up to the first that fits nowhere: none after it does."""
    cdef int32_t placed = first
    while placed < end and out.data[placed] >= 0:
        placed += 1
    if placed > first:
        batch.state.assume_template(batch.spans[0].pod_class, batch.replicas.template,
                                    batch.replicas.first + first, out.rows[first:placed])

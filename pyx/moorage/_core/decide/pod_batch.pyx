"""PodBatch: pods in scheduling order, compiled for the core.

`Placements` has the rows where they are placed, and a `Sink` receives the placed pods.
"""

from itertools import islice

import numpy as np
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t
from libc.string cimport memcpy, memset

from moorage._core.base cimport (
    ANNOTATIONS, DELETION_TIMESTAMP, LOG_ROW, METADATA, NAMESPACE, NODE_NAME, SPEC, STATUS, UID, Field,
    Journal,
)
from moorage._core.state cimport ADDED, ASSUMED, PodState, Shape, replicas_of, split_uid, uses_volumes

END = -2  # what `class_with_volumes` returns for the pod before which a batch ends

cdef Field NOMINATED_NODE_NAME = Field("nominated_node_name"), LABELS = Field("labels")


cdef int count_pods(ClusterState state, int32_t pod_class, int32_t row, int32_t n) except -1:
    """Count `n` pods of a class on a row, without entering them in the ledger."""
    cdef Shape shape = state.classes.shape(pod_class)
    state.table.add_pod(0, row, &shape.c, shape.ports, n)
    state.domains.pod_moved(pod_class, False, row, n)
    state.table.changed(LOG_ROW, row)
    return 0


cdef class Routes:
    """The bits of a pod's route that depend on its profile and on extenders.

    Parameters
    ----------
    of_class : callable
        Returns the bits of `Route` for a class, from a pod of the class, its target (see `PodBatch.target`)
        and whether its route has `Route.VOLUMES`. Called twice for each class at most.
    of_pod : callable, optional
        Returns further bits, from a pod. Called for every pod.
    """

    def __cinit__(self, of_class not None, of_pod=None):
        self.of_class, self.of_pod = of_class, of_pod
        self.known = {}
        self.key = INT32_MIN

    cdef int32_t of(self, pod, const PodSpan* span) except? -1:
        """The bits of a pod. `span` has its target and the bits that were read of the pod itself."""
        cdef int32_t key = ~span.pod_class if span.route & VOLUMES else span.pod_class
        if key != self.key:  # most pods have the class of the previous one
            bits = self.known.get(key)
            if bits is None:
                target = span.pod_class, span.node_name, span.pinned
                bits = self.known[key] = self.of_class(pod, target, bool(span.route & VOLUMES))
            self.key, self.bits = key, bits
        return self.bits if self.of_pod is None else self.bits | self.of_pod(pod)


cdef class AlikeRoutes:
    """The bits of a pod's route that follow from its namespace, labels, annotations, spec and status.

    They are those of the previous pod if the two have these objects in common, as pods of one template do.

    Parameters
    ----------
    of_pod : callable
        Returns the bits of a pod.
    """

    cdef object of_pod, bits
    cdef object spec, status, labels, annotations, namespace  # of the previous pod

    def __cinit__(self, of_pod not None):
        self.of_pod = of_pod

    def __call__(self, pod):
        cdef object spec = SPEC.of(pod), status = STATUS.of(pod), meta = METADATA.of(pod)
        cdef object labels = LABELS.of(meta), annotations = ANNOTATIONS.of(meta)
        cdef object namespace = NAMESPACE.of(meta)
        if spec is self.spec and status is self.status and labels is self.labels \
                and annotations is self.annotations and namespace == self.namespace:
            return self.bits
        self.spec = None  # until the bits are known
        self.bits = self.of_pod(pod)
        self.status, self.labels, self.annotations, self.namespace = status, labels, annotations, namespace
        self.spec = spec
        return self.bits


cdef class Alike:
    """Notes the pods after one with volumes that need the same as this one. This base class knows none."""

    cpdef bint note(self, object pod, int32_t at) except -1:
        """Note a pod of the class.

        Parameters
        ----------
        pod : Pod
        at : int
            Its index in the batch.

        Returns
        -------
        bool
            Whether it needs the same; others are not noted.
        """
        return False


cdef class PodBatch:
    """Pods in scheduling order, as runs of pods of equal class, named node, pinned node and route.

    Parameters
    ----------
    state : ClusterState
        Interns the classes.
    pods : sequence of Pod, optional
        By default the batch is empty.
    routes : Routes, optional
        Adds bits to the routes that are read of the pods themselves.
    class_with_volumes : callable, optional
        Returns the class of a pod with volumes that is placed without the plugins about volumes, from the
        pod, its class and its index: the class itself, or one of `PodClasses.with_volumes`; -1 for all other
        pods; END for a pod before which the batch ends, as what is known of its claims changes before. By
        default there are none. And a list of tuples, one for each volume with an attach limit and
        each row where it may be counted already: the row, or ~index of an earlier pod that has the volume;
        the index in the attachments of the demand; the number of the volume, less than 64. And 1 if the
        pod's claims take devices of the node, 2 if they have those of an earlier pod of the batch, else 0.
        And an `Alike` for the pods of the class that come next, which get the same answer if it notes them;
        None to be asked about each.
    first : int, optional
        The index of the first pod to read. Nothing is known of those before.
    delegated : frozenset of str, optional
        Extended resources that device classes provide. Pods that request one are as those with volumes.

    Attributes
    ----------
    pods : sequence of Pod
        Empty for the replicas of a template, which have no objects.
    """

    def __cinit__(self, ClusterState state not None, pods=None, Routes routes=None, class_with_volumes=None,
                  Py_ssize_t first=0, frozenset delegated=frozenset()):
        self.delegated = delegated
        self.state, self.routes, self.class_with_volumes = state, routes, class_with_volumes
        self.pods = () if pods is None else pods
        if pods is not None:
            _read(self, pods, first)

    @staticmethod
    def of_template(ClusterState state not None, template, int32_t n, int64_t first=0, Routes routes=None):
        """Return a batch of replicas of a template.

        Parameters
        ----------
        state : ClusterState
            Interns the class.
        template : Pod
        n : int
            The number of pods.
        first : int
            The ordinal of the first pod; see `ClusterState.assume_template`.
        routes : Routes, optional
            As in `PodBatch`.

        Returns
        -------
        PodBatch

        Raises
        ------
        ValueError
            `n` is negative.
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
        """The index of the run that has a pod."""
        cdef int32_t low = 0, high = self.n_spans, middle
        while low < high:
            middle = (low + high) // 2
            if self.spans[middle].end <= at:
                low = middle + 1
            else:
                high = middle
        return low

    cdef PodSpan* _span(self, int32_t at) except NULL:
        """The run that has a pod; IndexError if there is no such pod."""
        if not 0 <= at < len(self):
            raise IndexError(f"there is no pod {at} among {len(self)}")
        return &self.spans[self.span_at(at)]

    def target(self, int32_t at):
        """Return the target of a pod: what searches for equal pods have in common.

        Parameters
        ----------
        at : int
            The index of the pod.

        Returns
        -------
        pod_class : int
            Its class.
        node_name : int
            The symbol of its spec.nodeName; 0: none.
        pinned : int
            The symbol of the node that it is pinned to by matchFields; 0: none.

        Raises
        ------
        IndexError
            There is no such pod.
        """
        cdef PodSpan* span = self._span(at)
        return span.pod_class, span.node_name, span.pinned

    def pod(self, int32_t at):
        """Return a pod. The object of a replica is created by each call.

        Parameters
        ----------
        at : int
            The index of the pod.

        Returns
        -------
        Pod

        Raises
        ------
        IndexError
            There is no such pod.
        """
        self._span(at)
        return self.pods[at] if self.replicas is None else self.replicas.make(self.replicas.first + at)

    def route(self, int32_t at):
        """Return what the placement of a pod needs, as bits of `Route`.

        Parameters
        ----------
        at : int
            The index of the pod.

        Returns
        -------
        int

        Raises
        ------
        IndexError
            There is no such pod.
        """
        return self._span(at).route

    def end_of_run(self, int32_t at):
        """Return the index after the last of the equal pods that follow a pod: those of its target and route.

        Parameters
        ----------
        at : int
            The index of the pod.

        Returns
        -------
        int

        Raises
        ------
        IndexError
            There is no such pod.
        """
        return self._span(at).end

    def has(self, int32_t mask):
        """Return whether the route of a pod has a bit of a mask.

        Parameters
        ----------
        mask : int
            Bits of `Route`.

        Returns
        -------
        bool
        """
        return self.until(mask, 0, INT32_MAX) < len(self)

    cdef int32_t until(self, int32_t mask, int32_t first, int32_t end) noexcept:
        """The index of the first pod from `first` to `end` whose route has a bit of `mask`, or `end`."""
        cdef int32_t each = self.span_at(first), at = first
        while at < end and each < self.n_spans and not self.spans[each].route & mask:
            at = self.spans[each].end
            each += 1
        return min(at, end)

    cdef int32_t until_one_of(self, dict uids, int32_t first, int32_t end) except -1:
        """The index of the first pod from `first` to `end` whose UID is in `uids`, or `end`."""
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

    def key(self, int32_t first, int32_t end):
        """Return what tells the pods from `first` to `end` from others in a search.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        tuple of int
            Equal for as many pods with equal targets and routes in the same order.
        """
        cdef int32_t each = self.span_at(first), stop
        cdef const PodSpan* span
        out = []
        while first < end and each < self.n_spans:
            span, stop = &self.spans[each], min(self.spans[each].end, end)
            out += (stop - first, span.pod_class, span.node_name, span.pinned, span.route & ~SIGNATURE)
            first, each = stop, each + 1
        return tuple(out)

    def cut(self, int32_t mask, int32_t first=0):
        """Cut the batch into pieces of consecutive pods whose routes have equal bits.

        Parameters
        ----------
        mask : int
            The bits of `Route` to compare.
        first : int
            The index of the pod to begin with.

        Returns
        -------
        list of (int, int, int)
            For each piece the index of its first pod, the index after its last, and its route & mask.

        Raises
        ------
        IndexError
            `first` is negative.
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
        """Return the classes of the pods from `first` to `end`, without repetition.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        list of int
            In the order of their first pods.
        """
        return list(dict.fromkeys([pod_class for pod_class, _, _ in self.targets(first, end)]))

    def targets(self, int32_t first=0, int32_t end=INT32_MAX):
        """Return the targets of the pods from `first` to `end`, without repetition.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        list of (int, int, int)
            As `target` returns them, in the order of their first pods.
        """
        cdef int32_t each
        found = {}
        for each in range(self.span_at(first), self.n_spans):
            if first >= end or (each and self.spans[each - 1].end >= end):
                break
            found[self.spans[each].pod_class, self.spans[each].node_name, self.spans[each].pinned] = None
        return list(found)


cdef int _read(PodBatch batch, pods, Py_ssize_t first) except -1:
    """Read each pod from `first` on once; consecutive equal pods become one run."""
    cdef PodSpan span
    cdef PodSpan* last = NULL
    cdef int32_t known = -1
    memset(&span, 0, sizeof(PodSpan))
    if first > 0:  # a run of the pods before, which nobody asks for
        span.end, span.pod_class = <int32_t>first, -1
        last = _append(batch, &span)
    for pod in islice(pods, first, None):
        known = _fill(batch, &span, pod, known)
        if batch.is_cut:
            break
        span.end += 1
        if last != NULL and last.pod_class == span.pod_class and last.node_name == span.node_name \
                and last.pinned == span.pinned and last.route == span.route:
            last.end = span.end
        else:
            last = _append(batch, &span)


cdef int32_t _fill(PodBatch batch, PodSpan* out, object pod, int32_t known) except -1:
    """Fill the span of a pod. `known` is the class of the previous pod. Returns the class."""
    cdef int32_t pod_class = batch.state.classes.intern(pod)
    cdef str name = NODE_NAME.of(SPEC.of(pod))
    cdef Shape shape
    if pod_class != known:  # most pods have the class of the previous one
        shape = batch.state.classes.shape(pod_class)
        batch.of_class = (PINNED if shape.is_pinned else 0) | (PORTS if shape.ports else 0)
        batch.delegates = batch.delegated and not batch.delegated.isdisjoint(shape.others)
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
    if batch.delegates or uses_volumes(pod):
        _fill_volumes(batch, out, pod)
    if batch.routes is not None:
        out.route |= batch.routes.of(pod, out)
    return pod_class


cdef int _fill_volumes(PodBatch batch, PodSpan* out, object pod) except -1:
    """Fill the class and the route of a pod with volumes."""
    cdef int32_t pod_class = -1
    cdef int takes_devices = 0
    cdef list shared = None
    if batch.alike is not None and out.pod_class == batch.alike_of and batch.alike.note(pod, out.end):
        pod_class, takes_devices = batch.alike_class, batch.takes_devices
    elif batch.class_with_volumes is not None:
        pod_class, shared, takes_devices, batch.alike = \
            batch.class_with_volumes(pod, out.pod_class, out.end)
        batch.alike_of, batch.alike_class, batch.takes_devices = out.pod_class, pod_class, takes_devices
    if pod_class == END:
        batch.is_cut = True
    elif pod_class < 0 or (pod_class != out.pod_class and out.route & (TERMINATING | NOMINATED)):
        out.route |= VOLUMES
    elif pod_class != out.pod_class:
        out.pod_class = pod_class
        out.route |= CLAIMS
        if takes_devices:
            out.route |= DEVICES | (SHARES if takes_devices == 2 else 0)
        if shared:
            out.route |= SHARES
            _share(batch, out.end, shared)


cdef int _share(PodBatch batch, int32_t at, list shared) except -1:
    """Add the volumes that a pod shares with others."""
    cdef Py_ssize_t n
    cdef SharedVolume* last
    if batch.shared is None:
        batch.shared, batch.n_shared = Buffer(Journal(), sizeof(SharedVolume), 1), 0
    n = batch.n_shared
    batch.shared.reserve(n + len(shared) + 1)
    last = <SharedVolume*>batch.shared.data + n
    for place, driver, volume in shared:
        last.pod, last.place, last.driver, last.volume = at, place, driver, volume
        last += 1
    last.pod = INT32_MAX
    batch.n_shared += len(shared)


cdef PodSpan* _append(PodBatch batch, const PodSpan* span) except NULL:
    """Append a run. A batch of one run takes no memory for it."""
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
    """The rows where the pods of a batch were placed.

    Parameters
    ----------
    state : ClusterState
    n : int
        The number of pods. At first none is placed.
    batch : PodBatch, optional
        The pods.

    Attributes
    ----------
    failures : dict of int to object
        Why pods are unschedulable, by the index of the pod. Filled by callers.
    """

    def __cinit__(self, ClusterState state not None, Py_ssize_t n, PodBatch batch=None):
        self.state, self.batch = state, batch
        self.failures = {}
        self.resize(n)

    def __dealloc__(self):
        _free(self)

    cpdef int resize(self, Py_ssize_t n) except -1:
        """Change the number of pods, and mark all as not placed.

        Parameters
        ----------
        n : int
            The number of pods.

        Raises
        ------
        ValueError
            `n` is negative.
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
        """The row of each pod in the node table, -1 if it is not placed: a (pods,) int32 array."""
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
        """Drop all pods after the first `n`.

        Parameters
        ----------
        n : int
            The number of pods to keep. A larger number than there are changes nothing.
        """
        self.n = min(self.n, max(<Py_ssize_t>0, n))
        if self.array is not None:
            self.array = self.array[:self.n]

    cpdef int note_names(self) except -1:
        """Record the present node names of the rows, since a row may be reused for another node later.

        Raises
        ------
        IndexError
            A row is not in the node table.
        """
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

    def nodes_of(self, placed):
        """Return the present names of the nodes of some placed pods.

        Parameters
        ----------
        placed : iterable of int
            Indexes of pods that have a node.

        Returns
        -------
        list of str

        Raises
        ------
        IndexError
            There is no such pod, or it has no node.
        """
        cdef Py_ssize_t at
        cdef list names = self.state.symbols.names, out = []
        cdef const int32_t* symbols = <int32_t*>self.state.table.name.data
        for at in placed:
            if not 0 <= at < self.n:
                raise IndexError(f"there is no pod {at} among {self.n}")
            self.state.table.check_row(self.data[at])
            out.append(names[symbols[self.data[at]]])
        return out

    def unplaced(self, Py_ssize_t first, Py_ssize_t end):
        """Return the indexes of the pods without a node from `first` up to, but not including, `end`.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        list of int

        Raises
        ------
        IndexError
            There are no such pods.
        """
        return self._which(first, end, False)

    def placed(self, Py_ssize_t first, Py_ssize_t end):
        """Return the indexes of the pods with a node from `first` up to, but not including, `end`.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        list of int

        Raises
        ------
        IndexError
            There are no such pods.
        """
        return self._which(first, end, True)

    cdef list _which(self, Py_ssize_t first, Py_ssize_t end, bint have_node):
        """The indexes of the pods with or without a node; IndexError where there are no such pods."""
        cdef Py_ssize_t at
        if not 0 <= first <= end <= self.n:
            raise IndexError(f"there are no pods {first} to {end} among {self.n}")
        return [at for at in range(first, end) if (self.data[at] >= 0) == have_node]

    @property
    def nodes(self):
        """The name of the node of each pod, None if it is not placed: a list of str or None."""
        cdef Py_ssize_t at
        cdef list names = self.state.symbols.names
        if self.symbols == NULL:
            self.note_names()
        return [names[self.symbols[at]] for at in range(self.n)]


cdef void _free(Placements placements) noexcept:
    """Free the memory of the object. The garbage collector may have cleared `array` before."""
    PyMem_Free(placements.own)
    PyMem_Free(placements.symbols)
    placements.own = placements.symbols = placements.data = NULL


cdef class Sink:
    """Receives the pods that `Placer.place` has placed. This base class ignores them."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Receive pods that have been tried. The placed ones are counted on their rows already.

        Parameters
        ----------
        batch : PodBatch
            The pods.
        out : Placements
            Their rows, -1 for pods that are not placed.
        first, end : int
            The index of the first pod, and the index after the last.
        """
        return 0


cdef class LedgerSink(Sink):
    """Enters placed pods in the ledger as assumed. Replicas of a template get no objects."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Enter the placed pods from `first` to `end` in the ledger.

        Parameters
        ----------
        batch, out, first, end
            As in `Sink.enter`.

        Raises
        ------
        IndexError
            There are no such pods, or a row is not in the node table.
        """
        if batch.replicas is not None:
            return _enter_replicas(batch, out, first, end)
        return _enter(batch, out, first, end, ASSUMED)


cdef class BoundSink(Sink):
    """Enters placed pods in the ledger as added, as if their bindings had been reported at once."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Enter the placed pods from `first` to `end` in the ledger.

        Parameters
        ----------
        batch, out, first, end
            As in `Sink.enter`. The pods have objects, which get the node when the cache returns them.

        Raises
        ------
        IndexError
            There are no such pods with objects, or a row is not in the node table.
        """
        return _enter(batch, out, first, end, ADDED)


cdef int _enter(PodBatch batch, Placements out, int32_t first, int32_t end, PodState pod_state) except -1:
    """Enter placed pods that have objects in the ledger."""
    cdef int32_t at, each, pod_class
    cdef ClusterState state = batch.state
    cdef const int32_t* rows = out.data
    if not 0 <= first <= end <= min(<Py_ssize_t>len(batch.pods), out.n):
        raise IndexError(f"there are no pods {first} to {end} with a row")
    for at in range(first, end):
        if rows[at] >= 0:
            state.table.check_row(rows[at])
    each = batch.span_at(first)
    for at in range(first, end):
        while batch.spans[each].end <= at:
            each += 1
        if rows[at] >= 0:
            pod_class = batch.spans[each].pod_class
            if batch.spans[each].route & CLAIMS:
                pod_class = state.classes.intern(batch.pods[at])
            state.ledger.insert(batch.pods[at], pod_class, rows[at], pod_state)


cdef int _enter_replicas(PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
    """Enter the replicas up to the first that is not placed: those after it are not placed either."""
    cdef int32_t placed = first
    if not 0 <= first <= end <= min(<Py_ssize_t>len(batch), out.n):
        raise IndexError(f"there are no pods {first} to {end} with a row")
    while placed < end and out.data[placed] >= 0:
        placed += 1
    if placed > first:
        batch.state.assume_template(batch.spans[0].pod_class, batch.replicas.template,
                                    batch.replicas.first + first, out.rows[first:placed])

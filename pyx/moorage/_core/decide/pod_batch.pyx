# cython: auto_pickle=False
"""PodBatch: pods in scheduling order, compiled for the core."""

from itertools import islice

from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t
from libc.string cimport memset

from moorage._core.base cimport (
    ANNOTATIONS, DELETION_TIMESTAMP, LOG_ROW, METADATA, NAMESPACE, NODE_NAME, SPEC, STATUS, UID, Field,
    Journal,
)
from moorage._core.state cimport Shape, replicas_of, split_uid, uses_volumes

END = -2  # what `class_with_volumes` returns for the pod before which a batch ends

cdef enum:
    MEMORY = 64       # of pods that a batch remembers while it is read
    SPEC_BYTES = 64   # about the size of a PodSpec, or less

cdef Field NOMINATED_NODE_NAME = Field("nominated_node_name"), LABELS = Field("labels")
cdef Field OWNER_REFERENCES = Field("owner_references")

cdef struct Read:  # what the span of a pod depends on: spec (NULL: no pod), status, labels and annotations
    PyObject* spec  # (None without)
    PyObject* status
    PyObject* labels
    PyObject* annotations
    PyObject* owners
    PyObject* namespace
    PodSpan span


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
        Returns further bits, from a pod.
    repeats : bool, optional
        Whether the bits of `of_pod` follow from a pod's namespace, labels, annotations, spec and status: it
        is not called for a pod that has these objects in common with the pod before it.
    """

    def __cinit__(self, of_class not None, of_pod=None, bint repeats=False):
        self.of_class, self.of_pod, self.repeats = of_class, of_pod, repeats
        self.known = {}
        self.key = INT32_MIN

    cdef int32_t of(self, pod, const PodSpan* span) except? -1:
        """The bits of the class of a pod. `span` has its target and the bits that were read of the pod
        itself."""
        cdef int32_t key = ~span.pod_class if span.route & VOLUMES else span.pod_class
        if key != self.key:  # most pods have the class of the previous one
            bits = self.known.get(key)
            if bits is None:
                target = span.pod_class, span.node_name, span.pinned
                bits = self.known[key] = self.of_class(pod, target, bool(span.route & VOLUMES))
            self.key, self.bits = key, bits
        return self.bits


cdef class RepeatedNeeds:
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
        And `RepeatedNeeds` for the pods of the class that come next, which get the same answer if it notes
        them; None to be asked about each.
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
        if routes is not None and routes.of_pod is not None:
            span.route |= <int32_t>routes.of_pod(template)
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
    cdef int32_t known = -1, bits = 0
    cdef Read[MEMORY] memory  # of pods that have been read; `pods` keeps the objects alive
    cdef Read* read
    cdef Read* previous = NULL  # of the pod before, if it is remembered
    cdef bint remembers = type(pods) is list or type(pods) is tuple
    cdef bint is_alike, is_remembered = False
    cdef object of_pod = None if batch.routes is None else batch.routes.of_pod
    memset(&span, 0, sizeof(PodSpan))
    memset(memory, 0, sizeof(memory))
    if first > 0:  # a run of the pods before, which nobody asks for
        span.end, span.pod_class = <int32_t>first, -1
        last = _append(batch, &span)
    for pod in islice(pods, first, None):
        read = _place_of(memory, pod)
        is_alike = _is_alike(read, pod)
        if is_alike:
            span.pod_class, span.route = read.span.pod_class, read.span.route
            span.node_name, span.pinned = read.span.node_name, read.span.pinned
        else:
            batch.reads_volumes = False
            known = _fill(batch, &span, pod, known)
            is_remembered = remembers and not batch.reads_volumes and _remember(read, pod, &span)
        if of_pod is not None:
            if not (is_alike and read == previous and batch.routes.repeats):
                bits = of_pod(pod)
            span.route |= bits
        previous = read if is_alike or is_remembered else NULL
        if batch.is_cut:
            break
        span.end += 1
        if last != NULL and last.pod_class == span.pod_class and last.node_name == span.node_name \
                and last.pinned == span.pinned and last.route == span.route:
            last.end = span.end
        else:
            last = _append(batch, &span)


cdef inline Read* _place_of(Read* memory, object pod) except NULL:
    """Where a pod is remembered."""
    cdef object spec = SPEC.of(pod)
    return memory + (<size_t><PyObject*>spec // SPEC_BYTES) % MEMORY


cdef bint _remember(Read* read, object pod, const PodSpan* span) except -1:
    """Remember a pod without claims of its own unless it is being deleted; return whether it is."""
    cdef object spec = SPEC.of(pod), status = STATUS.of(pod), meta = METADATA.of(pod)
    cdef object labels = LABELS.of(meta) or None, annotations = ANNOTATIONS.of(meta) or None
    cdef object owners = OWNER_REFERENCES.of(meta), namespace = NAMESPACE.of(meta)
    read.spec = NULL
    if DELETION_TIMESTAMP.of(meta) is not None:
        return False
    read.spec, read.status = <PyObject*>spec, <PyObject*>status
    read.labels, read.annotations, read.owners = \
        <PyObject*>labels, <PyObject*>annotations, <PyObject*>owners
    read.namespace, read.span = <PyObject*>namespace, span[0]
    return True


cdef inline bint _is_alike(const Read* read, object pod) except -1:
    """Whether a pod has the very objects of a pod that was read, so that its span is the same."""
    cdef object spec = SPEC.of(pod), status = STATUS.of(pod), meta, part
    if read.spec != <PyObject*>spec or read.status != <PyObject*>status:
        return False
    meta = METADATA.of(pod)
    part = OWNER_REFERENCES.of(meta)
    if read.owners != <PyObject*>part or DELETION_TIMESTAMP.of(meta) is not None:
        return False
    if not _has(read.labels, LABELS.of(meta)) or not _has(read.annotations, ANNOTATIONS.of(meta)):
        return False
    part = NAMESPACE.of(meta)
    return read.namespace == <PyObject*>part or part == <object>read.namespace


cdef inline bint _has(const PyObject* read, object part) except -1:
    """Whether this is the dict that was read, or both are empty."""
    return read == <PyObject*>part or (read == <PyObject*>None and not part)


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
        if out.route & VOLUMES and out.route & PYTHON:
            out.pod_class = batch.state.classes.with_plugins(pod_class)
    return pod_class


cdef int _fill_volumes(PodBatch batch, PodSpan* out, object pod) except -1:
    """Fill the class and the route of a pod with volumes."""
    batch.reads_volumes = True
    cdef int32_t pod_class = -1
    cdef int takes_devices = 0
    cdef list shared = None
    if batch.repeated is not None and out.pod_class == batch.repeated_of \
            and batch.repeated.note(pod, out.end):
        pod_class, takes_devices = batch.repeated_class, batch.takes_devices
    elif batch.class_with_volumes is not None:
        pod_class, shared, takes_devices, batch.repeated = \
            batch.class_with_volumes(pod, out.pod_class, out.end)
        batch.repeated_of, batch.repeated_class, batch.takes_devices = out.pod_class, pod_class, takes_devices
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

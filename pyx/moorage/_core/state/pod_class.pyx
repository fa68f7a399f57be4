"""Pod classes: pods of one template share what a decision depends on.

The **shape** is everything that a decision depends on except labels, owner and a single node name; it is
compiled to an `mr_shape`. A **class** is (shape, label set, owner), which is what matchers and counters see.
Both are interned and append-only. What differs between the pods of one template stays with the pod: the node
it names and the node it is pinned to by matchFields metadata.name.
"""

import threading

from msgspec.structs import force_setattr

from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memset

from moorage._core.base.buffers cimport Journal
from moorage._core.csrc cimport (
    MR_MAX_OTHER_REQUESTS,
    MR_SHAPE_REQUIRED,
    MR_SHAPE_TOLERATES_UNSCHEDULABLE,
    MR_SHAPE_WIDE,
    mr_port,
    mr_request,
    mr_requirement,
    mr_term,
)
from moorage._core.base.fields cimport METADATA, SPEC, Field
from moorage._core.state.pod_spec import PodSpecReader, pinned_node, spec_key
from moorage._core.base.resources import PodGates
from moorage._core.base.debug cimport MR_DEBUG_BUILD, debug_below

cdef enum:
    MEMO_LIMIT = 1 << 16

cdef int64_t EXACT = <int64_t>1 << 53
cdef Field LABELS = Field("labels"), ANNOTATIONS = Field("annotations"), NAMESPACE = Field("namespace")
cdef Field OWNER_REFERENCES = Field("owner_references"), STATUS = Field("status")
cdef Field ALLOCATED = Field("allocated_resources"), RESOURCES = Field("resources")
cdef Field STATUSES = Field("container_statuses"), INIT_STATUSES = Field("init_container_statuses")


cdef class Shape:
    """A compiled pod shape; see `mr_shape` in csrc/state.h."""

    cdef void* keep(self, Py_ssize_t itemsize, Py_ssize_t items) except? NULL:
        """Memory that lives as long as the shape; NULL for nothing."""
        if items == 0:
            return NULL
        cdef Buffer buffer = Buffer(Journal(), itemsize, items)
        self.memory.append(buffer)
        return buffer.data

    def __cinit__(self, int32_t id, read, tuple carried=()):
        self.memory = []
        self.id = id
        self.key = read.key
        self.tolerations = read.tolerations
        self.ports = read.ports
        self.others = tuple(name for name, *_ in read.others)
        self.has_node_affinity = read.has_node_affinity
        self.is_pinned = read.is_pinned
        self.has_preferred = read.has_preferred
        self.node_names = read.node_names
        self.names_conflict = read.names_conflict
        self.preferred_error = read.preferred_error
        self.namespace = read.key[0]
        self.node_affinity = (read.selector, read.required, read.has_required)
        self.spread = read.spread
        self.terms = read.terms
        self.carried = carried
        self.terms_error = read.terms_error
        self.declares_affinity = read.declares_affinity
        self.priority = read.priority
        self.may_preempt = read.may_preempt
        self.ledger = read.ledger
        memset(&self.c, 0, sizeof(mr_shape))
        self._set_requests(read)
        self._set_lists(read)
        self._set_selectors(read)

    def _set_requests(self, read):
        cdef mr_request* request
        self.c.need_cpu, self.c.need_memory = read.needs
        self.c.cpu, self.c.memory = read.requests
        self.c.score_cpu, self.c.score_memory = read.score_requests
        self.c.nonzero_cpu, self.c.nonzero_memory = read.nonzero_requests
        if len(read.others) > MR_MAX_OTHER_REQUESTS:
            raise ValueError(
                f"a pod may request at most {MR_MAX_OTHER_REQUESTS} resources besides cpu and memory"
            )
        request = <mr_request*>self.keep(sizeof(mr_request), len(read.others))
        self.c.others = request
        self.c.n_others = <int32_t>len(read.others)
        for at, (_, resource, value, need, score) in enumerate(read.others):
            request[at].resource = resource
            request[at].value, request[at].need, request[at].score = value, need, score
        if max(read.requests + read.score_requests + read.nonzero_requests) > EXACT:
            self.c.flags |= MR_SHAPE_WIDE
        if read.tolerates_unschedulable:
            self.c.flags |= MR_SHAPE_TOLERATES_UNSCHEDULABLE

    def _set_lists(self, read):
        cdef mr_port* port = <mr_port*>self.keep(sizeof(mr_port), len(read.ports))
        cdef int32_t* image = <int32_t*>self.keep(sizeof(int32_t), len(read.images))
        self.c.ports = port
        self.c.n_ports = <int32_t>len(read.ports)
        for at, item in enumerate(read.ports):
            port[at].ip, port[at].protocol, port[at].port = item
        self.c.images = image
        self.c.n_images = <int32_t>len(read.images)
        self.c.image_containers = read.image_containers
        self.c.priority = read.priority
        for at, item in enumerate(read.images):
            image[at] = item

    def _set_selectors(self, read):
        """Flatten the terms into requirements and values."""
        terms = [read.selector, *read.required, *(requirements for _, requirements in read.preferred)]
        cdef Py_ssize_t n = sum(map(len, terms)), at = 0, value_at = 0
        cdef mr_requirement* requirements = <mr_requirement*>self.keep(sizeof(mr_requirement), n)
        n = sum(len(r.values) for term in terms for r in term)
        cdef int32_t* values = <int32_t*>self.keep(sizeof(int32_t), n)
        cdef mr_term* out = <mr_term*>self.keep(sizeof(mr_term), len(terms))
        cdef Py_ssize_t term_at
        for term_at, term in enumerate(terms):
            out[term_at].first = <int32_t>at
            out[term_at].count = <int32_t>len(term)
            for r in term:
                requirements[at].column = r.column
                requirements[at].op = r.op
                requirements[at].number = r.number
                requirements[at].first = <int32_t>value_at
                requirements[at].count = <int32_t>len(r.values)
                for value in r.values:
                    values[value_at] = value
                    value_at += 1
                at += 1
        for term_at, (weight, _) in enumerate(read.preferred):
            out[1 + len(read.required) + term_at].weight = weight
        self.c.requirements = requirements
        self.c.values = values
        self.c.selector = out[0]
        self.c.required = out + 1
        self.c.n_required = <int32_t>len(read.required)
        self.c.preferred = out + 1 + len(read.required)
        self.c.n_preferred = <int32_t>len(read.preferred)
        if read.has_required:
            self.c.flags |= MR_SHAPE_REQUIRED

    @property
    def requests(self):
        """Effective cpu (millicores) and memory (bytes): what a placed pod adds to what is requested."""
        return self.c.cpu, self.c.memory

    @property
    def needs(self):
        """What must be free on a node, by resource: effective requests without resizes in progress."""
        cdef int32_t at
        others = {name: self.c.others[at].need for at, name in enumerate(self.others)}
        return {"cpu": self.c.need_cpu, "memory": self.c.need_memory} | others

    @property
    def nonzero_requests(self):
        """What a placed pod adds to the non-zero requested cpu and memory."""
        return self.c.nonzero_cpu, self.c.nonzero_memory

    @property
    def score_requests(self):
        """What scores of allocation take for the pod's own cpu and memory: that of its containers."""
        return self.c.score_cpu, self.c.score_memory

    @property
    def other_requests(self):
        """Effective requests of the other resources by name."""
        cdef int32_t at
        return {name: self.c.others[at].value for at, name in enumerate(self.others)}


cdef tuple _parts(pod):
    """What the class of a pod is made of, besides its namespace. A status counts where it has requests."""
    meta, status = METADATA.of(pod), STATUS.of(pod)
    if not (STATUSES.of(status) or INIT_STATUSES.of(status) or ALLOCATED.of(status) or RESOURCES.of(status)):
        status = None
    return SPEC.of(pod), status, LABELS.of(meta), ANNOTATIONS.of(meta), OWNER_REFERENCES.of(meta)


cdef bint _are_same(tuple parts, tuple others) noexcept:
    """Whether these are the same objects."""
    cdef Py_ssize_t at
    for at in range(len(parts)):
        if parts[at] is not others[at]:
            return False
    return True


cdef class PodClasses:
    """The interner of shapes and classes of one cluster and its forks.

    It knows names only, of symbols, resources, label keys and images: the columns of a fork are its own.

    Parameters
    ----------
    gates : PodGates
        What feature gates say about reading pods.
    ledger_of : callable, optional
        The ledger of the node table that a pod is charged to; by default the first.

    Attributes
    ----------
    lowest_priority : int
        Of any pod that was ever met.
    """

    def __cinit__(self, Symbols symbols not None, Symbols resources not None, Symbols label_keys not None,
                  Symbols images not None, object gates=PodGates(), ledger_of=None):
        self.gates = gates
        self.ledger_of = ledger_of
        self.symbols = symbols
        self.resources = resources
        self.label_keys = label_keys
        self.images = images
        self.lock = threading.RLock()
        self.shape_ids = {}
        self.class_ids = {}
        self.memo = {}
        self.last = ()
        self.term_ids = {}
        self.label_sets = {}
        self.shapes = []
        self.lowest_priority = INT32_MAX
        self.keys = []
        self.terms = []

    cdef bint knows(self, pod) except -1:
        """Whether a pod object remembers its class."""
        known = getattr(pod, "interned", None)
        return known is not None and (<tuple>known)[0] is self

    cpdef int32_t intern(self, pod) except -1:
        """The class of a pod, by number. The pod object remembers it. Pods of one template, which mostly come
        one after the other, share what their class depends on."""
        known = getattr(pod, "interned", None)
        if known is not None and (<tuple>known)[0] is self:
            return (<tuple>known)[1]
        cdef tuple last = self.last, parts = _parts(pod)
        namespace = NAMESPACE.of(METADATA.of(pod))
        if last and _are_same(parts, last[0]) and namespace == last[1]:
            found = last[2]
        else:
            found = self._find(pod)
            self.last = parts, namespace, found
        self.remember(pod, found)
        return found

    cdef int32_t intern_after(self, pod, before) except -1:
        """The class of a pod, by number, which another state of it may have as well."""
        if not self.knows(pod) and self.knows(before) and _are_same(_parts(pod), _parts(before)) \
                and NAMESPACE.of(METADATA.of(pod)) == NAMESPACE.of(METADATA.of(before)):
            self.remember(pod, self.intern(before))
        return self.intern(pod)

    cdef object _find(self, pod):
        meta = pod.metadata
        shape = self._intern_shape(pod)
        owner = meta.controller()
        owned = owner and (owner.api_version, owner.kind, owner.name, owner.uid)
        key = (shape, frozenset(meta.labels.items()), owned)
        found = self.class_ids.get(key)
        if found is None:
            with self.lock:
                if key not in self.class_ids:
                    self.keys.append(key)
                    self.class_ids[key] = len(self.keys) - 1
                found = self.class_ids[key]
        return found

    cdef int remember(self, pod, int32_t pod_class) except -1:
        """Note the class of a pod on the object."""
        force_setattr(pod, "interned", (self, pod_class))

    def _intern_shape(self, pod):
        # Reading a spec costs tens of microseconds; equal bytes are read once.
        raw = spec_key(pod) if self.ledger_of is None else (spec_key(pod), self.ledger_of(pod))
        found = self.memo.get(raw)
        if found is not None:
            return found
        with self.lock:
            read = PodSpecReader(pod, self)
            found = self.shape_ids.get(read.key)
            if found is None:
                found = len(self.shapes)
                carried = []
                for term in [term for terms in read.terms for term in terms]:
                    # A term that stands twice counts twice.
                    twice = sum([self.terms[number].key == term.key for number in carried])
                    carried.append(self._intern_term(term, twice))
                self.shapes.append(Shape(found, read, tuple(carried)))
                self.shape_ids[read.key] = found
                self.lowest_priority = min(self.lowest_priority, read.priority)
            if len(self.memo) >= MEMO_LIMIT:
                self.memo.clear()
            self.memo[raw] = found
        return found

    def _intern_term(self, term, twice):
        key = term.key, twice
        if key not in self.term_ids:
            self.terms.append(term)
            self.term_ids[key] = len(self.terms) - 1
        return self.term_ids[key]

    cdef dict labels(self, int32_t pod_class):
        """The label set of a class, not to be changed."""
        found = self.label_sets.get(pod_class)
        if found is None:
            found = self.label_sets[pod_class] = dict(self.keys[pod_class][1])
        return found

    cdef int check(self, int32_t pod_class) except -1:
        """IndexError for what is no class."""
        if not 0 <= pod_class < len(self.keys):
            raise IndexError(f"there is no class {pod_class} among {len(self.keys)}")

    cdef Shape shape(self, int32_t pod_class):
        if MR_DEBUG_BUILD:
            debug_below(pod_class, len(self.keys), b"pod class")
        return self.shapes[self.keys[pod_class][0]]

    def shape_of(self, int32_t pod_class):
        """The shape of a class."""
        self.check(pod_class)
        return self.shape(pod_class)

    def labels_of(self, int32_t pod_class):
        """The label set of a class."""
        self.check(pod_class)
        return dict(sorted(self.labels(pod_class).items()))

    def pinned_symbol(self, int32_t pod_class, pod):
        """Symbol of the node that matchFields pins a pod to; 0 where its class is not pinned."""
        self.check(pod_class)
        if not self.shape(pod_class).is_pinned:
            return 0
        return self.symbols.intern(pinned_node(pod.spec))

# cython: auto_pickle=False
"""Pod classes: pods of one template share all data that a scheduling decision depends on.

A **shape** has the fields that a decision depends on, except the labels, the owner and a single node name; it
is compiled to an `mr_shape`. A **class** is (shape, label set, owner); label selectors match classes. Both
tables are append-only, until `ClusterState.number_classes_anew` begins them anew: whoever keeps a number of
a class compares `PodClasses.generation`. The pods of one class can still differ in spec.nodeName and in the
node that matchFields metadata.name pins them to.
"""

import threading
from itertools import count
from weakref import WeakSet

from libc.stdint cimport INT32_MAX, int32_t, int64_t

from msgspec.structs import replace

from moorage._core.base cimport (
    ANNOTATIONS, METADATA, MR_DEBUG_BUILD, NAMESPACE, SPEC, Buffer, Field, Journal, SpecMemo, allocate,
    debug_below,
)
from moorage._core.base.quantity cimport parse_milli, parse_value
from moorage._core.csrc cimport *
from moorage._core.state.declared_features cimport feature_flags, required_features
from moorage._core.state.pod_spec cimport resized
from moorage._core.base.resources import (
    CONTAINERS_ALONE, NON_ZERO, ZERO, PodGates, is_counted, nonzero_requests, pod_requests,
)
from moorage._core.base.selectors import tolerates
from moorage._core.base.sets import Taint, Toleration
from moorage._core.state.images import normalized_image_name
from moorage._core.state.node_terms import (
    compiled_term, label_requirement, required_errors, requirements_of, term_error,
)
from moorage._core.state.pod_spec import encode, pinned_node, required_node_names, spec_key
from moorage._core.state.pod_terms import read_terms

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object holder, object name, object value) except -1

cdef enum:
    MEMO_LIMIT = 1 << 16

cdef object NUMBERS = count()
cdef frozenset NOTHING = frozenset()
cdef str PLUGINS = "plugins"  # in the place of a demand: plugins are asked about volumes and claims
cdef object ANY_LABEL = None  # stands for the label that a term asks for, if it asks for none
cdef int64_t EXACT = <int64_t>1 << 53
cdef int64_t SUMMABLE = <int64_t>1 << 32  # the sum of 2^31 - 1 requests of at most this does not wrap
cdef object UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
cdef Field LABELS = Field("labels"), OWNER_REFERENCES = Field("owner_references")
cdef object new_tuple = tuple.__new__  # for a named tuple, which a call of its class makes in Python


cdef class Shape:
    """The data of a pod that a decision depends on, except labels, owner and a single node name.

    It is compiled to an `mr_shape` (csrc/state.h).

    Parameters
    ----------
    pod : Pod
    classes : PodClasses
        Provides the symbols, and the ids of resources, label keys and images.

    Attributes
    ----------
    id : int
        Index in `PodClasses.shapes`, set when the shape is interned.
    key : tuple
        Equal for equal shapes of one `PodClasses`: the namespace, the requests besides cpu and memory, those
        of cpu and memory, and the number of all the rest.
    carried : frozenset of int
        The pod affinity terms, as indices in `PodClasses.terms`; set when the shape is interned.
    terms : tuple of four tuples of PodTerm
        By `TermKind`.
    terms_error, preferred_error : str
        Upstream's error for pod affinity terms and for preferred node affinity; empty if there is none.
    node_names : frozenset of str or None
        The node names that required node affinity restricts the search to; None for no restriction and for a
        pinned pod.
    is_pinned : bool
        Whether required node affinity pins the pod to one node by name.
    names_conflict : bool
        Whether required node affinity admits no node name at all.
    features : tuple of str
        The declared features that the pod needs of a node, sorted.
    others : tuple of str
        Names of the requested resources other than cpu and memory.
    containers : tuple of (int, int, int, int)
        Request and limit of cpu (millicores), request and limit of memory (bytes) of each container, as
        plugins in C see them; -1 where there is none.

    Raises
    ------
    ValueError
        If the pod requests more than MR_MAX_OTHER_REQUESTS resources besides cpu and memory.
    """

    def __cinit__(self, pod, PodClasses classes not None):
        self.memory = []
        if pod is None:  # for `_copy`
            return
        spec = pod.spec
        self.namespace = pod.metadata.namespace
        self.spread = spec.topology_spread_constraints
        if self.spread and not classes.gates.match_label_keys:
            self.spread = tuple([replace(constraint, match_label_keys=()) for constraint in self.spread])
        self.terms, self.terms_error = read_terms(pod)
        self.priority = self.c.priority = spec.priority or 0
        self.may_preempt = spec.preemption_policy != "Never"
        self.ledger = 0 if classes.ledger_of is None else classes.ledger_of(pod)
        amounts, others = _read_requests(self, pod, classes)
        _read_tolerations(self, spec, classes.gates.comparison_operators)
        self.features = required_features(spec)
        self.c.flags |= feature_flags(self.features)
        _read_ports(self, spec, classes.symbols)
        images = _read_images(self, spec, classes)
        preferred = self._read_node_affinity(spec, classes)
        rest = (
            self.tolerations, self.ports, images, self.c.image_containers,
            self.node_affinity, self.has_node_affinity, preferred, self.has_preferred, self.preferred_error,
            self.is_pinned, self.node_names, tuple([tuple([term.key for term in of]) for of in self.terms]),
            self.terms_error, required_errors(spec), _uncompiled(spec), self.ledger,
            self.features,
        )
        self.key = self.namespace, others, amounts, classes.rests.setdefault(rest, len(classes.rests))

    def _read_node_affinity(self, spec, PodClasses classes):
        """Compile nodeSelector and node affinity; return the preferred terms."""
        affinity = (spec.affinity and spec.affinity.node_affinity) or None
        if affinity is None and spec.node_selector is None:  # as in most pods
            self.node_affinity = (), (), False
            return ()
        required = affinity and affinity.required
        names = required_node_names(spec)
        self.has_node_affinity = required is not None or spec.node_selector is not None
        self.is_pinned = pinned_node(spec) is not None
        self.names_conflict = names is not None and not names
        self.node_names = None if self.is_pinned else names
        symbols, keys = classes.symbols, classes.label_keys
        labels = sorted((spec.node_selector or {}).items())
        selector = tuple([label_requirement(symbols, keys, key, "In", (value,)) for key, value in labels])
        # An invalid required term is dropped like an empty one: neither matches any node.
        terms = required.node_selector_terms if required is not None else ()
        terms = [t for t in terms if not term_error(t) and requirements_of(t)]
        terms = tuple([compiled_term(symbols, keys, t, self.is_pinned) for t in terms])
        self.node_affinity = selector, terms, required is not None
        if required is not None:
            self.c.flags |= MR_SHAPE_REQUIRED
        preferred = self._read_preferred(affinity, classes)
        self._set_terms(selector, terms, preferred)
        return preferred

    def _read_preferred(self, affinity, PodClasses classes):
        """Return (weight, requirements) of the preferred terms before the first invalid one."""
        cdef list out = []
        self.has_preferred = affinity is not None and affinity.preferred is not None
        for term in (affinity.preferred if self.has_preferred else ()):
            if term.weight == 0 or not requirements_of(term.preference):
                continue
            self.preferred_error = term_error(term.preference)
            if self.preferred_error:
                break
            preference = compiled_term(classes.symbols, classes.label_keys, term.preference, False)
            out.append((term.weight, preference))
        return tuple(out)

    def _set_terms(self, tuple selector, tuple required, tuple preferred):
        """Compile the terms to flat arrays of requirements and values."""
        terms = [selector, *required, *(requirements for _, requirements in preferred)]
        cdef Py_ssize_t n = sum(map(len, terms)), at = 0, value_at = 0
        cdef mr_requirement* requirements = <mr_requirement*>allocate(self.memory, sizeof(mr_requirement), n)
        n = sum(len(r.values) for term in terms for r in term)
        cdef int32_t* values = <int32_t*>allocate(self.memory, sizeof(int32_t), n)
        cdef mr_term* out = <mr_term*>allocate(self.memory, sizeof(mr_term), len(terms))
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
        for term_at, (weight, _) in enumerate(preferred):
            out[1 + len(required) + term_at].weight = weight
        self.c.requirements = requirements
        self.c.values = values
        self.c.selector = out[0]
        self.c.required = out + 1
        self.c.n_required = <int32_t>len(required)
        self.c.preferred = out + 1 + len(required)
        self.c.n_preferred = <int32_t>len(preferred)

    @property
    def requests(self):
        """Return the effective requests of cpu (millicores) and memory (bytes), charged to the node."""
        return self.c.cpu, self.c.memory

    @property
    def needs(self):
        """Return what must be free on a node, by resource: effective requests without resizes in progress.

        Cpu is in millicores, memory and ephemeral storage are in bytes, other resources in units.
        """
        cdef int32_t at
        others = {name: self.c.others[at].need for at, name in enumerate(self.others)}
        return {"cpu": self.c.need_cpu, "memory": self.c.need_memory} | others

    @property
    def nonzero_requests(self):
        """Return the cpu (millicores) and memory (bytes) that a pod adds to NonZeroRequested of its node."""
        return self.c.nonzero_cpu, self.c.nonzero_memory

    @property
    def score_requests(self):
        """Return the requests that resource allocation scores use for the pod, by resource.

        They have the defaults of NonZeroRequested, and are those of containers alone unless
        `scores_effective_requests` (kube-scheduler v1.36, resource_allocation.go). Cpu is in millicores,
        memory and ephemeral storage are in bytes, other resources in units.
        """
        cdef int32_t at
        others = {name: self.c.others[at].score for at, name in enumerate(self.others)}
        return {"cpu": self.c.score_cpu, "memory": self.c.score_memory} | others

    @property
    def other_requests(self):
        """Return the effective requests of resources other than cpu and memory, by name."""
        cdef int32_t at
        return {name: self.c.others[at].value for at, name in enumerate(self.others)}


cdef tuple _read_requests(Shape shape, pod, PodClasses classes):
    """Compile the requests; return those of cpu and memory, and the others, as parts of the key."""
    cdef mr_request* out
    cdef Py_ssize_t at
    cdef int64_t amount
    gates = classes.gates
    needs = pod_requests(pod, gates, resizes=False)
    requests = needs
    if resized(pod):
        requests = pod_requests(pod, gates, claims=gates.node_allocatable_claims)
    score = nonzero = _with_defaults(pod.spec, needs)
    if gates.scores_effective_requests and (score is None or requests is not needs):
        score = nonzero = pod_requests(pod, gates, NON_ZERO)
    elif score is None:
        score = nonzero = pod_requests(pod, CONTAINERS_ALONE, NON_ZERO, resizes=False)
    if pod.spec.resources is not None or requests is not needs:
        nonzero = nonzero_requests(pod, requests, gates)
    cdef bint saturates = gates.quantities_saturate
    cdef tuple needed = _cpu_and_memory(needs, saturates), scored = _cpu_and_memory(score, saturates)
    cdef tuple charged = needed if requests is needs else _cpu_and_memory(requests, saturates)
    cdef tuple defaulted = scored if nonzero is score else _cpu_and_memory(nonzero, saturates)
    shape.c.need_cpu, shape.c.need_memory = needed
    shape.c.cpu, shape.c.memory = charged
    shape.c.score_cpu, shape.c.score_memory = scored
    shape.c.nonzero_cpu, shape.c.nonzero_memory = defaulted
    for amount in charged + scored + defaulted:  # what is beyond 64 bits may have wrapped
        if not 0 <= amount <= EXACT:
            shape.c.flags |= MR_SHAPE_WIDE
    cdef tuple others = _other_requests(requests, needs, score, saturates)
    if len(others) > MR_MAX_OTHER_REQUESTS:
        raise ValueError(
            f"a pod may request at most {MR_MAX_OTHER_REQUESTS} resources besides cpu and memory"
        )
    shape.others = tuple([name for name, *_ in others])
    shape.c.others = out = <mr_request*>allocate(shape.memory, sizeof(mr_request), len(others))
    shape.c.n_others = <int32_t>len(others)
    for at, (name, value, need, scoring) in enumerate(others):
        out[at].resource = classes.resources.intern(name) - 1
        out[at].value, out[at].need, out[at].score = value, need, scoring
        classes.sums_may_wrap |= not 0 <= out[at].value <= SUMMABLE
    shape.containers = tuple([_amounts(container.resources) for container in pod.spec.containers])
    return (needed, charged, scored, defaulted, shape.containers), others


cdef tuple _amounts(resources):
    """Request and limit of cpu (millicores), request and limit of memory (bytes); -1 where there is none."""
    requests, limits = resources.requests, resources.limits
    return (
        parse_milli(requests["cpu"]) if "cpu" in requests else -1,
        parse_milli(limits["cpu"]) if "cpu" in limits else -1,
        parse_value(requests["memory"]) if "memory" in requests else -1,
        parse_value(limits["memory"]) if "memory" in limits else -1,
    )


cdef int _read_tolerations(Shape shape, spec, bint compares) except -1:
    """Read the tolerations; `compares` tells whether the operators Lt and Gt are enabled."""
    shape.tolerations = tuple([
        new_tuple(Toleration, (t.key, t.operator, t.value, t.effect)) for t in spec.tolerations
        if compares or t.operator not in ("Lt", "Gt")
    ])
    if tolerates(shape.tolerations, UNSCHEDULABLE):
        shape.c.flags |= MR_SHAPE_TOLERATES_UNSCHEDULABLE


cdef int _read_ports(Shape shape, spec, Symbols symbols) except -1:
    """Compile the host ports of containers and sidecars; defaults are 0.0.0.0 and TCP."""
    cdef mr_port* out
    cdef Py_ssize_t at
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    claimed = [port for container in (*spec.containers, *sidecars) for port in container.ports]
    shape.ports = tuple([
        (symbols.intern(p.host_ip or "0.0.0.0"), symbols.intern(p.protocol or "TCP"), p.host_port)
        for p in claimed if p.host_port > 0
    ])
    shape.c.ports = out = <mr_port*>allocate(shape.memory, sizeof(mr_port), len(shape.ports))
    shape.c.n_ports = <int32_t>len(shape.ports)
    for at, port in enumerate(shape.ports):
        out[at].ip, out[at].protocol, out[at].port = port


cdef tuple _read_images(Shape shape, spec, PodClasses classes):
    """Compile the images of containers and, if they count, of image volumes; return their ids."""
    cdef int32_t* out
    cdef Py_ssize_t at
    containers = (*spec.containers, *spec.init_containers)
    names = [c.image for c in containers]
    n_counted, volumes = len(containers), classes.gates.image_volumes
    if volumes:
        names += [v.image.reference for v in spec.volumes if v.image is not None]
    if volumes == "count":
        n_counted = len(names)
    ids = tuple([classes.images.intern(normalized_image_name(name)) for name in names if name])
    shape.c.images = out = <int32_t*>allocate(shape.memory, sizeof(int32_t), len(ids))
    shape.c.n_images = <int32_t>len(ids)
    shape.c.image_containers = <int32_t>n_counted
    for at, image in enumerate(ids):
        out[at] = image
    return ids


cdef tuple _key_without(Shape shape, frozenset names):
    """The key of a shape without its requests for some resources besides cpu and memory."""
    namespace, others, *rest = shape.key
    return namespace, tuple([one for one in others if one[0] not in names]), *rest


cdef Shape _without(Shape shape, frozenset names, tuple key, PodClasses classes):
    """A copy of a shape without its requests for some resources besides cpu and memory."""
    cdef Shape out = _copy(shape, key, classes)
    cdef mr_request* others = <mr_request*>allocate(out.memory, sizeof(mr_request), shape.c.n_others)
    cdef int32_t at, n = 0
    for at, name in enumerate(shape.others):
        if name not in names:
            others[n] = shape.c.others[at]
            n += 1
    out.c.others, out.c.n_others = others, n
    out.others = tuple([name for name in shape.others if name not in names])
    return out


cdef Shape _in_namespace(Shape shape, str namespace, PodClasses classes):
    """A copy of a shape without pod affinity terms, of pods in another namespace."""
    cdef Shape out = _copy(shape, (namespace, *shape.key[1:]), classes)
    out.namespace = namespace
    return out


cdef Shape _with_requests(Shape shape, pod, PodClasses classes):
    """A copy of a shape without pod affinity terms, of a pod that differs in requests and namespace alone."""
    cdef Shape out = _copy(shape, None, classes)
    out.namespace = NAMESPACE.of(METADATA.of(pod))
    out.c.flags &= ~MR_SHAPE_WIDE
    amounts, others = _read_requests(out, pod, classes)
    out.key = out.namespace, others, amounts, shape.key[3]
    return out


cdef Shape _copy(Shape shape, tuple key, PodClasses classes):
    """A copy of a shape to be changed, with another key and without an id."""
    cdef Shape out = Shape.__new__(Shape, None, classes)
    out.memory.append(shape.memory)
    out.c, out.key, out.others = shape.c, key, shape.others
    out.containers = shape.containers
    out.namespace, out.preferred_error, out.terms_error = \
        shape.namespace, shape.preferred_error, shape.terms_error
    out.tolerations, out.ports, out.node_affinity = shape.tolerations, shape.ports, shape.node_affinity
    out.spread, out.terms, out.features = shape.spread, shape.terms, shape.features
    out.node_names, out.has_node_affinity, out.is_pinned = \
        shape.node_names, shape.has_node_affinity, shape.is_pinned
    out.has_preferred, out.names_conflict = shape.has_preferred, shape.names_conflict
    out.priority = shape.priority
    out.ledger, out.may_preempt = shape.ledger, shape.may_preempt
    return out


cdef tuple _parts(pod):
    """Return the fields that determine the class of a pod, besides its spec, its namespace and resizes."""
    meta = METADATA.of(pod)
    # Each pod without labels or annotations has an empty dict of its own.
    return LABELS.of(meta) or None, ANNOTATIONS.of(meta) or None, OWNER_REFERENCES.of(meta)


cdef bint _has_parts(pod, tuple parts) except -1:
    """Whether a pod has the very objects of some `_parts`."""
    meta = METADATA.of(pod)
    return (
        OWNER_REFERENCES.of(meta) is parts[2] and (LABELS.of(meta) or None) is parts[0]
        and (ANNOTATIONS.of(meta) or None) is parts[1]
    )


def _uncompiled(spec):
    """Encode the fields that decisions depend on but that are not compiled."""
    return encode((
        spec.scheduler_name, spec.priority, spec.preemption_policy, spec.scheduling_gates,
        spec.topology_spread_constraints,
    ))


cdef dict _with_defaults(spec, dict needs):
    """The requests for scores of a pod whose one container alone requests something; None for other pods."""
    if len(spec.containers) != 1 or spec.init_containers or spec.overhead or spec.resources is not None:
        return None
    return NON_ZERO | needs


cdef tuple _cpu_and_memory(dict requests, bint saturates):
    """The cpu (millicores) and memory (bytes) of some requests; see `Quantity.amount`."""
    cpu, memory = requests.get("cpu", ZERO), requests.get("memory", ZERO)
    return cpu.amount(-3, saturates), memory.amount(0, saturates)


cdef tuple _other_requests(dict requests, dict needs, dict score, bint saturates):
    """(name, requests, needs, amount for scores) of each resource besides cpu and memory.

    Resources whose amounts are all 0 are left out; ephemeral storage comes first.
    """
    cdef list names = [], rows = []
    for name in needs | score if requests is needs else requests | needs | score:
        if name != "cpu" and name != "memory" and is_counted(name):
            names.append(name)
    if len(names) > 1:
        names.sort(key=_after_storage)
    for name in names:
        needed, scoring = needs.get(name, ZERO), score.get(name, ZERO)
        need = needed.amount(0, saturates)
        asked = need if requests is needs else requests.get(name, ZERO).amount(0, saturates)
        scored = need if scoring is needed else scoring.amount(0, saturates)
        if asked or need or scored:
            rows.append((name, asked, need, scored))
    return tuple(rows)


def _after_storage(str name):
    """The place of a resource in the order of requests."""
    return name != "ephemeral-storage", name


cdef class InternedClass:
    """The class of a pod, as stored in the pod object.

    All pods of a class share one of these. It refers to no Python object, so that neither it nor the pods
    need garbage collection.
    """


cdef class PodClasses:
    """The interned shapes and classes of one cluster and its forks.

    Parameters
    ----------
    symbols, resources, label_keys, images : Symbols
        Ids of strings, resources, label keys and images. The columns of resources and label keys belong to
        the node table of each fork.
    gates : PodGates
        The feature gates that affect how pods are read.
    ledger_of : callable, optional
        Returns the number of the resource ledger that a pod is charged to; by default 0.

    Attributes
    ----------
    shapes : list of Shape
        By shape id.
    keys : list of tuple
        (shape id, label set, owner) of each class, then the demand of `with_volumes` or PLUGINS, if there is
        one.
    interned : list of InternedClass
        What the pods of each class store.
    terms : list of PodTerm
        The distinct pod affinity terms of all shapes.
    lowest_priority : int
        The lowest priority of any pod that was interned.
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
        self.users = WeakSet()
        self.begin_anew()

    cdef int begin_anew(self) except -1:
        """Forget all shapes and classes. What pod objects store is void then, and so are all numbers."""
        self.number = next(NUMBERS)
        self.shape_ids, self.rests = {}, {}
        self.class_ids = {}
        self.memo, self.anywhere, self.around = {}, {}, {}
        # Pods of a StatefulSet differ in their claims, which no shape contains; see `spec_key`.
        self.recent = SpecMemo("persistent_volume_claim") if self.ledger_of is None else SpecMemo()
        self.term_ids = {}
        self.terms_by_label = {}
        self.label_sets = {}
        self.shapes = []
        self.lowest_priority = INT32_MAX
        self.keys = []
        self.priorities = Buffer(Journal(), sizeof(int32_t))
        self.interned = []
        self.terms = []
        return 0

    def __len__(self):
        return len(self.keys)

    @property
    def generation(self):
        """Another number each time that classes are numbered anew; see `ClusterState.number_classes_anew`."""
        return self.number

    cdef bint knows(self, pod) except -1:
        """Whether a pod object stores its class."""
        known = getattr(pod, "interned", None)
        return known is not None and (<InternedClass>known).owner == self.number

    cpdef int32_t intern(self, pod) except -1:
        """Return the number of the class of a pod, adding the class if it is new.

        Most pods are of a few templates and share the objects that determine their class, so a pod is first
        compared by identity with the last one of its template. Any other pod object stores its class.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        int

        Raises
        ------
        ValueError
            If the pod requests more than MR_MAX_OTHER_REQUESTS resources besides cpu and memory.
        """
        cdef int32_t pod_class
        known = getattr(pod, "interned", None)
        if known is not None and (<InternedClass>known).owner == self.number:
            return (<InternedClass>known).pod_class
        cdef tuple held = resized(pod), last = self.recent.get(SPEC.of(pod))
        namespace = NAMESPACE.of(METADATA.of(pod))
        if last is None or namespace != last[0] or (held is not last[1] and held != last[1]):
            last = None
        if last is not None and _has_parts(pod, last[2]):
            return last[3]
        # The ledger may depend on all fields of a pod.
        shape = last[4] if last is not None and self.ledger_of is None else _intern_shape(self, pod, held)
        pod_class = _find(self, pod, shape)
        self.recent.put(SPEC.of(pod), (namespace, held, _parts(pod), pod_class, shape))
        self.remember(pod, pod_class)
        return pod_class

    cdef int32_t intern_after(self, pod, before) except -1:
        """Return the class of a pod, comparing it with an earlier state of the pod first."""
        if not self.knows(pod) and self.knows(before) and SPEC.of(pod) is SPEC.of(before) \
                and _has_parts(pod, _parts(before)) and resized(pod) == resized(before) \
                and NAMESPACE.of(METADATA.of(pod)) == NAMESPACE.of(METADATA.of(before)):
            self.remember(pod, self.intern(before))
        return self.intern(pod)

    cdef int remember(self, pod, int32_t pod_class) except -1:
        """Store the class of a pod in the pod object."""
        PyObject_GenericSetAttr(pod, "interned", self.interned[pod_class])  # the struct is frozen

    def with_volumes(self, int32_t pod_class, demand, frozenset without=NOTHING):
        """Return the number of the class of pods whose bound volumes make a demand of their node.

        Apart from the demand and the requests that it leaves out it equals `pod_class`, which the ledger has
        of these pods.

        Parameters
        ----------
        pod_class : int
        demand : hashable
        without : frozenset of str, optional
            Resources that the demand provides on every node: requests for them are left out.

        Returns
        -------
        int

        Raises
        ------
        IndexError
            If there is no such class.
        """
        self.check(pod_class)
        shape, labels, owned = self.keys[pod_class][:3]
        if without:
            shape = _shape_without(self, self.shape(pod_class), without)
        return _intern_key(self, (shape, labels, owned, demand))

    cdef bint has_volumes(self, int32_t pod_class) except -1:
        """Whether a class is one of `with_volumes`."""
        cdef tuple key = self.keys[pod_class]
        return len(key) > 3 and key[3] is not PLUGINS

    cpdef int32_t with_plugins(self, int32_t pod_class) except -1:
        """Return the number of the class of pods whose volumes or claims are asked about at each node.

        Otherwise it equals `pod_class`, which the ledger has of these pods. Plugins about volumes and claims
        are skipped for all other classes.

        Parameters
        ----------
        pod_class : int

        Returns
        -------
        int

        Raises
        ------
        IndexError
            If there is no such class.
        """
        self.check(pod_class)
        shape, labels, owned = self.keys[pod_class][:3]
        return _intern_key(self, (shape, labels, owned, PLUGINS))

    cpdef bint asks_plugins(self, int32_t pod_class) except -1:
        """Return whether a class is one of `with_plugins`.

        Parameters
        ----------
        pod_class : int

        Returns
        -------
        bool

        Raises
        ------
        IndexError
            If there is no such class.
        """
        self.check(pod_class)
        cdef tuple key = self.keys[pod_class]
        return len(key) > 3 and key[3] is PLUGINS

    def _intern_term(self, term, repeats):
        """Return the number of a term that the same pod has `repeats` times before it."""
        key = term.key, repeats
        if key not in self.term_ids:
            self.terms.append(term)
            number = self.term_ids[key] = len(self.terms) - 1
            asked = term.selector.asked_values()
            for label in [(asked[0][0], value) for value in set(asked[0][1])] if asked else (ANY_LABEL,):
                self.terms_by_label.setdefault(label, []).append(number)
        return self.term_ids[key]

    cdef list terms_that_may_match(self, int32_t pod_class):
        """Return the numbers of the terms that may select pods of a class, in ascending order.

        They are those that ask for no value of a label, and those that ask for a label of the class. Terms
        are only ever added, so the list is the same as long as its length is.
        """
        cdef list found = list(self.terms_by_label.get(ANY_LABEL, ()))
        for label in self.labels(pod_class).items():
            found += self.terms_by_label.get(label, ())
        found.sort()
        return found

    cdef dict labels(self, int32_t pod_class):
        """Return the labels of a class, which the caller must not change."""
        labels = self.label_sets.get(pod_class)
        if labels is None:
            labels = self.label_sets[pod_class] = dict(self.keys[pod_class][1])
        return labels

    cdef int check(self, int32_t pod_class) except -1:
        """Raise IndexError unless there is a class with this number."""
        if not 0 <= pod_class < len(self.keys):
            raise IndexError(f"there is no class {pod_class} among {len(self.keys)}")

    cdef Shape shape(self, int32_t pod_class):
        """Return the shape of a class."""
        if MR_DEBUG_BUILD:
            debug_below(pod_class, len(self.keys), b"pod class")
        return self.shapes[<int32_t>(<tuple>self.keys[pod_class])[0]]

    def shape_of(self, int32_t pod_class):
        """Return the shape of a class.

        Parameters
        ----------
        pod_class : int

        Returns
        -------
        Shape

        Raises
        ------
        IndexError
            If there is no such class.
        """
        self.check(pod_class)
        return self.shape(pod_class)

    def labels_of(self, int32_t pod_class):
        """Return the labels of a class.

        Parameters
        ----------
        pod_class : int

        Returns
        -------
        dict of str to str
            Sorted by key.

        Raises
        ------
        IndexError
            If there is no such class.
        """
        self.check(pod_class)
        return dict(sorted(self.labels(pod_class).items()))

    cpdef int32_t pinned_symbol(self, int32_t pod_class, pod) except -1:
        """Return the symbol of the node name that matchFields pins a pod to.

        Parameters
        ----------
        pod_class : int
            The class of the pod.
        pod : Pod

        Returns
        -------
        int
            0 if the class is not pinned.

        Raises
        ------
        IndexError
            If there is no such class.
        """
        self.check(pod_class)
        if not self.shape(pod_class).is_pinned:
            return 0
        return self.symbols.intern(pinned_node(pod.spec))


cdef object _find(PodClasses classes, pod, shape):
    """Return the number of the class of a pod by its shape, labels and owner, adding it if it is new."""
    meta = METADATA.of(pod)
    labels, owned = LABELS.of(meta), None
    if OWNER_REFERENCES.of(meta) and (owner := meta.controller()) is not None:
        owned = owner.api_version, owner.kind, owner.name, owner.uid
    return _intern_key(classes, (shape, frozenset(labels.items()) if labels else NOTHING, owned))


cdef object _intern_key(PodClasses classes, tuple key):
    """Return the number of the class of a key, adding the class if it is new."""
    cdef InternedClass interned
    cdef Shape shape
    pod_class = classes.class_ids.get(key)
    if pod_class is None:
        with classes.lock:
            if key not in classes.class_ids:
                interned = InternedClass.__new__(InternedClass)
                interned.owner, interned.pod_class = classes.number, len(classes.keys)
                shape = classes.shapes[key[0]]
                classes.priorities.reserve(interned.pod_class + 1)
                classes.priorities.int32()[interned.pod_class] = shape.priority
                classes.interned.append(interned)
                classes.keys.append(key)
                classes.class_ids[key] = interned.pod_class
            pod_class = classes.class_ids[key]
    return pod_class


cdef object _intern_shape(PodClasses classes, pod, tuple held):
    """Return the id of the shape of a pod, adding the shape if it is new."""
    cdef Shape shape
    # Compiling a spec costs tens of microseconds, so ids are memoised by the encoded spec.
    namespace = NAMESPACE.of(METADATA.of(pod))
    raw = spec_key(pod, held)
    if classes.ledger_of is not None:
        raw = raw, classes.ledger_of(pod)
    key = namespace, raw
    shape_id = classes.memo.get(key)
    if shape_id is not None:
        return shape_id
    with classes.lock:
        known = classes.anywhere.get(raw)
        shape = None if known is None else classes.shapes[<int32_t>known]
        around = _around_requests(pod, raw) if shape is None and type(raw) is bytes else None
        alike = classes.around.get(around)
        if alike is not None:
            shape = _with_requests(classes.shapes[<int32_t>alike], pod, classes)
        elif shape is None or any(shape.terms):
            shape = Shape(pod, classes)
        else:
            shape = _in_namespace(shape, namespace, classes)
        shape_id = classes.shape_ids.get(shape.key)
        if shape_id is None:
            shape_id = _add_shape(classes, shape)
        if len(classes.memo) >= MEMO_LIMIT:
            for memo in (classes.memo, classes.anywhere, classes.around):
                memo.clear()
        classes.memo[key] = classes.anywhere[raw] = shape_id
        if around is not None and alike is None and not any(shape.terms):
            classes.around[around] = shape_id
    return shape_id


cdef tuple _around_requests(pod, bytes raw):
    """What a `spec_key` has before and after the resources of the pod's only container.

    Equal for pods that differ in these alone. None where the resources stand at several places in the key, or
    are left out as they are empty.
    """
    containers = SPEC.of(pod).containers
    cdef bytes resources = encode(containers[0].resources) if len(containers) == 1 else b""
    cdef Py_ssize_t at = raw.find(resources)
    if len(resources) < 2 or at < 0 or raw.rfind(resources) != at:
        return None
    return raw[:at], raw[at + len(resources):]


cdef object _add_shape(PodClasses classes, Shape shape):
    """Add a new shape, and return its id."""
    shape.id = <int32_t>len(classes.shapes)
    carried, repeats = [], {}  # a term that a pod lists twice counts twice
    for term in [term for terms in shape.terms for term in terms]:
        repeats[term.key] = repeats.get(term.key, -1) + 1
        carried.append(classes._intern_term(term, repeats[term.key]))
    shape.carried = frozenset(carried)
    classes.shapes.append(shape)
    classes.shape_ids[shape.key] = shape.id
    classes.lowest_priority = min(classes.lowest_priority, shape.priority)
    return shape.id


cdef object _shape_without(PodClasses classes, Shape shape, frozenset names):
    """Return the id of a shape without its requests for some resources, adding the shape if it is new."""
    cdef tuple key = _key_without(shape, names)
    shape_id = classes.shape_ids.get(key)
    if shape_id is None:
        with classes.lock:
            shape_id = classes.shape_ids.get(key)
            if shape_id is None:
                shape_id = _add_shape(classes, _without(shape, names, key, classes))
    return shape_id

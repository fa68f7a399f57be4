# cython: auto_pickle=False
"""Terms: the spread constraints and pod affinity terms that apply to a pod class, with their counters.

Terms of other pods apply too: required anti-affinity, which filters, and preferred and required terms, which
score (kube-scheduler v1.36, podtopologyspread and interpodaffinity). `VolumeDemand` is what the volumes of a
class demand of a node.
"""

from functools import partial

import numpy as np

from moorage._core.state.pod_terms import TermKind
from moorage._core.base.selectors import LabelSelectorMatcher, with_labels

from libc.stdint cimport INT32_MAX, uint8_t
from libc.string cimport memcmp, memset

from moorage._core.base cimport allocate
from moorage._core.csrc cimport (
    MR_MAX_DRIVERS, mr_counter, mr_counter_add, mr_inter_pod_scores, mr_inter_pod_skips, mr_terms_prepare,
    mr_volumes_fit,
)
from moorage._core.state cimport Eligibility, PodClasses, TopologyKey

HOSTNAME = "kubernetes.io/hostname"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def _no_class(pod_class):
    """The predicate of `NO_PODS`."""
    return False


# A matcher of classes, for `Domains.matching`: its identity, a predicate of a class, and sets of attributes
# that narrow down the classes to test.
cdef tuple NO_PODS = (("none",), _no_class, ((),))


cdef class Terms:
    """The constraints and terms that apply to one class under one plan, compiled for the kernels.

    Parameters
    ----------
    state : ClusterState
        Has the counters.
    plan : Plan
        Has the arguments of PodTopologySpread and InterPodAffinity.
    pod_class : int
    pinned : int
        The symbol of the node that the pod is pinned to by matchFields; 0: none.

    Attributes
    ----------
    spread_error, spread_score_error : str
        The error of upstream's PreFilter and PreScore for malformed selectors of hard and soft constraints;
        "" if there is none.
    answers : dict
        The results of PreFilter and PreScore of in-tree plugins, which `framework.runtime` caches here.
    """

    def __cinit__(self, ClusterState state not None, Plan plan not None, int32_t pod_class, int32_t pinned):
        memset(&self.c, 0, sizeof(mr_terms))
        self.state = state
        self.shape = state.classes.shape(pod_class)
        self.labels = state.classes.labels(pod_class)
        self.pod_class, self.pinned = pod_class, pinned
        self.memory, self.held, self.of_hosts, self.of_hard, self.predicates = [], [], [], {}, []
        self.answers = {}
        self.versions = _read_versions(self)
        constraints = self.shape.spread
        selector = None
        defaulted = not constraints
        if defaulted and plan.default_constraints:
            owner = state.classes.keys[pod_class][2]
            selector = state.workloads.selector_of(self.shape.namespace, self.labels, owner)
            constraints = () if selector is None else plan.default_constraints
        self.c.soft_needs_all = not (defaulted and plan.system_defaulted)
        self.spread_error = _read_spread(self, constraints, selector, True)
        self.spread_score_error = _read_spread(self, constraints, selector, False)
        _read_terms(self, plan, pod_class)
        self.versions = _read_versions(self)

    cdef bint is_current(self) except -1:
        """Whether the inputs have not changed since the terms were read."""
        cdef Versions now = _read_versions(self)
        if now.terms != self.versions.terms:
            if len(self.state.classes.terms_that_may_match(self.pod_class)) == self.possible:
                self.versions.terms = now.terms
        return memcmp(&now, &self.versions, sizeof(Versions)) == 0

    cdef Py_ssize_t nbytes(self) except -1:
        """The bytes of the arrays."""
        cdef bytes array
        cdef Py_ssize_t out = 0
        for array in self.memory:
            out += len(array)
        return out

    def namespaces_of(self, term not None):
        """The namespaces of one of the pod's own terms, as they are selected now; None: all namespaces.

        Up to v1.36 (`PodGates.namespaces_by_value`) kube-scheduler adds the selected namespaces to the term's
        and keeps the selector, which is then matched against no labels (interpodaffinity/plugin.go,
        mergeAffinityTermNamespacesIfNotEmpty). So NotIn and DoesNotExist alone select every namespace, as an
        empty selector does.

        Parameters
        ----------
        term : PodTerm

        Returns
        -------
        frozenset of str or None
        """
        selector = term.namespace_selector
        if selector.is_empty or (self.state.classes.gates.namespaces_by_value and selector.matches({})):
            return None
        return term.namespaces | self.state.namespaces.selected(selector)

    # ---- reading -------------------------------------------------------------------------------------------

    cdef int fill(self) except -1:
        """Refresh cached pointers and the minima of the counters."""
        cdef Matched matched
        self.state.domains.point()
        for at, matched in self.of_hosts:
            self.c.soft[<Py_ssize_t>at].row_pods = matched.c.pods
        mr_terms_prepare(&self.c)

    def count_unlisted(self, pods, int32_t row, int32_t sign):
        """Count pods that only AddPod and RemovePod of PodTopologySpread count, for hard constraints.

        PreFilter counts no terminating pods, and up to v1.37 none at all for an empty selector. AddPod and
        RemovePod match pods of the namespace by their labels alone (kube-scheduler v1.36, podtopologyspread,
        filtering.go, updateWithPod).

        Parameters
        ----------
        pods : iterable of Pod
            The pods that a what-if query adds or removes.
        row : int
            The row of their node.
        sign : int
            1: the pods are added; -1: they are removed.

        Raises
        ------
        IndexError
            The row is not in the node table.
        """
        cdef Counter counter
        cdef int32_t unlisted
        self.state.table.check_row(row)
        if not self.of_hard:
            return
        here = [pod for pod in pods if pod.metadata.namespace == self.shape.namespace]
        for counter, matches_none in self.of_hard.items():
            unlisted = 0
            for pod in here:
                terminates = pod.metadata.deletion_timestamp is not None
                matches = terminates and counter.matched.matches(self.state.classes.intern(pod))
                unlisted += matches_none or matches
            mr_counter_add(&counter.c, row, sign * unlisted, 0)

    # ---- for explanations ----------------------------------------------------------------------------------

    def hard_counts(self):
        """What the filter of PodTopologySpread compares, for each hard constraint in the pod's order.

        Returns
        -------
        list of (DomainCounts, int, int, int)
            The pods of each domain; whether the pod itself matches (0 or 1); maxSkew; and minDomains.
        """
        self.state.domains.refresh()
        return [
            (_counts_at(self, self.c.hard[at].counter), self.c.hard[at].self, self.c.hard[at].max_skew,
             self.c.hard[at].min_domains)
            for at in range(self.c.n_hard)
        ]

    def term_counts(self):
        """What the filter of InterPodAffinity reads.

        Returns
        -------
        (list of DomainCounts, list of DomainCounts, list of DomainCounts)
            For each topology key of required affinity, the pods that match all terms; for each term of
            required anti-affinity, the pods that match it; for each anti-affinity term of other pods that
            matches the pod, the pods that have it.
        """
        self.state.domains.refresh()
        return (
            [_counts_at(self, self.c.affinity[at].counter) for at in range(self.c.n_affinity)],
            [_counts_at(self, self.c.anti[at].counter) for at in range(self.c.n_anti)],
            [_counts_at(self, self.c.existing[at].counter) for at in range(self.c.n_existing)],
        )

    cdef int32_t domains(self) noexcept:
        """An upper bound of the number of domains of each counter, at least 1."""
        cdef Counter counter
        cdef int32_t most = 1
        for counter in self.held:
            most = max(most, counter.c.domains)
        return most

    cdef bint is_empty(self) noexcept:
        """Whether no constraint and no term applies to the pod."""
        return not self.held

    @property
    def n_hard(self):
        """The number of hard spread constraints (DoNotSchedule)."""
        return self.c.n_hard

    @property
    def n_soft(self):
        """The number of soft spread constraints (ScheduleAnyway)."""
        return self.c.n_soft

    @property
    def affinity_filters(self):
        """Whether InterPodAffinity filters; if not, its PreFilter returns Skip."""
        return not mr_inter_pod_skips(&self.c)

    @property
    def affinity_scores(self):
        """Whether InterPodAffinity scores; if not, its PreScore returns Skip."""
        return bool(mr_inter_pod_scores(&self.c))


cdef class DomainCounts:
    """The pods that a constraint or a term counts, by domain: what a filter reads. For explanations.

    Valid until the cluster changes.

    Parameters
    ----------
    state : ClusterState
    counter : Counter
        Of that state.
    """

    cdef ClusterState state
    cdef Counter counter

    def __cinit__(self, ClusterState state not None, Counter counter not None):
        self.state, self.counter = state, counter

    @property
    def topology_key(self):
        """The label whose values are the domains."""
        return self.counter.topology.label

    def by_domain(self):
        """The domains that count, those with eligible nodes.

        Returns
        -------
        dict of str to (int, int)
            Value of the label to the number of pods and the number of eligible nodes.
        """
        cdef const int32_t* pods = self.counter.pods.int32()
        cdef const int32_t* nodes = self.counter.nodes.int32()
        most = min(self.counter.pods.capacity, self.counter.nodes.capacity)
        names = self.state.symbols.names
        return {
            names[value]: (pods[<int32_t>domain], nodes[<int32_t>domain])
            for value, domain in self.counter.topology.ids.items()
            if <int32_t>domain < most and nodes[<int32_t>domain]
        }

    def rows(self):
        """The rows whose nodes have counted pods, as (n,) int32 array."""
        cdef const int32_t* pods = self.counter.matched.pods.int32()
        cdef int32_t row
        used = min(self.state.table.used, self.counter.matched.pods.capacity)
        return np.array([row for row in range(used) if pods[row] and self.is_eligible(row)], dtype=np.int32)

    def is_eligible(self, int32_t row):
        """Whether pods of a row count.

        Parameters
        ----------
        row : int

        Returns
        -------
        bool

        Raises
        ------
        IndexError
            The row is not in the node table.
        """
        cdef const uint8_t* counts = self.counter.eligibility.counts.uint8()
        self.state.table.check_row(row)
        return row < self.counter.eligibility.counts.capacity and counts[row] != 0

    def matches(self, pod not None):
        """Whether a pod is one of those that are counted, if it is on a node and not terminating.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        bool
        """
        return bool(self.counter.matched.matches(self.state.classes.intern(pod)))


cdef tuple _namespaced(Terms terms, tuple own):
    """The namespaces and the selector of each of the pod's own terms."""
    return tuple([(terms.namespaces_of(term), term.selector) for term in own])


cdef object _selector(Terms terms, constraint, selector):
    """The selector of a constraint with its matchLabelKeys. Default constraints have the workload's."""
    if selector is not None:
        return selector
    own = LabelSelectorMatcher(constraint.label_selector)
    keys = {key: terms.labels[key] for key in constraint.match_label_keys if key in terms.labels}
    return with_labels(keys, own) if keys and own.identity is not None else own


cdef str _read_spread(Terms terms, constraints, selector, bint hard):
    """Compile the hard or the soft constraints. Returns the error of a malformed selector, or ""."""
    cdef mr_constraint* out
    cdef Py_ssize_t at
    action = HARD if hard else SOFT
    if not constraints:
        return ""
    wanted = [constraint for constraint in constraints if constraint.when_unsatisfiable == action]
    try:
        selectors = [_selector(terms, constraint, selector) for constraint in wanted]
    except ValueError as error:
        return str(error)
    out = <mr_constraint*>allocate(terms.memory, sizeof(mr_constraint), len(wanted))
    keys = {constraint.topology_key for constraint in wanted} if hard or terms.c.soft_needs_all else ()
    for at, constraint in enumerate(wanted):
        matched = _constrain(terms, &out[at], constraint, selectors[at], tuple(sorted(keys)))
        if hard:
            terms.predicates.append(_matched_by_selector(terms, selectors[at]))
        elif constraint.topology_key == HOSTNAME:
            terms.of_hosts.append((at, matched))
    if hard:
        terms.c.hard, terms.c.n_hard = out, <int32_t>len(wanted)
    else:
        terms.c.soft, terms.c.n_soft = out, <int32_t>len(wanted)
    return ""


cdef int _read_terms(Terms terms, Plan plan, int32_t pod_class) except -1:
    """Compile the pod's own affinity terms, and those of other classes that match the pod."""
    cdef list affinity = [], anti = [], existing = [], preferred = []
    required, required_anti, own, own_anti = terms.shape.terms
    possible = terms.state.classes.terms_that_may_match(pod_class)
    terms.possible = len(possible)
    if not (required or required_anti or own or own_anti or possible):
        terms.predicates.append(NO_PODS)
        return 0
    matcher = _matched_by_terms(terms, required) if required else NO_PODS
    terms.predicates.append(matcher)
    if required:  # a key of many terms takes long to look up
        matched = terms.state.domains.matching(matcher, True)
        for label in dict.fromkeys([term.topology_key for term in required]):
            affinity.append((_in_domains(terms, matched, label), 0))
    for term in required_anti:
        matcher = _matched_by_terms(terms, (term,))
        terms.predicates.append(matcher)
        anti.append((_of_pods(terms, matcher, term.topology_key), 0))
    requirements = _namespaced(terms, required)
    terms.c.self_affine = bool(requirements) and _matches_all(terms.state.classes, requirements, pod_class)
    ignore = plan.ignore_preferred and not own and not own_anti
    for term in () if ignore else own + own_anti:
        sign = 1 if term.kind == TermKind.PREFERRED_AFFINITY else -1
        counter = _of_pods(terms, _matched_by_terms(terms, (term,)), term.topology_key)
        preferred.append((counter, sign * term.weight))
    namespace_labels = terms.state.namespaces.labels_of(terms.shape.namespace)
    for number in possible:
        term = terms.state.classes.terms[number]
        weight = _weight(term, plan.hard_pod_affinity_weight)
        applies = term.kind == TermKind.ANTI_AFFINITY or (weight and not ignore)
        if applies and term.matches(terms.shape.namespace, namespace_labels, terms.labels):
            is_anti = term.kind == TermKind.ANTI_AFFINITY
            counter = _of_pods(terms, _having_term(terms, number), term.topology_key)
            (existing if is_anti else preferred).append((counter, weight))
            if is_anti:
                terms.predicates.append(_having_term(terms, number))
    terms.c.affinity, terms.c.n_affinity = _pod_terms(terms, affinity), <int32_t>len(affinity)
    terms.c.anti, terms.c.n_anti = _pod_terms(terms, anti), <int32_t>len(anti)
    terms.c.existing, terms.c.n_existing = _pod_terms(terms, existing), <int32_t>len(existing)
    terms.c.preferred, terms.c.n_preferred = _pod_terms(terms, preferred), <int32_t>len(preferred)


cdef DomainCounts _counts_at(Terms terms, const mr_counter* counter):
    """The counts that a kernel reads through a pointer."""
    cdef Counter each
    for each in terms.held:
        if &each.c == counter:
            return DomainCounts(terms.state, each)
    raise AssertionError("terms hold their counters")


cdef Versions _read_versions(Terms terms) noexcept:
    """The present versions of the inputs."""
    cdef Versions out
    out.namespaces, out.workloads = terms.state.namespaces.version, terms.state.workloads.version
    out.terms, out.domains = len(terms.state.classes.terms), terms.state.domains.epoch
    return out


# ---- topology spread


cdef Matched _constrain(Terms terms, mr_constraint* out, constraint, selector, tuple labels):
    """Compile a constraint. A node counts only if it has all of `labels`. Returns the matching pods."""
    cdef Domains domains = terms.state.domains
    # Non-terminating pods of the namespace that the selector matches. Up to v1.37 an empty one matches none.
    cdef bint matches_none = selector.is_empty and not terms.state.classes.gates.empty_selectors_spread
    cdef Matched matched = domains.matching(
        NO_PODS if matches_none else _matched_by_selector(terms, selector), False
    )
    cdef TopologyKey topology = domains.topology(constraint.topology_key)
    follows_affinity = constraint.node_affinity_policy in (None, "Honor")
    has_affinity = terms.shape.node_affinity != ((), (), False)
    tolerations = terms.shape.tolerations if constraint.node_taints_policy == "Honor" else None
    cdef Eligibility eligibility = domains.eligibility(
        labels, terms.shape if follows_affinity and has_affinity else None,
        terms.pinned if follows_affinity else 0, tolerations,
    )
    cdef Counter counter = domains.counter(matched, topology, eligibility, not labels)
    terms.held.append(counter)
    out.counter = &counter.c
    out.max_skew = constraint.max_skew
    out.min_domains = 1 if constraint.min_domains is None else constraint.min_domains
    out.self = selector.matches(terms.labels)
    if constraint.when_unsatisfiable == HARD:
        terms.of_hard[counter] = matches_none
    return matched


cdef mr_pod_term* _pod_terms(Terms terms, list counters) except? NULL:
    """Compile terms, which are tuples (counter, weight)."""
    cdef mr_pod_term* out = <mr_pod_term*>allocate(terms.memory, sizeof(mr_pod_term), len(counters))
    cdef Counter counter
    cdef Py_ssize_t at
    for at, (counter, weight) in enumerate(counters):
        terms.held.append(counter)
        out[at].counter = &counter.c
        out[at].weight = weight
    return out


# ---- inter-pod affinity


cdef Counter _of_pods(Terms terms, tuple matcher, str label):
    """The counter of the pods of a matcher, over the domains of a label."""
    return _in_domains(terms, terms.state.domains.matching(matcher, True), label)


cdef Counter _in_domains(Terms terms, Matched matched, str label):
    """The counter of matching pods over the domains of a label."""
    cdef Domains domains = terms.state.domains
    everywhere = domains.eligibility((), None, 0, None)
    return domains.counter(matched, domains.topology(label), everywhere, False)


cdef tuple _matched_by_selector(Terms terms, selector):
    """The matcher of classes of the pod's namespace that a selector matches."""
    return _matcher(terms, "spread", (((terms.shape.namespace,), selector),))


cdef tuple _matcher(Terms terms, str kind, tuple requirements):
    """The matcher of classes that match all of some tuples (namespaces, selector)."""
    key = kind, *[(namespaces, selector.identity) for namespaces, selector in requirements]
    return key, partial(_matches_all, terms.state.classes, requirements), _attributes_of(*requirements[0])


cdef tuple _matched_by_terms(Terms terms, tuple all_of):
    """The matcher of classes that match all of some of the pod's own terms."""
    return _matcher(terms, "terms", _namespaced(terms, all_of))


cdef tuple _having_term(Terms terms, int32_t number):
    """The matcher of classes that have a term themselves."""
    return ("carries", number), partial(_has_term, terms.state.classes, number), (((number,),),)


def _weight(term, hard_pod_affinity_weight):
    """The score that a pod with a term adds to the nodes of its domain, for a pod that the term matches."""
    if term.kind == TermKind.AFFINITY:
        return hard_pod_affinity_weight
    return term.weight if term.kind == TermKind.PREFERRED_AFFINITY else -term.weight


def _attributes_of(namespaces, selector):
    """Sets of attributes (`Domains.attributes`): a class that the selector matches has one of each set."""
    if namespaces is None:
        return (((),),)
    values = [[(key, value) for value in values] for key, values in selector.asked_values()]
    return (
        tuple([(namespace,) for namespace in namespaces]),
        *[tuple([(namespace, *pair) for namespace in namespaces for pair in pairs]) for pairs in values],
    )


def _matches_all(PodClasses classes not None, tuple requirements, int32_t pod_class):
    """Whether a class matches all of some tuples (namespaces, selector)."""
    classes.check(pod_class)
    namespace, labels = classes.shape(pod_class).namespace, classes.labels(pod_class)
    for namespaces, selector in requirements:
        if (namespaces is not None and namespace not in namespaces) or not selector.matches(labels):
            return False
    return True


def _has_term(PodClasses classes not None, number, int32_t pod_class):
    """Whether pods of a class have a term themselves."""
    classes.check(pod_class)
    return number in classes.shape(pod_class).carried


# ---- volumes

MAX_DRIVERS = MR_MAX_DRIVERS


cdef class NodeDevices:
    """Which nodes have the devices that the claims of a pod class ask for; a base class."""

    cdef int refresh(self) except -1:
        """Bring `fits` up to date; rows that change are named in the change log."""
        return 0

    cdef int take(self, int32_t pod, int32_t row) except -1:
        """Take the devices of a row for a pod of a batch."""
        return 0

    cdef bint decides(self, int32_t pod) except -1:
        """Whether `fits` decides about a pod of a batch."""
        return self.is_decisive


cdef class VolumeDemand:
    """What the bound volumes and the claims of a pod class demand of a node, for the kernels.

    Parameters
    ----------
    reachable : (rows,) bool array or None
        Whether the volumes are accessible from the node of each row; None: from all nodes.
    attachments : sequence of ((rows,) int32 array, int)
        For each driver with attach limits the number of further volumes that each row has room for, which
        placements count down, and the number of the pod's volumes.
    devices : NodeDevices, optional
        By default the pods need no devices.

    Attributes
    ----------
    rows : int
        The number of rows that all arrays have.

    Raises
    ------
    ValueError
        There are more than MAX_DRIVERS drivers.
    """

    def __cinit__(self, reachable, attachments, NodeDevices devices=None):
        cdef const uint8_t[::1] mask
        cdef int32_t[::1] room
        cdef Py_ssize_t at
        if len(attachments) > MR_MAX_DRIVERS:
            raise ValueError(f"{len(attachments)} drivers, of at most {MR_MAX_DRIVERS}")
        memset(&self.c, 0, sizeof(mr_volume_demand))
        self.held, self.rows = (reachable, attachments), INT32_MAX
        if reachable is not None:
            mask = reachable.view("uint8")
            self.rows = <int32_t>mask.shape[0]
            self.c.reachable = &mask[0] if mask.shape[0] else NULL
        self.devices = devices
        if devices is not None:
            self.rows = min(self.rows, devices.rows)
            self.c.devices = devices.fits
        for at, (array, volumes) in enumerate(attachments):
            room = array
            self.rows = min(self.rows, <int32_t>room.shape[0])
            self.c.attachments[at].room = &room[0] if room.shape[0] else NULL
            self.c.attachments[at].volumes = volumes
        self.c.n = <int32_t>len(attachments)

    def is_met_by(self, const int32_t[::1] rows not None):
        """Whether all nodes of some rows meet the demand.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        bool

        Raises
        ------
        IndexError
            A row is beyond `rows`.
        """
        cdef Py_ssize_t at
        for at in range(rows.shape[0]):
            if not 0 <= rows[at] < self.rows:
                raise IndexError(f"there is no row {rows[at]} among {self.rows}")
            if not mr_volumes_fit(&self.c, rows[at]):
                return False
        return True

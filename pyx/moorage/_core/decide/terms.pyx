"""What counters a pod class is judged by: its spread constraints and affinity terms, and others' terms."""

from functools import partial

from moorage._core.state.pod_terms import TermKind
from moorage._core.base.selectors import LabelSelectorMatcher, with_labels

from libc.string cimport memcmp, memset

from moorage._core.base cimport allocate
from moorage._core.csrc cimport mr_counter_add, mr_inter_pod_scores, mr_inter_pod_skips, mr_terms_prepare
from moorage._core.state cimport Eligibility, PodClasses, TopologyKey

HOSTNAME = "kubernetes.io/hostname"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def _no_class(pod_class):
    return False


# Whom a matcher counts: what tells it apart, the answer for a class, and where such classes are found
# (`Domains.matching`).
cdef tuple NOBODY = (("none",), _no_class, ((),))


cdef class Terms:
    """The constraints and terms of one class under one plan, as the kernels take them.

    Parameters
    ----------
    pinned : int
        Symbol of the node that matchFields pins the pod to, or 0.

    Attributes
    ----------
    spread_error, spread_score_error : str
        Why upstream cannot read the hard or the soft constraints; "" where it can.
    answers : dict
        What native plugins answer in PreFilter and PreScore; kept and read by `framework.runtime`.
    """

    def __cinit__(self, ClusterState state not None, Plan plan not None, int32_t pod_class, int32_t pinned):
        memset(&self.c, 0, sizeof(mr_terms))
        self.state = state
        self.shape = state.classes.shape(pod_class)
        self.labels = state.classes.labels(pod_class)
        self.pinned = pinned
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
        self.spread_error = self._read_spread(constraints, selector, True)
        self.spread_score_error = self._read_spread(constraints, selector, False)
        self._read_terms(plan, pod_class)
        self.versions = _read_versions(self)

    cdef bint is_current(self) noexcept:
        """Whether nothing has changed that this was read from."""
        cdef Versions now = _read_versions(self)
        return memcmp(&now, &self.versions, sizeof(Versions)) == 0

    # ---- topology spread -----------------------------------------------------------------------------------

    def _read_spread(self, constraints, selector, bint hard):
        """The hard constraints or the soft ones; why upstream cannot read them, or ""."""
        cdef mr_constraint* out
        cdef Py_ssize_t at
        wanted = [constraint for constraint in constraints if constraint.when_unsatisfiable == (HARD if hard else SOFT)]
        try:
            selectors = [self._selector(constraint, selector) for constraint in wanted]
        except ValueError as error:
            return str(error)
        out = <mr_constraint*>allocate(self.memory, sizeof(mr_constraint), len(wanted))
        keys = {constraint.topology_key for constraint in wanted} if hard or self.c.soft_needs_all else ()
        for at, constraint in enumerate(wanted):
            matched = _constrain(self, &out[at], constraint, selectors[at], tuple(sorted(keys)))
            if hard:
                self.predicates.append(_selecting(self, selectors[at]))
            elif constraint.topology_key == HOSTNAME:
                self.of_hosts.append((at, matched))
        if hard:
            self.c.hard, self.c.n_hard = out, <int32_t>len(wanted)
        else:
            self.c.soft, self.c.n_soft = out, <int32_t>len(wanted)
        return ""

    def _selector(self, constraint, selector):
        """What a constraint counts: its selector and matchLabelKeys; the workload's for default ones."""
        if selector is not None:
            return selector
        own = LabelSelectorMatcher(constraint.label_selector)
        keys = {key: self.labels[key] for key in constraint.match_label_keys if key in self.labels}
        return with_labels(keys, own) if keys and own.identity is not None else own

    # ---- inter-pod affinity --------------------------------------------------------------------------------

    def _read_terms(self, Plan plan, int32_t pod_class):
        cdef list affinity = [], anti = [], existing = [], preferred = []
        required, required_anti, own, own_anti = self.shape.terms
        for label in dict.fromkeys([term.topology_key for term in required]):
            affinity.append((_of_terms(self, required, label), 0))
        self.predicates.append(_meant_by(self, required) if required else NOBODY)
        for term in required_anti:
            self.predicates.append(_meant_by(self, (term,)))
            anti.append((_of_terms(self, (term,), term.topology_key), 0))
        asked = self._asked(required)
        self.c.self_affine = bool(asked) and _are_meant(self.state.classes, asked, pod_class)
        ignore = plan.ignore_preferred and not own and not own_anti
        for term in () if ignore else own + own_anti:
            sign = 1 if term.kind == TermKind.PREFERRED_AFFINITY else -1
            preferred.append((_of_terms(self, (term,), term.topology_key), sign * term.weight))
        namespace_labels = self.state.namespaces.labels_of(self.shape.namespace)
        for number, term in enumerate(self.state.classes.terms):
            weight = _weight(term, plan.hard_pod_affinity_weight)
            concerns = term.kind == TermKind.ANTI_AFFINITY or (weight and not ignore)
            if concerns and term.matches(self.shape.namespace, namespace_labels, self.labels):
                is_anti = term.kind == TermKind.ANTI_AFFINITY
                everywhere = bool(own or own_anti) and not is_anti  # then upstream looks at all nodes
                (existing if is_anti else preferred).append((_of_carriers(self, number, everywhere), weight))
                if is_anti:
                    self.predicates.append(_carrying(self, number))
        self.c.affinity, self.c.n_affinity = _pod_terms(self, affinity), <int32_t>len(affinity)
        self.c.anti, self.c.n_anti = _pod_terms(self, anti), <int32_t>len(anti)
        self.c.existing, self.c.n_existing = _pod_terms(self, existing), <int32_t>len(existing)
        self.c.preferred, self.c.n_preferred = _pod_terms(self, preferred), <int32_t>len(preferred)

    def _resolved(self, term):
        """Namespaces of a term of the pod at hand: None for all, else those listed and those selected now."""
        if term.namespace_selector.is_empty:
            return None
        return term.namespaces | self.state.namespaces.selected(term.namespace_selector)

    def _asked(self, tuple terms):
        return tuple([(self._resolved(term), term.selector) for term in terms])

    # ---- reading -------------------------------------------------------------------------------------------

    cdef int fill(self) except -1:
        """Have the addresses right and the minima as the counters are now."""
        cdef Matched matched
        self.state.domains.point()
        for at, matched in self.of_hosts:
            self.c.soft[<Py_ssize_t>at].row_pods = matched.c.pods
        mr_terms_prepare(&self.c)

    def count_unlisted(self, pods, int32_t row, int32_t sign):
        """Pods come to a row in thought, or leave it: hard spread constraints go by the labels of those of
        this namespace, though they count no terminating pods otherwise, and with an empty selector none at
        all (upstream's AddPod and RemovePod)."""
        cdef Counter counter
        cdef int32_t unlisted
        self.state.table.check_row(row)
        if not self.of_hard:
            return
        here = [pod for pod in pods if pod.metadata.namespace == self.shape.namespace]
        for counter, is_empty in self.of_hard.items():
            unlisted = 0
            for pod in here:
                terminates = pod.metadata.deletion_timestamp is not None
                matches = terminates and counter.matched.matches(self.state.classes.intern(pod))
                unlisted += is_empty or matches
            mr_counter_add(&counter.c, row, sign * unlisted, 0)

    cdef int32_t domains(self) noexcept:
        """More than the number of domains of any counter."""
        cdef Counter counter
        cdef int32_t most = 1
        for counter in self.held:
            most = max(most, counter.c.domains)
        return most

    @property
    def is_empty(self):
        """True where no counter concerns the pod."""
        return not self.held

    @property
    def n_hard(self):
        """Hard spread constraints."""
        return self.c.n_hard

    @property
    def n_soft(self):
        """Soft spread constraints."""
        return self.c.n_soft

    @property
    def affinity_filters(self):
        """False where InterPodAffinity's PreFilter skips."""
        return not mr_inter_pod_skips(&self.c)

    @property
    def affinity_scores(self):
        """False where InterPodAffinity's PreScore skips."""
        return bool(mr_inter_pod_scores(&self.c))


cdef Versions _read_versions(Terms terms) noexcept:
    cdef Versions out
    out.namespaces, out.workloads = terms.state.namespaces.version, terms.state.workloads.version
    out.terms, out.domains = len(terms.state.classes.terms), terms.state.domains.epoch
    return out


# ---- topology spread


cdef Matched _constrain(Terms terms, mr_constraint* out, constraint, selector, tuple labels):
    cdef Domains domains = terms.state.domains
    # Pods of this namespace that the selector matches and that do not terminate; an empty one has none.
    cdef Matched matched = domains.matching(
        NOBODY if selector.is_empty else _selecting(terms, selector), False
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
        terms.of_hard[counter] = selector.is_empty
    return matched


cdef mr_pod_term* _pod_terms(Terms terms, list counters) except? NULL:
    cdef mr_pod_term* out = <mr_pod_term*>allocate(terms.memory, sizeof(mr_pod_term), len(counters))
    cdef Counter counter
    cdef Py_ssize_t at
    for at, (counter, weight) in enumerate(counters):
        terms.held.append(counter)
        out[at].counter = &counter.c
        out[at].weight = weight
    return out


# ---- inter-pod affinity


cdef Counter _of_terms(Terms terms, tuple all_of, str label):
    """Pods that match all of some terms, over the domains of a label."""
    cdef Domains domains = terms.state.domains
    matched = domains.matching(_meant_by(terms, all_of), True)
    everywhere = domains.eligibility((), None, 0, None)
    return domains.counter(matched, domains.topology(label), everywhere, False)


cdef Counter _of_carriers(Terms terms, int32_t number, bint everywhere):
    """Pods that have a term themselves, over the domains of its label; in a pod group cycle, unless they
    count `everywhere`, on listed nodes."""
    cdef Domains domains = terms.state.domains
    term = terms.state.classes.terms[number]
    if everywhere or domains.listed_any is None:
        matched = domains.matching(_carrying(terms, number), True)
    else:
        matched = domains.carrying(_carrying(terms, number), term.kind == TermKind.ANTI_AFFINITY)
    topology = domains.topology(term.topology_key)
    return domains.counter(matched, topology, domains.eligibility((), None, 0, None), False)


cdef tuple _selecting(Terms terms, selector):
    return _matcher(terms, "spread", (((terms.shape.namespace,), selector),))


cdef tuple _matcher(Terms terms, str kind, tuple asked):
    """A matcher (`Domains.matching`) of the classes that all of some (namespaces, selector) mean."""
    key = kind, *[(namespaces, selector.identity) for namespaces, selector in asked]
    return key, partial(_are_meant, terms.state.classes, asked), _found_by(*asked[0])


cdef tuple _meant_by(Terms terms, tuple all_of):
    return _matcher(terms, "terms", terms._asked(all_of))


cdef tuple _carrying(Terms terms, int32_t number):
    return ("carries", number), partial(_carries, terms.state.classes, number), (((number,),),)


def _weight(term, hard_pod_affinity_weight):
    """What a pod that has the term adds to the score of the nodes of its domain, for a pod that it means."""
    if term.kind == TermKind.AFFINITY:
        return hard_pod_affinity_weight
    return term.weight if term.kind == TermKind.PREFERRED_AFFINITY else -term.weight


def _found_by(namespaces, selector):
    """Sets of attributes (`Domains.attributes`): a class that a selector means in some namespaces has one of
    each."""
    if namespaces is None:
        return (((),),)
    values = [[(key, value) for value in values] for key, values in selector.asked_values()]
    return (
        tuple([(namespace,) for namespace in namespaces]),
        *[tuple([(namespace, *pair) for namespace in namespaces for pair in pairs]) for pairs in values],
    )


def _are_meant(PodClasses classes, tuple asked, int32_t pod_class):
    namespace, labels = classes.shape(pod_class).namespace, classes.labels(pod_class)
    for namespaces, selector in asked:
        if (namespaces is not None and namespace not in namespaces) or not selector.matches(labels):
            return False
    return True


def _carries(PodClasses classes, number, int32_t pod_class):
    return number in classes.shape(pod_class).carried

# cython: auto_pickle=False, nonecheck=True
# So None, and a copy without its fields, are exceptions: Python hands objects to nearly each call.
"""Pods counted by domain, and where that lets the next pod go: Karpenter's topologies.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topologygroup.go and topology.go
(AddRequirements, Record). tests/autoscaling/test_domain_counts.py has the twin in Python.
"""

from cpython cimport array
from libc.stdint cimport uint64_t

from moorage._core.provision.label_requirements cimport Key, LabelRequirement, RequirementSet, bits

from moorage._core.provision.label_requirements import HOSTNAME

cdef enum:
    MANY = 0x7FFFFFFF
    IS_SPREAD = 0, IS_AFFINITY, IS_ANTI_AFFINITY
    LEAST_SHOWN_APART = 25

SPREAD, AFFINITY, ANTI_AFFINITY = "topology spread", "pod affinity", "pod anti-affinity"
NO_LIMIT = MANY


cdef object ONE = 1  # `1 << place` would be a shift of C
cdef array.array NO_COUNTS = array.array("i")


cdef class Ties:
    """Which domain is taken of those that nothing else orders: the first by name, or by lot with a seed.

    The lot of a domain follows from the seed, the attempt (each try to place a pod), its key and its name:
    FNV-1a, then the finalizer of splitmix64.

    Attributes
    ----------
    turn : int
        Unless it is 0, which of the ways to choose a domain for each topology of a pod is taken: turns from 1
        to `ways` take all of them.
    ways : int
        The most that a pod has had since it was set.
    """

    def __cinit__(self, seed):
        self.seed = seed
        self.turn, self.ways = 0, 1

    cdef first(self, mask, Key key, str topology_key):
        """The one of several domains that is taken, as a bit."""
        if not mask & (mask - 1):
            return mask
        ranked = []
        for place in bits(mask):
            domain = key.values[place]
            is_drawn = self.seed and not self.turn
            rank = lot(f"{self.seed}/{self.attempt}/{topology_key}/{domain}") if is_drawn else domain
            ranked.append((rank, place))
        self.left, at = divmod(self.left, len(ranked))
        self.choices *= len(ranked)
        self.ways = max(self.ways, self.choices)
        return ONE << sorted(ranked)[at][1]


cdef lot(str text):
    cdef uint64_t lot = 14695981039346656037ULL
    cdef unsigned char byte
    for byte in text.encode():
        lot = (lot ^ byte) * 1099511628211ULL
    lot = (lot ^ lot >> 30) * 0xBF58476D1CE4E5B9ULL
    lot = (lot ^ lot >> 27) * 0x94D049BB133111EBULL
    return lot ^ lot >> 31


cdef class Host:
    """A node or claim as topologies see it.

    Attributes
    ----------
    requirements : RequirementSet
        Without the name of the host.
    host : RequirementSet
        The name of the host alone.
    undefined : bool
        Whether well known labels can still become anything.
    place : int
        Of the name among the names of hosts.
    """

    def __cinit__(self, str name not None, tuple taints not None, RequirementSet requirements not None,
                  RequirementSet host not None, bint undefined):
        self.name, self.taints, self.requirements, self.host = name, taints, requirements, host
        self.undefined = undefined
        self.place = host.get(HOSTNAME).mask.bit_length() - 1

    cpdef Host having(self, RequirementSet requirements):
        """Return the host with other requirements."""
        if requirements is self.requirements:
            return self
        return Host(self.name, self.taints, requirements, self.host, self.undefined)

    @property
    def whole(self):
        """All its requirements."""
        return self.requirements.meet(self.host)

    cpdef str refusal(self, RequirementSet other):
        """Return why the host cannot meet requirements, which may name it; "" if it can."""
        ours = self.whole if HOSTNAME in other.by_key else self.requirements
        return (<RequirementSet?>ours).refusal(other, self.undefined)


cdef class TopologyCounts:
    """The pods that a group counts, by domain.

    Parameters
    ----------
    group : TopologyGroup
    hosts : list of int
        Hosts of a pass, as bits, in the order in which they are placed on; those that come are known.

    Attributes
    ----------
    known : int
        The domains, as bits.
    """

    def __cinit__(self, group not None, known, list hosts not None):
        self.group, self.key, self.topology_key = group, group.key, group.topology_key
        self.on_hosts = self.topology_key == HOSTNAME
        self.kind = (SPREAD, AFFINITY, ANTI_AFFINITY).index(group.kind)
        self.max_skew = group.max_skew
        self.min_domains = -1 if group.min_domains is None else group.min_domains
        nodes = group.node_filter
        self.node_filter = None if nodes is None or nodes.is_open else nodes
        self.known, self.occupied, self.counts = known, 0, array.copy(NO_COUNTS)
        self.hosts, self.since = hosts, len(hosts)

    def begun(self, group, known, gone, list hosts not None):
        """Return the counts of a group like this one for a pass.

        Parameters
        ----------
        gone : iterable of tuple of int
            Of pods that do not count any more, the domains that they counted in, by their places.
        """
        cdef TopologyCounts begun = TopologyCounts(group, known, hosts)
        cdef Py_ssize_t place
        begun.counts, begun.occupied, begun.pods = array.copy(self.counts), self.occupied, self.pods
        for places in gone:
            for place in places:
                if not 0 <= place < len(begun.counts):
                    raise IndexError(f"no pod was counted in domain {place}")
                begun.counts.data.as_ints[place] -= 1
                begun.pods -= 1
                if not begun.counts.data.as_ints[place]:
                    begun.occupied &= ~(ONE << place)
        begun.known |= begun.occupied
        return begun

    # ---- counting ------------------------------------------------------------------------------------------

    cpdef int record(self, mask) except -1:
        """Count a pod in each of the domains."""
        for place in bits(mask):
            self.record_at(place)
        return 0

    cdef int record_at(self, Py_ssize_t place) except -1:
        cdef Py_ssize_t size = len(self.counts)
        if place < 0:
            raise IndexError("a host without a name counts no pods")
        if place >= size:
            array.resize_smart(self.counts, place + 1)
            while size <= place:
                self.counts.data.as_ints[size] = 0
                size += 1
        self.counts.data.as_ints[place] += 1
        self.pods += 1
        bit = ONE << place
        self.known |= bit
        self.occupied |= bit
        return 0

    cdef Py_ssize_t count(self, Py_ssize_t place) noexcept:
        """The pods in one domain."""
        return self.counts.data.as_ints[place] if 0 <= place < len(self.counts) else 0

    # ---- where a pod may go --------------------------------------------------------------------------------

    cdef bint takes(self, Py_ssize_t place, bint selects) noexcept:
        """Whether one host may take a pod of a group on hosts, which may be on any."""
        return self.least(selects) <= self.count(place) <= self.most(selects)

    cdef Py_ssize_t least(self, bint selects) noexcept:
        """The pods that a host must have to take one more; the first pod may go anywhere if it counts
        itself."""
        return self.kind == IS_AFFINITY and (not selects or self.pods > 0)

    cdef Py_ssize_t most(self, bint selects) noexcept:
        """The pods that a host may have to take one more."""
        if self.kind == IS_AFFINITY:
            return MANY
        return self.max_skew - selects if self.kind == IS_SPREAD else 0

    cdef bint takes_host(self, Host host, LabelRequirement pods, bint selects) except -1:
        """The same for a pod that may name its host."""
        if self.kind != IS_AFFINITY:
            return self.takes(host.place, selects)
        if not pods.select(ONE << host.place):
            return False
        return self.count(host.place) > 0 or (selects and not pods.select(self.occupied))

    cdef open_domains(self, LabelRequirement pods, bint selects):
        """The domains of which a node must allow one to take a pod; -1 if any node does."""
        cdef Py_ssize_t most, place
        if self.kind == IS_ANTI_AFFINITY:
            return pods.select(self.known & ~self.occupied)
        if self.kind == IS_AFFINITY:
            there = pods.select(self.occupied)
            return -1 if not there and selects and pods.select(self.known) else there
        most, mask = self.minimum(pods) + self.max_skew - selects, 0
        for place in bits(self.known):
            if self.count(place) <= most:
                mask |= ONE << place
        return mask

    cdef domains(self, LabelRequirement pods, LabelRequirement nodes, bint selects, Ties ties):
        """The domains in which a pod may be, of those that the pod and a node allow."""
        cdef Py_ssize_t least = MANY, place
        mask = self.open_domains(pods, selects)
        if mask < 0:
            both = ties.first(pods.meet(nodes).select(self.known), self.key, self.topology_key)
            return both | ties.first(pods.select(self.known), self.key, self.topology_key)
        mask = nodes.select(mask)
        if self.kind != IS_SPREAD or not mask & (mask - 1):
            return mask
        lowest = 0
        for place in bits(mask):
            if self.count(place) < least:
                least, lowest = self.count(place), 0
            if self.count(place) == least:
                lowest |= ONE << place
        return ties.first(lowest, self.key, self.topology_key)

    cdef Py_ssize_t minimum(self, LabelRequirement pods) except -1:
        """The fewest pods of a domain; a host without any can always be made."""
        cdef Py_ssize_t least = MANY, place
        if self.on_hosts:
            return 0
        allowed = bits(pods.select(self.known))
        if len(allowed) < self.min_domains:
            return 0
        for place in allowed:
            least = min(least, self.count(place))
        return least

    cdef LabelRequirement of_nodes(self, RequirementSet requirements):
        """What requirements say of the label; Exists if they say nothing."""
        requirement = requirements.by_key.get(self.topology_key)
        return self.key.open() if requirement is None else requirement

    def __str__(self):
        """Counts as Karpenter's messages show them."""
        known = self.known
        if self.on_hosts:
            for mask in self.hosts[self.since:]:
                known |= mask
        places = {self.key.values[place]: self.count(place) for place in bits(known)}
        shown = ", ".join([f"{name}: {places[name]}" for name in sorted(places)[:LEAST_SHOWN_APART]])
        left = len(places) - LEAST_SHOWN_APART
        return f"{shown} and {left} other(s)" if left > 0 else shown


cdef class TopologyError:
    """A topology that leaves a pod no domain; its counts are told as they are when the text is asked for."""

    cdef TopologyCounts counts
    cdef LabelRequirement pods, nodes

    def __cinit__(self, TopologyCounts counts not None, LabelRequirement pods not None,
                  LabelRequirement nodes not None):
        self.counts, self.pods, self.nodes = counts, pods, nodes

    def __str__(self):
        return (
            f"unsatisfiable topology constraint for {self.counts.group.kind}, "
            f"key={self.counts.topology_key} "
            f"(counts = {self.counts}, podDomains = {self.pods}, nodeDomains = {self.nodes}"
        )


cdef class ConstraintGroups:
    """The groups of a pass that matter to pods of one constraints.

    Parameters
    ----------
    topology : Topology
    own : list of TopologyCounts
        Of their constraints and terms.
    away : list of TopologyCounts
        Of their required anti-affinity, as others see it.
    """

    def __cinit__(self, topology not None, constraints not None, list own=None, list away=None):
        self.topology, self.constraints, self.own, self.away = topology, constraints, own or [], away or []
        self.strict, self.requirements = constraints.strict_requirements, constraints.requirements
        self.owned, self.inverse = topology.own, topology.inverse
        self.owned_before = self.inverse_before = -1

    cdef int look(self) except -1:
        """Ask the groups that have come since."""
        if len(self.owned) == self.owned_before and len(self.inverse) == self.inverse_before:
            return 0
        self.owned_before, self.inverse_before = len(self.owned), len(self.inverse)
        pods = self.constraints.labelled
        self.counting = self.topology.selecting(pods, False)
        self.groups = [*self.own, *self.topology.selecting(pods, True)]
        self.selecting = [counts.group.selects(pods) for counts in self.groups]
        return 0

    def ways(self, Host host not None, alternatives not None, Ties ties not None):
        """Return what a host would have to have with a pod, for each way to have its volumes; or why that way
        fails.

        Parameters
        ----------
        alternatives : sequence of RequirementSet
            The ways to have its volumes; empty without such volumes.
        """
        cdef RequirementSet base = host.requirements.meet(self.requirements).without(HOSTNAME)
        cdef RequirementSet alternative
        if not alternatives:
            return [self.narrow(host, base, ties)]
        ways = []
        for alternative in alternatives:
            if refusal := host.having(base).refusal(alternative):
                ways.append(f"incompatible volume requirements, {refusal}")
            else:
                ways.append(self.narrow(host, base.meet(alternative).without(HOSTNAME), ties))
        return ways

    cdef narrow(self, Host host, RequirementSet before, Ties ties):
        """What all topologies of a pod leave of the requirements that a host has with it, without its name;
        or why nothing."""
        cdef TopologyCounts counts
        cdef RequirementSet requirements = before
        cdef LabelRequirement strict, nodes
        cdef bint worst_is_own = False, is_own
        cdef Py_ssize_t at
        worst = None
        self.look()
        ties.left, ties.choices = ties.turn, 1
        for at in range(len(self.groups)):
            counts = self.groups[at]
            strict = counts.of_nodes(self.strict)
            if counts.on_hosts:
                if counts.takes_host(host, strict, self.selecting[at]):
                    continue
                nodes = host.host.get(HOSTNAME)
            else:
                nodes = counts.of_nodes(before)
                mask = counts.domains(strict, nodes, self.selecting[at], ties)
                if mask:
                    domains = counts.key.requirement_of(False, mask, None, None, None)
                    requirements = requirements.narrowed(domains)
                    continue
            error, is_own = TopologyError(counts, strict, nodes), at < len(self.own)
            if worst is None or ((is_own or not worst_is_own) and str(error) < str(worst)):
                worst, worst_is_own = error, is_own
        if worst is not None:
            return worst
        if requirements is not before and (refusal := before.refusal(requirements, host.undefined)):
            return refusal
        return requirements

    def record(self, Host host not None):
        """Count a pod that was placed on a host, in each group that it matters to."""
        cdef TopologyCounts counts
        cdef LabelRequirement domains
        self.look()
        for counts in self.counting:
            nodes = counts.node_filter
            if nodes is not None and not nodes.counts(
                host.taints, host.whole if nodes.names_host else host.requirements
            ):
                continue
            if counts.on_hosts:
                counts.record_at(host.place)
                continue
            domains = counts.of_nodes(host.requirements)
            if counts.kind == IS_ANTI_AFFINITY or domains.single():
                counts.record(domains.mask)
        for counts in self.away:
            if counts.on_hosts:
                counts.record_at(host.place)
            else:
                counts.record(counts.of_nodes(host.requirements).mask)

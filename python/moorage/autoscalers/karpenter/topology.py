"""All topology groups of a pass: which a pod owns, which count it, and what they have counted before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain

import msgspec
from msgspec import Struct

from moorage._core.provision.domain_counts import (
    AFFINITY,
    ANTI_AFFINITY,
    NO_LIMIT,
    SPREAD,
    ConstraintGroups,
    Ties,
    TopologyCounts,
)
from moorage._core.provision.label_requirements import RequirementSet, bits
from moorage.kube import LabelSelector, LabelSelectorMatcher, Namespace, Node, Pod, PodAffinityTerm, Taint
from moorage.kube.model.node import HOSTNAME

from .pod_shape import Labelled, PodConstraints, ShapeBook, effective_selector, uid_of
from .pod_validation import is_terminal
from .topology_group import NodeFilter, TopologyGroup

# ---- the domains that pools could make nodes in, and the taints that these would have ----------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go (buildDomainGroups) and
# topologydomaingroup.go.

Taints = tuple[Taint, ...]


class DomainUniverse:
    """Domains by key, with the lists of taints of the pools that have them."""

    def __init__(self) -> None:
        self._domains: dict[str, dict[int, set[Taints]]] = {}

    def add(self, pool: RequirementSet, taints: Taints, types: Iterable[RequirementSet]) -> None:
        """Add the domains of a pool with these instance types.

        Parameters
        ----------
        pool : RequirementSet
            Requirements and labels of its template.
        """
        of_types = [of_type.by_key for of_type in types]
        for name, theirs in dict.fromkeys(chain.from_iterable(each.items() for each in of_types)):
            ours = pool.by_key.get(name)
            self._insert(name, (theirs if ours is None else ours.meet(theirs)).mask, taints)
        for name, requirement in pool.by_key.items():
            if requirement.operator == "In" or not all(name in by_key for by_key in of_types):
                self._insert(name, requirement.mask, taints)

    def _insert(self, name: str, mask: int, taints: Taints) -> None:
        domains = self._domains.setdefault(name, {})
        for place in bits(mask):
            domains.setdefault(place, set()).add(taints)

    def domains(self, name: str, constraints: PodConstraints, honors: bool) -> int:
        """The domains of a key as bits; with `honors` those of pools whose taints pods tolerate."""
        mask = 0
        for place, lists in self._domains.get(name, {}).items():
            if not honors or any(not constraints.taint_refusal(taints) for taints in lists):
                mask |= 1 << place
        return mask


# ---- counted groups ----------------------------------------------------------------------------------------
# Topology groups as passes over one cluster begin with them: which running pods each counts, and where.
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go.


class NodeDomains(Struct, eq=False, dict=True):
    """The domains of nodes for one label, as groups with one node filter see them.

    Attributes
    ----------
    of_pods : dict of str to tuple of int
        By the name of a node, the place of the domain in which its pods count.
    shown : dict of str to int
        The same for nodes that make their domains known.
    """

    of_pods: dict[str, tuple[int, ...]]
    shown: dict[str, int]

    @cached_property
    def _known(self) -> tuple[int, Counter[int]]:
        counts = Counter(self.shown.values())
        return sum(1 << place for place in counts), counts

    def without(self, gone: Iterable[str]) -> int:
        """The domains, as bits, that are known where some nodes are gone."""
        known, counts = self._known
        for place, count in Counter(self.shown[name] for name in gone if name in self.shown).items():
            if count == counts[place]:
                known &= ~(1 << place)
        return known


_NO_NODES = NodeDomains({}, {})


class CountedGroup(Struct, eq=False, dict=True):
    """A group with the domains that pools could have, and what a cluster adds.

    Attributes
    ----------
    pods : dict of str to tuple of int
        By UID, the places of the domains in which pods count.
    """

    group: TopologyGroup
    domains: NodeDomains
    pods: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)

    @cached_property
    def _counts(self) -> TopologyCounts:
        counts = TopologyCounts(self.group, 0, [])
        for places in self.pods.values():
            for place in places:
                counts.record(1 << place)
        return counts

    def begun(
        self, excluded: AbstractSet[str], gone: Iterable[str], group: TopologyGroup, hosts: list[int]
    ) -> TopologyCounts:
        """What the group, or one like it, counts without some pods, by UID, and without what some nodes make
        known."""
        left = [self.pods[uid] for uid in self.pods.keys() & excluded]
        return self._counts.begun(group, group.known | self.domains.without(gone), left, hosts)


class Surroundings(Struct, frozen=True):
    """What is there when a pass begins.

    Attributes
    ----------
    labels : mapping of str to mapping
        By the name of each node that Karpenter counts on, the labels that it has or will have.
    tracked : frozenset of str
        Names of nodes whose pods keep others away.
    """

    pods: Sequence[Pod]
    nodes: Mapping[str, Node]
    labels: Mapping[str, Mapping[str, str]]
    namespaces: Sequence[Namespace]
    tracked: frozenset[str]


class CountedGroups:
    """The groups that pods of a cluster own, each counted once.

    Parameters
    ----------
    ignores : bool
        Whether preferences are left out.
    """

    def __init__(
        self, book: ShapeBook, universe: DomainUniverse, around: Surroundings, ignores: bool
    ) -> None:
        self.vocabulary, self.ignores, self.universe = book.vocabulary, ignores, universe
        self._around = around
        self._by_labels: dict[Labelled, list[tuple[str, str]]] = {}
        self._domains: dict[Hashable, NodeDomains] = {}
        self._made: dict[Hashable, CountedGroup] = {}
        self._own: dict[PodConstraints, list[CountedGroup]] = {}
        self._terms: dict[PodConstraints, list[TopologyGroup]] = {}
        self._away: dict[Hashable, tuple[CountedGroup, list[tuple[str, TopologyGroup]]]] = {}
        for pod in around.pods:
            if not pod.spec.node_name or is_terminal(pod):
                continue
            constraints = book.shape(pod).constraints
            if pod.metadata.deletion_timestamp is None:
                self._by_labels.setdefault(constraints.labelled, []).append((uid_of(pod), pod.spec.node_name))
            if constraints.anti_affinity:
                self._keep_away(pod, constraints)

    # ---- groups that pods own ------------------------------------------------------------------------------

    def own(self, constraints: PodConstraints) -> list[CountedGroup]:
        """The groups of the constraints and terms of pods, each once."""
        groups = self._own.get(constraints)
        if groups is None:
            groups = self._own[constraints] = list(
                dict.fromkeys([*self._spreads(constraints), *self._affinities(constraints)])
            )
        return groups

    def _spreads(self, constraints: PodConstraints) -> Iterable[CountedGroup]:
        for spread in constraints.spreads:
            if self.ignores and spread.when_unsatisfiable != "DoNotSchedule":
                continue
            nodes = NodeFilter.of(constraints, spread)
            group = TopologyGroup(
                SPREAD,
                spread.topology_key,
                self.vocabulary.key(spread.topology_key),
                frozenset({constraints.labelled.namespace}),
                effective_selector(spread, constraints.labelled.labels),
                spread.max_skew,
                spread.min_domains,
                nodes,
                self.universe.domains(spread.topology_key, constraints, nodes.taints == "Honor"),
            )
            yield self._counted(group)

    def _affinities(self, constraints: PodConstraints) -> Iterable[CountedGroup]:
        kinds = (
            (AFFINITY, constraints.affinity, constraints.preferred_affinity),
            (ANTI_AFFINITY, constraints.anti_affinity, constraints.preferred_anti_affinity),
        )
        for kind, required, preferred in kinds:
            terms = required if self.ignores else (*required, *(each.pod_affinity_term for each in preferred))
            for term in terms:
                yield self._counted(self._of_term(kind, constraints, term))

    def terms(self, constraints: PodConstraints) -> list[TopologyGroup]:
        """The groups of required anti-affinity of pods, which keeps others away, without counts."""
        terms = self._terms.get(constraints)
        if terms is None:
            terms = [self._of_term(ANTI_AFFINITY, constraints, term) for term in constraints.anti_affinity]
            self._terms[constraints] = terms
        return terms

    def _of_term(self, kind: str, constraints: PodConstraints, term: PodAffinityTerm) -> TopologyGroup:
        key = self.vocabulary.key(term.topology_key)
        namespaces = self._namespaces(constraints.labelled.namespace, term)
        known = self.universe.domains(term.topology_key, constraints, honors=True)
        return TopologyGroup(
            kind, term.topology_key, key, namespaces, term.label_selector, NO_LIMIT, None, None, known
        )

    def _namespaces(self, own: str, term: PodAffinityTerm) -> frozenset[str]:
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (own,))
        matcher = LabelSelectorMatcher(term.namespace_selector)
        selected = [
            namespace.name
            for namespace in self._around.namespaces
            if matcher.matches(namespace.metadata.labels)
        ]
        return frozenset((*selected, *term.namespaces))

    # ---- counting ------------------------------------------------------------------------------------------

    def _counted(self, group: TopologyGroup) -> CountedGroup:
        """The group with the same definition that is there; a new one is counted."""
        nodes = group.node_filter
        exact = nodes and (tuple(nodes.alternatives), nodes.tolerations, nodes.affinity, nodes.taints)
        definition = group.identity, group.known, group.min_domains, exact
        if definition not in self._made:
            seen = group.topology_key, None if nodes is None or nodes.is_open else exact
            if seen not in self._domains:
                self._domains[seen] = self._node_domains(group)
            self._made[definition] = self._count(CountedGroup(group, self._domains[seen]))
        return self._made[definition]

    def _node_domains(self, group: TopologyGroup) -> NodeDomains:
        around, filtered, key = self._around, group.node_filter, group.topology_key
        if filtered is not None and filtered.is_open:
            filtered = None
        domains = NodeDomains({}, {})
        for name, node in around.nodes.items():
            if filtered is not None:
                labels = self.vocabulary.of_labels(node.metadata.labels)
                if not filtered.counts(node.spec.taints, labels):
                    continue
            domain = node.metadata.labels.get(key, name if key == HOSTNAME else None)
            if domain is not None:
                domains.of_pods[name] = (group.key.bit(domain).bit_length() - 1,)
            shown = around.labels.get(name, {}).get(key)
            if shown is not None:
                domains.shown[name] = group.key.bit(shown).bit_length() - 1
        return domains

    def _count(self, counted: CountedGroup) -> CountedGroup:
        group, places = counted.group, counted.domains.of_pods
        matcher = LabelSelectorMatcher(group.selector if group.selector is not None else LabelSelector())
        for pods, members in self._by_labels.items():
            if pods.namespace in group.namespaces and matcher.matches(pods.labels):
                counted.pods |= {uid: places[node] for uid, node in members if node in places}
        return counted

    def _keep_away(self, pod: Pod, constraints: PodConstraints) -> None:
        """Take up the required anti-affinity of a pod that runs."""
        if pod.spec.node_name not in self._around.tracked:
            return
        labels, uid = self._around.nodes[pod.spec.node_name].metadata.labels, uid_of(pod)
        for group in self.terms(constraints):
            counted, owners = self._away.setdefault(group.identity, (CountedGroup(group, _NO_NODES), []))
            owners.append((uid, group))
            domain = labels.get(group.topology_key)
            if domain is not None:
                place = group.key.bit(domain).bit_length() - 1
                counted.pods[uid] = (*counted.pods.get(uid, ()), place)

    def kept_away(self, excluded: AbstractSet[str], hosts: list[int]) -> dict[Hashable, TopologyCounts]:
        """Groups of the required anti-affinity of running pods; the first one decides which domains exist."""
        counts = {}
        for identity, (counted, owners) in self._away.items():
            first = next((group for uid, group in owners if uid not in excluded), None)
            if first is not None:
                counts[identity] = counted.begun(excluded, (), first, hosts)
        return counts


# ---- all topology groups of a pass: which a pod owns, and which count it -----------------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go.


class Topology:
    """The groups of a pass: those that pods own, and required anti-affinity seen from the pods that it keeps
    away.

    Parameters
    ----------
    excluded : set of str
        UIDs of pods that are being placed: they do not count where they run.
    gone : iterable of str
        Names of nodes that are taken to be removed.

    Attributes
    ----------
    hosts : list of int
        Those that groups get to know in a pass, as bits.
    """

    def __init__(
        self,
        source: CountedGroups,
        ties: Ties,
        excluded: AbstractSet[str] = frozenset(),
        gone: Iterable[str] = (),
    ) -> None:
        self.ties = ties
        self._source, self._excluded, self._gone = source, excluded, gone
        self.hosts: list[int] = []
        self.own: dict[Hashable, TopologyCounts] = {}
        self.inverse = source.kept_away(excluded, self.hosts)
        self._groups: dict[PodConstraints, ConstraintGroups] = {}
        self._selected: dict[tuple[Labelled, bool], tuple[int, list[TopologyCounts]]] = {}

    def groups(self, constraints: PodConstraints) -> ConstraintGroups:
        """The groups that matter to pods of a constraints; new ones begin with the pods that run."""
        groups = self._groups.get(constraints)
        if groups is None:
            away = [self._kept_away(group) for group in self._source.terms(constraints)]
            own = [self._taken_up(counted) for counted in self._source.own(constraints)]
            groups = ConstraintGroups(self, constraints, list(dict.fromkeys(own)), list(dict.fromkeys(away)))
            self._groups[constraints] = groups
        return groups

    def _kept_away(self, group: TopologyGroup) -> TopologyCounts:
        if group.identity not in self.inverse:
            self.inverse[group.identity] = TopologyCounts(group, group.known, self.hosts)
        return self.inverse[group.identity]

    def _taken_up(self, counted: CountedGroup) -> TopologyCounts:
        """The group like this one that is there; a new one begins with the pods that run."""
        group = counted.group
        if group.identity not in self.own:
            self.own[group.identity] = counted.begun(self._excluded, self._gone, group, self.hosts)
        return self.own[group.identity]

    def selecting(self, pods: Labelled, inverse: bool) -> list[TopologyCounts]:
        """The groups that select pods with these labels; new ones are asked once."""
        groups = self.inverse if inverse else self.own
        looked_at, selecting = self._selected.get((pods, inverse), (0, []))
        if looked_at < len(groups):
            selecting = selecting + [
                counts for counts in list(groups.values())[looked_at:] if counts.group.selects(pods)
            ]
            self._selected[pods, inverse] = (len(groups), selecting)
        return selecting

"""Topology groups as passes over one cluster begin with them: which running pods each counts, and where.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec
from msgspec import Struct

from moorage.kube import LabelSelector, LabelSelectorMatcher, Namespace, Node, Pod, PodAffinityTerm

from ..pods.pod_shape import Labelled, PodShape, ShapeBook, effective_selector, uid_of
from ..pods.pod_validation import is_terminal
from .domain_universe import DomainUniverse
from .node_filter import NodeFilter
from .topology_group import AFFINITY, ANTI_AFFINITY, NO_LIMIT, SPREAD, TopologyGroup


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
    def _counts(self) -> Counter[int]:
        return Counter(place for places in self.pods.values() for place in places)

    @cached_property
    def _sets(self) -> tuple[int, list[int]]:
        """Domains with pods, and those with more than 0, 1, … pods, as bits."""
        occupied, levels = 0, list[int]()
        for place, count in self._counts.items():
            occupied |= 1 << place
            if self.group.on_hosts:
                levels += [0] * (count - len(levels))
                for level in range(count):
                    levels[level] |= 1 << place
        return occupied, levels

    def begun(
        self, excluded: AbstractSet[str], gone: Iterable[str] = (), group: TopologyGroup | None = None
    ) -> TopologyGroup:
        """The group, or one like it, without some pods, by UID, and without what some nodes make known."""
        group = group or self.group
        counts = dict(self._counts)
        occupied, levels = self._sets
        levels, known = [*levels], self.domains.without(gone)
        for uid in self.pods.keys() & excluded:
            for place in self.pods[uid]:
                counts[place] -= 1
                if levels:
                    levels[counts[place]] &= ~(1 << place)
                if not counts[place]:
                    del counts[place]
                    occupied &= ~(1 << place)
        return group.begun(counts, group.known | known | occupied, occupied, levels)


class Surroundings(Struct, frozen=True):
    """What is there when a pass begins.

    Attributes
    ----------
    pods : sequence of Pod
    nodes : mapping of str to Node
        All nodes.
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
        self._own: dict[PodShape, list[CountedGroup]] = {}
        self._terms: dict[PodShape, list[TopologyGroup]] = {}
        self._away: dict[Hashable, tuple[CountedGroup, list[tuple[str, TopologyGroup]]]] = {}
        for pod in around.pods:
            if not pod.spec.node_name or is_terminal(pod):
                continue
            shape = book.shape(pod)
            if pod.metadata.deletion_timestamp is None:
                self._by_labels.setdefault(shape.labelled, []).append((uid_of(pod), pod.spec.node_name))
            if shape.anti_affinity:
                self._keep_away(pod, shape)

    # ---- groups that pods own ------------------------------------------------------------------------------

    def own(self, shape: PodShape) -> list[CountedGroup]:
        """The groups of the constraints and terms of pods, each once."""
        found = self._own.get(shape)
        if found is None:
            found = self._own[shape] = list(dict.fromkeys([*self._spreads(shape), *self._affinities(shape)]))
        return found

    def _spreads(self, shape: PodShape) -> Iterable[CountedGroup]:
        for spread in shape.spreads:
            if self.ignores and spread.when_unsatisfiable != "DoNotSchedule":
                continue
            nodes = NodeFilter.of(shape, spread)
            group = TopologyGroup(
                SPREAD,
                spread.topology_key,
                self.vocabulary.key(spread.topology_key),
                frozenset({shape.labelled.namespace}),
                effective_selector(spread, shape.labelled.labels),
                spread.max_skew,
                spread.min_domains,
                nodes,
            )
            group.register(self.universe.domains(group.topology_key, shape, nodes.taints == "Honor"))
            yield self._counted(group)

    def _affinities(self, shape: PodShape) -> Iterable[CountedGroup]:
        kinds = (
            (AFFINITY, shape.affinity, shape.preferred_affinity),
            (ANTI_AFFINITY, shape.anti_affinity, shape.preferred_anti_affinity),
        )
        for kind, required, preferred in kinds:
            terms = required if self.ignores else (*required, *(one.pod_affinity_term for one in preferred))
            for term in terms:
                yield self._counted(self._of_term(kind, shape, term))

    def terms(self, shape: PodShape) -> list[TopologyGroup]:
        """The groups of required anti-affinity of pods, which keeps others away, without counts."""
        found = self._terms.get(shape)
        if found is None:
            found = [self._of_term(ANTI_AFFINITY, shape, term) for term in shape.anti_affinity]
            self._terms[shape] = found
        return found

    def _of_term(self, kind: str, shape: PodShape, term: PodAffinityTerm) -> TopologyGroup:
        key = self.vocabulary.key(term.topology_key)
        namespaces = self._namespaces(shape.labelled.namespace, term)
        group = TopologyGroup(
            kind, term.topology_key, key, namespaces, term.label_selector, NO_LIMIT, None, None
        )
        group.register(self.universe.domains(term.topology_key, shape, honors=True))
        return group

    def _namespaces(self, own: str, term: PodAffinityTerm) -> frozenset[str]:
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (own,))
        matcher = LabelSelectorMatcher(term.namespace_selector)
        selected = [one.name for one in self._around.namespaces if matcher.matches(one.metadata.labels)]
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
        found = NodeDomains({}, {})
        for name, node in around.nodes.items():
            if filtered is not None:
                labels = self.vocabulary.of_labels(node.metadata.labels)
                if not filtered.counts(node.spec.taints, labels):
                    continue
            domain = node.metadata.labels.get(key, name if group.on_hosts else None)
            if domain is not None:
                found.of_pods[name] = (group.key.bit(domain).bit_length() - 1,)
            shown = around.labels.get(name, {}).get(key)
            if shown is not None:
                found.shown[name] = group.key.bit(shown).bit_length() - 1
        return found

    def _count(self, counted: CountedGroup) -> CountedGroup:
        group, places = counted.group, counted.domains.of_pods
        matcher = LabelSelectorMatcher(group.selector if group.selector is not None else LabelSelector())
        for pods, members in self._by_labels.items():
            if pods.namespace in group.namespaces and matcher.matches(pods.labels):
                counted.pods |= {uid: places[node] for uid, node in members if node in places}
        return counted

    def _keep_away(self, pod: Pod, shape: PodShape) -> None:
        """Take up the required anti-affinity of a pod that runs."""
        if pod.spec.node_name not in self._around.tracked:
            return
        labels, uid = self._around.nodes[pod.spec.node_name].metadata.labels, uid_of(pod)
        for group in self.terms(shape):
            counted, owners = self._away.setdefault(group.identity, (CountedGroup(group, _NO_NODES), []))
            owners.append((uid, group))
            domain = labels.get(group.topology_key)
            if domain is not None:
                place = group.key.bit(domain).bit_length() - 1
                counted.pods[uid] = (*counted.pods.get(uid, ()), place)

    def kept_away(self, excluded: AbstractSet[str]) -> dict[Hashable, TopologyGroup]:
        """Groups of the required anti-affinity of running pods; the first one decides which domains exist."""
        found = {}
        for identity, (counted, owners) in self._away.items():
            first = next((group for uid, group in owners if uid not in excluded), None)
            if first is not None:
                found[identity] = counted.begun(excluded, (), first)
        return found

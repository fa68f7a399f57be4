"""Pods counted by domain, for one spread constraint or one affinity term of many pods.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topologygroup.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.kube import (
    LabelSelector,
    LabelSelectorMatcher,
    LabelSelectorRequirement,
    Object,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from moorage.kube.model.node import HOSTNAME

from .label_requirements import Key, Requirement, RequirementSet, bits
from .pod_shape import Labelled, PodConstraints, untolerated

# ---- which nodes count for a spread constraint -------------------------------------------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topologynodefilter.go.


def odd(items: Iterable[Hashable]) -> frozenset[Hashable]:
    """Those items that occur an odd number of times: upstream combines hashes so that pairs vanish."""
    return frozenset(item for item, n in Counter(items).items() if n % 2)


class NodeFilter(Struct, eq=False):
    """The nodes that count, by the node selector and tolerations of the pod that a group was made for."""

    alternatives: list[RequirementSet]
    affinity: str
    taints: str
    tolerations: tuple[Toleration, ...]
    names_host: bool
    _known: dict[tuple[tuple[Taint, ...], RequirementSet], bool] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, constraints: PodConstraints, spread: TopologySpreadConstraint) -> NodeFilter:
        terms = [constraints.vocabulary.of_terms(term.match_expressions) for term in constraints.required]
        alternatives = [constraints.node_selector.meet(term) for term in terms] or [constraints.node_selector]
        return cls(
            alternatives,
            spread.node_affinity_policy or "Honor",
            spread.node_taints_policy or "Ignore",
            constraints.tolerations,
            any(HOSTNAME in alternative.by_key for alternative in alternatives),
        )

    @property
    def is_open(self) -> bool:
        """Whether all nodes count."""
        return self.taints != "Honor" and not any(alternative.by_key for alternative in self.alternatives)

    @property
    def identity(self) -> Hashable:
        """What upstream's hash tells apart: of the requirements only the labels that they name."""
        tolerations = [
            (
                toleration.key,
                toleration.operator,
                toleration.value,
                toleration.effect,
                toleration.toleration_seconds or 0,
            )
            for toleration in self.tolerations
        ]
        labels = odd(frozenset(alternative.by_key) for alternative in self.alternatives)
        return labels, self.taints, self.affinity, odd(tolerations)

    def counts(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        """Whether a node with these taints and requirements counts."""
        known = self._known.get((taints, node))
        if known is None:
            known = self._known[taints, node] = self._counts(taints, node)
        return known

    def _counts(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        if self.affinity == "Honor" and all(
            node.refusal(alternative, undefined=False) for alternative in self.alternatives
        ):
            return False
        return self.taints != "Honor" or not untolerated(taints, self.tolerations)


# ---- topology group ----------------------------------------------------------------------------------------

SPREAD, AFFINITY, ANTI_AFFINITY = "topology spread", "pod affinity", "pod anti-affinity"
NO_LIMIT = 2**31 - 1
_MOST_SHOWN = 25
_WORD = 2**64 - 1


class Ties(Struct):
    """In which order domains are looked at that nothing else orders: by name, or by lot with a seed.

    The lot of a domain follows from the seed, the attempt (each try to place a pod), its key and its name:
    FNV-1a, then the finalizer of splitmix64.
    """

    seed: int
    attempt: int = 0

    def rank(self, key: str, domain: str) -> int | str:
        if not self.seed:
            return domain
        lot = 14695981039346656037
        for byte in f"{self.seed}/{self.attempt}/{key}/{domain}".encode():
            lot = (lot ^ byte) * 1099511628211 & _WORD
        lot = (lot ^ lot >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        lot = (lot ^ lot >> 27) * 0x94D049BB133111EB & _WORD
        return lot ^ lot >> 31


@dataclass(eq=False)
class TopologyGroup:
    """Counts of pods by domain.

    Attributes
    ----------
    topology_key : str
        As written; the values are those of `key`, its new name.
    counts : dict of int to int
        Pods by the place of a domain among the values of the key.
    known, occupied : int
        The domains, and those with a pod, as bits.
    levels : list of int
        Of a group on hosts, those with more than 0, 1, … pods.
    hosts : list of int
        Hosts of the pass, as bits, in the order in which they are placed on; from `since` on they are known.
    """

    kind: str
    topology_key: str
    key: Key
    namespaces: frozenset[str]
    selector: LabelSelector | None
    max_skew: int
    min_domains: int | None
    node_filter: NodeFilter | None
    counts: dict[int, int] = field(default_factory=dict)
    known: int = 0
    occupied: int = 0
    levels: list[int] = field(default_factory=list)
    hosts: Sequence[int] = ()
    since: int = 0

    def __post_init__(self) -> None:
        self.on_hosts = self.topology_key == HOSTNAME
        self._matcher = LabelSelectorMatcher(self.selector)
        self._selected: dict[Labelled, bool] = {}

    def begun(self, counts: dict[int, int], known: int, occupied: int, levels: list[int]) -> TopologyGroup:
        """The same group with other counts."""
        group = copy(self)
        group.counts, group.known, group.occupied, group.levels = counts, known, occupied, levels
        return group

    def follow(self, hosts: Sequence[int]) -> TopologyGroup:
        """Know the hosts that are entered in a list from now on; the same group."""
        self.hosts, self.since = hosts, len(hosts)
        return self

    @cached_property
    def identity(self) -> Hashable:
        """What upstream's hash tells apart; minDomains is no part of it."""
        selector = self.selector
        question: Hashable = None
        if selector is not None:
            expressions = [
                (match_expression.key, match_expression.operator, odd(match_expression.values))
                for match_expression in selector.match_expressions
            ]
            question = frozenset(expressions), frozenset(selector.match_labels.items())
        nodes = self.node_filter.identity if self.node_filter is not None else None
        return self.kind, self.topology_key, self.namespaces, self.max_skew, nodes, question

    def selects(self, pods: Labelled) -> bool:
        selected = self._selected.get(pods)
        if selected is None:
            selected = pods.namespace in self.namespaces and self._matcher.matches(pods.labels)
            self._selected[pods] = selected
        return selected

    # ---- counting ------------------------------------------------------------------------------------------

    def register(self, mask: int) -> None:
        """Make domains known."""
        self.known |= mask

    def record(self, mask: int) -> None:
        """Count a pod in each of the domains."""
        self.known |= mask
        self.occupied |= mask
        for place in bits(mask):
            before = self.counts.get(place, 0)
            self.counts[place] = before + 1
            if self.on_hosts:
                if before == len(self.levels):
                    self.levels.append(0)
                self.levels[before] |= 1 << place

    def count(self, mask: int) -> int:
        """The pods in one domain."""
        return self.counts.get(mask.bit_length() - 1, 0)

    # ---- where a pod may go --------------------------------------------------------------------------------

    def takes_host(self, host: int, pods: Requirement, selects: bool) -> bool:
        """Whether one host, as a bit, may take a pod of a group on hosts: a new host has no pods."""
        if self.kind == SPREAD:
            return self.count(host) + selects <= self.max_skew
        if self.kind == ANTI_AFFINITY:
            return not self.occupied & host
        if not pods.select(host):
            return False
        return bool(self.occupied & host) or (selects and not pods.select(self.occupied))

    def allowed_hosts(self, selects: bool) -> int:
        """The hosts, as bits, that take a pod which may be on any; new hosts have no pods."""
        if self.kind == SPREAD:
            most = self.max_skew - selects
            return ~self.levels[most] if most < len(self.levels) else -1
        if self.kind == ANTI_AFFINITY:
            return ~self.occupied
        return self.occupied or (-1 if selects else 0)

    def open_domains(self, pods: Requirement, selects: bool) -> int:
        """The domains of which a node must allow one to take a pod; -1 if any node does."""
        if self.kind == ANTI_AFFINITY:
            return pods.select(self.known & ~self.occupied)
        if self.kind == AFFINITY:
            there = pods.select(self.occupied)
            return -1 if not there and selects and pods.select(self.known) else there
        most, mask = self._minimum(pods) + self.max_skew - selects, 0
        for place in bits(self.known):
            if self.counts.get(place, 0) <= most:
                mask |= 1 << place
        return mask

    def domains(self, pods: Requirement, nodes: Requirement, selects: bool, ties: Ties) -> int:
        """The domains in which a pod may be, of those that the pod and a node allow."""
        mask = self.open_domains(pods, selects)
        if mask < 0:
            both = pods.meet(nodes).select(self.known)
            return self._first(both, ties) | self._first(pods.select(self.known), ties)
        mask = nodes.select(mask)
        if self.kind != SPREAD or not mask & (mask - 1):
            return mask
        counts = {place: self.counts.get(place, 0) for place in bits(mask)}
        least = min(counts.values())
        return self._first(sum(1 << place for place, count in counts.items() if count == least), ties)

    def _minimum(self, pods: Requirement) -> int:
        """The fewest pods of a domain; a host without any can always be made."""
        if self.on_hosts:
            return 0
        allowed = list(bits(pods.select(self.known)))
        if self.min_domains is not None and len(allowed) < self.min_domains:
            return 0
        return min((self.counts.get(place, 0) for place in allowed), default=NO_LIMIT)

    def _first(self, mask: int, ties: Ties) -> int:
        """The first of several domains, as a bit."""
        if not mask & (mask - 1):
            return mask
        names = self.key.values
        return 1 << min(bits(mask), key=lambda place: ties.rank(self.topology_key, names[place]))

    def __str__(self) -> str:
        """Counts as Karpenter's messages show them."""
        known = reduce(or_, self.hosts[self.since :], self.known) if self.on_hosts else self.known
        places = {self.key.values[place]: self.counts.get(place, 0) for place in bits(known)}
        shown = ", ".join(f"{name}: {places[name]}" for name in sorted(places)[:_MOST_SHOWN])
        left = len(places) - _MOST_SHOWN
        return f"{shown} and {left} other(s)" if left > 0 else shown


# ---- spread constraints of the cluster for pods without constraints of their own ---------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/defaultconstraints.go.

_OWNERS: dict[tuple[str, str], type[Object]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


def with_default_spread(
    pod: Pod,
    constraints: Sequence[TopologySpreadConstraint],
    services: Sequence[Service],
    owners: Mapping[tuple[type[Object], str], Object],
) -> Pod:
    """The pod with the constraints of the cluster, and the selector that kube-scheduler would deduce for it.

    Parameters
    ----------
    owners : mapping
        Controllers by kind and key.
    """
    if not constraints or pod.spec.topology_spread_constraints:
        return pod
    labels: dict[str, str] = {}
    for service in services:
        service_labels = service.spec.selector
        if service.namespace != pod.namespace or service_labels is None:
            continue
        if service_labels.items() <= pod.metadata.labels.items():
            labels |= service_labels
    expressions: list[LabelSelectorRequirement] = []
    owner = pod.metadata.controller()
    kind = _OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
    owner_object = owners.get((kind, f"{pod.namespace}/{owner.name}")) if owner is not None and kind else None
    if isinstance(owner_object, ReplicationController):
        labels |= owner_object.spec.selector or {}
    elif isinstance(owner_object, ReplicaSet | StatefulSet) and owner_object.spec.selector is not None:
        chosen = owner_object.spec.selector
        expressions += [
            LabelSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in chosen.match_labels.items()
        ]
        expressions += chosen.match_expressions
    if not labels and not expressions:
        return pod
    selector = LabelSelector(match_labels=labels, match_expressions=tuple(expressions))
    spreads = tuple([replace(constraint, label_selector=selector) for constraint in constraints])
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=spreads))

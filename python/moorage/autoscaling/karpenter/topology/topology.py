"""All topology groups of a pass: which a pod owns, and which count it.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moorage.autoscaling.karpenter.pods.pod_shape import Labelled, PodShape, effective_selector, uid_of
from moorage.autoscaling.karpenter.pods.pod_validation import is_terminal
from moorage.autoscaling.karpenter.requirements.requirement import Requirement
from moorage.autoscaling.karpenter.requirements.requirement_set import HOSTNAME, RequirementSet, Vocabulary
from moorage.objects import LabelSelector, LabelSelectorMatcher, Namespace, Node, Pod, PodAffinityTerm, Taint

from .domain_universe import DomainUniverse
from .node_filter import NodeFilter
from .topology_group import AFFINITY, ANTI_AFFINITY, NO_LIMIT, SPREAD, Ties, TopologyGroup

Asked = tuple[TopologyGroup, bool]
"""A group, and whether it counts the pod in question."""


class Host(NamedTuple):
    """A node or claim as topologies see it.

    Attributes
    ----------
    requirements : RequirementSet
        Without the name of the host.
    host : RequirementSet
        The name of the host alone.
    undefined : bool
        Whether well known labels can still become anything.
    """

    name: str
    taints: tuple[Taint, ...]
    requirements: RequirementSet
    host: RequirementSet
    undefined: bool

    @property
    def whole(self) -> RequirementSet:
        return self.requirements.meet(self.host)


@dataclass(eq=False)
class TopologyError:
    """A topology that leaves a pod no domain; its counts are told as they are when the text is asked for."""

    group: TopologyGroup
    pods: Requirement
    nodes: Requirement

    def __str__(self) -> str:
        return (
            f"unsatisfiable topology constraint for {self.group.kind}, key={self.group.topology_key} "
            f"(counts = {self.group}, podDomains = {self.pods}, nodeDomains = {self.nodes}"
        )


@dataclass(frozen=True)
class Surroundings:
    """What is there when a pass begins.

    Attributes
    ----------
    pods : sequence of Pod
        All pods; those that are being placed do not count (`excluded`, their UIDs).
    nodes : mapping of str to Node
        All nodes.
    labels : mapping of str to mapping
        By the name of each node that Karpenter counts on, the labels that it has or will have.
    """

    pods: Sequence[Pod]
    nodes: Mapping[str, Node]
    labels: Mapping[str, Mapping[str, str]]
    namespaces: Sequence[Namespace]
    excluded: frozenset[str]


@dataclass(eq=False)
class Topology:
    """The groups of a pass.

    Attributes
    ----------
    ignores : bool
        Whether preferences are left out.
    own, inverse : dict
        Groups that pods own, and required anti-affinity seen from the pods that it keeps away.
    owned, owned_inverse : dict of str to sequence of TopologyGroup
        By the UID of a pod.
    """

    vocabulary: Vocabulary
    universe: DomainUniverse
    around: Surroundings
    ignores: bool
    ties: Ties
    own: dict[Hashable, TopologyGroup] = field(default_factory=dict)
    inverse: dict[Hashable, TopologyGroup] = field(default_factory=dict)
    owned: dict[str, Sequence[TopologyGroup]] = field(default_factory=dict)
    owned_inverse: dict[str, Sequence[TopologyGroup]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pods_by_namespace: dict[str, list[Pod]] = {}
        for pod in self.around.pods:
            if pod.spec.node_name and not is_terminal(pod) and pod.metadata.deletion_timestamp is None:
                self._pods_by_namespace.setdefault(pod.namespace, []).append(pod)
        self._node_sets = {
            name: self.vocabulary.of_labels(node.metadata.labels) for name, node in self.around.nodes.items()
        }

    # ---- groups --------------------------------------------------------------------------------------------

    def keep_away(self, shape: PodShape, node: Node) -> None:
        """Take up the required anti-affinity of a pod that runs on a node."""
        for term, group in zip(shape.anti_affinity, self._inverse_groups(shape), strict=True):
            domain = node.metadata.labels.get(term.topology_key)
            if domain is not None:
                group.record(group.key.bit(domain))

    def update(self, uid: str, shape: PodShape) -> None:
        """Make a pod the owner of the topologies of a shape, and of no others."""
        if shape.anti_affinity or (shape.preferred_anti_affinity and not self.ignores):
            self.owned_inverse[uid] = list(dict.fromkeys(self._inverse_groups(shape)))
        groups = shape.memo.get("groups")
        if groups is None:
            groups = shape.memo["groups"] = self._groups(shape)
        self.owned[uid] = groups

    def _inverse_groups(self, shape: PodShape) -> list[TopologyGroup]:
        groups = shape.memo.get("inverse")
        if groups is None:
            made = [self._of_term(ANTI_AFFINITY, shape, term) for term in shape.anti_affinity]
            groups = [self.inverse.setdefault(group.identity, group) for group in made]
            shape.memo["inverse"] = groups
        found: list[TopologyGroup] = groups
        return found

    def _groups(self, shape: PodShape) -> list[TopologyGroup]:
        found = []
        for spread in shape.spreads:
            if self.ignores and spread.when_unsatisfiable != "DoNotSchedule":
                continue
            selector = effective_selector(spread, shape.labelled.labels)
            nodes = NodeFilter.of(shape, spread)
            namespaces = frozenset({shape.labelled.namespace})
            key = self.vocabulary.key(spread.topology_key)
            group = TopologyGroup(
                SPREAD,
                spread.topology_key,
                key,
                namespaces,
                selector,
                spread.max_skew,
                spread.min_domains,
                nodes,
            )
            found.append(self._taken_up(group, shape))
        kinds = (
            (AFFINITY, shape.affinity, shape.preferred_affinity),
            (ANTI_AFFINITY, shape.anti_affinity, shape.preferred_anti_affinity),
        )
        for kind, required, preferred in kinds:
            terms = required if self.ignores else (*required, *(one.pod_affinity_term for one in preferred))
            found += [self._taken_up(self._of_term(kind, shape, term), shape) for term in terms]
        return list(dict.fromkeys(found))

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
        selected = [one.name for one in self.around.namespaces if matcher.matches(one.metadata.labels)]
        return frozenset((*selected, *term.namespaces))

    def _taken_up(self, group: TopologyGroup, shape: PodShape) -> TopologyGroup:
        """The group like this one that is there; a new one is counted first."""
        identity = group.identity
        if identity not in self.own:
            if group.node_filter is not None:
                honors = group.node_filter.taints == "Honor"
                group.register(self.universe.domains(group.topology_key, shape, honors))
            self._count(group)
            self.own[identity] = group
        return self.own[identity]

    def _count(self, group: TopologyGroup) -> None:
        """Count the pods that run, and make the domains of nodes known."""
        around, filtered = self.around, group.node_filter
        for name, labels in around.labels.items():
            node = around.nodes[name]
            if group.topology_key not in labels:
                continue
            if filtered is None or filtered.counts(node.spec.taints, self._node_sets[name]):
                group.register(group.key.bit(labels[group.topology_key]))
        selector = group.selector if group.selector is not None else LabelSelector()
        matcher = LabelSelectorMatcher(selector)
        for namespace in sorted(group.namespaces):
            for pod in self._pods_by_namespace.get(namespace, ()):
                found = around.nodes.get(pod.spec.node_name)
                if found is None or uid_of(pod) in around.excluded:
                    continue
                if not matcher.matches(pod.metadata.labels):
                    continue
                domain = found.metadata.labels.get(group.topology_key)
                if domain is None and group.on_hosts:
                    domain = found.name
                if domain is None:
                    continue
                if filtered is None or filtered.counts(found.spec.taints, self._node_sets[found.name]):
                    group.record(group.key.bit(domain))

    # ---- pods ----------------------------------------------------------------------------------------------

    def narrow(self, uid: str, shape: PodShape, host: Host) -> RequirementSet | TopologyError | str:
        """The requirements of a host, without its name, that all topologies of a pod leave; or why none."""
        own = self.owned.get(uid, ())
        worst: TopologyError | None = None
        worst_is_own = False
        found = host.requirements
        for at, group in enumerate((*own, *self._selecting(shape.labelled, self.inverse, "inverse"))):
            domains = self._domains(shape, group, host)
            if isinstance(domains, TopologyError):
                is_own = at < len(own)
                if worst is None or ((is_own or not worst_is_own) and str(domains) < str(worst)):
                    worst, worst_is_own = domains, is_own
            elif domains is not None:
                found = found.meet(self.vocabulary.set_of([domains]))
        if worst is not None:
            return worst
        if found is not host.requirements:
            refusal = host.requirements.refusal(found, host.undefined)
            if refusal:
                return refusal
        return found

    def groups_of(self, uid: str, shape: PodShape) -> tuple[list[Asked], list[Asked]]:
        """The groups that decide where a pod may be: those on hosts, and the others.

        Those on hosts are left out if the pod names hosts itself.
        """
        groups = (*self.owned.get(uid, ()), *self._selecting(shape.labelled, self.inverse, "inverse"))
        on_hosts: list[Asked] = []
        others: list[Asked] = []
        for group in groups:
            asked = group, self._selects(shape, group)
            if not group.on_hosts:
                others.append(asked)
            elif HOSTNAME not in shape.strict_requirements.by_key:
                on_hosts.append(asked)
        return on_hosts, others

    def _selects(self, shape: PodShape, group: TopologyGroup) -> bool:
        """Whether a group counts a pod of this shape."""
        known: dict[TopologyGroup, bool] = shape.memo.setdefault("selects", {})
        found = known.get(group)
        if found is None:
            found = known[group] = group.selects(shape.labelled)
        return found

    def _domains(
        self, shape: PodShape, group: TopologyGroup, host: Host
    ) -> Requirement | TopologyError | None:
        """The domains that a group leaves; None for a host that it takes."""
        strict = shape.strict_requirements.by_key.get(group.topology_key) or group.key.exists
        selects = self._selects(shape, group)
        if group.on_hosts:
            named = host.host.by_key[HOSTNAME]
            return (
                None if group.takes_host(named.mask, strict, selects) else TopologyError(group, strict, named)
            )
        nodes = host.requirements.by_key.get(group.topology_key) or group.key.exists
        mask = group.domains(strict, nodes, selects, self.ties)
        return group.key.requirement(False, mask) if mask else TopologyError(group, strict, nodes)

    def _selecting(
        self, pods: Labelled, groups: Mapping[Hashable, TopologyGroup], name: str
    ) -> list[TopologyGroup]:
        """The groups that select pods with these labels; new ones are asked once."""
        asked, found = pods.selected.get(name, (0, []))
        if asked < len(groups):
            found = found + [group for group in list(groups.values())[asked:] if group.selects(pods)]
            pods.selected[name] = (len(groups), found)
        return found

    def register_host(self, host: Host) -> None:
        """Make a host known to the groups on hosts."""
        mask = host.host.by_key[HOSTNAME].mask
        for groups in (self.own, self.inverse):
            for group in groups.values():
                if group.on_hosts:
                    group.register(mask)

    def record(self, uid: str, shape: PodShape, host: Host) -> None:
        """Count a pod that was placed on a host, in each group that it matters to."""
        for group in self._selecting(shape.labelled, self.own, "own"):
            nodes = group.node_filter
            if nodes is not None:
                seen = host.whole if nodes.names_host else host.requirements
                if not nodes.counts(host.taints, seen):
                    continue
            domains = self._of_host(group, host)
            if group.kind == ANTI_AFFINITY or domains.is_single:
                group.record(domains.mask)
        for group in self.owned_inverse.get(uid, ()):
            group.record(self._of_host(group, host).mask)

    def _of_host(self, group: TopologyGroup, host: Host) -> Requirement:
        return (host.host if group.on_hosts else host.requirements).get(group.topology_key)

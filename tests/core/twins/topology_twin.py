"""PodTopologySpread and InterPodAffinity over objects, with a look at every pod: slow and obvious."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.doors.engine import tolerates

from moorage.kube import (
    LabelSelectorMatcher,
    Node,
    NodeSelectorMatcher,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)

HOSTNAME = "kubernetes.io/hostname"
SYSTEM = (
    TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway"),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", "ScheduleAnyway"),
)
MISSING, SKEW = "missing label", "skew"
AFFINITY, ANTI, EXISTING = "affinity", "anti-affinity", "existing anti-affinity"
Term = tuple[PodAffinityTerm, int]


class Topology:
    """Nodes in list order with their pods; labels of namespaces; services. Controllers own no pod here."""

    def __init__(
        self,
        nodes: Sequence[tuple[Node, Sequence[Pod]]],
        namespaces: Mapping[str, Mapping[str, str]],
        services: Sequence[Any],
        hard_weight: int = 1,
    ) -> None:
        self.nodes, self.namespaces, self.services = nodes, namespaces, services
        self.hard_weight = hard_weight

    # ---- spread

    def constraints(self, pod: Pod, action: str) -> list[tuple[TopologySpreadConstraint, Any]]:
        """Constraints with what they select: a predicate over pods, or None for an empty selector."""
        own = pod.spec.topology_spread_constraints
        found = [(c, selects(c, pod)) for c in own if c.when_unsatisfiable == action]
        if own:
            return found
        labels: dict[str, str] = {}
        for service in self.services:
            selector = service.spec.selector
            here = service.namespace == pod.namespace and selector is not None
            if here and selector.items() <= pod.metadata.labels.items():
                labels |= selector
        if not labels:
            return []
        return [
            (c, lambda other: labels.items() <= other.metadata.labels.items())
            for c in SYSTEM
            if c.when_unsatisfiable == action
        ]

    def eligible(self, pod: Pod, constraint: TopologySpreadConstraint, node: Node) -> bool:
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        if constraint.node_affinity_policy in (None, "Honor"):
            wanted = (pod.spec.node_selector or {}).items()
            if not wanted <= node.metadata.labels.items():
                return False
            if affinity and affinity.required and not NodeSelectorMatcher(affinity.required).matches(node):
                return False
        if constraint.node_taints_policy == "Honor":
            hard = [t for t in node.spec.taints if t.effect != "PreferNoSchedule"]
            return all(tolerates(pod.spec.tolerations, taint) for taint in hard)
        return True

    def spread_rejects(self, pod: Pod) -> dict[str, str]:
        """Node to why a hard constraint rejects it."""
        constraints = self.constraints(pod, "DoNotSchedule")
        keys = [c.topology_key for c, _ in constraints]
        counts = []
        for constraint, select in constraints:
            per_value: Counter[str] = Counter()
            for node, pods in self.nodes:
                labels = node.metadata.labels
                if all(key in labels for key in keys) and self.eligible(pod, constraint, node):
                    per_value[labels[constraint.topology_key]] += matching(pod, select, pods)
            counts.append(per_value)
        out = {}
        for node, _ in self.nodes:
            for (constraint, select), per_value in zip(constraints, counts, strict=True):
                value = node.metadata.labels.get(constraint.topology_key)
                if value is None:
                    out[node.name] = MISSING
                    break
                least = min(per_value.values(), default=2**31 - 1)
                if len(per_value) < (1 if constraint.min_domains is None else constraint.min_domains):
                    least = 0
                itself = select is None or bool(select(pod))
                if per_value[value] + itself - least > constraint.max_skew:
                    out[node.name] = SKEW
                    break
        return out

    def spread_scores(self, pod: Pod, feasible: Sequence[str]) -> tuple[list[int], list[int]] | None:
        """Raw and normalized scores of the feasible nodes; None where the plugin skips."""
        constraints = self.constraints(pod, "ScheduleAnyway")
        if not constraints:
            return None
        needs_all = bool(pod.spec.topology_spread_constraints)
        by_name = {node.name: (node, pods) for node, pods in self.nodes}
        keys = [c.topology_key for c, _ in constraints]

        def lacks(node: Node) -> bool:
            return needs_all and not all(key in node.metadata.labels for key in keys)

        scored = [by_name[name][0] for name in feasible if not lacks(by_name[name][0])]
        totals: dict[str, float] = {node.name: 0.0 for node in scored}
        for constraint, select in constraints:
            key = constraint.topology_key
            values = {node.metadata.labels.get(key, "") for node in scored}
            weight = math.log((len(scored) if key == HOSTNAME else len(values)) + 2)
            counts: Counter[str] = Counter()
            for node, pods in self.nodes:
                if not lacks(node) and self.eligible(pod, constraint, node):
                    counts[node.metadata.labels.get(key, "")] += matching(pod, select, pods)
            for node in scored:
                if key in node.metadata.labels:
                    mine = matching(pod, select, by_name[node.name][1])
                    count = mine if key == HOSTNAME else counts[node.metadata.labels[key]]
                    totals[node.name] += count * weight + (constraint.max_skew - 1)
        raw = {name: math.floor(total + 0.5) for name, total in totals.items()}
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        normal = {name: 100 * (most + least - s) // most if most else 100 for name, s in raw.items()}
        return [raw.get(name, 0) for name in feasible], [normal.get(name, 0) for name in feasible]

    # ---- inter-pod affinity

    def means(self, term: PodAffinityTerm, owner: Pod, pod: Pod, live: bool) -> bool:
        """Whether a term of `owner` means `pod`. `live`: a namespace is selected by its labels, else
        only where it is known, or whatever it is by a selector that matches no labels."""
        chosen = term.namespace_selector
        names = set(term.namespaces) or ({owner.namespace} if chosen is None else set())
        if pod.namespace in names:
            inside = True
        elif chosen is None:
            inside = False
        elif live:
            inside = LabelSelectorMatcher(chosen).matches(dict(self.namespaces.get(pod.namespace, {})))
        else:
            selector, known = LabelSelectorMatcher(chosen), self.namespaces.get(pod.namespace)
            inside = selector.matches({}) or (known is not None and selector.matches(dict(known)))
        return inside and LabelSelectorMatcher(term.label_selector).matches(pod.metadata.labels)

    def affinity_rejects(self, pod: Pod) -> dict[str, str]:
        """Node to why a required term rejects it."""
        wanted, unwanted = required(pod, 0), required(pod, 1)
        met: Counter[tuple[str, str]] = Counter()
        anti: Counter[tuple[str, str]] = Counter()
        existing: Counter[tuple[str, str]] = Counter()
        for node, pods in self.nodes:
            labels = node.metadata.labels
            for other in pods:
                if wanted and all(self.means(term, pod, other, False) for term in wanted):
                    met.update(
                        (t.topology_key, labels[t.topology_key]) for t in wanted if t.topology_key in labels
                    )
                for term in unwanted:
                    if term.topology_key in labels and self.means(term, pod, other, False):
                        anti[term.topology_key, labels[term.topology_key]] += 1
                for term in required(other, 1):
                    if term.topology_key in labels and self.means(term, other, pod, True):
                        existing[term.topology_key, labels[term.topology_key]] += 1
        first = not met and bool(wanted) and all(self.means(term, pod, pod, False) for term in wanted)
        out = {}
        for node, _ in self.nodes:
            labels = node.metadata.labels
            here = [(t.topology_key, labels.get(t.topology_key)) for t in wanted]
            if any(value is None for _, value in here) or not (first or all(met[pair] for pair in here)):  # type: ignore[index]
                out[node.name] = AFFINITY
            elif any((t.topology_key, labels.get(t.topology_key)) in anti for t in unwanted):
                out[node.name] = ANTI
            elif any(pair in existing for pair in labels.items()):
                out[node.name] = EXISTING
        return out

    def affinity_scores(self, pod: Pod, feasible: Sequence[str]) -> tuple[list[int], list[int]] | None:
        """Raw and normalized scores of the feasible nodes; None where the plugin skips."""
        sums: dict[tuple[str, str], int] = {}
        for node, pods in self.nodes:
            for other in pods:
                found = [(t, w) for t, w in preferred(pod) if self.means(t, pod, other, False)]
                theirs = [(t, self.hard_weight) for t in required(other, 0) if self.hard_weight]
                theirs += preferred(other)
                found += [(t, w) for t, w in theirs if self.means(t, other, pod, True)]
                for term, weight in found:
                    value = node.metadata.labels.get(term.topology_key)
                    if value is not None:
                        pair = term.topology_key, value
                        sums[pair] = sums.get(pair, 0) + weight
        if not sums:
            return None
        labels = {node.name: node.metadata.labels for node, _ in self.nodes}
        raw = [sum(sums.get(pair, 0) for pair in labels[name].items()) for name in feasible]
        least, most = min(raw, default=0), max(raw, default=0)
        spread = float(most - least)
        return raw, [int(100.0 * (float(s - least) / spread)) if most > least else 0 for s in raw]


def selects(constraint: TopologySpreadConstraint, pod: Pod) -> Any:
    selector = constraint.label_selector
    keys = {
        key: pod.metadata.labels[key] for key in constraint.match_label_keys if key in pod.metadata.labels
    }
    if selector is not None and not keys and not selector.match_labels and not selector.match_expressions:
        return None
    base = LabelSelectorMatcher(selector)
    return lambda other: base.matches(other.metadata.labels) and keys.items() <= other.metadata.labels.items()


def matching(pod: Pod, select: Any, pods: Sequence[Pod]) -> int:
    """Pods of this namespace that are selected and do not terminate."""
    if select is None:
        return 0
    return sum(
        other.namespace == pod.namespace and other.metadata.deletion_timestamp is None and bool(select(other))
        for other in pods
    )


def side(pod: Pod, anti: int) -> Any:
    affinity = pod.spec.affinity
    return affinity and (affinity.pod_anti_affinity if anti else affinity.pod_affinity)


def required(pod: Pod, anti: int) -> Sequence[PodAffinityTerm]:
    found = side(pod, anti)
    return found.required if found else ()


def preferred(pod: Pod) -> list[Term]:
    sides = [(side(pod, anti), -1 if anti else 1) for anti in (0, 1)]
    return [(w.pod_affinity_term, sign * w.weight) for one, sign in sides if one for w in one.preferred]

"""Who has to go from a node for a pod to fit there: over objects, one copy of a node after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.core.twins.topology_twin import Topology, required
from tests.doors.engine import required_features, tolerates

from moorage.kube import LabelSelectorMatcher, Node, NodeSelectorMatcher, Pod, PodDisruptionBudget, Taint

Pair = tuple[str, str]
Rejection = tuple[str, tuple[str, ...], bool]  # plugin, reasons, whether it is for good
NO_VICTIMS: Rejection = ("", ("No preemption victims found for incoming pod",), True)
NOT_STARTED = "9999-12-31T00:00:00Z"
LATE = 2**31 - 1
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass
class NodeState:
    """A node with its pods; ports are a set, as upstream's HostPortInfo."""

    node: Node
    pods: list[Pod] = field(default_factory=list)
    ports: set[tuple[str, str, int]] = field(default_factory=set)

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.ports |= ports_of(pod)

    def remove(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self.ports -= ports_of(pod)

    def copy(self) -> NodeState:
        return NodeState(self.node, list(self.pods), set(self.ports))


@dataclass(frozen=True)
class Evictions:
    """What one dry run came to: a rejection, or victims by importance."""

    rejection: Rejection | None
    victims: tuple[str, ...] = ()
    violations: int = 0


def ports_of(pod: Pod) -> set[tuple[str, str, int]]:
    ports = [port for container in pod.spec.containers for port in container.ports]
    return {(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port) for port in ports}


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def start(pod: Pod) -> str:
    return pod.status.start_time or NOT_STARTED


def requests(pod: Pod) -> dict[str, int]:
    return {name: int(raw) for name, raw in pod.spec.containers[0].resources.requests.items()}


class Counts:
    """What PreFilter counts for a pod, and what RemovePod and AddPod make of it."""

    def __init__(self, topology: Topology, pod: Pod) -> None:
        self.topology, self.pod = topology, pod
        self.constraints = topology.constraints(pod, "DoNotSchedule")
        self.keys = [constraint.topology_key for constraint, _ in self.constraints]
        self.spread: list[dict[str, int]] = [{} for _ in self.constraints]
        self.affinity, self.anti, self.existing = Counter[Pair](), Counter[Pair](), Counter[Pair]()
        self.wanted, self.unwanted = required(pod, 0), required(pod, 1)
        for node, pods in topology.nodes:
            for at, (constraint, select) in enumerate(self.constraints):
                if self.counts(constraint, node):
                    value = node.metadata.labels[constraint.topology_key]
                    self.spread[at].setdefault(value, 0)
                    self.spread[at][value] += sum(
                        select is not None
                        and other.namespace == pod.namespace
                        and other.metadata.deletion_timestamp is None
                        and bool(select(other))
                        for other in pods
                    )
            for other in pods:
                self.move_terms(other, node, 1)
        self.skips_terms = not self.wanted and not self.unwanted and not self.existing

    def counts(self, constraint: Any, node: Node) -> bool:
        labels = node.metadata.labels
        return all(key in labels for key in self.keys) and self.topology.eligible(self.pod, constraint, node)

    def copy(self) -> Counts:
        out = object.__new__(Counts)
        out.__dict__.update(self.__dict__)
        out.spread = [dict(one) for one in self.spread]
        out.affinity, out.anti, out.existing = (Counter(c) for c in (self.affinity, self.anti, self.existing))
        return out

    def move(self, other: Pod, node: Node, sign: int) -> None:
        for at, (constraint, select) in enumerate(self.constraints):
            same = other.namespace == self.pod.namespace and (select is None or bool(select(other)))
            if same and self.counts(constraint, node):
                self.spread[at][node.metadata.labels[constraint.topology_key]] += sign
        self.move_terms(other, node, sign)

    def move_terms(self, other: Pod, node: Node, sign: int) -> None:
        labels, means = node.metadata.labels, self.topology.means
        if self.wanted and all(means(term, self.pod, other, False) for term in self.wanted):
            for term in self.wanted:
                if term.topology_key in labels:
                    bump(self.affinity, (term.topology_key, labels[term.topology_key]), sign)
        for term in self.unwanted:
            if term.topology_key in labels and means(term, self.pod, other, False):
                bump(self.anti, (term.topology_key, labels[term.topology_key]), sign)
        for term in required(other, 1):
            if term.topology_key in labels and means(term, other, self.pod, True):
                bump(self.existing, (term.topology_key, labels[term.topology_key]), sign)

    def spread_rejects(self, node: Node) -> Rejection | None:
        text = "node(s) didn't match pod topology spread constraints"
        for (constraint, select), counts in zip(self.constraints, self.spread, strict=True):
            value = node.metadata.labels.get(constraint.topology_key)
            if value is None:
                return "PodTopologySpread", (f"{text} (missing required label)",), True
            least = min(counts.values(), default=LATE)
            if len(counts) < (1 if constraint.min_domains is None else constraint.min_domains):
                least = 0
            itself = select is None or bool(select(self.pod))
            if counts.get(value, 0) + itself - least > constraint.max_skew:
                return "PodTopologySpread", (text,), False
        return None

    def terms_reject(self, node: Node) -> Rejection | None:
        labels = node.metadata.labels
        here = [(term.topology_key, labels.get(term.topology_key)) for term in self.wanted]
        first = not self.affinity and all(
            self.topology.means(term, self.pod, self.pod, False) for term in self.wanted
        )
        met = all(self.affinity[pair] > 0 for pair in here)  # type: ignore[index]
        name = "InterPodAffinity"
        if self.skips_terms:
            return None
        if any(value is None for _, value in here) or not (met or first):
            return name, ("node(s) didn't match pod affinity rules",), True
        unwanted = {term.topology_key for term in self.unwanted}
        if any(self.anti[pair] > 0 for pair in labels.items() if pair[0] in unwanted):
            return name, ("node(s) didn't match pod anti-affinity rules",), False
        if any(self.existing[pair] > 0 for pair in labels.items()):
            return name, ("node(s) didn't satisfy existing pods anti-affinity rules",), False
        return None


def bump(counts: Counter[Pair], pair: Pair, sign: int) -> None:
    counts[pair] += sign
    if not counts[pair]:
        del counts[pair]


def fit_rejects(pod: Pod, on: NodeState) -> Rejection | None:
    wanted = requests(pod)
    order = sorted(wanted, key=lambda name: (["cpu", "memory"].index(name) if "/" not in name else 2, name))
    reasons = []
    allocatable = {name: int(raw) for name, raw in on.node.status.allocatable.items()}
    if len(on.pods) + 1 > allocatable["pods"]:
        reasons.append("Too many pods")
    above = False
    for name in order:
        used = sum(requests(other).get(name, 0) for other in on.pods)
        if wanted[name] > 0 and wanted[name] > allocatable.get(name, 0) - used:
            reasons.append(f"Insufficient {name}")
            above |= wanted[name] > allocatable.get(name, 0)
    return ("NodeResourcesFit", tuple(reasons), above) if reasons else None


def rejects(pod: Pod, on: NodeState, counts: Counts) -> Rejection | None:
    """All filters in their order."""
    node = on.node
    hard = [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]
    if node.spec.unschedulable and not tolerates(pod.spec.tolerations, UNSCHEDULABLE):
        return "NodeUnschedulable", ("node(s) were unschedulable",), True
    if not all(tolerates(pod.spec.tolerations, taint) for taint in hard):
        return "TaintToleration", ("node(s) had untolerated taint(s)",), True
    selector, affinity = (pod.spec.node_selector or {}).items(), pod.spec.affinity
    wanted = affinity and affinity.node_affinity and affinity.node_affinity.required
    if not selector <= node.metadata.labels.items() or (
        wanted and not NodeSelectorMatcher(wanted).matches(node)
    ):
        return "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), True
    for ip, protocol, number in ports_of(pod):
        for taken in on.ports:
            if (protocol, number) == taken[1:] and ("0.0.0.0" in (ip, taken[0]) or ip == taken[0]):
                return "NodePorts", ("node(s) didn't have free ports for the requested pod ports",), False
    rejection = fit_rejects(pod, on) or counts.spread_rejects(node) or counts.terms_reject(node)
    if not rejection and not set(required_features(pod.spec)) <= set(node.status.declared_features):
        return "NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",), True
    return rejection


@dataclass
class Twin:
    """A cluster, and the pods nominated to its nodes that go before the pod in question."""

    topology: Topology
    nominated: Mapping[str, Sequence[Pod]]
    budgets: Sequence[PodDisruptionBudget]
    whole: Mapping[str, int] = field(default_factory=dict)  # priority by name of the groups that go whole
    single: Mapping[str, int] = field(default_factory=dict)  # priority by name of other groups that exist
    stops: bool = False  # a pod counts against no budget after the first that it violates

    def fails(self, pod: Pod, on: NodeState, counts: Counts) -> Rejection | None:
        """With the nominated pods, and without."""
        before = self.nominated.get(on.node.name, ())
        if before:
            there, then = on.copy(), counts.copy()
            for one in before:
                there.add(one)
                then.move(one, on.node, 1)
            rejection = rejects(pod, there, then)
            if rejection is not None:
                return rejection
        return rejects(pod, on, counts)

    def violating(self, pods: Sequence[Pod]) -> list[bool]:
        left = [budget.status.disruptions_allowed for budget in self.budgets]
        out = []
        for pod in pods:
            violates = False
            for at, budget in enumerate(self.budgets):
                selector = budget.spec.selector
                if budget.namespace != pod.namespace or selector is None or not pod.metadata.labels:
                    continue
                if not selector.match_labels and not selector.match_expressions:
                    continue
                matches = LabelSelectorMatcher(selector).matches(pod.metadata.labels)
                if matches and pod.name not in budget.status.disrupted_pods:
                    left[at] -= 1
                    violates |= left[at] < 0
                    if violates and self.stops:
                        break
            out.append(violates)
        return out

    def unit(self, pod: Pod) -> tuple[list[Pod], int, bool]:
        """The pods that go with one, the most important first; priority; whether they are of a group."""
        group = whole_group(pod, self.whole)
        if group is None and pod.spec.scheduling_group is not None:
            exists = pod.namespace == "default"
            known = self.single.get(pod.spec.scheduling_group.pod_group_name) if exists else None
            return [pod], priority(pod) if known is None else known, True
        if group is None:
            return [pod], priority(pod), False
        everywhere = (other for _, pods in self.topology.nodes for other in pods)
        members = [other for other in everywhere if whole_group(other, self.whole) == group]
        members.sort(key=lambda other: (-priority(other), start(other), other.name))
        return members, self.whole[group[1]], True

    def dry_run(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> Evictions:
        """SelectVictimsOnNode (kube-scheduler v1.36), with groups (v1.37)."""
        on, counts = NodeState(node), Counts(self.topology, pod)
        for other in pods:
            on.add(other)
        units: list[tuple[list[Pod], int, bool]] = []
        for other in pods:
            if not any(other in unit for unit, _, _ in units):
                units.append(self.unit(other))
        lower = [each for each in units if each[1] < priority(pod)]
        for unit, _, _ in lower:
            self.move(unit, on, counts, -1)
        if not lower:
            return Evictions(NO_VICTIMS)
        rejection = self.fails(pod, on, counts)
        if rejection is not None:
            return Evictions(rejection)
        keys = {id(each): (-each[1], not each[2], -len(each[0]), min(map(start, each[0]))) for each in lower}
        lower.sort(key=lambda each: keys[id(each)])
        violating = iter(self.violating([other for unit, _, _ in lower for other in unit]))
        costs = [sum(next(violating) for _ in unit) for unit, _, _ in lower]
        gone: list[int] = []
        for which in (True, False):
            for at, (unit, _, _) in enumerate(lower):
                if bool(costs[at]) != which:
                    continue
                self.move(unit, on, counts, 1)
                if self.fails(pod, on, counts) is not None:
                    self.move(unit, on, counts, -1)
                    gone.append(at)
        gone.sort(key=lambda at: keys[id(lower[at])])
        names = tuple(other.name for at in gone for other in lower[at][0])
        return Evictions(None, names, sum(costs[at] for at in gone))

    def move(self, unit: Sequence[Pod], on: NodeState, counts: Counts, sign: int) -> None:
        """Add or remove the pods of a unit, on the node in question and elsewhere."""
        nodes = {node.name: node for node, _ in self.topology.nodes}
        for pod in unit:
            if pod.spec.node_name == on.node.name:
                (on.add if sign > 0 else on.remove)(pod)
            counts.move(pod, nodes[pod.spec.node_name], sign)


def whole_group(pod: Pod, whole: Mapping[str, int]) -> tuple[str, str] | None:
    """Namespace and name of a pod's group, if it goes whole; groups are of the namespace default."""
    group = pod.spec.scheduling_group
    if group is None or group.pod_group_name not in whole or pod.namespace != "default":
        return None
    return pod.namespace, group.pod_group_name


def rank(pods: Sequence[Pod], violations: int) -> tuple[Any, ...]:
    """Smaller is better (pickOneNodeForPreemption); the earliest start among the most important victims goes
    the other way."""
    highest = max(map(priority, pods))
    later = [-ord(letter) for letter in min(start(pod) for pod in pods if priority(pod) == highest)]
    return violations, priority(pods[0]), sum(priority(pod) + 2**31 for pod in pods), len(pods), later

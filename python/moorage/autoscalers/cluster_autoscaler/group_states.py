"""Node groups: which of their nodes are ready, how many they lack, and what a new node looks like."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from moorage.kube import Node, ObjectMeta, Pod
from moorage.kube.model.cluster import seconds
from moorage.kube.model.node import HOSTNAME
from moorage.kube.model.pod import MIRROR_ANNOTATION
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.workload import DaemonSet
from moorage.kube.workloads.daemon_pods import should_run
from moorage.kube.workloads.missing_pods import daemon_spec, new_pod
from moorage.lazy import NamedTuple

from .flags import Flags, Memory, ScaledGroup, ScaleUpRequest

# ---- which nodes are ready, and which groups lack nodes ----------------------------------------------------

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
_STARTUP_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
_NOT_READY_TAINTS = frozenset(
    f"node.kubernetes.io/{name}" for name in ("not-ready", "disk-pressure", "network-unavailable")
)
_BAD = {"Ready": ("False", "Unknown"), "DiskPressure": ("True",), "NetworkUnavailable": ("True",)}
FIRST_BACKOFF, LONGEST_BACKOFF, BACKOFF_RESET = 300.0, 1800.0, 3 * 3600.0


def is_startup_taint(key: str, flags: Flags) -> bool:
    """Whether a taint says that its node is not ready yet."""
    return key in flags.startup_taints or key.startswith(_STARTUP_PREFIXES)


class NodeState(NamedTuple):
    """Whether a node is ready, since when (seconds since 1970), and when it was created."""

    is_ready: bool
    since: float
    created: float


def node_state(node: Node, flags: Flags, lacks_devices: bool) -> NodeState:
    created = _time(node.metadata.creation_timestamp)
    if lacks_devices or any(is_startup_taint(taint.key, flags) for taint in node.spec.taints):
        return NodeState(False, created, created)
    conditions = [condition for condition in node.status.conditions if condition.type in _BAD]
    bad = any(condition.status in _BAD[condition.type] for condition in conditions)
    taints = [taint for taint in node.spec.taints if taint.key in _NOT_READY_TAINTS]
    times = [condition.last_transition_time for condition in conditions] + [
        taint.time_added for taint in taints
    ]
    # Simulated nodes have no conditions: they are ready from the start.
    return NodeState(not bad and not taints, max(map(_time, times), default=-math.inf), created)


def _time(timestamp: str | None) -> float:
    return seconds(timestamp) if timestamp else -math.inf


def _complete_pools(slices: Iterable[ResourceSlice]) -> Counter[str]:
    """Return how many pools have all their slices, by driver."""
    counts: dict[tuple[str, str], tuple[int, int, int]] = {}
    for device_slice in slices:
        pool, key = device_slice.spec.pool, (device_slice.spec.driver, device_slice.spec.pool.name)
        generation, count, _ = counts.get(key, (-1, 0, 0))
        if pool.generation > generation:
            count = 0
        elif pool.generation < generation:
            continue
        counts[key] = pool.generation, count + 1, pool.resource_slice_count
    return Counter(driver for (driver, _), (_, count, size) in counts.items() if count == size)


@dataclass
class ClusterStates:
    """What a loop finds: nodes, whether they are ready, and the sizes and health of the groups.

    Attributes
    ----------
    members, not_started : dict of str to list of str
        Nodes of each group; those that have not started yet.
    ready, unready : Counter
        Nodes by group, "" for those of none.
    """

    flags: Flags
    memory: Memory
    groups: Mapping[str, ScaledGroup]
    nodes: Sequence[Node]
    slices: Mapping[str, Sequence[ResourceSlice]]
    group_of: Mapping[str, str]
    now: float

    def __post_init__(self) -> None:
        memory = self.memory
        self._pools = {  # that a node of each group should have, by driver
            name: _complete_pools(
                memory.templates[name].slices if name in memory.templates else group.template_slices
            )
            for name, group in self.groups.items()
        }
        self.of = {node.name: self._state(node) for node in self.nodes}
        self.members: dict[str, list[str]] = {name: [] for name in self.groups}
        self.not_started: dict[str, list[str]] = {name: [] for name in self.groups}
        self.ready, self.unready = Counter[str](), Counter[str]()
        for name, state in self.of.items():
            self._count(name, self.group_of.get(name), state)
        for name, group in self.groups.items():
            size = len(self.members[name]) + len(group.instances) if group.target is None else group.target
            memory.targets.setdefault(name, size)
            if group.requested is not None and math.isinf(memory.latest):
                memory.requests[name] = ScaleUpRequest(group.requested[0], self.now - group.requested[1])
        self._follow_requests()
        self._drop_failed_instances()

    def _state(self, node: Node) -> NodeState:
        lacks = self._lacks_devices(node)
        find = partial(node_state, node, self.flags, lacks)
        return self.memory.facts.kept(("state", node.name), (node, lacks), find)

    def _lacks_devices(self, node: Node) -> bool:
        """Whether a node has fewer device pools than its group says."""
        needs = self._pools.get(self.group_of.get(node.name, ""))
        if not needs:
            return False
        has = _complete_pools(self.slices.get(node.name, ()))
        return any(has[driver] < count for driver, count in needs.items())

    def _count(self, name: str, group: str | None, state: NodeState) -> None:
        if group is not None:
            self.members[group].append(name)
        if state.is_ready:
            self.ready[group or ""] += 1
        elif state.created + self.flags.max_node_startup_time <= self.now:
            self.unready[group or ""] += 1
        elif group is not None:
            self.not_started[group].append(name)

    def usable(self) -> int:
        """Return how many nodes are ready and not cordoned."""
        return sum(self.of[node.name].is_ready and not node.spec.unschedulable for node in self.nodes)

    def target(self, group: str) -> int:
        """Return the size that was asked for."""
        return self.memory.targets[group]

    def _missing(self, group: str) -> int:
        return self.target(group) - self.ready[group] - self.unready[group]

    def _follow_requests(self) -> None:
        """Forget scale-ups that are complete; those that took too long have failed."""
        memory = self.memory
        for group, request in [*memory.requests.items()]:
            if self._missing(group) <= 0:
                del memory.requests[group]
            elif request.time + self.flags.max_node_provision_time < self.now:
                self.back_off(group)
                memory.targets[group] = max(len(self.members[group]), self.target(group) - request.nodes)
                del memory.requests[group]

    def _drop_failed_instances(self) -> None:
        """Give up machines that could not be created, and back off from their groups."""
        memory = self.memory
        for group in self.groups.values():
            failed = [
                instance.id
                for instance in group.instances
                if instance.error and instance.id not in memory.failed_instances
            ]
            if failed and group.name in memory.requests and self._missing(group.name) > 0:
                self.back_off(group.name)
                memory.requests[group.name].nodes -= len(failed)
                if memory.requests[group.name].nodes <= 0:
                    del memory.requests[group.name]
            memory.failed_instances.update(failed)
            memory.targets[group.name] -= len(failed)

    def back_off(self, group: str) -> None:
        """Leave a group alone after a failure: for 5 minutes, then twice as long each time."""
        until, length = self.memory.backoffs.get(group, (-math.inf, 0.0))
        again = self.now < until + BACKOFF_RESET and length > 0
        length = min(2 * length, LONGEST_BACKOFF) if again else FIRST_BACKOFF
        self.memory.backoffs[group] = self.now + length, length

    def is_backed_off(self, group: str) -> bool:
        """Whether a group is left alone now."""
        return self.now < self.memory.backoffs.get(group, (-math.inf, 0.0))[0]

    def is_cluster_healthy(self) -> bool:
        """Whether few enough nodes of the cluster are unready."""
        return self._few(self.unready.total(), len(self.nodes))

    def is_healthy(self, group: str) -> bool:
        """Whether a group has about the ready nodes that it should have."""
        target, requested = self.target(group), self.memory.requests.get(group)
        least = target - (requested.nodes if requested is not None else 0)
        registered = len(self.members[group]) or len(self.groups[group].instances)
        if not registered:
            return target == 0 or (least == 0 and target > 0)
        nodes = self.ready[group] + self.unready[group] + len(self.not_started[group])
        return self._few(max(0, least - self.ready[group]), nodes)

    def _few(self, count: int, of: int) -> bool:
        flags = self.flags
        return count <= flags.ok_total_unready_count or count <= flags.max_total_unready_percentage / 100 * of

    def upcoming(self) -> dict[str, int]:
        """Return how many nodes are expected, by group: only where a scale-up is under way."""
        counts = {name: self._missing(name) for name in self.groups if name in self.memory.requests}
        return {name: count for name, count in counts.items() if count > 0 and not self.is_backed_off(name)}


# ---- what a new node of a group looks like: a copy of a real node where there is a good one ----------------

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"
STABLE = 60.0
"""Seconds after which a ready node is a good example of its group."""
_DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
_PASSING = frozenset(
    (
        *(TO_BE_DELETED, "DeletionCandidateOfClusterAutoscaler", "NodeWithImpairedVolumes"),
        *("cloud.google.com/impending-node-termination", "node.kubernetes.io/network-unavailable"),
        *(f"node.cloudprovider.kubernetes.io/{name}" for name in ("uninitialized", "shutdown")),
        *(f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable", "unschedulable")),
        *(f"node.kubernetes.io/{name}-pressure" for name in ("memory", "disk", "pid")),
    )
)
_OLD_LABELS = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}


@dataclass(frozen=True)
class NodeTemplate:
    """A new node of a group, with the pods and device slices that it has from the start; `like` is the node
    that it copies, or ""."""

    node: Node
    pods: tuple[Pod, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    like: str = ""

    def copy(self, suffix: str) -> NodeTemplate:
        """Return another node of the group; the suffix makes its name and those of its pods."""
        name = f"{self.node.name}-{suffix}"
        pods = tuple([_fresh_pod(pod, name, suffix) for pod in self.pods])
        slices = _fresh_slices(self.slices, name, suffix)
        return NodeTemplate(_renamed(self.node, name), pods, slices)


def is_daemon_pod(pod: Pod) -> bool:
    """Whether a pod counts as one of a DaemonSet."""
    owner = pod.metadata.controller()
    return (owner is not None and owner.kind == "DaemonSet") or (
        pod.metadata.annotations.get(_DAEMON_POD) == "true"
    )


def is_mirror_pod(pod: Pod) -> bool:
    """Whether a pod mirrors a static one."""
    return MIRROR_ANNOTATION in pod.metadata.annotations


class TemplateMaker(Struct, frozen=True):
    """Makes the templates of groups.

    Parameters
    ----------
    pods_of : callable
        Returns the pods on a node.
    """

    states: ClusterStates
    daemon_sets: Sequence[DaemonSet]
    pods_of: Callable[[str], Iterable[Pod]]

    def all(self) -> dict[str, NodeTemplate]:
        """Return the template of each group that has one: of its first good node, else the one remembered,
        else the provider's, else of a bad node."""
        known, templates = self.states.memory.templates, dict[str, NodeTemplate]()
        good, bad = list[Node](), list[Node]()
        for node in self.states.nodes:
            state, spec = self.states.of[node.name], node.spec
            is_stable = state.is_ready and state.since + STABLE < self.states.now
            goes = spec.unschedulable or any(taint.key == TO_BE_DELETED for taint in spec.taints)
            (good if is_stable and not goes else bad).append(node)
        self._add_of_nodes(good, templates)
        known |= templates
        for name, group in self.states.groups.items():
            if name not in templates and name in known:
                templates[name] = known[name]
            elif name not in templates and group.template is not None:
                templates[name] = self._of_group(group, group.template)
        self._add_of_nodes(bad, templates)
        return templates

    def _add_of_nodes(self, nodes: Iterable[Node], templates: dict[str, NodeTemplate]) -> None:
        """Add templates of groups without one, like the first of some nodes."""
        for node in nodes:
            group = self.states.group_of.get(node.name)
            if group is not None and group not in templates:
                slices = self.states.slices.get(node.name, ())
                template = self._made(node, group, self.pods_of(node.name), self.states.flags.force_ds)
                templates[group] = replace_fields(
                    template, slices=_fresh_slices(slices, template.node.name, "t"), like=node.name
                )

    def _of_group(self, group: ScaledGroup, template: Node) -> NodeTemplate:
        labels = template.metadata.labels
        old = {name: labels[new] for new, name in _OLD_LABELS.items() if new in labels}
        node = replace(template, metadata=replace(template.metadata, labels=labels | old))
        new = self._made(node, group.name, group.template_pods, True)
        return replace_fields(new, slices=_fresh_slices(group.template_slices, new.node.name, "t"))

    def _made(self, node: Node, group: str, pods: Iterable[Pod], forces: bool) -> NodeTemplate:
        """A template with mirror pods and those of DaemonSets: all of them that may run there if `forces`."""
        clean = self._clean(node, f"template-node-for-{group}")
        there = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        kept = [pod for pod in there if is_mirror_pod(pod) or is_daemon_pod(pod)]
        owners = [owner for pod in there if (owner := pod.metadata.controller()) is not None]
        running = {owner.uid for owner in owners if owner.kind == "DaemonSet"}
        for daemon_set in self.daemon_sets:
            if daemon_set.metadata.uid not in running and should_run(daemon_spec(daemon_set), clean):
                pod = new_pod(
                    daemon_set, daemon_set.spec.template, name=daemon_set.name, spec=daemon_spec(daemon_set)
                )
                is_critical = pod.spec.priority_class_name == "system-node-critical"
                if forces or (is_critical and pod.spec.preemption_policy in (None, "PreemptLowerPriority")):
                    kept.append(pod)
        fresh = tuple([_fresh_pod(pod, clean.name, "t") for pod in kept])
        labels = clean.metadata.labels | {TEMPLATE_LABEL: "true"}
        return NodeTemplate(replace(clean, metadata=replace(clean.metadata, labels=labels)), fresh)

    def _clean(self, node: Node, name: str) -> Node:
        """A copy without what belongs to the moment."""
        status = (*self.states.flags.status_taints, _STATUS_PREFIX)
        taints = tuple(
            taint
            for taint in node.spec.taints
            if taint.key not in _PASSING
            and not is_startup_taint(taint.key, self.states.flags)
            and not (taint.key in status or taint.key.startswith(_STATUS_PREFIX))
        )
        cordoned = node.spec.unschedulable and not self.states.flags.scale_from_unschedulable
        spec = replace(node.spec, taints=taints, unschedulable=cordoned)
        return _renamed(replace(node, spec=spec), name)


def _renamed(node: Node, name: str) -> Node:
    meta = node.metadata
    labels = meta.labels | {HOSTNAME: name}
    return replace(node, metadata=ObjectMeta(name=name, labels=labels, annotations=meta.annotations))


def _fresh_slices(slices: Iterable[ResourceSlice], node: str, suffix: str) -> tuple[ResourceSlice, ...]:
    """Slices of the same devices on another node, in pools of its own."""
    out = []
    for device_slice in slices:
        pool = replace(device_slice.spec.pool, name=f"{device_slice.spec.pool.name}-{suffix}")
        spec = replace(device_slice.spec, node_name=node, pool=pool)
        out.append(
            replace(device_slice, metadata=ObjectMeta(name=f"{device_slice.name}-{suffix}"), spec=spec)
        )
    return tuple(out)


def _fresh_pod(pod: Pod, node: str, suffix: str) -> Pod:
    meta = pod.metadata
    name = f"{meta.name}-{suffix}"
    meta = replace(meta, name=name, uid=f"{meta.namespace}/{name}@{node}", resource_version="")
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))

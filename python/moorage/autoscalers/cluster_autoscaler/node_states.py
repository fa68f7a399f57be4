"""Which nodes are ready, and which groups lack nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moorage.kube import Node
from moorage.kube.model.cluster import seconds
from moorage.kube.model.resource_slices import ResourceSlice

from .flags import Flags, Memory, NodeGroup, ScaleUpRequest

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


def _state(node: Node, flags: Flags, lacks_devices: bool) -> NodeState:
    created = _time(node.metadata.creation_timestamp)
    if lacks_devices or any(is_startup_taint(taint.key, flags) for taint in node.spec.taints):
        return NodeState(False, created, created)
    conditions = [one for one in node.status.conditions if one.type in _BAD]
    bad = any(one.status in _BAD[one.type] for one in conditions)
    taints = [taint for taint in node.spec.taints if taint.key in _NOT_READY_TAINTS]
    times = [one.last_transition_time for one in conditions] + [taint.time_added for taint in taints]
    # Simulated nodes have no conditions: they are ready from the start.
    return NodeState(not bad and not taints, max(map(_time, times), default=-math.inf), created)


def _time(timestamp: str | None) -> float:
    return seconds(timestamp) if timestamp else -math.inf


def _complete_pools(slices: Iterable[ResourceSlice]) -> Counter[str]:
    """Return how many pools have all their slices, by driver."""
    counts: dict[tuple[str, str], tuple[int, int, int]] = {}
    for one in slices:
        pool, key = one.spec.pool, (one.spec.driver, one.spec.pool.name)
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

    Parameters
    ----------
    slices : mapping of str to sequence of ResourceSlice
        By node.
    group_of : mapping of str to str
        Group by node.

    Attributes
    ----------
    of : dict of str to NodeState
        By node.
    members, not_started : dict of str to list of str
        Nodes of each group; those that have not started yet.
    ready, unready : Counter
        Nodes by group, "" for those of none.
    """

    flags: Flags
    memory: Memory
    groups: Mapping[str, NodeGroup]
    nodes: Sequence[Node]
    slices: Mapping[str, Sequence[ResourceSlice]]
    group_of: Mapping[str, str]
    now: float

    def __post_init__(self) -> None:
        memory = self.memory
        self.of = {node.name: _state(node, self.flags, self._lacks_devices(node)) for node in self.nodes}
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

    def _lacks_devices(self, node: Node) -> bool:
        """Whether a node has fewer device pools than its group says."""
        group = self.groups.get(self.group_of.get(node.name, ""))
        if group is None:
            return False
        known = self.memory.templates.get(group.name)
        needs = _complete_pools(group.template_slices if known is None else known.slices)
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
                one.id for one in group.instances if one.error and one.id not in memory.failed_instances
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

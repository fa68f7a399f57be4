"""Which nodes are ready, and which groups lack nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.objects import Node
from moorage.objects.model.resource_slices import ResourceSlice
from moorage.objects.workloads.ages import seconds

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


class NodeStates:
    """The readiness of nodes.

    Parameters
    ----------
    lacks_devices : callable
        Whether a node has fewer device pools than its group says.
    """

    def __init__(self, nodes: Sequence[Node], flags: Flags, lacks_devices: Callable[[Node], bool]) -> None:
        self.nodes = nodes
        self._states = {node.name: _state(node, flags, lacks_devices(node)) for node in nodes}

    def of(self, name: str) -> NodeState:
        """Return the state of a node."""
        return self._states[name]

    def ready(self) -> int:
        """Return how many nodes are ready and not cordoned."""
        return sum(self.of(node.name).is_ready and not node.spec.unschedulable for node in self.nodes)


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


def complete_pools(slices: Iterable[ResourceSlice]) -> Counter[str]:
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


class GroupStates:
    """Sizes and health of the groups, as far as their nodes show them.

    Parameters
    ----------
    group_of : mapping of str to str
        Group by node.
    """

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        flags: Flags,
        states: NodeStates,
        group_of: Mapping[str, str],
        memory: Memory,
        now: float,
    ) -> None:
        self.groups = {group.name: group for group in groups}
        self._flags, self._memory, self._now = flags, memory, now
        self.nodes: dict[str, list[str]] = {group.name: [] for group in groups}
        self.ready, self._unready = Counter[str](), Counter[str]()
        self.not_started: dict[str, list[str]] = {group.name: [] for group in groups}
        self.total_unready, self.total = 0, len(states.nodes)
        for node in states.nodes:
            self._count(node.name, group_of.get(node.name), states.of(node.name))
        for group in groups:
            size = (
                len(self.nodes[group.name]) + len(group.instances) if group.target is None else group.target
            )
            memory.targets.setdefault(group.name, size)
            if group.requested is not None and math.isinf(memory.latest):
                memory.requests[group.name] = ScaleUpRequest(group.requested[0], now - group.requested[1])
        self._follow_requests()
        self._drop_failed_instances()

    def _count(self, name: str, group: str | None, state: NodeState) -> None:
        if group is not None:
            self.nodes[group].append(name)
        if state.is_ready:
            self.ready[group or ""] += 1
        elif state.created + self._flags.max_node_startup_time > self._now:
            if group is not None:
                self.not_started[group].append(name)
        else:
            self.total_unready += 1
            self._unready[group or ""] += 1

    def target(self, group: str) -> int:
        """Return the size that was asked for."""
        return self._memory.targets[group]

    def _missing(self, group: str) -> int:
        return self.target(group) - self.ready[group] - self._unready[group]

    def _follow_requests(self) -> None:
        """Forget scale-ups that are complete; those that took too long have failed."""
        memory = self._memory
        for group, request in [*memory.requests.items()]:
            if self._missing(group) <= 0:
                del memory.requests[group]
            elif request.time + self._flags.max_node_provision_time < self._now:
                self.back_off(group)
                memory.targets[group] = max(len(self.nodes[group]), self.target(group) - request.nodes)
                del memory.requests[group]

    def _drop_failed_instances(self) -> None:
        """Give up machines that could not be created, and back off from their groups."""
        memory = self._memory
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
        until, length = self._memory.backoffs.get(group, (-math.inf, 0.0))
        again = self._now < until + BACKOFF_RESET and length > 0
        length = min(2 * length, LONGEST_BACKOFF) if again else FIRST_BACKOFF
        self._memory.backoffs[group] = self._now + length, length

    def is_backed_off(self, group: str) -> bool:
        """Whether a group is left alone now."""
        return self._now < self._memory.backoffs.get(group, (-math.inf, 0.0))[0]

    def is_cluster_healthy(self) -> bool:
        """Whether few enough nodes of the cluster are unready."""
        return self._few(self.total_unready, self.total)

    def is_healthy(self, group: str) -> bool:
        """Whether a group has about the ready nodes that it should have."""
        target, requested = self.target(group), self._memory.requests.get(group)
        least = target - (requested.nodes if requested is not None else 0)
        registered = len(self.nodes[group]) or len(self.groups[group].instances)
        if not registered:
            return target == 0 or (least == 0 and target > 0)
        nodes = self.ready[group] + self._unready[group] + len(self.not_started[group])
        return self._few(max(0, least - self.ready[group]), nodes)

    def _few(self, count: int, of: int) -> bool:
        flags = self._flags
        return count <= flags.ok_total_unready_count or count <= flags.max_total_unready_percentage / 100 * of

    def upcoming(self) -> dict[str, int]:
        """Return how many nodes are expected, by group: only where a scale-up is under way."""
        counts = {name: self._missing(name) for name in self.groups if name in self._memory.requests}
        return {name: count for name, count in counts.items() if count > 0 and not self.is_backed_off(name)}

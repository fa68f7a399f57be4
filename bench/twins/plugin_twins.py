"""Each native plugin's filter over all nodes and scores over the feasible ones, in numpy.

A twin is made for one pod and one cluster. What it has prepared then is what a scheduler may keep from pod to
pod: labels as booleans, taints and ports of a node as small numbers with the pod's answer to each, resources
as float64 columns, per term the number of matching pods in each domain. What depends on the counts of now or
on which nodes are feasible is computed in each call: the least count, sizes, extremes, normalized scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from bench.plugin_pods import ZONE
from bench.twins.numpy_twin import JUST_ABOVE_ERROR

from moorage import Scheduler
from moorage._core.decide.plan import UNRESOLVABLE
from moorage.kube import Node, Pod

Positions = npt.NDArray[np.intp]
Scores = npt.NDArray[np.int64]
Verdicts = npt.NDArray[np.uint64]
NONE = np.uint64(0)
NEVER_HERE = np.uint64(1 | UNRESOLVABLE)
MIB = 2**20


class Nodes:
    """The nodes of a scheduler in list order, and the pods on them."""

    def __init__(self, scheduler: Scheduler, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        by_name = {node.name: node for node in nodes}
        self.names = scheduler.context.view_order()
        self.nodes = [by_name[name] for name in self.names]
        self.rows = scheduler.table.raw()[0][scheduler.context.view_rows()]
        position = {name: at for at, name in enumerate(self.names)}
        self.pods = [(pod, position[pod.spec.node_name]) for pod in pods]

    def codes(self, of: Callable[[Node], Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
        """The different values of something, and which of them each node has."""
        values: dict[Any, int] = {}
        found = [values.setdefault(of(node), len(values)) for node in self.nodes]
        return list(values), np.array(found, dtype=np.intp)

    def domains(self, key: str) -> npt.NDArray[np.intp]:
        return self.codes(lambda node: node.metadata.labels[key])[1]

    def count(self, domain: npt.NDArray[np.intp], matches: Callable[[Pod], bool]) -> Scores:
        """Matching pods per domain."""
        on = [at for pod, at in self.pods if matches(pod)]
        return np.bincount(domain[on], minlength=int(domain.max()) + 1).astype(np.int64)


class Twin:
    """Answers what `Cycle.filter_verdicts` and `Cycle.scores` answer; a plugin has one of them, or both."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        raise NotImplementedError

    def filter(self) -> Verdicts:
        raise NotImplementedError

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        """Raw and normalized scores of the nodes at these positions."""
        raise NotImplementedError

    def add(self, at: int) -> None:
        """Another pod like the one of the twin is on the node at this position."""


class PerKind(Twin):
    """Nodes of one kind all get the same: a look-up per node."""

    def prepare(self, nodes: Nodes, of: Callable[[Node], Any], verdict: Callable[[Any], int]) -> list[Any]:
        kinds, self.kind = nodes.codes(of)
        self.verdicts = np.array([verdict(kind) for kind in kinds], dtype=np.uint64)
        return kinds

    def filter(self) -> Verdicts:
        return self.verdicts[self.kind]


class NodeUnschedulable(PerKind):
    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        self.prepare(nodes, lambda node: node.spec.unschedulable, lambda off: int(NEVER_HERE) if off else 0)


class NodeName(Twin):
    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        self.name = np.arange(len(nodes.names))
        self.wanted = nodes.names.index(pod.spec.node_name)

    def filter(self) -> Verdicts:
        return np.where(self.name != self.wanted, NEVER_HERE, NONE)


class TaintToleration(PerKind):
    """For tolerations of the form key = value, of every effect."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        tolerated = {(one.key, one.value) for one in pod.spec.tolerations}

        def untolerated(taints: Any, prefer: bool) -> int:
            return sum(
                (taint.effect == "PreferNoSchedule") is prefer and (taint.key, taint.value) not in tolerated
                for taint in taints
            )

        kinds = self.prepare(
            nodes,
            lambda node: node.spec.taints,
            lambda taints: int(NEVER_HERE) if untolerated(taints, False) else 0,
        )
        self.costs = np.array([untolerated(taints, True) for taints in kinds])

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        raw = self.costs[self.kind[at]]
        most = raw.max()
        return raw, 100 - 100 * raw // most if most else np.full(len(raw), 100)


# ---- NodeAffinity: the terms of `affine_to_nodes` and `preferring_nodes`


class NodeAffinity(Twin):
    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        def is_one(key: str, *wanted: str) -> npt.NDArray[np.bool_]:
            values, self_code = nodes.codes(lambda node: node.metadata.labels.get(key))
            return np.isin(self_code, [at for at, value in enumerate(values) if value in wanted])

        self.fast, self.in_zone = is_one("disk", "ssd", "nvme"), is_one(ZONE, "zone-1")
        self.in_region = is_one("topology.kubernetes.io/region", "region-0")
        self.generation = np.array([int(node.metadata.labels["generation"]) for node in nodes.nodes])

    def filter(self) -> Verdicts:
        fits = self.generation > 3
        fits &= self.fast
        fits |= self.in_zone
        fits &= self.in_region
        return np.where(fits, NONE, NEVER_HERE)

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        fits = self.generation > 3
        fits &= self.fast
        raw = (fits * 30 + self.in_zone * 70)[at]
        most = raw.max()
        return raw, 100 * raw // most if most else raw


class NodePorts(PerKind):
    """For ports without an address."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        used: list[set[tuple[str, int]]] = [set() for _ in nodes.nodes]
        for other, at in nodes.pods:
            used[at] |= _ports(other)
        by_name = {name: frozenset(ports) for name, ports in zip(nodes.names, used, strict=True)}
        wanted = _ports(pod)
        self.prepare(nodes, lambda node: by_name[node.name], lambda ports: int(not wanted.isdisjoint(ports)))


def _ports(pod: Pod) -> set[tuple[str, int]]:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return {(port.protocol or "TCP", port.host_port) for port in ports if port.host_port}


# ---- resources


CPU, MEMORY = 250.0, 512.0 * MIB  # what every pod of the suite asks for, per container; these ask in one


class NodeResourcesFit(Twin):
    """Filter, and LeastAllocated."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        rows = nodes.rows
        self.alloc = rows["alloc_cpu"].copy(), rows["alloc_memory"].copy()
        self.free = self.alloc[0] - rows["req_cpu"], self.alloc[1] - rows["req_memory"]
        self.used = rows["nonzero_cpu"].copy(), rows["nonzero_memory"].copy()
        self.left = self.alloc[0] - self.used[0], self.alloc[1] - self.used[1]
        self.per = 100.0 / self.alloc[0], 100.0 / self.alloc[1]
        self.full = (rows["pods"] >= rows["pods_max"]).astype(np.uint64)

    def filter(self) -> Verdicts:
        cpu, memory = self.free[0] < CPU, self.free[1] < MEMORY
        above = (cpu & (self.alloc[0] < CPU)) | (memory & (self.alloc[1] < MEMORY))
        out = self.full + cpu * np.uint64(2)
        out += memory * np.uint64(4)
        out += above * np.uint64(UNRESOLVABLE)
        return out

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        cpu, memory = self.percent(self.left, -1.0)
        cpu += memory
        cpu >>= 1
        raw = cpu[at].astype(np.int64)
        return raw, raw

    def percent(self, columns: Any, sign: float) -> list[npt.NDArray[np.int32]]:
        """100 * (column + sign * request) / allocatable, within 0 and 100."""
        out = []
        for column, request, per in zip(columns, (CPU, MEMORY), self.per, strict=True):
            x = column + sign * request
            x *= per
            x += JUST_ABOVE_ERROR
            np.clip(x, 0.0, 100.0, out=x)
            out.append(x.astype(np.int32))
        return out


class MostAllocated(NodeResourcesFit):
    def score(self, at: Positions) -> tuple[Scores, Scores]:
        cpu, memory = self.percent(self.used, 1.0)
        cpu += memory
        cpu >>= 1
        raw = cpu[at].astype(np.int64)
        return raw, raw


class RequestedToCapacityRatio(NodeResourcesFit):
    """The points (0, 0), (50, 8), (100, 10) of utilization and score."""

    points = ((0, 0), (50, 8), (100, 10))

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        super().__init__(nodes, pod)
        self.of = np.array(
            [80 * use // 50 if use <= 50 else 80 + 20 * (use - 50) // 50 for use in range(101)]
        )
        self.of_two = np.zeros((101, 101), dtype=np.int64)  # a resource that scores 0 does not count
        for cpu, memory in np.ndindex(101, 101):
            counting = [score for score in (int(self.of[cpu]), int(self.of[memory])) if score]
            self.of_two[cpu, memory] = math.floor(sum(counting) / len(counting) + 0.5) if counting else 0

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        cpu, memory = self.percent(self.used, 1.0)
        cpu *= 101
        cpu += memory
        raw = self.of_two.ravel()[cpu[at]]
        return raw, raw


class BalancedAllocation(Twin):
    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        rows = nodes.rows
        self.alloc = rows["alloc_cpu"].copy(), rows["alloc_memory"].copy()
        self.used = rows["req_cpu"].copy(), rows["req_memory"].copy()
        self.before = rows["balanced"].astype(np.int64)

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        x, y = self.used[0] + CPU, self.used[1] + MEMORY
        x /= self.alloc[0]
        y /= self.alloc[1]
        np.minimum(x, 1.0, out=x)
        np.minimum(y, 1.0, out=y)
        x -= y
        np.abs(x, out=x)
        x *= 0.5
        np.subtract(1.0, x, out=x)
        x *= 100.0
        balance = x.astype(np.int64)
        balance -= self.before
        balance += 50
        balance >>= 1
        balance += 50
        raw = balance[at]
        return raw, raw


class ImageLocality(Twin):
    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        wanted = [container.image for container in pod.spec.containers]
        sizes = {
            name: image.size_bytes
            for node in nodes.nodes
            for image in node.status.images
            for name in image.names
        }
        self.scaled = []
        for name in wanted:
            has = np.array([any(name in image.names for image in node.status.images) for node in nodes.nodes])
            self.scaled.append(has * int(sizes[name] * (int(has.sum()) / len(has))))
        self.low, self.high = 23 * MIB, 1000 * MIB * len(wanted)

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        total = self.scaled[0] + self.scaled[1]
        np.clip(total, self.low, self.high, out=total)
        total -= self.low
        total *= 100
        raw = (total // (self.high - self.low))[at]
        return raw, raw

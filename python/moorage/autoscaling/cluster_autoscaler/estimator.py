"""How many new nodes of a group pods need: first-fit-decreasing by class of pods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.objects import Node, Pod, PodAffinityTerm, parse_milli, parse_value

from .equal_pods import PodClass
from .group_templates import HOSTNAME, Template
from .node_snapshot import NodeSnapshot

SPREAD = "node(s) didn't match pod topology spread constraints"


def amounts(resources: Mapping[str, str | int | float]) -> tuple[int, int]:
    """Return millicores and bytes of memory of a node's capacity or allocatable resources."""
    return parse_milli(resources.get("cpu", "0")), parse_value(resources.get("memory", "0"))


def requests(pods: Iterable[Pod]) -> tuple[int, int]:
    """Return the millicores and the bytes of memory that pods request together."""
    cpu = memory = 0
    for pod in pods:
        needs = pod_requests(pod)
        cpu += needs["cpu"].milli_value() if "cpu" in needs else 0
        memory += needs["memory"].value() if "memory" in needs else 0
    return cpu, memory


class Estimate:
    """A packing of classes of pods on new nodes, in a snapshot that is undone afterwards.

    Parameters
    ----------
    limit : int
        Of new nodes.

    Attributes
    ----------
    pods : list of Pod
        Those that have a place, in the order in which they got it.
    """

    def __init__(self, snapshot: NodeSnapshot, template: Template, limit: int) -> None:
        self._snapshot, self._template, self._limit = snapshot, template, limit
        self._before = len(snapshot.nodes)
        self._last, self._added = "", 0
        self._used: set[str] = set()
        self.pods: list[Pod] = []

    @property
    def nodes(self) -> int:
        """The number of new nodes that have pods."""
        return len(self._used)

    def pack(self, classes: Sequence[PodClass], fastpath: bool) -> None:
        """Place the pods, the largest class first."""
        node = self._template.node
        ordered = sorted(classes, key=lambda one: -_size(one.pods[0], node))
        best = _best_for_fastpath(ordered, node) if fastpath else -1
        if best >= 0:
            ordered.append(ordered.pop(best))
        with self._snapshot.trial():
            may_add = True
            for at, one in enumerate(ordered):
                left = self._place_on_added(one.pods)
                if may_add and best >= 0 and at == len(ordered) - 1:
                    may_add = self._fill_one(left)
                elif may_add:
                    may_add = self._place_on_new(left)

    def _take(self, pod: Pod, name: str) -> None:
        self.pods.append(pod)
        self._used.add(name)

    def _try(self, pod: Pod, name: str) -> bool:
        if self._snapshot.why_not(pod, name) is not None:
            return False
        self._snapshot.place(pod, name)
        self._take(pod, name)
        return True

    def _place_on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Place pods on nodes that were added before; return the first that fits on none, and those after."""
        snapshot = self._snapshot
        accepted = np.zeros(len(snapshot.nodes), bool)
        accepted[self._before :] = not self._template.node.spec.unschedulable
        for at, pod in enumerate(pods):
            name = snapshot.first_fit(pod, accepted) if self._added else None
            if name is None:
                return pods[at:]
            snapshot.place(pod, name)
            self._take(pod, name)
        return ()

    def _place_on_new(self, pods: Sequence[Pod]) -> bool:
        """Place pods one by one on the last new node, and add a node where it is full; return whether more
        nodes may be added."""
        for pod in pods:
            if self._last and (self._try(pod, self._last) or self._fits_elsewhere(pod)):
                continue
            if self._last and self._last not in self._used:
                return True
            if not self._add():
                return False
            if not self._try(pod, self._last):
                return True
        return True

    def _fits_elsewhere(self, pod: Pod) -> bool:
        """Whether a pod that a spread over hosts keeps from the last node has a place on any other node."""
        if not any(one.topology_key == HOSTNAME for one in pod.spec.topology_spread_constraints):
            return False
        status = self._snapshot.why_not(pod, self._last)
        if status is None or SPREAD not in status.reasons:
            return False
        nodes = self._snapshot.nodes
        accepted = [name != self._last and not node.spec.unschedulable for name, node in nodes.items()]
        name = self._snapshot.first_fit(pod, np.array(accepted, bool))
        if name is None:
            return False
        self._snapshot.place(pod, name)
        self._take(pod, name)
        return True

    def _add(self) -> bool:
        if self._added >= self._limit:
            return False
        self._snapshot.add(self._template.copy(f"e-{self._added}"))
        self._added += 1
        self._last = next(reversed(self._snapshot.nodes))
        return True

    def _fill_one(self, pods: Sequence[Pod]) -> bool:
        """Fill one node, and take as many more as the rest needs without trying them."""
        if not pods:
            return True
        if not self._add():
            return False
        count = next((at for at, pod in enumerate(pods) if not self._try(pod, self._last)), len(pods))
        for number, first in enumerate(range(count, len(pods), count or len(pods)), 1):
            if not count:
                return True
            if self._added >= self._limit:
                return False
            self._added += 1
            for pod in pods[first : first + count]:
                self._take(pod, f"{self._last}-fake-{number}")
        return True


def _size(pod: Pod, node: Node) -> float:
    has, needs = amounts(node.status.allocatable), requests([pod])
    return sum((need / of for need, of in zip(needs, has, strict=True) if of > 0), start=0.0)


def _best_for_fastpath(classes: Sequence[PodClass], node: Node) -> int:
    """The class for which filling one node saves most trials; the last of equal ones, -1 for none."""
    best, most = -1, 0
    for at, one in enumerate(classes):
        nodes, count = _nodes_at_least(one, node), len(one.pods)
        saved = count - count // nodes if nodes else 0
        if saved >= most and _is_simple(one.pods[0]):
            best, most = at, saved
    return best


def _nodes_at_least(one: PodClass, node: Node) -> int:
    """How many nodes a class needs by its first container, or by its terms against itself."""
    pod, count, counts = one.pods[0], len(one.pods), [0]
    for term in _terms(pod):
        selector = LabelSelectorMatcher(term.label_selector)
        if term.topology_key == HOSTNAME and selector.matches(pod.metadata.labels):
            counts.append(count)
    first = pod.spec.containers[0].resources.requests if pod.spec.containers else {}
    if first:
        for need, has in zip(amounts(first), amounts(node.status.capacity), strict=True):
            counts.append(math.ceil(count * need / has) if has else 0)
    return max(counts)


def _is_simple(pod: Pod) -> bool:
    return not pod.spec.topology_spread_constraints and all(
        term.topology_key == HOSTNAME for term in _terms(pod)
    )


def _terms(pod: Pod) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    return (
        () if affinity is None or affinity.pod_anti_affinity is None else affinity.pod_anti_affinity.required
    )

"""How many new nodes of a group pods need: first-fit-decreasing by class of pods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile

import numpy as np

from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.changes.node_copies import HOSTNAME
from moorage.objects import Node, Pod, PodAffinityTerm, parse_milli, parse_value
from moorage.objects.model.meta import Resources

from .equal_pods import PodClass
from .group_templates import Template
from .node_snapshot import NodeSnapshot

SPREAD = "node(s) didn't match pod topology spread constraints"


def amounts(resources: Resources) -> tuple[int, int]:
    """Return millicores and bytes of memory of a node's capacity or allocatable resources."""
    return parse_milli(resources.get("cpu", "0")), parse_value(resources.get("memory", "0"))


def capacity(node: Node) -> Resources:
    """Return the capacity of a node; what can be allocated where it names none."""
    return node.status.capacity or node.status.allocatable


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
            for run, are_single in self._runs(ordered):
                left = self._place_on_added(run)
                if may_add and best >= 0 and run[-1] is ordered[-1].pods[-1]:
                    may_add = self._fill_one(left)
                elif may_add:
                    may_add = self._place_on_new(left, are_single)

    def _runs(self, classes: Sequence[PodClass]) -> Iterator[tuple[list[Pod], bool]]:
        """Yield the pods of each class; those of classes of one pod that are placed alike together.

        Once one of these fits on no node, so do those after it.
        """
        last, at = len(classes) - 1, 0
        while at <= last:
            singles = takewhile(lambda one: len(one.pods) == 1, islice(classes, at, last))
            first = next(singles, None)
            if first is None:
                yield classes[at].pods, False
                at += 1
                continue
            count = self._snapshot.alike(one.pods[0] for one in chain((first,), singles))
            yield [one.pods[0] for one in classes[at : at + count]], True
            at += count

    def _take(self, pod: Pod, name: str) -> None:
        self.pods.append(pod)
        self._used.add(name)

    def _try(self, pod: Pod, name: str) -> bool:
        if not self._snapshot.fits(pod, name):
            return False
        self._snapshot.place(pod, name)
        self._take(pod, name)
        return True

    def _place_on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Place pods on nodes that were added before; return the first that fits on none, and those after."""
        snapshot = self._snapshot
        accepted = np.zeros(len(snapshot.nodes), bool)
        accepted[self._before :] = not self._template.node.spec.unschedulable
        at = 0
        while self._added and at < len(pods):
            run = pods[at : at + snapshot.alike(islice(pods, at, None))]
            names = snapshot.place_equal(run, accepted)
            for pod, name in zip(run, names, strict=False):
                self._take(pod, name)
            at += len(names)
            if len(names) < len(run):
                break
        return pods[at:]

    def _place_on_new(self, pods: Sequence[Pod], are_single: bool) -> bool:
        """Place pods one by one on the last new node, and add a node where it is full; return whether more
        nodes may be added.

        Parameters
        ----------
        are_single : bool
            Whether each is a class, so that a search among the nodes finds the last one.
        """
        for pod in pods:
            if self._last and self._try(pod, self._last):
                if are_single and pod is not pods[0]:
                    self._snapshot.last_hit = len(self._snapshot.nodes) - 1
                continue
            if self._last and self._fits_elsewhere(pod):
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
        (cpu, memory), (has_cpu, has_memory) = amounts(first), amounts(capacity(node))
        if has_cpu and has_memory:
            # Upstream multiplies by a power of ten, which is not exact.
            counts.append(math.ceil(count * _cores(cpu) / _cores(has_cpu)))
            counts.append(math.ceil(count * memory / has_memory))
    return max(counts)


def _cores(milli: int) -> float:
    return milli * 0.001 if milli % 1000 else milli / 1000


def _is_simple(pod: Pod) -> bool:
    return not pod.spec.topology_spread_constraints and all(
        term.topology_key == HOSTNAME for term in _terms(pod)
    )


def _terms(pod: Pod) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    return (
        () if affinity is None or affinity.pod_anti_affinity is None else affinity.pod_anti_affinity.required
    )

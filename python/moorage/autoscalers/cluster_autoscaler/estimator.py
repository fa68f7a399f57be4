"""How many new nodes of a group pods need, first-fit-decreasing by class of pods, and how many limits
leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.kube import Node, Pod, PodAffinityTerm, parse_milli, parse_value
from moorage.kube.model.meta import Resources
from moorage.kube.model.node import HOSTNAME

from .flags import Flags
from .group_states import NodeTemplate
from .node_snapshot import NodeSnapshot
from .pods_to_help import PodClass

# ---- how many new nodes of a group pods need: first-fit-decreasing by class of pods ------------------------

SPREAD = "node(s) didn't match pod topology spread constraints"


def amounts(resources: Resources) -> tuple[int, int]:
    """Return millicores and bytes of memory of a node's capacity or allocatable resources."""
    return parse_milli(resources.get("cpu", "0")), parse_value(resources.get("memory", "0"))


def capacity(node: Node) -> Resources:
    """Return the capacity of a node; what can be allocated where it names none."""
    return node.status.capacity or node.status.allocatable


def requests(pod: Pod) -> tuple[int, int]:
    """Return the millicores and the bytes of memory that a pod requests."""
    needs = pod_requests(pod)
    cpu, memory = needs.get("cpu"), needs.get("memory")
    return 0 if cpu is None else cpu.milli_value(), 0 if memory is None else memory.value()


class Estimate:
    """A packing of classes of pods on new nodes, in a snapshot that is undone afterwards.

    Attributes
    ----------
    helped : list of list of Pod
        The pods that have a place, in the order in which they got it: runs of equal ones.
    """

    def __init__(self, snapshot: NodeSnapshot, template: NodeTemplate, limit: int) -> None:
        self._snapshot, self._template, self._limit = snapshot, template, limit
        self._before = len(snapshot.nodes)
        self._last, self._added = "", 0
        self._used: set[str] = set()
        self.helped: list[Sequence[Pod]] = []

    @property
    def nodes(self) -> int:
        """The number of new nodes that have pods."""
        return len(self._used)

    def pack(self, classes: Sequence[PodClass], fastpath: bool) -> None:
        """Place the pods, the largest class first."""
        node = self._template.node
        ordered = sorted(classes, key=lambda each: -_size(each.pods[0], node))
        best = _best_for_fastpath(ordered, node) if fastpath else -1
        if best >= 0:
            chosen = ordered.pop(best)
            if chosen.are_single and len(chosen.pods) > 1:
                ordered.insert(best, PodClass(chosen.pods[:-1], True))
                chosen = PodClass(chosen.pods[-1:], True)
            ordered.append(chosen)
        with self._snapshot.trial():
            may_add = True
            for each, pods in self._runs(ordered):
                left = self._place_on_added(pods)
                if may_add and best >= 0 and each is ordered[-1]:
                    may_add = self._fill_one(left)
                elif may_add:
                    may_add = self._place_on_new(left, each.are_single)

    def _runs(self, classes: Iterable[PodClass]) -> Iterator[tuple[PodClass, Sequence[Pod]]]:
        """Yield the pods of each class; single ones together where each is placed by what its node has left
        alone: once one of these fits on no node, so do those after it."""
        for each in classes:
            if each.are_single and not self._is_alone(each.pods):
                yield from ((each, [pod]) for pod in each.pods)
            else:
                yield each, each.pods

    def _is_alone(self, pods: Sequence[Pod]) -> bool:
        plain = self._snapshot.plain(pods[0])
        return plain is not None and plain.is_alone

    def _take(self, pods: Sequence[Pod], names: Iterable[str]) -> None:
        if pods:
            self.helped.append(pods)
            self._used.update(names)

    def _try(self, pod: Pod) -> bool:
        """Place a pod on the last new node, if it fits."""
        if not self._last or not self._snapshot.fits(pod, self._last):
            return False
        self._snapshot.place(pod, self._last)
        self._take([pod], [self._last])
        return True

    def _place_on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Place pods on nodes that were added before; return the first that fits on none, and those after."""
        snapshot, at = self._snapshot, 0
        accepted = np.zeros(len(snapshot.nodes), bool)
        accepted[self._before :] = not self._template.node.spec.unschedulable
        while self._added and at < len(pods):
            run = pods[at:] if self._is_alone(pods) else pods[at : at + 1]
            names = snapshot.place_equal(run, accepted, {})
            self._take(run[: len(names)], names)
            at += len(names)
            if len(names) < len(run):
                break
        return pods[at:]

    def _place_on_new(self, pods: Sequence[Pod], are_single: bool) -> bool:
        """Place pods on the last new node, and add a node where it is full; return whether more nodes may be
        added.

        Parameters
        ----------
        are_single : bool
            Whether each is a class, so that a search among the nodes finds the last one.
        """
        at = self._fill(pods, 0, are_single)
        while at < len(pods):
            if self._last and self._fits_elsewhere(pods[at]):
                at = self._fill(pods, at + 1, are_single)
                continue
            if self._last and self._last not in self._used:
                return True
            if not self._add(1):
                return False
            first, at = at, self._fill(pods, at, are_single)
            if at == first:
                return True
            if self._is_alone(pods):
                at = self._fill_more(pods, at, at - first, are_single)
        return True

    def _fill(self, pods: Sequence[Pod], at: int, are_single: bool) -> int:
        """Place pods from one on on the last new node; return the index of the first that does not fit."""
        first, is_new = at, self._last not in self._used
        while at < len(pods) and self._try(pods[at]):
            at += 1
        if are_single and at > first + (is_new or not first):
            self._snapshot.last_hit = len(self._snapshot.nodes) - 1
        return at

    def _fill_more(self, pods: Sequence[Pod], at: int, count: int, are_single: bool) -> int:
        """Place pods from one on on more new nodes, each of which takes so many; return the index of the
        first that is left."""
        snapshot = self._snapshot
        names = self._add(min(self._limit - self._added, -(-(len(pods) - at) // count)))
        run = pods[at : at + count * len(names)]
        snapshot.place_all(run, [name for name in names for _ in range(count)][: len(run)])
        self._take(run, names)
        followers = [number for number in range(len(names)) if len(run) > number * count + 1]
        if are_single and count > 1 and followers:
            snapshot.last_hit = len(snapshot.nodes) - len(names) + followers[-1]
        return at + len(run)

    def _fits_elsewhere(self, pod: Pod) -> bool:
        """Whether a pod that a spread over hosts keeps from the last node has a place on any other node."""
        if not any(
            topology_spread_constraint.topology_key == HOSTNAME
            for topology_spread_constraint in pod.spec.topology_spread_constraints
        ):
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
        self._take([pod], [name])
        return True

    def _add(self, count: int) -> list[str]:
        """Add so many nodes, as far as the limit allows; return their names."""
        numbers = range(self._added, min(self._added + count, self._limit))
        new = [self._template.copy(f"e-{number}") for number in numbers]
        self._snapshot.add(*new)
        self._added += len(new)
        names = [each.node.name for each in new]
        self._last = names[-1] if names else self._last
        return names

    def _fill_one(self, pods: Sequence[Pod]) -> bool:
        """Fill one node, and take as many more as the rest needs without trying them."""
        if not pods:
            return True
        if not self._add(1):
            return False
        count = self._fill(pods, 0, False)
        for number, first in enumerate(range(count, len(pods), count or len(pods)), 1):
            if not count:
                return True
            if self._added >= self._limit:
                return False
            self._added += 1
            self._take(pods[first : first + count], [f"{self._last}-fake-{number}"])
        return True


def _size(pod: Pod, node: Node) -> float:
    has, needs = amounts(node.status.allocatable), requests(pod)
    return sum((need / of for need, of in zip(needs, has, strict=True) if of > 0), start=0.0)


def _best_for_fastpath(classes: Sequence[PodClass], node: Node) -> int:
    """The class for which filling one node saves most trials; the last of equal ones, -1 for none."""
    best, most = -1, 0
    for at, each in enumerate(classes):
        count = 1 if each.are_single else len(each.pods)
        nodes = _nodes_at_least(each.pods[0], count, node)
        saved = count - count // nodes if nodes else 0
        spreads = each.pods[0].spec.topology_spread_constraints
        if (
            saved >= most
            and not spreads
            and all(term.topology_key == HOSTNAME for term in _terms(each.pods[0]))
        ):
            best, most = at, saved
    return best


def _nodes_at_least(pod: Pod, count: int, node: Node) -> int:
    """How many nodes so many equal pods need by their first container, or by their terms against
    themselves."""
    counts = [0]
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


def _terms(pod: Pod) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    return (
        () if affinity is None or affinity.pod_anti_affinity is None else affinity.pod_anti_affinity.required
    )


# ---- limits of the cores and the memory of all nodes together ----------------------------------------------


class RemainingQuotas:
    """How much may still come, or still leave, of each resource that is limited.

    Parameters
    ----------
    group_of : mapping of str to str
        Group by node: all nodes of a group count as its first one.
    """

    def __init__(
        self,
        limits: dict[str, int | None],
        nodes: Iterable[Node],
        group_of: Mapping[str, str],
        leaving: bool,
    ) -> None:
        self._of_group: dict[str, dict[str, int]] = {}
        used = dict.fromkeys(limits, 0)
        for node in nodes:
            for name, amount in self._amounts(node, group_of.get(node.name, "")).items():
                used[name] += amount
        self._left = {
            name: max(0, used[name] - limit if leaving else limit - used[name])
            for name, limit in limits.items()
            if limit is not None
        }

    @classmethod
    def greatest(cls, flags: Flags, nodes: Iterable[Node], group_of: Mapping[str, str]) -> RemainingQuotas:
        """Return what may come."""
        return cls({"cpu": flags.max_cores, "memory": flags.max_memory}, nodes, group_of, False)

    @classmethod
    def least(cls, flags: Flags, nodes: Iterable[Node], group_of: Mapping[str, str]) -> RemainingQuotas:
        """Return what may leave."""
        return cls({"cpu": flags.min_cores, "memory": flags.min_memory}, nodes, group_of, True)

    def exceeded(self, node: Node, group: str, count: int = 1) -> list[str]:
        """Return the resources of which some nodes have too much."""
        return [name for name, amount in self._limited(node, group) if self._left[name] < amount * count]

    def allowed(self, node: Node, group: str, count: int) -> int:
        """Return how many of some nodes are allowed."""
        return min([count, *(self._left[name] // amount for name, amount in self._limited(node, group))])

    def take(self, node: Node, group: str, count: int) -> None:
        """Count nodes that come or leave."""
        for name, amount in self._limited(node, group):
            self._left[name] = max(0, self._left[name] - amount * count)

    def _limited(self, node: Node, group: str) -> list[tuple[str, int]]:
        amounts = self._amounts(node, group).items()
        return [(name, amount) for name, amount in amounts if amount > 0 and name in self._left]

    def _amounts(self, node: Node, group: str) -> dict[str, int]:
        known = self._of_group.get(group)
        if known is None:
            has = capacity(node)
            known = {name: parse_value(has.get(name, "0")) for name in ("cpu", "memory")}
            if group:
                self._of_group[group] = known
        return known

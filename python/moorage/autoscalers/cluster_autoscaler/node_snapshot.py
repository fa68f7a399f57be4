"""The cluster that a cluster-autoscaler plays with: what-if placements, which a transaction undoes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.state.pod_spec import uses_volumes
from moorage.cluster import PodScheduler
from moorage.cluster.examine import check
from moorage.engine.framework.interface import FilterPlugin, ReservePlugin
from moorage.engine.framework.run_plugins import Target
from moorage.engine.framework.status import CycleState, Status
from moorage.engine.plugins.dynamic_resources import DynamicResources
from moorage.engine.plugins.pod_topology_spread import HARD, PodTopologySpread
from moorage.kube import Node, Pod

from .group_states import NodeTemplate

Mask = npt.NDArray[np.bool_]


class Plain(Struct, frozen=True, eq=False):
    """A class of pods that the core alone filters, without volumes and claims: the key of its verdicts.

    `is_alone` tells whether what its node has left decides alone about each of its pods: filters count no
    pods of other nodes for it, and its pods count for no others. There is one object for each class.
    """

    target: Target
    is_alone: bool


class NodeSnapshot:
    """Nodes in list order, new ones behind, with the pods on them.

    A pod takes the first node that passes all filters of the default profile. The search begins behind the
    node that took the last pod, and goes round.

    Parameters
    ----------
    scheduler : PodScheduler
        In a transaction, or a fork: it is changed.
    last_hit : int
        Index of the node that took a pod last.
    """

    def __init__(self, scheduler: PodScheduler, nodes: Sequence[Node], last_hit: int = 0) -> None:
        self.scheduler, self.cache = scheduler, scheduler.cache
        context = scheduler.context
        self.engine = context.engines.get("default-scheduler") or context.rotation.engines[0]
        self.last_hit = last_hit
        self.nodes = {node.name: node for node in nodes}
        self._listed: dict[str, list[Pod]] = {}
        self._rows: npt.NDArray[np.int32] | None = None
        self._classes: dict[int, Plain | None] = {}

    # ---- reading -------------------------------------------------------------------------------------------

    def pods_of(self, name: str) -> list[Pod]:
        """Return the pods on a node: those of the list first, in its order. They leave a node together."""
        row, listed = self.cache.state.find_row(name), self._listed.get(name, [])
        there = [] if row is None else self.cache.state.pods_of(row)
        return [*listed, *there[len(listed) :]] if len(there) >= len(listed) else there

    def why_not(self, pod: Pod, name: str) -> Status | None:
        """Return the status that rejects a pod on a node; None where it fits."""
        status = check(self.engine, pod, name)
        return status if isinstance(status, Status) else None

    def fits(self, pod: Pod, name: str) -> bool:
        """Whether a pod fits on a node."""
        plain = self.plain(pod)
        if plain is None:
            return self.why_not(pod, name) is None
        self.cache.state.view.refresh()
        row = self.cache.state.find_row(name)
        return row is not None and not self.engine.search.verdict(row, *plain.target)

    def plain(self, pod: Pod) -> Plain | None:
        """The class of a pod that the core alone filters."""
        if pod.spec.resource_claims or pod.spec.node_name or uses_volumes(pod):
            return None
        pod_class = self.cache.state.classes.intern(pod)
        if pod_class not in self._classes:
            engine, target = self.engine, self.engine.framework.target_of(pod)
            profile = engine.framework.profile_of(target)
            plain = profile.is_in_core and engine.passes(target, pod) and not any(target[1:])
            plain = plain and not profile.asks_devices(pod)
            self._classes[pod_class] = Plain(target, self._is_alone(target)) if plain else None
        return self._classes[pod_class]

    def _is_alone(self, target: Target) -> bool:
        framework = self.engine.framework
        shape = framework.shape_of(target)
        spreads = [each for each in framework.profile.at(FilterPlugin) if isinstance(each, PodTopologySpread)]
        rules = shape.spread or [rule for spread in spreads for rule in spread.default_constraints]
        is_spread = any(rule.when_unsatisfiable == HARD for rule in rules)
        return not (is_spread or shape.carried or any(shape.terms))

    def _row_array(self) -> npt.NDArray[np.int32]:
        if self._rows is None:
            find = self.cache.state.find_row
            self._rows = np.array([find(name) for name in self.nodes], np.int32)
        return self._rows

    def first_fit(self, pod: Pod, accepted: Mask) -> str | None:
        """Return the first of the accepted nodes that takes a pod; the next search begins behind it."""
        rows, plain, row_name = self._row_array(), self.plain(pod), self.cache.state.table.row_name
        marks = accepted if plain is None else accepted & self._marks(plain)
        for at in _around(marks, (self.last_hit + 1) % max(1, len(marks))):
            name = row_name(int(rows[at]))
            if plain is not None or self.why_not(pod, name) is None:
                self.last_hit = at
                return name
        return None

    def place_equal(self, pods: Sequence[Pod], accepted: Mask, rooms: dict[Plain, Mask]) -> list[str]:
        """Place pods of a class, each on its `first_fit`, up to the first that fits nowhere; return their
        nodes. Several pods have to be of a class that `is_alone`.

        Parameters
        ----------
        rooms : dict of Plain to array
            Which accepted nodes may have room for classes. It is kept from call to call as long as pods are
            only added, so that no node is looked at again that was full.
        """
        plain = self.plain(pods[0])
        if plain is not None and plain.is_alone:
            if plain not in rooms:
                rooms[plain] = accepted & self._marks(plain)
            return self._place_in_turns(pods, plain, rooms[plain])
        name = self.first_fit(pods[0], accepted)
        if name is None:
            return []
        self.place(pods[0], name)
        return [name]

    def _place_in_turns(self, pods: Sequence[Pod], plain: Plain, room: Mask) -> list[str]:
        """Place pods in turns around the nodes: as none depends on other nodes, a turn gives one pod to each
        node that has room. Nodes that have none any more are unmarked."""
        out: list[str] = []
        rows, row_name = self._row_array(), self.cache.state.table.row_name
        while len(out) < len(pods) and len(room):
            self.cache.state.view.refresh()
            turn = list[int]()
            for at in _around(room, (self.last_hit + 1) % len(room)):
                if self.engine.search.verdict(int(rows[at]), *plain.target):
                    room[at] = False
                else:
                    turn.append(at)
                    if len(out) + len(turn) == len(pods):
                        break
            if not turn:
                break
            names = [row_name(row) for row in rows[turn].tolist()]
            self.place_all(pods[len(out) : len(out) + len(turn)], names)
            self.last_hit = turn[-1]
            out += names
        return out

    def _marks(self, plain: Plain) -> Mask:
        """Which nodes take a pod of a class."""
        marks = np.zeros(self.cache.state.table.used, np.int8)
        self.engine.nodes_in_view()
        self.engine.search.mark_feasible(marks, *plain.target)
        return marks.view(np.bool_)[self._row_array()]

    # ---- changes -------------------------------------------------------------------------------------------

    def place(self, pod: Pod, name: str) -> None:
        """Put a pod that is on no node on one, whether it fits or not; its claims get their devices."""
        if self.plain(pod) is None and (pod.spec.resource_claims or self.engine.profile.asks_devices(pod)):
            self._allocate(pod, name)
        self.cache.add_bound_pods([pod], [name])

    def place_all(self, pods: Sequence[Pod], names: Sequence[str]) -> None:
        """Put pods of a class that `is_alone` on nodes."""
        self.cache.add_bound_pods(pods, names)

    def _allocate(self, pod: Pod, name: str) -> None:
        """Write the devices that a pod's claims get on a node, if it fits there."""
        state = check(self.engine, pod, name)
        plugins = self.engine.profile.complete.at(ReservePlugin)
        if isinstance(state, CycleState):
            self.scheduler.context.enlist()
            for plugin in plugins:
                if isinstance(plugin, DynamicResources) and plugin.reserve(state, pod, name) is None:
                    plugin.pre_bind(state, pod, name)
            self.scheduler.sync()

    def list_anew(self, pods: Sequence[Pod], is_left_out: Callable[[Pod], bool]) -> None:
        """Have on each node the pods that are not left out, in the order of a list: the cache has the last
        pod of a node in the place of one that went."""
        turns = {pod.metadata.uid: turn for turn, pod in enumerate(pods)}
        for name in self.nodes:
            self.take_off(list(filter(is_left_out, self.pods_of(name))))
            self._listed[name] = self.pods_of(name)
            self._listed[name].sort(key=lambda pod: turns.get(pod.metadata.uid, len(turns)))

    def take_off(self, pods: Sequence[Pod]) -> None:
        """Remove pods."""
        for pod in pods:
            self.cache.discard_pod(pod)

    def add(self, *templates: NodeTemplate) -> None:
        """Add nodes, with their pods and devices."""
        nodes = [template.node for template in templates]
        slices = [each for template in templates for each in template.slices]
        if slices:
            self.scheduler.context.enlist()
            for device_slice in slices:
                self.scheduler.client.create(device_slice)
            self.scheduler.sync()
        if not self.cache.add_nodes(nodes):
            for node in nodes:
                self.cache.add_node(node)
        self.nodes |= {node.name: node for node in nodes}
        if self._rows is not None:
            new = [self.cache.state.find_row(node.name) for node in nodes]
            self._rows = np.concatenate((self._rows, np.array(new, np.int32)))
        for template in templates:
            for pod in template.pods:
                self.place(pod, template.node.name)

    def replace(self, node: Node) -> None:
        """Put another node in place of one of its name."""
        old = self.nodes[node.name]
        self.nodes[node.name] = node
        self.cache.update_node(old, node)
        self._rows = None

    def remove(self, name: str) -> None:
        """Remove a node with its pods."""
        self.take_off(self.pods_of(name))
        self.cache.remove_node(self.nodes.pop(name))
        self._rows = None

    @contextmanager
    def trial(self) -> Iterator[list[bool]]:
        """Undo all changes of the block, unless it appends to the list that it gets. Where the next search
        begins is not undone."""
        kept: list[bool] = []
        nodes = dict(self.nodes)
        with self.cache.transaction() as transaction:
            yield kept
            if kept:
                transaction.commit()
        if not kept:
            self.nodes = nodes
        self._rows = None


def _around(marks: Mask, start: int) -> Iterator[int]:
    """The marked indexes from a start, going round."""
    for low, end in ((start, len(marks)), (0, start)):
        size = 64
        while low < end:
            yield from (low + np.flatnonzero(marks[low : min(low + size, end)])).tolist()
            low, size = low + size, 4 * size

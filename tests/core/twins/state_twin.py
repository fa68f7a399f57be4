"""A slow twin of the cluster state: upstream's cache and snapshot rules, literally, on dicts and lists.

kube-scheduler v1.36, backend/cache/cache.go and node_tree.go. Rows and pod numbers follow the engine's own
rule: the number that was given up last is taken first.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.doors.engine import zone_key

from moorage.kube import Node, Pod

Port = tuple[str, str, int]


@dataclass
class ImageState:
    """What the cache knows of an image."""

    size: int
    nodes: set[str]


@dataclass
class NodeInfo:
    """A node with its pods; a node that is gone or has not come yet has pods only."""

    row: int
    node: Node | None = None
    pods: list[str] = field(default_factory=list)
    ports: set[Port] = field(default_factory=set)
    images: dict[str, ImageState] = field(default_factory=dict)
    summary: dict[str, int] = field(default_factory=dict)  # nodes per image when the node was set (v1.13)
    generation: int = 0


@dataclass
class PodInfo:
    pod: Pod
    number: int
    on: str
    is_assumed: bool
    deadline: float | None = None


class Numbers:
    """Gives out dense numbers; the one given back last goes first."""

    def __init__(self) -> None:
        self.free: list[int] = []
        self.used = 0

    def take(self) -> int:
        if self.free:
            return self.free.pop()
        self.used += 1
        return self.used - 1


def host_ports(pod: Pod) -> set[Port]:
    """The host ports of a pod, with their defaults."""
    return {
        (one.host_ip or "0.0.0.0", one.protocol or "TCP", one.host_port)
        for container in pod.spec.containers
        for one in container.ports
        if one.host_port > 0
    }


class Snapshot:
    """The nodes that a cycle sees, in order, and the counts of their images when each was last copied.

    Unequal generations tell that a node has changed: they are unique, and a rollback brings old ones back.
    """

    def __init__(self) -> None:
        self.images: dict[str, dict[str, int]] = {}
        self.generations: dict[str, int] = {}
        self.order: list[str] = []

    def update(self, twin: StateTwin) -> None:
        rebuild = False
        for name, info in twin.infos.items():
            if info.node is not None and info.generation != self.generations.get(name):
                rebuild |= name not in self.images
                self.images[name] = {image: len(state.nodes) for image, state in info.images.items()}
                self.generations[name] = info.generation
        nodes = sum(map(len, twin.tree.values()))
        if len(self.images) > nodes:
            self.images = {
                name: seen
                for name, seen in self.images.items()
                if name in twin.infos and twin.infos[name].node is not None
            }
            self.generations = {name: self.generations[name] for name in self.images}
            rebuild = True
        if rebuild:
            self.order = twin.listed()


class StateTwin:
    """Takes the same calls as ClusterState; only those that succeed."""

    def __init__(self) -> None:
        self.infos: dict[str, NodeInfo] = {}
        self.tree: dict[str, list[str]] = {}  # zones in first-seen order
        self.image_states: dict[str, ImageState] = {}
        self.pods: dict[str, PodInfo] = {}
        self.rows, self.numbers = Numbers(), Numbers()
        self.snapshot = Snapshot()
        self.generations = count(1)

    def clone(self) -> StateTwin:
        """An independent copy; objects and the source of generations are shared."""
        shared = [self.generations, *(one.pod for one in self.pods.values())]
        shared += [info.node for info in self.infos.values()]
        return deepcopy(self, {id(one): one for one in shared})

    # ---- nodes -------------------------------------------------------------------------------------------

    def listed(self) -> list[str]:
        """Round robin over the zones."""
        depth = max(map(len, self.tree.values()), default=0)
        return [names[at] for at in range(depth) for names in self.tree.values() if at < len(names)]

    def set_node(self, node: Node) -> None:
        info = self._info(node.name)
        before = zone_key(info.node.metadata.labels) if info.node is not None else None
        zone = zone_key(node.metadata.labels)
        self._drop_images(info)
        if before != zone:
            if before is not None:
                self._leave(before, node.name)
            self.tree.setdefault(zone, []).append(node.name)
        info.images = {}
        for image in node.status.images:
            for name in image.names:
                state = self.image_states.setdefault(name, ImageState(image.size_bytes, set()))
                state.nodes.add(node.name)
                info.images.setdefault(name, state)
        info.summary = {name: len(state.nodes) for name, state in info.images.items()}
        info.node = node
        self._touch(info)

    def remove_node(self, name: str) -> None:
        info = self.infos[name]
        assert info.node is not None
        self._drop_images(info)
        self._leave(zone_key(info.node.metadata.labels), name)
        info.node, info.summary = None, {}
        self._touch(info)
        self._drop_if_empty(name)

    def _info(self, name: str) -> NodeInfo:
        if name not in self.infos:
            self.infos[name] = NodeInfo(self.rows.take())
        return self.infos[name]

    def _touch(self, info: NodeInfo) -> None:
        info.generation = next(self.generations)

    def _leave(self, zone: str, name: str) -> None:
        self.tree[zone].remove(name)
        if not self.tree[zone]:
            del self.tree[zone]

    def _drop_images(self, info: NodeInfo) -> None:
        for image in info.node.status.images if info.node is not None else ():
            for name in image.names:
                state = self.image_states.get(name)
                if state is not None:
                    state.nodes.discard(info.node.name)  # type: ignore[union-attr]
                    if not state.nodes:
                        del self.image_states[name]

    def _drop_if_empty(self, name: str) -> None:
        info = self.infos[name]
        if info.node is None and not info.pods:
            self.rows.free.append(info.row)
            del self.infos[name]

    # ---- pods --------------------------------------------------------------------------------------------

    def _enter(self, pod: Pod, is_assumed: bool) -> None:
        info = self._info(pod.spec.node_name)
        uid = pod.metadata.uid
        self.pods[uid] = PodInfo(pod, self.numbers.take(), pod.spec.node_name, is_assumed)
        info.pods.append(uid)
        info.ports |= host_ports(pod)
        self._touch(info)

    def _strike(self, uid: str) -> None:
        gone = self.pods.pop(uid)
        info = self.infos[gone.on]
        info.pods[info.pods.index(uid)] = info.pods[-1]
        info.pods.pop()
        info.ports -= host_ports(gone.pod)
        self.numbers.free.append(gone.number)
        self._touch(info)
        self._drop_if_empty(gone.on)

    def assume_pod(self, pod: Pod) -> None:
        self._enter(pod, is_assumed=True)

    def forget_pod(self, pod: Pod) -> None:
        self._strike(pod.metadata.uid)

    def add_pod(self, pod: Pod) -> None:
        held = self.pods.get(pod.metadata.uid)
        if held is not None:
            self._strike(pod.metadata.uid)
        self._enter(pod, is_assumed=False)

    def update_pod(self, old: Pod, new: Pod) -> None:
        self._strike(old.metadata.uid)
        self._enter(new, is_assumed=False)

    def remove_pod(self, pod: Pod) -> None:
        self._strike(pod.metadata.uid)

    def finish_binding(self, pod: Pod, deadline: float) -> None:
        held = self.pods.get(pod.metadata.uid)
        if held is not None and held.is_assumed:
            held.deadline = deadline

    def expire(self, now: float) -> list[Any]:
        late = [one for one in self.pods.values() if one.deadline is not None and one.deadline < now]
        late.sort(key=lambda one: (one.deadline, one.number))
        for one in late:
            self._strike(one.pod.metadata.uid)
        return [one.pod for one in late]

    def refresh(self) -> None:
        self.snapshot.update(self)

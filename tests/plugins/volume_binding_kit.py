"""VolumeBinding at work over a store, and what it is asked about."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace
from tests.doors.engine import VolumeBinding, take_all
from tests.make import node, pod
from tests.volume.binding.test_volume_topology import term, wants
from tests.volume.make import ZONE, claim, storage_class, uses
from tests.words import BIND_COMPLETED, SELECTED_NODE

from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, CycleState, FilterPlugin, Status
from moorage.engine.scheduler import Profile
from moorage.kube import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Object,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    ResourceRequirements,
    VolumeNodeAffinity,
)
from moorage.store import ObjectStore

UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
WAITS = "WaitForFirstConsumer"
LATE = storage_class("late", "kubernetes.io/no-provisioner", WAITS)
MADE = storage_class("made", "made.example.com", WAITS)
OWNED = (OwnerReference(uid="p", controller=True),)


def bound(name: str, of: str) -> PersistentVolumeClaim:
    one = claim(name, of)
    return replace(one, metadata=replace(one.metadata, annotations={BIND_COMPLETED: "yes"}))


def waiting(
    name: str, its_class: str = "late", size: str = "1Gi", selected: str = ""
) -> PersistentVolumeClaim:
    one = claim(name, of_class=its_class)
    resources = ResourceRequirements(requests={"storage": size})
    marks = {SELECTED_NODE: selected} if selected else {}
    meta = replace(one.metadata, uid=f"uid-{name}", annotations=marks)
    return replace(one, metadata=meta, spec=replace(one.spec, resources=resources))


def disk(
    name: str, *terms: NodeSelectorTerm, size: str = "10Gi", its_class: str = "late", on: str = ""
) -> PersistentVolume:
    """A free volume, in one zone or where some term says."""
    terms = (term(wants(ZONE, "In", on)),) if on else terms
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else None
    spec = PersistentVolumeSpec(
        capacity={"storage": size}, storage_class_name=its_class, node_affinity=affinity
    )
    meta = ObjectMeta(name=name, uid=name)
    return PersistentVolume(metadata=meta, spec=spec, status=PersistentVolumeStatus(phase="Available"))


NODES = [node("a", "z1"), node("b", "z2")]


class Bench:
    """A scheduler over a store of somebody else's, whose only plugin about volumes is this one; its time
    passes when it waits."""

    def __init__(
        self, *objects: Object, nodes: list[Node] | None = None, wait: Any = None, **args: Any
    ) -> None:
        self.store = ObjectStore()
        for obj in (*(NODES if nodes is None else nodes), *objects):
            self.store.create(obj)
        self.waits: list[float] = []
        self.on_wait = wait
        others = [
            plugin
            for plugin in default_profile().plugins
            if plugin.name not in ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
        ]
        profiles = [
            Profile((*others, VolumeBinding(args)), scheduler_name=name)
            for name in ("default-scheduler", "other")
        ]
        self.scheduler = Scheduler(self.store, profiles=profiles, wait=self._wait)
        self.plugin, self.other = (self._at_work(name) for name in ("default-scheduler", "other"))

    def _at_work(self, name: str) -> VolumeBinding:
        profile = self.scheduler.engines[name].framework.profile
        (plugin,) = (one for one in profile.at(FilterPlugin) if isinstance(one, VolumeBinding))
        return plugin

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        if self.on_wait is not None:
            self.on_wait(self)

    def info(self, name: str) -> Any:
        return self.scheduler.cache.node_info(name)

    def begin(self, asked: Pod, plugin: VolumeBinding | None = None) -> tuple[CycleState, Status | None]:
        state = CycleState()
        return state, (plugin or self.plugin).pre_filter(state, asked, None)  # type: ignore[arg-type]

    def pre_filter(self, asked: Pod) -> Status | None:
        return self.begin(asked)[1]

    def reasons(self, asked: Pod) -> dict[str, tuple[str, ...]]:
        """Why nodes will not do, one by one and all at once."""
        state, status = self.begin(asked)
        assert status is None
        found = {name: self.plugin.filter(state, asked, self.info(name)) for name in self.names()}
        shown = self.scheduler.engines["default-scheduler"].framework.all_nodes()
        answers = self.plugin.filter_all(self.begin(asked)[0], asked, shown)
        statuses = [answers.statuses[at] for at in answers.numbers]
        assert dict(zip([info.name for info in shown], statuses, strict=True)) == found
        assert {status.code for status in found.values() if status} <= {UNRESOLVABLE}
        return {name: status.reasons for name, status in found.items() if status}

    def names(self) -> list[str]:
        return [self.scheduler.table.row_name(row) for row in self.scheduler.context.view_rows().tolist()]

    def pre_bind(self, state: CycleState, asked: Pod, on: str = "a") -> Status | None:
        """All steps of PreBind."""
        said = self.plugin.pre_bind(state, asked, on)
        handle = self.scheduler.engines["default-scheduler"].handle
        return take_all(said, handle.wait) if isinstance(said, Generator) else said

    def reserve(self, asked: Pod, on: str = "a", plugin: VolumeBinding | None = None) -> CycleState:
        """As far as Reserve on a node."""
        plugin = plugin or self.plugin
        state, status = self.begin(asked, plugin)
        assert status is None
        assert plugin.filter(state, asked, self.info(on)) is None
        assert plugin.reserve(state, asked, on) is None
        return state


def asking(name: str, *claims: str, **rest: Any) -> Pod:
    return pod(name, volumes=tuple(uses(claim=one) for one in claims), **rest)


def unresolvable(text: str) -> Status:
    return Status(UNRESOLVABLE, (text,))

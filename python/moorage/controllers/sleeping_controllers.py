"""The controllers of a cluster as its scheduler holds them: they are made when an object needs them.

Plain pods on plain nodes need none, so that a program which has nothing else does not load them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from moorage import controllers
from moorage._core.base.indexed_objects import of_dependents
from moorage._core.base.watch_events import Notice
from moorage.engine.cache import SchedulerCache
from moorage.kube.model.cluster import Suspended
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Namespace, Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.policy import PodDisruptionBudget
from moorage.kube.model.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from moorage.kube.model.workload import WORKLOADS, ControllerRevision
from moorage.kube.releases import FeatureGates
from moorage.lazy import NamedTuple
from moorage.saved_fields import SavedFields
from moorage.store import InformerFactory, ObjectStore
from moorage.store.informer import ResourceEventHandler, RunHandler

if TYPE_CHECKING:
    from .cluster_controllers import ClusterControllers
    from .pod_times import TimesOf


class ControlledCluster(NamedTuple):
    """What `ClusterControllers` are made with."""

    client: ObjectStore
    informers: InformerFactory
    cache: SchedulerCache
    now: Callable[[], float]
    times: TimesOf
    gates: FeatureGates
    suspended: tuple[Suspended, ...] = ()
    """The suspended workloads of other projects that the cluster had."""


class SleepingControllers(SavedFields):
    """Makes `ClusterControllers` at the first event that concerns them; until then nothing is to be done.

    Their informers and handlers are there from the beginning, so that they hear of everything in the same
    order as if they had been made with the scheduler.
    """

    def __init__(self, around: ControlledCluster) -> None:
        self._around = around
        self._awake: ClusterControllers | None = None
        self._has_started = self._has_namespaces = False
        self.holds_queues = False  # whether Kueue only follows what changes
        groups = (PodGroup,) if around.gates["GenericWorkload"] else ()
        volumes = PersistentVolume, CSIDriver, CSINode, VolumeAttachment
        others = ControllerRevision, PodDisruptionBudget, *groups, *volumes, Namespace
        for kind in (*WORKLOADS, Node, PersistentVolumeClaim, Pod, *others):
            around.informers.informer(kind)  # which are asked in this order
        wakes = PodDisruptionBudget, *groups, PersistentVolumeClaim, PersistentVolume, CSINode
        for handler in (
            *(_Waking(self, kind) for kind in (*WORKLOADS, *wakes)),
            *(_OfNodes(self, Node), _OfNamespaces(self, Namespace), _OfPods(self, Pod)),
        ):
            around.informers.informer(handler.kind).add_event_handler(handler)

    @property
    def handlers(self) -> Mapping[type[Object], ResourceEventHandler[Any] | RunHandler[Any]] | None:
        """By kind, what hears of events; None while the controllers are not needed."""
        return None if self._awake is None else self._awake.handlers

    @property
    def has_started(self) -> bool:
        """Whether all objects of the cluster were reported."""
        return self._has_started

    @property
    def suspended(self) -> tuple[Suspended, ...]:
        """See `ClusterControllers`."""
        return self._around.suspended if self._awake is None else self._awake.suspended

    def wake(self) -> ClusterControllers:
        """Return the controllers, and make them if there are none."""
        if self._awake is None:
            with self._around.cache.lock:
                if self._awake is None:
                    self._awake = controllers.ClusterControllers(*self._around[:-1])
                    self._awake.suspended = self._around.suspended
                    if self._has_started:
                        self._awake.start_among_plain(self._has_namespaces)
        return self._awake

    def start(self) -> None:
        """See `ClusterControllers.start`."""
        client, informers = self._around.client, self._around.informers
        namespaces: list[Namespace] = client.list(Namespace)[0]
        pods = informers.lister(Pod).list()
        # As lists: a call for each object would make the start of a large cluster slow.
        repelling = [
            node for node in informers.lister(Node).list() if node.spec.taints or node.spec.unschedulable
        ]
        going = [obj for obj in (*namespaces, *pods) if obj.metadata.deletion_timestamp is not None]
        reported = [pod for pod in pods if pod.spec.node_name and pod.status.conditions]
        if self._awake is not None or self._around.suspended or repelling or going or reported:
            self.wake().start()
        self._has_started, self._has_namespaces = True, bool(namespaces)

    def take_turns(self, single: Collection[tuple[Pod, float]]) -> None:
        """See `ClusterControllers.take_turns`."""
        if single or self._awake is not None:
            self.wake().take_turns(single)

    def begin_back_off(self, known: Container[str]) -> None:
        """Let the refused workloads back off that are known from before, as ``Kind namespace/name``; all of
        them if none is, as without any UID nothing tells what came with a change."""
        if self._awake is not None:
            control = self._awake.control
            control.begin_back_off(known or control.refusals)

    fields = ("_has_started", "_has_namespaces", "_awake")  # informers forget the indexes of what goes

    def _made(self, name: str, like: object) -> SavedFields:
        """Make the controllers of a fork."""
        return self.wake()

    @property
    def deletions(self) -> int:
        """Number of pods that the controllers have deleted so far."""
        return 0 if self._awake is None else self._awake.deletions

    def work(self) -> bool:
        """See `ClusterControllers.work`."""
        if self._awake is None and self._around.client.has_kind("LocalQueue"):
            self.wake()  # pods that no controller makes may wait in a queue, too
        return self._awake is not None and self._awake.work(not self.holds_queues)

    def next_time(self) -> float:
        """See `ClusterControllers.next_time`."""
        return inf if self._awake is None else self._awake.next_time()

    def next_stop(self) -> float:
        """See `ClusterControllers.next_stop`."""
        return inf if self._awake is None else self._awake.next_stop()

    def end_back_off(self) -> bool:
        """See `ClusterControllers.end_back_off`."""
        return self._awake is not None and self._awake.end_back_off()


class _Waking:
    """Hears of the objects of a kind for controllers, and wakes them by the first one."""

    def __init__(self, sleeping: SleepingControllers, kind: type[Object]) -> None:
        self._sleeping, self.kind = sleeping, kind

    def _handler(self) -> Any:
        return self._sleeping.wake().handlers.get(self.kind)

    def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
        if handler := self._handler():
            handler.on_add(obj, is_in_initial_list)

    def on_update(self, old: Any, new: Any) -> None:
        if handler := self._handler():
            handler.on_update(old, new)

    def on_delete(self, obj: Any) -> None:
        if handler := self._handler():
            handler.on_delete(obj)


class _OfNamespaces(_Waking):
    """Wakes controllers by a namespace that is gone."""

    def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
        """Do nothing, as they do."""

    def on_update(self, old: Any, new: Any) -> None:
        """Do nothing, as they do."""


class _OfNodes(_Waking):
    """Wakes controllers by nodes that change, or come after all that were read."""

    def on_run(self, notices: Iterable[Notice[Node]]) -> int:
        sleeping, notices = self._sleeping, list(notices)
        known, changes = sleeping.handlers, [notice for notice in notices if not notice.is_addition]
        if known is None and not (sleeping.has_started or changes):
            return len(notices)
        handler: Any = (known or sleeping.wake().handlers)[Node]
        received: int = handler.on_run(notices)
        return received


class _OfPods(_Waking):
    """Wakes controllers by pods that have owners, or are deleted."""

    def on_run(self, notices: Iterable[Notice[Pod]]) -> int:
        known = self._sleeping.handlers
        if known is None:
            number, selected = of_dependents(notices)
            if not selected:
                return number
            known = self._sleeping.wake().handlers
        handler: Any = known[Pod]
        received: int = handler.on_run(notices)
        return received

"""The state that scheduling cycles share: cache, engines with their rotation, nominations, and binding
cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from moorage._core.decide.pod_batch import PodBatch, Route, Routes
from moorage._core.state.pod_spec import bound
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import group_of
from moorage.kube.model.resource_claims import DeviceClass
from moorage.lazy import lazy_attribute
from moorage.store import Lister, ObjectStore
from moorage.store.pod_binding import why_unreadable

from ..cache import SchedulerCache
from ..cache.scheduler_cache import Enlisted
from ..framework.group_index import PodGroups
from ..framework.handle import FrameworkHandle
from ..framework.in_tree_plugins import NO_RESOURCES
from ..framework.interface import NominatingInfo
from ..framework.run_plugins import Target
from .cycle.binding_cycle import BindingCycles
from .cycle.engine import Engine, Rotation
from .cycle.results import Failure
from .cycle.status_writes import patch_pod
from .volume_classes import VolumeClasses

PROFILE = int(Route.PROFILE)
EXTENDERS, WAITS = int(Route.EXTENDERS), int(Route.WAITS)
SIGNED, SIGNATURE = int(Route.SIGNED), int(Route.SIGNATURE)


@dataclass
class SchedulingContext:
    """The state that scheduling cycles share.

    Attributes
    ----------
    cache : SchedulerCache
    handle : FrameworkHandle
        The handle of the plugins.
    rotation : Rotation
        The engines, and the position at which the next search begins.
    by_name : dict of str to Engine
        Scheduler name to the engine of its profile.
    bindings : BindingCycles
        The pods that wait on Permit or are being bound.
    transaction_parts : Enlisted
        Store, informers and queue as a participant of transactions.
    sync : callable
        Has the scheduler process the new events of the store; returns whether there were any.
    current : callable
        Returns the latest state of a pod by namespace and name, or None.
    finish_binding : callable
        Lets time pass until none of the given pods is being bound; returns the failures by
        ``namespace/name``.
    routes : Routes
        Computes the route of a pod: the features that its placement needs.
    routes_of_members : Routes
        Computes the route of a pod that is placed together with the others of its group: it waits for none
        of them.
    volume_classes : VolumeClasses
        Finds the classes of pods with volumes.
    """

    cache: SchedulerCache
    handle: FrameworkHandle
    rotation: Rotation
    by_name: dict[str, Engine]
    bindings: BindingCycles
    transaction_parts: Enlisted
    sync: Callable[[], bool]
    current: Callable[[Pod], Pod | None]
    finish_binding: Callable[[Sequence[Pod]], dict[str, Failure]]
    _device_classes: int = field(default=0, init=False)  # `changes` of their lister when routes were computed
    # Of the last signed pod, and whether its route has SIGNATURE.
    _signature: bytes | None = field(default=None, init=False)
    _turn: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.nominator = self.handle.nominator
        self.volume_classes = VolumeClasses(self.engine_of)
        self._begin_routes()

    def _begin_routes(self) -> None:
        engines, extenders = self.rotation.engines, self.handle.extenders
        signers = [engine.framework.signer for engine in engines if engine.signs]
        repeats = not extenders and all(signer.reads_spec_alone for signer in signers)
        of_pod = self._route_of_pod if extenders or signers else None
        self.routes_of_members = self.routes = Routes(self._route_of_class, of_pod, repeats)
        if any(engine.profile.has_units for engine in engines):
            self.routes = Routes(self._route_of_class, self._route_of_pod, repeats)

    @property
    def store(self) -> ObjectStore | None:
        """The scheduler's client if it is a store of this process, whose writes can be undone."""
        return self.bindings.store

    @property
    def groups(self) -> PodGroups:
        """The pod groups."""
        return self.handle.shared(PodGroups)

    # ---- engines -------------------------------------------------------------------------------------------

    def engine_of(self, pod: Pod) -> Engine:
        """Return the engine of a pod's profile; that of the first profile, if no profile has the pod's
        scheduler name."""
        return self.by_name.get(pod.spec.scheduler_name) or self.rotation.engines[0]

    def engines_of(self, pods: Iterable[Pod]) -> set[Engine]:
        """Return the engines of the profiles of pods; see `engine_of`."""
        one_of_each = {pod.spec.scheduler_name: pod for pod in pods}
        return set(map(self.engine_of, one_of_each.values()))

    def engine_for(self, pod: Pod) -> Engine:
        """Return the engine that schedules a pod, and hand the rotation to it."""
        return self.rotation.take(self.engine_of(pod))

    def target_of(self, pod: Pod) -> Target:
        """Return the target of a pod.

        Returns
        -------
        (int, int, int)
            Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
        """
        return self.engine_of(pod).framework.target_of(pod)

    def batch_of(self, pods: Sequence[Pod], by_demand: bool = False, first: int = 0) -> PodBatch:
        """Return pods as a batch for the core, with the route of each.

        Parameters
        ----------
        by_demand : bool, optional
            Whether the core is to place pods with bound volumes by the demand of their class
            (`Route.CLAIMS`), until events about claims and volumes are processed.
        first : int, optional
            The index of the first pod that the batch knows.

        Returns
        -------
        PodBatch
            With `by_demand` it ends before a pod with a claim that an earlier pod of the batch allocates.
        """
        self._forget_routes()
        classes = self.volume_classes.begin() if by_demand else None
        delegated = self._delegated() if self._device_classes else NO_RESOURCES
        return PodBatch(self.cache.state, pods, self.routes, classes, first, delegated)

    def readable_batch_of(self, pods: Sequence[Pod], first: int) -> PodBatch | str:
        """Return pods as `batch_of` does by demand, up to one that cannot be read.

        Parameters
        ----------
        first : int
            The index of the first pod that the batch knows.

        Returns
        -------
        PodBatch or str
            Why the first pod cannot be read, if it cannot.
        """
        try:
            return self.batch_of(pods, True, first)
        except ValueError:  # by a quantity of a pod that nobody has checked
            for at, pod in enumerate(pods[first:], first):
                if why := why_unreadable(pod):
                    return self.batch_of(pods[:at], True, first) if at > first else f"pod {pod.key}: {why}"
            raise

    def _delegated(self) -> frozenset[str]:
        """The extended resources that device classes provide."""
        resources = [engine.profile.delegated_resources() for engine in self.rotation.engines]
        return resources[0] if len(resources) == 1 else frozenset().union(*resources)

    @lazy_attribute
    def _device_class_lister(self) -> Lister[DeviceClass]:
        lister: Lister[DeviceClass] = self.handle.informers.lister(DeviceClass)
        return lister

    def _forget_routes(self) -> None:
        """Drop known routes after a change of device classes, as extended resources may be theirs."""
        version = self._device_class_lister.changes
        if version != self._device_classes:
            self._device_classes = version
            self._begin_routes()

    def _route_of_class(self, pod: Pod, target: Target, uses_volumes: bool) -> int:
        """Return the route bits that all pods of a class share."""
        engine = self.engine_of(pod)
        by_demand = target[0] in engine.search.states.volume_demands
        if not (uses_volumes or by_demand) and engine.profile.asks_devices(pod):
            return engine.number * PROFILE | Route.PYTHON | Route.VOLUMES
        route = engine.number * PROFILE
        if not (engine.profile.complete if uses_volumes else engine.profile).is_in_core:
            return route | Route.PYTHON
        return route if engine.passes(target, pod) else route | Route.REJECTED

    def _route_of_pod(self, pod: Pod) -> int:
        """Return the route bits that depend on the single pod."""
        engine, route = self.engine_of(pod), 0
        if not engine.decides_alone(pod):
            route |= EXTENDERS
        if engine.profile.has_units and group_of(pod) is not None:
            route |= WAITS
        if engine.signs and (signature := engine.sign(pod)) is not None:  # volumes do not change it
            if signature != self._signature:
                self._signature, self._turn = signature, self._turn ^ SIGNATURE
            route |= SIGNED | self._turn
        return route

    def engine_of_route(self, route: int) -> Engine:
        """Return the engine that schedules the pods of a route, and hand the rotation to it.

        Parameters
        ----------
        route : int
            Bits of `Route`, as `PodBatch.cut` returns them.
        """
        return self.rotation.take(self.rotation.engines[route // PROFILE])

    def assume(self, pod: Pod, node: str) -> None:
        """Assume a pod on the chosen node, and end its nomination.

        Raises
        ------
        CacheError
            The pod is in the cache.
        """
        self.cache.assume_pod(bound(pod, node))
        for follow in self.engine_of(pod).plan.follows:
            follow()
        if pod.metadata.uid in self.nominator.nodes:
            self.nominator.delete_nominated_pod_if_exists(pod)

    def nominate(self, pod: Pod, info: NominatingInfo | None, *, writes: bool = True) -> None:
        """Record a change of nomination by PostFilter, for a pod whose failure is not reported otherwise.

        Parameters
        ----------
        info : NominatingInfo or None
            None, or `noop`, leaves the nomination as it is.
        writes : bool, optional
            Whether the status of the pod is written, and not only the nominator.
        """
        if info is None or info.noop or not self.nominator.is_changed_by(pod, info):
            return
        self.nominator.add_nominated_pod(pod, info)
        if writes:
            patch_pod(self.bindings.client, pod, None, info, self.bindings.writes)

    # ---- the node list -------------------------------------------------------------------------------------

    def view_order(self) -> list[str]:
        """Return the node names in the list order of a cycle that begins now."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.node_names()

    def view_rows(self) -> npt.NDArray[np.int32]:
        """Return the rows of the node table in the list order of a cycle that begins now, as (n,) int32
        array."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.rows()

    # ---- transactions --------------------------------------------------------------------------------------

    def enlist(self) -> None:
        """Enlist store, informers and queue in the open transactions, before a write to any of them.

        Raises
        ------
        MoorageError
            Such a write could not be undone.
        """
        if self.cache.transactions:
            self.cache.enlist(self.transaction_parts)

    def enlist_if_possible(self) -> None:
        """Enlist store, informers and queue in the open transactions, if writes to the store can be
        undone."""
        if self.cache.transactions and self.store is not None:
            self.cache.enlist(self.transaction_parts)

    def take_back(self, pods: Iterable[Pod]) -> None:
        """Remove assumed pods from the cache, except those whose binding cycles go on.

        Parameters
        ----------
        pods : iterable of Pod
            Read under the lock of the cache.
        """
        with self.cache.lock:
            for pod in pods:
                if self.cache.is_assumed_pod(pod) and not self.bindings.has(pod):
                    self.cache.forget_pod(self.cache.get_pod(pod))

    @contextmanager
    def taken_back_on_error(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Remove assumed pods from the cache if an exception ends the block; see `take_back`."""
        try:
            yield
        except BaseException:
            self.take_back(pods)
            raise

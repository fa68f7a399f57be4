"""What scheduling cycles share: cache, engines with their rotation, nominations, and binding cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from moorage._core.decide.pod_batch import PodBatch, Route, Routes
from moorage._core.state.pod_spec import bound
from moorage.cache import SchedulerCache
from moorage.framework.plugin.group_index import PodGroups
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.runtime.runtime import Target, target_of
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import group_of

from .cycle.engine import Engine
from .cycle.engines import Rotation
from .cycle.results import Decision, Failure
from .placing.binding_cycle import BindingCycles
from .placing.place import APART
from .placing.single_cycle import schedule_one
from .records import Records

VOLUMES, PROFILE = int(Route.VOLUMES), int(Route.PROFILE)
SEGMENTS = APART | VOLUMES | ~(PROFILE - 1)
"""Where these bits change, the engine or the way does in which pods are decided about."""


@dataclass
class SchedulingContext:
    """What scheduling cycles share.

    Attributes
    ----------
    handle : FrameworkHandle
        What plugins are handed.
    rotation : Rotation
        The engines, and where the next search begins.
    by_name : dict of str to Engine
        The engine of each profile by its scheduler name.
    records : Records
        The store and all that follows from it, as a participant of transactions.
    sync : callable
        Takes over what the store has to tell.
    current : callable
        What informers have of a pod now, by namespace and name.
    finish_binding : callable
        Lets time pass until these pods are being bound no longer; those that failed, by
        ``namespace/name``.
    group_cycle_bugs : bool
        See `Scheduler`.
    percentage_of_placements : int or None
        The configuration's percentageOfPlacementsToScore: of the placements of a pod group that is bound to a
        topology, how many that suit it are looked for; 0 is adaptive, None all (`placements_to_find`).
    """

    cache: SchedulerCache
    handle: FrameworkHandle
    rotation: Rotation
    by_name: dict[str, Engine]
    bindings: BindingCycles
    records: Records
    sync: Callable[[], bool]
    current: Callable[[Pod], Pod | None]
    finish_binding: Callable[[Sequence[Pod]], dict[str, Failure]]
    group_cycle_bugs: bool = True
    percentage_of_placements: int | None = None

    @property
    def nominator(self) -> PodNominator:
        """The nominated pods."""
        return self.handle.nominator

    @property
    def groups(self) -> PodGroups:
        """The pod groups."""
        return self.handle.shared(PodGroups)

    # ---- engines -------------------------------------------------------------------------------------------

    def engine_of(self, pod: Pod) -> Engine:
        """The engine of the profile that a pod asks for; of the first, where there is none."""
        return self.by_name.get(pod.spec.scheduler_name) or self.rotation.engines[0]

    def engine_for(self, pod: Pod) -> Engine:
        """The engine that decides about a pod, with the rotation, which all engines share."""
        return self.rotation.take(self.engine_of(pod).for_pod(pod))

    def target_of(self, pod: Pod) -> Target:
        """A pod's class, and the symbols of the node it names and of the one it is pinned to (0: none)."""
        return target_of(self.cache, pod)

    @cached_property
    def routes(self) -> Routes:
        """What the placements of pods need."""
        engines = self.rotation.engines
        differ = self.handle.extenders or any(one.signs or one.profile.has_units for one in engines)
        return Routes(self._route_of_class, self._route_of_pod if differ else None)

    def batch_of(self, pods: Sequence[Pod]) -> PodBatch:
        """Pods as the core reads them, with the route of each.

        Parameters
        ----------
        pods : sequence of Pod

        Returns
        -------
        PodBatch
        """
        return PodBatch(self.cache.state, pods, self.routes)

    def _route_of_class(self, pod: Pod, target: Target) -> int:
        """What the placement of all pods of a class needs: of a profile's pods with volumes, or of others."""
        engine = self.engine_of(pod)
        route, decider = engine.number * PROFILE, engine.for_pod(pod)
        if not decider.profile.is_in_core:
            return route | Route.PYTHON
        return route if decider.passes(target, pod) else route | Route.REJECTED

    def _route_of_pod(self, pod: Pod) -> int:
        """What else the placement of a pod needs."""
        engine, route = self.engine_of(pod), 0
        if not engine.decides_alone(pod):
            route |= Route.EXTENDERS
        if engine.profile.has_units and group_of(pod) is not None:
            route |= Route.WAITS
        if engine.for_pod(pod).sign(pod) is not None:
            route |= Route.SIGNED
        return route

    def deciding(self, route: int) -> Engine:
        """The engine that decides about pods of a route.

        Parameters
        ----------
        route : int
            Bits of `Route`, as `PodBatch.cut` returns them.

        Returns
        -------
        Engine
        """
        return self.rotation.engines[route // PROFILE].deciding(route & VOLUMES != 0)

    def assume(self, pod: Pod, node: str) -> None:
        """Put a pod on the node that was chosen; it is nominated no more.

        Parameters
        ----------
        pod : Pod
        node : str

        Raises
        ------
        CacheError
            The pod is in the cache.
        """
        self.cache.assume_pod(bound(pod, node))
        self.nominator.delete_nominated_pod_if_exists(pod)

    # ---- the node list -------------------------------------------------------------------------------------

    def view_order(self) -> list[str]:
        """Node names in the order in which a cycle that began now would list them."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.node_names()

    def view_rows(self) -> npt.NDArray[np.int32]:
        """Rows of the node table in that order."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.rows()

    # ---- transactions --------------------------------------------------------------------------------------

    def enlist(self) -> None:
        """Before something is written to more than the cache: have all that take part in open transactions.
        MoorageError where that cannot be taken back."""
        if self.cache.transactions:
            self.cache.enlist(self.records)

    def enlist_if_possible(self) -> None:
        """`enlist`, where what is written can be taken back."""
        if self.cache.transactions and self.records.can_undo:
            self.cache.enlist(self.records)

    def take_back(self, pods: Iterable[Pod]) -> None:
        """Take pods off the nodes that they are assumed on, but those whose binding cycles go on.

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
        """Where an exception ends what is done inside, none of these pods stays assumed."""
        try:
            yield
        except BaseException:
            self.take_back(pods)
            raise

    # ---- one pod -------------------------------------------------------------------------------------------

    def schedule_one(self, pod: Pod) -> Decision:
        """One cycle for one pod, with all that is known of it; see `placing.single_cycle.schedule_one`.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Decision
        """
        return schedule_one(self, pod)

"""What scheduling cycles share: cache, engines with their rotation, nominations, and binding cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moorage._core.decide.pod_batch import PodBatch, Route
from moorage._core.state.pod_spec import bound
from moorage.cache import SchedulerCache
from moorage.errors import CacheError
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
from .placing.single_cycle import schedule_one
from .records import Records

CANNOT_BE_ASSUMED = "pod {} is in the cache, so can't be assumed"
WHOLE_CYCLE = int(Route.PYTHON | Route.EXTENDERS)
PROFILE = int(Route.PROFILE)
SEGMENTS = int(WHOLE_CYCLE | Route.WAITS | Route.VOLUMES) | ~(PROFILE - 1)
"""Where these bits change, the engine or the way does."""


@dataclass(slots=True)
class Segment:
    """Pods of a batch that follow one another and are decided about in one way.

    Attributes
    ----------
    engine : Engine
        The one that decides.
    whole_cycle : bool
        Whether plugins outside the core or extenders have a say, so that each pod has a cycle of its own.
    waits : bool
        Whether the pods wait on Permit for others of their groups, where they come alone.
    first, end : int
        The first pod, and the one behind the last.
    """

    engine: Engine
    whole_cycle: bool
    waits: bool
    first: int
    end: int

    def part(self, first: int, end: int) -> Segment:
        """Some of the pods."""
        return Segment(self.engine, self.whole_cycle, self.waits, first, end)


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

    def batch_of(self, pods: Sequence[Pod]) -> PodBatch:
        """Pods as the core reads them, with the route of each."""
        batch, engines = PodBatch(self.cache.state, pods), self.rotation.engines
        each = len(engines) > 1 or engines[0].profile.has_units or bool(self.handle.extenders)
        batch.route_by(lambda at: self._route_of(pods[at], batch.target(at)), each or engines[0].signs)
        return batch

    def template_batch_of(self, template: Pod, n: int) -> PodBatch:
        """`n` replicas of a template as the core reads them, with their route."""
        batch = PodBatch.of_template(self.cache.state, template, n)
        batch.route_by(lambda at: self._route_of(template, batch.target(at)))
        return batch

    def _route_of(self, pod: Pod, target: Target) -> int:
        """What the placement of a pod needs, as far as its profile says."""
        engine = self.engine_of(pod)
        route, decider = engine.number * PROFILE, engine.for_pod(pod)
        if not decider.profile.is_in_core:
            return route | Route.PYTHON
        if self.handle.extenders and engine.interested(pod):
            route |= Route.EXTENDERS
        if engine.profile.has_units and group_of(pod) is not None:
            route |= Route.WAITS
        if not decider.passes(target, pod):
            route |= Route.REJECTED
        if decider.sign(pod) is not None:
            route |= Route.SIGNED
        return route

    def segments(self, batch: PodBatch, first: int = 0, end: int | None = None) -> Iterator[Segment]:
        """A batch cut where the way changes in which pods are decided about. Each segment has the rotation
        while it is looked at."""
        engines, end = self.rotation.engines, len(batch) if end is None else end
        for begin, stop, route in batch.cut(SEGMENTS, first):
            if begin >= end:
                return
            engine = engines[route // PROFILE]
            if route & Route.VOLUMES:
                engine = engine.deciding(True)
            ways = bool(route & WHOLE_CYCLE), bool(route & Route.WAITS)
            yield Segment(self.rotation.take(engine), *ways, begin, min(stop, end))

    def assume(self, pod: Pod, node: str) -> None:
        """Put a pod on the node that was chosen; it is nominated no more."""
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

    # ---- new pods ------------------------------------------------------------------------------------------

    def check_new(self, pods: Sequence[Pod]) -> None:
        """CacheError for a pod that is in the cache, or comes twice."""
        seen = set()
        for pod in pods:
            if pod.metadata.uid in seen or self.cache.state.has_pod(pod):
                raise CacheError(CANNOT_BE_ASSUMED.format(pod.metadata.uid))
            seen.add(pod.metadata.uid)

    def take_back(self, pod: Pod) -> None:
        """Take a pod off the node that it is assumed on, unless its binding cycle goes on."""
        with self.cache.lock:
            if self.cache.is_assumed_pod(pod) and not self.bindings.has(pod):
                self.cache.forget_pod(self.cache.get_pod(pod))

    @contextmanager
    def taken_back_on_error(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Where an exception ends what is done inside, none of these pods stays assumed."""
        try:
            yield
        except BaseException:
            for pod in pods:
                self.take_back(pod)
            raise

    # ---- one pod -------------------------------------------------------------------------------------------

    def schedule_one(self, pod: Pod) -> Decision:
        """One cycle for one pod, with all that is known of it; see `placing.single_cycle.schedule_one`."""
        return schedule_one(self, pod)

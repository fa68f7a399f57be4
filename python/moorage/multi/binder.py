"""Binder: checks and binds the placements that several schedulers propose.

Schedulers decide concurrently with optimistic concurrency control, as in Gödel. The binder checks their
placements one after the other against one cache, which contains every pod that it has admitted. A conflict is
a rejection with its own reason: too few resources, a port in use, a skew, or a victim claimed by another pod.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby, repeat
from operator import attrgetter
from threading import RLock
from typing import Any, TypeVar, Unpack, cast

import numpy as np
from msgspec import Struct

from moorage import framework as fwk
from moorage._core.base.watch_events import Notice, keys_of
from moorage._core.decide.batch_rows import Placements
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.pod_batch import PodBatch, Route, Routes
from moorage._core.decide.reported_pods import confirm_bindings
from moorage._core.state.pod_spec import bound
from moorage.cache import SchedulerCache
from moorage.errors import CacheError
from moorage.framework.configuration import feature_gates as all_gates
from moorage.framework.configuration import groups_pods
from moorage.framework.runtime.preempt_handle import budgets_of
from moorage.framework.runtime.runtime import Target, target_of
from moorage.multi.binder_cache import BinderCache, CacheHandler, CachePodInfo, SchedulingStatus, Victims
from moorage.objects import Namespace, Node, Object, Pod, PodDisruptionBudget, PodGroup, UnitKey, group_of
from moorage.objects.model.godel import ledger_of, unit_key
from moorage.objects.workloads.ownership import FINISHED
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.registry import default_profile, read_configuration
from moorage.preemption.eviction_units import Unit, violations
from moorage.scheduler import event_handlers, kind_handlers
from moorage.scheduler.cycle.diagnosis import explain_verdict
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.engines import make_engines
from moorage.scheduler.cycle.opportunistic_batching import Batching
from moorage.scheduler.cycle.placement_check import check
from moorage.scheduler.options import Options, ProfileOptions, check_names
from moorage.scheduler.volume_controllers import ExternalController
from moorage.store import InformerFactory, ObjectClient, ObjectStore
from moorage.store.errors import ApiError, ConflictError, NotFoundError, conflict
from moorage.store.informers.handler_functions import HandlerFunctions


class Placement(Struct, frozen=True, gc=False):
    """A pod and the node that a scheduler has chosen for it.

    Attributes
    ----------
    pod : Pod
        The pod to bind.
    node : str
        Name of the node.
    victims : tuple of Pod
        Pods on the node to evict for the pod.
    violations : int
        Number of victims that a PodDisruptionBudget protected when the scheduler chose them.
    scheduler : str
        Name of the scheduler.
    """

    pod: Pod
    node: str
    victims: tuple[Pod, ...] = ()
    violations: int = 0
    scheduler: str = ""


class Outcome(Struct, frozen=True):
    """The binder's decision about a placement: bound, waiting for victims, or rejected.

    Attributes
    ----------
    placement : Placement
        The placement.
    status : Status or None
        The rejection; None if the placement was not rejected.
    waiting : bool
        Whether the pod is assumed until its victims are deleted.
    """

    placement: Placement
    status: fwk.Status | None = None
    waiting: bool = False

    @property
    def is_bound(self) -> bool:
        """Whether the pod was bound."""
        return self.status is None and not self.waiting

    @property
    def reason(self) -> str:
        """The message of the rejection, or ""."""
        return "" if self.status is None else self.status.message()


VICTIMS_TIMEOUT = 600.0
"""Seconds that a pod waits until its victims are deleted (Gödel's binder)."""

LEFT = "pod {} is deleted or being deleted"
CLAIMED = "victim {} is claimed by another pod"
GONE = "victim {} is not on node {}"
VIOLATES = "{} victims are protected by a PodDisruptionBudget now, {} when they were chosen"
TOO_FEW = "pod group {}: {} of its pods could be bound, {} are wanted"
PYTHON, WAITS, PROFILE = int(Route.PYTHON), int(Route.WAITS), int(Route.PROFILE)
APART = PYTHON | WAITS
"""Route bits of pods that are checked one by one: out-of-tree plugins, volumes, best effort, groups."""

POD, NODE, PLACEMENT = map(attrgetter, ("pod", "node", "placement"))

TOO_LATE = "victims were not deleted within {:g} s"


class Admitted(Struct, frozen=True):
    """A placement whose pod is assumed.

    Attributes
    ----------
    placement : Placement
        The placement.
    engine : Engine
        The engine that has checked it.
    state : CycleState or None
        State of the cycle; None if no plugin has written any.
    deadline : float
        Time in seconds on the binder's clock at which the wait for victims ends.
    """

    placement: Placement
    engine: Engine
    state: fwk.CycleState | None
    deadline: float = 0.0

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.placement.pod.metadata.uid

    @property
    def assumed(self) -> Pod:
        """The pod with its node."""
        return bound(self.placement.pod, self.placement.node)


class Binder:
    """Checks placements, binds those that pass, and rejects the others with a reason.

    Parameters
    ----------
    client : ObjectClient
        Binds pods and deletes victims. The binder follows it through informers of its own; see `sync`.
    profile, profiles, config, feature_gates, registry
        Arguments of `Scheduler`. A pod is checked by the PreFilter and Filter plugins of its profile, and
        bound by the Reserve, PreBind, Bind and PostBind plugins. Pod groups are respected if a gate for them
        is on.
    cache : BinderCache, optional
        An empty cache; by default one with Gödel's expiry times.
    clock : callable
        Returns the time in seconds, for the wait for victims.
    wait : callable
        Called with the seconds to wait while the volumes of a pod are being bound.
    """

    def __init__(
        self,
        client: ObjectClient,
        *,
        cache: BinderCache | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
        **plugins: Unpack[ProfileOptions],
    ) -> None:
        check_names(plugins, ProfileOptions, "a binder")
        self.client = client
        self.clock = clock
        self.cache = cache or BinderCache(CacheHandler(clock=clock))
        self.informers = InformerFactory(client)
        of_all, nominator = cast(SchedulerCache, self.cache), fwk.PodNominator(lambda pod: False)
        external = ExternalController(self.sync, wait)
        self._handle = fwk.FrameworkHandle(of_all, client, self.informers, nominator, wait=external.wait)
        config, gates = plugins.get("config"), all_gates(plugins.get("feature_gates"))
        self._has_units = groups_pods(gates)
        configuration = None if config is None else read_configuration(config, gates)
        one_or_more = plugins.get("profiles") or (plugins.get("profile") or default_profile(gates),)
        options = Options(configuration=configuration, registry=plugins.get("registry"), tie_break="first")
        self._engines = make_engines(self._handle, options, one_or_more, Batching(False, clock))
        of_pod = (lambda pod: WAITS if group_of(pod) else 0) if self._has_units else None
        self._routes = Routes(self._route_of_class, of_pod)
        self._pods = self.informers.informer(Pod).indexer
        self._by_name = {engine.profile.scheduler_name: engine for engine in self._engines}
        self._best_effort: dict[str, Engine] = {}
        self._waiting: dict[str, Admitted] = {}
        self._lock = RLock()  # units are processed one after the other
        watch(self.informers, self.cache)
        self.sync()

    def sync(self) -> bool:
        """Apply all pending events of the store; True if there were any."""
        any_events = False
        while self.informers.run_once():
            any_events = True
        return any_events

    def client_for(self, name: str = "") -> ObjectClient:
        """Return a client for one of several schedulers: ``Scheduler(binder.client_for("one"))``.

        The schedulers follow the same store and may run in threads. A rejected placement raises ConflictError
        with the reason in the scheduler, which forgets the pod and retries it.

        Parameters
        ----------
        name : str
            Name of the scheduler in placements.
        """
        return cast(ObjectClient, BindingClient(self, name))

    # ---- placements ----------------------------------------------------------------------------------------

    def bind(self, placements: Sequence[Placement]) -> list[Outcome]:
        """Check placements one after the other, and bind those that pass.

        Parameters
        ----------
        placements : sequence of Placement
            Placements in order. Consecutive pods of a pod group are a unit: at least its minimum is bound, or
            none.

        Returns
        -------
        list of Outcome
            In the order of `placements`.
        """
        with self._lock:
            return self._decide(placements)

    def _decide(self, placements: Sequence[Placement]) -> list[Outcome]:
        with self.cache.lock:
            decided = self._admit_all(placements)
        admitted = [item for item in decided if isinstance(item, Admitted)]
        outcomes = self._proceed(admitted)
        if len(outcomes) == len(decided):
            return outcomes
        each = iter(outcomes)
        return [next(each) if isinstance(item, Admitted) else item for item in decided]

    # ---- checking ------------------------------------------------------------------------------------------

    def _admit_all(self, placements: Sequence[Placement]) -> list[Admitted | Outcome]:
        """Check placements and assume their pods, in order: by the core together where possible."""
        batch, chosen = self._choose_rows(placements)
        decided: list[Admitted | Outcome] = []
        for _, end, route in batch.cut(-PROFILE):
            while (at := len(decided)) < end:
                decided += self._admit_together(self._engines[route // PROFILE], placements, chosen, at, end)
                if (at := len(decided)) < end:
                    stop = at + 1
                    while stop < len(placements) and chosen.rows[stop] < 0:
                        stop += 1
                    decided += self._admit_each(placements[at:stop])
        return decided

    def _choose_rows(self, placements: Sequence[Placement]) -> tuple[PodBatch, Placements]:
        """Return the pods as a batch, with the row of each that the core may check; -1 for the others."""
        pods = list(map(POD, placements))
        batch = PodBatch(self.cache.state, pods, self._routes)
        chosen = Placements(self.cache.state, len(pods), batch)
        nodes, stored = list(map(NODE, placements)), self._pods.get_many(keys_of(pods))
        self.cache.pods.choose_rows(pods, nodes, stored, chosen.rows)
        for first, end, route in batch.cut(APART):
            if route:
                chosen.rows[first:end] = -1
        chosen.rows[[at for at, placement in enumerate(placements) if placement.victims]] = -1
        return batch, chosen

    def _route_of_class(self, pod: Pod, target: Target, uses_volumes: bool) -> int:
        """Return the profile of a class, and whether Python has to check its pods."""
        engine = self._by_name.get(pod.spec.scheduler_name, self._engines[0])
        is_apart = uses_volumes or ledger_of(pod) or not engine.profile.is_in_core
        return engine.number * PROFILE | (PYTHON if is_apart or not engine.passes(target, pod) else 0)

    def _admit_together(
        self, engine: Engine, placements: Sequence[Placement], chosen: Placements, first: int, end: int
    ) -> list[Admitted | Outcome]:
        """Check placements by the core alone, up to one that it cannot check, and assume their pods."""
        verdicts = np.zeros(end, dtype=np.uint64)
        end = self.cache.admit(engine.placer, chosen, verdicts, first, end)
        deadline = self.clock() + VICTIMS_TIMEOUT
        decided: list[Admitted | Outcome] = list(
            map(Admitted, placements[first:end], repeat(engine), repeat(None), repeat(deadline))
        )
        for at in np.flatnonzero(verdicts[first:end]).tolist():
            placement = placements[first + at]
            shape = engine.framework.shape_of(target_of(engine.cache, placement.pod))
            status = explain_verdict(engine.profile, shape, int(verdicts[first + at]))
            decided[at] = Outcome(placement, status)
        return decided

    def _admit_each(self, placements: Sequence[Placement]) -> list[Admitted | Outcome]:
        """Check placements one by one, unit by unit, and assume their pods."""
        decided: list[Admitted | Outcome] = []
        for group, unit in groupby(placements, key=self._unit_of):
            some = [self._admit(placement) for placement in unit]
            decided += some if group is None else self._all_or_nothing("/".join(group), some)
        return decided

    def _unit_of(self, placement: Placement) -> UnitKey | None:
        return group_of(placement.pod) if self._has_units else None

    def current(self, pod: Pod) -> Pod:
        """Return the latest state of a pod that the cache has.

        Returns
        -------
        Pod
            The argument, if the cache does not have it.
        """
        with self._lock:
            return self.cache.get_pod(pod) if self.cache.state.has_pod(pod) else pod

    def resume(self) -> list[Outcome]:
        """Bind the waiting pods whose victims are deleted, and reject those whose wait has timed out.

        Assumed pods and marks of the cache expire, too.

        Returns
        -------
        list of Outcome
            Outcomes of the pods that no longer wait.
        """
        with self._lock:
            self.sync()
            self.cache.clean(self.clock())
            now, waiting, self._waiting = self.clock(), self._waiting, {}
            ready, late = list[Admitted](), list[Admitted]()
            for uid, admitted in waiting.items():
                if not self._has_victims(admitted):
                    ready.append(admitted)
                elif now > admitted.deadline:
                    late.append(admitted)
                else:
                    self._waiting[uid] = admitted
            status = fwk.Status(fwk.Code.ERROR, (TOO_LATE.format(VICTIMS_TIMEOUT),))
            return [self._reject(admitted, status) for admitted in late] + self._bind_all(ready)

    def _admit(self, placement: Placement) -> Admitted | Outcome:
        """Check one placement; if it passes, mark its victims and assume its pod."""
        pod = placement.pod
        ledger = ledger_of(pod)
        engine = self._engine(pod, ledger)
        status = self._check_pod(pod) or (self._check_victims(placement) if placement.victims else None)
        if status is not None:
            return Outcome(placement, status)
        checked = check(engine, pod, placement.node, placement.victims)
        if isinstance(checked, fwk.Status):
            return Outcome(placement, checked)
        if ledger and (reasons := self.cache.fits(pod, placement.node, placement.victims)):
            return Outcome(placement, fwk.Status(fwk.Code.UNSCHEDULABLE, reasons, NodeResourcesFit.name))
        assumed = bound(pod, placement.node)
        marked: list[Pod] = []
        try:
            for victim in placement.victims:
                self.cache.mark_pod_to_delete(victim, pod)
                marked.append(victim)
            self.cache.assume_pod(CachePodInfo(assumed, victims=Victims(placement.victims)))
        except CacheError as error:
            self._unmark(marked, pod)
            return Outcome(placement, fwk.as_status(error))
        return Admitted(placement, engine, checked, self.clock() + VICTIMS_TIMEOUT)

    def _engine(self, pod: Pod, ledger: int) -> Engine:
        """The engine that checks a pod.

        A best-effort pod gets one without NodeResourcesFit, which counts the guaranteed ledger only.
        """
        engine = self._by_name.get(pod.spec.scheduler_name, self._engines[0])
        if ledger:
            name = engine.profile.scheduler_name
            if name not in self._best_effort:
                profile = engine.profile.without(NodeResourcesFit.name)
                self._best_effort[name] = Engine(profile, replace(engine.handle), TieBreak.FIRST, 0, 0)
            engine = self._best_effort[name]
        return engine

    def _check_pod(self, pod: Pod) -> fwk.Status | None:
        """The rejection of a pod that is deleted or being deleted."""
        stored = self._pods.get(pod.key)
        if stored is None or stored.metadata.uid != pod.metadata.uid or stored.metadata.deletion_timestamp:
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (LEFT.format(pod.key),))
        return None

    def _check_victims(self, placement: Placement) -> fwk.Status | None:
        """The rejection if a victim cannot be evicted for the placement.

        A victim must be on the node and not be marked for another pod, and no more victims may be protected
        than before.
        """
        for victim in placement.victims:
            cached = self.cache.pods.find(victim)
            is_assumed = self.cache.pods.is_assumed_pod(victim)
            if cached is None or cached.spec.node_name != placement.node or is_assumed:
                return fwk.Status(fwk.Code.UNSCHEDULABLE, (GONE.format(victim.key, placement.node),))
            if self.cache.is_pod_marked_to_delete(victim):
                return fwk.Status(fwk.Code.UNSCHEDULABLE, (CLAIMED.format(victim.key),))
        (protected,) = violations([Unit(placement.victims, 0)], budgets_of(self._handle))
        if protected > placement.violations:
            return fwk.Status(fwk.Code.UNSCHEDULABLE, (VIOLATES.format(protected, placement.violations),))
        return None

    def _all_or_nothing(self, group: str, unit: list[Admitted | Outcome]) -> list[Admitted | Outcome]:
        """Reject the admitted pods of a unit if they are fewer than its minimum."""
        there = self.informers.informer(PodGroup).indexer.get(group)
        minimum = 0 if there is None else there.min_count
        running = len(self.cache.get_unit_status(unit_key(unit[0].placement.pod)).running_pods)
        if running >= minimum:
            return unit
        few = fwk.Status(fwk.Code.UNSCHEDULABLE, (TOO_FEW.format(group, running, minimum),))
        return [self._reject(item, few) if isinstance(item, Admitted) else item for item in unit]

    # ---- after the decision --------------------------------------------------------------------------------

    def _proceed(self, admitted: Sequence[Admitted]) -> list[Outcome]:
        """Delete victims, and bind the pods that need not wait for theirs."""
        preemptors = [item for item in admitted if item.placement.victims]
        if not preemptors:
            return self._bind_all(admitted)
        try:
            failed = {item.uid: status for item in preemptors if (status := self._delete_victims(item))}
        except BaseException:  # an interrupt
            for item in admitted:
                self._reject(item, fwk.Status(fwk.Code.ERROR))
            raise
        decided = {item.uid: self._reject(item, failed[item.uid]) for item in admitted if item.uid in failed}
        self.sync()
        for item in preemptors:
            if item.uid not in failed and self._has_victims(item):
                self._waiting[item.uid] = item
                decided[item.uid] = Outcome(item.placement, waiting=True)
        bound_ones = iter(self._bind_all([item for item in admitted if item.uid not in decided]))
        return [decided.get(item.uid) or next(bound_ones) for item in admitted]

    def _delete_victims(self, admitted: Admitted) -> fwk.Status | None:
        """Delete the victims of a pod; return an Error if one cannot be deleted."""
        try:
            for victim in admitted.placement.victims:
                with suppress(NotFoundError, ConflictError):  # deleted before, or made again
                    self.client.delete(Pod, victim.name, victim.namespace, uid=victim.metadata.uid)
        except Exception as error:  # clients of API servers raise what they like
            return fwk.as_status(error)
        return None

    def _has_victims(self, admitted: Admitted) -> bool:
        return any(self.cache.state.has_pod(victim) for victim in admitted.placement.victims)

    def _bind_all(self, ready: Sequence[Admitted]) -> list[Outcome]:
        """Bind pods, with one call of the store if no plugin takes part."""
        plain: Sequence[Admitted] = [item for item in ready if item.state is None]  # no plugin was called
        if not (plain and self._bind_together(plain)):
            plain = ()
        if len(plain) == len(ready):
            outcomes = list(map(Outcome, map(PLACEMENT, ready)))
        else:
            done = set(map(id, plain))
            outcomes = [Outcome(item.placement) if id(item) in done else self._bind(item) for item in ready]
        self.sync()
        return outcomes

    def _bind_together(self, ready: Sequence[Admitted]) -> bool:
        """Bind pods in one write; return False, and bind none, if one of them cannot be bound."""
        if not isinstance(self.client, ObjectStore):
            return False
        placements = list(map(PLACEMENT, ready))
        pods = list(map(POD, placements))
        try:
            self.client.bind_many(pods, list(map(NODE, placements)))
        except ApiError:  # a pod was bound or deleted before
            return False
        self._finish(pods)
        return True

    def _bind(self, admitted: Admitted) -> Outcome:
        """Run Reserve, PreBind, Bind and PostBind of one pod."""
        framework, pod, node = admitted.engine.framework, admitted.assumed, admitted.placement.node
        state = admitted.state or framework.new_state(pod)
        status = framework.run_reserve_plugins_reserve(state, pod, node)
        if status is None:
            status = framework.run_pre_bind_pre_flights(state, pod, node)
        if status is None:
            status = framework.run_pre_bind_plugins(state, pod, node)
        if status is None or status.is_skip:
            status = framework.run_bind_plugins(state, pod, node)
        if status is not None and not status.is_success:
            framework.run_reserve_plugins_unreserve(state, pod, node)
            return self._reject(admitted, status)
        framework.run_post_bind_plugins(state, pod, node)
        self._finish([admitted.placement.pod])
        return Outcome(admitted.placement)

    def _finish(self, pods: list[Pod]) -> None:
        self.cache.finish_bindings(pods)
        for pod in pods if self._has_units else ():
            if group_of(pod) is not None:
                self.cache.set_unit_scheduling_status(unit_key(pod), SchedulingStatus.SCHEDULED)

    def _reject(self, admitted: Admitted, status: fwk.Status) -> Outcome:
        """Forget a pod and unmark its victims."""
        with self.cache.lock:
            self._unmark(admitted.placement.victims, admitted.placement.pod)
            self.cache.forget_pod(CachePodInfo(admitted.assumed))
        return Outcome(admitted.placement, status)

    def _unmark(self, victims: Sequence[Pod], preemptor: Pod) -> None:
        for victim in victims:
            self.cache.remove_delete_pod_marker(victim, preemptor)


logger = logging.getLogger("moorage.multi")

T = TypeVar("T", bound=Object)


class Handler(HandlerFunctions[T]):
    """Event handler that calls the cache's methods for one kind, for example `add_node`.

    A CacheError is logged.
    """

    def __init__(self, cache: BinderCache, kind: str) -> None:
        methods = (getattr(cache, f"{action}_{kind}") for action in ("add", "update", "delete"))
        super().__init__(*[partial(_apply, method) for method in methods])


class PodHandler(Handler[Pod]):
    """Event handler for pods.

    A pod that has finished counts as deleted, a pod with a new UID as another pod.
    """

    def __init__(self, cache: BinderCache) -> None:
        super().__init__(cache, "pod")
        self._cache = cache

    def on_run(self, notices: Iterable[Notice[Pod]]) -> int:
        """Confirm the leading assumed pods that are reported as bound and otherwise unchanged."""
        with self._cache.lock:
            has_reservations = self._cache.reservations is not None
            return 0 if has_reservations else confirm_bindings(self._cache.state, notices)

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        if obj.status.phase not in FINISHED:
            super().on_add(obj, is_in_initial_list)

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid or new.status.phase in FINISHED:
            self.on_delete(old)
            self.on_add(new, False)
        else:
            super().on_update(old, new)


def _apply(method: Callable[..., Any], *objects: Object) -> None:
    try:
        method(*objects)
    except CacheError as error:
        logger.error("%s", error)


def watch(informers: InformerFactory, cache: BinderCache) -> None:
    """Add the event handlers of the cache to informers, that of pods last.

    Parameters
    ----------
    informers : InformerFactory
        Informers of the cluster's objects.
    cache : BinderCache
        The binder's cache.
    """
    informers.informer(Namespace).add_event_handler(kind_handlers.namespace_handler(cache))
    informers.informer(Node).add_event_handler(Handler[Node](cache, "node"))
    informers.informer(PodGroup).add_event_handler(Handler[PodGroup](cache, "pod_group"))
    informers.informer(PodDisruptionBudget).add_event_handler(Handler[PodDisruptionBudget](cache, "pdb"))
    for workload in event_handlers.WORKLOADS:
        informers.informer(workload).add_event_handler(kind_handlers.workload_handler(cache))
    for storage in event_handlers.STORAGE:
        informers.informer(storage)  # plugins use its lister
    informers.informer(Pod).add_event_handler(PodHandler(cache))


class BindingClient:
    """The client of a scheduler: binds through the binder, and passes other calls to the binder's client."""

    def __init__(self, binder: Binder, name: str) -> None:
        self._binder = binder
        self._name = name

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod.

        Raises
        ------
        ConflictError
            The binder rejects the placement; the message is the reason.
        """
        (outcome,) = self._binder.bind([Placement(pod, node, scheduler=self._name)])
        if outcome.status is not None:
            raise conflict("pods/binding", pod.name, outcome.reason)

    def __getattr__(self, request: str) -> Any:
        return getattr(self._binder.client, request)

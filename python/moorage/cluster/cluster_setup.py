"""What a scheduler of a cluster is made of: its options, the controllers beside it, its objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

from moorage import cluster as room
from moorage import controllers
from moorage._core.queue.entrance import CreationClock
from moorage.controllers.api_server import server_of
from moorage.controllers.sleeping_controllers import SleepingControllers
from moorage.engine.framework.plugin_registry import Registry
from moorage.engine.framework.profile import Profile
from moorage.engine.scheduler.options import ClaimControllers, Options, Wait
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.errors import nearest
from moorage.kube.model.cluster import Cluster, Suspended, newest_timestamp, seconds
from moorage.kube.model.pod import Pod
from moorage.kube.model.resource_claims import ResourceClaim, ResourceClaimTemplate
from moorage.kube.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.kube.model.workload import WORKLOADS
from moorage.kube.workloads.ownership import Names
from moorage.saved_fields import SavedFields
from moorage.store import ObjectClient, ObjectStore, find_object

if TYPE_CHECKING:
    from moorage.controllers.pod_times import PodTimes, TimesOf
    from moorage.engine.plugins.registry import ConfigurationSource

# ---- cluster options ---------------------------------------------------------------------------------------
#
# The options of a scheduler of a cluster: as callers pass them, and as its forks are made from them.


class ProfileOptions(TypedDict, total=False):
    """Keyword arguments that say which plugins take part; see `Scheduler`."""

    profile: Profile | None
    profiles: Sequence[Profile]
    config: ConfigurationSource | None
    feature_gates: Mapping[str, bool] | None
    registry: Registry | None


class SchedulerOptions(ProfileOptions, total=False):
    """Keyword arguments of `Scheduler`."""

    percentage_of_nodes_to_score: int | None
    tie_break: str
    kubernetes_version: str
    seed: int
    ttl: float | None
    clock: Callable[[], float] | None
    wait: Callable[[float], object] | None
    threads: int | None
    binding_threads: int | None
    controllers: bool
    pod_times: PodTimes | Callable[[Pod], PodTimes]
    fail_fast: bool
    measured: bool
    synced: bool


def check_names(options: Mapping[str, object], of: str, others: Iterable[str] = ()) -> None:
    """Raise TypeError for a keyword argument that is unknown.

    Parameters
    ----------
    of : str
        What takes them, for the text.
    others : iterable of str, optional
        What it takes besides the arguments of `Scheduler`.
    """
    names = SchedulerOptions.__optional_keys__.union(others)
    if unknown := sorted(options.keys() - names):
        hint = nearest(unknown[0], names) if len(unknown) == 1 else ""
        raise TypeError(f"{of} takes no option {', '.join(unknown)}{hint}")


class ClusterOptions(Options, frozen=True, kw_only=True):
    """The options of a scheduler of a cluster.

    Attributes
    ----------
    owns_store : bool
        Whether nobody else writes to the store.
    controllers : bool
        Whether the controllers of workloads are simulated in that case.
    pod_times : PodTimes or callable
        How long a pod takes to start, to become ready, and to stop.
    suspended : tuple of Suspended
        The suspended workloads of other projects that the cluster had.
    """

    owns_store: bool = False
    controllers: bool = True
    pod_times: PodTimes | TimesOf | None = None
    suspended: tuple[Suspended, ...] = ()


# ---- volume controllers ------------------------------------------------------------------------------------
#
# Controllers of claims and the passage of time beside a scheduler: simulated, or external.

SYNC_PERIOD = 15.0  # seconds between two resyncs of the controller, as in kube-controller-manager
_RESYNCED = frozenset({PersistentVolume, PersistentVolumeClaim, StorageClass})
_OF_CLAIMS = PersistentVolume, PersistentVolumeClaim, ResourceClaim, ResourceClaimTemplate


class SimulatedController(SavedFields):
    """Simulates the controllers of claims in a store that only this scheduler writes to.

    They run when the scheduler calls: volumes are bound, and provisioned in any number and size for every
    class with a provisioner; resource claims are made from templates, and released. They are made for the
    first claim or volume (`SimulatedClaims`).

    Parameters
    ----------
    context : SchedulerState
        Of the scheduler, whose informers the controllers share.
    time : CreationClock
        Is moved on while time passes.

    Attributes
    ----------
    is_instant, can_wait : bool
        See `ExternalController`.
    """

    def __init__(self, context: SchedulerState, time: CreationClock) -> None:
        self._client = cast(ObjectStore, context.store)
        self._context = context
        self._time = time
        self._claims: controllers.SimulatedClaims | None = None
        self._ahead = 0.0  # seconds by which the clock of the volume controller is ahead
        self._settled = -1  # `changes` of the store when `settle` last ended

    is_instant, can_wait = True, True
    fields = ("_time.now", "_ahead", "_claims")

    def _made(self, name: str, like: object) -> SavedFields:
        """Make the controllers of a fork."""
        return self._made_claims()

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return self._time.now

    def wait(self, seconds: float) -> None:
        """Advance the simulated time; see `reach`."""
        self.reach(self._time.now + seconds)

    def reach(self, when: float) -> None:
        """Advance the simulated time to at least `when`. What happens then is processed first, and the
        controllers of claims follow: what a pod that stops has used is free at the same time.

        Parameters
        ----------
        when : float
            Seconds.
        """
        self._time.now = max(self._time.now, when)
        self._context.sync()
        self._work()

    def settle(self) -> bool:
        """Bind the claims that can be bound, and reclaim the devices and volumes that nobody uses any more.

        Only the controller's periodic resync finds a new volume for a waiting claim, so its clock moves on by
        the period if claims, volumes or classes have changed. For all others no time passes.

        Returns
        -------
        bool
            Whether anything was written. A second call writes nothing unless something else has changed.
        """
        store = self._client
        if not _RESYNCED.isdisjoint(store.changed_since(self._settled)):
            self._ahead += SYNC_PERIOD
        before = store.changes
        self._work()
        self._settled = store.changes
        return self._settled != before

    def _work(self) -> None:
        """Run the controllers and process their events, if there are claims, or volumes that had one."""
        if self._client.has(_OF_CLAIMS):
            if self._claims is None:
                self._claims = self._made_claims()
            self._claims.work()

    def _made_claims(self) -> controllers.SimulatedClaims:
        gates = self._context.options.gates
        return controllers.SimulatedClaims(
            *(self._client, self._context.informers, self._context.sync),
            now=lambda: self._time.now + self._ahead,
            sync_period=SYNC_PERIOD,
            makes_for_groups=gates["DRAWorkloadResourceClaims"],
        )


class ExternalController(SavedFields):
    """Stands for volume controllers that others run while time passes. Events are processed after each wait.

    Parameters
    ----------
    sync : callable
        Has the scheduler process the new events of the store.
    wait : callable, optional
        Takes seconds, and lets them pass. Without it the scheduler cannot wait, and time passes only by
        `clock`.
    clock : callable, optional
        Returns seconds. Without it time passes only by waiting.

    Attributes
    ----------
    is_instant : bool
        Whether waiting takes no real time, so that nothing else is done meanwhile.
    can_wait : bool
        Whether the scheduler can let time pass.
    """

    is_instant = False
    fields = ("_reached",)

    def __init__(
        self, sync: Callable[[], object], wait: Wait | None, clock: Callable[[], float] | None = None
    ) -> None:
        self._sync = sync
        self._wait = wait
        self._clock = clock
        self._reached = 0.0 if clock is None else clock()
        self.can_wait = wait is not None

    def now(self) -> float:
        """Return the time in seconds: that of the clock, but at least the time that waiting has reached."""
        return self._reached if self._clock is None else max(self._reached, self._clock())

    def wait(self, seconds: float) -> None:
        """Let time pass, and process the new events."""
        when = self.now() + seconds
        if self._wait is not None:
            self._wait(seconds)
        self.reach(when)

    def reach(self, when: float) -> None:
        """Record that the time is at least `when`, and process the new events.

        Parameters
        ----------
        when : float
            Seconds.
        """
        self._reached = max(self._reached, when)
        self._sync()

    def settle(self) -> bool:
        """Do nothing, and return False: others bind the claims."""
        return False


def volume_controller(context: SchedulerState, options: ClusterOptions) -> ClaimControllers:
    """Return the controller for the store of a scheduler: simulated where nobody else writes to it, and the
    caller lets no time pass."""
    clock, wait = options.clock, options.wait
    if wait is None and options.owns_store and context.store is not None:
        return SimulatedController(context, context.time if clock is None else CreationClock(seconds))
    if wait is None and clock is None:
        return ExternalController(context.sync, time.sleep, time.monotonic)
    return ExternalController(context.sync, wait, clock)


# ---- written clusters --------------------------------------------------------------------------------------
#
# Writes a cluster to the store of a scheduler, and what changes it; controllers make what it lacks.


def write_cluster(context: SchedulerState, controllers: SleepingControllers | None, cluster: Cluster) -> None:
    """Write a cluster to the empty store of a scheduler, which handlers follow already: so they receive the
    objects in this order, not in that of a list. If files have changed it, the one before is written first.
    """
    if cluster.change is not None:
        write_cluster(context, controllers, cluster.change.before)
        write_change(context, controllers, cluster)
        return
    store, turns = cast(ObjectStore, context.store), cluster.turns if controllers is not None else {}
    single = [pod for pod in cluster.pods if pod.key in turns] if turns else []
    pods = [pod for pod in cluster.pods if pod.key not in turns] if turns else cluster.pods
    store.undated = frozenset(
        [node.metadata.uid for node in cluster.nodes if not node.metadata.creation_timestamp]
    )
    _tell(store, cluster)
    store.served_gates = context.handle.feature_gates
    store.create_many((*cluster.namespaces, *cluster.nodes, *cluster.others, *pods, *cluster.finished))
    if controllers is not None:
        context.sync(with_controllers=False)
        controllers.start()
    _complete(context, store, controllers, [(pod, _turn(store, turns[pod.key])) for pod in single])
    if controllers is not None:
        known = {obj.full_name for obj in cluster.others if obj.metadata.uid}
        controllers.begin_back_off(known)


def write_change(context: SchedulerState, controllers: SleepingControllers | None, cluster: Cluster) -> None:
    """Write what has changed a cluster to the store of a scheduler that has the one before.

    Parameters
    ----------
    cluster : Cluster
        Its `change` has the objects.
    """
    store, change = cast(ObjectStore, context.store), cluster.change
    assert change is not None
    _tell(store, cluster)
    written = room.write_objects(store, change.objects, controllers is not None)
    _complete(context, store, controllers, written.in_turn)


_KINDS = {kind.__name__: kind for kind in WORKLOADS}


def _turn(store: ObjectStore, name: str) -> float:
    """Return the turn of a single pod after a workload, ``Kind namespace/name``; "" is before all."""
    kind, _, key = name.partition(" ")
    workload = find_object(store, _KINDS[kind], *key.split("/")[::-1]) if kind else None
    return 0.5 if workload is None else int(workload.metadata.resource_version) + 0.5


def _tell(store: ObjectStore, cluster: Cluster) -> None:
    """Give a store what is known of its objects beside them."""
    store.metrics = cluster.metrics
    server = server_of(store)
    server.siblings, server.failures = cluster.siblings, cluster.failures


def _complete(
    context: SchedulerState,
    store: ObjectStore,
    controllers: SleepingControllers | None,
    in_turn: Sequence[tuple[Pod, float]],
) -> None:
    """Let controllers make what workloads lack, with single pods among theirs (see `take_turns`)."""
    if controllers is not None:
        context.sync(with_controllers=False)
        controllers.take_turns(in_turn)
    store.names = Names()
    for pod, _ in in_turn:
        store.names.take(Pod.__name__, pod.namespace, pod.name)
    context.sync()
    store.names = None


THREADS = 8
"""Number of threads that run steps of binding cycles over an API server."""


def threads_for(cluster: Cluster | ObjectClient, requested: int | None, time: object) -> int:
    """Return the number of threads for binding cycles; see `Scheduler`.

    Parameters
    ----------
    requested : int or None
        The number that the caller requests; None for the default.
    time : object
        The clock or wait that the caller gave; false for none.

    Raises
    ------
    ValueError
        The number is negative, or threads are requested where time does not pass by itself.
    """
    takes_real_time = not (isinstance(cluster, Cluster) or time)
    if requested is None:
        return THREADS if takes_real_time and not isinstance(cluster, ObjectStore) else 0
    if requested < 0 or (requested and not takes_real_time):
        raise ValueError(
            f"binding_threads must be at least 0, and 0 with a Cluster, a clock or wait, not {requested}"
        )
    return requested


def time_of(cluster: Cluster | None) -> CreationClock:
    """Return a clock that shows when the newest object of a cluster was created, until time passes in it.

    An object without a timestamp that is created in a store of this time is at least as new as all others.

    Parameters
    ----------
    cluster : Cluster or None
        None for a store that others write to as well, whose pods set the clock as they come.
    """
    clock, newest = CreationClock(seconds), None if cluster is None else newest_timestamp(cluster)
    clock.now = 0.0 if newest is None else seconds(newest)
    return clock

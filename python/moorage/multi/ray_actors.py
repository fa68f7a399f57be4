"""Workers and the binder as actors of a Ray cluster (extra ``ray``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from moorage.errors import InputError, MoorageError, missing
from moorage.objects import Cluster, Object, Pod
from moorage.scheduler import PodScheduler
from moorage.store import ObjectStore

from .binder import Binder, Outcome, Placement
from .pool import Pool
from .worker import Worker, WorkerInit

BINDER_DIED = "the binder has died"

T = TypeVar("T")
Decided = list[tuple[str, Any, bool]]
"""UID of a pod, its status or None, and whether it waits for its victims."""


class RayConnection:
    """The Ray cluster to which the process is connected, or one on this machine that ends with `close`.

    Raises
    ------
    InputError
        Ray is not installed.

    Attributes
    ----------
    ray : module
    """

    def __init__(self) -> None:
        try:
            import ray
        except ImportError as error:
            raise InputError(missing("ray", "ray")) from error
        self.ray: Any = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            ray.init(include_dashboard=False, log_to_driver=False)

    def actor(self, kind: type[T], *args: Any) -> Any:
        """Return a handle of a new actor; actors are spread over the nodes, and take no processor of tasks.

        Parameters
        ----------
        *args : object
            References among them are resolved.
        """
        return self.ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(kind).remote(*args)

    def close(self) -> None:
        """End the Ray cluster if this connection has started it."""
        if self._owns:
            self.ray.shutdown()


class WorkerActor:
    """A process of Ray with a worker."""

    def __init__(self, pods: tuple[Pod, ...], cluster: Cluster) -> None:
        self._shared = pods, cluster
        self._worker: Worker | None = None

    def call(self, method: str, argument: Any) -> Any:
        """Create the worker, which is the first call (``start``), or call one of its methods.

        Parameters
        ----------
        argument : object
            To start: number, owners and settings of `WorkerInit`.
        """
        if self._worker is None:
            self._worker = Worker(WorkerInit(*self._shared, *argument))
            return None
        return getattr(self._worker, method)(argument)


class RayActors(Pool):
    """Workers as actors of a Ray cluster; cluster and pods go to its object store once.

    Parameters
    ----------
    inits : sequence of WorkerInit
        They share pods and cluster.

    Raises
    ------
    InputError
        Ray is not installed.
    """

    def __init__(self, inits: Sequence[WorkerInit]) -> None:
        self._connection = RayConnection()
        ray = self._connection.ray
        self.died = (ray.exceptions.RayActorError,)
        shared = ray.put(inits[0].pods), ray.put(inits[0].cluster)
        self._actors = [self._connection.actor(WorkerActor, *shared) for _ in inits]
        try:
            self._call("start", [(init.number, init.owners, init.settings) for init in inits])
        except BaseException:
            self.close()
            raise

    def _submit(self, number: int, method: str, argument: Any) -> Future[Any]:
        future: Future[Any] = self._actors[number].call.remote(method, argument).future()
        return future

    def _call(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        return _own_error(self._connection.ray, lambda: super(RayActors, self)._call(method, arguments))

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            self._connection.ray.kill(actor)
        self._connection.close()


class BinderActor:
    """A process of Ray with a binder, over a store of its own.

    Parameters
    ----------
    settings, of_binder : mapping of str to object
        Keyword arguments of `Scheduler` and of `Binder`.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any], of_binder: Mapping[str, Any]) -> None:
        scheduler = PodScheduler(cluster, **settings)
        assert scheduler.store is not None
        self._scheduler, self._store = scheduler, scheduler.store
        self._pods = {pod.metadata.uid: pod for pod in self._store.list(Pod)[0]}
        self._before = self._store.changes
        self._version = int(self._store.list(Pod)[1])
        self._binder = Binder(self._store, wait=scheduler.volumes.wait, **of_binder)

    def bind(self, placements: Sequence[tuple[str, str, tuple[str, ...], int, str]]) -> Decided:
        """Check and bind placements; see `Binder.bind`.

        Parameters
        ----------
        placements : sequence of (str, str, tuple of str, int, str)
            UID of the pod, node, UIDs of the victims, violations, and name of the scheduler.
        """
        pods, current = self._pods, self._binder.current
        wanted = [
            Placement(
                pods[uid], node, tuple(current(pods[victim]) for victim in victims), violations, scheduler
            )
            for uid, node, victims, violations, scheduler in placements
        ]
        return _decided(self._binder.bind(wanted))

    def resume(self) -> Decided:
        """Bind pods whose victims are gone; see `Binder.resume`."""
        return _decided(self._binder.resume())

    def changes(self) -> list[tuple[type[Object], set[str], list[Object]]]:
        """Return what has changed in the store since the beginning.

        Returns
        -------
        list of (type, set of str, list of Object)
            By kind: the keys of all its objects, and those that were created or changed, in the order in
            which they were.
        """
        found = []
        for kind in self._store.changed_since(self._before):
            objects = self._store.list(kind)[0]
            new = [one for one in objects if _version(one) > self._version]
            found.append((kind, {one.key for one in objects}, sorted(new, key=_version)))
        return found


class RayBinder:
    """A binder that is an actor of a Ray cluster; see `Binder`.

    Parameters
    ----------
    settings, of_binder : mapping of str to object
        Keyword arguments of `Scheduler` and of `Binder`.

    Raises
    ------
    InputError
        Ray is not installed.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any], of_binder: Mapping[str, Any]) -> None:
        self._connection = RayConnection()
        self._actor = self._connection.actor(BinderActor, cluster, settings, of_binder)
        self._waiting: dict[str, Placement] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._connection.ray.kill(self._actor)
        self._connection.close()

    def current(self, pod: Pod) -> Pod:
        """Return a pod as it is: the actor finds its latest state."""
        return pod

    def bind(self, placements: Sequence[Placement]) -> list[Outcome]:
        """Check placements one after the other, and bind those that pass.

        Returns
        -------
        list of Outcome
            In the order of `placements`.
        """
        by_uid = self._waiting | {placement.pod.metadata.uid: placement for placement in placements}
        asked = [
            (
                placement.pod.metadata.uid,
                placement.node,
                tuple(victim.metadata.uid for victim in placement.victims),
                placement.violations,
                placement.scheduler,
            )
            for placement in placements
        ]
        return self._outcomes(by_uid, self._ask("bind", asked))

    def resume(self) -> list[Outcome]:
        """Bind the waiting pods whose victims are deleted, and reject those whose wait has timed out."""
        return self._outcomes(self._waiting, self._ask("resume"))

    def write_to(self, store: ObjectStore) -> None:
        """Write what the binder has changed to the store of the cluster that it began with."""
        for kind, keys, changed in self._ask("changes"):
            for one in store.list(kind)[0]:
                if one.key not in keys:
                    store.delete(kind, one.name, one.namespace, grace_period_seconds=0)
            there = {one.key for one in store.list(kind)[0]}
            for one in changed:
                plain = replace(one, metadata=replace(one.metadata, resource_version=""))
                (store.update if one.key in there else store.create)(plain)

    def _ask(self, method: str, *args: Any) -> Any:
        ray = self._connection.ray
        try:
            return _own_error(ray, lambda: ray.get(getattr(self._actor, method).remote(*args)))
        except ray.exceptions.RayActorError:
            raise MoorageError(BINDER_DIED) from None

    def _outcomes(self, placements: Mapping[str, Placement], decided: Decided) -> list[Outcome]:
        found = [(uid, Outcome(placements[uid], status, waits)) for uid, status, waits in decided]
        for uid, outcome in found:
            if outcome.waiting:
                self._waiting[uid] = outcome.placement
            else:
                self._waiting.pop(uid, None)
        return [outcome for _, outcome in found]


def _decided(outcomes: Sequence[Outcome]) -> Decided:
    return [(outcome.placement.pod.metadata.uid, outcome.status, outcome.waiting) for outcome in outcomes]


def _version(one: Object) -> int:
    return int(one.metadata.resource_version)


def _own_error(ray: Any, call: Callable[[], T]) -> T:
    """Call a function; an error of a task is raised as it was raised there."""
    try:
        return call()
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None

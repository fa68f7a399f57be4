"""What runs of a command begin with: the scheduler of a cluster, and its pods in reading order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from moorage.cli.options.inputs import held_inputs
from moorage.facade import Scheduler
from moorage.objects import Cluster, Pod
from moorage.objects.model.workload import Job, ReplicaSet, StatefulSet
from moorage.objects.workloads.ownership import FINISHED
from moorage.objects.workloads.stateful_pods import ordinals
from moorage.objects.workloads.top_controller import Workload, Workloads
from moorage.scheduler.expanded import with_objects
from moorage.store import NotFoundError, ResourceExpiredError


class PodsInOrder(Mapping[str, Pod]):
    """Pods by ``namespace/name``: those that were read, in their order, then new ones by name.

    Most of them never change, and what is asked about the others does not look at those.

    Parameters
    ----------
    pods : dict of str to Pod
    now : mapping of str to Pod or None
        Pods that have changed since, or are new; None for those that are gone.
    """

    def __init__(self, pods: dict[str, Pod], now: Mapping[str, Pod | None] = {}) -> None:
        self._pods, self._places = pods, {key: at for at, key in enumerate(pods)}
        self._pending = [key for key, pod in pods.items() if not pod.spec.node_name]
        self._take(now)

    def changed(self, now: Mapping[str, Pod | None]) -> PodsInOrder:
        """Return them after other changes."""
        other = type(self).__new__(type(self))
        other._pods, other._places, other._pending = self._pods, self._places, self._pending
        other._take(now)
        return other

    def _take(self, now: Mapping[str, Pod | None]) -> None:
        self._now = {key: pod for key, pod in now.items() if key in self._pods}
        self.new = {key: pod for key, pod in sorted(now.items()) if pod is not None and key not in self._pods}
        self._numbers = {key: at for at, key in enumerate(self.new, len(self._pods))}
        self._gone = sum(pod is None for pod in self._now.values())

    def __getitem__(self, key: str) -> Pod:
        pod = self._now[key] if key in self._now else self._pods.get(key) or self.new[key]
        if pod is None:
            raise KeyError(key)
        return pod

    def __iter__(self) -> Iterator[str]:
        gone = {key for key, pod in self._now.items() if pod is None}
        yield from (key for key in self._pods if key not in gone) if gone else self._pods
        yield from self.new

    def __len__(self) -> int:
        return len(self._pods) - self._gone + len(self.new)

    def in_order(self, keys: Iterable[str]) -> list[str]:
        """Return the keys of pods among some, in the order of the pods."""
        places, numbers = self._places, self._numbers
        found = [(places.get(key, numbers.get(key, 0)), key) for key in {*keys} if key in self]
        return [key for _, key in sorted(found)]

    @property
    def pending(self) -> list[str]:
        """The keys of the pods without a node, in their order."""
        changed = (*self._now, *self.new)
        return [key for key in self.in_order((*self._pending, *changed)) if not self[key].spec.node_name]


class ChangedPods(NamedTuple):
    """Pods as they were, which may have gone; and pods that had no node then, as they are now."""

    before: Iterable[Pod]
    new: Collection[Pod]


class Beginning:
    """A cluster with a scheduler that nobody has used.

    Attributes
    ----------
    completed : Cluster
        With what controllers have made at once.
    pods : PodsInOrder
        The pods that have not finished, in reading order, then as workloads made them.
    waiting : set of str
        See `waiting_pods`.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any]) -> None:
        self.cluster, self.settings = cluster, settings
        self.scheduler = Scheduler(cluster, **settings)
        self.completed = with_objects(cluster, self.scheduler.client)
        self.pods = PodsInOrder({pod.key: pod for pod in self.completed.pods})
        self.waiting = waiting_pods(self.completed)
        self._version = self.version(self.scheduler)

    @staticmethod
    def version(scheduler: Scheduler) -> str:
        """Return how far the writes to the store of a scheduler have come."""
        return scheduler.client.list(Job)[1]

    def since(self, scheduler: Scheduler, version: str = "") -> dict[str, Pod | None]:
        """Return the pods that were written since a version, or since the beginning, as they are now; None
        for those that have finished or are gone."""
        store = scheduler.store
        assert store is not None
        try:
            with store.watch(Pod, resource_version=version or self._version) as watch:
                keys = {event.object.key: None for event in watch.poll()}
        except ResourceExpiredError:
            keys = dict.fromkeys([*self.pods, *(pod.key for pod in store.list(Pod)[0])])
        return {key: _unfinished(scheduler, key) for key in keys}

    def changed_pods(self, scheduler: Scheduler, listed: Sequence[Pod]) -> ChangedPods:
        """Return which pods may have gone or come since a cluster was listed.

        Parameters
        ----------
        listed : sequence of Pod
            Its pods that had not finished: those of this cluster, or of an earlier one.
        """
        if listed is self.cluster.pods:
            written = self.since(scheduler)
            before = [*self._lost, *map(self.pods.__getitem__, self.pods.in_order(written))]
            now = [_unfinished(scheduler, key) for key in self.pods.in_order(self.pods.pending)]
            now += [pod for pod in written.values() if pod is None or self._is_new(pod)]
            return ChangedPods(before, {pod.key: pod for pod in now if pod is not None}.values())
        uids = {pod.metadata.uid for pod in listed if pod.spec.node_name}
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        return ChangedPods(listed, [pod for pod in stored if pod.metadata.uid not in uids])

    def _is_new(self, pod: Pod) -> bool:
        """Whether a pod had no node at the beginning."""
        old = self.pods.get(pod.key)
        return old is None or old.metadata.uid != pod.metadata.uid or not old.spec.node_name

    @cached_property
    def _lost(self) -> list[Pod]:
        """The listed pods that controllers have deleted at once."""
        pods = ((pod, self.pods.get(pod.key)) for pod in self.cluster.pods)
        return [pod for pod, now in pods if now is None or now.metadata.uid != pod.metadata.uid]

    @cached_property
    def workloads(self) -> Workloads:
        """The workloads of the pods."""
        return workloads_of(self.scheduler)

    @cached_property
    def running(self) -> Counter[Workload]:
        """Number of pods on nodes by workload, without those that are being deleted."""
        pods = (pod for pod in self.pods.values() if is_running(pod))
        return Counter(map(self.workloads.of, pods))


def begin(cluster: Cluster, settings: Mapping[str, Any]) -> Beginning:
    """Return what runs over a cluster begin with: once what was prepared, then always a new one."""
    for held in held_inputs().values():
        for one in held.beginnings:
            if one.cluster is cluster and one.settings == settings:
                held.beginnings.remove(one)
                return one
    return Beginning(cluster, settings)


def _unfinished(scheduler: Scheduler, key: str) -> Pod | None:
    """Return a pod as it is now; None if it has finished or is gone."""
    namespace, _, name = key.partition("/")
    with suppress(NotFoundError):
        pod = scheduler.client.get(Pod, name, namespace)
        return None if pod.status.phase in FINISHED else pod
    return None


def waiting_pods(cluster: Cluster) -> set[str]:
    """Return the pods of a cluster that wait for a node, those of StatefulSets that wait for other pods to be
    available, or gone, and the workloads that are not simulated.

    Returns
    -------
    set of str
        Each as `Outcome.key`.
    """
    placed = {pod.key for pod in cluster.pods if is_running(pod)}
    sets = [obj for obj in cluster.others if isinstance(obj, StatefulSet)]
    ordered = {f"{one.namespace}/{one.name}-{at}" for one in sets for at in ordinals(one)}
    return ({pod.key for pod in cluster.pods} | ordered) - placed | {one.mark for one in cluster.left_out}


def is_running(pod: Pod) -> bool:
    """Whether a pod has a node, and is not being deleted."""
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None


def workloads_of(scheduler: Scheduler) -> Workloads:
    """Return the workloads of the pods of a scheduler's store."""
    client = scheduler.client
    return Workloads([*client.list(ReplicaSet)[0], *client.list(Job)[0]])

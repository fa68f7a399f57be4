"""Pods that wait for an event: rejected ones, and gated ones, which PreEnqueue rejects.

kube-scheduler v1.36, backend/queue/unschedulable_pods.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain, takewhile
from typing import Any, NamedTuple, cast

from moorage._core.services.queued_pods import QueuedPodInfo
from moorage._core.state.pod_class import PodClasses
from moorage.framework.plugin.events import HintIndex
from moorage.objects import Pod

from .microseconds import microseconds


class Rejection(NamedTuple):
    """The profile of a pod and the plugins that rejected it, which decide the events that can move the pod.

    Attributes
    ----------
    scheduler_name : str
        Of the profile.
    unschedulable_plugins : frozenset of str
        The plugins that rejected the pod.
    pending_plugins : frozenset of str
        Those among them that returned Pending.
    gating_plugin : str
        The plugin whose PreEnqueue gates the pod, or "".
    """

    scheduler_name: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str


def rejection_of(info: QueuedPodInfo) -> Rejection:
    """Return the rejection of a pod.

    Parameters
    ----------
    info : QueuedPodInfo

    Returns
    -------
    Rejection
    """
    return Rejection(
        info.pod.spec.scheduler_name, info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    )


NONE: frozenset[Hashable] = frozenset()
FEW = 8
"""Fewer classes or pods than these are not indexed."""

Members = dict[str, QueuedPodInfo]
"""Pods by UID."""


class RejectedPods:
    """The unschedulable pods of one rejection.

    Attributes
    ----------
    pods : dict of str to QueuedPodInfo
        By UID, in the order in which they entered.
    by_class : dict
        The same pods by UID, for each class. None of the dicts is empty.
    indexes, pod_indexes : dict
        The classes, and the UIDs, by the keys of hints, for the hints of each event that has happened.
    """

    __slots__ = ("by_class", "indexes", "pod_indexes", "pods")

    def __init__(self) -> None:
        self.pods: Members = {}
        self.by_class: dict[Hashable, Members] = {}
        self.indexes: dict[tuple[HintIndex, ...], KeyIndex] = {}
        self.pod_indexes: dict[tuple[HintIndex, ...], KeyIndex] = {}


class KeyIndex:
    """The classes of some pods, or their UIDs, by the keys of the hints that are called for an event.

    Parameters
    ----------
    indexes : tuple of HintIndex
        Of the hints.
    """

    __slots__ = ("_by_key", "_indexes", "_keys", "_others")

    def __init__(self, indexes: tuple[HintIndex, ...]) -> None:
        self._indexes = indexes
        self._by_key: dict[Hashable, set[Hashable]] = {}
        self._keys: dict[Hashable, set[Hashable]] = {}
        self._others: set[Hashable] = set()  # what any event may move

    def add(self, one: Hashable, pod: Pod) -> None:
        """Add a class or a pod.

        Parameters
        ----------
        one : hashable
            The class or the UID.
        pod : Pod
            A pod of the class, or the pod.
        """
        keys: set[Hashable] = set()
        for index in self._indexes:
            try:
                found = index.keys(pod)
            except ValueError:  # a malformed pod; the hint will tell
                found = None
            if found is None:
                self._others.add(one)
                return
            keys |= found
        self._keys[one] = keys
        for key in keys:
            self._by_key.setdefault(key, set()).add(one)

    def remove(self, one: Hashable) -> None:
        """Remove a class or a pod.

        Parameters
        ----------
        one : hashable
            The class or the UID.
        """
        self._others.discard(one)
        for key in self._keys.pop(one, ()):
            found = self._by_key[key]
            found.discard(one)
            if not found:
                del self._by_key[key]

    def find(self, old: Any, new: Any) -> set[Hashable] | None:
        """Return the classes or UIDs of the pods that an event may move, without the pod that it is about.

        Parameters
        ----------
        old, new : object or None
            The object of the event before and after it.

        Returns
        -------
        set or None
            None for all.
        """
        found = set(self._others)
        for index in self._indexes:
            keys = index.event_keys(old, new)
            if keys is None:
                return None
            for key in keys:
                found |= self._by_key.get(key, NONE)
        return found


class UnschedulablePods:
    """Unschedulable pods by rejection and class.

    Parameters
    ----------
    classes : PodClasses
        The classes of the pods.

    Attributes
    ----------
    by_rejection : dict of Rejection to RejectedPods
        Without rejections that have no pods.
    """

    def __init__(self, classes: PodClasses) -> None:
        self._classes = classes
        self.by_rejection: dict[Rejection, RejectedPods] = {}
        self._places: dict[str, tuple[Rejection, RejectedPods, Hashable]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def _class_of(self, pod: Pod) -> Hashable:
        """Return a key that is equal for the pods for which hints `of_class` have one answer."""
        try:
            number = self._classes.intern(pod)
        except ValueError:  # the pod has no class, because it requests too many resources
            return pod.metadata.uid
        return number, self._classes.pinned_symbol(number, pod)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod. Its rejection must not change while it is here.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        rejection = rejection_of(info)
        rejected = self.by_rejection.get(rejection)
        if rejected is None:
            rejected = self.by_rejection[rejection] = RejectedPods()
        rejected.pods[info.uid] = info
        self._classify(info, rejection, rejected)

    def _classify(self, info: QueuedPodInfo, rejection: Rejection, rejected: RejectedPods) -> None:
        """Add a pod of a rejection to the others of its class."""
        uid, key = info.uid, self._class_of(info.pod)
        alike = rejected.by_class.get(key)
        if alike is None:
            alike = rejected.by_class[key] = {}
            for index in rejected.indexes.values():
                index.add(key, info.pod)
        alike[uid] = info
        for index in rejected.pod_indexes.values():
            index.add(uid, info.pod)
        self._places[uid] = rejection, rejected, key

    def _declassify(self, uid: str) -> tuple[Rejection, RejectedPods]:
        """Remove a pod from the others of its class; return its rejection and the pods of that."""
        rejection, rejected, key = self._places.pop(uid)
        alike = rejected.by_class[key]
        del alike[uid]
        if not alike:
            del rejected.by_class[key]
            for index in rejected.indexes.values():
                index.remove(key)
        for index in rejected.pod_indexes.values():
            index.remove(uid)
        return rejection, rejected

    def by_class(
        self, rejected: RejectedPods, indexes: tuple[HintIndex, ...], old: Any, new: Any
    ) -> Iterable[Members]:
        """Return the pods of a rejection that an event may move, for each class.

        Parameters
        ----------
        rejected : RejectedPods
        indexes : tuple of HintIndex
            The indexes of the hints that are to be called for the event.
        old, new : object or None
            The object of the event before and after it.

        Returns
        -------
        iterable of dict of str to QueuedPodInfo
        """
        if not indexes or len(rejected.by_class) < FEW:
            return rejected.by_class.values()
        index = rejected.indexes.get(indexes)
        if index is None:
            index = rejected.indexes[indexes] = KeyIndex(indexes)
            for one, alike in rejected.by_class.items():
                index.add(one, next(iter(alike.values())).pod)
        classes = index.find(old, new)
        if classes is None:
            return rejected.by_class.values()
        for about in (old, new):
            if about is not None and about.metadata.uid in rejected.pods:
                classes.add(self._places[about.metadata.uid][2])
        return [rejected.by_class[one] for one in classes]

    def by_pod(
        self, rejected: RejectedPods, indexes: tuple[HintIndex, ...], old: Any, new: Any
    ) -> Iterable[QueuedPodInfo]:
        """Return the pods of a rejection that an event may move, in any order.

        Parameters
        ----------
        rejected : RejectedPods
        indexes : tuple of HintIndex
            The indexes of the hints that are to be called for the event.
        old, new : object or None
            The object of the event before and after it.

        Returns
        -------
        iterable of QueuedPodInfo
        """
        pods = rejected.pods
        if not indexes or len(pods) < FEW:
            return pods.values()
        index = rejected.pod_indexes.get(indexes)
        if index is None:
            index = rejected.pod_indexes[indexes] = KeyIndex(indexes)
            for uid, info in pods.items():
                index.add(uid, info.pod)
        found = index.find(old, new)
        if found is None:
            return pods.values()
        found.update(about.metadata.uid for about in (old, new) if about is not None)
        return [pods[uid] for uid in cast(set[str], found) if uid in pods]

    def replace(self, info: QueuedPodInfo, pod: Pod) -> None:
        """Replace the state of a pod, which keeps its position.

        Parameters
        ----------
        info : QueuedPodInfo
            The pod.
        pod : Pod
            Its new state.
        """
        rejection, rejected = self._declassify(pod.metadata.uid)
        info.pod = pod
        self._classify(info, rejection, rejected)

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        uid = info.uid
        rejection, rejected = self._declassify(uid)
        del rejected.pods[uid]
        if not rejected.pods:
            del self.by_rejection[rejection]

    def select(self) -> list[QueuedPodInfo]:
        """Return the pods in the order in which they entered."""
        pods = chain.from_iterable(rejected.pods.values() for rejected in self.by_rejection.values())
        return sorted(pods, key=lambda info: info.order)

    def older_than(self, end: int) -> list[QueuedPodInfo]:
        """Return the pods, gated ones too, that returned to the queue before a time.

        Parameters
        ----------
        end : int
            Microseconds.

        Returns
        -------
        list of QueuedPodInfo
            In the order in which they entered.
        """
        older: list[QueuedPodInfo] = []
        for rejection, rejected in self.by_rejection.items():
            pods = rejected.pods.values()
            if rejection.gating_plugin:
                older += (info for info in pods if microseconds(info.timestamp) < end)
            else:  # pods enter on their return to the queue, so in order of timestamp
                older += takewhile(lambda info: microseconds(info.timestamp) < end, pods)
        return sorted(older, key=lambda info: info.order)

    def oldest(self, gated: bool) -> float | None:
        """Return the earliest timestamp of the pods, in seconds; None if there are none.

        Parameters
        ----------
        gated : bool
            Whether gated pods count.

        Returns
        -------
        float or None
        """
        times = [
            min(info.timestamp for info in rejected.pods.values())
            if rejection.gating_plugin
            else next(iter(rejected.pods.values())).timestamp
            for rejection, rejected in self.by_rejection.items()
            if gated or not rejection.gating_plugin
        ]
        return min(times, default=None)

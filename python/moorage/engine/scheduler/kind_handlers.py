"""Event handlers of kinds other than nodes and pods, whose events go to the queue or the cache's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import islice, takewhile
from typing import Any, TypeVar

from moorage._core.base.watch_events import Notice
from moorage.kube import AnyGroup, Namespace, Object
from moorage.kube.model.resource_slices import DeviceTaintRule, ResourceSlice
from moorage.kube.releases import FeatureGates
from moorage.store import DeletedFinalStateUnknown, InformerFactory
from moorage.store.informers.handler_functions import HandlerFunctions, last_state

from ..cache import ClusterCache
from ..devices.allocation.taint_rules import tainted
from ..devices.features import Features
from ..framework import ActionType, ClusterEvent
from ..framework.plugin.events import RESOURCE_SLICE
from ..framework.plugin.group_index import PodGroups, is_composite
from ..queue import SchedulingQueue

T = TypeVar("T", bound=Object)


@cache
def _events(resource: str, actions: ActionType) -> tuple[ClusterEvent | None, ...]:
    """Return the events of adding, updating and deleting an object of a resource; None for an action that no
    plugin registered."""
    reported = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
    return tuple([ClusterEvent(resource, action) if actions & action else None for action in reported])


def _count_leading(notices: Iterable[Notice[Any]], adds: bool) -> int:
    """Return the number of leading notices of additions, or of updates."""
    return sum(1 for _ in takewhile(lambda one: one.is_addition is adds and not one.is_deletion, notices))


class EventHandler:
    """Passes the events of one resource to the queue, as far as some plugin has registered them.

    Parameters
    ----------
    resource : str
        The resource in the form of cluster events.
    actions : ActionType
        The registered actions.
    """

    def __init__(self, queue: SchedulingQueue, resource: str, actions: ActionType) -> None:
        self.queue = queue
        self._add, self._update, self._delete = _events(resource, actions)

    def on_run(self, notices: Iterable[Notice[Object]]) -> int:
        """Pass the leading additions, or updates (see `RunHandler`).

        Returns
        -------
        int
            Their number.
        """
        adds = next(iter(notices)).is_addition
        event = self._add if adds else self._update
        number = _count_leading(notices, adds)
        if event is not None:
            self.queue.move_all(event, islice(notices, number))
        return number

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Pass the addition of an object.

        Parameters
        ----------
        is_in_initial_list : bool
            Whether the object existed when the handler was registered.
        """
        if self._add is not None:
            self.queue.move_all(self._add, [Notice(None, obj)])

    def on_update(self, old: Object, new: Object) -> None:
        """Pass the update of an object."""
        if self._update is not None:
            self.queue.move_all(self._update, [Notice(old, new)])

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Object]) -> None:
        """Pass the deletion of an object."""
        if self._delete is not None:
            self.queue.move_all(self._delete, [Notice(last_state(obj), None)])


class StateHandler(HandlerFunctions[T]):
    """Passes objects of one kind to the cache's state.

    Parameters
    ----------
    lock : lock
        Of the cache.
    put : callable
        Takes a new or changed object.
    remove : callable
        Takes the last state of a deleted object.
    """

    def __init__(self, lock: Any, put: Callable[[T], object], remove: Callable[[T], object]) -> None:
        def locked(change: Callable[[T], object], obj: T) -> None:
            with lock:
                change(obj)

        super().__init__(partial(locked, put), lambda old, new: locked(put, new), partial(locked, remove))


def watch_taint_rules(informers: InformerFactory, queue: SchedulingQueue, gates: FeatureGates) -> None:
    """Report to the queue, as updates of slices, that rules change taints of devices. Hints get each slice
    with the taints that its devices had, and have now.

    Parameters
    ----------
    gates : FeatureGates
        Rules of releases or with gates that do not apply them are not reported.
    """
    features, slices = Features.of(gates), informers.lister(ResourceSlice)
    if not features.taint_rules or not queue.hints.resources().get(RESOURCE_SLICE, 0) & ActionType.UPDATE:
        return
    rules, event = informers.lister(DeviceTaintRule), ClusterEvent(RESOURCE_SLICE, ActionType.UPDATE)

    def change(old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        others = [
            listed_rule
            for listed_rule in rules.list()
            if listed_rule.name != (old or new or listed_rule).name
        ]
        published = slices.list()
        versions = [tainted(published, [*others, rule] if rule else others, features) for rule in (old, new)]
        for before, after in zip(*versions, strict=True):
            if before != after:
                queue.move_all(event, [Notice(before, after)])

    handler = HandlerFunctions[DeviceTaintRule](
        lambda new: change(None, new), change, lambda old: change(old, None)
    )
    informers.informer(DeviceTaintRule).add_event_handler(handler)


class TreeHandler:
    """Tells the queue which waiting pods belong to other trees of groups now."""

    def __init__(self, queue: SchedulingQueue, groups: PodGroups) -> None:
        self.queue, self.groups = queue, groups

    def on_run(self, notices: Iterable[Notice[AnyGroup]]) -> int:
        """Pass over the leading updates, whose states nobody has to make (see `RunHandler`).

        Returns
        -------
        int
            Their number.
        """
        return _count_leading(notices, False)

    def on_add(self, obj: AnyGroup, is_in_initial_list: bool) -> None:
        """Follow the addition of a group.

        Parameters
        ----------
        is_in_initial_list : bool
            Whether the object existed when the handler was registered.
        """
        if self.groups.parent(obj) is not None or is_composite(obj.unit):
            self.queue.regroup(self.groups.affected(obj))

    def on_update(self, old: AnyGroup, new: AnyGroup) -> None:
        """Do nothing: the parent of a group is immutable."""

    def on_delete(self, obj: AnyGroup | DeletedFinalStateUnknown[AnyGroup]) -> None:
        """Follow the deletion of a group: its waiting pods wait for a new one."""
        group = last_state(obj)
        self.queue.regroup(self.groups.affected(group), group.unit)


class GroupHandler(StateHandler[AnyGroup]):
    """Passes pod groups to a function that depends on no single one of them."""

    def on_run(self, notices: Iterable[Notice[AnyGroup]]) -> int:
        """Pass the first of the leading groups that are new or changed (see `RunHandler`).

        Returns
        -------
        int
            Their number.
        """
        present = list(takewhile(lambda notice: not notice.is_deletion, notices))
        self.on_add(present[0].identity, False)
        return len(present)


def namespace_handler(cache: ClusterCache) -> StateHandler[Namespace]:
    """Return a handler that records the labels of namespaces, for the namespace selectors of inter-pod
    affinity."""
    namespaces = cache.state.namespaces

    def put(namespace: Namespace) -> None:
        namespaces.set(namespace.name, namespace.metadata.labels)

    return StateHandler(cache.lock, put, lambda namespace: namespaces.remove(namespace.name))


def workload_handler(cache: ClusterCache) -> StateHandler[Any]:
    """Return a handler that records services and controllers, whose selectors default spread constraints
    use."""
    return StateHandler(cache.lock, cache.state.workloads.set, cache.state.workloads.remove)

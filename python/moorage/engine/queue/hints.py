"""What plugins say about waiting pods: whether a pod enters the active queue (PreEnqueue), and whether an
event moves it there (queueing hints).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import lru_cache
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import Place, QueuedPodInfo, Strategy
from moorage._core.queue.unschedulable_pods import RejectedPods, Rejection, rejection_of
from moorage.errors import InputError, PluginError
from moorage.grouped import grouped
from moorage.kube import AnyGroup, Pod, group_of
from moorage.kube.releases import Release
from moorage.lazy import NamedTuple

from ..framework import (
    QUEUE_SKIP,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EnqueueExtensions,
    Framework,
    PreEnqueuePlugin,
    Status,
    interface,
)
from ..framework.events import (
    ANY_EVENT,
    NODE,
    POD,
    POD_RESOURCES,
    TARGET_POD,
    WILDCARD,
    Hint,
    HintIndex,
    PodEvents,
    index_of,
    is_same_pod,
    on,
)
from ..framework.interface import Code

# kube-scheduler v1.36, scheduler.go buildQueueingHintMap and backend/queue/scheduling_queue.go
# isPodWorthRequeuing.


EXTENDER = "Extender"
"""The name under which all extenders reject pods."""

REJECTING: tuple[type[interface.Plugin], ...] = (
    interface.PreEnqueuePlugin,
    interface.PreFilterPlugin,
    interface.FilterPlugin,
    interface.ReservePlugin,
    interface.PermitPlugin,
)
CACHED = 1 << 12
Observed = tuple[ClusterEvent, Any, Any]
"""An event with its old and its new object."""
ADD, TAINT = int(ActionType.ADD), int(ActionType.UPDATE_NODE_TAINT)
TAINT_REMOVED = on(NODE, ActionType.UPDATE_NODE_TAINT)


class Question(NamedTuple):
    """A queueing hint that is to be called for an event.

    Attributes
    ----------
    hint : callable or None
        None stands for a hint that always returns Queue.
    is_pending : bool
        Whether the pod's last status from this plugin was Pending. Queue then moves the pod without backoff.
    of_unit : bool
        Whether Queue applies only to pods of the pod group that the event concerns.
    of_class : bool
        Whether the answer holds for all pods of a class (see `of_class` of the framework's events).
    """

    plugin: str
    hint: Hint | None
    is_pending: bool
    of_unit: bool
    of_class: bool
    key_index: HintIndex | None


class Meaning(NamedTuple):
    """What an event means for the pods of a rejection.

    Attributes
    ----------
    may_move : bool
        Whether the event can move them. A gated pod moves only if its gating plugin registered the event.
    is_about_group : bool
        Whether the event moves only those that belong to the pod group of the event.
    of_class : bool
        Whether hints decide, which move all pods of a class or none, the pod that the event is about aside.
    questions : tuple of Question or None
        The hints to call. None for an event with a wildcard, and for pods of unknown profiles, which every
        event moves.
    indexes : tuple of HintIndex
        The indexes of all these hints; empty if one of them has none.
    """

    may_move: bool
    is_about_group: bool
    of_class: bool
    questions: tuple[Question, ...] | None
    indexes: tuple[HintIndex, ...] = ()


def registrations(framework: Framework) -> dict[str, list[ClusterEventWithHint]]:
    """Return the events that may make pods schedulable which a plugin of a profile has rejected.

    Returns
    -------
    dict of str to list of ClusterEventWithHint
        By plugin, in profile order. A plugin that registers nothing has all events.

    Raises
    ------
    InputError
        `events_to_register` of a plugin has returned something else, or events of pods that the release does
        not have.
    """
    by_plugin: dict[str, list[ClusterEventWithHint]] = {}
    gates = framework.handle.feature_gates
    unknown = POD_RESOURCES - PodEvents(gates).resources
    for base in REJECTING:
        for plugin in framework.profile.at(base):
            if plugin.name not in by_plugin:
                by_plugin[plugin.name] = _registered_by(plugin, gates.release, unknown)
    if framework.handle.extenders:
        by_plugin[EXTENDER] = list(ANY_EVENT)
    return by_plugin


def _registered_by(
    plugin: interface.Plugin, release: Release, unknown: frozenset[str]
) -> list[ClusterEventWithHint]:
    """Return the events that a plugin registers in a release; `unknown` are resources that it has not."""
    if not isinstance(plugin, EnqueueExtensions):
        return list(ANY_EVENT)
    events, at = plugin.events_to_register(), f'plugin "{plugin.name}": events_to_register'
    is_list = isinstance(events, Sequence)
    if not (is_list and all(map(isinstance, events, repeat(ClusterEventWithHint)))):
        raise InputError(f"{at} returned {events!r}, not a sequence of ClusterEventWithHint")
    for event in events:
        if event.event.resource in unknown:
            raise InputError(f"{at}: Kubernetes {release.version} has no events of {event.event.resource}")
    actions = 0
    for event in events if release.taints_wake_for_new_nodes else ():
        if event.event.resource == NODE:
            actions |= int(event.event.action)
    # A new node may have a taint that is removed later.
    return [*events, TAINT_REMOVED] if actions & ADD and not actions & TAINT else list(events)


class Hints:
    """The events that the plugins of all profiles have registered.

    Parameters
    ----------
    frameworks : mapping of str to Framework
        Scheduler name to the framework of its profile.

    Attributes
    ----------
    by_plugin : dict of str to list of ClusterEvent
        Plugin name to its registered events.
    by_profile : dict of str to dict
        Scheduler name to the `registrations` of its profile.
    classes : PodClasses
        The classes of the pods.
    failures : int
        The number of calls of hints that have raised an exception.
    gated_pods_time_out : bool
        See `Release`.
    is_registered, meaning : callable
        Cached versions of the private methods of the same names.
    """

    def __init__(self, frameworks: Mapping[str, Framework]) -> None:
        handle = next(iter(frameworks.values())).handle
        self.classes = handle.cache.state.classes
        self.failures = 0
        self.gated_pods_time_out = handle.release.gated_pods_time_out
        self.pod_events = PodEvents(handle.feature_gates)
        self._errors = handle.plugin_errors
        of_profile = {framework: registrations(framework) for framework in dict.fromkeys(frameworks.values())}
        self.by_plugin: dict[str, list[ClusterEvent]] = {}
        for registered in of_profile.values():
            for name, events in registered.items():
                known = self.by_plugin.setdefault(name, [])
                for registration in events:
                    known.append(registration.event)
        registered_events = dict.fromkeys(chain.from_iterable(self.by_plugin.values()))
        self._by_resource = grouped([(event.resource, event) for event in registered_events])
        self.by_profile = {name: of_profile[framework] for name, framework in frameworks.items()}
        self.is_registered = lru_cache(CACHED)(self._is_registered)
        self.meaning = lru_cache(CACHED)(self._meaning)

    def resources(self) -> dict[str, ActionType]:
        """Return the registered actions of each resource.

        Returns
        -------
        dict of str to ActionType
            Resource to the union of the registered actions.
        """
        registered: dict[str, int] = {}
        for events in self.by_plugin.values():
            for event in events:
                registered[event.resource] = registered.get(event.resource, 0) | int(event.action)
        return {resource: ActionType(actions) for resource, actions in registered.items()}

    def _is_registered(self, event: ClusterEvent) -> bool:
        """Whether any plugin has registered an event."""
        if event.is_wildcard:
            return True
        resources = [event.resource, WILDCARD, *([POD] if event.resource in POD_RESOURCES else ())]
        known = chain.from_iterable([self._by_resource.get(resource, ()) for resource in resources])
        return any(registered.matches(event) for registered in known)

    def _questions(self, rejection: Rejection, event: ClusterEvent) -> tuple[Question, ...] | None:
        """Return the hints to call for an event for the pods of a rejection, or None (see `Meaning`)."""
        plugins = self.by_profile.get(rejection.scheduler_name)
        if plugins is None or event.is_wildcard:
            return None
        rejectors = rejection.unschedulable_plugins | rejection.pending_plugins
        return tuple(
            Question(
                name,
                registration.hint,
                name in rejection.pending_plugins,
                registration.of_unit,
                registration.hint is None or getattr(registration.hint, "of_class", False),
                registration.hint and index_of(registration.hint),
            )
            for name, events in plugins.items()
            if name in rejectors
            for registration in events
            if registration.event.matches(event)
        )

    def _meaning(self, rejection: Rejection, event: ClusterEvent) -> Meaning:
        """Return what an event means for the pods of a rejection."""
        gate = rejection.gating_plugin
        is_asked_again = self.gated_pods_time_out and event.is_wildcard
        registered = any(known.matches(event) for known in self.by_plugin.get(gate, ()))
        is_gated = bool(gate) and not is_asked_again and not registered
        questions = self._questions(rejection, event)
        if questions is None or not (rejection.unschedulable_plugins or rejection.pending_plugins):
            return Meaning(not is_gated, False, False, questions)
        indexes = [question.key_index for question in questions if question.key_index is not None]
        return Meaning(
            may_move=bool(questions) and not is_gated,
            is_about_group=bool(questions) and all(question.of_unit for question in questions),
            of_class=all(question.of_class for question in questions),
            questions=questions,
            indexes=tuple(indexes) if len(indexes) == len(questions) else (),
        )

    # ---- one pod and its events ----------------------------------------------------------------------------

    def strategy(self, info: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Return how an event moves a pod (upstream isPodWorthRequeuing).

        Parameters
        ----------
        old, new : object or None
            The object of the event before and after it.
        """
        if not info.rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_other = new is not None and new.metadata.uid != info.pod.metadata.uid
            return Strategy.SKIP if is_other else Strategy.AFTER_BACKOFF
        pod = info.pod
        if event.resource == TARGET_POD and not is_same_pod(pod, new):
            # Both are in flight. Since v1.37, hints take the pod of such an event for the waiting one.
            pod = replace(pod, metadata=replace(pod.metadata, uid=new.metadata.uid))
        questions = self.meaning(rejection_of(info), event).questions
        return self.ask(questions, info, old, new, pod)

    def ask(
        self,
        questions: tuple[Question, ...] | None,
        info: QueuedPodInfo,
        old: Any,
        new: Any,
        pod: Pod | None = None,
    ) -> Strategy:
        """Return how an event without a wildcard moves a pod with rejectors, by the answers of hints.

        Parameters
        ----------
        questions : tuple of Question or None
            See `Meaning`.
        old, new : object or None
            The object of the event before and after it.
        pod : Pod, optional
            What hints see as the waiting pod; by default that of `info`.
        """
        if questions is None:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for question in questions:
            if strategy is Strategy.AFTER_BACKOFF and not question.is_pending:
                continue
            if not self._is_queue(question, pod or info.pod, old, new):
                continue
            if question.is_pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not info.pending_plugins:
                break
        return strategy

    def strategy_of_all(self, info: QueuedPodInfo, events: Iterable[Observed]) -> Strategy:
        """Return how several events move a pod.

        Parameters
        ----------
        events : iterable of Observed
            In their order.

        Returns
        -------
        Strategy
            The strategy that moves the pod earliest.
        """
        earliest = Strategy.SKIP
        for event, old, new in events:
            strategy = self.strategy(info, event, old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                earliest = strategy
                if not info.pending_plugins:
                    break
        return earliest

    def _is_queue(self, question: Question, pod: Pod, old: Any, new: Any) -> bool:
        """Whether a hint returns Queue for an event. An exception in the hint counts as Queue."""
        if question.hint is None:
            return True
        try:
            return question.hint(pod, old, new) is not QUEUE_SKIP
        except Exception as error:  # no exception of a plugin ends the process
            self.failures += 1
            text = f"queueing hint of {question.plugin}: {type(error).__name__}: {error}"
            self._errors.note(question.plugin, f"pod {pod.key}", text, error)
            return True


# ---- possible moves ----------------------------------------------------------------------------------------
# The unschedulable pods that an event may move.

Listeners = list[tuple[RejectedPods, Meaning]]
"""Unschedulable pods by rejection, and what an event means for them."""
PossibleMove = tuple[int, QueuedPodInfo, Strategy | None]
"""An unschedulable pod after its `order`, and how an event moves it; None where hints are to be called."""


def possible_moves(
    queue: PodQueue, hints: Hints, listeners: Listeners, event: ClusterEvent, old: Any, new: Any
) -> list[PossibleMove]:
    """Return the unschedulable pods that an event may move, in the order in which they entered.

    Pods that only events about their own group can move are found by the group, as each such event concerns
    only a few of many such pods.

    Parameters
    ----------
    old, new : object or None
        The object of the event before and after it.
    """
    moves: list[PossibleMove] = []
    for rejected, means in listeners:
        if means.is_about_group:
            continue
        movable = queue.unschedulable.may_move(rejected, means.indexes, means.of_class, old, new)
        if means.of_class:
            for alike in movable:
                _add_moves_of_class(hints, moves, alike, means.questions, old, new)
        else:
            moves += [(info.order, info, None) for info in movable]
    if queue.groups:
        moves += _move_of_group(queue, hints, event, old, new)
    return sorted(moves, key=itemgetter(0)) if len(moves) > 1 else moves


def _add_moves_of_class(
    hints: Hints,
    moves: list[PossibleMove],
    alike: dict[str, QueuedPodInfo],
    questions: tuple[Question, ...] | None,
    old: Any,
    new: Any,
) -> None:
    """Add the pods of one class and one rejection that an event may move. The hints are called for one of
    them, and for the pod that the event is about; for each if they fail."""
    about: set[str] = set()
    for obj in (old, new):
        if obj is not None and (uid := obj.metadata.uid) in alike and uid not in about:
            about.add(uid)
            moves.append((alike[uid].order, alike[uid], None))
    failures = hints.failures
    for first in alike.values():
        if not about or first.uid not in about:
            strategy = hints.ask(questions, first, old, new)
            break
    else:
        return
    if strategy is not Strategy.SKIP:
        has_failed = hints.failures != failures
        for uid, info in alike.items():
            if uid not in about:
                moves.append((info.order, info, None if has_failed and info is not first else strategy))


def _move_of_group(
    queue: PodQueue, hints: Hints, event: ClusterEvent, old: Any, new: Any
) -> list[PossibleMove]:
    """Return the move of the group that an event's new object belongs to, if one of its pods is moved by such
    events alone; empty for none."""
    key = group_of(new) if isinstance(new, Pod) else new.unit if isinstance(new, AnyGroup) else None
    group = None if key is None else queue.groups.get(queue.settings.top_of(key))
    for info in () if group is None or group.place is not Place.UNSCHEDULABLE else group.members.values():
        means = hints.meaning(rejection_of(info), event)
        if means.may_move and means.is_about_group:
            strategy = hints.ask(means.questions, info, old, new)
            if strategy is not Strategy.SKIP:
                return [(info.order, info, strategy)]
    return []


# ---- gates -------------------------------------------------------------------------------------------------
# PreEnqueue: whether plugins keep a pod out of the active queue.

logger = logging.getLogger("moorage.queue")

Asked = list[Callable[[Pod], Status | None]]
"""PreEnqueue of several plugins."""
Rule = tuple[list[str], list[Sized], Asked, Asked]
"""What PreEnqueue of a profile reads; see `moorage._core.queue.entrance.Entrance`."""


def rule_of(plugins: Sequence[PreEnqueuePlugin]) -> Rule | None:
    """Return what PreEnqueue reads; None if one of the plugins is not the library's, whose calls are
    observed."""
    fields: list[str] = []
    held: list[Sized] = []
    asking: Asked = []
    asked_by_group: Asked = []
    for plugin in plugins:
        gates = getattr(plugin.pre_enqueue, "gates_only_with", None)
        if gates is not None:
            fields += gates[0]
            held += [getattr(plugin, attribute) for attribute in gates[1]]
        elif plugin.in_core:
            is_alike = getattr(plugin.pre_enqueue, "gates_by_group", False)
            (asked_by_group if is_alike else asking).append(plugin.pre_enqueue)
        else:
            return None
    return fields, held, asking, asked_by_group


@lru_cache(256)  # thousands of pods share a set, which the garbage collector would visit otherwise
def joined(plugins: frozenset[str], name: str) -> frozenset[str]:
    """Return a set of plugins with another one."""
    return plugins | {name}


class Gates:
    """PreEnqueue of all profiles.

    Parameters
    ----------
    frameworks : mapping of str to Framework
        By the name that a pod has in spec.schedulerName.
    """

    def __init__(self, frameworks: Mapping[str, Framework]) -> None:
        self._frameworks = frameworks
        self.rules = {name: rule_of(framework.pre_enqueues) for name, framework in frameworks.items()}

    def ask(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue; the first failure gates the pod. The plugin that gated it before runs first."""
        framework = self._frameworks.get(info.pod.spec.scheduler_name)
        status = None
        if framework is not None:
            status = framework.run_pre_enqueue_plugins(info.pod, info.gating_plugin)
        info.gating_plugin = "" if status is None else status.plugin
        if status is None:
            return False
        info.unschedulable_plugins = joined(info.unschedulable_plugins, status.plugin)
        if status.code == Code.ERROR and not isinstance(status.err, PluginError):  # else it is logged already
            logger.error("pod %s: PreEnqueue of %s: %s", info.pod.key, status.plugin, status.message())
        return True

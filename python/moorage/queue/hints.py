"""The events that each plugin has registered, with their hints (kube-scheduler v1.36, scheduler.go
buildQueueingHintMap)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from moorage.framework.plugin import interface
from moorage.framework.plugin.events import (
    ANY_EVENT,
    NODE,
    QUEUE_SKIP,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Hint,
    on,
)
from moorage.framework.plugin.interface import EnqueueExtensions
from moorage.framework.runtime.runtime import Framework
from moorage.objects.model.pod import Pod

from .in_flight import Observed
from .places import Strategy
from .queued_pod_info import QueuedPodInfo
from .unschedulable_pods import Group, group_of

EXTENDER = "Extender"
"""Stands for all extenders among those that reject."""

REJECTING: tuple[type[interface.Plugin], ...] = (
    interface.PreEnqueuePlugin,
    interface.PreFilterPlugin,
    interface.FilterPlugin,
    interface.ReservePlugin,
    interface.PermitPlugin,
)
CACHED = 1 << 12
ADD, TAINT = int(ActionType.ADD), int(ActionType.UPDATE_NODE_TAINT)


class Question(NamedTuple):
    """A hint to ask about an event; without one the answer is Queue. `is_pending`: a Queue of this plugin
    lets the pod go at once. `of_unit`: it is Queue for pods of one group at most."""

    plugin: str
    hint: Hint | None
    is_pending: bool
    of_unit: bool


def registrations(framework: Framework) -> dict[str, list[ClusterEventWithHint]]:
    """Plugin to the events that may make pods schedulable which it rejected, in profile order."""
    found: dict[str, list[ClusterEventWithHint]] = {}
    for base in REJECTING:
        for plugin in framework.profile.at(base):
            if plugin.name not in found:
                given = plugin.events_to_register() if isinstance(plugin, EnqueueExtensions) else ANY_EVENT
                found[plugin.name] = _with_taints(given)
    if framework.handle.extenders:
        found[EXTENDER] = list(ANY_EVENT)
    return found


def _with_taints(given: Iterable[ClusterEventWithHint]) -> list[ClusterEventWithHint]:
    """A new node may have a taint that is removed later: who registers new nodes receives that event too."""
    events, actions = list(given), 0
    for one in events:
        if one.event.resource == NODE:
            actions |= int(one.event.action)
    if actions & ADD and not actions & TAINT:
        events.append(on(NODE, ActionType.UPDATE_NODE_TAINT))
    return events


class Hints:
    """The registrations of all profiles, and what follows from them for an event."""

    def __init__(self, frameworks: Mapping[str, Framework]) -> None:
        self._errors = next(iter(frameworks.values())).handle.plugin_errors
        made: dict[Framework, dict[str, list[ClusterEventWithHint]]] = {}
        self.by_plugin: dict[str, list[ClusterEvent]] = {}
        for framework in frameworks.values():
            if framework not in made:
                made[framework] = registrations(framework)
                for name, events in made[framework].items():
                    known = self.by_plugin.setdefault(name, [])
                    for one in events:
                        known.append(one.event)
        self.by_profile = {name: made[framework] for name, framework in frameworks.items()}
        self.concerns = lru_cache(CACHED)(self._concerns)
        self.questions = lru_cache(CACHED)(self._questions)
        self.may_move = lru_cache(CACHED)(self._may_move)
        self.is_of_units = lru_cache(CACHED)(self._is_of_units)

    def resources(self) -> dict[str, ActionType]:
        """Every resource that somebody registered, with all actions."""
        found: dict[str, int] = {}
        for events in self.by_plugin.values():
            for event in events:
                found[event.resource] = found.get(event.resource, 0) | int(event.action)
        return {resource: ActionType(actions) for resource, actions in found.items()}

    def _concerns(self, event: ClusterEvent) -> bool:
        """Whether any plugin has registered an event."""
        return event.is_wildcard or any(self._wants(name, event) for name in self.by_plugin)

    def _wants(self, plugin: str, event: ClusterEvent) -> bool:
        return any(one.matches(event) for one in self.by_plugin.get(plugin, ()))

    def _questions(self, group: Group, event: ClusterEvent) -> tuple[Question, ...] | None:
        """The hints to ask about an event that is no wildcard, for pods of a group; None for pods of unknown
        profiles, which any event makes worth an attempt."""
        plugins = self.by_profile.get(group.scheduler_name)
        if plugins is None:
            return None
        rejectors = group.unschedulable_plugins | group.pending_plugins
        return tuple(
            Question(name, one.hint, name in group.pending_plugins, one.of_unit)
            for name, events in plugins.items()
            if name in rejectors
            for one in events
            if one.event.matches(event)
        )

    def _may_move(self, group: Group, event: ClusterEvent) -> bool:
        """Whether an event can move a pod of this group; a gated one only if its gating plugin wants it."""
        if group.gating_plugin and not self._wants(group.gating_plugin, event):
            return False
        if event.is_wildcard or not (group.unschedulable_plugins or group.pending_plugins):
            return True
        return self._questions(group, event) != ()

    def _is_of_units(self, group: Group, event: ClusterEvent) -> bool:
        """Whether an event moves pods here only if they are in the pod group that it is about."""
        if event.is_wildcard or not (group.unschedulable_plugins or group.pending_plugins):
            return False
        questions = self._questions(group, event)
        return bool(questions) and all(question.of_unit for question in questions or ())

    # ---- what an event makes of a pod ----------------------------------------------------------------------

    def strategy(self, info: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Whether an event makes a pod worth another attempt, and when (isPodWorthRequeuing)."""
        if not info.rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_other = new is not None and new.metadata.uid != info.pod.metadata.uid
            return Strategy.SKIP if is_other else Strategy.AFTER_BACKOFF
        questions = self.questions(group_of(info), event)
        if questions is None:
            return Strategy.AFTER_BACKOFF
        found = Strategy.SKIP
        for question in questions:
            if found is Strategy.AFTER_BACKOFF and not question.is_pending:
                continue
            if not self._is_queue(question, info.pod, old, new):
                continue
            if question.is_pending:
                return Strategy.IMMEDIATELY
            found = Strategy.AFTER_BACKOFF
            if not info.pending_plugins:
                break
        return found

    def strategy_of_all(self, info: QueuedPodInfo, events: Iterable[Observed]) -> Strategy:
        """What several events in a row make of a pod."""
        found = Strategy.SKIP
        for event, old, new in events:
            strategy = self.strategy(info, event, old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                found = strategy
                if not info.pending_plugins:
                    break
        return found

    def _is_queue(self, question: Question, pod: Pod, old: Any, new: Any) -> bool:
        """Whether a hint's answer is Queue, as an exception is."""
        if question.hint is None:
            return True
        try:
            return question.hint(pod, old, new) is not QUEUE_SKIP
        except Exception as error:  # a plugin may raise anything, and never ends the process
            text = f"queueing hint of {question.plugin}: {type(error).__name__}: {error}"
            self._errors.note(question.plugin, f"pod {pod.key}", text, error)
            return True

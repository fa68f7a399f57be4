"""The unschedulable pods that an event may move."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import Place, QueuedPodInfo, Strategy
from moorage._core.queue.unschedulable_pods import RejectedPods, rejection_of
from moorage.kube import AnyGroup, Pod, group_of

from ..framework import ClusterEvent
from .hints import Hints, Meaning, Question

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
        found = queue.unschedulable.may_move(rejected, means.indexes, means.of_class, old, new)
        if means.of_class:
            for alike in found:
                _add_moves_of_class(hints, moves, alike, means.questions, old, new)
        else:
            moves += [(info.order, info, None) for info in found]
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

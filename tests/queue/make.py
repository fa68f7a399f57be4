"""Queues for tests: a clock that stands until told otherwise, and plugins that say what they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from moorage.engine.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    EnqueueExtensions,
    FilterPlugin,
    Plugin,
    PreEnqueuePlugin,
    QueueingHint,
    Status,
)
from moorage.engine.queue import QueuedPodInfo, QueueSettings, SchedulingQueue
from moorage.kube import Pod, PodSchedulingGate
from moorage.kube.releases import DEFAULT, RELEASES, default_gates
from tests.doors.engine import Notice, on
from tests.framework.make import framework
from tests.make import in_tree, pod

UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE


class Clock:
    """Seconds, in whole milliseconds."""

    def __init__(self, milliseconds: int = 0) -> None:
        self.milliseconds = milliseconds

    def __call__(self) -> float:
        return self.milliseconds / 1000

    def advance(self, seconds: float) -> None:
        self.milliseconds += round(seconds * 1000)


def rejecting(name: str, *events: ClusterEventWithHint) -> Plugin:
    """A Filter plugin that has registered these."""
    methods = {"name": name, "filter_all": None, "events_to_register": lambda self: events}
    return type(name, (FilterPlugin, EnqueueExtensions), methods)()


ADD = ActionType.ADD
NODE_ADD, NODE_DELETE = ClusterEvent("Node", ADD), ClusterEvent("Node", ActionType.DELETE)
ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE = (
    ClusterEvent("AssignedPod", action) for action in (ADD, ActionType.DELETE)
)
FORCE_ACTIVATE = ClusterEvent("*", ActionType.ALL, "ForceActivate")
WANTS_NODES = rejecting("Nodes", on("Node", ADD))
WANTS_NOTHING = rejecting("Nothing")
GATED = (PodSchedulingGate(name="g"),)


def labelled(one: Pod, **labels: str) -> Pod:
    return replace(one, metadata=replace(one.metadata, labels=labels))


def gating(name: str, gated: Callable[[Pod], bool], *events: ClusterEventWithHint) -> Plugin:
    """A PreEnqueue plugin that keeps out the pods for which `gated` is true."""

    def pre_enqueue(self: Plugin, one: Pod) -> Status | None:
        return Status(UNRESOLVABLE, ("gated",)) if gated(one) else None

    methods = {"name": name, "pre_enqueue": pre_enqueue, "events_to_register": lambda self: events}
    return type(name, (PreEnqueuePlugin, EnqueueExtensions), methods)()


def saying(answer: bool) -> Callable[[Pod, Any, Any], QueueingHint]:
    return lambda one, old, new: QueueingHint.QUEUE if answer else QueueingHint.QUEUE_SKIP


def make_queue(*plugins: Plugin, clock: Any = None, sorter: Plugin | None = None, **settings: Any) -> Any:
    """A queue of one profile with these plugins."""
    gates = default_gates(RELEASES[settings.pop("release", DEFAULT)])
    one = framework(sorter or in_tree("PrioritySort")(), *plugins, feature_gates=gates)
    nominator = settings.pop("nominator", None)
    return SchedulingQueue([one], clock or Clock(), QueueSettings(**settings), nominator)


def names(infos: Sequence[QueuedPodInfo]) -> list[str]:
    return [info.pod.name for info in infos]


def places(queue: SchedulingQueue) -> dict[str, list[str]]:
    """The names of all pods by place, without empty places."""
    found = queue.pending_pods()._asdict() | {"in_flight": queue.in_flight()}
    return {place: names(infos) for place, infos in found.items() if infos}


def pop(queue: SchedulingQueue, timeout: float | None = 0.0) -> Any:
    """The next pod; None without any."""
    return next(iter(queue.pop(timeout=timeout)), None)


def move(
    queue: SchedulingQueue,
    event: ClusterEvent,
    old: Any = None,
    new: Any = None,
    check: Callable[[Pod], bool] | None = None,
) -> None:
    """Move the pods that the event of one object may help."""
    queue.move_all(event, [Notice(old, new)], check)


def fail(queue: SchedulingQueue, *rejectors: str, pending: Sequence[str] = ()) -> QueuedPodInfo:
    """Pop a pod and have it fail."""
    info = pop(queue)
    assert info is not None
    return reject(queue, info, *rejectors, pending=pending)


def reject(
    queue: SchedulingQueue, info: QueuedPodInfo, *rejectors: str, pending: Sequence[str] = ()
) -> QueuedPodInfo:
    queue.give_back([info], [info.pod], [(frozenset((*rejectors, *pending)), frozenset(pending))])
    return info


def queued(name: str, priority: int = 0, **rest: Any) -> Pod:
    return pod(name, priority=priority, **rest)

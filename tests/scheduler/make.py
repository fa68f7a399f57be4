"""Schedulers with plugins of a test's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.make import node

from moorage import Scheduler, default_profile
from moorage.engine.framework import CycleState, FilterPlugin, NodeInfo, Plugin, ReservePlugin
from moorage.engine.scheduler import Profile
from moorage.kube import Cluster, Node, Pod


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def profile_with(*plugins: Plugin, **settings: Any) -> Profile:
    """The default profile and these plugins after it."""
    return Profile((*default_profile().plugins, *plugins), **settings)


class Nothing(FilterPlugin, ReservePlugin):
    """Accepts all nodes, and is not in the core."""

    name = "Nothing"

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> None:
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None


def by_plugins(profile: Profile | None = None) -> Profile:
    """A profile, by default the default one, whose plugins schedule each pod in a cycle of its own."""
    given = profile or default_profile()
    return replace(given, plugins=(*given.plugins, Nothing()))


def scheduler_with(
    *plugins: Plugin,
    pods: list[Pod] | None = None,
    nodes: list[Node] | None = None,
    profile: dict[str, Any] | None = None,
    **settings: Any,
) -> Scheduler:
    """A scheduler over nodes a, b and c with these plugins beside the default ones."""
    cluster = Cluster(nodes=nodes or [node(name) for name in "abc"], pods=pods or [])
    return Scheduler(cluster, profile=profile_with(*plugins, **(profile or {})), **settings)


def searched(message: str) -> str:
    """What the search says in a message; what PostFilter says comes after it."""
    return message.partition(" no new claims to deallocate")[0]


def events(one: Scheduler) -> list[tuple[str, str, str, str, str]]:
    """(pod, type, reason, action, note) of every event."""
    return [(e.regarding.name, e.type, e.reason, e.action, e.note) for e in one.handle.recorder.events]

"""A store, a binder over it, and placements of its pods."""

from __future__ import annotations

from typing import Any

from tests.core.make import node, pod
from tests.scheduler.make import Clock

from moorage.multi import Binder, Outcome, Placement
from moorage.objects import Node, Pod
from moorage.store import ObjectStore


class World:
    """Nodes a and b with 4 cpu each, unless others are given."""

    def __init__(self, *pods: Pod, nodes: tuple[Node, ...] | None = None, **settings: Any) -> None:
        self.clock = Clock()
        self.store = ObjectStore()
        self.store.create_many((*(nodes or (node("a"), node("b"))), *pods))
        self.binder = Binder(self.store, clock=self.clock, **settings)

    def get(self, name: str) -> Pod:
        """A pod as the store has it."""
        return self.store.get(Pod, name, "default")

    def placement(self, name: str, where: str, *victims: str, violations: int = 0) -> Placement:
        held = tuple(self.get(victim) for victim in victims)
        return Placement(self.get(name), where, held, violations)

    def bind(self, name: str, where: str, *victims: str, violations: int = 0) -> Outcome:
        """Have one pod bound, at the cost of others."""
        (outcome,) = self.binder.bind([self.placement(name, where, *victims, violations=violations)])
        return outcome

    def where(self) -> dict[str, str]:
        """Pods that have a node, in the store."""
        return {one.name: one.spec.node_name for one in self.store.list(Pod)[0] if one.spec.node_name}


def asking(name: str, cpu: str = "1", priority: int = 0, **others: Any) -> Pod:
    """A pod that asks for so much cpu."""
    return pod(name, requests={"cpu": cpu}, priority=priority, **others)

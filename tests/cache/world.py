"""A cache with something of everything, and what its NodeInfos say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.make import node, pod, port

from moorage.engine.cache import NodeInfo, NodeInfoClone, SchedulerCache, Transaction


def cache() -> SchedulerCache:
    """Nodes a, b, c in two zones with an added and an assumed pod; a ghost, and a pod before its node."""
    one = SchedulerCache()
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2"), ("ghost", "z2")):
        one.add_node(node(name, zone=zone, images=[(["i"], 5)]))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}, ports=[port(80)]))
    one.assume_pod(pod("q", on="b", requests={"cpu": 2}))
    one.add_pod(pod("g", on="ghost", requests={"cpu": 3}))
    one.remove_node(node("ghost"))
    one.assume_pod(pod("early", on="later"))
    return one


def disturb(one: SchedulerCache) -> None:
    """Change whatever there is in `cache()`."""
    one.add_pod(pod("q", on="c", requests={"cpu": 2}))
    one.forget_pod(pod("early", on="later"))
    one.remove_pod(pod("g", on="ghost"))
    one.remove_pod(pod("p", on="a"))
    one.update_node(node("a", zone="z1"), node("a", zone="z2", cpu="9", images=[(["j"], 6)]))
    one.remove_node(node("b"))
    one.add_node(node("d"))
    one.assume_pod(pod("r", on="d", requests={"cpu": 1}))


def said(infos: Mapping[str, NodeInfo | NodeInfoClone]) -> dict[str, tuple[int, dict[str, Any]]]:
    return {name: (info.generation, everything(info)) for name, info in infos.items()}


def everything(info: NodeInfo | NodeInfoClone) -> dict[str, Any]:
    """The values of a NodeInfo but for its generation; what changes in place is copied."""
    return {
        "name": info.name,
        "node": info.node,
        "pods": [held.name for held in info.pods],
        "affinity": [held.name for held in info.pods_with_affinity],
        "anti-affinity": [held.name for held in info.pods_with_required_anti_affinity],
        "requested": deepcopy(info.requested),
        "nonzero": deepcopy(info.nonzero_requested),
        "allocatable": deepcopy(info.allocatable),
        "ports": info.used_ports,
        "images": info.image_states,
        "taints": info.taints,
    }


class Branch:
    """A cache and its twin, with the open transactions and the twin as it was before each."""

    def __init__(self, cache: Any, twin: Any) -> None:
        self.cache, self.twin = cache, twin
        self.open: list[tuple[AbstractContextManager[Transaction], Transaction, Any]] = []


class StopError(Exception):
    """Ends a transaction."""


class Branching(RuleBasedStateMachine):
    """Transactions and forks of a cache and its twin, of which `branch` is at work."""

    branches: list[Any]
    branch: Any
    new_branch = Branch

    @precondition(lambda self: len(self.branch.open) < 3)
    @rule()
    def open_transaction(self) -> None:
        manager = self.branch.cache.transaction()
        before = self.branch.twin.clone()
        self.branch.open.append((manager, manager.__enter__(), before))

    @precondition(lambda self: self.branch.open)
    @rule(how=st.sampled_from(["commit", "roll back", "raise"]))
    def end_transaction(self, how: str) -> None:
        manager, transaction, before = self.branch.open.pop()
        if how != "roll back":
            transaction.commit()
        error = StopError() if how == "raise" else None
        assert not manager.__exit__(error and StopError, error, None)
        if how != "commit":
            self.branch.twin = before

    @precondition(lambda self: len(self.branches) < 3)
    @rule()
    def fork(self) -> None:
        self.branches.append(self.new_branch(self.branch.cache.fork(), self.branch.twin.clone()))

    @rule(number=st.integers(0, 2))
    def switch(self, number: int) -> None:
        self.branch = self.branches[number % len(self.branches)]

    def teardown(self) -> None:
        for branch in getattr(self, "branches", ()):
            self.branch = branch
            while branch.open:
                self.end_transaction("roll back")

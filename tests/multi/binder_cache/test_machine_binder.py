"""A BinderCache under every order of operations, with reports lost, doubled and out of order, transactions
and forks, against its literal twin: after each step all that can be asked equals a recomputation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.cache.world import Branch, Branching
from tests.make import node
from tests.multi.binder_cache.binder_kit import Kit, pod
from tests.multi.binder_cache.binder_twin import BinderTwin, RefusedError
from tests.words import ASSUMED_NODE, GROUP_ANNOTATION, RESOURCE_TYPE

from moorage.compat.binder_cache import BinderCache, CachePodInfo
from moorage.engine.cache import Resource
from moorage.errors import MoorageError
from moorage.kube import Pod

NAMES = ("n1", "n2", "n3")
UIDS = ("a", "b", "c", "d", "e")
ANNOTATIONS: tuple[dict[str, str], ...] = (
    {},
    {RESOURCE_TYPE: "best-effort"},
    {GROUP_ANNOTATION: "g"},
    {GROUP_ANNOTATION: "g", RESOURCE_TYPE: "best-effort"},
    {ASSUMED_NODE: "n1"},
    {RESOURCE_TYPE: "neither"},
)

nodes = st.builds(
    lambda name, cpu, pods: node(name, cpu=cpu, pods=pods, **{"example.com/x": 5}),
    st.sampled_from(NAMES),
    st.sampled_from(["1", "4"]),
    st.sampled_from(["2", "10"]),
)
requests = st.sampled_from(
    [{}, {"cpu": "100m", "memory": 500}, {"cpu": "2", "example.com/x": 2}, {"memory": "1Gi"}]
)
pods = st.builds(
    lambda uid, on, said, asked: pod(uid, on, said, requests=asked),
    st.sampled_from(UIDS),
    st.sampled_from(("", *NAMES)),
    st.sampled_from(ANNOTATIONS),
    requests,
)


class BinderMachine(Branching):
    @initialize(reservations=st.booleans())
    def begin(self, reservations: bool) -> None:
        # Nobody asks for a reservation: with the gate on, events are transactions, and all else is equal.
        self.kit = Kit(resource_reservation=reservations)
        self.clock = self.kit.clock
        self.branches = [Branch(self.kit.cache, BinderTwin())]
        self.branch = self.branches[0]

    @property
    def cache(self) -> BinderCache:
        return self.branch.cache

    @property
    def twin(self) -> BinderTwin:
        return self.branch.twin

    def both(self, do: Callable[..., object], like: Callable[..., object], *arguments: Any) -> None:
        """The cache refuses what the twin refuses."""
        try:
            like(*arguments)
        except RefusedError:
            with pytest.raises(MoorageError):
                do(*arguments)
        else:
            do(*arguments)

    # ---- pods

    @rule(one=pods)
    def assume(self, one: Pod) -> None:
        self.both(
            lambda p: self.cache.assume_pod(CachePodInfo(p)),
            lambda p: self.twin.assume_pod(p, self.clock.now),
            one,
        )

    @rule(one=pods)
    def finish(self, one: Pod) -> None:
        self.cache.finish_binding(one)
        self.twin.finish_binding(one, self.clock.now)

    @rule(one=pods)
    def forget(self, one: Pod) -> None:
        self.both(lambda p: self.cache.forget_pod(CachePodInfo(p)), self.twin.forget_pod, one)

    @precondition(lambda self: self.twin.assumed())
    @rule(data=st.data())
    def forget_assumed(self, data: st.DataObject) -> None:
        self.forget(self.twin.pods[data.draw(st.sampled_from(self.twin.assumed()))].pod)

    @rule(one=pods)
    def add(self, one: Pod) -> None:
        self.both(self.cache.add_pod, self.twin.add_pod, one)

    @rule(old=pods, new=pods, same=st.booleans())
    def update(self, old: Pod, new: Pod, same: bool) -> None:
        self.both(self.cache.update_pod, self.twin.update_pod, new if same else old, new)

    @precondition(lambda self: self.twin.pods)
    @rule(data=st.data(), one=pods)
    def confirm(self, data: st.DataObject, one: Pod) -> None:
        """What is cached is reported as it is."""
        held = self.twin.pods[data.draw(st.sampled_from(sorted(self.twin.pods)))].pod
        self.both(self.cache.update_pod, self.twin.update_pod, held, held)

    @rule(one=pods)
    def delete(self, one: Pod) -> None:
        self.both(self.cache.delete_pod, self.twin.delete_pod, one)

    # ---- markers

    @rule(one=pods, preemptor=st.sampled_from(["p", "q"]))
    def mark(self, one: Pod, preemptor: str) -> None:
        held = self.twin.pods.get(one.metadata.uid)
        victim = held.pod if held is not None else one
        self.both(
            lambda: self.cache.mark_pod_to_delete(victim, pod(preemptor)),
            lambda: self.twin.mark(victim, preemptor, self.clock.now),
        )

    @rule(one=pods, preemptor=st.sampled_from(["p", "q"]))
    def unmark(self, one: Pod, preemptor: str) -> None:
        uid = one.metadata.uid
        self.both(self.cache.remove_delete_pod_marker_by_key, self.twin.unmark, uid, preemptor)

    # ---- nodes

    @rule(one=nodes)
    def set_node(self, one: Any) -> None:
        self.cache.update_node(None, one)
        self.twin.add_node(one)

    @rule(name=st.sampled_from(NAMES))
    def delete_node(self, name: str) -> None:
        self.both(self.cache.delete_node, self.twin.delete_node, node(name))

    # ---- time, and what was missed meanwhile

    @rule(seconds=st.sampled_from([1.0, 150.0, 300.0, 450.0, 600.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.cache.clean(self.clock.now)
        self.twin.clean(self.clock.now)

    @rule(there=st.lists(nodes, max_size=3), listed=st.lists(pods, max_size=4))
    def relist(self, there: list[Any], listed: list[Pod]) -> None:
        self.cache.relist(there, listed)
        self.twin.relist(there, listed)

    # ---- what there is

    @invariant()
    def pods_are_the_same(self) -> None:
        twin = self.twin
        assert self.cache.state.assumed_pods() == twin.assumed()
        for uid in UIDS:
            entry = twin.pods.get(uid)
            assert self.cache.pods.find(pod(uid)) == (entry and entry.pod)
            assert self.cache.pods.find_named(pod(uid)) == (entry and entry.pod)
            deadline = None if entry is None else entry.deadline
            assert self.cache.is_assumed_pod(pod(uid)) == (
                deadline is not None and deadline >= self.clock.now
            )
            if deadline is not None and deadline < self.clock.now:
                twin.clean(self.clock.now)
            assert self.cache.is_pod_marked_to_delete(pod(uid)) == (uid in twin.markers)
        assert set(twin.markers) <= set(twin.pods)

    @invariant()
    def units_are_the_same(self) -> None:
        units = self.twin.units()
        for key in ("PodGroupUnit/default/g", *(f"SinglePodUnit/default/{uid}" for uid in UIDS)):
            assert self.cache.get_unit_status(key).running_pods == tuple(units.get(key, ()))

    @invariant()
    def nodes_are_the_same(self) -> None:
        usage = self.twin.usage()
        found = self.cache.dump().nodes
        assert sorted(found) == sorted(usage)
        for name, (there, ledgers) in usage.items():
            info = found[name]
            assert info.node == self.twin.nodes.get(name)
            assert sorted(one.metadata.uid for one in info.pods) == there
            assert [_amounts(info.requested), _amounts(info.best_effort_requested)] == [
                ledgers[0],
                ledgers[1],
            ]
            assert info.is_live == (name in self.twin.nodes)

    @precondition(lambda self: self.twin.nodes)
    @rule(one=pods, data=st.data(), without=st.lists(pods, max_size=2))
    def fits(self, one: Pod, data: st.DataObject, without: list[Pod]) -> None:
        name = data.draw(st.sampled_from(sorted(self.twin.nodes)))
        expected = self.twin.fits(one, name, without)
        if one.metadata.annotations.get(RESOURCE_TYPE) == "neither":
            expected = []
        assert list(self.cache.fits(one, name, without)) == expected


def _amounts(amounts: Resource) -> tuple[int, int, int]:
    return amounts.milli_cpu, amounts.memory, amounts.scalar_resources.get("example.com/x", 0)


TestBinderMachine = BinderMachine.TestCase
TestBinderMachine.settings = settings(
    deadline=None, max_examples=80, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)

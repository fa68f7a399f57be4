"""Cache, transactions, forks, snapshots and dumps under every order of operations, against literal twins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.cache.world import Branch, Branching
from tests.core.inside import inside
from tests.core.make import replica
from tests.core.placing import enter, place_run
from tests.core.state.test_state_machine import NODE_NAMES, POD_NAMES, StateMachine, nodes, on, pods
from tests.core.twins.state_check import check, check_columns, usage
from tests.core.twins.state_twin import Snapshot as SnapshotTwin
from tests.core.twins.state_twin import StateTwin
from tests.core.world import told
from tests.doors.engine import Placer, TieBreak
from tests.doors.engine import bulk_operations as batches

from moorage import default_profile
from moorage.compat import update_node_name_to_info_map
from moorage.engine.cache import NodeInfo, NodeInfoClone, SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.kube import Node, Pod


class CacheBranch(Branch):
    """A branch with snapshots, and a map of NodeInfos."""

    def __init__(self, cache: SchedulerCache, twin: StateTwin) -> None:
        super().__init__(cache, twin)
        self.placer = Placer(cache.state, default_profile().compile(cache.state), TieBreak.FIRST, 100)
        self.snapshots = [(Snapshot(), SnapshotTwin()) for _ in range(2)]
        self.shown: list[Any] = [{}, {}]
        self.infos: dict[str, NodeInfoClone] = {}


def template_of(one: Pod, generated: bool) -> Pod:
    """A pod as a template; "p1-" is the base of both forms."""
    meta = replace(one.metadata, uid="", generate_name=f"{one.name}-" if generated else "")
    return replace(one, metadata=replace(meta, name="") if generated else meta)


class CacheMachine(Branching, StateMachine):
    """The operations of a cluster state, inside and outside of transactions and forks."""

    cache = property(lambda self: self.branch.cache)
    twin = property(lambda self: self.branch.twin)
    placer = property(lambda self: self.branch.placer)
    state = property(lambda self: self.branch.cache.state)
    new_branch = CacheBranch

    @initialize(first=st.lists(nodes, max_size=4))
    def begin(self, first: list[Node]) -> None:
        self.now = 0.0
        self.branch = CacheBranch(SchedulerCache(), StateTwin())
        self.branches = [self.branch]
        for one in first:
            self.set_node(one)

    # ---- decisions

    @rule(one=pods, copies=st.integers(0, 3))
    def place(self, one: Pod, copies: int) -> None:
        """A run that is placed is as if the view were refreshed before each pod, and the pod assumed."""
        names = [f"{one.name}-{at}" for at in range(copies)]
        names = [name for name in names if name not in self.twin.pods]
        waiting = [replace(one, metadata=replace(one.metadata, name=n, uid=n)) for n in names]
        pod_class = self.state.classes.intern(on(one, ""))
        rows = place_run(self.placer, pod_class, len(waiting))
        bound = [
            on(each, self.state.table.row_name(row))
            for each, row in zip(waiting, rows.tolist(), strict=False)
        ]
        enter(self.state, bound, rows)
        self.twin_places(bound, copies=len(waiting))
        if rows.size or not self.branch.open:
            check_columns(self.state)

    def twin_places(self, bound: list[Pod], copies: int) -> None:
        """A cycle for each of so many pods, of which the first ones found a node; the next one saw none."""
        if copies:
            self.twin.refresh()
        for at, each in enumerate(bound, start=1):
            self.twin.assume_pod(each)
            if at < copies:
                self.twin.refresh()

    @rule(one=pods, first=st.integers(0, 6), copies=st.integers(0, 4), generated=st.booleans())
    def place_template(self, one: Pod, first: int, copies: int, generated: bool) -> None:
        """The same with pods that nobody has made."""
        template = on(template_of(one, generated), "")
        waiting = [replica(template, first + at) for at in range(copies)]
        try:
            self.state.check_template(template, first, copies)
        except CacheError:
            # Ordinals stay taken for as long as a pod is left of those that they came with.
            known = any(each.metadata.uid in self.twin.pods for each in waiting)
            assert known or self.is_taken(template, first, copies)
            return
        assert not any(each.metadata.uid in self.twin.pods for each in waiting)
        pod_class = self.state.classes.intern(template)
        rows = place_run(self.placer, pod_class, copies)
        self.state.assume_template(pod_class, template, first, rows)
        self.twin_places(
            [on(e, self.state.table.row_name(r)) for e, r in zip(waiting, rows.tolist(), strict=False)],
            copies,
        )
        if rows.size or not self.branch.open:
            check_columns(self.state)

    @rule(
        one=pods,
        first=st.integers(0, 6),
        count=st.integers(0, 4),
        operation=st.sampled_from(["forget", "confirm", "finish"]),
    )
    def touch_template(self, one: Pod, first: int, count: int, operation: str) -> None:
        """Pods of a template by their ordinals."""
        template = template_of(one, False)
        uids = [replica(template, first + at).metadata.uid for at in range(count)]
        all_assumed = all(uid in self.twin.pods and self.twin.pods[uid].is_assumed for uid in uids)
        if operation == "finish":
            batches.finish_template(self.state, template, first, count, self.now + 1)
        elif all_assumed:
            getattr(batches, f"{operation}_template")(self.state, template, first, count)
        else:
            with pytest.raises(CacheError, match="wasn't assumed so cannot be"):
                getattr(batches, f"{operation}_template")(self.state, template, first, count)
            return
        for held in [self.twin.pods[uid].pod for uid in uids if uid in self.twin.pods]:
            if operation == "finish":
                self.twin.finish_binding(held, self.now + 1)
            else:
                (self.twin.forget_pod if operation == "forget" else self.twin.add_pod)(held)

    def is_taken(self, template: Pod, first: int, copies: int) -> bool:
        prefix = replica(template, 0).metadata.uid[:-2]
        listed = inside(inside(self.state.ledger)["templates"])["by_prefix"].get(prefix, [])
        return any(first < one.first + one.count and one.first < first + copies for one in listed)

    @precondition(lambda self: self.twin.pods)
    @rule(
        at=st.integers(0, 20),
        operation=st.sampled_from(["add_pod", "forget_pod", "remove_pod", "finish_binding", "update_pod"]),
        node=st.sampled_from(NODE_NAMES),
        ttl=st.integers(0, 3),
    )
    def touch_any(self, at: int, operation: str, node: str, ttl: int) -> None:
        """Any of the pods, replicas among them, by an object of its UID."""
        held = list(self.twin.pods.values())[at % len(self.twin.pods)].pod
        labelled = replace(held, metadata=replace(held.metadata, labels={"app": "x"}))
        if operation == "add_pod":
            self.both("add_pod", held if ttl else on(labelled, node))
        elif operation == "update_pod":
            self.both("update_pod", held, labelled)
        elif operation == "finish_binding":
            self.both("finish_binding", held, self.now + ttl)
        else:
            self.both(operation, held)

    @rule(one=pods, ordinal=st.integers(0, 8), operation=st.sampled_from(["assume_pod", "add_pod"]))
    def enter_stray(self, one: Pod, ordinal: int, operation: str) -> None:
        """A pod whose UID has the form of replicas'."""
        self.both(operation, replica(template_of(one, False), ordinal))

    @rule(batch=st.lists(pods, max_size=4), operation=st.sampled_from(["assume_pods", "add_pods"]))
    def enter_batch(self, batch: list[Pod], operation: str) -> None:
        try:
            getattr(self.cache, operation)(batch)
        except CacheError:
            return
        for one in batch:
            getattr(self.twin, operation[:-1])(one)

    @rule(names=st.lists(st.sampled_from(POD_NAMES), max_size=4))
    def forget_batch(self, names: list[str]) -> None:
        held = [self.twin.pods[name].pod for name in names if name in self.twin.pods]
        try:
            self.cache.forget_pods(held)
        except CacheError:
            return
        for one in held:
            self.twin.forget_pod(one)

    @rule(names=st.lists(st.sampled_from(POD_NAMES), max_size=4, unique=True))
    def remove_batch(self, names: list[str]) -> None:
        held = [self.twin.pods[name] for name in names if name in self.twin.pods]
        others = [one.pod for one in held if one.is_assumed]
        assert self.cache.remove_added([one.pod for one in held]) == others
        for one in held:
            if not one.is_assumed:
                self.twin.remove_pod(one.pod)

    @rule(name=st.sampled_from(POD_NAMES))
    def confirm(self, name: str) -> None:
        if name in self.twin.pods:
            self.both("add_pod", self.twin.pods[name].pod)

    # ---- what is shown

    def expected(self, name: str, counts: dict[str, int] | None = None) -> dict[str, Any]:
        """What a NodeInfo tells, in short: (node, pods, ports, image counts, usage)."""
        info = self.twin.infos[name]
        return {
            "node": info.node,
            "pods": [self.twin.pods[uid].pod for uid in info.pods],
            "used_ports": info.ports,
            "images": info.summary if counts is None else counts,
            "usage": {
                kind: {key: n for key, n in amounts.items() if n and key != "pods"}
                for kind, amounts in usage(self.twin, info).items()
            },
        }

    @rule(which=st.integers(0, 1))
    def update_snapshot(self, which: int) -> None:
        snapshot, twin = self.branch.snapshots[which]
        self.cache.update_snapshot(snapshot)
        twin.update(self.twin)
        assert [info.name for info in snapshot.node_info_list] == twin.order
        assert snapshot.num_nodes == len(twin.order)
        for info in snapshot.node_info_list:
            assert shown(info) == self.expected(info.name, twin.images[info.name])
        self.branch.shown[which] = {info.name: told(info) for info in snapshot.node_info_list}
        assert snapshot.generation == self.state.log.head

    @rule()
    def dump(self) -> None:
        dump = self.cache.snapshot()
        assert dump.assumed_pods == {uid: True for uid, one in self.twin.pods.items() if one.is_assumed}
        assert dump.nodes.keys() == self.twin.infos.keys()
        for name, info in dump.nodes.items():
            live = self.cache.node_info(name)
            assert live is not None
            assert live.generation == info.generation
            assert shown(live) == shown(info) == self.expected(name)

    @rule()
    def update_infos(self) -> None:
        infos = self.branch.infos
        before = dict(infos)
        update_node_name_to_info_map(self.cache, infos)
        assert infos.keys() == self.twin.infos.keys()
        for name, info in infos.items():
            live = self.cache.node_info(name)
            assert live is not None
            assert info.generation == live.generation
            assert shown(info) == self.expected(name)
            unchanged = name in before and before[name].generation == live.generation
            assert (info is before.get(name)) == unchanged

    @invariant()
    def agree(self) -> None:
        for branch in self.branches:
            check(branch.cache.state, branch.twin)
            assert branch.cache.state.journal.depth == len(branch.open)

    @invariant()
    def older_snapshots_stay_as_they_were(self) -> None:
        for branch in self.branches:
            for (snapshot, _), seen in zip(branch.snapshots, branch.shown, strict=True):
                assert {info.name: told(info) for info in snapshot.node_info_list} == seen

    def teardown(self) -> None:
        super().teardown()
        for branch in getattr(self, "branches", []):
            check(branch.cache.state, branch.twin)


def shown(info: NodeInfo) -> dict[str, Any]:
    """What a NodeInfo tells, in the words of the twin."""
    amounts = {}
    for kind, of in (("allocatable", info.allocatable), ("requested", info.requested)):
        plain = {"cpu": of.milli_cpu, "memory": of.memory, "ephemeral-storage": of.ephemeral_storage}
        amounts[kind] = {key: n for key, n in (plain | of.scalar_resources).items() if n}
    nonzero = info.nonzero_requested
    least = {"cpu": nonzero.milli_cpu, "memory": nonzero.memory}
    return {
        "node": info.node,
        "pods": info.pods,
        "used_ports": set(info.used_ports),
        "images": {name: state.num_nodes for name, state in info.image_states.items()},
        "usage": amounts | {"nonzero": {key: n for key, n in least.items() if n}},
    }


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(
    deadline=None, max_examples=30, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)

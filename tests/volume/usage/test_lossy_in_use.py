"""Volumes in use behind watches that drop, repeat and reorder events: after new lists they are what somebody
finds who has only just come."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace
from tests.doors.engine import STORAGE, VolumesInUse
from tests.make import node, pod
from tests.scheduler.test_store_feed import fresh_uid
from tests.store.informers.lossy import LossyClient
from tests.volume.make import attachment, claim, csi_node, storage_class, uses, volume
from tests.volume.usage.test_in_use import (
    CLAIMS,
    DRIVERS,
    NODES,
    VOLUMES,
    WANTED,
    node_names,
    objects,
    pods,
)

from moorage import Scheduler
from moorage.objects import Node, Object, Pod
from moorage.store import NotFoundError, ObjectStore

KINDS: tuple[Any, ...] = (Node, *STORAGE, Pod)


def by_node(scheduler: Scheduler, one: VolumesInUse) -> Any:
    """All that is derived, by the names of the nodes."""
    one.refresh()
    table = scheduler.cache.state.table
    name = {row: table.row_name(row) for row in range(table.used) if table.is_present(row)}
    order = sorted(name, key=name.__getitem__)
    rows = np.array(order, dtype=np.int32)
    disks = {
        disk: {name[row]: sorted(map(repr, held)) for row, held in there.items()}
        for disk, there in one.disks.items()
    }
    return (
        {name[row]: held for row, held in one.pods.items()},
        one.claims,
        disks,
        {name[row]: dict(by) for row, by in one.attached.errors.items()},
        [name[row] for row in order],
        one.attached.is_limited(rows).tolist(),
        [one.attached.rows_over_limit(rows, wanted).tolist() for wanted in WANTED],
    )


class LossyInUse(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.store = ObjectStore()
        for name in NODES:
            self.store.create_many([node(name, pods=99), csi_node(name, d0=2, d1=1)])
        for number in range(3):
            self.store.create(claim(CLAIMS[number], f"v{number}", "k0"))
            self.store.create(volume(f"v{number}", ("d0", f"x{number}")))
            used = tuple(uses(claim=name) for name in CLAIMS[:3])
            self.store.create(pod(f"p{number}", on=NODES[number], volumes=used[: number + 1]))
        self.store.create_many([storage_class("k0"), attachment("a0", "d0", "a", "v0")])
        self.lossy = LossyClient(self.store, Random(seed))
        self.scheduler = Scheduler(self.lossy)
        self.one = VolumesInUse(self.scheduler.cache.state, self.scheduler.informers)
        self.one.refresh()

    def gone(self, one: Object) -> None:
        with suppress(NotFoundError):
            self.store.delete(type(one), one.name, one.namespace)

    @rule(one=objects, is_new=st.booleans())
    def write(self, one: Any, is_new: bool) -> None:
        if is_new:
            self.gone(one)
        try:
            self.store.get(type(one), one.name, one.namespace)
        except NotFoundError:
            self.store.create(one)
        else:
            self.store.update(one)

    @rule(one=st.one_of(objects, pods))
    def delete(self, one: Object) -> None:
        self.gone(one)

    @rule(name=st.sampled_from(CLAIMS[:3]), of=st.sampled_from(["", *VOLUMES]))
    def bind(self, name: str, of: str) -> None:
        self.write(claim(name, of, "k0"), False)

    @rule(name=st.sampled_from(VOLUMES), driver=st.sampled_from(DRIVERS), handle=st.sampled_from("xy"))
    def change_volume(self, name: str, driver: str, handle: str) -> None:
        self.write(volume(name, (driver, handle)), False)

    @rule(one=pods)
    def run_pod(self, one: Pod) -> None:
        """Another pod of the name, on a node."""
        self.gone(one)
        self.store.create(fresh_uid(one))

    @rule(one=pods, label=st.sampled_from("xy"))
    def label_pod(self, one: Pod, label: str) -> None:
        with suppress(NotFoundError):
            held = self.store.get(Pod, one.name, one.namespace)
            self.store.update(replace(held, metadata=replace(held.metadata, labels={"app": label})))

    @rule(name=node_names)
    def node_comes_or_goes(self, name: str) -> None:
        try:
            self.store.delete(Node, name)
        except NotFoundError:
            self.store.create(node(name, pods=99))

    @rule(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), looks=st.booleans())
    def pump(self, kinds: Any, looks: bool) -> None:
        """Who looks finds what the informers have, right or wrong."""
        scheduler = self.scheduler
        for kind in kinds:
            scheduler.informers.informer(kind).run_once()
        if looks:
            other = VolumesInUse(scheduler.cache.state, scheduler.informers)
            assert by_node(scheduler, self.one) == by_node(scheduler, other)

    @rule()
    def list_again(self) -> None:
        self.lossy.expire()
        for kind in KINDS:
            self.scheduler.informers.informer(kind).run_once()
        fresh = Scheduler(self.store)
        fresh_one = VolumesInUse(fresh.cache.state, fresh.informers)
        assert by_node(self.scheduler, self.one) == by_node(fresh, fresh_one)


TestLossyInUse = LossyInUse.TestCase
TestLossyInUse.settings = settings(
    deadline=None, max_examples=100, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)

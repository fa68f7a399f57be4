"""Pods with bound volumes are placed by the demand of their class as by the plugins about volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import (
    ClaimPlugin,
    Route,
    VolumesInUse,
    sources_of,
    terms,
)
from tests.make import in_tree, node, pod, port
from tests.scheduler.make import by_plugins
from tests.scheduler.placing.test_volume_engine import AZURE, claimed, local
from tests.volume.make import ZONE, attachment, csi_node, storage_class, uses, volume

from moorage import Scheduler, default_profile
from moorage.engine.framework import Profile
from moorage.kube import (
    Cluster,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    Object,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)

DRIVERS = ("d0", "d1")
NODES = "abcd"


def with_capacity(one: Object) -> Object:
    """A volume with a size; anything else as it is."""
    if not isinstance(one, PersistentVolume):
        return one
    return replace(one, spec=replace(one.spec, capacity={"storage": "1Gi"}))


OBJECTS: list[Object] = [
    storage_class("late", mode="WaitForFirstConsumer", provisioner="p"),
    *[one for at in range(6) for one in claimed(f"d0-{at}", volume(f"d0-{at}", ("d0", f"h{at}")))],
    *[one for at in range(3) for one in claimed(f"d1-{at}", volume(f"d1-{at}", ("d1", f"h{at}")))],
    *claimed("same-handle", volume("same", ("d0", "h0"))),
    *claimed("in-y", volume("in-y", ("d0", "y"), zone="y")),
    *claimed("in-z", volume("in-z", zone="z")),
    *claimed("on-a", local("a")),
    *claimed("on-b-c", local("b", "c")),
    *claimed("once", volume("once", ("d1", "once")), modes=("ReadWriteOncePod",)),
    *claimed("late", of_class="late"),
    *claimed("lost", volume("lost"), status={"phase": "Lost"}),
]
CLAIMS = [one.metadata.name for one in OBJECTS if isinstance(one, PersistentVolumeClaim)]
some_volumes = st.lists(
    st.one_of(st.sampled_from(CLAIMS).map(lambda name: uses(claim=name)), st.just(AZURE[0])), max_size=3
).map(tuple)
some_pods = st.lists(
    st.builds(
        lambda cpu, priority, volumes, ports: {
            "requests": {"cpu": cpu}, "priority": priority, "volumes": volumes, "ports": ports
        },
        st.integers(1, 3),
        st.integers(0, 2),
        some_volumes,
        st.sampled_from([(), (), (port(80),)]),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


def world(
    bound: list[dict[str, Any]], limits: list[dict[str, int]], attached: list[tuple[str, str]]
) -> Cluster:
    nodes = [node(name, zone="yz"[at % 2], labels={"host": name}) for at, name in enumerate(NODES)]
    # The ports of a node are a set: of two pods with one, the order of binding and eviction would decide.
    with_port = {at % 4: at for at in reversed(range(len(bound))) if bound[at]["ports"]}
    bound = [one if with_port.get(at % 4) == at else {**one, "ports": ()} for at, one in enumerate(bound)]
    there = [pod(f"b{at}", on=NODES[at % 4], **one) for at, one in enumerate(bound)]
    csi_nodes = [csi_node(name, **some) for name, some in zip(NODES, limits, strict=True)]
    attachments = [attachment(f"{name}-{on}", "d0", on, name) for name, on in attached]
    others = [*csi_nodes, *map(with_capacity, OBJECTS), *attachments]
    return Cluster(nodes=nodes, pods=there, others=others)


def outcome(one: Scheduler) -> list[Any]:
    placements = {each.key: each.spec.node_name for each in one.client.list(Pod)[0]}
    return [placements, one.context.rotation.start]


def run_in_steps(
    cluster: Cluster, steps: list[Any], tie_break: str, profile: Profile | None = None
) -> list[Any]:
    """What comes of pods that are added and deleted step by step, each followed by a run."""
    one = Scheduler(cluster, tie_break=tie_break, profile=profile or default_profile())
    out, number = list[Any](), 0
    for coming, gone, limit in steps:
        for each in one.client.list(Pod)[0][:gone]:
            one.client.delete(Pod, each.key)
        if limit is not None:
            one.client.update(
                replace(csi_node("a", d0=limit), metadata=one.client.get(CSINode, "a").metadata)
            )
        for asked in coming:
            asking = pod(f"p{number}", **asked)
            created = f"2026-01-01T00:00:{number:02}Z"  # pods of equal importance differ in nothing else
            asking = replace(asking, metadata=replace(asking.metadata, creation_timestamp=created))
            one.client.create(replace(asking, status=replace(asking.status, start_time=created)))
            number += 1
        result = one.run()
        failures = {key: failure.message for key, failure in result.unschedulable.items()}
        out.append([result.placements, failures, sorted(result.evicted), *outcome(one)])
        in_use = one.handle.derived(VolumesInUse.of)
        in_use.refresh()
        fresh = VolumesInUse(one.cache.state, one.handle.informers)
        fresh.refresh()
        rows = one.context.view_rows()
        for driver, room in fresh.attached.room.items():
            assert in_use.attached.room[driver][rows].tolist() == room[rows].tolist()
    return out


@settings(max_examples=100, deadline=None)
@given(
    some_pods,
    st.lists(st.dictionaries(st.sampled_from(DRIVERS), st.integers(0, 3)), min_size=4, max_size=4),
    st.lists(st.tuples(st.sampled_from(CLAIMS[:3]), st.sampled_from(NODES)), max_size=3, unique=True),
    st.lists(st.tuples(some_pods, st.integers(0, 3), st.none() | st.integers(1, 4)), min_size=1, max_size=3),
    st.sampled_from(["first", "go-heap"]),
)
def test_runs_by_demand_are_as_by_plugins(
    bound: list[dict[str, Any]],
    limits: list[dict[str, int]],
    attached: list[tuple[str, str]],
    steps: list[Any],
    tie_break: str,
) -> None:
    ours = run_in_steps(world(bound, limits, attached), steps, tie_break)
    assert ours == run_in_steps(world(bound, limits, attached), steps, tie_break, by_plugins())


def routes(one: Scheduler, pods: Sequence[Pod]) -> list[int]:
    """How a run places pods that are in the store: the routes of those that nothing has placed."""
    one.sync()
    batch = one.context.batch_of(pods, True)
    return [batch.route(at) for at in range(len(batch))]


class NotingZone(in_tree("VolumeZone")):  # type: ignore[misc]
    """Notes the pods that plugins schedule."""

    def __init__(self) -> None:
        super().__init__()
        self.cycles = list[str]()

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> Any:
        self.cycles.append(pod.name)
        return super().pre_filter(state, pod, nodes)


def profile_with(own: ClaimPlugin, kind: type[Profile] = Profile, **gates: bool) -> Profile:
    """The default profile with a plugin in place of that of the same name."""
    return kind([own if one.name == own.name else one for one in default_profile(gates).plugins])


@pytest.mark.parametrize("used_before", [False, True])
def test_a_volume_that_is_on_the_node_counts_once(used_before: bool) -> None:
    names = ["d0-0", "same-handle", "d0-1", "d0-2"]
    pods = [pod(f"p{at}", volumes=(uses(claim=name),)) for at, name in enumerate(names)]
    if used_before:
        pods[0] = replace(pods[0], spec=replace(pods[0].spec, node_name="a"))
    others = [csi_node("a", d0=2), *map(with_capacity, OBJECTS)]
    one = Scheduler(Cluster(nodes=[node("a")], pods=pods, others=others))
    found = routes(one, pods[used_before:])
    result = one.run()
    assert list(result.unschedulable) == ["default/p3"]
    assert "node(s) exceed max volume count" in result.unschedulable["default/p3"].message
    shares = [bool(route & Route.SHARES) for route in found]
    assert shares == ([True, False, False] if used_before else [False, True, False, False])
    assert all(route & Route.CLAIMS for route in found)


def test_where_a_shared_volume_meets_a_full_node_the_plugins_decide() -> None:
    pods = [pod(f"p{at}", volumes=(uses(claim=name),)) for at, name in enumerate(["d0-0", "same-handle"])]
    others = [csi_node("a", d0=1), *map(with_capacity, OBJECTS)]
    one = Scheduler(Cluster(nodes=[node("a")], pods=pods, others=others))
    assert routes(one, pods) == [Route.CLAIMS, Route.CLAIMS | Route.SHARES]
    assert list(one.run().placements.values()) == ["a", "a"]


def test_volumes_of_a_pod_that_plugins_place_count_for_the_rest_of_its_batch() -> None:
    pods = [pod("p0", volumes=(uses(claim="d0-0"), uses(claim="late"))), pod("p1", requests={"cpu": 3})]
    pods.append(pod("p2", volumes=(uses(claim="d0-1"),)))
    others = [csi_node("a", d0=1), csi_node("b", d0=1), *map(with_capacity, OBJECTS)]
    zone = NotingZone()
    cluster = Cluster(nodes=[node("a"), node("b")], pods=pods, others=others)
    one = Scheduler(cluster, tie_break="first", profile=profile_with(zone))
    assert list(one.run().placements.values()) == ["a", "b", "b"]
    assert zone.cycles == ["p0"]


def test_pods_that_have_failed_are_placed_by_demand() -> None:
    pods = [pod(f"p{at}", volumes=(uses(claim=f"d0-{at}"),)) for at in range(3)]
    others = [csi_node("a", d0=1), *map(with_capacity, OBJECTS)]
    zone = NotingZone()
    cluster = Cluster(nodes=[node("a")], pods=pods, others=others)
    one = Scheduler(cluster, profile=profile_with(zone))
    assert list(one.run().unschedulable) == ["default/p1", "default/p2"]
    one.client.delete(Pod, "default/p0")
    zone.cycles.clear()
    assert list(one.run().placements) == ["default/p1"]
    assert zone.cycles == ["p2"]


def conditions(one: Scheduler) -> dict[str, list[str]]:
    return {each.name: [c.message for c in each.status.conditions] for each in one.client.list(Pod)[0]}


def test_one_pod_of_a_class_tells_why_all_fail() -> None:
    pods = [pod(f"p{at}", volumes=(uses(claim=f"d0-{at}"),)) for at in range(4)]
    others = [csi_node("a", d0=1), *map(with_capacity, OBJECTS)]
    zone = NotingZone()
    cluster = Cluster(nodes=[node("a")], pods=pods, others=others)
    one = Scheduler(cluster, profile=profile_with(zone))
    result = one.run()
    assert (list(result.placements), zone.cycles) == (["default/p0"], ["p1"])
    texts = {failure.message for failure in result.unschedulable.values()}
    assert len(texts) == 1
    assert "node(s) exceed max volume count" in texts.pop()
    told = conditions(one)
    assert told["p1"] == told["p2"] == told["p3"] != []
    failed = [each.regarding for each in one.handle.recorder.events if each.reason == "FailedScheduling"]
    assert len(failed) == 3
    assert not one.run().placements
    # Nothing in the cache changes with the limit, but the class fits now.
    one.client.update(replace(csi_node("a", d0=2), metadata=one.client.get(CSINode, "a").metadata))
    assert list(one.run().placements) == ["default/p1"]


def test_claims_for_one_pod_that_are_in_use() -> None:
    others = [
        with_capacity(one)
        for at in range(3)
        for one in claimed(f"c{at}", volume(f"c{at}", ("d", f"{at}")), modes=("ReadWriteOncePod",))
    ]
    others.append(csi_node("a", d=9))
    holders = [pod(f"h{at}", on="a", volumes=(uses(claim=f"c{at}"),)) for at in range(3)]
    pods = [pod(f"p{at}", volumes=(uses(claim=f"c{at}"),)) for at in range(3)]
    zone = NotingZone()
    cluster = Cluster(nodes=[node("a")], pods=[*holders, *pods], others=others)
    one = Scheduler(cluster, profile=profile_with(zone))
    assert routes(one, pods) == [Route.CLAIMS] * 3
    result = one.run()
    assert (list(result.unschedulable), zone.cycles) == ([p.key for p in pods], ["p0"])
    texts = {failure.message for failure in result.unschedulable.values()}
    assert len(texts) == 1
    assert "with ReadWriteOncePod access mode already in-use" in texts.pop()
    one.client.delete(Pod, "default/h1")
    assert list(one.run().placements) == ["default/p1"]


def noting() -> tuple[type[Profile], list[str]]:
    """A kind of profile, and the names of the pods for which its plugins are asked."""
    asked = list[str]()

    class Noting(Profile):
        def __post_init__(self) -> None:
            super().__post_init__()
            needs_of = self.claim_plugins.needs_of

            def noted(pod: Pod, *rest: Any) -> Any:
                asked.append(pod.name)
                return needs_of(pod, *rest)

            self.claim_plugins.needs_of = noted  # type: ignore[method-assign]

    return Noting, asked


def test_pods_without_restrictions_are_remembered_until_claims_change() -> None:
    kind, asked = noting()
    others = [with_capacity(one) for one in claimed("c", volume("c", ("d", "h")))]
    exclusive = [
        with_capacity(one) for one in claimed("x", volume("x", ("d", "x")), modes=("ReadWriteOncePod",))
    ]
    cluster = Cluster(nodes=[node("a")], pods=[], others=[*others, *exclusive])
    one = Scheduler(cluster, profile=kind(default_profile().plugins))
    free, alone = (pod(name, volumes=(uses(claim=name),)) for name in "cx")

    def batch(*pods: Pod) -> tuple[list[str], list[int]]:
        asked.clear()
        found = routes(one, pods)
        return asked.copy(), found

    assert batch(free, alone) == (["c", "x"], [0, 0])
    assert batch(free, alone) == ([], [0, 0])
    assert batch(alone, free, alone) == ([], [0, 0, Route.VOLUMES | Route.PYTHON])
    assert batch(replace(free, spec=replace(free.spec))) == ([], [0])  # as the first one
    caches = one.handle.shared(sources_of)
    for cache, key in ((caches.pvc_cache, others[0].key), (caches.pv_cache, others[1].key)):
        cache.assume(cast(Any, replace(cache.find(key), kind="another")))
        assert batch(free) == (["c"], [Route.VOLUMES | Route.PYTHON])
        cache.restore(key)
        assert batch(free) == ([], [0])
    one.client.delete(PersistentVolume, others[1].key)
    assert batch(free) == (["c"], [Route.VOLUMES | Route.PYTHON])


def with_driver(name: str) -> CSIDriver:
    """A driver that its volumes' nodes must have."""
    spec = CSIDriverSpec(prevent_pod_scheduling_if_missing=True)
    return CSIDriver(metadata=ObjectMeta(name=name), spec=spec)


UNLIKE = {
    "zone": claimed("o", volume("o", ("d", "o"), zone="y")),
    "another zone": claimed("o", volume("o", ("d", "o"), zone="z")),
    "affinity": claimed("o", local("a")),
    "affinity to another node": claimed("o", local("b")),
    "driver": claimed("o", volume("o", ("e", "o"))),
    "no driver": claimed("o", volume("o")),
    "migrated": claimed("o", volume("o", "gce")),
    "for one pod": claimed("o", volume("o", ("d", "o")), modes=("ReadWriteOncePod",)),
}


def asked_plugins(others: Sequence[Object]) -> tuple[Scheduler, Callable[..., list[str]]]:
    """A scheduler, and what makes a batch of pods with claims and tells for which plugins are asked."""
    kind, asked = noting()
    nodes = [node("a", labels={ZONE: "y", "host": "a"}), node("b", labels={ZONE: "z", "host": "b"})]
    limits = {"d": 9, "e": 9, "pd.csi.storage.gke.io": 9}
    cluster = Cluster(nodes=nodes, others=[csi_node("a", **limits), *map(with_capacity, others)])
    profile = profile_with(in_tree("VolumeZone")(), kind, VolumeLimitScaling=True)
    one = Scheduler(cluster, feature_gates={"VolumeLimitScaling": True}, profile=profile)

    def batch(*names: str, **rest: Any) -> list[str]:
        asked.clear()
        one.sync()
        one.context.batch_of([pod(name, volumes=(uses(claim=name),), **rest) for name in names], True)
        return asked.copy()

    return one, batch


@pytest.mark.parametrize("other", UNLIKE)
def test_plugins_are_asked_once_for_pods_whose_claims_are_alike(other: str) -> None:
    alike = [one for name in "cde" for one in claimed(name, volume(name, ("d", f"h-{name}")))]
    one, batch = asked_plugins([*alike, *UNLIKE[other]])
    assert batch("c", "d", "o", "e", "o") == ["c", "o"]
    assert batch("e", "o") == []
    assert batch("e", "o", requests={"cpu": 2}) == ["e", "o"]  # of another class
    one.client.create(pod("on-a", on="a", volumes=(uses(claim="c"),)))
    assert batch("c", "d") == []


def test_plugins_are_asked_again_after_changes_of_what_no_description_has() -> None:
    one, batch = asked_plugins(claimed("c", volume("c", ("d", "h"))))
    assert (batch("c"), batch("c")) == (["c"], [])
    one.client.create(csi_node("b", d=1))
    assert (batch("c"), batch("c")) == (["c"], [])
    one.client.create(with_driver("d"))
    assert (batch("c"), batch("c")) == (["c"], [])
    one.client.create(claimed("e", volume("e", ("d", "e")))[0])
    assert batch("c") == []


def test_a_volume_of_many_pods_is_left_to_plugins() -> None:
    alike = [one for name in "cd" for one in claimed(name, volume(name, ("d", "h")))]
    one, batch = asked_plugins(alike)
    batch("c")
    assert batch(*"cd" * 9) == ["d"]  # the 18th
    found = routes(one, [pod(name, volumes=(uses(claim=name),)) for name in "cd" * 9])
    assert [at for at, route in enumerate(found) if route & Route.VOLUMES] == [17]
    assert [at for at, route in enumerate(found) if route & Route.SHARES] == [*range(1, 17)]


def test_what_fails_alike_ends_with_a_release() -> None:
    others = [csi_node("a", d=2), *(with_capacity(one) for one in claimed("c", volume("c", ("d", "h"))))]
    holder = pod("holder", on="a", volumes=(uses(claim="c"),))
    one = Scheduler(Cluster(nodes=[node("a", cpu=1)], pods=[holder], others=others))
    one.sync()
    asking = pod("p", requests={"cpu": 9}, volumes=(uses(claim="c"),))
    one.client.create(asking)
    one.sync()
    one.context.batch_of([asking], True)
    assert not one.context.claims.has_released()
    one.client.delete(Pod, holder.key)
    one.sync()
    assert one.context.claims.has_released()
    one.context.batch_of([asking], True)
    assert not one.context.claims.has_released()


def test_volumes_without_demands_are_as_none() -> None:
    pods = [pod("p", volumes=AZURE)]
    one = Scheduler(Cluster(nodes=[node("a")], pods=pods, others=[]))
    assert routes(one, pods) == [0]
    assert one.run().placements == {"default/p": "a"}


def test_no_more_drivers_than_the_core_counts() -> None:
    room = np.ones(1, dtype=np.int32)
    terms.VolumeDemand(None, [(room, 1)] * terms.MAX_DRIVERS)
    with pytest.raises(ValueError, match="9 drivers, of at most 8"):
        terms.VolumeDemand(None, [(room, 1)] * (terms.MAX_DRIVERS + 1))


@given(
    st.lists(st.booleans(), min_size=4, max_size=4) | st.none(),
    st.lists(
        st.tuples(st.lists(st.integers(-1, 3), min_size=4, max_size=4), st.integers(1, 3)),
        max_size=terms.MAX_DRIVERS,
    ),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_which_rows_meet_a_demand(
    reachable: list[bool] | None, attachments: list[tuple[list[int], int]], rows: list[int]
) -> None:
    arrays = [(np.array(room, dtype=np.int32), volumes) for room, volumes in attachments]
    demand = terms.VolumeDemand(None if reachable is None else np.array(reachable), arrays)
    meets = [
        (reachable is None or reachable[row]) and all(room[row] >= volumes for room, volumes in attachments)
        for row in rows
    ]
    assert demand.is_met_by(np.array(rows, dtype=np.int32)) == all(meets)
    if demand.rows == 4:
        with pytest.raises(IndexError):
            demand.is_met_by(np.array([4], dtype=np.int32))

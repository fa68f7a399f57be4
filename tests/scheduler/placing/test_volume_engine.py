"""Pods that use volumes go another way than pods without: by the plugins about volumes, at work in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace
from tests.doors.answers import examine_preemption
from tests.doors.engine import ClaimPlugin, schedule_one, sources_of, uses_volumes
from tests.make import in_tree, node, pod
from tests.volume.make import claim, csi_node, storage_class, uses, volume
from tests.words import BIND_COMPLETED

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Answers, Code, FilterPlugin, PreFilterPlugin, Status
from moorage.errors import MoorageError
from moorage.kube import (
    Cluster,
    CSIDriver,
    CSIDriverSpec,
    DiskVolumeSource,
    EphemeralVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Object,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
    VolumeNodeAffinity,
)

DISK = Volume(name="d", csi=DiskVolumeSource(driver="d"))
REJECTED = Status(Code.UNSCHEDULABLE, ("volume pods sit there",))


class OnePodEach(ClaimPlugin, PreFilterPlugin, FilterPlugin):
    """One pod with volumes for a node."""

    name = "OnePodEach"

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> Status | None:
        state.write("asked", pod.name)
        return None

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        assert state.read("asked") == pod.name
        return REJECTED if any(uses_volumes(other) for other in node_info.pods) else None

    def filter_all(self, state: Any, pod: Pod, nodes: Any) -> Answers:
        numbers = [any(uses_volumes(other) for other in info.pods) for info in nodes]
        return Answers(np.array(numbers, dtype=np.uint8), (None, REJECTED))


def profile() -> mo.Profile:
    return mo.Profile((OnePodEach(), *default_profile().plugins))


def with_disk(name: str, **rest: Any) -> Pod:
    return pod(name, volumes=(DISK,), **rest)


def scheduler(pods: list[Pod] | None = None, **settings: Any) -> Scheduler:
    cluster = Cluster(nodes=[node(name) for name in "abc"], pods=pods or [])
    return Scheduler(cluster, profile=profile(), **settings)


@pytest.mark.parametrize("source", [one.name for one in fields(Volume)])
def test_which_volumes_count(source: str) -> None:
    kinds = {
        "persistent_volume_claim": PersistentVolumeClaimVolumeSource(claim_name="c"),
        "ephemeral": EphemeralVolumeSource(),
    }
    given: Any = kinds.get(source, DiskVolumeSource())
    one = pod("p", volumes=(Volume(name="config"), replace(Volume(), **{source: given})))
    assert uses_volumes(one) == (source not in ("name", "image", "empty_dir", "host_path", "projected"))
    assert not uses_volumes(pod("p"))


def test_pods_without_volumes_stay_in_the_core() -> None:
    one = scheduler()
    engine = one.engines["default-scheduler"]
    assert engine.profile.is_in_core
    plain, asking = (one.context.target_of(each) for each in (pod("p"), with_disk("p")))
    assert plain != asking
    assert engine.framework.profile_of(plain) is engine.profile
    assert not engine.framework.profile_of(asking).is_in_core
    assert engine.framework.profile_of(asking).plugins == engine.profile.plugins, "each plugin is there once"
    with pytest.raises(MoorageError, match="cannot be placed at once"):
        one.preempt_pods([with_disk("v")])


def test_all_ways_of_asking_agree() -> None:
    bound = [with_disk("on-a", on="a"), with_disk("on-b", on="b")]
    one = scheduler(bound)
    asked = with_disk("v")
    seen = one.examine(asked)
    assert seen.feasible == ["c"]
    assert {status.reasons for status in seen.rejected.values()} == {("volume pods sit there",)}
    explanation = one.ask.explain(asked)
    assert explanation.examination.feasible == ["c"]
    assert explanation.filters[0].plugin == "OnePodEach"
    assert one.examine(pod("p")).feasible == ["a", "b", "c"]
    one.client.create(asked)
    one.sync()
    assert schedule_one(one.context, asked).node == "c"
    assert one.schedule_pods([pod("p"), pod("q")]).failures == {}


def test_the_rotation_is_one() -> None:
    one = Scheduler(
        Cluster(nodes=[node(f"n{at}", pods=110) for at in range(200)]),
        profile=profile(),
        percentage_of_nodes_to_score=50,
    )
    starts = []
    for at in range(6):
        asked = with_disk(f"v{at}") if at % 2 else pod(f"p{at}")
        one.client.create(asked)
        one.sync()
        starts.append(schedule_one(one.context, asked).start)
    assert starts[:3] == [0, 100, 0]
    with one.cache.transaction():
        before = one.context.rotation.holder.placer.decider.start
        one.schedule_pods([pod("x")])
    assert one.context.rotation.holder.placer.decider.start == before


@pytest.mark.parametrize(("limits", "in_core"), [((), True), ((("b", 9),), False), ((("x", 9),), True)])
def test_dry_runs_in_the_core_find_what_those_with_plugins_find(
    limits: tuple[tuple[str, int], ...], in_core: bool
) -> None:
    """Where the pod's volumes fit on every node, whoever leaves: here, where no node limits any driver."""
    volumes = (Volume(name="d", azure_disk=DiskVolumeSource(disk_uri="disk")),)
    bound = [
        pod("a1", on="a", requests={"cpu": 2}, volumes=volumes),
        pod("a2", on="a", requests={"cpu": 2}, priority=1),
        pod("b1", on="b", requests={"cpu": 3}),
        pod("c1", on="c", requests={"cpu": 4}, priority=9),
        pod("d1", on="d", requests={"cpu": 4}),
    ]
    nominated = pod("n", requests={"cpu": 3}, priority=7, volumes=volumes)
    nominated = replace(nominated, status=replace(nominated.status, nominated_node_name="d"))
    asked = pod("asked", requests={"cpu": 2}, priority=5, volumes=volumes)
    csi_nodes: list[Object] = [csi_node(name, **{"disk.csi.azure.com": limit}) for name, limit in limits]
    nodes = [node(name, unschedulable=name == "x") for name in "abcdx"]
    results = []
    for kind in mo.Profile, Whole:
        limiter = NotingLimits()
        cluster = Cluster(nodes=nodes, pods=bound, others=csi_nodes)
        one = Scheduler(cluster, profile=kind(with_limits(limiter)))
        one.client.create(nominated)
        one.sync()
        limiter.calls.clear()
        results.append(examine_preemption(one.engines["default-scheduler"], asked).dry_run)
        assert ("filter" not in limiter.calls) == (in_core and kind is mo.Profile)
    found, whole = results
    assert whole == found
    victims = {each.name: [v.name for v in each.victims.pods] for each in found.candidates}
    assert victims == {"a": ["a1"], "b": ["b1"]}
    assert list(found.rejected) == ["c", "d"]


class NotingLimits(in_tree("NodeVolumeLimits")):  # type: ignore[misc]
    """Notes which of its methods are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = list[str]()

    def pre_filter(self, *given: Any) -> Any:
        self.calls.append("pre_filter")
        return super().pre_filter(*given)

    def filter(self, *given: Any) -> Any:
        self.calls.append("filter")
        return super().filter(*given)

    def filter_all(self, *given: Any) -> Any:
        self.calls.append("filter_all")
        return super().filter_all(*given)


def with_limits(limits: NotingLimits) -> list[Any]:
    """The plugins of the default profile with these limits."""
    return [limits if one.name == limits.name else one for one in default_profile().plugins]


class Whole(mo.Profile):
    """Asks plugins about volumes even where the volumes fit everywhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.claim_plugins.fit_everywhere = lambda *_: False  # type: ignore[method-assign]


def whole(without: Sequence[str] = ()) -> Whole:
    return Whole([plugin for plugin in default_profile().plugins if plugin.name not in without])


AZURE = (Volume(name="d", azure_disk=DiskVolumeSource(disk_uri="disk")),)
VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
BOUND = {BIND_COMPLETED: "yes"}


some_pods = st.lists(
    st.builds(
        lambda cpu, priority, volumes: {"requests": {"cpu": cpu}, "priority": priority, "volumes": volumes},
        st.integers(1, 5),
        st.integers(0, 3),
        st.sampled_from([(), AZURE, (uses(azure="e"),), (*AZURE, uses(azure="e"))]),
    ),
    max_size=8,
)


def local(*nodes: str) -> PersistentVolume:
    """A volume that is accessible from some nodes only."""
    wanted = NodeSelectorRequirement(key="host", operator="In", values=nodes)
    term = NodeSelectorTerm(match_expressions=(wanted,))
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    one = volume(f"v-{'-'.join(nodes)}")
    return replace(one, spec=replace(one.spec, node_affinity=affinity))


def claimed(
    name: str,
    to: PersistentVolume | None = None,
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **of: Any,
) -> list[Object]:
    """A claim with its volume."""
    one = claim(name, of="" if to is None else to.name, **of)
    metadata = replace(one.metadata, **{"annotations": BOUND if to else {}, **(meta or {})})
    one = replace(one, metadata=metadata, status=replace(one.status, **(status or {})))
    return [one] if to is None else [one, to]


CLAIMS: list[Object] = [
    storage_class("late", mode="WaitForFirstConsumer"),
    *claimed("anywhere", volume("v0", ("disk.csi.azure.com", "h0"))),
    *claimed("in-zone", volume("v1", zone="z")),
    *claimed("elsewhere", volume("v2", zone="y")),
    *claimed("local-a", local("a")),
    *claimed("local-all", local("a", "b", "c")),
    *claimed("once", volume("v3"), modes=("ReadWriteOncePod",)),
    *claimed("lost", volume("v4"), status={"phase": "Lost"}),
    *claimed("deleting", volume("v5"), {"deletion_timestamp": "2026-01-01T00:00:00Z"}),
    *claimed("unfinished", volume("v6"), {"annotations": {}}),
    *claimed("late", of_class="late"),
    *claimed("unbound"),
    *claimed("no-volume", volume("v7"))[:1],
    *claimed("p0-foreign", volume("v8")),
    *claimed("p1-own", volume("v9"), {"owner_references": (OwnerReference(uid="p1", controller=True),)}),
]
VOLUMES = [
    (),
    AZURE,
    (uses(gce="disk"),),
    (uses(ephemeral="foreign"),),
    (uses(ephemeral="own"),),
    (uses(claim="missing"),),
    (uses(claim="anywhere"), uses(claim="local-all")),
    *((uses(claim=one.name),) for one in CLAIMS if isinstance(one, PersistentVolumeClaim)),
]


def placed_in_turn(
    bound: list[dict[str, Any]],
    asked: list[dict[str, Any]],
    limits: list[int | None],
    tie_break: str,
    profile: mo.Profile | None = None,
    others: Sequence[Object] = (),
) -> list[Any]:
    """What comes of pods that are scheduled one after the other, by the default profile or another."""
    names = "abc"
    csi_nodes = [
        csi_node(name, **{"disk.csi.azure.com": limit})
        for name, limit in zip(names, limits, strict=True)
        if limit is not None
    ]
    there = [pod(f"b{at}", on=names[at % 3], **one) for at, one in enumerate(bound)]
    coming = [pod(f"p{at}", **one) for at, one in enumerate(asked)]
    nodes = [node(name, zone="z", labels={"host": name}) for name in names]
    cluster = Cluster(nodes=nodes, pods=[*there, *coming], others=[*csi_nodes, *CLAIMS, *others])
    one = Scheduler(cluster, profile=profile or default_profile(), tie_break=tie_break)
    out = []
    for asking in coming:
        decision = schedule_one(one.context, asking)
        left: list[Any] = sorted(each.name for each in one.client.list(Pod)[0])
        left += [one.client.list(PersistentVolumeClaim)[0], one.handle.recorder.events[-3:]]
        rejectors = decision.diagnosis and decision.diagnosis.rejectors()
        found = [decision.node, decision.start, decision.next, decision.evaluated, decision.nominating]
        out.append([*found, decision.fit_error, decision.feasible.tolist(), rejectors, left])
    return out


@settings(max_examples=40, deadline=None)
@given(
    some_pods,
    some_pods,
    st.lists(st.sampled_from([None, None, 1, 2, 3]), min_size=3, max_size=3),
    st.sampled_from(["first", "go-heap"]),
)
def test_where_volumes_fit_everywhere_the_core_searches_as_their_plugins_do(
    bound: list[dict[str, Any]], asked: list[dict[str, Any]], limits: list[int | None], tie_break: str
) -> None:
    ours = placed_in_turn(bound, asked, limits, tie_break)
    assert ours == placed_in_turn(bound, asked, limits, tie_break, whole())


def test_limits_of_nodes_with_pods_whose_volumes_are_unknown() -> None:
    bound = [{"volumes": (uses(ephemeral="unknown"),)}]
    claims = claimed("b0-unknown", volume("v"))
    expected = placed_in_turn(bound, [{"volumes": AZURE}], [5, 5, 5], "first", whole(), claims)
    assert "was not created for pod default/b0" in expected[0][-1][-1][-1].note
    assert expected == placed_in_turn(bound, [{"volumes": AZURE}], [5, 5, 5], "first", others=claims)


def test_a_volume_that_is_attached_already_is_not_when_its_pod_is_evicted() -> None:
    """The node would still exceed its limit."""
    full = {"requests": {"cpu": 4}, "priority": 9}
    low = {"requests": {"cpu": 3}, "volumes": AZURE}
    other = {"requests": {"cpu": 1}, "priority": 9, "volumes": (uses(azure="e"),)}
    bound = [low, full, full, other]
    asked = [{"requests": {"cpu": 3}, "priority": 5, "volumes": AZURE}]
    for limit, nominated in ((1, ""), (2, "a")):
        placed = placed_in_turn(bound, asked, [limit, None, None], "first")
        assert placed[0][4].nominated_node_name == nominated
        assert placed == placed_in_turn(bound, asked, [limit, None, None], "first", whole())


@pytest.mark.share(4)
@pytest.mark.parametrize("only", [(), *VOLUME_PLUGINS])
@pytest.mark.parametrize("volumes", VOLUMES)
def test_each_plugin_knows_which_volumes_fit_everywhere(volumes: tuple[Volume, ...], only: str) -> None:
    without = [name for name in VOLUME_PLUGINS if only and name != only]
    bound = [{"requests": {"cpu": 3}, "volumes": volumes}]
    profile = mo.Profile([plugin for plugin in default_profile().plugins if plugin.name not in without])
    asked = [{"requests": {"cpu": cpu}, "priority": 1, "volumes": volumes} for cpu in (1, 1, 4, 4)]
    everywhere = [None, None, None]
    for limits in (everywhere, [None, None, 1]) if only in ((), "NodeVolumeLimits") else (everywhere,):
        ours = placed_in_turn(bound, asked, limits, "first", profile)
        assert ours == placed_in_turn(bound, asked, limits, "first", whole(without))


def test_where_volumes_fit_everywhere_no_plugin_filters_nodes() -> None:
    asked = pod("p", volumes=AZURE)
    for kind, called in (mo.Profile, []), (Whole, ["pre_filter", "filter_all"]):
        limits = NotingLimits()
        one = Scheduler(Cluster(nodes=[node("a")], pods=[asked]), profile=kind(with_limits(limits)))
        assert schedule_one(one.context, asked).node == "a"
        assert limits.calls == called


def test_claims_and_volumes_count_as_they_are_assumed() -> None:
    asked = pod("p", volumes=(uses(claim="c"),))
    one = Scheduler(Cluster(nodes=[node("a")], pods=[asked], others=claimed("c", volume("v"))))
    sources = one.handle.shared(sources_of)
    there = sources.pv_cache.get("v")
    spec = replace(there.spec, node_affinity=local("elsewhere").spec.node_affinity)
    sources.pv_cache.assume(replace(there, spec=spec))
    assert "didn't match PersistentVolume's node affinity" in schedule_one(one.context, asked).fit_error
    sources.pv_cache.restore("v")
    bound = sources.pvc_cache.get("default/c")
    sources.pvc_cache.assume(replace(bound, metadata=replace(bound.metadata, annotations={})))
    assert "unbound immediate PersistentVolumeClaims" in schedule_one(one.context, asked).fit_error


@pytest.mark.parametrize("more", [[], [csi_node("b", d1=1)]], ids=["no-csi-nodes", "without-it"])
def test_pods_wait_for_a_node_with_their_driver(more: list[Object]) -> None:
    """Whether the core places them or not; the nodes meet what preemption asks for only with the driver."""
    spec = CSIDriverSpec(prevent_pod_scheduling_if_missing=True)
    driver = CSIDriver(metadata=ObjectMeta(name="d0"), spec=spec)
    bound = [one for at in range(4) for one in claimed(f"c{at}", volume(f"v{at}", ("d0", f"h{at}")))]
    pods = [pod(f"p{at}", volumes=(uses(claim=f"c{at}"),)) for at in range(4)]
    cluster = Cluster(nodes=[node("a"), node("b")], pods=pods, others=[driver, *bound, *more])
    one = Scheduler(cluster, feature_gates={"VolumeLimitScaling": True})
    result = one.run()
    assert not result.placements
    texts = [failure.message for failure in result.unschedulable.values()]
    assert all("2 d0 CSI driver is not installed on the node" in text for text in texts)
    one.client.create(csi_node("a", d0=3))
    assert list(one.run().placements.values()) == ["a", "a", "a"]

"""Filters about volumes: what they answer about each node, one by one and all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import SearchCalls
from tests.make import node, pod
from tests.volume.make import claim, csi_node, storage_class, uses, volume
from tests.words import BIND_COMPLETED, MIGRATED_PLUGINS

from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, CycleState, FilterPlugin, Framework, Status
from moorage.engine.scheduler import Profile
from moorage.kube import (
    Cluster,
    CSIDriver,
    CSIDriverSpec,
    DiskVolumeSource,
    Node,
    Object,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
)

ONCE_POD = ("ReadWriteOncePod",)
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = (f"failure-domain.beta.kubernetes.io/{kind}" for kind in ("zone", "region"))
FULL, ELSEWHERE = "node(s) exceed max volume count", "node(s) had no available volume zone"


def scheduler(
    nodes: list[Node],
    pods: list[Pod],
    objects: list[Any],
    only: str,
    gates: dict[str, bool] | None = None,
) -> Scheduler:
    """One whose default profile has one of the filters about volumes alone."""
    about = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"} - {only}
    plugins = [plugin for plugin in default_profile().plugins if plugin.name not in about]
    cluster = Cluster(nodes=nodes, pods=pods, others=objects)
    return Scheduler(cluster, profile=Profile(plugins), feature_gates=gates)


def verdicts(one: Scheduler, asked: Pod) -> dict[str, tuple[str, ...]] | tuple[Code, str]:
    """Node to the reasons of its rejection; or what PreFilter says."""
    seen = one.examine(asked)
    if seen.pre_filter is not None:
        return seen.pre_filter.code, seen.pre_filter.reasons[0]
    return {name: status.reasons for name, status in seen.rejected.items()}


def with_volumes(name: str, *volumes: Volume, on: str = "", **rest: Any) -> Pod:
    return pod(name, on=on, volumes=volumes, **rest)


def labelled(name: str, **labels: str) -> PersistentVolume:
    one = volume(name, ("d0", name))
    keys = {"zone": ZONE, "region": REGION, "beta": BETA_ZONE}
    return replace(
        one, metadata=ObjectMeta(name=name, labels={keys[key]: label for key, label in labels.items()})
    )


# ---- VolumeRestrictions ------------------------------------------------------------------------------------


def test_who_has_a_disk_that_cannot_be_mounted_twice() -> None:
    held = [
        with_volumes("user", uses(gce="x"), uses(gce="z"), on="a"),
        with_volumes("other", uses(gce="y"), on="a"),
    ]
    one = scheduler([node("a"), node("b")], held, [], "VolumeRestrictions")
    one.client.create(with_volumes("p", uses(gce="x")))
    (group,) = one.ask.explain("default/p").groups
    assert group.nodes == ["a"]
    assert [fact.facts() | {"name": fact.name} for fact in group.evidence] == [{"name": "default/user"}]


def test_who_uses_a_claim_for_one_pod_can_be_evicted() -> None:
    held = [with_volumes("q", uses(claim="once"), on="a"), pod("r", on="b", priority=-1)]
    one = scheduler([node("a"), node("b")], held, [claim("once", modes=ONCE_POD)], "VolumeRestrictions")
    one.client.create(with_volumes("p", uses(claim="once"), priority=5))
    result = one.run()
    assert (set(result.evicted), result.placements["default/p"]) == ({"default/q"}, "a")


def test_restrictions_without_their_pre_filter() -> None:
    one = scheduler([node("a")], [], [], "VolumeRestrictions")
    plugin = at_work(one)
    info = one.cache.node_info("a")
    text = 'reading "PreFilterVolumeRestrictions" from cycleState: not found'
    asked = with_volumes("p", uses(gce="x"))
    assert plugin.filter(CycleState(), asked, info) == Status(Code.ERROR, (text,))
    assert plugin.add_pod(CycleState(), asked, asked, info) == Status(Code.ERROR, (text,))


# ---- VolumeZone --------------------------------------------------------------------------------------------


def zonal(**labels: str) -> list[Object]:
    return [claim("c", "v"), labelled("v", **labels)]


def of_claim() -> Pod:
    return with_volumes("p", uses(claim="c"))


def test_zones_follow_the_nodes() -> None:
    one = scheduler([node("a", "z1"), node("b", "z2")], [], zonal(zone="z1"), "VolumeZone")
    assert verdicts(one, of_claim()) == {"b": (ELSEWHERE,)}
    one.client.update(node("b", "z1"))
    one.client.create(node("c", "z2"))
    one.sync()
    assert verdicts(one, of_claim()) == {"c": (ELSEWHERE,)}
    with one.cache.transaction():
        one.cache.state.set_node(node("a", "z2"))
        assert verdicts(one, of_claim()) == {"a": (ELSEWHERE,), "c": (ELSEWHERE,)}
    assert verdicts(one, of_claim()) == {"c": (ELSEWHERE,)}


@pytest.mark.parametrize(
    ("objects", "asked", "text"),
    [
        ([], "", "PersistentVolumeClaim had no name"),
        ([], "c", 'persistentvolumeclaim "c" not found'),
        ([claim("c", "v")], "c", 'persistentvolume "v" not found'),
        ([claim("c")], "c", "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("c", of_class="k")], "c", 'storageclass.storage.k8s.io "k" not found'),
        (
            [claim("c", of_class="k"), storage_class("k", mode=None)],
            "c",
            'VolumeBindingMode not set for StorageClass "k"',
        ),
        ([claim("c", of_class="k"), storage_class("k")], "c", "PersistentVolume had no name"),
    ],
)
def test_what_is_wrong_with_claims(objects: list[Any], asked: str, text: str) -> None:
    one = scheduler([node("a", "z1")], [], objects, "VolumeZone")
    plugin = at_work(one)
    expected = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
    asking = with_volumes("p", uses(claim=asked))
    assert plugin.pre_filter(CycleState(), asking, None) == expected
    info = one.cache.node_info("a")
    assert plugin.filter(CycleState(), asking, info) == expected  # without PreFilter


def test_zones_without_their_pre_filter() -> None:
    nodes = [node("here", "z1"), node("there", "z2"), node("nowhere")]
    one = scheduler(nodes, [], zonal(zone="z1"), "VolumeZone")
    plugin, state, view = at_work(one), CycleState(), working(one).all_nodes()
    answers = plugin.filter_all(state, of_claim(), view)
    names = [info.node.name for info in view if info.node is not None]
    found = dict(zip(names, [answers.statuses[at] for at in answers.numbers], strict=True))
    expected = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (ELSEWHERE,))
    assert found == {"here": None, "there": expected, "nowhere": None}


@pytest.mark.parametrize("of_volume", ["zone", "beta"])
def test_zones_of_a_node_that_the_cache_does_not_hold(of_volume: str) -> None:
    """A filter is asked about a NodeInfo, of whatever node."""
    one = scheduler([], [], zonal(**{of_volume: "z1"}), "VolumeZone")
    other = scheduler([node("here", "z1"), node("there", "z2"), node("nowhere")], [], [], "VolumeZone")
    infos = map(other.cache.node_info, ("here", "there", "nowhere"))
    answers = [at_work(one).filter(CycleState(), of_claim(), info) for info in infos]
    assert answers == [None, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (ELSEWHERE,)), None]


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([claim("c")], ("not bound, class (none)", None, None)),
        ([claim("c", of_class="k")], ("not bound, class k", "k", None)),
        ([claim("c", "v", of_class="k")], ("bound to missing volume v", "k", "v")),
        ([claim("c", of_class="k"), storage_class("k", mode=None)], ("not bound, class k", "k", None)),
    ],
)
def test_evidence_of_claims_for_which_zones_reject_the_pod(
    objects: list[Any], told: tuple[str, str | None, str | None]
) -> None:
    one = scheduler([node("a", "z1"), node("b")], [], objects, "VolumeZone")
    one.client.create(of_claim())
    (group,) = one.ask.explain("default/p").groups
    (fact,) = group.evidence
    values = fact.facts()
    assert (values["problem"], values.get("storageClass"), values.get("volume")) == told
    assert (fact.name, fact.nodes) == ("default/c", 2)


def test_evidence_of_volumes_in_other_zones() -> None:
    nodes = [node("here", "z1"), node("there", "z2"), node("far", "z3")]
    late = [claim("late", of_class="k"), storage_class("k", mode="WaitForFirstConsumer")]
    one = scheduler(nodes, [], [*zonal(zone="z1__z0"), *late], "VolumeZone")
    one.client.create(with_volumes("p", uses(claim="late"), uses(claim="c")))
    explained = one.ask.explain("default/p")
    facts = [(fact.text, fact.nodes) for group in explained.groups for fact in group.evidence]
    assert explained.feasible == ["here"]
    text = f"claim default/c (bound to volume v, whose labels say {ZONE} in [z0, z1]; nodes have z2, z3)"
    assert facts == [(text, 2)]


# ---- NodeVolumeLimits --------------------------------------------------------------------------------------


def many(n: int) -> list[Any]:
    objects: list[Any] = []
    for at in range(n):
        objects += [claim(f"c{at}", f"v{at}"), volume(f"v{at}", ("d0", f"h{at}"))]
    return objects


GATE = {"VolumeLimitScaling": True}


def driver(name: str, must: bool | None = True) -> CSIDriver:
    spec = CSIDriverSpec(prevent_pod_scheduling_if_missing=must)
    return CSIDriver(metadata=ObjectMeta(name=name), spec=spec)


def lacks(name: str) -> tuple[str, ...]:
    return (f"{name} CSI driver is not installed on the node",)


def verdicts_with(
    asked: Pod, objects: list[Any], gates: dict[str, bool] | None = None, pods: Sequence[Pod] = ()
) -> Any:
    """Node to the reasons of its rejection, which evicted pods may change."""
    nodes = [node(name) for name in ("has", "other", "none")]
    one = scheduler(nodes, list(pods), objects, "NodeVolumeLimits", GATE if gates is None else gates)
    seen = one.examine(asked)
    assert {status.code for status in seen.rejected.values()} <= {Code.UNSCHEDULABLE}
    return verdicts(one, asked)


def test_drivers_that_nodes_must_have() -> None:
    asked = with_volumes("p", uses(claim="c0"))
    objects = [*many(1), csi_node("has", d0=None), csi_node("other", d1=5)]
    seen = {"other": lacks("d0"), "none": lacks("d0")}
    assert verdicts_with(asked, [*objects, driver("d0")]) == seen
    assert verdicts_with(asked, [*objects, driver("d0")], {}) == {}
    assert verdicts_with(asked, [*objects, driver("d0", False)]) == {}
    assert verdicts_with(asked, [*objects, driver("d0", None)]) == {}
    assert verdicts_with(asked, [*objects, driver("d1")]) == {}


def test_the_driver_that_a_node_lacks_is_named() -> None:
    """A node may have one of the drivers, and each that it lacks is a fact of its own."""
    more = [claim("e", "e"), volume("e", ("d1", "e"))]
    objects = [*many(1), *more, csi_node("has", d0=5), driver("d0"), driver("d1")]
    one = scheduler([node("has"), node("none")], [], objects, "NodeVolumeLimits", GATE)
    one.client.create(with_volumes("p", uses(claim="c0"), uses(claim="e")))
    told = {
        tuple(group.nodes): [fact.text for fact in group.evidence]
        for group in one.ask.explain("default/p").groups
    }
    assert told == {
        ("has",): ["driver d1 (not installed on the node)"],
        ("none",): ["driver d0 (not installed on the node)", "driver d1 (not installed on the node)"],
    }


def test_a_driver_that_is_not_installed_comes_before_limits() -> None:
    """Of several, the first in alphabetical order is named; upstream takes any."""
    asked = with_volumes("p", uses(claim="c0"), uses(claim="e"), uses(claim="f"))
    more = [claim("e", "e"), volume("e", ("d1", "e")), claim("f", "f"), volume("f", ("d2", "f"))]
    objects = [*many(2), *more, csi_node("has", d0=1), csi_node("other", d0=1, d1=1)]
    held = [with_volumes("q", uses(claim="c1"), on="has"), with_volumes("r", uses(claim="c1"), on="other")]
    seen = verdicts_with(asked, [*objects, driver("d1"), driver("d2")], pods=held)
    assert seen == {"has": lacks("d1"), "other": lacks("d2"), "none": lacks("d1")}
    assert verdicts_with(asked, [*objects, driver("d1")], pods=held) == {
        "has": lacks("d1"),
        "other": (FULL,),
        "none": lacks("d1"),
    }


@pytest.mark.parametrize("made", ["inline", "bound", "unbound"])
def test_migrated_volumes_ask_for_a_driver_only_where_a_csi_node_is(made: str) -> None:
    """Without a CSINode nothing says that the node's in-tree plugin was replaced."""
    name = "pd.csi.storage.gke.io"
    migrated = {"inline": [], "bound": [claim("c", "v"), volume("v", "gce")]}.get(
        made, [claim("c", of_class="s"), storage_class("s", "kubernetes.io/gce-pd")]
    )
    asked = with_volumes("p", uses(gce="disk") if made == "inline" else uses(claim="c"))
    objects = [*migrated, csi_node("has", **{name: 1}), csi_node("other", d0=1), driver(name)]
    assert verdicts_with(asked, objects) == {"other": lacks(name)}
    named = [claim("n", "n"), volume("n", (name, "n"))]
    both = with_volumes("p", *asked.spec.volumes, uses(claim="n"))
    seen = verdicts_with(both, [*objects, *named])
    assert seen["none"] == seen["other"] == lacks(name)


def test_a_volume_on_a_node_that_cannot_be_translated_fails_where_its_plugin_is_replaced() -> None:
    disk = DiskVolumeSource(volume_id="aws://z/disk")
    broken = replace(volume("v"), spec=PersistentVolumeSpec(aws_elastic_block_store=disk))
    bound = replace(
        claim("c", "v"), metadata=replace(claim("c", "v").metadata, annotations={BIND_COMPLETED: "yes"})
    )
    marked = csi_node("a")
    objects: list[Any] = [bound, broken]
    asked = with_volumes("p", uses(claim="c"))
    one = scheduler([node("a"), node("b")], [], [*objects, marked], "VolumeBinding")
    assert one.examine(asked).feasible == ["a", "b"]
    annotations = {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"}
    one.client.update(replace(marked, metadata=replace(marked.metadata, annotations=annotations)))
    one.sync()
    assert one.examine(asked).error == (
        'running "VolumeBinding" filter plugin: could not translate pv: failed to translate Kubernetes ID to '
        "EBS Volume ID Invalid format for AWS volume (aws://z/disk)"
    )


def test_drivers_of_classes_that_nodes_must_have() -> None:
    asked = with_volumes("p", uses(claim="c"))
    objects = [claim("c", of_class="s"), storage_class("s"), csi_node("has", d0=None), driver("d0")]
    assert verdicts_with(asked, objects) == {"other": lacks("d0"), "none": lacks("d0")}


def test_claims_of_the_pod_that_are_missing_or_not_its_own() -> None:
    objects = [claim("p-e"), csi_node("a", d0=1)]
    one = scheduler([node("a"), node("b")], [], objects, "NodeVolumeLimits")
    text = 'looking up PVC default/x: persistentvolumeclaim "x" not found'
    assert verdicts(one, with_volumes("p", uses(claim="x"))) == {"a": (text,), "b": (text,)}
    error = 'running "NodeVolumeLimits" filter plugin: PVC default/p-e was not created for pod default/p'
    assert one.examine(with_volumes("p", uses(ephemeral="e"))).error == f"{error} (pod is not owner)"


def test_pods_whose_volumes_cannot_be_counted_fail_where_there_are_limits() -> None:
    objects = [*many(1), claim("q-e"), csi_node("a", d0=1)]
    held = [with_volumes("q", uses(ephemeral="e"), on="a"), with_volumes("r", uses(ephemeral="e"), on="b")]
    one = scheduler([node("a"), node("b")], held, objects, "NodeVolumeLimits")
    asked = with_volumes("p", uses(claim="c0"))
    error = 'running "NodeVolumeLimits" filter plugin: PVC default/q-e was not created for pod default/q'
    assert one.examine(asked).error == f"{error} (pod is not owner)"
    one.client.delete("CSINode", "a")
    one.sync()
    assert verdicts(one, asked) == {}


# ---- one by one and all at once ----------------------------------------------------------------------------

SOURCES = [
    *[{"claim": f"c{at}"} for at in range(4)],
    {"gce": "disk"},
    {"rbd": "image"},
    {"ephemeral": "e"},
]
volumes = st.lists(st.sampled_from(SOURCES), min_size=1, max_size=3).map(
    lambda found: tuple(uses(**source) for source in found)  # type: ignore[arg-type]
)
label_values = st.sampled_from(["z1", "z2", "", None])
labels = st.fixed_dictionaries(dict.fromkeys((BETA_ZONE, BETA_REGION, ZONE, REGION), label_values)).map(
    lambda found: {key: value for key, value in found.items() if value is not None}
)
zones = st.sampled_from(["z1", "z1__z2", "z1__", None])
owned = (OwnerReference(uid="p", controller=True),)


@settings(deadline=None, max_examples=60)
@given(
    nodes=st.lists(labels, min_size=1, max_size=4),
    limits=st.lists(st.sampled_from([None, 0, 1, 2]), min_size=4, max_size=4),
    held=st.lists(st.tuples(st.integers(0, 3), volumes), max_size=4),
    bound=st.lists(
        st.tuples(st.sampled_from(["v0", "v1", "v2"]), st.sampled_from([(), ONCE_POD])),
        min_size=4,
        max_size=4,
    ),
    of_volumes=st.lists(st.tuples(zones, labels), min_size=3, max_size=3),
    mine=volumes,
    only=st.sampled_from(["VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"]),
    installed=st.none() | st.integers(0, 4),
)
def test_all_at_once_is_one_by_one(  # noqa: PLR0913
    nodes: Any,
    limits: Any,
    held: Any,
    bound: Any,
    of_volumes: Any,
    mine: Any,
    only: str,
    installed: int | None,
) -> None:
    """With the gate VolumeLimitScaling, some nodes may lack a driver that they must have."""
    objects: list[Any] = [claim(f"c{at}", of, modes=modes) for at, (of, modes) in enumerate(bound)]
    for at, (zone, found) in enumerate(of_volumes):
        one = volume(f"v{at}", ("d0", f"h{at}"))
        given_labels = found | ({} if zone is None else {ZONE: zone})
        objects.append(replace(one, metadata=ObjectMeta(name=one.name, labels=given_labels)))
    objects += [csi_node(f"n{at}", d0=limits[at]) for at in range(len(nodes))[:installed]]
    objects += [driver(name) for name in ("d0", "pd.csi.storage.gke.io")]
    objects.append(claim("p-e", "v0", owners=owned))
    pods = [
        with_volumes(f"q{at}", *found, on=f"n{on}") for at, (on, found) in enumerate(held) if on < len(nodes)
    ]
    gates = {"VolumeLimitScaling": installed is not None}
    found_nodes = [node(f"n{at}", labels=found) for at, found in enumerate(nodes)]
    made = scheduler(found_nodes, pods, objects, only, gates)
    plugin, framework = at_work(made), working(made)
    asked = with_volumes("p", *mine)
    state = framework.new_state(asked)
    status = plugin.pre_filter(state, asked, framework.all_nodes())
    if status is not None:
        assert status.is_skip or status.is_rejected
        return
    rows = made.context.view_rows()
    bridge = SearchCalls(framework)
    bridge.begin(state, asked)
    bridge.filter(plugin, rows)
    for row in rows.tolist():
        name = made.table.row_name(row)
        info = made.cache.node_info(name)
        assert info is not None
        for shown in (info, info.clone()):
            status = plugin.filter(state.clone(), asked, shown)
            expected = None if status is None else status.with_plugin(only)
            assert bridge.status(only, row) == expected


def working(one: Scheduler) -> Framework:
    """The framework of the profile's engine for pods that use volumes."""
    return one.engines["default-scheduler"].framework


def at_work(one: Scheduler) -> Any:
    """The one filter about volumes of a scheduler."""
    about = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeZone")
    (plugin,) = (plugin for plugin in working(one).profile.at(FilterPlugin) if plugin.name in about)
    return plugin

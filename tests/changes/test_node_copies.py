"""New nodes like another one: where their volumes can be, and what was true of the other one for a moment."""

from __future__ import annotations

from typing import Any

import pytest
from tests import make
from tests.make import Json, claim, pod, scheduler, storage_class

import moorage as mo
from moorage.errors import InputError
from moorage.kube import CSIStorageCapacity

ZONE, DISK = "topology.kubernetes.io/zone", "topology.disk.example/zone"
KEY = "topology.lvm.example/node"
CLASS = storage_class("lvm", "d"), make.make("CSIDriver", "d", {"storageCapacity": True})


def machine(name: str, labels: dict[str, str], *taints: str, **status: Any) -> mo.Node:
    listed = [
        {"key": key, "value": value, "effect": "NoSchedule"}
        for key, _, value in (taint.partition("=") for taint in taints)
    ]
    return make.node(name, "", {"kubernetes.io/hostname": name} | labels, listed, status=status)


def drivers(node: str, *keys: str, **more: Any) -> Any:
    driver = {"name": "d", "nodeID": f"i-{node}", "topologyKeys": keys} | more
    return make.make("CSINode", node, {"drivers": [driver]})


def capacity(name: str, size: str, topology: Json, **fields: Any) -> Any:
    made = {"storageClassName": "lvm", "capacity": size, "nodeTopology": topology}
    return make.make("CSIStorageCapacity", f"lvm/{name}", **made | fields)


def volume(name: str, size: str, key: str, value: str) -> Any:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    return make.volume(name, "lvm", size, csi={"driver": "d", "volumeHandle": name}, nodeAffinity=affinity)


def labels_of(one: mo.Scheduler, name: str) -> dict[str, str]:
    node: mo.Node = one.client.get(mo.Node, name)
    return node.metadata.labels


# ---- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["n1", "i-n1"])
def test_a_label_that_tells_the_node_to_a_driver_tells_the_new_one(value: str) -> None:
    one = scheduler(machine("n1", {KEY: value, "other": value}), drivers("n1", KEY))
    assert one.change.add_nodes(1, "n1").notes == ()
    assert labels_of(one, "n1-1") == {"kubernetes.io/hostname": "n1-1", KEY: "n1-1", "other": value}


def test_a_key_of_volumes_counts_without_a_driver_on_the_node() -> None:
    one = scheduler(machine("n1", {KEY: "n1"}), volume("v", "1Gi", KEY, "n1"))
    one.change.add_nodes(1, "n1")
    assert labels_of(one, "n1-1")[KEY] == "n1-1"


def test_a_new_zone_is_the_zone_of_drivers_too() -> None:
    one = scheduler(machine("n1", {ZONE: "a", DISK: "a", "row": "a"}), drivers("n1", DISK, ZONE))
    assert one.change.add_nodes(1, "n1", zone="b").notes == ()
    assert labels_of(one, "n1-1") == {"kubernetes.io/hostname": "n1-1", ZONE: "b", DISK: "b", "row": "a"}
    one.change.add_nodes(1, "n1")
    assert labels_of(one, "n1-2") == {"kubernetes.io/hostname": "n1-2", ZONE: "a", DISK: "a", "row": "a"}


def test_a_zone_that_only_the_driver_tells_becomes_the_new_one() -> None:
    one = scheduler(machine("n1", {DISK: "a"}), drivers("n1", DISK))
    one.change.add_nodes(1, "n1", zone="b")
    assert labels_of(one, "n1-1")[DISK] == "b"


def test_other_values_are_those_of_the_new_zone_or_are_left_out_with_a_note() -> None:
    zone_id = "topology.disk.example/zone-id"
    nodes = [
        machine("n1", {ZONE: "a", zone_id: "id1", "topology.disk.example/region": "r"}),
        machine("n2", {ZONE: "b", zone_id: "id2"}),
    ]
    one = scheduler(*nodes, drivers("n1", zone_id, "topology.disk.example/region"))
    assert one.change.add_nodes(1, "n1", zone="b").notes == ()
    known = {zone_id: "id2", "topology.disk.example/region": "r"}
    assert labels_of(one, "n1-1").items() >= known.items()
    (note,) = one.change.add_nodes(2, "n1", zone="c").notes
    assert note == (
        f"Copies of n1 lack the label {zone_id}, whose value in the zone c is unknown; "
        f"give them their own with {zone_id}=VALUE."
    )
    assert zone_id not in labels_of(one, "n1-2")
    assert one.change.add_nodes(1, "n1", zone="c", labels={zone_id: "id3"}).notes == ()
    assert labels_of(one, "n1-4")[zone_id] == "id3"


def test_a_value_of_other_zones_is_kept() -> None:
    nodes = [machine("n1", {ZONE: "a", KEY: "x"}), machine("n2", {ZONE: "b", KEY: "x"})]
    one = scheduler(*nodes, drivers("n1", KEY))
    assert one.change.add_nodes(1, "n1", zone="c").notes == ()
    assert labels_of(one, "n1-1")[KEY] == "x"


def test_a_value_that_no_other_node_of_the_zone_has_is_kept_with_a_note() -> None:
    nodes = [machine("n1", {ZONE: "a", KEY: "x1"}), machine("n2", {ZONE: "a", KEY: "x2"})]
    one = scheduler(*nodes, drivers("n1", KEY))
    (note,) = one.change.add_nodes(1, "n1").notes
    assert note == (
        f"Copies of n1 keep its label {KEY}=x1, which no other node of the zone has; "
        f"give them their own with {KEY}=VALUE."
    )
    assert labels_of(one, "n1-1")[KEY] == "x1"


def test_labels_can_be_given_in_the_name() -> None:
    one = scheduler(machine("n1", {ZONE: "a", "pool": "x"}))
    one.change.add_nodes(1, f"n1,zone=b,pool=y,{DISK}=b")
    assert labels_of(one, "n1-1") == {"kubernetes.io/hostname": "n1-1", ZONE: "b", "pool": "y", DISK: "b"}
    with pytest.raises(InputError, match='"pool" is not zone=ZONE or LABEL=VALUE'):
        one.change.add_nodes(1, "n1,pool")
    with pytest.raises(InputError, match='"zone=" is not zone=ZONE or LABEL=VALUE'):
        one.change.add_nodes(1, "n1,zone=")
    with pytest.raises(InputError, match=f"the label {ZONE} is given twice"):
        one.change.add_nodes(1, f"n1,zone=b,{ZONE}=c")
    with pytest.raises(InputError, match=r"the label kubernetes\.io/hostname of a new node is its name"):
        one.change.add_nodes(1, "n1", labels={"kubernetes.io/hostname": "x"})
    with pytest.raises(InputError, match='"b@d": name part must consist'):
        one.change.add_nodes(1, "n1,b@d=x")


# ---- what was true for a moment ----------------------------------------------------------------------------

MOMENTARY = (
    "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized=true",
    "node.cilium.io/agent-not-ready=true",
    "ebs.csi.aws.com/agent-not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/x",
    "ignore-taint.cluster-autoscaler.kubernetes.io/x",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
    "ToBeDeletedByClusterAutoscaler=1764300000",
    "DeletionCandidateOfClusterAutoscaler=1764300000",
)


@pytest.mark.parametrize("taint", MOMENTARY)
def test_taints_and_conditions_of_a_moment_are_not_copied(taint: str) -> None:
    conditions = [{"type": "Ready", "status": "Unknown"}]
    one = scheduler(machine("n1", {}, taint, "dedicated=x", conditions=conditions))
    one.change.add_nodes(1, "n1")
    copy: mo.Node = one.client.get(mo.Node, "n1-1")
    assert [one.key for one in copy.spec.taints] == ["dedicated"]
    assert copy.status.conditions == ()


def changes(*taints: str) -> list[str]:
    one = scheduler(machine("n1", {}, *taints), pod("p"))
    return [one.text for one in one.ask.explain("default/p").changes]


def test_an_explanation_tolerates_no_time_and_no_node_that_will_go() -> None:
    new = "add a node like n1 (4 cpu, 8Gi memory)"
    assert changes("node.kubernetes.io/not-ready=17643") == [
        new,
        "tolerate node.kubernetes.io/not-ready:NoSchedule",
    ]
    assert changes("ToBeDeletedByClusterAutoscaler=17643") == [new]
    assert changes("karpenter.sh/disrupted") == [new]
    assert changes("dedicated=x") == [
        "tolerate dedicated=x:NoSchedule",
        "remove the taint dedicated=x:NoSchedule from node n1",
    ]


# ---- storage -----------------------------------------------------------------------------------------------


UNKNOWN = (
    'How much storage of the class "lvm" copies of n1 have is unknown, because no CSIStorageCapacity tells '
    "it: no volume of the class is made on them."
)


def capacities(one: mo.Scheduler, node: str) -> list[tuple[str, str | None, str | None]]:
    listed: list[CSIStorageCapacity] = one.client.list(CSIStorageCapacity)[0]
    return [
        (made.key, str(made.capacity), made.maximum_volume_size and str(made.maximum_volume_size))
        for made in listed
        if made.node_topology is not None
        and node in (*made.node_topology.match_labels.values(), *_values(made.node_topology))
    ]


def _values(selector: Any) -> list[str]:
    return [value for rule in selector.match_expressions for value in rule.values]


def pending(size: str) -> list[Any]:
    uses = [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
    return [claim("c", "lvm", size=size), pod("p", volumes=uses)]


@pytest.mark.parametrize("form", ["labels", "expressions"])
def test_a_copy_has_the_storage_of_the_other_when_that_is_empty(form: str) -> None:
    of_node: dict[str, Any] = {"matchLabels": {KEY: "n1"}}
    if form == "expressions":
        of_node = {"matchExpressions": [{"key": KEY, "operator": "In", "values": ["n1"]}]}
    one = scheduler(
        machine("n1", {KEY: "n1"}),
        drivers("n1", KEY),
        CLASS,
        capacity("cap-n1", "1Gi", of_node, maximumVolumeSize="1Gi"),
        volume("here", "4Gi", KEY, "n1"),
        volume("there", "2Gi", KEY, "n9"),
        *pending("5Gi"),
    )
    assert any(
        change.text.startswith("add a node like n1") for change in one.ask.explain("default/p").changes
    )
    assert one.ask.nodes_needed(like="n1").counts == {"n1": 1}
    assert one.change.add_nodes(1, "n1").created == (
        "Node n1-1",
        "CSINode n1-1",
        "CSIStorageCapacity lvm/cap-n1-1",
    )
    assert capacities(one, "n1-1") == [("lvm/cap-n1-1", "5Gi", "5Gi")]
    assert capacities(one, "n1") == [("lvm/cap-n1", "1Gi", "1Gi")]
    assert one.run().placements == {"default/p": "n1-1"}


def test_nodes_of_one_segment_share_its_storage_and_another_is_unknown() -> None:
    one = scheduler(
        machine("n1", {ZONE: "a"}),
        drivers("n1", ZONE),
        CLASS,
        capacity("z", "1Gi", {"matchLabels": {ZONE: "a"}}),
    )
    assert one.change.add_nodes(2, "n1") == mo.Change(
        created=("Node n1-1", "CSINode n1-1", "Node n1-2", "CSINode n1-2")
    )
    change = one.change.add_nodes(1, "n1", zone="b")
    assert change.created == ("Node n1-3", "CSINode n1-3")
    assert change.notes == (UNKNOWN,)


def test_storage_that_is_not_published_for_the_other_is_unknown() -> None:
    one = scheduler(
        machine("n1", {KEY: "n1"}),
        machine("n2", {KEY: "n2"}),
        drivers("n1", KEY),
        CLASS,
        capacity("c", "1Gi", {"matchLabels": {KEY: "n2"}}),
        *pending("1Mi"),
    )
    assert one.change.add_nodes(1, "n1").notes == (UNKNOWN,)
    assert one.change.add_nodes(0, "n1").notes == ()
    assert one.ask.nodes_needed(like="n1").notes == (UNKNOWN,)


@pytest.mark.parametrize(("limit", "fits"), [(1, False), (2, True)])
def test_an_offered_node_has_the_volume_limits_of_the_other(limit: int, fits: bool) -> None:
    limited = drivers("n1", KEY, allocatable={"count": limit})
    uses = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in "cd"]
    new, hog = pod("p", requests={"cpu": 3}, volumes=uses), pod("hog", "n1", {"cpu": 2})
    claims = [claim(name, "lvm") for name in "cd"]
    one = scheduler(machine("n1", {KEY: "n1"}), limited, CLASS[0], claims, hog, new)
    offered = [change.text for change in one.ask.explain("default/p").changes]
    assert any(text.startswith("add a node like n1") for text in offered) == fits
    assert bool(one.ask.nodes_needed(like="n1")) == fits

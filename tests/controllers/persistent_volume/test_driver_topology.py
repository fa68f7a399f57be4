"""Where volumes are that a run makes: by the driver's keys, the node, the class and the name of the claim."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.controllers import unknown_topologies
from tests.make import claim as make_claim
from tests.make import make, node, pod, scheduler, template, workload

import moorage as mo
from moorage.kube import Object, PersistentVolume

ZONE, HOST, DISK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "topology.disk.example/zone"
DRIVER = "disk.example"
WAITS = "WaitForFirstConsumer"
FOOBAR = 0x31F0B262
"""The 32-bit FNV-1 hash of "foobar", from the page of its authors."""


def machine(name: str, zone: str = "a", **labels: str) -> Object:
    return node(name, zone, labels | {HOST: name}, status={"capacity": {"cpu": "4"}})


def nodes(*keys: str, driver: str = DRIVER) -> list[Object]:
    """A node in each of three zones, with the driver if it has keys."""
    drivers = [{"name": driver, "nodeID": "x", "topologyKeys": list(keys)}]
    csi_nodes = [make("CSINode", f"n{zone}", {"drivers": drivers}) for zone in "abc" if keys]
    return [*(machine(f"n{zone}", zone, **{DISK: zone}) for zone in "abc"), *csi_nodes]


def storage_class(mode: str = WAITS, provisioner: str = DRIVER, **rest: Any) -> Object:
    return make("StorageClass", "disk", None, provisioner=provisioner, volumeBindingMode=mode, **rest)


def allowed(key: str, *values: str) -> dict[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": key, "values": list(values)}]}]}


def claim(name: str) -> Object:
    return make_claim(name, "disk", accessModes=["ReadWriteMany"])


def user(name: str, of: str, node: str = "") -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": of}}]
    return pod(name, volumes=volumes, nodeSelector={HOST: node} if node else {})


def places(one: mo.Scheduler) -> dict[str, list[dict[str, tuple[str, ...]]]]:
    """Of each volume by its claim, the labels that nodes must have."""
    found: dict[str, list[dict[str, tuple[str, ...]]]] = {}
    volumes: list[PersistentVolume] = one.client.list(PersistentVolume)[0]
    for volume in volumes:
        affinity, reference = volume.spec.node_affinity, volume.spec.claim_ref
        assert reference is not None
        terms = () if affinity is None or affinity.required is None else affinity.required.node_selector_terms
        found[reference.name] = [{rule.key: rule.values for rule in term.match_expressions} for term in terms]
    return found


def made_for(node: str, *objects: Object) -> list[dict[str, tuple[str, ...]]]:
    one = scheduler(objects, claim("c"), user("p", "c", node))
    assert one.run().placements == {"default/p": node}
    return places(one)["c"]


@pytest.mark.parametrize(
    ("keys", "settings", "place"),
    [
        ((DISK,), {}, [{DISK: ("b",)}]),
        ((DISK, HOST), {}, [{DISK: ("b",), HOST: ("nb",)}]),
        (("missing", DISK), {}, [{DISK: ("b",)}]),
        ((DISK,), allowed(DISK, "a", "b"), [{DISK: ("b",)}]),
        ((DISK, HOST), allowed(DISK, "a", "b"), [{DISK: ("b",)}]),
        ((), allowed(ZONE, "a", "b"), [{ZONE: ("b",)}]),
        ((), {}, []),
        ((), {"provisioner": "rancher.io/local-path"}, [{HOST: ("nb",)}]),
        ((), {"provisioner": "topolvm.io"}, [{HOST: ("nb",)}]),
        ((), {"provisioner": "kubernetes.io/gce-pd"}, [{ZONE: ("b",)}]),
        ((DISK,), {"parameters": {"replication-type": "regional-pd"}}, [{DISK: ("b",)}, {DISK: ("c",)}]),
        ((DISK,), {"parameters": {"skuName": "Premium_ZRS"}}, [{DISK: (zone,)} for zone in "bca"]),
    ],
)
def test_a_volume_is_where_its_first_pod_is(
    keys: tuple[str, ...], settings: dict[str, Any], place: list[dict[str, tuple[str, ...]]]
) -> None:
    assert made_for("nb", *nodes(*keys), storage_class(**settings)) == place


def test_other_drivers_on_the_node_do_not_matter() -> None:
    assert made_for("nb", *nodes(DISK, driver="other"), storage_class()) == []


def test_pods_that_share_a_new_claim_are_where_its_volume_is() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    web = workload("Deployment", "web", 4, template=template("web", {"cpu": "1500m"}, volumes=volumes))
    one = scheduler(nodes(DISK), storage_class(), claim("c"), web)
    result = one.run()
    assert len(set(result.placements.values())) == 1
    assert (len(result.placements), len(result.unschedulable)) == (2, 2)


def test_a_loss_of_the_zone_or_node_of_a_new_volume_is_not_survived() -> None:
    wanted = {
        "storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claims = [{"metadata": {"name": "d"}, "spec": wanted}]
    db = workload("StatefulSet", "db", 1, volumeClaimTemplates=claims)
    one = scheduler(nodes(DISK), storage_class(), db)
    assert not one.ask.survive("zone")
    assert not one.ask.survive("node")
    anywhere = scheduler(nodes(), storage_class(), db)
    assert anywhere.ask.survive("zone")


def test_volumes_of_a_stateful_set_are_spread_without_a_node() -> None:
    """The first zone follows from the name, the next ones from the ordinals, for each of the claims alike."""
    names = [f"{part}-foobar-{at}" for part in ("data", "log") for at in range(3)]
    objects = [*nodes(DISK), storage_class("Immediate"), *map(claim, names)]
    one = scheduler(objects)
    one.run()
    zones = {name: "abc"[(FOOBAR + int(name[-1])) % 3] for name in names}
    assert places(one) == {name: [{DISK: (zone,)}] for name, zone in zones.items()}


def test_a_volume_without_a_node_is_in_an_allowed_zone() -> None:
    objects = [
        *nodes(DISK),
        storage_class("Immediate", **allowed(DISK, "c", "a")),
        claim("x"),
        claim("foobar"),
    ]
    one = scheduler(objects)
    one.run()
    assert places(one)["foobar"] == [{DISK: ("ac"[FOOBAR % 2],)}]


def test_an_unknown_provisioner_is_named_once_claims_need_it() -> None:
    def told(*objects: Object) -> list[str]:
        return unknown_topologies(scheduler(objects, claim("c")).client)

    assert told(*nodes(), storage_class()) == [
        'New volumes of the StorageClass "disk" count as accessible from every node, because no CSINode in '
        f"the input has the driver {DRIVER}."
    ]
    assert told(*nodes(DISK), storage_class()) == []
    assert told(machine("n"), storage_class()) == []
    assert told(*nodes(), storage_class(**allowed(ZONE, "a"))) == []
    for known in ("rancher.io/local-path", "kubernetes.io/no-provisioner", "kubernetes.io/aws-ebs"):
        assert told(*nodes(), storage_class(provisioner=known)) == []
    assert unknown_topologies(scheduler(nodes(), storage_class()).client) == []

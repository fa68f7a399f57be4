"""`Scheduler.provision`: which nodes Karpenter would make for pods that wait."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from moorage import InputError, Scheduler, load
from moorage.autoscaling import InstanceType, KarpenterOptions, Offering, Provisioning, read_instance_types
from moorage.objects import NodePool, Quantity, decode_object
from tests.doors.autoscalers import ClusterObjects, ClusterView, Situation, provision, why_idle

AWS = Path(__file__).parents[1] / "data/karpenter/aws_instance_types.json"
ZONE = "topology.kubernetes.io/zone"


@cache
def types() -> list[InstanceType]:
    return read_instance_types(str(AWS))


def pool(name: str = "default", requirements: Any = (), **spec: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": list(requirements)}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template} | spec,
    }


def pod(name: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name.partition("-")[0]}},
        "spec": {"containers": [container]} | spec,
    }


def provisioned(*objects: dict[str, Any], **arguments: Any) -> Provisioning:
    scheduler = Scheduler(load(list(objects)))
    scheduler.run()
    return scheduler.provision(**({"types": types()} | arguments))


def test_pods_share_a_node_and_the_cheapest_types_come_first() -> None:
    found = provisioned(pool(), *(pod(f"web-{at}") for at in range(3)))
    (claim,) = found.claims
    assert claim.pool == "default"
    assert set(claim.pods) == {f"default/web-{at}" for at in range(3)}
    assert claim.requests == {"cpu": "3", "memory": "3Gi", "pods": "3"}
    assert claim.cheapest is not None
    assert claim.cheapest.instance_type == claim.types[0].name == "c6g.xlarge"
    prices = [one.price for one in claim.types]
    assert None not in prices
    assert prices == sorted(prices)  # type: ignore[type-var]
    assert claim.price == claim.cheapest.price == prices[0] == found.price
    assert claim.requirements["node.kubernetes.io/instance-type"] == {
        "In": sorted(one.name for one in claim.types)
    }
    assert found.karpenter_version == "1.15.0"
    assert found.headline().startswith("Karpenter 1.15.0: 1 new nodes for 3 pods, ")
    assert len(found.table()) == 1


def test_the_scheduler_stays_as_it_was() -> None:
    scheduler = Scheduler(load([pool(), pod("web")]))
    scheduler.run()
    before = scheduler.fork()
    first = scheduler.provision(types=types())
    assert not scheduler.diff(before)
    again = scheduler.provision(types=types())
    assert (first.claims, first.errors) == (again.claims, again.errors)


def test_a_pod_that_is_passed_need_not_be_in_the_cluster() -> None:
    scheduler = Scheduler(load([pool(), pod("web")]))
    found = scheduler.provision([pod("other", cpu="2")], types=types())
    assert [claim.pods for claim in found.claims] == [("default/other",)]
    assert [claim.pods for claim in scheduler.provision(["default/web"], types=types()).claims] == [
        ("default/web",)
    ]


def test_gated_pods_wait_and_pods_that_fit_go_to_nodes_that_are_there() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "memory": "4Gi", "pods": "9"}},
    }
    gated = pod("gated", schedulingGates=[{"name": "g"}])
    found = Scheduler(load([pool(), node, gated, pod("a"), pod("b")])).provision(types=types())
    assert found.existing == {"n": ("default/a",)}
    assert [claim.pods for claim in found.claims] == [("default/b",)]
    assert not found.errors


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([], "no dynamic nodepools found"),
        ([pool(replicas=2)], "no dynamic nodepools found"),
        (
            [pool(limits={"cpu": "1"})],
            "all available instance types exceed limits for nodepool (NodePool=default)",
        ),
        ([pool(limits={"nodes": "0"})], "node limits have been exhausted for nodepool (NodePool=default)"),
        (
            [pool(requirements=[{"key": "kubernetes.io/arch", "operator": "In", "values": ["s390x"]}])],
            "nodepool requirements filtered out all available instance types",
        ),
    ],
)
def test_errors_are_those_of_karpenter(objects: list[dict[str, Any]], text: str) -> None:
    found = provisioned(*objects, pod("web"))
    assert {key: error.text for key, error in found.errors.items()} == {"default/web": text}
    assert found.claims == ()


def test_a_pod_that_is_too_large_names_what_it_needs() -> None:
    error = provisioned(pool(), pod("web", cpu="400")).errors["default/web"]
    assert error.text.startswith(
        "no instance type has enough resources, requirements=karpenter.kwok.sh/kwoknodeclass"
    )
    assert error.text.endswith('resources={"cpu":"400","memory":"1Gi","pods":"1"}')
    assert not error.waits


def test_a_pod_that_karpenter_ignores_is_told_why() -> None:
    refused = pod("web", nodeSelector={"kubernetes.io/hostname": "n"})
    found = provisioned(pool(), refused)
    assert found.ignored["default/web"].startswith("using label kubernetes.io/hostname is not allowed")


def test_without_a_file_the_types_are_those_that_nodes_show() -> None:
    labels = {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "big"}
    labels |= {ZONE: "z", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": labels},
        "spec": {"providerID": "x://n"},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "9"}},
    }
    node["status"]["allocatable"] = {"cpu": "1", "memory": "8Gi", "pods": "9"}
    found = provisioned(pool(), node, *(pod(f"web-{at}") for at in range(3)), types=None)
    assert [[one.name for one in claim.types] for claim in found.claims] == [["big"]] * 2
    assert [claim.price for claim in found.claims] == [None, None]


def test_types_may_differ_by_pool() -> None:
    small, rest = types()[:1], types()[1:]
    pools = [pool("a", weight=10), pool("b")]
    found = provisioned(*pools, pod("web", cpu="3"), types={"a": small, "b": rest})
    assert [claim.pool for claim in found.claims] == ["b"]
    with pytest.raises(InputError, match="there is no NodePool c"):
        provisioned(*pools, pod("web"), types={"c": small})


def spread(count: int) -> list[dict[str, Any]]:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    constraint |= {"labelSelector": {"matchLabels": {"app": "web"}}}
    return [pod(f"web-{at}", topologySpreadConstraints=[constraint]) for at in range(count)]


def test_a_seed_draws_among_zones_that_nothing_else_orders() -> None:
    def zones(seed: int) -> tuple[str, ...]:
        claims = provisioned(pool(), *spread(1), seed=seed).claims
        return tuple(claims[0].requirements[ZONE]["In"])

    assert zones(0) == ("us-west-2a",)
    assert {zones(seed) for seed in range(8)} == {("us-west-2a",), ("us-west-2b",)}


def test_options_are_flags_of_karpenter() -> None:
    preferred = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    }
    terms = preferred["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    terms[0]["preference"] = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["us-west-2b"]}]}
    waiting = pod("web", affinity=preferred)
    respected = provisioned(pool(), waiting).claims[0]
    ignored = provisioned(pool(), waiting, options=KarpenterOptions(ignores_preferences=True)).claims[0]
    assert respected.requirements[ZONE] == {"In": ["us-west-2b"]}
    assert ZONE not in ignored.requirements


CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


def test_a_pod_with_claims_gets_no_node_unless_the_flag_says_so() -> None:
    objects = pool(), pod("train", **CLAIM), pod("web")
    text = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
    found = provisioned(*objects)
    assert {key: one.text for key, one in found.errors.items()} == {"default/train": text}
    assert [claim.pods for claim in found.claims] == [("default/web",)]
    counted = provisioned(*objects, options=KarpenterOptions(ignore_dra_requests=False))
    assert not counted.errors


@pytest.mark.parametrize(("ignores", "cpu"), [(True, "1"), (False, "3")])
def test_daemons_with_claims_take_nothing(ignores: bool, cpu: str) -> None:
    labels, spec = {"app": "plugin"}, pod("x", "2")["spec"] | CLAIM
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    options = KarpenterOptions(ignore_dra_requests=ignores)
    (claim,) = provisioned(pool(), daemons, pod("web"), options=options).claims
    assert claim.requests["cpu"] == cpu


ALL = {"ValidationSucceeded": "True", "NodeClassReady": "True", "Ready": "True"}


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({}, ""),
        (ALL, ""),
        ({"Ready": "True"}, "ValidationSucceeded is missing, NodeClassReady is missing"),
        (ALL | {"NodeClassReady": "False", "Ready": "False"}, "NodeClassReady is False"),
        (ALL | {"Ready": "Unknown"}, "Ready is Unknown"),
        ({"ValidationSucceeded": "True", "NodeClassReady": "True"}, "Ready is missing"),
        # All three are there, so that nothing is reckoned anew.
        (ALL | {"ValidationSucceeded": "False"}, ""),
    ],
)
def test_a_pool_is_ready_by_its_conditions(conditions: dict[str, str], text: str) -> None:
    listed = [{"type": name, "status": status} for name, status in conditions.items()]
    one = decode_object(pool() | {"status": {"conditions": listed}})
    assert isinstance(one, NodePool)
    assert why_idle(one) == (f"it is not ready: {text}" if text else "")


def random_types(chance: random.Random) -> list[InstanceType]:
    found = []
    for at in range(chance.randint(1, 16)):
        cpu = chance.choice([1, 2, 4, 8])
        offerings = tuple(
            Offering(zone, kind, round(cpu * chance.uniform(0.5, 1.5), 3), chance.random() < 0.9)
            for zone in "ab"
            for kind in ("spot", "on-demand")
            if chance.random() < 0.8
        )
        capacity = {"cpu": Quantity(str(cpu)), "memory": Quantity(f"{cpu * 2}Gi"), "pods": Quantity("6")}
        if offerings:
            found.append(InstanceType(f"t{at}", capacity, offerings))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_random_clusters_keep_what_always_holds(seed: int) -> None:
    chance = random.Random(seed)
    known = random_types(chance)
    limit = chance.choice([8, 20, 60])
    objects = [pool("a", weight=5, limits={"cpu": str(limit)}), pool("b")]
    for at in range(chance.randint(5, 40)):
        extra: dict[str, Any] = {}
        if chance.random() < 0.4:
            extra = spread(1)[0]["spec"]
            extra = {"topologySpreadConstraints": extra["topologySpreadConstraints"]}
        objects.append(
            pod(f"{chance.choice(['web', 'db'])}-{at}", f"{chance.randint(1, 25) * 100}m", **extra)
        )
    scheduler = Scheduler(load(objects))
    scheduler.run()
    found = scheduler.provision(types=known, seed=seed)
    placed = Counter(key for claim in found.claims for key in claim.pods)
    assert set(placed.values()) <= {1}
    assert placed.keys() | found.errors.keys() == {
        f"default/{one['metadata']['name']}" for one in objects[2:]
    }
    assert not placed.keys() & found.errors.keys()
    by_name = {one.name: one for one in known}
    for claim in found.claims:
        assert claim.types
        for one in claim.types:
            have = by_name[one.name].allocatable({})
            assert all(Quantity(amount) <= have[name] for name, amount in claim.requests.items())
        assert claim.price == min(one.price for one in claim.types if one.price is not None)
    assert found.price == sum(claim.price or 0 for claim in found.claims)
    used = sum(
        max(by_name[one.name].capacity["cpu"].value() for one in claim.types)
        for claim in found.claims
        if claim.pool == "a"
    )
    assert used <= limit
    assert sorted(found.order) == list(range(len(found.claims)))
    assert isinstance(scheduler.client.get(NodePool, "a"), NodePool)


@pytest.mark.parametrize("has_claim", [True, False])
def test_a_pod_of_a_leaving_node_is_placed_though_its_volume_is_gone(has_claim: bool) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "n"},
        "spec": {"providerID": "x"},
        "status": {"capacity": room, "allocatable": room},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"volumeName": "gone", "storageClassName": "fast"},
    }
    moved = pod("web", nodeName="n", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    moved["metadata"]["namespace"] = "default"
    objects = [pool(), node, moved, *([claim] if has_claim else [])]
    situation = Situation({"default": types()}, marked=frozenset(["n"]))
    view = ClusterView(ClusterObjects(map(decode_object, objects)), situation, KarpenterOptions())
    found = provision(view)
    assert [claim.pods for claim in found.claims] == [("default/web",)]

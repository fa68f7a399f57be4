"""`Questions.provision`: which nodes Karpenter would make for pods that wait."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from moorage import InputError, Scheduler, load
from moorage.autoscalers import InstanceType, KarpenterOptions, Provisioning, read_instance_types
from moorage.kube import decode_object
from tests.doors.autoscalers import ClusterObjects, ClusterView, PassInput
from tests.make import written

AWS = Path(__file__).parents[1] / "data/karpenter/aws_instance_types.json"
ZONE = "topology.kubernetes.io/zone"


@cache
def types() -> list[InstanceType]:
    return read_instance_types(str(AWS))


def pool(name: str = "default", requirements: Any = (), **spec: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": list(requirements)}}
    return written("karpenter.sh/v1/NodePool", name, {"template": template} | spec)


def pod(name: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return written(
        "v1/Pod",
        {"name": name, "labels": {"app": name.partition("-")[0]}},
        {"containers": [container]} | spec,
    )


def provisioned(*objects: dict[str, Any], **arguments: Any) -> Provisioning:
    scheduler = Scheduler(load(list(objects)))
    scheduler.run()
    return scheduler.ask.provision(**({"types": types()} | arguments))


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
    first = scheduler.ask.provision(types=types())
    assert not scheduler.ask.diff(before)
    again = scheduler.ask.provision(types=types())
    assert (first.claims, first.errors) == (again.claims, again.errors)


def test_a_pod_that_is_passed_need_not_be_in_the_cluster() -> None:
    scheduler = Scheduler(load([pool(), pod("web")]))
    found = scheduler.ask.provision([pod("other", cpu="2")], types=types())
    assert [claim.pods for claim in found.claims] == [("default/other",)]
    assert [claim.pods for claim in scheduler.ask.provision(["default/web"], types=types()).claims] == [
        ("default/web",)
    ]


def test_gated_pods_wait_and_pods_that_fit_go_to_nodes_that_are_there() -> None:
    node = written("v1/Node", "n", status={"allocatable": {"cpu": "1", "memory": "4Gi", "pods": "9"}})
    gated = pod("gated", schedulingGates=[{"name": "g"}])
    found = Scheduler(load([pool(), node, gated, pod("a"), pod("b")])).ask.provision(types=types())
    assert found.existing == {"n": ("default/a",)}
    assert [claim.pods for claim in found.claims] == [("default/b",)]
    assert not found.errors


def test_a_pod_that_karpenter_ignores_is_told_why() -> None:
    refused = pod("web", nodeSelector={"kubernetes.io/hostname": "n"})
    found = provisioned(pool(), refused)
    assert found.ignored["default/web"].startswith("using label kubernetes.io/hostname is not allowed")


def test_types_may_differ_by_pool() -> None:
    small, rest = types()[:1], types()[1:]
    pools = [pool("a", weight=10), pool("b")]
    found = provisioned(*pools, pod("web", cpu="3"), types={"a": small, "b": rest})
    assert [claim.pool for claim in found.claims] == ["b"]
    with pytest.raises(InputError, match="there is no NodePool c"):
        provisioned(*pools, pod("web"), types={"c": small})


CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


@pytest.mark.parametrize(("ignores", "cpu"), [(True, "1"), (False, "3")])
def test_daemons_with_claims_take_nothing(ignores: bool, cpu: str) -> None:
    labels, spec = {"app": "plugin"}, pod("x", "2")["spec"] | CLAIM
    daemons = written(
        "apps/v1/DaemonSet",
        "plugin",
        {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    )
    options = KarpenterOptions(ignore_dra_requests=ignores)
    (claim,) = provisioned(pool(), daemons, pod("web"), options=options).claims
    assert claim.requests["cpu"] == cpu


@pytest.mark.parametrize("has_claim", [True, False])
def test_a_pod_of_a_leaving_node_is_placed_though_its_volume_is_gone(has_claim: bool) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = written(
        "v1/Node",
        {"name": "n", "uid": "n"},
        {"providerID": "x"},
        status={"capacity": room, "allocatable": room},
    )
    claim = written(
        "v1/PersistentVolumeClaim",
        {"name": "data", "namespace": "default"},
        {"volumeName": "gone", "storageClassName": "fast"},
    )
    moved = pod("web", nodeName="n", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    moved["metadata"]["namespace"] = "default"
    objects = [pool(), node, moved, *([claim] if has_claim else [])]
    situation = PassInput({"default": types()}, marked=frozenset(["n"]))
    view = ClusterView(ClusterObjects(map(decode_object, objects)), situation, KarpenterOptions())
    found = view.provisioning
    assert [claim.pods for claim in found.claims] == [("default/web",)]

"""Questions about pods with claims for devices: how many fit, how many nodes they need, which nodes can be
emptied. Whatever is asked, the cluster is afterwards as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

import moorage as mo
from moorage import Scheduler
from moorage.cli import main
from moorage.kube import (
    Node,
    Object,
    ObjectMeta,
    OwnerReference,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourceSlice,
)
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.house.source import ROOT
from tests.make import node, pod

EXTENDED = "example.com/gpu"


def template(name: str = "two", count: int = 2) -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(spec=claim("x", [request("r", count)]).spec)
    return ResourceClaimTemplate(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def asking(name: str, template_name: str = "two", **more: Any) -> Pod:
    use = {"name": "gpus", "resourceClaimTemplateName": template_name}
    return pod(name, resourceClaims=[use], **more)


def scheduler(*pods: Pod, others: tuple[Object, ...] = ()) -> Scheduler:
    """Three nodes: a without devices, b with five, c with two."""
    listed = [
        device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName=EXTENDED),
        template(),
        resource_slice("b", [device(f"d{at}") for at in range(5)]),
        resource_slice("c", [device(f"d{at}") for at in range(2)]),
        *others,
    ]
    nodes = [node("a"), node("b"), node("c")]
    return Scheduler(mo.Cluster(nodes=nodes, pods=list(pods), others=listed))


def state(one: Scheduler) -> tuple[object, ...]:
    kinds = (Pod, Node, ResourceClaim, ResourceSlice)
    return tuple([one.client.list(kind)[0] for kind in kinds])


def test_each_replica_gets_claims_of_its_own() -> None:
    one = scheduler()
    before = state(one)
    found = one.ask.capacity(asking("p"))
    assert (found.count, found.templates[0].nodes, found.templates[0].skipped) == (3, {"b": 2, "c": 1}, "")
    assert found.reasons == {"cannot allocate all claims": 3}
    (binding,) = found.binding
    assert binding.devices == {
        "r of claim gpus: 0 of 2 devices free": 1,
        "r of claim gpus: 0 of 2 devices published": 1,
        "r of claim gpus: 1 of 2 devices free": 1,
    }
    assert found.to_dict()["binding"][0]["devices"] == binding.devices
    assert state(one) == before
    assert one.ask.capacity(asking("p")).count == 3


def test_more_replicas_than_a_first_try() -> None:
    many = [resource_slice("a", [device(f"d{at}") for at in range(100)])]
    one = scheduler(others=tuple(many))
    big = node("big", pods=200)
    one.client.create(replace(big, metadata=replace(big.metadata, name="big")))
    one.client.create(resource_slice("big", [device(f"d{at}") for at in range(80)]))
    assert one.ask.capacity(asking("p")).templates[0].nodes == {"a": 10, "b": 2, "c": 1, "big": 40}
    assert one.ask.capacity(asking("p"), max=7).count == 7


def test_rounds_of_several_templates() -> None:
    one = scheduler(others=(template("one", 1),))
    found = one.ask.capacity([(asking("p"), 1), (asking("q", "one"), 1)])
    assert found.rounds == 2
    assert found.count == 4


def test_capacity_of_extended_resources_counts_devices() -> None:
    one = scheduler()
    before = state(one)
    found = one.ask.capacity(pod("p", requests={"cpu": "1", EXTENDED: "1"}))
    assert found.templates[0].nodes == {"b": 4, "c": 2}  # 4 cpu on b
    assert found.binding[0].devices  # of the nodes without any
    assert state(one) == before


def test_a_template_that_is_missing() -> None:
    found = scheduler().ask.capacity(asking("p", "none"))
    assert found.count == 0
    assert found.templates[0].skipped == 'ResourceClaimTemplate "default/none" not found'


def test_devices_in_use_do_not_count() -> None:
    one = scheduler(asking("running"))
    assert list(one.run().placements) == ["default/running"]
    assert one.ask.capacity(asking("p")).count == 2


# ---- nodes -------------------------------------------------------------------------------------------------


def test_new_nodes_have_devices() -> None:
    one = scheduler()
    created = one.change.add_nodes(2, like="b").created
    assert sorted(created) == [
        "Node b-1",
        "Node b-2",
        "ResourceSlice slice-pool-b-1",
        "ResourceSlice slice-pool-b-2",
    ]
    copied = one.client.get(ResourceSlice, "slice-pool-b-1")
    assert (copied.spec.node_name, copied.spec.pool.name) == ("b-1", "pool-b-1")
    assert [owner.name for owner in copied.metadata.owner_references] == ["b-1"]
    assert one.ask.capacity(asking("p")).count == 7
    one.change.remove_nodes("b-1")
    assert one.ask.capacity(asking("p")).count == 5


def test_nodes_needed_counts_devices() -> None:
    one = scheduler()
    before = state(one)
    assert one.ask.nodes_needed((asking("p"), 3), like="b").nodes == 0
    assert one.ask.nodes_needed((asking("p"), 6), like="b").counts == {"b": 2}
    assert one.ask.nodes_needed((asking("p"), 6), like="a").status == "not found"
    wants = pod("p", requests={EXTENDED: "1"})
    assert one.ask.nodes_needed((wants, 10), like="b").counts == {"b": 1}
    assert state(one) == before


def test_nodes_needed_for_pending_pods() -> None:
    one = scheduler(*[asking(f"p{at}") for at in range(4)])
    found = one.ask.nodes_needed(like="c")
    assert found.counts == {"c": 1}
    assert not found.skipped


def owned(name: str, **more: Any) -> Pod:
    one = asking(name, **more)
    owners = (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="j", uid="j", controller=True),)
    return replace(one, metadata=replace(one.metadata, owner_references=owners))


def test_a_node_is_emptied_with_its_devices() -> None:
    """The pod of c moves to b; the devices of c that it had are free for the next."""
    one = scheduler(owned("p"))
    one.change.cordon("b")
    assert one.run().placements == {"default/p": "c"}
    one.change.uncordon("b")
    before = state(one)
    plan = one.ask.drain_plan(["c"])
    assert [(move.pod, move.target) for move in plan.moves] == [("default/p", "b")]
    assert state(one) == before
    assert one.ask.drain_plan(["b"]).status == "found"


def test_a_drain_gives_devices_back() -> None:
    """Both pods that b has room for are evicted; only one finds devices elsewhere."""
    one = scheduler(owned("p"), owned("q"), owned("r"))
    assert sorted(one.run().placements.values()) == ["b", "b", "c"]
    free = one.ask.capacity(asking("p")).count
    with one.transaction():
        one.change.drain("b", force=True)
        one.run()
        held = [each for each in one.client.list(ResourceClaim)[0] if each.status.allocation is not None]
        assert len(held) == 1
        assert one.ask.capacity(asking("p")).count == 0
        one.change.uncordon("b")
        assert one.ask.capacity(asking("p")).count == 2
    assert one.ask.capacity(asking("p")).count == free == 0


# ---- command line ------------------------------------------------------------------------------------------


def test_the_file_of_a_pod_has_the_template_of_its_claim(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    files = ["-f", "examples/gpu/cluster.yaml", "--pod", "examples/gpu/quarter.yaml"]
    assert main(["capacity", *files, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["count"] == 48
    assert main(["capacity", *files, "--add-nodes", "gpu-a-1=1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 80
    assert main(["capacity", *files]) == 0
    assert "part of claim gpu: 0 of 1 devices have enough shared counters" in capsys.readouterr().out

"""The simulated controller of resource claims: claims of templates, and what pods that are gone leave."""

from __future__ import annotations

from msgspec.structs import replace
from tests.devices.make import claim, device, device_class, request, resource_slice
from tests.doors.controllers import ResourceClaimController
from tests.make import node, pod

import moorage as mo
from moorage import Scheduler
from moorage.kube import (
    DeviceClass,
    Node,
    ObjectMeta,
    Pod,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from moorage.store import ObjectStore

TEMPLATE = ResourceClaimTemplate(
    metadata=ObjectMeta(name="gpus", namespace="default"),
    spec=ResourceClaimTemplateSpec(spec=claim("x", [request()]).spec),
)


def asking(name: str, **use: str) -> Pod:
    return pod(name, resourceClaims=[{"name": "gpu"} | (use or {"resourceClaimTemplateName": "gpus"})])


def world(*pods: Pod, devices: int = 1) -> Scheduler:
    published = resource_slice("n", [device(f"d{at}") for at in range(devices)])
    others = [device_class(), published, TEMPLATE]
    return Scheduler(mo.Cluster(nodes=[node("n")], pods=list(pods), others=others))


def claims(one: Scheduler) -> list[ResourceClaim]:
    return one.client.list(ResourceClaim)[0]


def test_a_claim_is_made_for_each_pod() -> None:
    one = world(asking("p"), asking("q"), devices=2)
    assert len(one.run().placements) == 2
    for each, name in zip(sorted(claims(one), key=lambda one: one.name), "pq", strict=True):
        assert each.name.startswith(f"{name}-gpu-")
        assert each.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert each.metadata.is_controlled_by(name)
        (status,) = one.client.get(Pod, name, "default").status.resource_claim_statuses
        assert (status.name, status.resource_claim_name) == ("gpu", each.name)
        assert [user.name for user in each.status.reserved_for] == [name]
    one.run()
    assert len(claims(one)) == 2


def test_a_pod_waits_for_its_template() -> None:
    one = world(asking("p", resourceClaimTemplateName="later"))
    assert one.run().placements == {}
    later = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, name="later", uid="", resource_version=""))
    one.client.create(later)
    assert list(one.run().placements) == ["default/p"]


def test_the_claim_of_a_pod_that_is_gone_is_deleted() -> None:
    one = world(asking("p"), asking("q"))
    placed = list(one.run().placements)
    assert len(placed) == 1
    one.client.delete(Pod, placed[0].partition("/")[2], "default")
    assert len(one.run().placements) == 1
    assert len(claims(one)) == 1


def test_a_claim_that_is_being_deleted_goes_with_the_reservation_of_its_pod() -> None:
    one = world(asking("p"))
    assert len(one.run().placements) == 1
    (held,) = claims(one)
    one.client.delete(ResourceClaim, held.name, "default")
    (held,) = claims(one)  # its finalizer keeps it
    assert held.metadata.deletion_timestamp
    one.client.delete(Pod, "p", "default")
    one.run()
    assert claims(one) == []


def test_a_shared_claim_is_released_by_the_last_pod() -> None:
    shared = [asking(name, resourceClaimName="c") for name in "pq"]
    one = world(*shared)
    one.client.create(claim("c", [request()]))
    assert len(one.run().placements) == 2
    one.client.delete(Pod, "p", "default")
    one.run()
    (held,) = claims(one)
    assert [user.name for user in held.status.reserved_for] == ["q"]
    assert held.status.allocation is not None
    ended = one.client.get(Pod, "q", "default")
    one.client.update(replace(ended, status=replace(ended.status, phase="Succeeded")))
    one.run()
    (held,) = claims(one)
    assert held.status.reserved_for == ()
    assert held.status.allocation is None
    assert held.metadata.finalizers == ()


def test_a_transaction_takes_claims_back() -> None:
    one = world(asking("p"))
    with one.transaction():
        one.run()
        assert len(claims(one)) == 1
    assert claims(one) == []
    assert one.client.get(Pod, "p", "default").status.resource_claim_statuses == ()
    assert len(one.run().placements) == 1


def test_names_are_cut_as_by_the_api_server() -> None:
    long = replace(asking("p" * 70), metadata=replace(asking("p").metadata, name="p" * 70))
    one = world(long)
    one.run()
    (made,) = claims(one)
    assert made.name.startswith("p" * 58)
    assert len(made.name) == 63


def test_a_claim_that_was_made_before_is_kept() -> None:
    """A dump from between the creation of a claim and the update of its pod."""
    one = world(asking("p"))
    first = one.fork()
    assert first.run().placements
    (made,) = claims(first)
    unused = replace(made, status=ResourceClaimStatus(), metadata=replace(made.metadata, resource_version=""))
    one.client.create(unused)
    assert one.run().placements
    assert [each.name for each in claims(one)] == [made.name]


def test_no_claims_are_made_for_pods_that_are_deleted() -> None:
    going = asking("p")
    meta = replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("x/y",))
    one = world(replace(going, metadata=meta))
    one.run()
    assert claims(one) == []


def test_claims_go_with_their_pods() -> None:
    """Also those of pods that have ended, and of extended resources."""
    one = world(asking("p"), pod("q", requests={"example.com/gpu": "1"}), devices=2)
    gpu = one.client.get(DeviceClass, "gpu")
    one.client.update(replace(gpu, spec=replace(gpu.spec, extended_resource_name="example.com/gpu")))
    assert len(one.run().placements) == 2
    assert len(claims(one)) == 2
    ended = one.client.get(Pod, "p", "default")
    one.client.update(replace(ended, status=replace(ended.status, phase="Failed")))
    one.client.delete(Pod, "q", "default")
    one.run()
    assert claims(one) == []
    one.client.create(asking("r"))
    one.client.create(asking("s"))
    assert len(one.run().placements) == 2


def test_nothing_is_looked_at_again_until_a_pod_or_claim_changes() -> None:
    one = world(asking("p"))
    one.run()
    store = one.client
    assert isinstance(store, ObjectStore)
    controller = ResourceClaimController(store)
    assert (controller.settle(), controller.settle()) == (True, False)
    store.patch(Node, "n", None, {"metadata": {"labels": {"a": "b"}}})
    assert controller.settle() is False
    mark = store.save()
    store.create(asking("q"))
    assert controller.settle() is True
    assert len(claims(one)) == 2
    assert (controller.settle(), controller.settle()) == (True, False)
    store.undo(mark)
    assert len(claims(one)) == 1
    assert (controller.settle(), controller.settle()) == (True, False)


def test_metadata_of_the_template() -> None:
    labelled = ObjectMeta(labels={"team": "a"}, annotations={"note": "b"})
    spec = replace(TEMPLATE.spec, metadata=labelled)
    published = resource_slice("n", [device("d0")])
    others = [device_class(), published, replace(TEMPLATE, spec=spec)]
    one = Scheduler(mo.Cluster(nodes=[node("n")], pods=[asking("p")], others=others))
    one.run()
    (made,) = claims(one)
    assert made.metadata.labels == {"team": "a"}
    assert made.metadata.annotations == {"note": "b", "resource.kubernetes.io/pod-claim-name": "gpu"}
    (owner,) = made.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.controller) == ("v1", "Pod", "p", True)
    assert owner.block_owner_deletion

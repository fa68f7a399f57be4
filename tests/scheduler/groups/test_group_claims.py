"""Claims that the pods of a group share with the group (gate DRAWorkloadResourceClaims)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.devices.make import DRIVER, Json, claim, device, device_class, request, resource_slice
from tests.make import node
from tests.scheduler.groups.gang_kit import GATES, gang, gates, member, members, store_of

from moorage import Cluster, Scheduler
from moorage.kube import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)

ON = gates("DRAWorkloadResourceClaims")
BY_NAME = PodResourceClaim("gpu", resource_claim_name="c")
BY_TEMPLATE = PodResourceClaim("gpu", resource_claim_template_name="gpus")
TEMPLATE = ResourceClaimTemplate(
    metadata=ObjectMeta(name="gpus", namespace="default"),
    spec=ResourceClaimTemplateSpec(spec=claim("x", [request("r", 4)]).spec),
)


def asking(pod: Pod, *uses: PodResourceClaim) -> Pod:
    return replace(pod, spec=replace(pod.spec, resource_claims=uses))


def cluster(group: PodGroup, pods: list[Pod], *more: Any, **settings: Any) -> Scheduler:
    """Two nodes, of which a has four devices."""
    slices = resource_slice("a", [device(f"d{at}") for at in range(4)])
    nodes = [node("a", cpu=10), node("b", cpu=10)]
    others = [device_class(), slices, TEMPLATE, *more, group]
    return Scheduler(Cluster(nodes=nodes, pods=pods, others=others), **{"feature_gates": ON} | settings)


def claims(one: Scheduler) -> list[ResourceClaim]:
    found: list[ResourceClaim] = store_of(one).list(ResourceClaim)[0]
    return found


def held(node_name: str, *users: Json) -> ResourceClaim:
    """Claim c with a device that only one node can use."""
    names = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    allocation = {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "p", "device": "d"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [names]}]},
    }
    return claim("c", [request("r", 4)], allocation=allocation, reservedFor=list(users))


def users(one: Scheduler) -> list[tuple[str, str, str, str]]:
    (held,) = claims(one)
    return [(user.api_group, user.resource, user.name, user.uid) for user in held.status.reserved_for]


def run(one: Scheduler) -> dict[str, str]:
    """Placements of two runs, as one pod writes the allocation and the others try again."""
    return one.run().placements | one.run().placements


IN_GROUP: Json = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group-g"}
OF_GROUP = ("scheduling.k8s.io", "podgroups", "g", "group-g")


def test_a_claim_is_reserved_for_the_group() -> None:
    pods = [asking(pod, BY_NAME) for pod in members("g", 3)]
    one = cluster(gang("g", 2, resource_claims=(BY_NAME,)), pods, claim("c", [request("r", 4)]))
    assert run(one) == {f"default/g-{at}": "a" for at in range(3)}
    assert users(one) == [OF_GROUP]


@pytest.mark.parametrize("use", [replace(BY_NAME, name="other"), BY_NAME])
def test_a_claim_that_is_no_claim_of_the_group_is_the_pod_s(use: PodResourceClaim) -> None:
    """All fields of the entries must be equal, and the gate be on."""
    gates = {"feature_gates": GATES} if use == BY_NAME else {}
    pods = [asking(members("g", 1)[0], use)]
    one = cluster(gang("g", 1, resource_claims=(BY_NAME,)), pods, claim("c", [request()]), **gates)
    assert run(one) == {"default/g-0": "a"}
    assert users(one) == [("", "pods", "g-0", "g-0")]


def test_the_group_has_a_claim_of_a_template() -> None:
    pods = [asking(pod, BY_TEMPLATE) for pod in members("g", 3)]
    one = cluster(gang("g", 3, resource_claims=(BY_TEMPLATE,)), pods)
    assert len(run(one)) == 3
    (made,) = claims(one)
    assert made.name.startswith("g-gpu-")
    (owner,) = made.metadata.owner_references
    api = "scheduling.k8s.io/v1beta1"
    assert owner == OwnerReference(api, "PodGroup", "g", "group-g", True, False)
    named = PodResourceClaimStatus("gpu", made.name)
    assert store_of(one).get(PodGroup, "g", "default").status.resource_claim_statuses == (named,)
    for pod in store_of(one).list(Pod)[0]:
        assert pod.status.resource_claim_statuses == (named,)
    assert users(one) == [OF_GROUP]


def test_without_the_gate_each_pod_has_a_claim() -> None:
    pods = [asking(pod, BY_TEMPLATE) for pod in members("g", 2)]
    one = cluster(gang("g", 1, resource_claims=(BY_TEMPLATE,)), pods, feature_gates=GATES)
    assert len(run(one)) == 1
    assert sorted(made.metadata.owner_references[0].kind for made in claims(one)) == ["Pod", "Pod"]


def test_devices_stay_until_the_group_is_gone() -> None:
    pods = [asking(pod, BY_TEMPLATE) for pod in members("g", 2)]
    one = cluster(gang("g", 2, resource_claims=(BY_TEMPLATE,)), pods)
    assert len(run(one)) == 2
    for name in ("g-0", "g-1"):
        one.client.delete(Pod, name, "default")
    one.run()
    assert users(one) == [OF_GROUP]
    one.client.delete(PodGroup, "g", "default")
    one.run()
    assert claims(one) == []


def test_a_named_claim_is_released_with_the_group() -> None:
    pods = [asking(members("g", 1)[0], BY_NAME)]
    one = cluster(gang("g", 1, resource_claims=(BY_NAME,)), pods, claim("c", [request()]))
    assert run(one)
    one.client.delete(PodGroup, "g", "default")
    one.run()
    (held,) = claims(one)
    assert held.status.reserved_for == ()
    assert held.status.allocation is None
    assert held.metadata.finalizers == ()


def owned(kind: str, name: str, api: str = "scheduling.k8s.io/v1beta1") -> ResourceClaim:
    made = claim("made", [request()])
    owner = OwnerReference(api, kind, name, "u", True)
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,)))


@pytest.mark.parametrize(
    ("made", "is_ours"),
    [
        (owned("PodGroup", "g"), True),
        (owned("PodGroup", "other"), False),
        (owned("PodGroup", "g", "example.com/v1"), False),
        (owned("Pod", "g"), False),
    ],
)
def test_the_group_owns_the_claim_by_name(made: ResourceClaim, is_ours: bool) -> None:
    pod = asking(members("g", 1)[0], BY_TEMPLATE)
    status = replace(pod.status, resource_claim_statuses=(PodResourceClaimStatus("gpu", "made"),))
    one = cluster(gang("g", 1), [replace(pod, status=status)], made, wait=lambda seconds: None)
    assert bool(one.run().placements) is is_ours
    text = "ResourceClaim default/made was not created for Pod default/g-0"
    reason = f"DynamicResources: {text} (neither Pod nor PodGroup g is the owner)"
    assert is_ours or one.context.not_ours(one.client.get(Pod, "g-0", "default")) == reason


def test_a_pod_without_a_group_is_told_its_owner_is_missing() -> None:
    pod = asking(member("p", ""), BY_TEMPLATE)
    status = replace(pod.status, resource_claim_statuses=(PodResourceClaimStatus("gpu", "made"),))
    one = cluster(gang("g", 1), [replace(pod, status=status)], owned("PodGroup", "g"), wait=lambda _: None)
    text = "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)"
    assert one.context.not_ours(one.client.get(Pod, "p", "default")) == f"DynamicResources: {text}"


@pytest.mark.parametrize(("release", "kind"), [("1.35", "pod"), ("1.36", "Pod")])
def test_the_error_about_another_owner_is_spelt_as_in_the_release(release: str, kind: str) -> None:
    pod = asking(member("p", ""), BY_TEMPLATE)
    status = replace(pod.status, resource_claim_statuses=(PodResourceClaimStatus("gpu", "made"),))
    settings = {"feature_gates": {}, "kubernetes_version": release, "wait": lambda _: None}
    one = cluster(gang("g", 1), [replace(pod, status=status)], owned("Pod", "other"), **settings)
    text = f"ResourceClaim default/made was not created for {kind} default/p ({kind} is not owner)"
    assert one.context.not_ours(one.client.get(Pod, "p", "default")) == f"DynamicResources: {text}"


def test_a_group_that_fails_gives_up_its_reservation() -> None:
    """Other devices may be found for the group then: no pod of it has a node."""
    held = claim("c", [request("r", 4)])
    one = cluster(
        gang("g", 2, resource_claims=(BY_NAME,)), [asking(pod, BY_NAME) for pod in members("g", 2)], held
    )
    with one.transaction():
        assert one.run().placements
        (written,) = claims(one)
    full = replace(written, metadata=replace(written.metadata, resource_version=""))
    pods = [asking(pod, BY_NAME) for pod in members("g", 2, cpu=100)]
    other = cluster(gang("g", 2, resource_claims=(BY_NAME,)), pods, full)
    assert other.run().unschedulable
    assert users(other) == []
    (left,) = claims(other)
    assert left.status.allocation is not None
    (condition,) = store_of(other).get(PodGroup, "g", "default").status.conditions
    assert "ResourceClaim unreserved for PodGroup" in condition.message


@pytest.mark.parametrize("reserved", [[IN_GROUP], []])
def test_a_group_deallocates_a_claim_that_no_node_can_use(reserved: list[Json]) -> None:
    """Of a claim that is reserved for the group, or for nobody, the group gets other devices then."""
    pods = [asking(members("g", 1)[0], BY_NAME)]
    one = cluster(gang("g", 1, resource_claims=(BY_NAME,)), pods, held("gone", *reserved))
    assert one.run().unschedulable
    (freed,) = claims(one)
    assert (freed.status.allocation, users(one)) == (None, [])
    assert list(one.run().placements) == ["default/g-0"]


def test_a_claim_that_another_pod_uses_is_not_deallocated() -> None:
    pods = [asking(members("g", 1)[0], BY_NAME), replace(member("x", ""), spec=PodSpec(node_name="b"))]
    user = {"resource": "pods", "name": "x", "uid": "x"}
    one = cluster(gang("g", 1, resource_claims=(BY_NAME,)), pods, held("gone", user))
    assert one.run().unschedulable
    assert [user[3] for user in users(one)] == ["x"]
    (kept,) = claims(one)
    assert kept.status.allocation is not None


def test_pods_without_claims_have_their_group_give_up_its_reservation() -> None:
    one = cluster(gang("g", 2, resource_claims=(BY_NAME,)), members("g", 2, cpu=100), held("a", IN_GROUP))
    assert one.run().unschedulable
    assert users(one) == []


def test_a_group_of_which_a_pod_runs_keeps_its_reservation() -> None:
    pods = [asking(members("g", 1)[0], BY_NAME)]
    one = cluster(gang("g", 1, resource_claims=(BY_NAME,)), pods, claim("c", [request("r", 4)]))
    assert run(one)
    one.client.create(asking(member("big", "g", cpu=100), BY_NAME))
    assert not one.run().placements
    assert users(one) == [OF_GROUP]


def test_binding_that_fails_keeps_the_reservation_of_the_group() -> None:
    """The claim is written, then the pod is unreserved: others of the group may need it. Its group is tried
    again at once."""
    pods = [asking(pod, BY_NAME) for pod in members("g", 2)]
    one = cluster(gang("g", 2, resource_claims=(BY_NAME,)), pods, claim("c", [request("r", 4)]))
    assert list(one.run().placements) == ["default/g-0", "default/g-1"]
    assert users(one) == [OF_GROUP]


def test_claims_of_a_group_for_a_question() -> None:
    """Explanations and numbers of replicas take claims of the group, and leave none."""
    pod = asking(members("g", 1, cpu=100)[0], BY_TEMPLATE)
    one = cluster(gang("g", 1, resource_claims=(BY_TEMPLATE,)), [pod])
    explained = one.ask.explain(pod)
    assert "Insufficient cpu" in str(explained)
    (made,) = one.ask.explain(asking(member("new", "g", cpu=100), BY_TEMPLATE)).claims
    assert made.claim.startswith("default/g-gpu")
    small = asking(member("small", "g"), BY_TEMPLATE)
    assert one.ask.capacity(small).count == 10
    assert len(claims(one)) <= 1


def test_a_group_without_any_node_fails_with_an_error() -> None:
    """No PreFilter plugin has run then, so that DynamicResources misses the state of the group."""
    settings = {"feature_gates": GATES}
    one = Scheduler(Cluster(nodes=[], pods=members("g", 2), others=[gang("g", 2)]), **settings)
    text = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
    assert {failure.message for failure in one.run().unschedulable.values()} == {text}
    (condition,) = store_of(one).get(PodGroup, "g", "default").status.conditions
    assert (condition.reason, condition.message) == ("SchedulerError", text)

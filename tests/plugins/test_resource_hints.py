"""Queueing hints about dynamic resources, and about gangs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.queue.ask import ask, node, pod
from tests.scheduler.groups.gang_kit import TREES, composite, gang

from moorage import Scheduler
from moorage.engine.framework import ActionType
from moorage.kube import (
    DeviceClass,
    DeviceClassSpec,
    ObjectMeta,
    OwnerReference,
    Pod,
    ResourceClaim,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

GPU = "example.com/gpu"


def requesting(**requests: str) -> Pod:
    return pod(containers=[{"name": "c", "resources": {"requests": requests}}])


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler()


# ---- dynamic resources -------------------------------------------------------------------------------------


def device_class(name: str, resource: str | None = None) -> DeviceClass:
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))


@pytest.mark.parametrize(
    ("old", "new", "worth"),
    [
        (None, device_class("c", GPU), True),
        (None, device_class("c"), False),
        (device_class("c"), device_class("c", GPU), True),
        (device_class("c", GPU), device_class("c", GPU), False),
    ],
)
def test_a_device_class_may_stand_for_a_resource(
    scheduler: Scheduler, old: Any, new: Any, worth: bool
) -> None:
    hints = {one.event.resource: one.hint for one in registered(scheduler, "NodeResourcesFit")}
    hint = hints["resource.k8s.io/DeviceClass"]
    assert (hint(requesting(**{GPU: "1"}), old, new).name == "QUEUE") is worth


def test_a_device_class_has_a_resource_of_its_own_name(scheduler: Scheduler) -> None:
    hints = {one.event.resource: one.hint for one in registered(scheduler, "NodeResourcesFit")}
    asking = requesting(**{"deviceclass.resource.kubernetes.io/c": "1"})
    answer = hints["resource.k8s.io/DeviceClass"]
    assert answer(asking, None, device_class("c")).name == "QUEUE"
    assert answer(asking, None, device_class("d")).name == "QUEUE_SKIP"


def registered(scheduler: Scheduler, plugin: str) -> Any:
    return scheduler.queue.hints.by_profile["default-scheduler"][plugin]


def test_a_resource_that_a_device_class_stands_for_is_not_asked_of_the_node() -> None:
    one = Scheduler()
    asking = requesting(**{GPU: "1"})
    assert ask(one, "NodeResourcesFit", asking, None, node()) is False
    one.client.create(device_class("c", GPU))
    one.sync()
    assert ask(one, "NodeResourcesFit", asking, None, node()) is True
    assert ask(one, "NodeResourcesFit", asking, node(), node(cpu="5")) is True


def test_without_its_gate_no_device_class_stands_for_a_resource() -> None:
    one = Scheduler(feature_gates={"DRAExtendedResource": False})
    one.client.create(device_class("c", GPU))
    one.sync()
    assert ask(one, "NodeResourcesFit", requesting(**{GPU: "1"}), None, node()) is False
    resources = {hint.event.resource for hint in registered(one, "NodeResourcesFit")}
    assert "resource.k8s.io/DeviceClass" not in resources


def claim(
    name: str, uid: str = "", allocated: bool = False, owner: str = "", gone: bool = False
) -> ResourceClaim:
    owners = (OwnerReference(kind="Pod", uid=owner, controller=True),) if owner else ()
    return ResourceClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=uid or name,
            owner_references=owners,
            deletion_timestamp="2026-01-01T00:00:00Z" if gone else None,
        ),
        status=ResourceClaimStatus(allocation={} if allocated else None),
    )


USING = pod(resourceClaims=[{"name": "u", "resourceClaimName": "c"}])
GENERATED = pod(
    resourceClaims=[{"name": "u", "resourceClaimTemplateName": "t"}],
    status={"resourceClaimStatuses": [{"name": "u", "resourceClaimName": "c"}]},
)
UNNAMED = pod(resourceClaims=[{"name": "u", "resourceClaimTemplateName": "t"}])
NEEDLESS = pod(
    resourceClaims=[{"name": "u", "resourceClaimTemplateName": "t"}],
    status={"resourceClaimStatuses": [{"name": "u"}]},
)


@pytest.mark.parametrize(
    ("rejected", "there", "old", "new", "worth"),
    [
        (USING, [], None, claim("c"), False),
        (USING, [claim("c", gone=True)], None, claim("c"), False),
        (USING, [claim("c")], None, claim("c"), True),
        (USING, [claim("c")], None, claim("d"), False),
        (USING, [claim("c")], claim("d", allocated=True), claim("d"), True),
        (USING, [claim("c")], claim("c"), claim("c"), False),
        (USING, [claim("c")], claim("c"), claim("c", allocated=True), True),
        (GENERATED, [claim("c")], None, claim("c"), False),
        (GENERATED, [claim("c", owner="default/p")], None, claim("c"), True),
        (UNNAMED, [claim("c")], None, claim("c"), False),
        (NEEDLESS, [], claim("d", allocated=True), claim("d"), True),
    ],
)
def test_a_change_of_a_claim_is_worth_a_try_if_it_may_help(
    rejected: Pod, there: Any, old: Any, new: Any, worth: bool
) -> None:
    one = Scheduler()
    one.client.create_many(there)
    one.sync()
    hints = {one.event.resource: one.hint for one in registered(one, "DynamicResources")}
    assert (hints["resource.k8s.io/ResourceClaim"](rejected, old, new).name == "QUEUE") is worth


def test_generated_claims_of_the_pod() -> None:
    one = Scheduler()
    assert ask(one, "DynamicResources", UNNAMED, UNNAMED, GENERATED) is False
    one.client.create(claim("c", owner="default/p"))
    one.sync()
    assert ask(one, "DynamicResources", UNNAMED, UNNAMED, GENERATED) is True
    assert ask(one, "DynamicResources", pod("q"), UNNAMED, GENERATED) is False


def published(count: int = 1) -> ResourceSlice:
    pool = ResourcePool(name="p", resource_slice_count=count)
    return ResourceSlice(
        metadata=ObjectMeta(name="s"), spec=ResourceSliceSpec(driver="d", pool=pool, all_nodes=True)
    )


def test_slices_and_classes_have_no_hints(scheduler: Scheduler) -> None:
    """Each addition and each update queues the pod; deletions are no events."""
    for old, new in ((published(), published(2)), (device_class("c"), device_class("c", GPU))):
        assert ask(scheduler, "DynamicResources", USING, None, new) is True
        assert ask(scheduler, "DynamicResources", USING, old, new) is True
        assert ask(scheduler, "DynamicResources", USING, old, None) is None


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_what_queues_pods_with_claims(version: str) -> None:
    """A node that goes frees nothing that the plugin is told of; a claim that is deleted does since v1.37."""
    one = Scheduler(kubernetes_version=version)
    plugin = next(each for each in one.profile.plugins if each.name == "DynamicResources")
    found = {each.event.resource: each.event.action for each in plugin.events_to_register()}
    changes = ActionType.ADD | ActionType.UPDATE
    nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    assert found == {
        "Node": nodes,
        "resource.k8s.io/ResourceClaim": changes | ActionType.DELETE if version == "1.37" else changes,
        "Pod": ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        "resource.k8s.io/DeviceClass": changes,
        "resource.k8s.io/ResourceSlice": changes,
    }


def test_pods_and_groups_of_a_gang() -> None:
    one = Scheduler(feature_gates=TREES)
    waits = pod(schedulingGroup={"podGroupName": "g"})
    pods, groups, changed, composites = (event.hint for event in registered(one, "GangScheduling"))
    assert pods is not None
    assert groups is not None
    assert changed is not None
    assert composites is not None
    assert pods(waits, None, pod("q", schedulingGroup={"podGroupName": "g"})).name == "QUEUE"
    assert pods(waits, None, pod("q")).name == "QUEUE_SKIP"
    assert pods(waits, None, pod("q", "other", schedulingGroup={"podGroupName": "g"})).name == "QUEUE_SKIP"
    assert groups(waits, None, gang("g", 1)).name == "QUEUE"
    assert groups(waits, None, gang("h", 1)).name == "QUEUE_SKIP"
    assert composites(waits, None, composite("c", 1)).name == "QUEUE_SKIP"
    assert [changed(waits, gang("g", 3), gang("g", count)).name for count in (2, 3)] == [
        "QUEUE",
        "QUEUE_SKIP",
    ]
    assert changed(waits, gang("h", 3), gang("h", 2)).name == "QUEUE_SKIP"
    one.client.create_many([gang("g", 1, "c"), gang("h", 1, "c")])
    one.sync()
    assert groups(waits, None, gang("h", 1, "c")).name == "QUEUE_SKIP"  # the tree has no top yet
    one.client.create(composite("c", 1))
    one.sync()
    assert composites(waits, None, composite("c", 1)).name == "QUEUE"
    assert groups(waits, None, gang("h", 1, "c")).name == "QUEUE"
    assert pods(waits, None, pod("q", schedulingGroup={"podGroupName": "h"})).name == "QUEUE"

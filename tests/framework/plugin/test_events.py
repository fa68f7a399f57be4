"""Cluster events: which registration is about which event, their labels, what an update consists of."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.doors.engine import PodEvents, node_update_events

from moorage.framework import ActionType, ClusterEvent
from moorage.objects import (
    Condition,
    ContainerStatus,
    Node,
    NodePodPreemptionPolicy,
    Pod,
    PodResourceClaimStatus,
    PodSchedulingGate,
    ResourceRequirements,
    Taint,
    Toleration,
)
from moorage.releases import DEFAULT_GATES, RELEASES, default_gates

ADD, DELETE, UPDATE, ALL = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE, ActionType.ALL
LABEL = ActionType.UPDATE_POD_LABEL

POD_EVENTS = PodEvents(DEFAULT_GATES)


def test_each_action_is_a_bit_of_its_own() -> None:
    bits = [int(one) for one in ActionType if one not in (UPDATE, ALL)]
    assert bits == [1 << place for place in range(15)]
    assert sum(bits) == ALL
    assert UPDATE == ALL & ~(ADD | DELETE)


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ClusterEvent("Node", ADD), "NodeAdd"),
        (ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent("AssignedPod", UPDATE), "AssignedPodUpdate"),
        (
            ClusterEvent("UnschedulablePod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ),
        (ClusterEvent("storage.k8s.io/CSINode", ADD), "storage.k8s.io/CSINodeAdd"),
        (ClusterEvent("Pod", ADD | DELETE), "Pod"),
        (ClusterEvent("Pod", ALL), "PodAll"),
        (ClusterEvent("*", ALL, "ForceActivate"), "ForceActivate"),
    ],
)
def test_the_label_of_an_event_is_upstreams(event: ClusterEvent, label: str) -> None:
    assert event.label == label


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        (("Node", ADD | LABEL), ("Node", ADD), True),
        (("Node", ADD), ("Node", DELETE), False),
        (("Node", ADD), ("Pod", ADD), False),
        (("Pod", LABEL), ("AssignedPod", LABEL), True),
        (("Pod", LABEL), ("UnschedulablePod", LABEL), True),
        (("Pod", LABEL), ("UnscheduledPod", LABEL), True),
        (("Pod", LABEL), ("TargetPod", LABEL), True),
        (("TargetPod", LABEL), ("TargetPod", LABEL), True),
        (("TargetPod", LABEL), ("AssignedPod", LABEL), False),
        (("UnscheduledPod", ADD), ("TargetPod", ADD), False),
        (("Pod", UPDATE), ("AssignedPod", LABEL), True),
        (("Pod", LABEL), ("AssignedPod", UPDATE), False),
        (("Pod", UPDATE), ("AssignedPod", UPDATE), True),
        (("Pod", ALL), ("AssignedPod", UPDATE), True),
        (("Pod", ADD | UPDATE), ("AssignedPod", UPDATE), True),
        (("*", ADD), ("Node", ADD), True),
        (("*", ALL), ("Node", DELETE), True),
        (("Node", ALL), ("*", ALL), False),
        (("*", ADD), ("*", ALL), False),
        (("*", ALL), ("*", ALL), True),
    ],
)
def test_a_registration_matches_events_as_upstreams_does(
    registered: Any, incoming: Any, matches: bool
) -> None:
    assert ClusterEvent(*registered).matches(ClusterEvent(*incoming)) is matches


def labels_of(events: list[ClusterEvent]) -> list[str]:
    return [event.label for event in events]


def with_status(one: Node, **status: Any) -> Node:
    return replace(one, status=replace(one.status, **status))


def without_resize_preemption(one: Node) -> Node:
    policy = NodePodPreemptionPolicy(("autoscaler",))
    return replace(one, spec=replace(one.spec, pod_preemption_policy=policy))


TAINT = Taint(key="k", effect="NoSchedule")


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (node("n"), node("n"), []),
        (node("n", cpu="4"), node("n", cpu="4000m"), []),
        (node("n", cpu="4"), node("n", cpu="5"), ["NodeUpdateNodeAllocatable"]),
        (node("n"), node("n", gpu="1"), ["NodeUpdateNodeAllocatable"]),
        (node("n", labels={"a": "b"}), node("n"), ["NodeUpdateNodeLabel"]),
        (node("n"), without_resize_preemption(node("n")), ["NodeUpdateNodePreemptionPolicy"]),
        (node("n", taints=[TAINT]), node("n"), ["NodeUpdateNodeTaint"]),
        (node("n", unschedulable=True), node("n"), ["NodeUpdateNodeTaint"]),
        (node("n"), node("n", unschedulable=True), []),
        (
            node("n", unschedulable=True, taints=[TAINT]),
            node("n", labels={"a": "b"}),
            ["NodeUpdateNodeTaint", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
        ),
        (node("n"), with_status(node("n"), declared_features=("f",)), ["NodeUpdateNodeDeclaredFeature"]),
        (
            node("n"),
            with_status(node("n"), conditions=(Condition(type="Ready", status="True"),)),
            ["NodeUpdateNodeCondition"],
        ),
        (
            with_status(node("n"), conditions=(Condition(type="Ready", status="True", reason="a"),)),
            with_status(node("n"), conditions=(Condition(type="Ready", status="True", reason="b"),)),
            [],
        ),
        (
            node("n"),
            replace(node("n"), metadata=replace(node("n").metadata, annotations={"a": "b"})),
            ["NodeUpdateNodeAnnotation"],
        ),
    ],
)
def test_what_changed_of_a_node(old: Node, new: Node, labels: list[str]) -> None:
    assert labels_of(node_update_events(old, new)) == labels


def pod_status(one: Pod, **status: Any) -> Pod:
    return replace(one, status=replace(one.status, **status))


GATE, GATE_TOO = PodSchedulingGate(name="g"), PodSchedulingGate(name="h")
HELD = ContainerStatus(name="c", resources=ResourceRequirements(requests={"cpu": "2"}))


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (pod("p"), pod("p"), ["UnschedulablePodUpdate"]),
        (pod("p", on="n"), pod("p", on="n"), ["AssignedPodUpdate"]),
        (pod("p"), pod("p", labels={"a": "b"}), ["UnschedulablePodUpdatePodLabel"]),
        (
            pod("p", on="n", requests={"cpu": "2"}),
            pod("p", on="n", requests={"cpu": "1"}),
            ["AssignedPodUpdatePodScaleDown"],
        ),
        (pod("p", requests={"cpu": "1"}), pod("p"), ["UnschedulablePodUpdatePodScaleDown"]),
        (pod("p", requests={"cpu": "1"}), pod("p", requests={"cpu": "2"}), ["UnschedulablePodUpdate"]),
        (
            pod_status(pod("p", requests={"cpu": "1"}), container_statuses=(HELD,)),
            pod("p", requests={"cpu": "1"}),
            ["UnschedulablePodUpdatePodScaleDown"],
        ),
        (
            pod("p", scheduling_gates=(GATE, GATE_TOO)),
            pod("p", scheduling_gates=(GATE,)),
            ["UnschedulablePodUpdate"],
        ),
        (
            pod("p", scheduling_gates=(GATE,)),
            pod("p", tolerations=(Toleration(),)),
            [
                "UnschedulablePodUpdatePodSchedulingGatesEliminated",
                "UnschedulablePodUpdatePodToleration",
            ],
        ),
        (
            pod("p", tolerations=(Toleration(key="a"),)),
            pod("p", tolerations=(Toleration(key="b"),)),
            ["UnschedulablePodUpdate"],
        ),
        (
            pod("p"),
            pod_status(pod("p"), resource_claim_statuses=(PodResourceClaimStatus(name="c"),)),
            ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
        ),
    ],
)
def test_what_changed_of_a_pod(old: Pod, new: Pod, labels: list[str]) -> None:
    assert labels_of(POD_EVENTS.of_update(old, new)) == labels


def test_events_of_pods_in_v1_37() -> None:
    events, requests = PodEvents(default_gates(RELEASES["1.37"])), {"cpu": "2"}
    assert [events.added.label, events.updated.label] == ["UnscheduledPodAdd", "UnscheduledPodUpdate"]
    assert events.resources == {"AssignedPod", "UnscheduledPod", "TargetPod"}
    for old, new, label in (
        (pod("p"), pod("p"), "TargetPodUpdate"),
        (pod("p"), pod("p", requests=requests), "TargetPodUpdatePodScaleUp"),
        (pod("p", requests=requests), pod("p"), "TargetPodUpdatePodScaleDown"),
        (pod("p", on="n"), pod("p", requests=requests, on="n"), "AssignedPodUpdatePodScaleUp"),
    ):
        assert labels_of(events.of_update(old, new)) == [label]

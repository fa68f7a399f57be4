"""Cluster events: which registration is about which event, their labels, what an update consists of."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import PodEvents, node_update_events
from tests.make import node, pod

from moorage.engine.framework import ActionType, ClusterEvent
from moorage.kube import Node, Pod
from moorage.kube.releases import DEFAULT_GATES, RELEASES, default_gates

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


TAINT = {"key": "k", "effect": "NoSchedule"}
POLICY = {"podPreemptionPolicy": {"disableResizePreemption": ["autoscaler"]}}
READY = {"type": "Ready", "status": "True"}
NOTHING = node("n")
"""A node of which nothing is said."""


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (NOTHING, node("n"), ""),
        (node("n", cpu="4"), node("n", cpu="4000m"), ""),
        (node("n", cpu="4"), node("n", cpu="5"), "Allocatable"),
        (NOTHING, node("n", gpu="1"), "Allocatable"),
        (node("n", labels={"a": "b"}), NOTHING, "Label"),
        (NOTHING, node("n", spec=POLICY), "PreemptionPolicy"),
        (node("n", taints=[TAINT]), NOTHING, "Taint"),
        (node("n", unschedulable=True), NOTHING, "Taint"),
        (NOTHING, node("n", unschedulable=True), ""),
        (node("n", unschedulable=True, taints=[TAINT]), node("n", labels={"a": "b"}), "Taint Label Taint"),
        (NOTHING, node("n", status={"declaredFeatures": ["f"]}), "DeclaredFeature"),
        (NOTHING, node("n", status={"conditions": [READY]}), "Condition"),
        (
            node("n", status={"conditions": [READY | {"reason": "a"}]}),
            node("n", status={"conditions": [READY | {"reason": "b"}]}),
            "",
        ),
        (NOTHING, node("n", metadata={"annotations": {"a": "b"}}), "Annotation"),
    ],
)
def test_what_changed_of_a_node(old: Node, new: Node, labels: str) -> None:
    assert labels_of(node_update_events(old, new)) == [f"NodeUpdateNode{label}" for label in labels.split()]


CPU, UPDATE_ALONE = {"cpu": "1"}, "UnschedulablePodUpdate"
HELD = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
CLAIMED = {"resourceClaimStatuses": [{"name": "c"}]}


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (pod("p"), pod("p"), "UnschedulablePodUpdate"),
        (pod("p", on="n"), pod("p", on="n"), "AssignedPodUpdate"),
        (pod("p"), pod("p", labels={"a": "b"}), "UnschedulablePodUpdatePodLabel"),
        (pod("p", "n", {"cpu": "2"}), pod("p", "n", CPU), "AssignedPodUpdatePodScaleDown"),
        (pod("p", requests=CPU), pod("p"), "UnschedulablePodUpdatePodScaleDown"),
        (pod("p", requests=CPU), pod("p", requests={"cpu": "2"}), "UnschedulablePodUpdate"),
        (pod("p", "", CPU, status=HELD), pod("p", "", CPU), "UnschedulablePodUpdatePodScaleDown"),
        (
            pod("p", schedulingGates=[{"name": "g"}, {"name": "h"}]),
            pod("p", schedulingGates=[{"name": "g"}]),
            "UnschedulablePodUpdate",
        ),
        (
            pod("p", schedulingGates=[{"name": "g"}]),
            pod("p", tolerations=[{}]),
            "UnschedulablePodUpdatePodSchedulingGatesEliminated UnschedulablePodUpdatePodToleration",
        ),
        (
            pod("p", tolerations=[{"key": "a"}]),
            pod("p", tolerations=[{"key": "b"}]),
            "UnschedulablePodUpdate",
        ),
        (pod("p"), pod("p", status=CLAIMED), "UnschedulablePodUpdatePodGeneratedResourceClaim"),
    ],
)
def test_what_changed_of_a_pod(old: Pod, new: Pod, labels: str) -> None:
    assert labels_of(POD_EVENTS.of_update(old, new)) == labels.split()


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

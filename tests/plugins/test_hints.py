"""Queueing hints of the plugins that look at pods and nodes: which events bring a rejected pod back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.queue.ask import ask, node, pod, thing

from moorage import Scheduler
from moorage.objects import Node, Pod

ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TOLERATES = [{"key": "k", "operator": "Exists"}]
GPU = "example.com/gpu"


def requesting(name: str = "p", on: str = "", status: Any = None, **requests: str) -> Pod:
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return pod(name, nodeName=on, containers=containers, status=status)


def ports(name: str, *given: Any, on: str = "", status: Any = None) -> Pod:
    listed = [{"hostPort": port, "hostIP": ip, "protocol": protocol} for port, ip, protocol in given]
    return pod(name, nodeName=on, containers=[{"name": "c", "ports": listed}], status=status)


def selecting(**labels: str) -> Pod:
    return pod(nodeSelector=labels)


def affinity(*terms: Any, anti: bool = False, name: str = "p", labels: Any = None, on: str = "") -> Pod:
    kind = "podAntiAffinity" if anti else "podAffinity"
    listed = [{"topologyKey": ZONE} | term for term in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": listed}
    return pod(name, labels=labels, nodeName=on, affinity={kind: required})


def app(value: str, **rest: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": value}}} | rest


def spread(*given: Any, labels: Any = None, **rest: Any) -> Pod:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": ZONE}
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}}
    listed = [constraint | selector | one for one in given]
    return pod(labels=labels, topologySpreadConstraints=listed, **rest)


def features(*declared: str) -> Node:
    return thing("Node", "n", status={"declaredFeatures": list(declared)})


def on_node(name: str = "q", labels: Any = None, **rest: Any) -> Pod:
    return pod(name, labels=labels, nodeName="n", **rest)


A, B = {"app": "a"}, {"app": "b"}
Z1, Z2 = {ZONE: "z1"}, {ZONE: "z2"}
NOMINATED = {"nominatedNodeName": "n"}
MALFORMED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]
        }
    }
}

CASES: list[tuple[str, Pod, Any, Any, bool | None]] = [
    # plugin, rejected pod, old object, new object, whether it is worth an attempt (None: never heard of)
    ("NodeUnschedulable", pod(), None, node(), True),
    ("NodeUnschedulable", pod(tolerations=[{"operator": "Exists"}]), None, node(unschedulable=True), False),
    ("NodeUnschedulable", pod(), node(unschedulable=True), node(), True),
    ("NodeUnschedulable", pod(), node(taints=[TAINT]), node(), False),
    ("NodeUnschedulable", pod(), node(), node(unschedulable=True), None),
    ("NodeUnschedulable", pod(), pod(), pod(tolerations=[{"operator": "Exists"}]), True),
    ("NodeUnschedulable", pod(), pod(), pod(tolerations=TOLERATES), False),
    ("NodeUnschedulable", pod(), pod("q"), pod("q", tolerations=[{"operator": "Exists"}]), False),
    ("NodeName", pod(), None, node(), True),
    ("NodeName", pod(), node(labels=A), node(labels=B), None),
    ("NodeName", pod(), node(taints=[TAINT]), node(), True),
    ("TaintToleration", pod(), None, node(), True),
    ("TaintToleration", pod(), None, node(taints=[TAINT]), False),
    ("TaintToleration", pod(tolerations=TOLERATES), None, node(taints=[TAINT]), True),
    ("TaintToleration", pod(), node(taints=[TAINT]), node(), True),
    ("TaintToleration", pod(), node(taints=[TAINT | {"effect": "PreferNoSchedule"}]), node(), False),
    ("TaintToleration", pod(), node(), node(taints=[TAINT]), False),
    ("TaintToleration", pod(), pod(), pod(tolerations=[{"key": "other"}]), True),
    ("TaintToleration", pod(), pod("q"), pod("q", tolerations=TOLERATES), False),
    ("NodeAffinity", selecting(app="a"), None, node(labels=A), True),
    ("NodeAffinity", selecting(app="a"), None, node(labels=B), False),
    ("NodeAffinity", selecting(app="a"), node(labels=B), node(labels=A), True),
    ("NodeAffinity", selecting(app="a"), node(labels=A | Z1), node(labels=A), False),
    ("NodeAffinity", pod(affinity=MALFORMED, nodeSelector=A), None, node(labels=B), False),
    ("NodePorts", ports("p", (80, "", "")), ports("q", (80, "", ""), on="n"), None, True),
    ("NodePorts", ports("p", (80, "", "")), ports("q", (80, "", "")), None, False),
    ("NodePorts", ports("p", (80, "", "")), ports("q", (80, "", ""), status=NOMINATED), None, True),
    ("NodePorts", ports("p", (80, "", "")), ports("q", (81, "", ""), on="n"), None, False),
    ("NodePorts", ports("p", (80, "", "")), ports("q", (80, "", "UDP"), on="n"), None, False),
    ("NodePorts", ports("p", (80, "1.1.1.1", "")), ports("q", (80, "2.2.2.2", ""), on="n"), None, False),
    ("NodePorts", ports("p", (80, "0.0.0.0", "")), ports("q", (80, "2.2.2.2", ""), on="n"), None, True),
    ("NodePorts", ports("p", (80, "", "")), None, node(), True),
    ("NodeResourcesFit", requesting(cpu="1"), requesting("q", "n"), None, True),
    ("NodeResourcesFit", requesting(cpu="1"), requesting("q", status=NOMINATED), None, True),
    ("NodeResourcesFit", requesting(cpu="1"), requesting("q"), None, False),
    (
        "NodeResourcesFit",
        requesting(cpu="1"),
        requesting("q", "n", cpu="2"),
        requesting("q", "n", cpu="1"),
        True,
    ),
    (
        "NodeResourcesFit",
        requesting(cpu="1"),
        requesting("q", "n", memory="2"),
        requesting("q", "n", memory="1"),
        False,
    ),
    ("NodeResourcesFit", requesting(cpu="1"), requesting("q", cpu="2"), requesting("q", cpu="1"), False),
    *(  # as Go's Value and MilliValue have amounts: rounded up, and otherwise where 64 bits do not hold them
        (
            "NodeResourcesFit",
            requesting(**wanted),
            requesting("q", "n", **was),
            requesting("q", "n", **now),
            worth,
        )
        for wanted, was, now, worth in (
            ({"cpu": "1"}, {"cpu": "9e15"}, {"cpu": "18e15"}, True),
            ({"cpu": "18e15"}, {"cpu": "2"}, {"cpu": "1"}, True),
            ({"memory": "1"}, {"memory": "1500m"}, {"memory": "1200m"}, False),
            ({"memory": "1"}, {"memory": "1500m"}, {"memory": "1"}, True),
            ({"unknown": "1"}, {"unknown": "2"}, {"unknown": "1"}, False),
            ({GPU: "1"}, {GPU: "2"}, {GPU: "1"}, True),
        )
    ),
    ("NodeResourcesFit", requesting(cpu="2"), requesting(cpu="2"), requesting(cpu="1"), True),
    ("NodeResourcesFit", requesting(cpu="4", memory="8Gi"), None, node(), True),
    ("NodeResourcesFit", requesting(cpu="5"), None, node(), False),
    ("NodeResourcesFit", requesting(memory="9Gi"), None, node(), False),
    ("NodeResourcesFit", pod(), None, node(pods="0"), False),
    ("NodeResourcesFit", requesting(**{GPU: "1"}), None, node(), False),
    ("NodeResourcesFit", requesting(**{GPU: "1"}), None, node(**{GPU: "1"}), True),
    ("NodeResourcesFit", requesting(cpu="1"), node(), node(cpu="5"), True),
    ("NodeResourcesFit", requesting(cpu="1"), node(), node(cpu="3"), False),
    ("NodeResourcesFit", requesting(cpu="1"), node(), node(memory="9Gi"), False),
    ("NodeResourcesFit", requesting(cpu="1"), node(), node(pods="11"), True),
    ("NodeResourcesFit", pod(), node(), node(cpu="5"), False),
    ("NodeResourcesFit", requesting(cpu="9"), node(), node(cpu="5"), False),
    ("PodTopologySpread", spread({}), None, on_node(labels=A), True),
    ("PodTopologySpread", spread({}), None, on_node(labels=B), False),
    ("PodTopologySpread", spread({}), None, pod("q", labels=A), False),
    ("PodTopologySpread", spread({}), None, on_node("q", A, namespace="other"), False),
    ("PodTopologySpread", spread({}), on_node(labels=A), None, True),
    ("PodTopologySpread", spread({}), on_node(labels=A), on_node(labels=B), True),
    ("PodTopologySpread", spread({}), on_node(labels=A), on_node(labels=A | Z1), False),
    (
        "PodTopologySpread",
        spread({"matchLabelKeys": ["v"]}, labels={"v": "1"}),
        None,
        on_node(labels=A),
        False,
    ),
    ("PodTopologySpread", spread({"whenUnsatisfiable": "ScheduleAnyway"}), None, on_node(labels=A), False),
    (
        "PodTopologySpread",
        spread({"nodeTaintsPolicy": "Honor"}),
        spread({}),
        spread({}, tolerations=TOLERATES),
        True,
    ),
    ("PodTopologySpread", spread({}), spread({}), spread({}, tolerations=TOLERATES), False),
    ("PodTopologySpread", spread({}), None, node(labels=Z1), True),
    ("PodTopologySpread", spread({}), None, node(), False),
    ("PodTopologySpread", pod(), None, node(), True),
    ("PodTopologySpread", spread({}, {"topologyKey": "rack"}), None, node(labels=Z1), False),
    ("PodTopologySpread", spread({}), node(labels=Z1), None, True),
    ("PodTopologySpread", spread({}), node(), None, False),
    ("PodTopologySpread", pod(), node(), None, True),
    ("PodTopologySpread", spread({}), node(labels=Z1), node(), True),
    ("PodTopologySpread", spread({}), node(labels=Z1), node(labels=Z2), True),
    ("PodTopologySpread", spread({}), node(labels=Z1), node(labels=Z1 | A), False),
    ("PodTopologySpread", spread({}), node(labels=Z1, taints=[TAINT]), node(labels=Z1), True),
    ("PodTopologySpread", spread({}), node(taints=[TAINT]), node(), False),
    ("InterPodAffinity", affinity(app("a")), None, on_node(labels=A), True),
    ("InterPodAffinity", affinity(app("a")), None, on_node(labels=B), False),
    ("InterPodAffinity", affinity(app("a")), None, pod("q", labels=A), False),
    ("InterPodAffinity", affinity(app("a")), None, pod("q", labels=A, status=NOMINATED), True),
    ("InterPodAffinity", affinity(app("a"), app("b")), None, on_node(labels=A), False),
    ("InterPodAffinity", affinity(app("a")), None, on_node("q", A, namespace="other"), False),
    (
        "InterPodAffinity",
        affinity(app("a", namespaces=["other"])),
        None,
        on_node("q", A, namespace="other"),
        True,
    ),
    (
        "InterPodAffinity",
        affinity(app("a", namespaceSelector={})),
        None,
        on_node("q", A, namespace="o"),
        True,
    ),
    (
        "InterPodAffinity",
        affinity(app("a", namespaceSelector={"matchLabels": {"team": "x"}})),
        None,
        on_node("q", A, namespace="o"),
        False,
    ),
    ("InterPodAffinity", affinity(app("a")), on_node(labels=B), on_node(labels=A), True),
    ("InterPodAffinity", affinity(app("a")), on_node(labels=A), on_node(labels=B), False),
    ("InterPodAffinity", affinity(app("a")), pod(labels=A), pod(labels=B), True),
    ("InterPodAffinity", affinity(app("a"), anti=True), on_node(labels=A), on_node(labels=B), True),
    ("InterPodAffinity", affinity(app("a"), anti=True), on_node(labels=B), on_node(labels=A), False),
    ("InterPodAffinity", affinity(app("a"), anti=True), on_node(labels=A), None, True),
    ("InterPodAffinity", affinity(app("a"), anti=True), on_node(labels=B), None, False),
    ("InterPodAffinity", pod(labels=A), affinity(app("a"), anti=True, name="q", on="n"), None, True),
    ("InterPodAffinity", pod(labels=B), affinity(app("a"), anti=True, name="q", on="n"), None, False),
    ("InterPodAffinity", affinity(app("a")), None, node(labels=Z1), True),
    ("InterPodAffinity", affinity(app("a")), None, node(), False),
    ("InterPodAffinity", affinity(app("a")), node(), node(labels=Z1), True),
    ("InterPodAffinity", affinity(app("a")), node(labels=Z1), node(labels=Z2), True),
    ("InterPodAffinity", affinity(app("a")), node(labels=Z1), node(), False),
    ("InterPodAffinity", affinity(app("a"), anti=True), None, node(), True),
    ("InterPodAffinity", affinity(app("a"), anti=True), node(labels=Z1), node(), True),
    ("InterPodAffinity", affinity(app("a"), anti=True), node(), node(labels=Z1), False),
    ("InterPodAffinity", affinity(app("a"), anti=True), node(labels=Z1), node(labels=Z2), True),
    ("InterPodAffinity", pod(), None, node(labels=Z1), False),
    ("InterPodAffinity", pod(), node(taints=[TAINT]), node(), True),
    ("SchedulingGates", pod(), pod(schedulingGates=[{"name": "g"}]), pod(), True),
    ("SchedulingGates", pod(), pod("q", schedulingGates=[{"name": "g"}]), pod("q"), False),
    ("SchedulingGates", pod(), pod(), pod(labels=A), None),
    ("NodeDeclaredFeatures", pod(), None, features(), True),
    ("NodeDeclaredFeatures", pod(), features(), features("a"), True),
    ("NodeDeclaredFeatures", pod(), node(), node(labels=A), None),
    ("NodeDeclaredFeatures", pod(), pod(), pod(hostNetwork=True, hostUsers=False), True),
    ("NodeDeclaredFeatures", pod(), pod(), pod(hostNetwork=True), False),
    ("NodeDeclaredFeatures", pod(), pod(), pod(labels=A), False),
    ("NodeDeclaredFeatures", pod(), pod("q"), pod("q", hostNetwork=True, hostUsers=False), False),
    (
        "NodeDeclaredFeatures",
        pod(),
        pod(),
        pod(containers=[{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]),
        True,
    ),
    ("DynamicResources", pod(), None, node(), True),
    ("DynamicResources", pod(), node(), node(cpu="5"), True),
    ("DynamicResources", pod(), node(labels=A), node(labels=B), True),
]


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.mark.parametrize(("plugin", "rejected", "old", "new", "worth"), CASES)
def test_an_event_is_worth_a_try_if_it_may_help(
    scheduler: Scheduler, plugin: str, rejected: Pod, old: Any, new: Any, worth: bool | None
) -> None:
    assert ask(scheduler, plugin, rejected, old, new) is worth


@pytest.mark.parametrize(
    ("plugin", "rejected", "new"),
    [
        ("NodeAffinity", pod(affinity=MALFORMED), node()),
        ("InterPodAffinity", affinity({"labelSelector": {"matchLabels": {"app": "?"}}}), on_node(labels=A)),
        ("PodTopologySpread", spread({"labelSelector": {"matchLabels": {"app": "?"}}}), on_node(labels=A)),
    ],
)
def test_a_malformed_pod_is_an_error(scheduler: Scheduler, plugin: str, rejected: Pod, new: Any) -> None:
    with pytest.raises(ValueError, match=r"[iI]nvalid"):
        ask(scheduler, plugin, rejected, None, new)


def test_added_affinity_is_asked_about_the_node_as_it_is_now() -> None:
    terms = [{"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": required}}]}],
    }
    one = Scheduler(config=config)
    assert ask(one, "NodeAffinity", pod(), None, node(labels=A)) is True
    assert ask(one, "NodeAffinity", pod(), None, node(labels=B)) is False
    assert ask(one, "NodeAffinity", pod(), node(labels=B), node(labels=A)) is False


def test_default_constraints_count_the_pods_of_a_service() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "pluginConfig": [
                    {
                        "name": "PodTopologySpread",
                        "args": {
                            "defaultingType": "List",
                            "defaultConstraints": [
                                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
                            ],
                        },
                    }
                ]
            }
        ],
    }
    one = Scheduler(config=config)
    assert ask(one, "PodTopologySpread", pod(labels=A), None, on_node(labels=A)) is False
    one.client.create(thing("Service", "s", "default", spec={"selector": A}))
    one.sync()
    assert ask(one, "PodTopologySpread", pod(labels=A), None, on_node(labels=A)) is True
    assert ask(one, "PodTopologySpread", pod(labels=A), None, on_node(labels=B)) is False


@pytest.mark.parametrize("gate", [True, False])
def test_tolerations_that_compare_count_where_their_gate_is_on(gate: bool) -> None:
    one = Scheduler(feature_gates={"TaintTolerationComparisonOperators": gate})
    rejected = pod(tolerations=[TAINT | {"operator": "Gt", "value": "3"}])
    new = node(taints=[TAINT | {"value": "4"}])
    assert ask(one, "TaintToleration", rejected, None, new) is gate


@pytest.mark.parametrize("gate", [True, False])
def test_resizes_of_whole_pods_count_where_their_gate_is_on(gate: bool) -> None:
    one = Scheduler(feature_gates={"InPlacePodLevelResourcesVerticalScaling": gate})

    def resizing(cpu: str) -> Pod:
        requests = {"resources": {"requests": {"cpu": "1"}}}
        return pod("q", nodeName="n", status={"resources": {"requests": {"cpu": cpu}}}, **requests)

    assert ask(one, "NodeResourcesFit", requesting(cpu="1"), resizing("3"), resizing("2")) is gate


def test_what_a_container_holds_of_a_resize_counts_as_requested(scheduler: Scheduler) -> None:
    held = [{"name": "c", "resources": {"requests": {"memory": "1"}}}]
    rejected = requesting(cpu="1", status={"containerStatuses": held})
    was, now = requesting("q", "n", memory="2"), requesting("q", "n", memory="1")
    assert ask(scheduler, "NodeResourcesFit", rejected, was, now) is True


def test_pods_with_the_same_constraints_count_by_their_own_labels(scheduler: Scheduler) -> None:
    """Also where one is asked right after the other."""
    one = spread({"matchLabelKeys": ["v"]}, labels={"v": "1"})
    other = replace(one, metadata=replace(one.metadata, labels={"v": "2"}))
    for rejected, version in ((one, "1"), (other, "2"), (other, "2"), (one, "1")):
        for label in "12":
            new = on_node(labels=A | {"v": label})
            assert ask(scheduler, "PodTopologySpread", rejected, None, new) == (label == version)

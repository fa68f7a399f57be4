"""Queueing hints of the plugins that look at pods and nodes: which events bring a rejected pod back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import configuration
from tests.queue.ask import ask, node, pod, thing

from moorage import Scheduler
from moorage.kube import Node, Pod

ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TOLERATES = [{"key": "k", "operator": "Exists"}]
GPU = "example.com/gpu"


def asks(name: str = "p", on: str = "", status: Any = None, **requests: str) -> Pod:
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
TEAM, RESTARTS = {"matchLabels": {"team": "x"}}, [{"action": "RestartAllContainers"}]
MALFORMED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]
        }
    }
}

CASES: dict[str, list[tuple[Pod, Any, Any, bool | None]]] = {
    # rejected pod, old object, new object, whether it is worth an attempt (None: never heard of)
    "NodeUnschedulable": [
        (pod(), None, node(), True),
        (pod(tolerations=[{"operator": "Exists"}]), None, node(unschedulable=True), False),
        (pod(), node(unschedulable=True), node(), True),
        (pod(), node(taints=[TAINT]), node(), False),
        (pod(), node(), node(unschedulable=True), None),
        (pod(), pod(), pod(tolerations=[{"operator": "Exists"}]), True),
        (pod(), pod(), pod(tolerations=TOLERATES), False),
        (pod(), pod("q"), pod("q", tolerations=[{"operator": "Exists"}]), False),
    ],
    "NodeName": [
        (pod(), None, node(), True),
        (pod(), node(labels=A), node(labels=B), None),
        (pod(), node(taints=[TAINT]), node(), True),
    ],
    "TaintToleration": [
        (pod(), None, node(), True),
        (pod(), None, node(taints=[TAINT]), False),
        (pod(tolerations=TOLERATES), None, node(taints=[TAINT]), True),
        (pod(), node(taints=[TAINT]), node(), True),
        (pod(), node(taints=[TAINT | {"effect": "PreferNoSchedule"}]), node(), False),
        (pod(), node(), node(taints=[TAINT]), False),
        (pod(), pod(), pod(tolerations=[{"key": "other"}]), True),
        (pod(), pod("q"), pod("q", tolerations=TOLERATES), False),
    ],
    "NodeAffinity": [
        (selecting(app="a"), None, node(labels=A), True),
        (selecting(app="a"), None, node(labels=B), False),
        (selecting(app="a"), node(labels=B), node(labels=A), True),
        (selecting(app="a"), node(labels=A | Z1), node(labels=A), False),
        (pod(affinity=MALFORMED, nodeSelector=A), None, node(labels=B), False),
    ],
    "NodePorts": [
        (ports("p", (80, "", "")), ports("q", (80, "", ""), on="n"), None, True),
        (ports("p", (80, "", "")), ports("q", (80, "", "")), None, False),
        (ports("p", (80, "", "")), ports("q", (80, "", ""), status=NOMINATED), None, True),
        (ports("p", (80, "", "")), ports("q", (81, "", ""), on="n"), None, False),
        (ports("p", (80, "", "")), ports("q", (80, "", "UDP"), on="n"), None, False),
        (ports("p", (80, "1.1.1.1", "")), ports("q", (80, "2.2.2.2", ""), on="n"), None, False),
        (ports("p", (80, "0.0.0.0", "")), ports("q", (80, "2.2.2.2", ""), on="n"), None, True),
        (ports("p", (80, "", "")), None, node(), True),
    ],
    "NodeResourcesFit": [
        (asks(cpu="1"), asks("q", "n"), None, True),
        (asks(cpu="1"), asks("q", status=NOMINATED), None, True),
        (asks(cpu="1"), asks("q"), None, False),
        (asks(cpu="1"), asks("q", "n", cpu="2"), asks("q", "n", cpu="1"), True),
        (asks(cpu="1"), asks("q", "n", memory="2"), asks("q", "n", memory="1"), False),
        (asks(cpu="1"), asks("q", cpu="2"), asks("q", cpu="1"), False),
        # as Go's Value and MilliValue have amounts: rounded up, and otherwise where 64 bits do not hold them
        (asks(cpu="1"), asks("q", "n", cpu="9e15"), asks("q", "n", cpu="18e15"), True),
        (asks(cpu="18e15"), asks("q", "n", cpu="2"), asks("q", "n", cpu="1"), True),
        (asks(memory="1"), asks("q", "n", memory="1500m"), asks("q", "n", memory="1200m"), False),
        (asks(memory="1"), asks("q", "n", memory="1500m"), asks("q", "n", memory="1"), True),
        (asks(unknown="1"), asks("q", "n", unknown="2"), asks("q", "n", unknown="1"), False),
        (asks(**{GPU: "1"}), asks("q", "n", **{GPU: "2"}), asks("q", "n", **{GPU: "1"}), True),
        (asks(cpu="2"), asks(cpu="2"), asks(cpu="1"), True),
        (asks(cpu="4", memory="8Gi"), None, node(), True),
        (asks(cpu="5"), None, node(), False),
        (asks(memory="9Gi"), None, node(), False),
        (pod(), None, node(pods="0"), False),
        (asks(**{GPU: "1"}), None, node(), False),
        (asks(**{GPU: "1"}), None, node(**{GPU: "1"}), True),
        (asks(cpu="1"), node(), node(cpu="5"), True),
        (asks(cpu="1"), node(), node(cpu="3"), False),
        (asks(cpu="1"), node(), node(memory="9Gi"), False),
        (asks(cpu="1"), node(), node(pods="11"), True),
        (pod(), node(), node(cpu="5"), False),
        (asks(cpu="9"), node(), node(cpu="5"), False),
    ],
    "PodTopologySpread": [
        (spread({}), None, on_node(labels=A), True),
        (spread({}), None, on_node(labels=B), False),
        (spread({}), None, pod("q", labels=A), False),
        (spread({}), None, on_node("q", A, namespace="other"), False),
        (spread({}), on_node(labels=A), None, True),
        (spread({}), on_node(labels=A), on_node(labels=B), True),
        (spread({}), on_node(labels=A), on_node(labels=A | Z1), False),
        (spread({"matchLabelKeys": ["v"]}, labels={"v": "1"}), None, on_node(labels=A), False),
        (spread({"whenUnsatisfiable": "ScheduleAnyway"}), None, on_node(labels=A), False),
        (spread({"nodeTaintsPolicy": "Honor"}), spread({}), spread({}, tolerations=TOLERATES), True),
        (spread({}), spread({}), spread({}, tolerations=TOLERATES), False),
        (spread({}), None, node(labels=Z1), True),
        (spread({}), None, node(), False),
        (pod(), None, node(), True),
        (spread({}, {"topologyKey": "rack"}), None, node(labels=Z1), False),
        (spread({}), node(labels=Z1), None, True),
        (spread({}), node(), None, False),
        (pod(), node(), None, True),
        (spread({}), node(labels=Z1), node(), True),
        (spread({}), node(labels=Z1), node(labels=Z2), True),
        (spread({}), node(labels=Z1), node(labels=Z1 | A), False),
        (spread({}), node(labels=Z1, taints=[TAINT]), node(labels=Z1), True),
        (spread({}), node(taints=[TAINT]), node(), False),
    ],
    "InterPodAffinity": [
        (affinity(app("a")), None, on_node(labels=A), True),
        (affinity(app("a")), None, on_node(labels=B), False),
        (affinity(app("a")), None, pod("q", labels=A), False),
        (affinity(app("a")), None, pod("q", labels=A, status=NOMINATED), True),
        (affinity(app("a"), app("b")), None, on_node(labels=A), False),
        (affinity(app("a")), None, on_node("q", A, namespace="other"), False),
        (affinity(app("a", namespaces=["other"])), None, on_node("q", A, namespace="other"), True),
        (affinity(app("a", namespaceSelector={})), None, on_node("q", A, namespace="o"), True),
        (affinity(app("a", namespaceSelector=TEAM)), None, on_node("q", A, namespace="o"), False),
        (affinity(app("a")), on_node(labels=B), on_node(labels=A), True),
        (affinity(app("a")), on_node(labels=A), on_node(labels=B), False),
        (affinity(app("a")), pod(labels=A), pod(labels=B), True),
        (affinity(app("a"), anti=True), on_node(labels=A), on_node(labels=B), True),
        (affinity(app("a"), anti=True), on_node(labels=B), on_node(labels=A), False),
        (affinity(app("a"), anti=True), on_node(labels=A), None, True),
        (affinity(app("a"), anti=True), on_node(labels=B), None, False),
        (pod(labels=A), affinity(app("a"), anti=True, name="q", on="n"), None, True),
        (pod(labels=B), affinity(app("a"), anti=True, name="q", on="n"), None, False),
        (affinity(app("a")), None, node(labels=Z1), True),
        (affinity(app("a")), None, node(), False),
        (affinity(app("a")), node(), node(labels=Z1), True),
        (affinity(app("a")), node(labels=Z1), node(labels=Z2), True),
        (affinity(app("a")), node(labels=Z1), node(), False),
        (affinity(app("a"), anti=True), None, node(), True),
        (affinity(app("a"), anti=True), node(labels=Z1), node(), True),
        (affinity(app("a"), anti=True), node(), node(labels=Z1), False),
        (affinity(app("a"), anti=True), node(labels=Z1), node(labels=Z2), True),
        (pod(), None, node(labels=Z1), False),
        (pod(), node(taints=[TAINT]), node(), True),
    ],
    "SchedulingGates": [
        (pod(), pod(schedulingGates=[{"name": "g"}]), pod(), True),
        (pod(), pod("q", schedulingGates=[{"name": "g"}]), pod("q"), False),
        (pod(), pod(), pod(labels=A), None),
    ],
    "NodeDeclaredFeatures": [
        (pod(), None, features(), True),
        (pod(), features(), features("a"), True),
        (pod(), node(), node(labels=A), None),
        (pod(), pod(), pod(hostNetwork=True, hostUsers=False), True),
        (pod(), pod(), pod(hostNetwork=True), False),
        (pod(), pod(), pod(labels=A), False),
        (pod(), pod("q"), pod("q", hostNetwork=True, hostUsers=False), False),
        (pod(), pod(), pod(containers=[{"name": "c", "restartPolicyRules": RESTARTS}]), True),
    ],
    "DynamicResources": [
        (pod(), None, node(), True),
        (pod(), node(), node(cpu="5"), True),
        (pod(), node(labels=A), node(labels=B), True),
    ],
}


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.mark.parametrize(
    ("plugin", "rejected", "old", "new", "worth"),
    [(plugin, *row) for plugin, rows in CASES.items() for row in rows],
)
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


def configured(plugin: str, **args: Any) -> Scheduler:
    """A scheduler with arguments of a plugin."""
    return Scheduler(config=configuration(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}]))


def test_added_affinity_is_asked_about_the_node_as_it_is_now() -> None:
    terms = [{"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    one = configured("NodeAffinity", addedAffinity=required)
    for old, new, worth in ((None, A, True), (None, B, False), (B, A, False)):
        was = None if old is None else node(labels=old)
        assert ask(one, "NodeAffinity", pod(), was, node(labels=new)) is worth


def test_default_constraints_count_the_pods_of_a_service() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    one = configured("PodTopologySpread", defaultingType="List", defaultConstraints=[constraint])
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

    assert ask(one, "NodeResourcesFit", asks(cpu="1"), resizing("3"), resizing("2")) is gate


def test_what_a_container_holds_of_a_resize_counts_as_requested(scheduler: Scheduler) -> None:
    held = [{"name": "c", "resources": {"requests": {"memory": "1"}}}]
    rejected = asks(cpu="1", status={"containerStatuses": held})
    was, now = asks("q", "n", memory="2"), asks("q", "n", memory="1")
    assert ask(scheduler, "NodeResourcesFit", rejected, was, now) is True


def test_pods_with_the_same_constraints_count_by_their_own_labels(scheduler: Scheduler) -> None:
    """Also where one is asked right after the other."""
    one = spread({"matchLabelKeys": ["v"]}, labels={"v": "1"})
    other = replace(one, metadata=replace(one.metadata, labels={"v": "2"}))
    for rejected, version in ((one, "1"), (other, "2"), (other, "2"), (one, "1")):
        for label in "12":
            new = on_node(labels=A | {"v": label})
            assert ask(scheduler, "PodTopologySpread", rejected, None, new) == (label == version)

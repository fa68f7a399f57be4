"""The native filters: verdicts, codes and texts of kube-scheduler v1.36."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import container, declaring, node, pod, port
from tests.doors.engine import SchedulingGates, dependents_off

from moorage import Scheduler, default_profile
from moorage.framework import Code
from moorage.objects import (
    Cluster,
    ContainerPort,
    ContainerRestartRule,
    Node,
    Pod,
    PodSchedulingGate,
    Taint,
    Toleration,
)
from moorage.scheduler import Profile

GPU = "example.com/gpu"
UNSCHEDULABLE, UNRESOLVABLE = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def rejection(
    one_pod: Pod, one_node: Node, *there: Pod, **settings: Any
) -> tuple[str, Code, tuple[str, ...]] | None:
    """(plugin, code, reasons) with which a node rejects a pod; None where it fits."""
    seen = Scheduler(Cluster(nodes=[one_node], pods=list(there)), **settings).examine(one_pod)
    if not seen.rejected:
        return None
    status = seen.rejected[one_node.name]
    return status.plugin, status.code, status.reasons


CORDON = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ((), False),
        ((CORDON,), True),
        ((Toleration(operator="Exists"),), True),
        ((Toleration(key="a"),), False),
    ],
)
def test_an_unschedulable_node_is_rejected_unless_tolerated(
    tolerations: tuple[Toleration, ...], fits: bool
) -> None:
    found = rejection(pod("p", tolerations=tolerations), node("a", unschedulable=True))
    assert found == (None if fits else ("NodeUnschedulable", UNRESOLVABLE, ("node(s) were unschedulable",)))


RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RESTARTS = ContainerRestartRule(action="RestartAllContainers")


def needing(*features: str, init: bool = False) -> Pod:
    """A pod that needs features of its node."""
    rules = (ContainerRestartRule(action="Restart"), *((RESTARTS,) if RESTART in features else ()))
    one = pod("p", host_network=USERS in features, host_users=False if USERS in features else None)
    ruled = replace(one.spec.containers[0], name="i" if init else "c", restart_policy_rules=rules)
    changes: dict[str, Any] = {"init_containers": (ruled,)} if init else {"containers": (ruled,)}
    return replace(one, spec=replace(one.spec, **changes))


@pytest.mark.parametrize(
    ("needs", "declares", "fits"),
    [
        ((), (), True),
        ((USERS,), (), False),
        ((USERS,), (RESTART,), False),
        ((USERS,), (RESTART, USERS), True),
        ((RESTART,), ("GuaranteedQoSPodCPUResize",), False),
        ((RESTART,), (RESTART,), True),
        ((RESTART, USERS), (RESTART,), False),
        ((RESTART, USERS), ("A", RESTART, USERS), True),
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_node_declared_features(
    needs: tuple[str, ...], declares: tuple[str, ...], fits: bool, init: bool
) -> None:
    text = "node(s) didn't match Pod's required features"
    found = rejection(needing(*needs, init=init), declaring(node("a"), *declares))
    assert found == (None if fits else ("NodeDeclaredFeatures", UNRESOLVABLE, (text,)))


@pytest.mark.parametrize("settings", [{"host_network": True}, {"host_users": False}, {"host_users": True}])
def test_pods_that_need_no_declared_feature(settings: dict[str, bool]) -> None:
    assert rejection(pod("p", **settings), node("a")) is None


def test_declared_features_do_not_count_without_the_gate() -> None:
    gates = {"NodeDeclaredFeatures": False}
    assert rejection(needing(USERS), node("a"), feature_gates=gates | dependents_off(gates)) is None


def test_a_pod_waits_until_a_node_declares_its_features() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a"), declaring(node("b"), RESTART)], pods=[needing(USERS)]))
    failure = scheduler.run().unschedulable["default/p"]
    assert failure.message.startswith(
        "0/2 nodes are available: 2 node(s) didn't match Pod's required features."
    )
    scheduler.client.update(declaring(node("a"), USERS))
    assert scheduler.run().placements == {"default/p": "a"}


def test_nobody_is_evicted_where_the_node_lacks_a_feature() -> None:
    """Resources come first among the filters, so preemption tries such a node."""
    there = [pod(f"low-{on}", on=on, requests={"cpu": "4"}, priority=-1) for on in "ab"]
    urgent = replace(needing(USERS), spec=replace(needing(USERS).spec, priority=5))
    asks = replace(urgent.spec.containers[0], resources=there[0].spec.containers[0].resources)
    urgent = replace(urgent, spec=replace(urgent.spec, containers=(asks,)))
    nodes = [node("a"), declaring(node("b"), USERS)]
    scheduler = Scheduler(Cluster(nodes=nodes, pods=[*there, urgent]))
    result = scheduler.run()
    assert list(result.evicted) == ["default/low-b"]
    assert result.placements == {"default/p": "b"}


def test_a_pod_fits_the_node_that_it_names_alone() -> None:
    assert rejection(pod("p", on="a"), node("a")) is None
    text = "node(s) didn't match the requested node name"
    assert rejection(pod("p", on="b"), node("a")) == ("NodeName", UNRESOLVABLE, (text,))


@pytest.mark.parametrize(
    ("effect", "toleration", "fits"),
    [
        ("NoSchedule", None, False),
        ("NoExecute", None, False),
        ("PreferNoSchedule", None, True),
        ("NoSchedule", Toleration(key="t", value="v"), True),
        ("NoSchedule", Toleration(key="t", operator="Equal", value="w"), False),
        ("NoSchedule", Toleration(key="t", operator="Exists"), True),
        ("NoSchedule", Toleration(key="t", operator="Exists", effect="NoExecute"), False),
        ("NoExecute", Toleration(operator="Exists"), True),
        ("NoExecute", Toleration(key="u", operator="Exists"), False),
    ],
)
def test_a_taint_is_rejected_unless_tolerated(effect: str, toleration: Toleration | None, fits: bool) -> None:
    tainted = node("a", taints=[Taint(key="t", value="v", effect=effect)])
    found = rejection(pod("p", tolerations=(toleration,) if toleration else ()), tainted)
    assert found == (
        None if fits else ("TaintToleration", UNRESOLVABLE, ("node(s) had untolerated taint(s)",))
    )


def test_every_taint_must_be_tolerated() -> None:
    taints = [Taint(key=key, effect="NoSchedule") for key in "ab"]
    one, both = (tuple(Toleration(key=key, operator="Exists") for key in keys) for keys in ("a", "ab"))
    assert rejection(pod("p", tolerations=one), node("n", taints=taints)) is not None
    assert rejection(pod("p", tolerations=both), node("n", taints=taints)) is None


def test_a_node_selector_rejects_nodes_without_the_label() -> None:
    text = "node(s) didn't match Pod's node affinity/selector"
    wants = pod("p", node_selector={"disk": "ssd"})
    assert rejection(wants, node("a", labels={"disk": "ssd"})) is None
    assert rejection(wants, node("a", labels={"disk": "hdd"})) == ("NodeAffinity", UNRESOLVABLE, (text,))
    assert rejection(wants, node("a")) == ("NodeAffinity", UNRESOLVABLE, (text,))


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        (port(80), port(80), False),
        (port(80), port(81), True),
        (port(80), port(80, protocol="UDP"), True),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), True),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), False),
        (port(80, "10.0.0.1"), port(80), False),
        (port(80), port(80, "10.0.0.1"), False),
        (port(80, "0.0.0.0", "TCP"), port(80), False),
        (port(80), ContainerPort(container_port=80), True),
    ],
)
def test_a_host_port_that_is_held_is_rejected(held: ContainerPort, wanted: ContainerPort, fits: bool) -> None:
    found = rejection(pod("p", ports=[port(99), wanted]), node("a"), pod("q", on="a", ports=[held]))
    text = "node(s) didn't have free ports for the requested pod ports"
    assert found == (None if fits else ("NodePorts", UNSCHEDULABLE, (text,)))


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    def with_init(name: str, restart: str | None, on: str = "") -> Pod:
        return pod(name, on=on, init_containers=(container("i", ports=(port(80),), restart_policy=restart),))

    for held, wanted, fits in (("Always", "Always", False), (None, "Always", True), ("Always", None, True)):
        found = rejection(with_init("p", wanted), node("a"), with_init("q", held, on="a"))
        assert (found is None) == fits


@pytest.mark.parametrize(
    ("requests", "used", "code", "reasons"),
    [
        ({"cpu": 4}, {}, None, ()),
        ({"cpu": "4001m"}, {}, UNRESOLVABLE, ("Insufficient cpu",)),
        ({"cpu": 4}, {"cpu": "1m"}, UNSCHEDULABLE, ("Insufficient cpu",)),
        ({"cpu": 3, "memory": "9Gi"}, {"cpu": 2}, UNRESOLVABLE, ("Insufficient cpu", "Insufficient memory")),
        ({GPU: 1}, {}, UNRESOLVABLE, (f"Insufficient {GPU}",)),
        (
            {"ephemeral-storage": 1, GPU: 1, "a.example.com/x": 1},
            {},
            UNRESOLVABLE,
            ("Insufficient ephemeral-storage", "Insufficient a.example.com/x", f"Insufficient {GPU}"),
        ),
        ({}, {"cpu": 9, "memory": "90Gi"}, None, ()),
        ({"cpu": 0, GPU: 0}, {"cpu": 9}, None, ()),
        ({"memory": 1}, {"cpu": 9}, None, ()),
    ],
)
def test_node_resources_fit(
    requests: dict[str, Any], used: dict[str, Any], code: Code | None, reasons: tuple[str, ...]
) -> None:
    found = rejection(pod("p", requests=requests), node("a"), pod("q", on="a", requests=used))
    assert found == (None if code is None else ("NodeResourcesFit", code, reasons))


def test_too_many_pods_is_never_unresolvable_by_itself() -> None:
    assert rejection(pod("p"), node("a", pods=0)) == ("NodeResourcesFit", UNSCHEDULABLE, ("Too many pods",))
    found = rejection(pod("p", requests={"cpu": 5}), node("a", pods=1), pod("q", on="a"))
    assert found == ("NodeResourcesFit", UNRESOLVABLE, ("Too many pods", "Insufficient cpu"))


def test_before_1_34_no_shortage_was_unresolvable() -> None:
    profile = Profile(default_profile().plugins, fit_unresolvable=False)
    found = rejection(pod("p", requests={"cpu": 5}), node("a"), profile=profile)
    assert found == ("NodeResourcesFit", UNSCHEDULABLE, ("Insufficient cpu",))


def test_a_pod_with_scheduling_gates_waits() -> None:
    gates = tuple(PodSchedulingGate(name=name) for name in ("a", "b"))
    status = SchedulingGates().pre_enqueue(pod("p", scheduling_gates=gates))
    assert status is not None
    assert (status.code, status.message()) == (UNRESOLVABLE, "waiting for scheduling gates: [a b]")
    assert SchedulingGates().pre_enqueue(pod("p")) is None

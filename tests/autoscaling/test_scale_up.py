"""`Questions.scale_up`: Karpenter makes nodes, kube-scheduler decides, in rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage import Scheduler, load
from moorage.autoscalers import GroupSettings, InstanceType, NewNode, NodeGroup, Offering, ScaleUp
from moorage.kube import Node, NodeClaim, Quantity
from tests.doors.autoscalers import LatePod
from tests.make import written

from .test_provision import pod, pool


def four_cores(*offerings: Offering) -> list[InstanceType]:
    capacity = {"cpu": Quantity("4"), "memory": Quantity("16Gi"), "pods": Quantity("20")}
    return [InstanceType("four", capacity, offerings or (Offering("a", "on-demand", 0.5),))]


def test_nodes_come_and_the_scheduler_stays_as_it_was() -> None:
    scheduler = Scheduler(load([pool(), pod("web-1", "3"), pod("web-2", "3")]))
    before = scheduler.fork()
    types = four_cores(Offering("a", "on-demand", 0.5), Offering("b", "spot", 0.2))
    answer = scheduler.ask.scale_up(types=types)
    assert not scheduler.ask.diff(before)
    assert [(one.name, one.pool, one.kind, one.price, one.round) for one in answer.nodes] == [
        ("default-1", "default", "four spot b", 0.2, 1),
        ("default-2", "default", "four spot b", 0.2, 1),
    ]
    assert answer.placed.keys() == {"default/web-1", "default/web-2"}
    assert sorted(key for node in answer.nodes for key in node.pods) == sorted(answer.placed)
    assert answer.price == 0.4
    assert (answer.rounds, answer.complete, answer.waiting, answer.late) == (1, True, (), ())
    assert answer.headline() == (
        "Karpenter 1.15.0: 2 new nodes (2 four spot b) in 1 round, 0.40 $/h more; 2 pods find a node, 0 wait"
    )
    assert len(answer.table()) == len(answer.to_dict()["nodes"]) == 2


def test_documents_say_among_what_a_provider_chooses() -> None:
    offered = Offering("a", "on-demand", 0.5), Offering("b", "on-demand", 0.5)
    types = [*four_cores(*offered), replace(four_cores(*offered)[0], name="other")]
    scheduler = Scheduler(load([pool(), pod("web")]))
    (node,) = scheduler.ask.scale_up(types=types).to_dict()["nodes"]
    chosen = {"choices": 2, "zones": ["a", "b"], "chosen": "the provider chooses among"}
    assert chosen.items() <= node.items()
    (node,) = scheduler.ask.scale_up(types=four_cores()).to_dict()["nodes"]
    assert not chosen.keys() & node.keys()


def test_a_zone_that_failed_gets_no_node_until_that_is_undone() -> None:
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a"}}}
    scheduler = Scheduler(load([pool(), node, pod("web", "3")]))
    types = four_cores()
    with scheduler.transaction():
        scheduler.change.fail_zone("a")
        assert not scheduler.ask.scale_up(types=types).nodes
        assert not scheduler.fork().ask.scale_up(types=types).nodes
    assert scheduler.ask.scale_up(types=types).nodes


def test_kept_nodes_have_labels_taints_and_claims() -> None:
    taint = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
    made = pool()
    made["spec"]["template"]["spec"]["taints"] = [taint]
    made["spec"]["template"]["metadata"] = {"labels": {"team": "a"}}
    tolerating = pod("web", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    scheduler = Scheduler(load([made, tolerating]))
    scheduler.ask.scale_up(types=four_cores(), keep=True)
    node = scheduler.client.get(Node, "default-1")
    wanted = {
        "team": "a",
        "karpenter.sh/nodepool": "default",
        "node.kubernetes.io/instance-type": "four",
        "topology.kubernetes.io/zone": "a",
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/hostname": "default-1",
    }
    assert wanted.items() <= node.metadata.labels.items()
    assert [one.key for one in node.spec.taints] == ["dedicated"]
    assert scheduler.client.get(NodeClaim, "default-1").status.node_name == "default-1"
    assert not scheduler.pods.pending
    assert not scheduler.ask.scale_up(types=four_cores()).nodes


def test_a_pod_that_the_scheduler_leaves_needs_a_second_round() -> None:
    small = [pod(f"a-{at}", "1") for at in range(4)]
    scheduler = Scheduler(load([pool(), *small, pod("big", "4")]))
    answer = scheduler.ask.scale_up(types=four_cores())
    assert [node.round for node in answer.nodes] == [1, 1, 2]
    (late,) = answer.late
    assert (late.pod, late.round) == ("default/big", 2)
    assert late.scheduler == "0/2 nodes are available: 2 Insufficient cpu."
    assert answer.remarks() == [
        "1 pod needs a second round, 0.50 $/h more of it: Karpenter had a node for default/big, but "
        "kube-scheduler placed others there first (0/2 nodes are available: 2 Insufficient cpu.)"
    ]


def many(name: str, count: int, cpu: str, memory: str, spread: bool = False) -> list[dict[str, Any]]:
    """Pods of one app, which are spread over zones if that is asked."""
    rule = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    rules = [rule | {"labelSelector": {"matchLabels": {"app": name}}}] if spread else []
    return [pod(f"{name}-{at:04d}", cpu, memory, topologySpreadConstraints=rules) for at in range(count)]


def sized(cpus: int) -> InstanceType:
    """A type of upstream's fake provider."""
    offers = [("spot", 1), ("spot", 2), ("on-demand", 1), ("on-demand", 2), ("on-demand", 3)]
    price = 0.1 * cpus + 0.2 * cpus * 1.073741824
    capacity = {"cpu": f"{cpus}", "memory": f"{2 * cpus}Gi", "pods": f"{10 * cpus}"}
    return InstanceType(
        f"fake-it-{cpus - 1}",
        {name: Quantity(amount) for name, amount in capacity.items()},
        tuple(Offering(f"test-zone-{zone}", kind, price) for kind, zone in offers),
        overhead=[{"cpu": Quantity("100m"), "memory": Quantity("10Mi")}],
    )


@pytest.mark.parametrize(
    ("pods", "first", "late", "waits"),
    [
        ([*many("big", 30, "3500m", "5Gi"), *many("small", 270, "900m", "1Gi")], 23, 6, "small"),
        (
            [
                *many("a", 40, "2500m", "3Gi", spread=True),
                *many("b", 110, "1300m", "2Gi", spread=True),
                *many("c", 25, "6", "7Gi"),
            ],
            26,
            14,
            "c",
        ),
    ],
    ids=["sizes", "spread"],
)
def test_the_engines_disagree_where_the_real_ones_do(
    pods: list[dict[str, Any]], first: int, late: int, waits: str
) -> None:
    """The real Karpenter has a node for each of these pods, and so many do not get it."""
    types = [sized(cpus) for cpus in range(1, 17)]
    answer = Scheduler(load([pool(), *pods])).ask.scale_up(types=types)
    assert sum(node.round == 1 for node in answer.nodes) == first
    assert len(answer.late) == late
    assert {one.pod.split("/")[1].split("-")[0] for one in answer.late} == {waits}
    assert answer.complete
    assert len(answer.placed) == len(pods)
    (told,) = answer.late_lines()
    price = sum(node.price or 0.0 for node in answer.nodes if node.round == 2)
    assert told.startswith(f"{late} pods need a second round, {price:.2f} $/h more of it")


def test_rounds_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scaling_rounds", "scale_up_answer"):
        monkeypatch.setattr(f"moorage.autoscalers.{module}.MOST_ROUNDS", 1)
    scheduler = Scheduler(load([pool(), *[pod(f"a-{at}", "1") for at in range(4)], pod("big", "4")]))
    answer = scheduler.ask.scale_up(types=four_cores())
    assert (answer.rounds, answer.complete) == (1, False)
    assert [*answer.late_lines()] == ["ended after round 1: Karpenter would go on, but that is the most"]


def test_only_nodes_with_late_pods_are_the_price_of_a_disagreement() -> None:
    nodes = [
        NewNode(f"n{at}", "Karpenter", "p", "t", "z", "spot", 1.0, at, (f"d/p{at}",)) for at in (1, 2, 3)
    ]
    late = (LatePod("d/p3", 3, "why"),)
    answer = ScaleUp(3, tuple(nodes), {}, (), late, True)
    assert next(answer.late_lines()).startswith("1 pod needs more rounds, 1.00 $/h more of it")


def test_the_scheduler_refuses_a_pod_that_karpenter_has_a_node_for() -> None:
    term: Any = {"matchExpressions": [{"key": "blessed", "operator": "Exists"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]}],
    }
    scheduler = Scheduler(load([pool(), pod("web")]), config=config)
    answer = scheduler.ask.scale_up(types=four_cores())
    (waits,) = answer.waiting
    assert (waits.refused_by, waits.refusals) == ("kube-scheduler", {})
    assert waits.reason.startswith("kube-scheduler: 0/1 nodes are available")
    assert (len(answer.nodes), answer.rounds) == (1, 1)


def test_types_that_nodes_show_have_no_price() -> None:
    labels = {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "big"}
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": labels | {"topology.kubernetes.io/zone": "a"}},
        "spec": {"providerID": "x"},
        "status": {"capacity": room, "allocatable": room},
    }
    answer = Scheduler(load([pool(), node, pod("web-1", "3"), pod("web-2", "3")])).ask.scale_up()
    assert [one.instance_type for one in answer.nodes] == ["big"]
    assert answer.price is None
    assert "at unknown prices" in answer.headline()


# ---- node groups of cluster-autoscaler


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    labels = {"kubernetes.io/hostname": name} | labels
    return written(
        "v1/Node", {"name": name, "labels": labels}, status={"allocatable": room, "capacity": room}
    )


def test_a_label_may_be_without_a_value() -> None:
    role = "node-role.kubernetes.io/worker"
    there = [node("worker", "1", **{role: ""}), node("other", "1")]
    groups = GroupSettings([NodeGroup("workers", max_size=2, label=f"{role}=")])
    answer = Scheduler(load([*there, pod("a"), pod("b"), pod("c")])).ask.scale_up(groups=groups)
    assert [one.name for one in answer.nodes] == ["workers-1"]


def test_both_autoscalers_decide_about_the_pods_that_they_accept() -> None:
    there = node("one", "1", pool="a")
    pods = [pod("web", "3"), pod("tied", "3", nodeSelector={"pool": "b"}), pod("huge", "9")]
    template = node("template", pool="b")
    scheduler = Scheduler(load([there, pool(), *pods]))
    answer = scheduler.ask.scale_up(
        four_cores(), groups=GroupSettings([NodeGroup("b", template, label="pool=b")])
    )
    assert sorted((one.by, one.pool) for one in answer.nodes) == [
        ("Karpenter", "default"),
        *[("cluster-autoscaler", "b")] * 2,
    ]
    assert answer.headline().startswith("Karpenter 1.15.0 and cluster-autoscaler 1.36.1: 3 new nodes")
    assert answer.doubled == ("default/web",)
    assert answer.remarks()[1].startswith("1 pod has new nodes of Karpenter and of cluster-autoscaler")
    (waits,) = answer.waiting
    assert (waits.pod, waits.refused_by) == ("default/huge", "Karpenter and cluster-autoscaler")
    assert waits.reason.endswith("; cluster-autoscaler: pod didn't trigger scale-up: 1 Insufficient cpu")


def test_new_nodes_have_static_pods_and_no_pods_of_daemon_sets_twice() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "one", "uid": "1", "controller": True}
    mirror = pod("proxy-one", "1", nodeName="one")
    mirror["metadata"] |= {
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [owner],
    }
    agent = written(
        "apps/v1/DaemonSet",
        {"name": "agent", "namespace": "default"},
        {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod("x", "1")["spec"]},
        },
    )
    scheduler = Scheduler(
        load(
            [node("one", **{"eks.amazonaws.com/nodegroup": "g"}), mirror, agent, pod("a", "2"), pod("b", "2")]
        )
    )
    answer = scheduler.ask.scale_up(groups=GroupSettings([NodeGroup("g")]), keep=True)
    assert [one.pods for one in answer.nodes] == [("default/b",)]
    on = [one for one in scheduler.cache.state.pods() if one.spec.node_name == "g-1"]
    assert sorted(one.name.partition("-")[0] for one in on) == ["agent", "b", "proxy"]

"""`Scheduler.scale_up`: Karpenter makes nodes, kube-scheduler decides, in rounds."""

from __future__ import annotations

from typing import Any

from moorage import Scheduler, load
from moorage.autoscaling import InstanceType, Offering
from moorage.objects import Node, NodeClaim, Quantity

from .test_provision import pod, pool


def four_cores(*offerings: Offering) -> list[InstanceType]:
    capacity = {"cpu": Quantity("4"), "memory": Quantity("16Gi"), "pods": Quantity("20")}
    return [InstanceType("four", capacity, offerings or (Offering("a", "on-demand", 0.5),))]


def test_nodes_come_and_the_scheduler_stays_as_it_was() -> None:
    scheduler = Scheduler(load([pool(), pod("web-1", "3"), pod("web-2", "3")]))
    before = scheduler.fork()
    types = four_cores(Offering("a", "on-demand", 0.5), Offering("b", "spot", 0.2))
    answer = scheduler.scale_up(types=types)
    assert not scheduler.diff(before)
    assert [one[:7] for one in answer.nodes] == [
        ("default-1", "default", "four", "b", "spot", 0.2, 1),
        ("default-2", "default", "four", "b", "spot", 0.2, 1),
    ]
    assert answer.placed.keys() == {"default/web-1", "default/web-2"}
    assert sorted(key for node in answer.nodes for key in node.pods) == sorted(answer.placed)
    assert answer.price == 0.4
    assert (answer.rounds, answer.complete, answer.waiting, answer.late) == (1, True, (), ())
    assert answer.headline() == (
        "Karpenter 1.15.0: 2 new nodes (2 four spot b) in 1 round, 0.40 $/h more; 2 pods find a node, 0 wait"
    )
    assert len(answer.table()) == len(answer.to_dict()["nodes"]) == 2


def test_kept_nodes_have_labels_taints_and_claims() -> None:
    taint = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
    made = pool()
    made["spec"]["template"]["spec"]["taints"] = [taint]
    made["spec"]["template"]["metadata"] = {"labels": {"team": "a"}}
    tolerating = pod("web", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    scheduler = Scheduler(load([made, tolerating]))
    scheduler.scale_up(types=four_cores(), keep=True)
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
    assert not scheduler.scale_up(types=four_cores()).nodes


def test_a_pod_that_the_scheduler_leaves_needs_a_second_round() -> None:
    small = [pod(f"a-{at}", "1") for at in range(4)]
    scheduler = Scheduler(load([pool(), *small, pod("big", "4")]))
    answer = scheduler.scale_up(types=four_cores())
    assert [node.round for node in answer.nodes] == [1, 1, 2]
    ((name, turn, why),) = answer.late
    assert (name, turn, why) == ("default/big", 2, "0/2 nodes are available: 2 Insufficient cpu.")
    assert answer.late_price == 0.5
    assert answer.remarks() == [
        "1 pod needs a second round, 0.50 $/h more of it: Karpenter had a node for default/big, but "
        "kube-scheduler placed others there first (0/2 nodes are available: 2 Insufficient cpu.)"
    ]


def test_karpenter_refuses_a_pod() -> None:
    scheduler = Scheduler(load([pool(), pod("web", "8"), pod("db", "2")]))
    answer = scheduler.scale_up(types=four_cores())
    (waits,) = answer.waiting
    assert (waits.pod, waits.refused_by) == ("default/web", "Karpenter")
    assert waits.reason.startswith("Karpenter: no instance type has enough resources, ")
    assert waits.scheduler == "0/1 nodes are available: 1 Insufficient cpu."
    assert answer.complete


def test_the_scheduler_refuses_a_pod_that_karpenter_has_a_node_for() -> None:
    term: Any = {"matchExpressions": [{"key": "blessed", "operator": "Exists"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]}],
    }
    scheduler = Scheduler(load([pool(), pod("web")]), config=config)
    answer = scheduler.scale_up(types=four_cores())
    (waits,) = answer.waiting
    assert (waits.refused_by, waits.karpenter) == ("kube-scheduler", "")
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
    answer = Scheduler(load([pool(), node, pod("web-1", "3"), pod("web-2", "3")])).scale_up()
    assert [one.instance_type for one in answer.nodes] == ["big"]
    assert answer.price is None
    assert "at unknown prices" in answer.headline()

"""Pod groups in workloads: gangs, groups without a minimum, groups that fit nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf.operation_cursor import Wait, WorkloadFailedError, WorkloadStuckError
from bench.scheduler_perf.pods import GONE
from tests.benchmarks.scheduler_perf.make import NODE, nodes, placements, run_ops, workload

from moorage.kube import Node
from moorage.kube.releases import DEFAULT

GROUP = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: "g-{{.Index}}"}
spec:
  schedulingPolicy: {gang: {minCount: {{.size}}}}
"""
BASIC = GROUP.replace("gang: {minCount: {{.size}}}", "basic: {}")
MEMBER = """\
kind: Pod
metadata: {name: "member-{{.Index}}"}
spec:
  schedulingGroup: {podGroupName: "g-{{DivideInt .Index .size}}"}
  containers:
  - {name: c, resources: {requests: {cpu: "2"}}}
"""
FILES = {"group.yaml": GROUP, "member.yaml": MEMBER, "node.yaml": NODE}
ON = {"featureGates": {"GenericWorkload": True}}
ALL = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
TREES = {"featureGates": dict.fromkeys(ALL, True)}


def groups(count: int, size: int, opcode: str = "createPodGroups") -> dict[str, Any]:
    params = {"size": size}
    where = {"namespace": "n", "templatePath": "group.yaml"}
    return {"opcode": opcode, "count": count, "templateParams": params} | where


def members(count: int, size: int, **rest: Any) -> dict[str, Any]:
    where = {"namespace": "n", "podTemplatePath": "member.yaml"}
    return {"opcode": "createPods", "count": count, "templateParams": {"size": size}} | where | rest


@pytest.mark.parametrize("opcode", ["createPodGroups", "waitForPodGroups"])
def test_gangs_of_a_workload_are_placed_whole(tmp_path: Path, opcode: str) -> None:
    ops = [nodes(3), groups(2, 3, opcode), members(6, 3, collectMetrics=True)]
    run = run_ops(tmp_path, *ops, files=FILES, case=ON)
    assert len(placements(run)) == 6
    assert run.meter.pods == 6
    assert run.operations.counts()["unschedulable"] == 0


def test_groups_without_a_minimum(tmp_path: Path) -> None:
    ops = [nodes(2), groups(2, 2), members(4, 2)]
    run = run_ops(tmp_path, *ops, files=FILES | {"group.yaml": BASIC}, case=ON)
    assert len(placements(run)) == 4


COMPOSITE = """\
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: "c-{{.Index}}"}
spec:
  workloadRef: {workloadName: w, templateName: t}
  schedulingPolicy: {gang: {minGroupCount: 2}}
"""
CHILD = GROUP.replace(
    "spec:",
    """spec:
  parentCompositePodGroupName: "c-{{DivideInt .Index 2}}"
  workloadRef: {workloadName: w, templateName: t}""",
)


@pytest.mark.parametrize(("count", "fits"), [(3, 2), (4, 2), (6, 3)])
def test_composite_groups_of_a_workload_are_placed_whole(tmp_path: Path, count: int, fits: int) -> None:
    """Composite groups of two groups of two pods, of which two fit on a node."""
    composites = {"opcode": "createCompositePodGroups", "count": 3, "namespace": "n"}
    composites |= {"templatePath": "composite.yaml"}
    waits = members(12, 2, skipWaitToCompletion=True)
    ops = [nodes(count), composites, groups(6, 2), waits, {"opcode": "sleep", "duration": "1s"}]
    files = FILES | {"group.yaml": CHILD, "composite.yaml": COMPOSITE}
    run = run_ops(tmp_path, *ops, files=files, case=TREES)
    assert len(placements(run)) == 4 * min(fits, count // 2)


def test_a_gang_that_does_not_fit_is_tried_a_limited_number_of_times(tmp_path: Path) -> None:
    """It is tried again at once, as no other pod waits."""
    ops = [nodes(1), groups(1, 3), members(3, 3)]
    with pytest.raises(
        WorkloadStuckError, match=r"nothing has changed in 16 attempts: 3 pods .* \(.*1 Insufficient cpu"
    ):
        run_ops(tmp_path, *ops, files=FILES, case=ON)


def test_one_that_gets_room_later(tmp_path: Path) -> None:
    later = {"opcode": "createAny", "templatePath": "node.yaml"}
    barrier = {"opcode": "barrier", "stageRequirement": "Scheduled"}
    first = members(3, 3, skipWaitToCompletion=True)
    ops = [nodes(1), groups(1, 3), first, {"opcode": "sleep", "duration": "1s"}, later, barrier]
    named = {"node.yaml": NODE.replace("generateName: node-", "name: later")}
    run = run_ops(tmp_path, *ops, files=FILES | named, case=ON)
    assert sorted(placements(run).values()).count("later") == 1


def test_a_gang_that_is_not_complete_counts_as_gated(tmp_path: Path) -> None:
    ops = [nodes(3), groups(1, 3), members(2, 3, skipWaitToCompletion=True)]
    run = run_ops(tmp_path, *ops, files=FILES, case=ON)
    assert not placements(run)
    run.operations.follow([Wait(lambda: bool(placements(run)))])
    with pytest.raises(WorkloadFailedError, match="nothing is left to happen"):
        run.advance()


def test_a_workload_with_pod_groups_runs_as_in_v1_37(tmp_path: Path) -> None:
    """Workloads with pod groups run as in v1.37, the others as in the default release."""
    made = workload(tmp_path, case=ON)
    assert (made.feature_gates["GenericWorkload"], made.kubernetes_version) == (True, "1.37")
    assert workload(tmp_path).kubernetes_version == DEFAULT
    assert workload(tmp_path, case=TREES).feature_gates["CompositePodGroup"] is True


def test_without_the_gate_groups_are_ignored(tmp_path: Path) -> None:
    ops = [
        nodes(1),
        groups(1, 3),
        members(3, 3, skipWaitToCompletion=True),
        {"opcode": "sleep", "duration": "1s"},
    ]
    run = run_ops(tmp_path, *ops, files=FILES)
    assert len(placements(run)) == 2


URGENT = """\
kind: Pod
metadata: {generateName: urgent-}
spec:
  priority: 10
  containers:
  - {name: c, resources: {requests: {cpu: "4"}}}
"""


@pytest.mark.parametrize(
    ("mode", "preemptors", "victims"), [("", 2, 4), ("{single: {}}", 2, 4), ("{all: {}}", 1, 4)]
)
def test_groups_are_evicted_pod_by_pod_or_whole(
    tmp_path: Path, mode: str, preemptors: int, victims: int
) -> None:
    """Two groups of two, of each one pod on either node of 4 cpus: who evicts both whole frees both nodes."""
    group = GROUP.replace("spec:", f"spec:\n  disruptionMode: {mode}") if mode else GROUP
    urgent = {"opcode": "createPods", "count": 2, "namespace": "u", "podTemplatePath": "urgent.yaml"}
    ops = [nodes(2), groups(2, 2), members(4, 2), urgent | {"collectMetrics": True}]
    run = run_ops(tmp_path, *ops, files=FILES | {"group.yaml": group, "urgent.yaml": URGENT}, case=ON)
    assert sorted(placements(run).values()) == sorted(one.name for one in run.scheduler.client.list(Node)[0])
    assert (run.operations.counts()["preemptors"], run.operations.counts()["victims"]) == (
        preemptors,
        victims,
    )
    assert sum(one.count(GONE) for one in run.operations.runs) == victims
    assert run.meter.pods == 2


def test_pods_are_evicted_for_a_gang(tmp_path: Path) -> None:
    gang = GROUP.replace("spec:", "spec:\n  priority: 10")
    low_pods = {"opcode": "createPods", "count": 2, "namespace": "low", "podTemplatePath": "urgent.yaml"}
    ops = [nodes(2), low_pods, groups(1, 2), members(2, 2, collectMetrics=True)]
    files = {"group.yaml": gang, "member.yaml": MEMBER.replace("spec:", "spec:\n  priority: 10")}
    files = FILES | files | {"urgent.yaml": URGENT.replace("priority: 10", "priority: 5")}
    run = run_ops(tmp_path, *ops, files=files, case=ON)
    victims = run.operations.counts()["victims"]
    assert (run.meter.pods, victims) == (2, 2), "each goes to a node of its own, as both are empty by then"

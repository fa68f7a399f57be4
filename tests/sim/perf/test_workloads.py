"""Workloads at work: what is decided, when things happen, and what fails."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moorage.errors import InputError, NotBuiltError
from moorage.objects import Node, Pod
from moorage.scheduler import Failure, Scheduler
from moorage.scheduler.template_pods import TemplateRun, pod_of
from moorage.sim.perf import Workload, read_cases, run_workload
from moorage.sim.perf.loop import Run, WorkloadFailedError
from tests.sim.perf.make import (
    DATA,
    NODE,
    POD,
    nodes,
    placements,
    pods,
    run_of,
    run_ops,
    timer,
    workload,
)

EXCERPT = {one.full_name: one for case in read_cases(str(DATA)) for one in case.workloads}
FAILING = {
    "PreemptionBasic/5Nodes": "failed: preemption not built yet",
    "SchedulingInTreePVs/5Nodes": "failed: volumes (persistentVolumeClaimTemplatePath) not built yet",
}
BIG = POD.replace("100m", "'3'")
BIG_FIRST = BIG.replace("spec:", "spec:\n  priority: 10")


def one_by_one(scheduler: Scheduler, template: Pod, n: int, first: int = 0) -> TemplateRun:
    """What `Scheduler.schedule_by_template` does, by `schedule_one` alone."""
    rows = []
    for index in range(first, first + n):
        decision = scheduler.schedule_one(pod_of(template, index))
        if decision.node is None:
            return TemplateRun(np.array(rows, dtype=np.int32), Failure(decision.diagnosis, decision.error))
        rows.append(scheduler.table.find_row(decision.node))
    return TemplateRun(np.array(rows, dtype=np.int32))


@pytest.mark.parametrize("one", EXCERPT.values(), ids=EXCERPT)
def test_the_excerpt_runs_or_says_why_not(one: Workload) -> None:
    report = run_workload(one, timer=timer())
    assert report.status == FAILING.get(one.full_name, "done")
    if not report.failed:
        expected = {"fast_DRAExtendedResourceEnabled": 10}.get(one.name, report.measured_pods)
        assert report.measured_pods == expected > 0


@pytest.mark.parametrize("name", [name for name in EXCERPT if name not in FAILING])
def test_decisions_are_those_of_one_pod_after_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batched = run_of(EXCERPT[name])
    monkeypatch.setattr(Scheduler, "schedule_by_template", one_by_one)
    single = run_of(EXCERPT[name])
    assert placements(batched) == placements(single)
    assert batched.time.now == single.time.now
    assert batched.scheduler.cycle.start == single.scheduler.cycle.start


def test_the_same_workload_comes_out_the_same() -> None:
    one = EXCERPT["SchedulingWithMixedChurn/1000Nodes"]
    first, again = run_workload(one, timer=timer()), run_workload(one, timer=timer())
    assert placements(run_of(one)) == placements(run_of(one))
    # peak_rss_bytes is this process's own; all else follows from the input and the timer.
    fields = [name for name in type(first).__struct_fields__ if name != "peak_rss_bytes"]
    assert {name: getattr(first, name) for name in fields} == {name: getattr(again, name) for name in fields}


# ---- churn -------------------------------------------------------------------------------------------------


def churn(*paths: str, mode: str = "create", **rest: Any) -> dict[str, Any]:
    return {"opcode": "churn", "mode": mode, "templatePaths": list(paths)} | rest


@pytest.mark.parametrize(
    ("measured", "rate", "interval", "ticks"),
    [
        (1000, 500, 1000, 2),
        (999, 500, 1000, 1),
        (1000, 710, 1000, 1),
        (1000, 100, 200, 50),
        (1000, 500, 0, 4),
    ],
)
def test_churn_ticks_are_exact(tmp_path: Path, measured: int, rate: int, interval: int, ticks: int) -> None:
    """Nodes come, which take no attempt; the tick that is due when the last pod is placed counts."""
    op = churn("node.yaml", intervalMilliseconds=interval)
    run = run_ops(tmp_path, nodes(100), op, pods(measured), rate=rate)
    assert run.ticks == ticks
    assert len(run.scheduler.client.list(Node)[0]) == 100 + ticks
    assert run.time.now == Fraction(measured, rate)
    assert run.counts()["nodes"] == 100


def test_pods_of_churn_take_attempts_of_their_own(tmp_path: Path) -> None:
    run = run_ops(tmp_path, nodes(100), churn("pod.yaml", intervalMilliseconds=100), pods(100), rate=100)
    # A tick at 0.1 s, 0.2 s, …: pods of churn have their turn after those that were there before.
    assert (run.ticks, run.time.now) == (10, 1)
    run = run_ops(
        tmp_path,
        nodes(100),
        churn("first.yaml", intervalMilliseconds=100),
        pods(100),
        rate=100,
        files={"first.yaml": POD.replace("spec:", "spec:\n  priority: 1")},
    )
    # Each takes 10 ms of every 100: after 1.1 s and 11 ticks, 10 of them have been placed.
    assert (run.ticks, run.time.now) == (11, Fraction(11, 10))
    assert sum(one.template.spec.priority == 1 and one.state[0] >= 0 for one in run.runs) == 10


def test_recreate_creates_for_n_ticks_and_deletes_for_n(tmp_path: Path) -> None:
    seen = []

    def look(run: Run) -> None:
        run.time.every(Fraction(1), lambda: seen.append(count(run)) is None)

    def count(run: Run) -> tuple[int, int]:
        services, _ = run.scheduler.client.list("Service")
        return len(services), sum(int((one.state >= 0).sum()) for one in run.runs)

    files = {"service.yaml": "kind: Service\nmetadata: {generateName: s-}\nspec: {selector: {a: b}}\n"}
    op = churn("service.yaml", "pod.yaml", mode="recreate", number=2, intervalMilliseconds=1000)
    one = workload(tmp_path, nodes(2), op, {"opcode": "sleep", "duration": "7500ms"}, files=files)
    run_of(one, before=look)
    # What looks is called before churn is: it sees what the tick of a second ago did.
    assert seen == [(0, 0), (1, 1), (2, 2), (1, 1), (0, 0), (1, 1), (2, 2)]


def test_create_ends_after_its_number(tmp_path: Path) -> None:
    op = churn("pod.yaml", number=3, intervalMilliseconds=100)
    run = run_ops(tmp_path, nodes(2), op, {"opcode": "sleep", "duration": "2s"})
    assert run.ticks == 3
    assert list(placements(run)) == ["namespace-1/pod-0", "namespace-1/pod-1", "namespace-1/pod-2"]


# ---- pods that wait ----------------------------------------------------------------------------------------


def test_pods_that_fit_nowhere_fail_the_wait_for_them(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailedError) as failed:
        run_ops(tmp_path, nodes(2), pods(5, podTemplatePath="big.yaml"), files={"big.yaml": BIG})
    assert str(failed.value) == (
        "nothing is left to happen: 3 pods fit nowhere (0/2 nodes are available: 2 Insufficient cpu.)"
    )
    report = run_workload(
        workload(tmp_path, nodes(2), pods(5, podTemplatePath="big.yaml"), files={"big.yaml": BIG}),
        timer=timer(),
    )
    assert (report.status, report.unschedulable) == (f"failed: {failed.value}", 3)


def test_they_are_tried_again_when_a_node_comes_and_their_backoff_is_over(tmp_path: Path) -> None:
    waiting = pods(5, podTemplatePath="big.yaml", skipWaitToCompletion=True)
    run = run_ops(
        tmp_path,
        nodes(2),
        waiting,
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        nodes(3),
        {"opcode": "barrier"},
        files={"big.yaml": BIG},
    )
    assert len(placements(run)) == len(set(placements(run).values())) == 5
    # Five attempts, a second's pause, three attempts more.
    assert run.time.now == Fraction(5, 500) + 1 + Fraction(3, 500)


def test_and_when_a_pod_goes(tmp_path: Path) -> None:
    run = run_ops(
        tmp_path,
        nodes(2),
        pods(2, podTemplatePath="big.yaml", namespace="old"),
        pods(2, podTemplatePath="big.yaml", namespace="new", skipWaitToCompletion=True),
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        {"opcode": "deletePods", "namespace": "old"},
        {"opcode": "barrier", "namespaces": ["new"]},
        files={"big.yaml": BIG},
    )
    assert sorted(placements(run)) == ["new/pod-0", "new/pod-1"]
    assert run.scheduler.table.requested["cpu"].sum() == 6000


def test_a_pod_that_comes_helps_those_with_affinity(tmp_path: Path) -> None:
    affine = """\
    affinity:
      podAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {labelSelector: {matchLabels: {color: blue}}, topologyKey: kubernetes.io/hostname}
"""
    files = {
        "affine.yaml": POD.replace("spec:\n", f"spec:\n{affine.replace('    aff', '  aff', 1)}"),
        "blue.yaml": POD.replace("pod-}", "blue-, labels: {color: blue}}"),
    }
    run = run_ops(
        tmp_path,
        nodes(5),
        pods(3, podTemplatePath="affine.yaml", namespace="n", skipWaitToCompletion=True),
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        pods(1, podTemplatePath="blue.yaml", namespace="n"),
        {"opcode": "barrier"},
        files=files,
    )
    assert len(set(placements(run).values())) == 1


def test_what_waits_too_long_times_out(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailedError, match=r"^timed out after 600 s: 1 pods fit nowhere"):
        run_ops(
            tmp_path,
            nodes(1),
            churn("pod.yaml", intervalMilliseconds=100_000),
            pods(1, podTemplatePath="huge.yaml"),
            files={"huge.yaml": BIG.replace("'3'", "'9'")},
        )


def test_gated_pods_are_not_tried(tmp_path: Path) -> None:
    gated = POD.replace("spec:\n", "spec:\n  schedulingGates: [{name: wait}]\n")
    files = {"gated.yaml": gated, "free.yaml": POD.replace("generateName: pod-", "name: 'pod-{{.Index}}'")}
    hold = pods(4, podTemplatePath="gated.yaml", namespace="n", skipWaitToCompletion=True)
    attempted = {"opcode": "barrier", "stageRequirement": "Attempted"}
    run = run_ops(tmp_path, nodes(2), hold, attempted, files=files)
    assert (placements(run), run.time.now) == ({}, 0)
    free = {"opcode": "updateAny", "templatePath": "free.yaml", "namespace": "n", "count": 2}
    run = run_ops(
        tmp_path, nodes(2), hold, attempted, free, {"opcode": "sleep", "duration": "1s"}, files=files
    )
    assert list(placements(run)) == ["n/pod-0", "n/pod-1"]
    with pytest.raises(WorkloadFailedError, match="nothing is left to happen"):
        run_ops(tmp_path, nodes(2), hold, {"opcode": "barrier"}, files=files)


# ---- deletions, updates, time ------------------------------------------------------------------------------


def test_pods_are_deleted_at_their_rate_in_the_order_of_names(tmp_path: Path) -> None:
    gone: list[tuple[Fraction, str]] = []

    def look(run: Run) -> None:
        delete = run.cluster.delete_pod

        def deleted(one: Any, number: int) -> bool:
            gone.append((run.time.now, one.name(number)))
            return delete(one, number)

        run.cluster.delete_pod = deleted  # type: ignore[method-assign]

    def ran(**rest: Any) -> Run:
        gone.clear()
        op = {"opcode": "deletePods", "namespace": "n", "deletePodsPerSecond": 10}
        return run_of(workload(tmp_path, nodes(2), pods(12, namespace="n"), op | rest, pods(5)), before=look)

    run = ran()
    start = Fraction(12, 500)
    assert [when for when, _ in gone] == [start + Fraction(step, 10) for step in range(1, 13)]
    assert [name for _, name in gone][:5] == ["pod-0", "pod-1", "pod-10", "pod-11", "pod-2"]
    assert run.time.now == start + Fraction(12, 10) + Fraction(5, 500)
    assert len(placements(run)) == 5
    assert len(placements(ran(skipWaitToCompletion=True))) == 17
    assert gone == []


def test_only_pods_with_the_labels_are_deleted(tmp_path: Path) -> None:
    files = {"labelled.yaml": POD.replace("pod-}", "x-, labels: {a: b}}")}
    run = run_ops(
        tmp_path,
        nodes(2),
        pods(2, namespace="n"),
        pods(2, namespace="n", podTemplatePath="labelled.yaml"),
        {"opcode": "deletePods", "namespace": "n", "labelSelector": {"a": "b"}},
        files=files,
    )
    assert sorted(placements(run)) == ["n/pod-0", "n/pod-1"]


def test_pods_with_finalizers_stay_where_they_are(tmp_path: Path) -> None:
    files = {"final.yaml": POD.replace("pod-}", "pod-, finalizers: [a/b]}")}
    held = pods(20, namespace="n", podTemplatePath="final.yaml", skipWaitToCompletion=True)
    delete = {"opcode": "deletePods", "namespace": "n", "deletePodsPerSecond": 100}
    run = run_ops(tmp_path, nodes(2), held, delete, rate=100, files=files)
    # Names go 0, 1, 10, 11, …: pod 10 is deleted when pod 2 was placed, and pod 17 when pod 9 was, so the next
    # two to be placed, and deleted at once, are pods 18 and 19.
    assert sorted(placements(run)) == sorted(f"n/pod-{number}" for number in (*range(10), 18, 19))
    table = run.scheduler.table
    assert table.requested["cpu"].sum() == 1200
    on_nodes = run.scheduler.cache.snapshot()
    assert all(pod.metadata.deletion_timestamp for info in on_nodes.nodes.values() for pod in info.pods)


def test_steady_state_replaces_each_placed_pod(tmp_path: Path) -> None:
    steady = pods(3, steadyState=True, duration="2s", collectMetrics=True)
    run = run_ops(tmp_path, nodes(2), steady, rate=100)
    assert run.time.now == 2
    assert run.meter.pods == 200
    assert placements(run) == {}
    assert run.scheduler.table.requested["pods"].sum() == 0
    with pytest.raises(WorkloadFailedError, match="no pod was placed"):
        run_ops(tmp_path, pods(3, steadyState=True, duration="2s"))


def test_sleep_lets_time_pass_and_scheduling_go_on(tmp_path: Path) -> None:
    run = run_ops(
        tmp_path,
        nodes(2),
        pods(10, skipWaitToCompletion=True),
        {"opcode": "sleep", "duration": "1500ms"},
        rate=10,
    )
    assert run.time.now == Fraction(3, 2)
    assert len(placements(run)) == 10


def test_objects_are_updated_at_their_rate(tmp_path: Path) -> None:
    named = NODE.replace("generateName: node-", "name: 'n{{.Index}}'")
    files = {"named.yaml": named, "more.yaml": named.replace('"4"', '"8"')}
    update = {"opcode": "updateAny", "templatePath": "more.yaml", "count": 2, "updatePerSecond": 4}
    run = run_ops(tmp_path, nodes(3, nodeTemplatePath="named.yaml"), update, files=files)
    assert run.time.now == Fraction(1, 2)
    cpus = run.scheduler.table.allocatable["cpu"]
    rows = [run.scheduler.table.find_row(f"n{number}") for number in range(3)]
    assert [cpus[row] for row in rows] == [8000, 8000, 4000]
    with pytest.raises(InputError, match=r"Node n0: nodes \"n0\" not found"):
        run_ops(tmp_path, nodes(1), update, files=files)


def test_pods_on_nodes_are_updated_where_they_are(tmp_path: Path) -> None:
    named = POD.replace("generateName: pod-", "name: 'pod-{{.Index}}'")
    files = {"named.yaml": named, "less.yaml": named.replace("100m", "50m")}
    update = {"opcode": "updateAny", "templatePath": "less.yaml", "count": 2, "namespace": "n"}
    made = pods(3, namespace="n", podTemplatePath="named.yaml")
    run = run_ops(tmp_path, nodes(2), made, update, files=files)
    assert len(placements(run)) == 3
    assert run.scheduler.table.requested["cpu"].sum() == 200
    run = run_ops(tmp_path, nodes(2), made, update, {"opcode": "deletePods", "namespace": "n"}, files=files)
    assert run.scheduler.table.requested["cpu"].sum() == 0
    with pytest.raises(InputError, match="Pod other/pod-0: there is no pod of this name"):
        run_ops(tmp_path, nodes(2), made, update | {"namespace": "other"}, files=files)


def test_pods_in_each_namespace_of_a_set(tmp_path: Path) -> None:
    inner = {"opcode": "createPods", "count": 2}
    op = {"opcode": "createPodSets", "namespacePrefix": "x", "count": 3, "createPodsOp": inner}
    run = run_ops(tmp_path, nodes(2), op)
    assert sorted(placements(run)) == [f"x-{space}/pod-{number}" for space in range(3) for number in range(2)]


def test_without_a_template_pods_are_scheduler_perfs_own(tmp_path: Path) -> None:
    run = run_ops(tmp_path, nodes(1), pods(2), case={"defaultPodTemplatePath": ""})
    assert run.scheduler.table.requested["cpu"].sum() == 200
    assert run.scheduler.table.requested["memory"].sum() == 1000 * 2**20


def test_the_configuration_and_the_gates_reach_the_scheduler() -> None:
    run = run_of(EXCERPT["HostPortConflict/10Nodes_10Pods_10BatchSize"])
    (plugin,) = (one for one in run.scheduler.profile.plugins if one.name == "PodTopologySpread")
    assert plugin.args["defaultingType"] == "List"


# ---- what fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "files", "status"),
    [
        ([{"opcode": "createPodGroups", "count": 1}], {}, "createPodGroups not built yet"),
        ([pods(1, persistentVolumeTemplatePath="x")], {}, "volumes (persistentVolumeClaimTemplatePath)"),
        (
            [nodes(1, nodeAllocatableStrategy={"csiNodeAllocatable": {"d": {"count": 3}}})],
            {},
            "volume limits (csiNodeAllocatable) not built yet",
        ),
        (
            [{"opcode": "createAny", "templatePath": "x.yaml"}],
            {"x.yaml": "kind: ResourceSlice\nmetadata: {name: a}"},
            "objects of kind ResourceSlice not built yet",
        ),
        (
            [nodes(1), pods(1, podTemplatePath="x.yaml")],
            {"x.yaml": POD.replace("spec:", "spec:\n  resourceClaims: [{name: a}]")},
            "dynamic resource allocation (spec.resourceClaims) not built yet",
        ),
        (
            [nodes(1), pods(1, podTemplatePath="x.yaml")],
            {"x.yaml": POD.replace("spec:", "spec:\n  schedulingGroup: {podGroupName: a}")},
            "pod groups (spec.schedulingGroup) not built yet",
        ),
        (
            [nodes(1), pods(1, podTemplatePath="x.yaml")],
            {"x.yaml": POD + "  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]\n"},
            "VolumeBinding, persistent volume claims (pod namespace-1/pod-0) not built yet",
        ),
        (
            [nodes(1), pods(1, podTemplatePath="x.yaml")],
            {"x.yaml": POD.replace("spec:", "spec:\n  schedulerName: mine")},
            "no profile of the name mine",
        ),
    ],
)
def test_what_is_not_built_fails_its_workload(
    tmp_path: Path, ops: list[dict[str, Any]], files: dict[str, str], status: str
) -> None:
    report = run_workload(workload(tmp_path, *ops, files=files), timer=timer())
    assert report.status.startswith("failed: ")
    assert status in report.status
    assert report.failed


@pytest.mark.parametrize(
    ("first", "evicts"),
    [
        (BIG_FIRST, True),
        (BIG_FIRST.replace("priority: 10", "priority: 0"), False),
        (BIG_FIRST.replace("priority: 10", "priority: 10\n  preemptionPolicy: Never"), False),
        (BIG_FIRST.replace("'3'", "'9'"), False),  # more than a node has: nobody's going would help
    ],
)
def test_pods_that_would_have_to_evict_fail_the_workload(tmp_path: Path, first: str, evicts: bool) -> None:
    ops = (
        nodes(1),
        pods(1, podTemplatePath="big.yaml"),
        pods(1, podTemplatePath="first.yaml", skipWaitToCompletion=True),
        {"opcode": "sleep", "duration": "1s"},
    )
    one = workload(tmp_path, *ops, files={"big.yaml": BIG, "first.yaml": first})
    if evicts:
        with pytest.raises(NotBuiltError, match="^preemption$"):
            run_of(one)
    else:
        assert run_of(one).counts()["unschedulable"] == 1


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([{"opcode": "stopCollectingMetrics"}], "workloadTemplate[0]: opcode: no startCollectingMetrics"),
        (
            [{"opcode": "startCollectingMetrics", "namespaces": ["a"]}, pods(1, collectMetrics=True)],
            "workloadTemplate[1]: collectMetrics: metrics are being collected already",
        ),
    ],
)
def test_operations_in_the_wrong_order(tmp_path: Path, ops: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError) as refused:
        run_ops(tmp_path, *ops)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/perf.yaml: Case/small: ")


def test_a_bad_scheduler_configuration(tmp_path: Path) -> None:
    files = {"config.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Nothing\n"}
    one = workload(tmp_path, nodes(1), case={"schedulerConfigPath": "config.yaml"}, files=files)
    with pytest.raises(InputError, match=r"config.yaml: .*Nothing"):
        run_workload(one)

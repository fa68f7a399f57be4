"""Operations in time: churn, and pods that wait because they fit nowhere or are gated."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from bench.scheduler_perf import run_workload
from bench.scheduler_perf.measured_run import MeasuredRun
from bench.scheduler_perf.operation_cursor import WorkloadFailedError
from tests.benchmarks.scheduler_perf.make import (
    BIG,
    POD,
    churn,
    nodes,
    placements,
    pods,
    run_of,
    run_ops,
    timer,
    workload,
)

from moorage.kube import Node


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
    assert run.operations.ticks == ticks
    assert len(run.scheduler.client.list(Node)[0]) == 100 + ticks
    assert run.clock.exact == Fraction(measured, rate)
    assert run.operations.counts()["nodes"] == 100


def test_pods_of_churn_take_attempts_of_their_own(tmp_path: Path) -> None:
    run = run_ops(tmp_path, nodes(100), churn("pod.yaml", intervalMilliseconds=100), pods(100), rate=100)
    # A tick at 0.1 s, 0.2 s, …: pods of churn have their turn after those that were there before.
    assert (run.operations.ticks, run.clock.exact) == (10, 1)
    run = run_ops(
        tmp_path,
        nodes(100),
        churn("first.yaml", intervalMilliseconds=100),
        pods(100),
        rate=100,
        files={"first.yaml": POD.replace("spec:", "spec:\n  priority: 1")},
    )
    # Each takes 10 ms of every 100: after 1.1 s and 11 ticks, 10 of them have been placed.
    assert (run.operations.ticks, run.clock.exact) == (11, Fraction(11, 10))
    assert sum(one.template.spec.priority == 1 and one.state[0] >= 0 for one in run.operations.runs) == 10


def test_recreate_creates_for_n_ticks_and_deletes_for_n(tmp_path: Path) -> None:
    seen = []

    def look(run: MeasuredRun) -> None:
        run.clock.every(Fraction(1), lambda: seen.append(count(run)) is None)

    def count(run: MeasuredRun) -> tuple[int, int]:
        services, _ = run.scheduler.client.list("Service")
        return len(services), sum(int((one.state >= 0).sum()) for one in run.operations.runs)

    files = {"service.yaml": "kind: Service\nmetadata: {generateName: s-}\nspec: {selector: {a: b}}\n"}
    op = churn("service.yaml", "pod.yaml", mode="recreate", number=2, intervalMilliseconds=1000)
    one = workload(tmp_path, nodes(2), op, {"opcode": "sleep", "duration": "7500ms"}, files=files)
    run_of(one, before=look)
    # What looks is called before churn is: it sees what the tick of a second ago did.
    assert seen == [(0, 0), (1, 1), (2, 2), (1, 1), (0, 0), (1, 1), (2, 2)]


def test_create_ends_after_its_number(tmp_path: Path) -> None:
    op = churn("pod.yaml", number=3, intervalMilliseconds=100)
    run = run_ops(tmp_path, nodes(2), op, {"opcode": "sleep", "duration": "2s"})
    assert run.operations.ticks == 3
    assert list(placements(run)) == ["namespace-1/pod-0", "namespace-1/pod-1", "namespace-1/pod-2"]


@pytest.mark.parametrize(
    ("name", "mode", "created"), [("p", "create", 1), ("p", "recreate", 4), ("p-0", "recreate", 4)]
)
def test_what_churn_cannot_create_is_left_out(tmp_path: Path, name: str, mode: str, created: int) -> None:
    """As its name is taken: of three ticks in mode recreate, one creates, one does nothing, one deletes."""
    files = {"named.yaml": POD.replace("generateName: pod-", f"name: {name}")}
    op = churn("named.yaml", mode=mode, number=2, intervalMilliseconds=100)
    run = run_ops(tmp_path, nodes(1), op, {"opcode": "sleep", "duration": "1s"}, files=files)
    assert len(run.operations.runs) == created
    service = {"service.yaml": "kind: Service\nmetadata: {name: s}\nspec: {selector: {a: b}}\n"}
    op = churn("service.yaml", mode=mode, number=2, intervalMilliseconds=100)
    run = run_ops(tmp_path, nodes(1), op, {"opcode": "sleep", "duration": "1s"}, files=service)
    assert run.operations.ticks == (2 if mode == "create" else 10)


# ---- barriers ---------------------------------------------------------------------------------------------


def test_a_barrier_waits_for_as_many_pods_as_nobody_waited_for(tmp_path: Path) -> None:
    """In namespaces that others than churn made, and whichever pods they are."""
    files = {"big.yaml": BIG}
    big = {"podTemplatePath": "big.yaml"}
    op = churn("big.yaml", number=2, intervalMilliseconds=100)
    sleep = {"opcode": "sleep", "duration": "1s"}
    late = pods(1, skipWaitToCompletion=True)
    run = run_ops(tmp_path, nodes(1), op, sleep, late, {"opcode": "barrier"}, files=files)
    assert placements(run).keys() == {"namespace-1/pod-0", "namespace-3/pod-0"}
    there, late = pods(2, namespace="n"), pods(2, namespace="n", skipWaitToCompletion=True, **big)
    run = run_ops(tmp_path, nodes(1), there, late, {"opcode": "barrier"}, files=files)
    assert run.clock.exact == Fraction(2, 500)
    labelled = {"opcode": "barrier", "labelSelector": {"a": "b"}}
    with pytest.raises(WorkloadFailedError, match="pods fit nowhere"):
        run_ops(tmp_path, nodes(1), there, late, labelled, files=files)


def test_a_barrier_knows_no_namespace_that_it_has_waited_for(tmp_path: Path) -> None:
    barrier = {"opcode": "barrier", "namespaces": ["n"]}
    attempted = barrier | {"stageRequirement": "Attempted"}
    ops = [nodes(1), pods(1, namespace="n", skipWaitToCompletion=True)]
    assert len(placements(run_ops(tmp_path, *ops, attempted, attempted, barrier))) == 1
    for others in ([], [*ops, {"opcode": "barrier"}], [churn("pod.yaml", namespace="n")]):
        with pytest.raises(WorkloadFailedError, match=r"^unknown namespace n$"):
            run_ops(tmp_path, *others, barrier)


# ---- pods that wait ---------------------------------------------------------------------------------------


def test_pods_that_fit_nowhere_fail_the_wait_for_them(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailedError) as failed:
        run_ops(tmp_path, nodes(2), pods(5, podTemplatePath="big.yaml"), files={"big.yaml": BIG})
    # In between, those that have been unschedulable for too long are tried once more.
    assert str(failed.value) == (
        "timed out after 600 s: 3 pods fit nowhere (0/2 nodes are available: 2 Insufficient cpu. no new "
        "claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for "
        "incoming pod.)"
    )
    report = run_workload(
        workload(tmp_path, nodes(2), pods(5, podTemplatePath="big.yaml"), files={"big.yaml": BIG}),
        timer=timer(),
    )
    assert (report.failed, report.is_stuck) == (False, True)
    assert (report.status, report.unschedulable) == (f"stuck: {failed.value}", 3)


@pytest.mark.parametrize(("early", "begin"), [(True, Fraction(5, 500)), (False, Fraction(2))])
def test_they_are_tried_again_when_a_node_comes(tmp_path: Path, early: bool, begin: Fraction) -> None:
    """At once, after five attempts, as no other pod waits; without the gate when their backoff of a
    second is over, which is looked at once a second."""
    waiting = pods(5, podTemplatePath="big.yaml", skipWaitToCompletion=True)
    run = run_ops(
        tmp_path,
        nodes(2),
        waiting,
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        nodes(3),
        {"opcode": "barrier"},
        files={"big.yaml": BIG},
        featureGates={"SchedulerPopFromBackoffQ": early},
    )
    assert len(placements(run)) == len(set(placements(run).values())) == 5
    assert run.clock.exact == begin + Fraction(3, 500)


def test_and_when_churn_brings_a_node_or_takes_a_pod(tmp_path: Path) -> None:
    op = churn("node.yaml", intervalMilliseconds=5000)
    run = run_ops(tmp_path, nodes(1), op, pods(2, podTemplatePath="big.yaml"), files={"big.yaml": BIG})
    assert run.clock.exact == 5 + Fraction(1, 500)
    op = churn("big.yaml", mode="recreate", number=1, intervalMilliseconds=5000)
    wait = {"opcode": "sleep", "duration": "6s"}
    big = pods(1, podTemplatePath="big.yaml")
    run = run_ops(tmp_path, nodes(1), op, wait, big, files={"big.yaml": BIG})
    assert run.clock.exact == 10 + Fraction(1, 500)


def test_gated_pods_are_not_tried(tmp_path: Path) -> None:
    gated = POD.replace("spec:\n", "spec:\n  schedulingGates: [{name: wait}]\n")
    files = {"gated.yaml": gated, "free.yaml": POD.replace("generateName: pod-", "name: 'pod-{{.Index}}'")}
    hold = pods(4, podTemplatePath="gated.yaml", namespace="n", skipWaitToCompletion=True)
    attempted = {"opcode": "barrier", "stageRequirement": "Attempted"}
    run = run_ops(tmp_path, nodes(2), hold, attempted, files=files)
    assert (placements(run), run.clock.exact) == ({}, 0)
    free = {"opcode": "updateAny", "templatePath": "free.yaml", "namespace": "n", "count": 2}
    run = run_ops(
        tmp_path, nodes(2), hold, attempted, free, {"opcode": "sleep", "duration": "1s"}, files=files
    )
    assert list(placements(run)) == ["n/pod-0", "n/pod-1"]
    with pytest.raises(WorkloadFailedError, match="nothing is left to happen"):
        run_ops(tmp_path, nodes(2), hold, {"opcode": "barrier"}, files=files)


# ---- preemption --------------------------------------------------------------------------------------------

HIGH = BIG.replace("pod-", "high-").replace("spec:", "spec:\n  priority: 10")


def test_pods_of_high_priority_evict_others_and_come_again(tmp_path: Path) -> None:
    low = POD.replace("100m", "'1'")
    files = {"low.yaml": low, "high.yaml": HIGH}
    run = run_ops(
        tmp_path,
        nodes(3),
        pods(12, podTemplatePath="low.yaml", namespace="low"),
        pods(3, podTemplatePath="high.yaml", namespace="high", collectMetrics=True),
        files=files,
    )
    counts = run.operations.counts()
    assert (counts["preemptors"], counts["victims"], counts["unschedulable"]) == (3, 9, 0)
    on = placements(run)
    assert sum(name.startswith("high/") for name in on) == 3
    assert len({node for name, node in on.items() if name.startswith("high/")}) == 3
    assert sum(name.startswith("low/") for name in on) == 3
    assert run.meter.pods == 3
    assert run.clock.exact == Fraction(12 + 3 + 3, 500), "each preemptor takes two attempts"
    report = run_workload(
        workload(
            tmp_path,
            nodes(1),
            pods(4, podTemplatePath="low.yaml"),
            pods(1, podTemplatePath="high.yaml"),
            files=files,
        ),
        timer=timer(),
    )
    assert (report.status, report.preemptors, report.victims) == ("done", 1, 3)

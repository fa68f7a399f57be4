"""Operations: deletions, updates, sets, steady state, sleep."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf.measured_run import MeasuredRun
from bench.scheduler_perf.operation_cursor import WorkloadFailedError
from tests.benchmarks.scheduler_perf.make import (
    BIG,
    NODE,
    POD,
    nodes,
    placements,
    pods,
    run_of,
    run_ops,
    workload,
)

from moorage.errors import InputError


def test_pods_are_deleted_at_their_rate_in_the_order_of_names(tmp_path: Path) -> None:
    gone: list[tuple[Fraction, str]] = []

    def look(run: MeasuredRun) -> None:
        delete = run.operations.cluster.delete_pod

        def deleted(one: Any, number: int) -> None:
            gone.append((run.clock.exact, one.name(number)))
            delete(one, number)

        run.operations.cluster.delete_pod = deleted  # type: ignore[method-assign]

    def ran(**rest: Any) -> MeasuredRun:
        gone.clear()
        op = {"opcode": "deletePods", "namespace": "n", "deletePodsPerSecond": 10}
        return run_of(workload(tmp_path, nodes(2), pods(12, namespace="n"), op | rest, pods(5)), before=look)

    run = ran()
    start = Fraction(12, 500)
    assert [when for when, _ in gone] == [start + Fraction(step, 10) for step in range(1, 13)]
    assert [name for _, name in gone][:5] == ["pod-0", "pod-1", "pod-10", "pod-11", "pod-2"]
    assert run.clock.exact == start + Fraction(12, 10) + Fraction(5, 500)
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
    # Names go 0, 1, 10, 11, …: pod 10 is deleted when pod 2 was placed, and pod 17 when pod 9 was, so the
    # next two to be placed, and deleted at once, are pods 18 and 19.
    assert sorted(placements(run)) == sorted(f"n/pod-{number}" for number in (*range(10), 18, 19))
    table = run.scheduler.table
    assert table.requested["cpu"].sum() == 1200
    on_nodes = run.scheduler.cache.snapshot()
    assert all(pod.metadata.deletion_timestamp for info in on_nodes.nodes.values() for pod in info.pods)


def test_steady_state_starts_over_when_all_pods_are_placed(tmp_path: Path) -> None:
    """And deletes all pods of the namespace then, those of others, too."""
    steady = pods(3, steadyState=True, duration="2s", collectMetrics=True, namespace="n")
    run = run_ops(tmp_path, nodes(2), pods(1, namespace="n"), pods(1), steady, rate=100)
    assert run.clock.exact == 2 + Fraction(2, 100)
    assert run.meter.pods == 200
    assert placements(run).keys() == {"namespace-2/pod-0", "n/pod-199", "n/pod-200"}
    assert run.scheduler.table.requested["pods"].sum() == 3
    files = {"big.yaml": BIG}
    steady = pods(4, steadyState=True, duration="5s", collectMetrics=True, podTemplatePath="big.yaml")
    assert run_ops(tmp_path, nodes(2), steady, files=files).meter.pods == 2
    steady["podTemplatePath"] = "named.yaml"
    files = {"named.yaml": POD.replace("generateName: pod-", "name: pod")}
    assert run_ops(tmp_path, nodes(1), steady | {"count": 1}, files=files, rate=10).meter.pods == 50
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
    assert run.clock.exact == Fraction(3, 2)
    assert len(placements(run)) == 10
    assert run.scheduler.cache.clock() == 1.5


def test_objects_are_updated_at_their_rate(tmp_path: Path) -> None:
    named = NODE.replace("generateName: node-", "name: 'n{{.Index}}'")
    files = {"named.yaml": named, "more.yaml": named.replace('"4"', '"8"')}
    update = {"opcode": "updateAny", "templatePath": "more.yaml", "count": 2, "updatePerSecond": 4}
    run = run_ops(tmp_path, nodes(3, nodeTemplatePath="named.yaml"), update, files=files)
    assert run.clock.exact == Fraction(1, 2)
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
    run = run_ops(tmp_path, nodes(2), made, update, update, files=files)
    assert len(placements(run)) == 3
    assert run.scheduler.table.requested["cpu"].sum() == 200
    run = run_ops(tmp_path, nodes(2), made, update, {"opcode": "deletePods", "namespace": "n"}, files=files)
    assert run.scheduler.table.requested["cpu"].sum() == 0
    with pytest.raises(InputError, match=r"Pod other/pod-0: pods \"pod-0\" not found"):
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

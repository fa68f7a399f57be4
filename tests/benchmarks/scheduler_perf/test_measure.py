"""Measuring: chunks, percentiles, and the garbage collector."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from bench.scheduler_perf import run_workload
from bench.scheduler_perf.measure import CHUNK, Meter, percentile
from bench.scheduler_perf.pods import PodRun, Window
from tests.benchmarks.scheduler_perf.make import nodes, pods, run_ops, timer, workload

MILLISECOND = 1_000_000


def test_time_is_counted_per_pod_and_per_chunk(tmp_path: Path) -> None:
    meter = run_ops(tmp_path, nodes(20), pods(5), pods(2 * CHUNK + 10, collectMetrics=True)).meter
    # Every look at the timer takes 1 ms: one after the pops, one after the placing, one at the end.
    assert meter.pods == 2 * CHUNK + 10
    assert meter.all_ns == meter.pods_ns == 3 * MILLISECOND
    assert meter.placing_all_ns == meter.placing_ns == MILLISECOND
    assert meter.chunks == pytest.approx([3 * MILLISECOND / meter.pods] * 3)
    assert (meter.queue_ns, meter.queued) == (MILLISECOND, 2 * CHUNK + 10)  # all were popped in between


def _try(meter: Meter, pod_run: PodRun, placed: int, nanoseconds: int) -> None:
    pods = [(pod_run, at) for at in range(placed)]
    meter.popped(pods, 0)
    meter.tried_each(pods, pods, nanoseconds)


def test_each_pod_of_a_batch_counts_for_as_much(tmp_path: Path) -> None:
    run = run_ops(tmp_path, nodes(1), pods(1))
    meter, pod_run = Meter(), run.operations.runs[0]
    meter.open(Window(frozenset([pod_run.template.metadata.namespace]), {}))
    first, second = 2 * CHUNK + 10, CHUNK - 10
    _try(meter, pod_run, first, 2 * first)
    meter.tried(3 * first, 1.0, first)
    assert meter.batch_limit() == second
    _try(meter, pod_run, second, second)
    meter.tried(2 * second, 0.5, second)
    meter.close()
    assert meter.chunks == [3, 3, (3 * 10 + second) / CHUNK]
    assert (meter.pods_ns, meter.all_ns) == (3 * first + second, 3 * first + 2 * second)
    assert meter.placing_ns == meter.placing_all_ns == 2 * first + second


def test_chunks_go_on_over_batches_that_events_cut_short(tmp_path: Path) -> None:
    churn = {"opcode": "churn", "mode": "create", "templatePaths": ["node.yaml"], "intervalMilliseconds": 200}
    meter = run_ops(tmp_path, nodes(10), churn, pods(CHUNK, collectMetrics=True)).meter
    # Batches of 100, 100 and 56.
    assert meter.chunks == pytest.approx([3 * 3 * MILLISECOND / CHUNK])


def test_pods_beside_the_measured_ones_count_for_all_alone(tmp_path: Path) -> None:
    meter = run_ops(
        tmp_path,
        nodes(10),
        {"opcode": "startCollectingMetrics", "namespaces": ["a"]},
        pods(10, namespace="a"),
        pods(10, namespace="b"),
        {"opcode": "stopCollectingMetrics"},
        pods(10, namespace="a"),
    ).meter
    assert (meter.pods, meter.placing_ns, meter.placing_all_ns) == (10, MILLISECOND, 2 * MILLISECOND)
    assert (meter.pods_ns, meter.all_ns) == (3 * MILLISECOND, 6 * MILLISECOND)


def test_measured_pods_have_the_labels(tmp_path: Path) -> None:
    text = "metadata: {generateName: x-, labels: {a: b, c: d}}\nspec: {containers: [{name: c}]}"
    labelled = {"labelled.yaml": text}
    run = run_ops(
        tmp_path,
        nodes(10),
        {"opcode": "startCollectingMetrics", "namespaces": ["n"], "labelSelector": {"a": "b"}},
        pods(4, namespace="n"),
        pods(3, namespace="n", podTemplatePath="labelled.yaml"),
        {"opcode": "stopCollectingMetrics"},
        files=labelled,
    )
    assert run.meter.pods == 3
    assert run.operations.counts()["init_pods"] == 4


def test_the_report_puts_it_together(tmp_path: Path) -> None:
    one = workload(tmp_path, nodes(10), pods(5), pods(100, collectMetrics=True), threshold=250)
    report = run_workload(one, timer=timer())
    assert (report.status, report.nodes, report.init_pods, report.measured_pods) == ("done", 10, 5, 100)
    assert (report.seconds, report.placing_seconds) == (0.003, 0.001)
    assert report.pods_per_second == pytest.approx(100 / 0.003)
    assert report.ratio == 133.3
    assert (report.ns_per_pod.mean, report.ns_per_pod.p50, report.ns_per_pod.p99) == (30_000,) * 3
    assert report.placing_ns_per_pod == 10_000
    assert report.queue_ns_per_pod == 10_000
    assert report.virtual_seconds == 0.42
    assert report.peak_rss_bytes > 10_000_000


def test_percentiles_are_nearest_rank() -> None:
    values = [float(value) for value in range(200, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99)) == (100, 198)
    assert percentile([7.0], 99) == 7
    assert percentile([], 50) is None


def test_the_garbage_collector_rests_while_metrics_are_collected(tmp_path: Path) -> None:
    seen = []
    one = workload(tmp_path, nodes(1), pods(1), pods(1, collectMetrics=True), pods(1))

    def watching() -> int:
        seen.append(gc.isenabled())
        return len(seen)

    assert gc.isenabled()
    run_workload(one, timer=watching)
    # Three looks per batch; one more of measured pods, at the end.
    assert seen == [True] * 3 + [False] * 4 + [True] * 3
    # Neither a failure nor a collector that was off before is a reason to leave it otherwise.
    failing = workload(tmp_path, nodes(1), pods(200, collectMetrics=True))
    assert run_workload(failing, timer=timer()).status.startswith("stuck: timed out after 600 s")
    assert gc.isenabled()
    gc.disable()
    try:
        run_workload(one, timer=timer())
        assert not gc.isenabled()
    finally:
        gc.enable()

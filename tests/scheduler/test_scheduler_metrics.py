"""What `Scheduler.measure` counts and times."""

from __future__ import annotations

from itertools import accumulate, repeat
from operator import mul
from typing import Any

import pytest
from prometheus_client import Histogram
from prometheus_client.parser import text_string_to_metric_families
from tests.doors.engine import scheduler_metrics
from tests.make import node, pod
from tests.scheduler.groups.gang_kit import gang, members
from tests.scheduler.make import Clock, scheduler_with

from moorage import Scheduler
from moorage.engine.framework import Code, FilterPlugin, PermitPlugin, PostBindPlugin, ScorePlugin, Status
from moorage.kube import Cluster, Pod, PodSchedulingGate

ATTEMPTS = "scheduler_schedule_attempts_total"

PROFILE = "default-scheduler"
BUCKETS = {
    "scheduling_attempt_duration_seconds": (0.001, 2, 15),
    "scheduling_algorithm_duration_seconds": (0.001, 2, 15),
    "framework_extension_point_duration_seconds": (0.0001, 2, 12),
    "plugin_execution_duration_seconds": (0.00001, 1.5, 20),
    "pod_scheduling_sli_duration_seconds": (0.01, 2, 20),
    "pod_scheduling_attempts": (1, 2, 5),
    "permit_wait_duration_seconds": (0.001, 2, 15),
    "preemption_victims": (1, 2, 7),
}


def samples(metrics: Any) -> dict[tuple[str, ...], float]:
    """Values by name without ``scheduler_``, and label values in the order of their names; no buckets."""
    return {
        (one.name.removeprefix("scheduler_"), *(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for one in family.samples
        if not one.name.endswith(("_bucket", "_created"))
    }


def of(metrics: Any, name: str) -> dict[tuple[str, ...], float]:
    """The values of one metric by label values."""
    return {key[1:]: value for key, value in samples(metrics).items() if key[0] == name}


class Three(FilterPlugin, ScorePlugin, PermitPlugin, PostBindPlugin):
    """Rejects a node, prefers another, and has pods wait that say so."""

    name = "Three"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("not c",)) if node_info.name == "c" else None

    def score(self, state: Any, pod: Pod, node_info: Any) -> int:
        return 100 * (node_info.name == "b")

    def permit(self, state: Any, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if pod.name.startswith("waits"):
            return Status(Code.WAIT), 10.0
        return None, 0.0

    def post_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        pass


def test_pods_that_are_placed_together() -> None:
    """And pods that fit nowhere, twice."""
    pods = [pod(f"p{at}", requests={"cpu": "1"}) for at in range(3)]
    pods += [pod(f"large{at}", requests={"cpu": "64"}) for at in range(2)]
    scheduler = Scheduler(Cluster(nodes=[node("a", cpu="4")], pods=pods), measured=True)
    metrics = scheduler.measure()
    assert scheduler.metrics is metrics
    scheduler.run()
    scheduler.run()
    scheduled, failed = (PROFILE, "scheduled"), (PROFILE, "unschedulable")
    assert of(metrics, "schedule_attempts_total") == {scheduled: 3, failed: 4}
    assert of(metrics, "scheduling_attempt_duration_seconds_count") == {scheduled: 3, failed: 4}
    assert of(metrics, "scheduling_algorithm_duration_seconds_count") == {(): 7}
    spent = of(metrics, "scheduling_algorithm_duration_seconds_sum")[()]
    assert 0 < spent == pytest.approx(sum(of(metrics, "scheduling_attempt_duration_seconds_sum").values()))
    assert of(metrics, "pod_scheduling_attempts_sum") == {(): 3}
    assert of(metrics, "pod_scheduling_sli_duration_seconds_count") == {("1",): 3}
    assert of(metrics, "preemption_attempts_total") == {(): 4}
    assert of(metrics, "queue_incoming_pods_total") == {
        ("ForceActivate", "active"): 2,
        ("UnschedulablePodAdd", "active"): 5,
        ("ScheduleAttemptFailure", "unschedulable"): 4,
    }


def test_pods_that_enter_queues() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a", cpu="4")]), clock=(clock := Clock()))
    metrics = scheduler.measure()
    gated = pod("gated", scheduling_gates=(PodSchedulingGate(name="g"),))
    scheduler.client.create_many([pod("p"), pod("q"), gated, pod("large", requests={"cpu": "6"})])  # type: ignore[attr-defined]
    scheduler.run()
    scheduler.client.create(node("b", cpu="8"))
    scheduler.sync()
    assert of(metrics, "queue_incoming_pods_total") == {
        ("UnschedulablePodAdd", "active"): 3,
        ("UnschedulablePodAdd", "unschedulable"): 1,
        ("ScheduleAttemptFailure", "unschedulable"): 1,
        ("NodeAdd", "backoff"): 1,
    }
    (info,) = scheduler.queue.pop()
    assert info is not None
    scheduler.queue.put_back([info])
    clock.now = 30.0
    scheduler.run()
    entered = of(metrics, "queue_incoming_pods_total")
    assert entered["PopFromBackoffQ", "active"] == 1
    assert entered["ForceActivate", "active"] == 1
    assert of(metrics, "pod_scheduled_after_flush_total") == {(): 0}
    assert of(metrics, "pod_scheduling_sli_duration_seconds_sum")["2",] == 30.0


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_queued_entities_are_counted_in_v1_37(version: str) -> None:
    """And pods that come are UnscheduledPods there."""
    large = [pod(f"large{at}", requests={"cpu": "6"}) for at in range(2)]
    cluster = Cluster(nodes=[node("a", cpu="4")], pods=[*large, pod("p")])
    metrics = Scheduler(cluster, kubernetes_version=version).measure()
    found = of(metrics, "queued_entities")
    if version == "1.36":
        assert found == {}
        return
    assert {queue: number for (queue, kind), number in found.items() if kind == "pod"} == {
        "active": 3,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
    }
    assert sum(number for (_, kind), number in found.items() if kind == "podgroup") == 0


def test_pods_whose_group_does_not_exist_are_incomplete_and_no_plugin_has_rejected_a_group() -> None:
    gates = {"GenericWorkload": True}
    pods = [*members("g", 2, cpu=9), *members("gone", 3), *members("few", 1)]
    cluster = Cluster(nodes=[node("a", cpu="4")], pods=pods, others=[gang("g", 2), gang("few", 2)])
    scheduler = Scheduler(cluster, kubernetes_version="1.37", feature_gates=gates, clock=lambda: 0.0)
    metrics = scheduler.measure()
    scheduler.run()
    assert of(metrics, "pending_pods") == {
        ("active",): 0,
        ("backoff",): 2,
        ("unschedulable",): 0,
        ("gated",): 1,
        ("incomplete",): 3,
        ("pending",): 0,
    }
    entities = of(metrics, "queued_entities")
    assert {queue: number for (queue, kind), number in entities.items() if kind == "podgroup"} == {
        "active": 0,
        "backoff": 1,
        "unschedulable": 0,
        "gated": 1,
    }
    rejected = {plugin: number for (plugin, _), number in of(metrics, "unschedulable_pods").items()}
    assert rejected == {"GangScheduling": 1, "NodeResourcesFit": 1}


@pytest.mark.parametrize(("version", "found"), [("1.35", {}), ("1.36", {(): 0})])
def test_pods_that_a_timer_moved_are_counted_from_v1_36_on(version: str, found: dict[Any, int]) -> None:
    cluster = Cluster(nodes=[node("a")], pods=[pod("p")])
    scheduler = Scheduler(cluster, kubernetes_version=version, measured=True)
    scheduler.run()
    assert of(scheduler.measure(), "pod_scheduled_after_flush_total") == found


def test_pods_that_a_timer_moves() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a", cpu="4")]), clock=(clock := Clock()), measured=True)
    scheduler.client.create(pod("large", requests={"cpu": "6"}))
    scheduler.run()
    clock.now = 400.0
    scheduler.queue.run_periodic(clock.now)
    scheduler.client.create(node("b", cpu="8"))
    scheduler.run()
    entered = of(scheduler.measure(), "queue_incoming_pods_total")
    assert entered["UnschedulableTimeout", "active"] == 1
    assert of(scheduler.measure(), "pod_scheduled_after_flush_total") == {(): 1}


def test_calls_of_plugins_and_extension_points() -> None:
    count = 11  # every tenth cycle is timed
    pods = [pod(f"p{at}") for at in range(count)]
    scheduler = scheduler_with(Three(), pods=pods, nodes=[node(name, pods="20") for name in "abc"])
    metrics = scheduler.measure()
    scheduler.run()
    calls = of(metrics, "plugin_evaluation_total")
    assert calls["Filter", "Three", PROFILE] == 3 * count
    assert calls["Score", "Three", PROFILE] == 2 * count
    points = of(metrics, "framework_extension_point_duration_seconds_count")
    for point in ("PreFilter", "PreScore", "Reserve", "Permit", "Bind", "PostBind"):
        assert points[point, PROFILE, "Success"] == count
    timed = of(metrics, "plugin_execution_duration_seconds_count")
    assert timed["Filter", "Three", "Success"] == 2 * 2
    assert timed["Filter", "Three", "Unschedulable"] == 2
    assert timed["PostBind", "Three", "Success"] == 2
    assert of(metrics, "scheduling_algorithm_duration_seconds_count") == {(): count}
    assert of(metrics, "schedule_attempts_total") == {(PROFILE, "scheduled"): count}


def test_waits_on_permit() -> None:
    pods = [pod("waits-1"), pod("waits-2")]
    scheduler = scheduler_with(Three(), pods=pods, clock=(clock := Clock()))
    metrics = scheduler.measure()
    scheduler.run()
    clock.now = 4.0
    waiting = scheduler.handle.get_waiting_pod("waits-1")
    assert waiting is not None
    waiting.allow("Three")
    scheduler.advance()
    clock.now = 10.0
    scheduler.advance()
    assert of(metrics, "permit_wait_duration_seconds_count") == {("Success",): 1, ("Unschedulable",): 1}
    assert of(metrics, "permit_wait_duration_seconds_sum") == {("Success",): 4, ("Unschedulable",): 10}
    assert of(metrics, "schedule_attempts_total") == {
        (PROFILE, "scheduled"): 1,
        (PROFILE, "unschedulable"): 1,
    }


def test_attempts_from_15_on_have_one_label() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a")]), clock=Clock())
    metrics = scheduler.measure()
    for name, attempts in (("p14", 14), ("p15", 15), ("p16", 16)):
        scheduler.client.create(pod(name))
        scheduler.sync()
        (info,) = scheduler.queue.pop()
        assert info is not None
        info.attempts = attempts
        metrics.scheduled([info])
    assert of(metrics, "pod_scheduling_sli_duration_seconds_count") == {("14",): 1, ("15+",): 2}


def test_a_pod_waits_from_its_first_attempt_to_its_node() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a")], pods=[pod("p")]), clock=(clock := Clock(100.0)))
    metrics = scheduler.measure()
    (info,) = scheduler.queue.pop()
    assert info is not None
    clock.now = 103.5
    metrics.scheduled([info])
    assert of(metrics, "pod_scheduling_sli_duration_seconds_sum") == {("1",): 3.5}


def test_an_attempt_lasts_from_its_begin_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that have begun each has its own time; the others have their share of their batch's."""
    seconds = iter([100.0, 107.0])
    monkeypatch.setattr(scheduler_metrics, "perf_counter", lambda: next(seconds))
    scheduler = Scheduler(Cluster(nodes=[node("a")], pods=[pod("p"), pod("q")]), clock=Clock())
    metrics = scheduler.measure()
    first, second = scheduler.queue.pop(2)
    metrics.tried(2, 6.0)
    metrics.begin([first])
    metrics.scheduled([first])
    assert of(metrics, "scheduling_attempt_duration_seconds_sum") == {(PROFILE, "scheduled"): 7}
    metrics.scheduled([second])
    assert of(metrics, "scheduling_attempt_duration_seconds_sum") == {(PROFILE, "scheduled"): 10}


def test_nothing_is_measured_before_and_in_forks() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a")], pods=[pod("p")]))
    assert scheduler.metrics is None
    metrics = scheduler.measure()
    fork = scheduler.fork()
    assert fork.metrics is None
    fork.run()
    assert metrics.registry.get_sample_value(ATTEMPTS, {"result": "scheduled", "profile": PROFILE}) is None
    scheduler.run()
    assert metrics.registry.get_sample_value(ATTEMPTS, {"result": "scheduled", "profile": PROFILE}) == 1


def test_buckets_are_those_of_kube_scheduler() -> None:
    """Those of k8s.io/kubernetes v1.36.2, pkg/scheduler/metrics; the live tests ask kube-scheduler."""
    metrics = scheduler_with(Three()).measure()
    histograms = [metric for metric in metrics._own if isinstance(metric, Histogram)]
    found = {metric._name.removeprefix("scheduler_"): metric._kwargs["buckets"] for metric in histograms}
    assert found == {
        name: (*accumulate(repeat(factor, count - 1), mul, initial=first),)
        for name, (first, factor, count) in BUCKETS.items()
    }


class Raising(FilterPlugin):
    """Fails."""

    name = "Raising"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        raise ValueError("no")


def test_an_attempt_that_an_exception_ends_does_not_count() -> None:
    scheduler = scheduler_with(Raising(), pods=[pod("p")], fail_fast=True)
    metrics = scheduler.measure()
    with pytest.raises(ValueError, match="no"):
        scheduler.run()
    assert metrics._began == {}
    assert of(metrics, "schedule_attempts_total") == {}
    timed = of(metrics, "plugin_execution_duration_seconds_count")
    assert timed["Filter", "Raising", "Error"] == 1

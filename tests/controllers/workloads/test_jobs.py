"""The pods of Jobs: they are counted and let go, replaced after a back-off, and end with their Job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import (
    all_pods,
    at_most,
    job,
    machine,
    pods,
    replicas,
    scheduler,
    template,
)
from tests.make import make
from tests.objects.make import owned, pod, workload

from moorage import Scheduler
from moorage.kube import Job, Object, Pod

TRACKING = "batch.kubernetes.io/job-tracking"
IGNORE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
FAIL = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
NODES = [machine("a"), machine("b")]


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    with at_most(200):
        yield


def stored(one: Scheduler, name: str = "sum") -> Job:
    one.sync()
    return one.client.get(Job, name, "default")


def conditions(one: Scheduler) -> dict[str, str]:
    return {each.type: each.reason for each in stored(one).status.conditions}


def running(name: str, node: str, finalizers: bool = True, cpu: str = "1", **status: Any) -> Any:
    meta = owned("Job", "sum", finalizers=[TRACKING] if finalizers else [], labels={"app": "sum"})
    spec = template("sum", cpu)["spec"] | {"nodeName": node}
    return pod(name, spec, metadata=meta, status={"phase": "Running"} | status)


@pytest.mark.parametrize("finalizers", [True, False])
def test_a_preempted_pod_leaves_its_room(finalizers: bool) -> None:
    high = make("PriorityClass", "high", value=1000)
    urgent = pod("hi", template("hi", "4", priorityClassName="high")["spec"])
    one = scheduler(machine("a"), job("sum", 1), running("x", "a", finalizers, "4"), high, urgent)
    assert pods(one)["hi"] == "a"
    assert stored(one).status.failed == 1


@pytest.mark.parametrize("finalizers", [True, False])
def test_drained_pods_count_as_failures(finalizers: bool) -> None:
    its = [running(name, "a", finalizers) for name in "xy"]
    one = scheduler(*NODES, job("sum", 2, backoffLimit=1), *its)
    one.change.drain("a")
    one.run()
    assert pods(one) == {}
    assert conditions(one) == dict.fromkeys(("FailureTarget", "Failed"), "BackoffLimitExceeded")


def test_a_policy_ignores_disruptions() -> None:
    one = scheduler(*NODES, job("sum", 2, backoffLimit=0, podFailurePolicy=IGNORE), running("x", "a"))
    one.change.drain("a")
    one.run()
    assert list(pods(one).values()) == ["b", "b"]
    assert stored(one).status.failed == 0


def test_a_policy_fails_the_job() -> None:
    one = scheduler(*NODES, job("sum", 2, backoffLimit=9, podFailurePolicy=FAIL), running("x", "a"))
    one.change.drain("a")
    one.run()
    assert pods(one) == {}
    (why,) = {each.message for each in stored(one).status.conditions}
    assert why == "Pod default/x has condition DisruptionTarget matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("rule", "failed", "left"),
    [
        ({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}, True, 0),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [3]}}, False, 1),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [4]}}, True, 0),
        (
            {"action": "FailJob", "onExitCodes": {"containerName": "d", "operator": "In", "values": [3]}},
            False,
            1,
        ),
    ],
)
def test_exit_codes_are_matched(rule: dict[str, Any], failed: bool, left: int) -> None:
    status = [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]
    its = running("x", "a", phase="Failed", containerStatuses=status)
    one = scheduler(*NODES, job("sum", 1, podFailurePolicy={"rules": [rule]}), its)
    assert ("Failed" in conditions(one)) == failed
    assert len(pods(one)) == 1 + left


def test_a_suspended_job_gives_its_room_away() -> None:
    its = [running(name, "a", cpu="2") for name in "xy"]
    one = scheduler(machine("a"), job("sum", 2), *its)
    one.change.apply(job("sum", 2, suspend=True))
    one.change.apply(replicas("Deployment", "web", 2, "2"))
    assert list(one.run().placements.values()) == ["a", "a"]
    assert stored(one).status.failed == 0  # pods that the controller deletes itself


def test_a_failed_pod_is_replaced_after_a_back_off_that_doubles() -> None:
    one = scheduler(machine("a"), job("sum", 1, completions=9, backoffLimit=9))
    for wait in (10, 20, 40):
        (name,) = pods(one)
        one.client.delete(Pod, name, "default")
        assert pods(one) == {}
        before = one.volumes.now()
        one.run()
        assert len(pods(one)) == 1
        assert wait <= one.volumes.now() - before < wait + 20  # a run begins with a resync of volumes


def test_a_success_ends_the_back_off() -> None:
    one = scheduler(machine("a"), job("sum", 2, completions=9, backoffLimit=9))
    first, second = pods(one)
    one.client.delete(Pod, first, "default")
    assert list(pods(one)) == [second]
    its: Pod = one.client.get(Pod, second, "default")
    one.client.update(replace(its, status=replace(its.status, phase="Succeeded")))
    assert len(pods(one)) == 3


def test_what_succeeds_is_not_replaced() -> None:
    one = scheduler(machine("a"), job("sum", 2, completions=3), job("other", 1))
    done = min(name for name in pods(one) if name.startswith("sum"))
    its: Pod = one.client.get(Pod, done, "default")
    one.client.update(replace(its, status=replace(its.status, phase="Succeeded")))
    assert stored(one).status.succeeded == 1
    assert len(pods(one)) == 4  # the one that has succeeded, two more, and the other's


def test_only_failed_pods_are_replaced_when_the_job_says_so() -> None:
    """A pod on a node that nobody hears of does not end, and its successor does not come."""
    lost = machine("a")
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}], "capacity": {"cpu": "4", "pods": "9"}}
    lost = make("Node", "a", metadata={"labels": lost.metadata.labels}, status=status)
    going = running("x", "a")
    meta = replace(
        going.metadata, deletion_timestamp="2026-01-01T00:00:00Z", deletion_grace_period_seconds=30
    )
    going = replace(going, metadata=meta)
    one = scheduler(lost, machine("b"), job("sum", 1, podReplacementPolicy="Failed"), going)
    assert all_pods(one) == {"x": "a"}
    two = scheduler(machine("a"), machine("b"), job("sum", 1, podReplacementPolicy="Failed"), going)
    assert "x" not in pods(two)
    assert len(pods(two)) == 1


def indexed(parallelism: int, **spec: Any) -> Object:
    return job("sum", parallelism, completions=3, completionMode="Indexed", **spec)


def of_index(one: Scheduler, index: int) -> Pod:
    one.sync()
    found: list[Pod] = one.client.list(Pod)[0]
    mark = "batch.kubernetes.io/job-completion-index"
    (its,) = (each for each in found if each.metadata.annotations[mark] == str(index))
    return its


def end(one: Scheduler, index: int, phase: str) -> None:
    its = of_index(one, index)
    one.client.update(replace(its, status=replace(its.status, phase=phase)))
    one.sync()


def test_an_index_fails_after_its_own_limit() -> None:
    one = scheduler(machine("a"), indexed(3, backoffLimitPerIndex=1, backoffLimit=99))
    one.client.delete(Pod, of_index(one, 1).name, "default")
    one.run()
    assert of_index(one, 1).metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    one.client.delete(Pod, of_index(one, 1).name, "default")
    one.run()
    assert stored(one).status.failed_indexes == "1"
    assert len(pods(one)) == 2
    for index in (0, 2):
        end(one, index, "Succeeded")
    one.run()
    assert conditions(one)["Failed"] == "FailedIndexes"


@pytest.mark.parametrize(("most", "fails"), [(0, True), (1, False)])
def test_too_many_failed_indexes_fail_a_job(most: int, fails: bool) -> None:
    one = scheduler(machine("a"), indexed(3, backoffLimitPerIndex=0, maxFailedIndexes=most))
    end(one, 1, "Failed")
    one.run()
    assert stored(one).status.failed_indexes == "1"
    assert conditions(one).get("Failed") == ("MaxFailedIndexesExceeded" if fails else None)


@pytest.mark.parametrize(
    "rule",
    [{"succeededIndexes": "0-1", "succeededCount": 1}, {"succeededCount": 1}, {"succeededIndexes": "1"}],
)
def test_a_success_policy_ends_the_job(rule: dict[str, Any]) -> None:
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}, rule]}
    one = scheduler(machine("a"), indexed(3, successPolicy=policy))
    end(one, 1, "Succeeded")
    one.run()
    assert conditions(one) == dict.fromkeys(("SuccessCriteriaMet", "Complete"), "SuccessPolicy")
    assert len(pods(one)) == 1


def test_pods_beyond_the_completions_go() -> None:
    one = scheduler(machine("a"), indexed(3))
    one.change.apply(job("sum", 2, completions=2, completionMode="Indexed"))
    assert len(pods(one)) == 2
    assert of_index(one, 0).spec.node_name


def test_restarts_fail_a_job_whose_pods_restart() -> None:
    its = running("x", "a", containerStatuses=[{"name": "c", "restartCount": 6}])
    spec = {"parallelism": 1, "template": template("sum", restartPolicy="OnFailure")}
    one = scheduler(machine("a"), workload("Job", "sum", spec), its)
    assert conditions(one)["Failed"] == "BackoffLimitExceeded"
    assert pods(one) == {}


def test_a_pod_that_does_not_end_is_counted_once_when_its_job_fails() -> None:
    lost = {"conditions": [{"type": "Ready", "status": "Unknown"}], "capacity": {"cpu": "4", "pods": "9"}}
    its = running("x", "a", finalizers=False)
    times = {"deletion_timestamp": "2026-01-01T00:00:00Z", "deletion_grace_period_seconds": 30}
    going = replace(its, metadata=replace(its.metadata, **times))
    spec = {"backoffLimit": 0, "podReplacementPolicy": "Failed", "completions": 2}
    nodes = make("Node", "a", status=lost), machine("b")
    one = scheduler(*nodes, job("sum", 1, **spec), going, running("y", "b", phase="Failed"))
    assert stored(one).status.failed == 1
    assert list(conditions(one)) == ["FailureTarget"]  # until the last pod is gone


def test_pods_of_a_deleted_job_go() -> None:
    one = scheduler(machine("a"), job("sum", 2))
    one.change.delete("job/sum")
    assert pods(one) == {}


def test_pods_that_name_a_job_that_is_not_listed_go_when_they_are_evicted() -> None:
    one = scheduler(*NODES, running("x", "a"))
    one.change.drain("a")
    assert pods(one) == {}


def test_a_job_that_ended_is_left_as_it_is() -> None:
    done = workload("Job", "sum", status={"conditions": [{"type": "Failed", "status": "True"}], "failed": 7})
    one = scheduler(machine("a"), done, running("x", "a", phase="Failed"))
    assert stored(one).status.failed == 7
    (its,) = one.client.list(Pod)[0]
    assert its.metadata.finalizers == ()


def test_a_transaction_takes_a_back_off_back() -> None:
    one = scheduler(machine("a"), job("sum", 1))
    (name,) = pods(one)
    with one.transaction():
        one.client.delete(Pod, name, "default")
        assert pods(one) == {}
        one.run()
    assert list(pods(one)) == [name]
    assert stored(one).status.failed == 0


def test_a_pod_that_fails_in_a_fork_is_replaced_after_a_back_off() -> None:
    fork = (one := scheduler(machine("a"), job("sum", 1))).fork()
    (name,) = pods(one)
    for each in (one, fork):
        each.client.delete(Pod, name, "default")
        assert pods(each) == {}

"""Kueue beside the scheduler: what it decides is undone, and a fork goes on by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

import moorage as mo
from moorage.errors import InputError
from moorage.kube import Job, Pod, decode_object, load
from tests.calls import calls_of
from tests.doors.controllers import queued_unit
from tests.make import manifest, workload, written

Json = dict[str, Any]
VERSION = "kueue.x-k8s.io/v1beta2"


def of_kueue(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    return {
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def job(name: str, pods: int) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


NODE = written("v1/Node", "n1", status={"allocatable": {"cpu": "9", "pods": "9"}})
QUOTA = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 4}]}],
}
QUEUES = [
    of_kueue("ResourceFlavor", "f", {}),
    of_kueue("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [QUOTA]}),
    of_kueue("LocalQueue", "main", {"clusterQueue": "team"}, "default"),
]


def of_team(quota: int) -> Json:
    groups = QUOTA | {"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": quota}]}]}
    return of_kueue("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [groups]})


def running(scheduler: mo.Scheduler) -> list[str]:
    jobs: list[Job] = scheduler.client.list(Job)[0]
    return [each.name for each in jobs if not each.spec.suspend]


def test_what_a_transaction_submits_is_undone_and_can_be_submitted_again() -> None:
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 3)]))
    assert running(scheduler) == ["a"]
    for _ in range(2):
        with scheduler.transaction():
            scheduler.change.apply([job("b", 2)])
            scheduler.sync()
            assert running(scheduler) == ["a"]
            scheduler.change.delete("job/a")
            scheduler.sync()
            assert running(scheduler) == ["b"]
        assert running(scheduler) == ["a"]
    assert len(scheduler.run().placements) == 3


def workloads(scheduler: mo.Scheduler) -> dict[str, list[str]]:
    """The conditions that are true of the Workloads in the store, by job."""
    stored: list[Any] = scheduler.client.list("Workload")[0]
    return {
        each.metadata.owner_references[0].name: [
            condition.type for condition in each.status.conditions if condition.status == "True"
        ]
        for each in stored
    }


def test_the_store_has_the_workloads_with_what_was_decided(tmp_path: Path) -> None:
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 3), job("b", 2), job("c", 1)]))
    scheduler.run()
    admitted = ["QuotaReserved", "Admitted"]
    assert workloads(scheduler) == {"a": admitted, "b": [], "c": admitted}
    scheduler.save(tmp_path / "saved.yaml")
    saved = mo.Scheduler(load(tmp_path / "saved.yaml"))
    assert (running(saved), workloads(saved)) == (["a", "c"], workloads(scheduler))
    saved.change.apply([of_team(6)])
    assert len(saved.run().placements) == 2  # and none of the new pods has the UID of a saved one
    (of_a,) = (each for each in scheduler.client.list("Workload")[0] if each.name.startswith("job-a-"))
    scheduler.change.delete(f"workload/{of_a.name}")  # Kueue makes it anew, and stops the job
    scheduler.sync()
    assert workloads(scheduler) == {"a": [], "b": admitted, "c": admitted}
    scheduler.change.delete("job/a")
    scheduler.sync()
    assert workloads(scheduler) == {"b": admitted, "c": admitted}


def test_new_workloads_of_a_saved_cluster_have_uids_of_their_own(tmp_path: Path) -> None:
    path, cluster = tmp_path / "saved.yaml", load([NODE, *QUEUES, job("a", 3), job("b", 2)])
    for turn in "xyz":
        scheduler = mo.Scheduler(cluster)
        for at in range(6):  # by and by they come with the numbers that those before had
            scheduler.change.apply([job(f"{turn}{at}", 1)])
            scheduler.sync()
        scheduler.save(path)
        cluster = load(path)
    assert len({each.metadata.uid for each in cluster.others if each.kind == "Workload"}) == 20


def test_a_stateful_set_that_is_gone_holds_no_quota() -> None:
    label = {"labels": {"kueue.x-k8s.io/queue-name": "main"}}
    sets = [
        manifest(workload("StatefulSet", name, 3, {"cpu": "1"}, serviceName="s", metadata=label))
        for name in ("first", "second")
    ]
    scheduler = mo.Scheduler(load([NODE, *QUEUES, *sets]))
    admitted = ["QuotaReserved", "Admitted"]
    assert workloads(scheduler) == {"first": admitted, "second": []}
    with scheduler.transaction():
        scheduler.change.delete("statefulset/first")
        scheduler.sync()
        assert workloads(scheduler) == {"second": admitted}
    assert workloads(scheduler) == {"first": admitted, "second": []}


def test_a_group_of_pods_waits_where_nothing_else_wakes_controllers() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/pod-group-name": "g"}
    total = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    spec = job("", 1)["spec"]["template"]["spec"]
    group = [
        written("v1/Pod", {"name": name, "labels": queue, "annotations": total}, spec) for name in ("p", "q")
    ]
    scheduler = mo.Scheduler(load([NODE, *QUEUES[:1], *QUEUES[2:], *group]))

    def gated() -> dict[str, bool]:
        pods: list[Pod] = scheduler.client.list(Pod)[0]
        return {pod.name: bool(pod.spec.scheduling_gates) for pod in pods}

    assert not scheduler.run().placements
    assert gated() == {"p": True, "q": True}
    scheduler.change.delete("pod/p")  # the group keeps its Workload
    scheduler.change.label("pod/q", "some=label")
    scheduler.sync()
    assert workloads(scheduler) == {"p": []}
    scheduler.change.delete("workload/g")
    scheduler.change.apply(group[:1])
    scheduler.sync()
    assert len(workloads(scheduler)) == 1
    scheduler.change.apply([of_team(4)])
    scheduler.sync()
    assert gated() == {"p": False, "q": False}


def test_a_fork_decides_by_itself() -> None:
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 3)]))
    fork = scheduler.fork()
    for each, name in ((fork, "b"), (scheduler, "c")):
        each.change.apply([job(name, 1)])
        each.sync()
    assert [running(each) for each in (fork, scheduler)] == [["a", "b"], ["a", "c"]]
    assert len(fork.client.list(Pod)[0]) == 4


def test_a_larger_quota_lets_in_what_waits() -> None:
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 3), job("b", 2)]))
    assert running(scheduler) == ["a"]
    scheduler.change.apply([of_team(5)])
    scheduler.sync()
    assert running(scheduler) == ["a", "b"]


def test_a_cluster_without_queues_loads_none_of_kueue() -> None:
    code = (
        "import sys, moorage as mo\n"
        f"mo.Scheduler(mo.load({[NODE, job('a', 1)]!r})).run()\n"
        "print(*(name for name in sys.modules if 'moorage.queues' in name or 'queue_controller' in name))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_wrong_configuration_is_refused_where_it_is_applied_and_changes_nothing() -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nfairSharing: []"
    config = written("v1/ConfigMap", "c") | {"data": {"controller_manager_config.yaml": text}}
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 3)]))
    with pytest.raises(mo.InputError, match=r"ConfigMap c: data\[.*\]\.fairSharing: expected map, got list"):
        scheduler.change.apply([config, job("b", 1)])
    scheduler.change.apply([job("c", 1)])
    scheduler.sync()
    assert running(scheduler) == ["a", "c"]


def test_pods_that_name_a_queue_wait_with_a_gate() -> None:
    meta = {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    single = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 3), single]))
    assert [*scheduler.run().skipped] == ["default/p"]
    scheduler.change.delete("job/a")
    assert scheduler.run().placements == {"default/p": "n1"}


def test_a_replay_lets_in_the_next_job_when_one_goes() -> None:
    timeline = mo.Timeline(load([NODE, *QUEUES]))
    for time, name in ((10, "a"), (20, "b")):
        timeline.apply(time, decode_object(job(name, 3)))
    timeline.delete(100, "job/a")
    pods = mo.replay(timeline).pods().to_dict()
    assert pods["bound"] == [10.0] * 3 + [100.0] * 3


def test_documents_have_what_kueue_decided() -> None:
    told = ["default/job/a: admitted by team with flavor f; then 3 of 3 pods find nodes"]
    assert mo.check([NODE, *QUEUES], job("a", 3)).document().queues == told
    assert mo.simulate([NODE, *QUEUES], job("a", 3)).document().queues == told
    assert mo.check([NODE]).document().queues is UNSET


def test_a_job_that_waits_is_tried_anew_when_it_asks_for_less_or_for_another_queue() -> None:
    other = of_kueue("LocalQueue", "other", {"clusterQueue": "none"}, "default")
    scheduler = mo.Scheduler(load([NODE, *QUEUES, other, job("a", 5)]))
    assert running(scheduler) == []
    smaller = job("a", 5)
    smaller["spec"]["parallelism"] = 4
    scheduler.change.apply([smaller])
    scheduler.sync()
    assert running(scheduler) == ["a"]
    scheduler.change.apply([job("b", 1)])
    moved = job("b", 1)
    moved["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "other"
    scheduler.change.apply([moved])
    scheduler.change.delete("job/a")
    scheduler.sync()
    assert running(scheduler) == []
    scheduler.change.apply([job("b", 1)])
    scheduler.sync()
    assert running(scheduler) == ["b"]


def test_a_job_waits_without_workload_until_its_class_of_priority_comes() -> None:
    urgent = job("a", 1)
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    kinds = [of_kueue("WorkloadPriorityClass", name, {}) | {"value": 9} for name in ("hihg", "high")]
    for kind in kinds:
        del kind["spec"]
    scheduler = mo.Scheduler(load([NODE, *QUEUES, urgent, kinds[0]]))
    assert running(scheduler) == []
    queues = scheduler.ask.queues()
    assert queues is not None
    assert [each.why for each in queues.refused.values()] == [
        'WorkloadPriorityClass.kueue.x-k8s.io "high" not found, so Kueue makes no Workload; nearest: hihg'
    ]
    scheduler.change.apply([kinds[1]])
    scheduler.sync()
    assert running(scheduler) == ["a"]


def test_cohorts_in_a_circle_without_other_queues_admit_nothing() -> None:
    circle = [of_kueue("Cohort", name, {"parentName": parent}) for name, parent in ("ab", "ba")]
    queue = of_kueue("ClusterQueue", "team", QUEUES[1]["spec"] | {"cohortName": "a"})
    scheduler = mo.Scheduler(load([NODE, QUEUES[0], *circle, queue, QUEUES[2], job("a", 1)]))
    assert running(scheduler) == []
    queues = scheduler.ask.queues()
    assert queues is not None
    assert "cohort has a cycle" in queues.kueue.snapshot.queues["team"].inactive


def test_preemptions_without_end_go_on_when_something_changes() -> None:
    reclaims = {"preemption": {"reclaimWithinCohort": "Any"}}
    queues = [
        of_kueue(
            "ClusterQueue",
            name,
            {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": [QUOTA]} | more,
        )
        for name, more in (("team", reclaims), ("other", {}))
    ]
    local = of_kueue("LocalQueue", "other", {"clusterQueue": "other"}, "default")
    older = [job(f"older-{at}", 3) for at in range(2)]
    for each in older:
        each["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "other"}
    big = job("big", 9)
    big["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "4"}
    scheduler = mo.Scheduler(load([NODE, QUEUES[0], *queues, QUEUES[2], local, *older, big]))
    controller = scheduler.ask.queues()
    assert controller is not None
    kueue = controller.kueue.copy()
    assert [len(victims) for victims in kueue.endless.values()] == [1]
    assert kueue.run() == []
    assert kueue.endless
    kueue.apply(decode_object(queues[0]))
    assert kueue.endless == {}
    assert kueue.run()
    assert kueue.endless


def jobset(labels: dict[str, str]) -> Json:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "labels": labels},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": job("w", 2)}]},
    }


def test_a_suspended_jobset_that_is_applied_waits_until_it_may_run() -> None:
    one = mo.Scheduler(load([NODE]))
    with one.transaction():
        one.change.apply(jobset({}))
        assert [each.name for each in one.ask.suspended()] == ["set"]
    assert one.ask.suspended() == []
    one.change.apply([jobset({})])
    one.change.apply([jobset({})])
    other = one.fork()
    assert len(other.ask.suspended()) == len(one.ask.suspended()) == 1
    one.change.unsuspend()
    assert (len(one.run().placements), one.ask.suspended()) == (2, [])
    assert len(other.run().placements) == 0


@pytest.mark.parametrize("before", [[], [job("a", 1)]])
def test_kueue_admits_a_jobset_that_is_applied(before: list[Json]) -> None:
    one = mo.Scheduler(load([NODE, *QUEUES, *before]))
    one.run()
    with one.transaction():
        one.change.apply(jobset({"kueue.x-k8s.io/queue-name": "main"}))
        assert len(one.run().placements) == 2
    one.change.apply(jobset({"kueue.x-k8s.io/queue-name": "main"}))
    assert len(one.run().placements) == 2


def test_a_jobset_that_waits_may_change_where_its_pods_go_and_nothing_else() -> None:
    one, queue = mo.Scheduler(load([NODE, *QUEUES, job("a", 4)])), {"kueue.x-k8s.io/queue-name": "main"}
    one.run()
    held, moved, larger = jobset(queue), jobset(queue), jobset(queue)
    for each in (held, moved, larger):
        del each["spec"]["suspend"]
    moved["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    larger["spec"]["replicatedJobs"][0]["template"] = job("w", 3)
    one.change.apply(held)
    assert len(one.run().placements) == 0
    one.change.apply(moved)
    with pytest.raises(
        InputError, match=r"JobSet.* default/set: spec.replicatedJobs: .*: field is immutable"
    ):
        one.change.apply(larger)
    one.change.apply(held)
    one.change.delete("job/a")
    assert len(one.run().placements) == 2
    with pytest.raises(InputError, match="field is immutable"):
        one.change.apply(moved)
    one.change.apply(held)


def test_a_workload_that_is_deleted_is_made_anew_and_its_job_waits_again() -> None:
    scheduler = mo.Scheduler(load([NODE, *QUEUES, job("a", 4)]))
    scheduler.run()
    scheduler.change.apply([job("b", 4)])
    (workload,) = [each for each in scheduler.client.list("Workload")[0] if "job-a" in each.name]
    scheduler.change.delete(f"workload/{workload.name}")
    scheduler.sync()
    assert running(scheduler) == ["b"]


def test_a_set_of_pods_has_a_workload_as_long_as_it_has_replicas() -> None:
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": job("w", 1)["spec"]["template"]["spec"]}
    template["spec"].pop("restartPolicy")
    meta = {"name": "db", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    stateful = written("apps/v1/StatefulSet", meta, spec | {"template": template})
    parts = {"size": 2, "leaderTemplate": template, "workerTemplate": template}
    groups = written(
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
        meta | {"name": "llm"},
        {"replicas": 2, "leaderWorkerTemplate": parts},
    )
    scheduler = mo.Scheduler(load([NODE, *QUEUES, stateful, groups]))
    assert len(scheduler.run().placements) == 4  # db and one of two groups
    assert sorted(scheduler.run().skipped) == ["default/llm-1", "default/llm-1-1"]
    scheduler.change.scale("statefulset/db", 0)
    assert len(scheduler.run().placements) == 2
    scheduler.change.scale("leaderworkerset/llm", 1)
    scheduler.sync()
    names = [each.name.rpartition("-")[0] for each in scheduler.client.list("Workload")[0]]
    assert names == ["leaderworkerset-llm-0"]


def test_pods_that_are_admitted_together_are_looked_for_once() -> None:
    meta, spec = job("w", 1)["metadata"], job("w", 1)["spec"]["template"]["spec"]

    def looks(number: int) -> int:
        pods = [written("v1/Pod", meta | {"name": f"w{at}"}, spec) for at in range(number)]
        cluster = load([NODE, QUEUES[0], of_team(9), QUEUES[2], *pods])
        made, calls = calls_of(queued_unit, mo.Scheduler, cluster)
        assert len(made.run().placements) == number
        return len(calls)

    assert looks(8) == 2 * looks(4)

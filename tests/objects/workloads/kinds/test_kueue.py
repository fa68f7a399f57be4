"""Suspended Jobs that a queue of Kueue never admits."""

from __future__ import annotations

from typing import Any

import pytest

from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import load

VERSION = "kueue.x-k8s.io/v1beta2"


def flavor(name: str = "f", **quotas: Any) -> dict[str, Any]:
    return {"name": name, "resources": [{"name": key, **quota} for key, quota in quotas.items()]}


def cpu(nominal: int, **limits: Any) -> dict[str, Any]:
    return flavor(cpu={"nominalQuota": nominal, **limits})


def queue(
    *flavors: dict[str, Any], name: str = "team", covered: Any = ("cpu",), **spec: Any
) -> dict[str, Any]:
    group = {"coveredResources": list(covered), "flavors": list(flavors)}
    spec = {"resourceGroups": [group], **spec}
    return {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def cohort(name: str, *flavors: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return queue(*flavors, name=name, **spec) | {"kind": "Cohort"}


LOCAL = {
    "apiVersion": VERSION,
    "kind": "LocalQueue",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"clusterQueue": "team"},
}


def job(parallelism: int = 4, meta: Any = (), resources: Any = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources or {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "a"}, **dict(meta)}
    spec = {"suspend": True, "parallelism": parallelism, "completions": 9, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def whys(*objects: dict[str, Any]) -> list[tuple[int, str]]:
    found = load([LOCAL, *objects]).left_out
    assert {one.full_kind for one in found} <= {"Job.batch"}
    return [(one.replicas, one.why) for one in found]


HEAD = "which ClusterQueue team never admits:"
NEVER: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no cohort": ([queue(cpu(2)), job()], "flavor f has 2 of 4 cpu"),
    "limits": (
        [queue(cpu(3)), job(resources={"limits": {"cpu": "1"}})],
        "flavor f has 3 of 4 cpu",
    ),
    "several flavors": (
        [queue(cpu(2), flavor("g", cpu={"nominalQuota": 3})), job()],
        "flavor f has 2 of 4 cpu; flavor g has 3 of 4 cpu",
    ),
    "one flavor for all": (
        [
            queue(
                flavor("f", cpu={"nominalQuota": 9}, memory={"nominalQuota": "1Gi"}),
                flavor("g", cpu={"nominalQuota": 2}, memory={"nominalQuota": "9Gi"}),
                covered=("cpu", "memory"),
            ),
            job(resources={"requests": {"cpu": "1", "memory": "1Gi"}}),
        ],
        "flavor f has 1Gi of 4Gi memory; flavor g has 2 of 4 cpu",
    ),
    "no flavor": ([queue(), job()], "it has no flavor"),
    "a resource without a quota": (
        [queue(cpu(9)), job(resources={"requests": {"cpu": "1", "memory": "1Gi"}})],
        "it has no quota for 4Gi memory",
    ),
    "a cohort that lends too little": (
        [queue(cpu(2), cohortName="ab"), queue(cpu(1), name="b", cohortName="ab"), job()],
        "flavor f has 2 of 4 cpu, and cohort ab lends 1",
    ),
    "a limit of what is borrowed": (
        [queue(cpu(2, borrowingLimit=1), cohortName="ab"), queue(cpu(9), name="b", cohortName="ab"), job()],
        "flavor f has 2 of 4 cpu, and cohort ab lends 1",
    ),
    "a limit of what is lent": (
        [queue(cpu(2), cohortName="ab"), queue(cpu(9, lendingLimit=1), name="b", cohortName="ab"), job()],
        "flavor f has 2 of 4 cpu, and cohort ab lends 1",
    ),
    "another cohort": (
        [queue(cpu(2), cohortName="ab"), queue(cpu(9), name="b", cohortName="c"), job()],
        "flavor f has 2 of 4 cpu, and cohort ab lends 0",
    ),
}


@pytest.mark.parametrize("case", NEVER)
def test_a_job_beyond_the_quota_is_never_admitted(case: str) -> None:
    objects, text = NEVER[case]
    assert whys(*objects) == [(4, f"{HEAD} {text}")]


ADMITTED = {
    "within the quota": [queue(cpu(4)), job()],
    "one of the flavors": [queue(cpu(2), flavor("g", cpu={"nominalQuota": 4})), job()],
    "what the cohort lends": [
        queue(cpu(2), cohortName="ab"),
        queue(cpu(2), name="b", cohortName="ab"),
        job(),
    ],
    "what the tree lends": [
        *(queue(cpu(2), cohortName="ab"), cohort("ab", parentName="all"), cohort("all", cpu(1))),
        *(cohort("c", parentName="all"), queue(cpu(1), name="b", cohortName="c"), job()),
    ],
    "a circle of cohorts": [
        *(
            queue(cpu(2), cohortName="a"),
            cohort("a", cpu(2), parentName="b"),
            cohort("b", parentName="a"),
            job(),
        ),
    ],
    "fewer pods": [queue(cpu(2)), job(meta={"annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}})],
    "fewer completions": [queue(cpu(2)), job(completions=2)],
    "a Job that runs": [queue(cpu(2)), job(suspend=False)],
    "no queue": [queue(cpu(2)), job(meta={"labels": {}})],
    "an unknown queue": [queue(cpu(2)), job(meta={"labels": {"kueue.x-k8s.io/queue-name": "other"}})],
    "an unknown ClusterQueue": [job()],
}


@pytest.mark.parametrize("case", ADMITTED)
def test_other_jobs_are_not_left_out(case: str) -> None:
    assert whys(*ADMITTED[case]) == []


def test_a_bad_quota_names_its_queue() -> None:
    with pytest.raises(InputError, match=r"ClusterQueue team: spec\.resourceGroups\[0\]"):
        whys(queue(flavor(cpu={"nominalQuota": "many"})), job())


def test_a_scheduler_takes_a_job_that_waits_in_its_queue() -> None:
    scheduler = Scheduler(load([{"kind": "Node", "metadata": {"name": "n"}}]))
    assert "Job default/j" in scheduler.change.apply([LOCAL, queue(cpu(2)), job()]).created

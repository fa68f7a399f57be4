"""CronJobs: what their next Job is; run by a scheduler, all at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.workloads.make import machine, pods, scheduler, template

from moorage.kube import Job, Object, decode_object


def cron_job(name: str, parallelism: int = 1, **spec: Any) -> Object:
    job = {"parallelism": parallelism, "template": template(name, restartPolicy="Never")}
    inner = {"metadata": {"labels": {"run": name}}, "spec": job}
    meta = {"name": name, "namespace": "default", "uid": name}
    value = {"schedule": "@daily", "jobTemplate": inner} | spec
    return decode_object({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": value})


def run_of(name: str, **status: Any) -> Object:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": name, "controller": True}
    meta = {"name": f"{name}-29", "namespace": "default", "ownerReferences": [owner]}
    spec = {"template": template(name, restartPolicy="Never")}
    value = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": status}
    return decode_object(value)


def test_each_runs_once() -> None:
    one = scheduler(machine("a"), cron_job("night", 2), cron_job("noon"), cron_job("off", suspend=True))
    assert pods(one) == {}
    assert one.change.run_cron_jobs().created == ("Job default/night-next", "Job default/noon-next")
    one.run()
    assert sorted(pods(one, "night").values()) == ["a", "a"]
    assert [*pods(one, "noon").values()] == ["a"]
    jobs: list[Job] = one.client.list(Job)[0]
    assert {job.spec.parallelism for job in jobs} == {1, 2}
    (night,) = [job for job in jobs if job.name == "night-next"]
    assert night.metadata.labels["run"] == "night"
    assert night.metadata.is_controlled_by("night")
    assert one.change.run_cron_jobs().created == ("Job default/night-next-2", "Job default/noon-next-2")


@pytest.mark.parametrize(
    ("policy", "running", "kept"),
    [
        ("", ["day-29", "day-next"], 0),
        ("Allow", ["day-29", "day-next"], 0),
        ("Forbid", ["day-29"], 1),
        ("Replace", ["day-next"], 0),
    ],
)
def test_a_run_under_way_meets_the_next_one(policy: str, running: list[str], kept: int) -> None:
    spec = {"concurrencyPolicy": policy} if policy else {}
    one = scheduler(machine("a"), cron_job("day", **spec), run_of("day"), cron_job("off", suspend=True))
    change = one.change.run_cron_jobs()
    one.run()
    jobs: list[Job] = one.client.list(Job)[0]
    assert sorted(job.name for job in jobs) == running
    assert len(pods(one, "day")) == len(running)
    assert change.kept == dict.fromkeys(
        ["CronJob default/day"][:kept], "Job day-29 has not finished, and its policy is Forbid"
    )
    assert change.deleted == (("Job default/day-29",) if policy == "Replace" else ())

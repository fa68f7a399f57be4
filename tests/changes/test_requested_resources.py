"""Requests of containers from a file, and rollouts with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.controllers.workloads.make import job, machine, pods, replicas, scheduler, template
from tests.doors.cluster import ResourceRequest

from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import Deployment, Pod

VPA = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {{name: {name}, namespace: default}}
spec: {{targetRef: {{apiVersion: apps/v1, kind: {kind}, name: {name}}}, updatePolicy: {{updateMode: "Off"}}}}
status: {status}
"""
AMOUNTS = "{containerName: c, target: {cpu: 1500m, memory: 262144k}}"
TARGET = f"{{recommendation: {{containerRecommendations: [{AMOUNTS}]}}}}"


def requests(one: Scheduler, app: str) -> set[tuple[str, str]]:
    """The requests of the pods of an app that are on nodes."""
    one.run()
    found: list[Pod] = one.client.list(Pod)[0]
    of_app = (each for each in found if each.metadata.labels.get("app") == app and each.spec.node_name)
    values = (each.spec.containers[0].resources.requests for each in of_app)
    return {(str(value.get("cpu", "")), str(value.get("memory", ""))) for value in values}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", "workload,container,cpu,memory\ndeploy/web,c,1500m,262144k\n"),
        ("r.txt", "workload,container,cpu,memory\ndeploy/web,c,1500m,262144k\n"),
        ("r.csv", "namespace,workload,container,cpu,memory\ndefault,deploy/web,c,1500m,262144k\n"),
        (
            "r.json",
            '[{"workload": "deploy/default/web", "container": "c", "cpu": "1500m", "memory": "262144k"}]',
        ),
        ("r.yaml", "- {workload: deployment/web, container: c, cpu: 1500m, memory: 262144k}"),
        ("vpa.yaml", VPA.format(name="web", kind="Deployment", status=TARGET)),
        (
            "vpas.yaml",
            "kind: List\nitems:\n- "
            + VPA.format(name="web", kind="Deployment", status=TARGET).replace("\n", "\n  "),
        ),
    ],
)
def test_a_file_gives_the_requests_and_the_workload_is_rolled_out(
    name: str, text: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text)
    one = scheduler(machine("a", 9), replicas("Deployment", "web", 2))
    before = set(pods(one, "web"))
    assert one.change.set_requests(str(file)).changed == ("Deployment default/web",)
    assert requests(one, "web") == {("1500m", "262144k")}
    assert not before & set(pods(one, "web"))
    assert one.change.set_requests(str(file)).changed == ()


def test_what_is_not_named_stays_and_a_lower_limit_is_raised() -> None:
    limited = template("web")
    limited["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    web = replicas("Deployment", "web", 1, template=limited)
    one = scheduler(machine("a", 9), web)
    one.change.set_requests([ResourceRequest("deploy/web", "c", {"cpu": "1500m"})])
    assert requests(one, "web") == {("1500m", "1Gi")}
    one.change.set_requests([ResourceRequest("deploy/web", "c", {"cpu": "3"})])
    assert requests(one, "web") == {("3", "1Gi")}
    (stored,) = one.client.list(Deployment)[0]
    assert stored.spec.template.spec.containers[0].resources.limits == {"cpu": "3", "memory": "1Gi"}


def test_init_containers_and_stateful_sets_have_requests_too() -> None:
    spec = template("db", initContainers=[{"name": "first", "resources": {"requests": {"cpu": "1"}}}])
    one = scheduler(machine("a", 9), replicas("StatefulSet", "db", 1, template=spec))
    one.change.set_requests([ResourceRequest("sts/db", "first", {"cpu": "10"})])
    assert one.run().unschedulable  # nine cpu are there


def test_recommendations_without_effect_are_told(tmp_path: Path) -> None:
    file = tmp_path / "vpa.yaml"
    parts = [("new", "Deployment", "{}"), ("gone", "Deployment", TARGET), ("batch", "Job", TARGET)]
    texts = [VPA.format(name=name, kind=kind, status=status) for name, kind, status in parts]
    file.write_text("---\n".join(texts))
    one = scheduler(machine("a"), replicas("Deployment", "new", 1), job("batch", 1))
    change = one.change.set_requests(str(file))
    assert change.changed == ()
    assert change.kept == {
        "VerticalPodAutoscaler default/new": "its status has no recommendation",
        "VerticalPodAutoscaler default/gone": 'there is no Deployment "default/gone"; nearest: new',
        "VerticalPodAutoscaler default/batch": "job/default/batch: a Job that is not suspended keeps its "
        "template; "
        "name its CronJob",
    }


def test_a_recommendation_for_a_container_that_was_injected_is_told(tmp_path: Path) -> None:
    injected = AMOUNTS.replace("containerName: c", "containerName: istio-proxy")
    status = f"{{recommendation: {{containerRecommendations: [{AMOUNTS}, {injected}]}}}}"
    file = tmp_path / "vpa.yaml"
    file.write_text(VPA.format(name="web", kind="Deployment", status=status))
    one = scheduler(machine("a", 9), replicas("Deployment", "web", 1))
    change = one.change.set_requests(str(file))
    assert change.changed == ("Deployment default/web",)
    assert requests(one, "web") == {("1500m", "262144k")}
    (why,) = change.kept.values()
    assert why.endswith("istio-proxy: there is no such container; the workload has c")


HEAD = "workload,container,cpu\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.csv", "", "line 1: workload: is missing"),
        ("r.csv", HEAD, "this file has no rows"),
        ("r.csv", "workload,container,pods\n", "line 1: pods: unknown; known are namespace, workload, "),
        ("r.csv", f"{HEAD}deploy/web,c\n", "line 2: 3 fields are expected"),
        ("r.csv", f"{HEAD}deploy/web,,1\n", "line 2: container: is empty"),
        ("r.csv", f"{HEAD}deploy/web,c,\n", "line 2: give cpu or memory"),
        ("r.csv", f"{HEAD}deploy/web,c,x\n", 'deploy/web: c.cpu: "x" is not a quantity'),
        (
            "r.csv",
            f"{HEAD}deploy/web,c,-1\n",
            'deploy/web: c.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            "r.csv",
            f"{HEAD}deploy/web,d,1\n",
            "deploy/web: d: there is no such container; the workload has c",
        ),
        ("r.csv", f"{HEAD}deploy/web,c,1\ndeployment/web,c,2\n", "deployment/web: c: is listed twice"),
        ("r.csv", f"{HEAD}deploy/gone,c,1\n", 'there is no Deployment "default/gone"'),
        (
            "r.csv",
            f"{HEAD}job/batch,c,1\n",
            "job/batch: a Job that is not suspended keeps its template; name its",
        ),
        (
            "r.csv",
            f"{HEAD}weeb,c,1\n",
            "no DaemonSet, Deployment, StatefulSet, CronJob, Job or Roll",
        ),
        ("r.csv", f"{HEAD}pod/p,c,1\n", "pod/p: a Pod keeps its requests; name a DaemonSet, Deployment, "),
        ("r.csv", f"{HEAD}rs/web,c,1\n", "rs/web: a ReplicaSet does not replace its pods; name a DaemonSet"),
        ("r.csv", f"{HEAD}cloneset/web,c,1\n", "cloneset/web: a CloneSet is not rolled out, as its"),
        ("r.csv", f"{HEAD}node/a,c,1\n", "node/a: a Node has no containers; name a DaemonSet"),
        ("r.csv", f"namespace,{HEAD}a,deploy/b/web,c,1\n", "line 2: namespace: the workload has one already"),
        (
            "r.json",
            "{}",
            "expected VerticalPodAutoscalers, the JSON of krr or goldilocks, or a list of maps with ",
        ),
        ("r.json", '{"kind": "Pod"}', "expected a list of requests, or VerticalPodAutoscalers, not a Pod"),
        ("r.json", "[1]", "[0]: expected a map"),
        ("r.json", "[]", "this file has no requests"),
        ("r.json", '[{"workload": "deploy/web"}]', "[0]: container: is missing"),
        (
            "r.yaml",
            "kind: VerticalPodAutoscaler\nstatus: {recommendation: 1}",
            "status.recommendation: expected",
        ),
    ],
)
def test_a_file_that_is_not_valid_changes_nothing(name: str, text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    one = scheduler(machine("a"), replicas("Deployment", "web", 1), job("batch", 1))
    before: list[Any] = one.client.list(Deployment)[0]
    with pytest.raises(InputError) as caught:
        one.change.set_requests(str(file))
    assert str(caught.value).startswith(f"{file}: {message}")
    assert "\n" not in str(caught.value)
    assert one.client.list(Deployment)[0] == before


def test_a_cron_job_and_a_suspended_job_have_the_requests_when_they_run(tmp_path: Path) -> None:
    one = scheduler(machine("a", 9), job("batch", 1, suspend=True))
    file = tmp_path / "cron.yaml"
    file.write_text(CRON)
    one.change.apply(str(file))
    found = one.change.set_requests(
        [ResourceRequest("job/batch", "c", {"cpu": "3"}), ResourceRequest("cj/night", "c", {"cpu": "2"})]
    )
    assert found.changed == ("Job default/batch", "CronJob default/night")
    one.change.unsuspend()
    one.change.run_cron_jobs()
    assert {cpu for cpu, _ in requests(one, "batch")} == {"3"}
    assert {cpu for cpu, _ in requests(one, "night")} == {"2"}


CRON = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: night}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        metadata: {labels: {app: night}}
        spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""

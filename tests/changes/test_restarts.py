"""Restarts roll workloads out, one after the other; suspended Jobs run when they are let."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import daemons, job, machine, pods, replicas, scheduler
from tests.doors.cluster import still_suspended
from tests.doors.kube import Suspended
from tests.make import pod

from moorage import Scheduler
from moorage.kube import ControllerRevision, Deployment, OwnerReference, ReplicaSet, load
from moorage.store import ObjectStore


def test_a_restart_replaces_the_pods_if_there_is_room_for_the_surge() -> None:
    one = scheduler(machine("a", 3), replicas("Deployment", "web", 2))
    before = set(pods(one, "web"))
    assert one.change.restart("deploy/web").changed == ("Deployment default/web",)
    assert not one.run().unschedulable
    assert len(pods(one, "web")) == 2
    assert not before & set(pods(one, "web"))
    full = scheduler(machine("a", 2), replicas("Deployment", "web", 2))
    full.change.restart("deploy/web")
    assert len(full.run().unschedulable) == 1


def test_workloads_are_restarted_one_after_the_other() -> None:
    web, api = replicas("Deployment", "web", 2), replicas("Deployment", "api", 2)
    one = scheduler(machine("a", 6), web, api, daemons("log"))
    before = set(pods(one))
    found = one.change.restart_all().changed
    assert found == ("DaemonSet default/log", "Deployment default/api", "Deployment default/web")
    assert not one.run().unschedulable  # there is room for one surge, and not for two
    assert not before & set(pods(one))
    assert len(pods(one)) == 5
    both = scheduler(machine("a", 4), web, api)
    both.change.restart_all()
    assert len(both.run().unschedulable) == 2


def test_a_workload_can_be_restarted_again() -> None:
    one, templates = scheduler(machine("a"), replicas("Deployment", "web", 1)), set[str]()
    for _ in range(3):
        templates.add(str(one.client.get(Deployment, "web", "default").spec.template))
        one.change.restart("deploy/web")
    assert len(templates) == 3


@pytest.mark.parametrize("limit", [0, 2, None])
def test_the_history_of_templates_has_a_limit(limit: int | None) -> None:
    kept = 10 if limit is None else limit
    sets = [replicas("Deployment", "web", 1), replicas("StatefulSet", "db", 1), daemons("log")]
    limited = [replace(one, spec=replace(one.spec, revision_history_limit=limit)) for one in sets]
    one, names = scheduler(machine("a", 6), *limited), list[set[str]]()
    for _ in range(kept + 3):
        one.run()
        names.append({each.name for each in one.client.list(ReplicaSet)[0]})
        one.change.restart_all()
    one.run()
    last = {each.name for each in one.client.list(ReplicaSet)[0]}
    owners = Counter(each.metadata.labels.get("app") for each in one.client.list(ControllerRevision)[0])
    assert len(last) == kept + 1
    assert not names[0] & last  # the oldest go
    assert {*owners.values()} == {kept + 1}


def test_suspended_jobs_run_when_they_are_let() -> None:
    one = scheduler(machine("a"), job("one", 2, suspend=True), job("two", 1))
    assert pods(one, "one") == {}
    assert one.change.unsuspend().changed == ("Job default/one",)
    one.run()
    assert sorted(pods(one, "one").values()) == ["a", "a"]
    assert one.change.unsuspend().changed == ()


OTHERS = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "9", memory: 9Gi, pods: "20"}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: q}}
spec:
  suspend: true
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: c, image: x}]}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pt}
spec:
  runPolicy: {suspend: true}
  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: x}]}}}}
---
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: wrapped}
spec:
  suspend: true
  components:
  - template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 1
        selector: {matchLabels: {a: b}}
        template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}
---
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: bad}
spec:
  suspend: true
  headGroupSpec: {template: {spec: {containers: [{name: c, resources: {requests: {cpu: x}}}]}}}
"""


def test_pods_of_a_kind_of_another_group_do_not_say_that_a_suspended_workload_runs() -> None:
    store = ObjectStore()
    owner = OwnerReference("batch/v1", "Job", "train", "u", controller=True)
    made = pod("train-0")
    store.create(replace(made, metadata=replace(made.metadata, owner_references=(owner,))))
    kinds = "Job.batch", "Job.batch.volcano.sh"
    ours, other = (Suspended(kind, "default", "train", "", ()) for kind in kinds)
    assert still_suspended(store, [ours, other]) == [other]


def test_suspended_workloads_of_other_projects_run_when_they_are_let(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(OTHERS)
    cluster = load(tmp_path / "f.yaml")
    names = ["JobSet.jobset.x-k8s.io default/train", "PyTorchJob.kubeflow.org default/pt"]
    names += ["AppWrapper.workload.codeflare.dev default/wrapped", "RayCluster.ray.io default/bad"]
    shown = ", ".join([f"{names[0]} (queue q)", *names[1:]])
    assert cluster.warnings == [
        f"Not counted, because they are suspended (spec.suspend: false counts them) (4): {shown}."
    ]
    one = Scheduler(cluster)
    assert [each.text for each in one.ask.suspended()] == names
    change = one.fork().change.unsuspend()
    assert {name.partition(" ")[0] for name in change.created} == {"Namespace", "Job", "Pod", "Deployment"}
    assert list(change.kept) == [names[3]]
    with one.transaction():
        one.change.unsuspend()
    assert [each.text for each in one.ask.suspended()] == names
    one.change.unsuspend()
    one.run()
    starts = sorted(name.rpartition("-")[0] for name in pods(one))
    assert starts[:4] == ["pt-worker", "pt-worker", "train-workers-0", "train-workers-0"]
    assert len(starts) == 7
    assert [each.text for each in one.ask.suspended()] == names[3:]
    again = one.change.unsuspend()
    assert (again.created, again.changed, list(again.kept)) == ((), (), names[3:])

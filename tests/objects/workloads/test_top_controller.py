"""The workload of a pod."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.make import node

from moorage import Scheduler
from moorage.kube import Cluster, Job, ObjectMeta, OwnerReference, Pod, PodSpec, ReplicaSet


def meta(name: str, owner: tuple[str, str] | None = None) -> ObjectMeta:
    owners = (OwnerReference(kind=owner[0], name=owner[1], controller=True),) if owner else ()
    return ObjectMeta(name=name, namespace="n", owner_references=owners)


LISTED = [
    ReplicaSet(kind="ReplicaSet", metadata=meta("set", ("Deployment", "web"))),
    ReplicaSet(kind="ReplicaSet", metadata=meta("alone-abc")),
    ReplicaSet(kind="ReplicaSet", metadata=meta("ring", ("Job", "ring"))),
    Job(kind="Job", metadata=meta("night", ("CronJob", "nightly"))),
    Job(kind="Job", metadata=meta("ring", ("ReplicaSet", "ring"))),
]


@pytest.mark.parametrize(
    ("owner", "template", "text"),
    [
        (None, "", "pod/p"),
        (("ReplicaSet", "set"), "", "deployment/web"),
        (("ReplicaSet", "set"), "else", "deployment/web"),
        (("ReplicaSet", "alone-abc"), "abc", "replicaset/alone-abc"),
        (("ReplicaSet", "gone-abc"), "abc", "deployment/gone"),
        (("ReplicaSet", "gone-abc"), "xyz", "replicaset/gone-abc"),
        (("ReplicaSet", "gone-abc"), "", "replicaset/gone-abc"),
        (("Job", "night"), "", "cronjob/nightly"),
        (("Job", "other"), "abc", "job/other"),
        (("StatefulSet", "db"), "", "statefulset/db"),
        (("ReplicaSet", "ring"), "", "replicaset/ring"),
    ],
)
def test_the_workload_of_a_pod_is_its_top_controller(
    owner: tuple[str, str] | None, template: str, text: str
) -> None:
    labels = {"pod-template-hash": template} if template else {}
    pod = Pod(metadata=replace(meta("p", owner), labels=labels), spec=PodSpec(node_name="n"))
    (use,) = Scheduler(Cluster(nodes=[node("n")], pods=[pod], others=[*LISTED])).ask.workload_use()
    assert (use.namespace, use.workload) == ("n", text)

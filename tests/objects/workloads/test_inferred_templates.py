"""Pods of several templates, where no file has the ReplicaSets or ControllerRevisions that tell these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from moorage.kube import Pod

LABEL, HASH = "controller-revision-hash", "pod-template-hash"
KINDS = ["StatefulSet", "DaemonSet", "Deployment"]
RESTARTED = {"kubectl.kubernetes.io/restartedAt": "2026-02-01T00:00:00Z"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
GENERATION = "deprecated.daemonset.template.generation"


def template(
    image: str = "x:1", cpu: str = "1", note: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    containers = [
        {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}} | spec.pop("own", {})
    ]
    meta = {"labels": {"app": "w"}} | ({"annotations": note} if note else {})
    return {"metadata": meta, "spec": {"containers": containers} | spec}


def workload(kind: str, its: dict[str, Any], told: bool = True) -> dict[str, Any]:
    """One of which the newest pod has the template, and w-2 is this pod."""
    spec = {"template": its, "selector": {"matchLabels": {"app": "w"}}}
    if kind != "DaemonSet":
        spec |= {"replicas": 3}
    if kind == "StatefulSet":
        spec |= {"serviceName": "w", "podManagementPolicy": "Parallel"}
    one = {"apiVersion": "apps/v1", "kind": kind, "spec": spec}
    one["metadata"] = {"name": "w", "namespace": "shop"}
    one["metadata"] |= {"annotations": {LAST_APPLIED: json.dumps(one)}, "uid": "w"}
    if told and kind == "StatefulSet":
        one["status"] = {"currentRevision": "w-old", "updateRevision": "w-new"}
    if told and kind == "DaemonSet":
        one["metadata"]["annotations"][GENERATION] = "2"
    return one


def manifest(kind: str, its: dict[str, Any]) -> dict[str, Any]:
    return json.loads(workload(kind, its)["metadata"]["annotations"][LAST_APPLIED])


def pods(kind: str, old: dict[str, Any], new: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Two of an old template and one of a new one, each with what admission has added."""
    made = []
    for at, (its, mark) in enumerate(((old, "old"), (old, "old"), (new, "new"))):
        generation = {"pod-template-generation": "2" if mark == "new" else "1"}
        marks = {
            "StatefulSet": {LABEL: f"w-{mark}", "apps.kubernetes.io/pod-index": str(at)},
            "DaemonSet": {LABEL: mark} | generation,
            "Deployment": {HASH: mark},
        }[kind]
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "w", "uid": "w", "controller": True}
        if kind == "Deployment":
            owner |= {"kind": "ReplicaSet", "name": f"w-{mark}", "uid": mark}
        spec = json.loads(json.dumps(its["spec"])) | {"nodeName": f"n{at}"} | more
        spec["containers"][0]["resources"]["limits"] = {"memory": "1Gi"}
        spec["volumes"] = [{"name": "kube-api-access-x", "emptyDir": {}}]
        meta = its["metadata"] | {
            "labels": its["metadata"]["labels"] | marks,
            "name": f"w-{at}",
            "namespace": "shop",
            "uid": f"w-{at}",
            "creationTimestamp": f"2026-01-0{1 + (mark == 'new')}T00:00:00Z",
            "ownerReferences": [owner],
        }
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})
    return made


def nodes() -> list[dict[str, Any]]:
    status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"}}
    own = {"resourceVersion": "1", "labels": {"kubernetes.io/os": "linux"}}
    metas = [{"name": f"n{at}", "uid": f"n{at}"} | own for at in range(3)]
    return [{"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status} for meta in metas]


def files(path: Path, *parts: list[dict[str, Any]]) -> list[str]:
    names = []
    for at, items in enumerate(parts):
        names.append(str(path / f"{at}.json"))
        Path(names[-1]).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return names


def kept(cluster: mo.Cluster, *manifests: str) -> set[str]:
    """The pods of the input that are there after a run."""
    one = mo.Scheduler(cluster)
    if manifests:
        one.change.apply(manifests)
    one.run()
    there: list[Pod] = one.client.list(Pod)[0]
    return {pod.name for pod in there if pod.metadata.uid.startswith("w-") and pod.metadata.uid == pod.name}


BACK: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "image": (template("x:1"), template("x:2")),
    "requests": (template(cpu="1"), template(cpu="2")),
    "a dropped selector": (template(), template(nodeSelector={"kubernetes.io/os": "linux"})),
    "a toleration": (template(tolerations=[{"key": "a", "operator": "Exists"}]), template()),
    "a container": (template(), template(initContainers=[{"name": "i", "image": "i"}])),
    "a restart": (template(), template(note=RESTARTED)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("old", "new"), BACK.values(), ids=BACK)
def test_a_workload_goes_back_to_pods_that_show_its_template(
    kind: str, old: dict[str, Any], new: dict[str, Any], tmp_path: Path
) -> None:
    cluster = [*nodes(), workload(kind, new), *pods(kind, old, new)]
    dump, change = files(tmp_path, cluster, [manifest(kind, old)])
    assert kept(mo.load(dump)) <= {"w-2"}  # the rollout goes on
    found = mo.load(dump, change)
    left = kept(found) & {"w-0", "w-1"}
    assert len(left) == (2 if kind == "Deployment" else 1)  # other rollouts take a step before it
    if kind != "Deployment":
        assert kept(mo.load(dump), change) & {"w-0", "w-1"} == left
    assert [text for text in found.warnings if "guessed" in text and text.endswith(f": {kind} shop/w.")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_third_template_has_no_pods(kind: str, tmp_path: Path) -> None:
    old, new = template("x:1"), template("x:2")
    cluster = [*nodes(), workload(kind, new), *pods(kind, old, new)]
    assert kept(mo.load(*files(tmp_path, cluster, [manifest(kind, template("x:3"))]))) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_templates_that_pods_do_not_tell_apart_are_new(kind: str, tmp_path: Path) -> None:
    old, new = (template(own={"env": [{"name": "A", "value": value}]}) for value in "ab")
    cluster = [*nodes(), workload(kind, new), *pods(kind, old, new)]
    found = mo.load(*files(tmp_path, cluster, [manifest(kind, old)]))
    assert kept(found) == set()
    assert any("guessed" in text for text in found.warnings)


def test_revisions_of_the_input_are_no_guess(tmp_path: Path) -> None:
    old, new = template("x:1"), template("x:2")
    owner = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "w", "controller": True}]
    revisions = [
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "revision": at,
            "data": {"spec": {"template": one}},
        }
        | {"metadata": {"name": f"w-{mark}", "namespace": "shop", "ownerReferences": owner}}
        for at, (mark, one) in enumerate((("old", old), ("new", new)), 1)
    ]
    cluster = [*nodes(), workload("StatefulSet", new), *pods("StatefulSet", old, new), *revisions]
    found = mo.load(*files(tmp_path, cluster, [manifest("StatefulSet", old)]))
    assert kept(found) == {"w-0"}  # w-1 went before the change
    assert not any("guessed" in text for text in found.warnings)


@pytest.mark.parametrize("told", [False, True])
def test_the_number_of_its_template_tells_the_pods_of_a_daemon_set(told: bool, tmp_path: Path) -> None:
    """Also if admission has changed so much that they do not show it."""
    old, new = template("x:1"), template("x:2")
    changed = pods("DaemonSet", old, new)
    for pod in changed:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    dump = files(tmp_path, [*nodes(), workload("DaemonSet", new, told), *changed])
    assert kept(mo.load(*dump)) == ({"w-2"} if told else set())

"""Controllers compare whole templates: fields that scheduling does not read make a rollout, and end one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests import make
from tests.make import manifest, written

import moorage as mo

NODE = manifest(make.node("n1", cpu="8", pods="20", metadata={"uid": "n1", "resourceVersion": "1"}))
FIELDS: list[dict[str, Any]] = [
    {"env": [{"name": "A", "value": "2"}]},
    {"args": ["--verbose"]},
    {"imagePullPolicy": "Always"},
    {"readinessProbe": {"tcpSocket": {"port": 80}}},
    {"securityContext": {"runAsNonRoot": True}},
]


def meta(name: str, owner: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    found = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": "5", **more}
    return found | (make.owned(*owner, f"u-{owner[1]}") if owner else {})


def template(container: dict[str, Any], **labels: str) -> dict[str, Any]:
    one = {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1"}}} | container
    return {"metadata": {"labels": {"app": "web", **labels}}, "spec": {"containers": [one]}}


def workload(kind: str, container: dict[str, Any], **fields: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}, "template": template(container)}
    spec |= {} if kind == "DaemonSet" else {"replicas": 2}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta("web"), "spec": spec, **fields}


def replica_set(name: str, container: dict[str, Any], replicas: int, created: str) -> dict[str, Any]:
    labels = {"app": "web", "pod-template-hash": name}
    return written(
        "apps/v1/ReplicaSet",
        meta(f"web-{name}", ("Deployment", "web"), labels=labels, creationTimestamp=created),
        {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template(container, **{"pod-template-hash": name}),
        },
    )


def pod(name: str, owner: tuple[str, str], container: dict[str, Any], **labels: str) -> dict[str, Any]:
    one = template(container, **labels)
    return written(
        "v1/Pod",
        meta(name, owner, labels=one["metadata"]["labels"]),
        one["spec"] | {"nodeName": "n1"},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    )


def deployed(container: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """A Deployment whose rollout from an old template is complete."""
    pods = [
        pod(name, ("ReplicaSet", "web-new"), container, **{"pod-template-hash": "new"}) for name in ("a", "b")
    ]
    old_set = replica_set("old", old, 0, "2026-01-01T00:00:00Z")
    new_set = replica_set("new", container, 2, "2026-02-01T00:00:00Z")
    return [NODE, workload("Deployment", container), old_set, new_set, *pods]


def run(tmp_path: Path, *layers: list[dict[str, Any]]) -> Counter[str]:
    """The pods of the end, by where they are from: kept or new."""
    files = []
    for at, layer in enumerate(layers):
        files.append(tmp_path / f"{at}.json")
        files[-1].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": layer}))
    scheduler = mo.Scheduler(mo.load(*files))
    scheduler.run()
    pods = scheduler.client.list(mo.Pod)[0]
    return Counter(
        "kept" if one.metadata.uid in ("u-a", "u-b", "u-web-0", "u-web-1") else "new" for one in pods
    )


@pytest.mark.parametrize("field", FIELDS)
def test_an_old_replica_set_that_differs_in_such_a_field_is_not_the_current_one(
    tmp_path: Path, field: dict[str, Any]
) -> None:
    assert run(tmp_path, deployed({}, field)) == {"kept": 2}
    assert run(tmp_path, deployed(field, {})) == {"kept": 2}


def test_the_name_of_a_mounted_secret_counts(tmp_path: Path) -> None:
    objects = deployed({}, {})
    for obj in objects[1:]:
        spec = obj["spec"]["template"]["spec"] if "template" in obj["spec"] else obj["spec"]
        name = "old" if obj["metadata"]["name"] == "web-old" else "new"
        spec["volumes"] = [{"name": "v", "secret": {"secretName": name}}]
    assert run(tmp_path, objects) == {"kept": 2}


@pytest.mark.parametrize("field", FIELDS)
def test_a_change_of_such_a_field_replaces_the_pods_of_a_deployment(
    tmp_path: Path, field: dict[str, Any]
) -> None:
    assert run(tmp_path, deployed({}, {"tty": True}), [workload("Deployment", field)]) == {"new": 2}


def test_a_return_to_an_old_template_scales_its_replica_set(tmp_path: Path) -> None:
    field = FIELDS[0]
    layers = deployed({}, field), [workload("Deployment", field)]
    assert run(tmp_path, *layers) == {"new": 2}
    scheduler = mo.Scheduler(mo.load(tmp_path / "0.json", tmp_path / "1.json"))
    scheduler.run()
    owners = {one.metadata.owner_references[0].name for one in scheduler.client.list(mo.Pod)[0]}
    assert owners == {"web-old"}


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("field", FIELDS[:2])
def test_a_change_of_such_a_field_replaces_the_pods_of_other_kinds(
    tmp_path: Path, kind: str, field: dict[str, Any]
) -> None:
    mark = "web-x" if kind == "StatefulSet" else "x"
    status = {"currentRevision": "web-x", "updateRevision": "web-x", "updatedNumberScheduled": 1}
    names = ["web-0", "web-1"] if kind == "StatefulSet" else ["a"]
    pods = [pod(name, (kind, "web"), {}, **{"controller-revision-hash": mark}) for name in names]
    before = [NODE, workload(kind, {}, status=status), *pods]
    assert run(tmp_path, before, [workload(kind, {})]) == {"kept": len(names)}
    assert run(tmp_path, before, [workload(kind, field)]) == {"new": len(names)}


@pytest.mark.parametrize(
    "same",
    [
        {"terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"},
        {"resources": {"requests": {"cpu": "1000m"}}},
        {"env": []},
    ],
)
def test_an_explicit_default_or_another_spelling_is_no_rollout(tmp_path: Path, same: dict[str, Any]) -> None:
    assert run(tmp_path, deployed({}, {"tty": True}), [workload("Deployment", same)]) == {"kept": 2}

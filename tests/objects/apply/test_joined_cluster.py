"""Objects of further files are joined to a cluster as if all files had been looked at together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from tests.doors.kube import load as reading

from moorage.cli import main
from moorage.kube import Cluster

RANDOM = re.compile("-[a-z0-9]{5}\\b")
"""The end of a name that a controller makes during a run."""
CREATED = "2026-01-02T03:04:05Z"
SPEC = {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]}


def served(kind: str, name: str, rest: Mapping[str, Any], **meta: Any) -> dict[str, Any]:
    """An object as an API server returns it."""
    version = {"Pod": "v1", "Node": "v1", "Namespace": "v1"}.get(kind, "apps/v1")
    space = {} if kind in ("Node", "Namespace") else {"namespace": "default"}
    known = {"uid": f"{kind}-{name}", "resourceVersion": "7", "creationTimestamp": CREATED}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **space, **known, **meta}, **rest}


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def workload(kind: str, name: str, replicas: int, **labels: str) -> dict[str, Any]:
    mine = {"app": name, **labels}
    template = {"metadata": {"labels": mine}, "spec": SPEC}
    spec = {"replicas": replicas, "selector": {"matchLabels": mine}, "template": template}
    return {"spec": spec | ({"serviceName": name} if kind == "StatefulSet" else {})}


def manifest(kind: str, name: str, rest: Mapping[str, Any]) -> dict[str, Any]:
    version = "apps/v1" if kind in ("Deployment", "StatefulSet", "DaemonSet") else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def dump(**more: Any) -> Iterator[dict[str, Any]]:
    yield served("Namespace", "default", {})
    for at in range(6):
        free = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        yield served("Node", f"n{at}", {"status": {"allocatable": free, "capacity": free}})
    yield served("Deployment", "web", workload("Deployment", "web", 3))
    hashed = {"pod-template-hash": "abc"}
    yield served(
        "ReplicaSet",
        "web-abc",
        workload("ReplicaSet", "web", 3, **hashed),
        labels={"app": "web", **hashed},
        ownerReferences=[owner("Deployment", "web")],
    )
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for at in range(3):
        yield served(
            "Pod",
            f"web-abc-{at}",
            {"spec": {**SPEC, "nodeName": f"n{at}"}, "status": ready},
            labels={"app": "web", **hashed},
            ownerReferences=[owner("ReplicaSet", "web-abc")],
        )
    yield from more.get("objects", ())


POD = manifest("Pod", "one", {"spec": SPEC})
SERVICE = manifest("Service", "web", {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
CONFIG = manifest("ConfigMap", "web", {"data": {}})
FURTHER: dict[str, list[dict[str, Any]]] = {
    "new": [manifest("Deployment", "api", workload("Deployment", "api", 2)), SERVICE, CONFIG],
    "more": [manifest("Deployment", "web", {"spec": {"replicas": 5}})],
    "fewer": [manifest("Deployment", "web", {"spec": {"replicas": 1}})],
    "pods among workloads": [
        POD,
        manifest("StatefulSet", "db", workload("StatefulSet", "db", 2)),
        manifest("Pod", "two", {"spec": SPEC}),
    ],
    "the same": [manifest("Deployment", "web", workload("Deployment", "web", 3))],
}
APART: dict[str, list[dict[str, Any]]] = {
    "a quota": [served("ResourceQuota", "all", {"spec": {"hard": {"pods": "4"}}}) | {"apiVersion": "v1"}],
    "a pod of the same name": [served("Pod", "one", {"spec": {**SPEC, "nodeName": "n1"}})],
    "pods of unknown templates": [
        served(
            "Pod", f"api-{at}-x", {"spec": {**SPEC, "nodeName": "n1"}}, labels=labels, ownerReferences=refs
        )
        for at in ("a", "b")
        for labels in [{"app": "api", "pod-template-hash": at}]
        for refs in [[owner("ReplicaSet", f"api-{at}")]]
    ],
}


def text(objects: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).encode()


@contextmanager
def without_joining() -> Iterator[None]:
    """All files are looked at together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "join", lambda *_, **__: None)
        yield


def both(first: bytes, then: bytes) -> tuple[Cluster, Cluster]:
    """The cluster of two files, joined if possible, and looked at together."""
    joined = reading.load_before_and_after(first, then)[1]
    with without_joining():
        return joined, reading.load_before_and_after(first, then)[1]


@pytest.mark.parametrize("name", FURTHER)
def test_a_joined_cluster_is_that_of_all_files(name: str) -> None:
    joined, whole = both(text(dump()), text(FURTHER[name]))
    assert (joined.joined is not None, whole.joined) == (True, None)
    assert joined == whole
    assert joined.turns == whole.turns


@pytest.mark.parametrize("name", APART)
def test_what_depends_on_other_objects_is_looked_at_with_them(name: str) -> None:
    then = text([*FURTHER["new"], POD])
    joined, whole = both(text(dump(objects=APART[name])), then)
    assert joined.joined is None
    assert joined == whole


@pytest.mark.parametrize("name", FURTHER)
def test_commands_answer_alike(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    for file, objects in (("all.json", dump()), ("new.json", FURTHER[name])):
        (tmp_path / file).write_bytes(text(objects))
    files = ("-f", f"{tmp_path}/all.json", "-f", f"{tmp_path}/new.json")
    answers = []
    for way in (nullcontext(), without_joining()):
        with way:
            code = main(["check", *files, "--drain", "n0", "-o", "wide"])
        answers.append((code, RANDOM.sub("-x", capsys.readouterr().out)))
    assert answers[0] == answers[1]

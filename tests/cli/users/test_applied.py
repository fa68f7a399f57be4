"""``moorage check`` of a dump and a manifest that is applied to it: what a release gate asks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cli import main

RESTARTED = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}


def deployment(replicas: int | None, name: str = "web", **container: Any) -> dict[str, Any]:
    one = {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1"}}} | container
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [one]}},
    }
    spec |= {} if replicas is None else {"replicas": replicas}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def served(obj: dict[str, Any], uid: str, **meta: Any) -> dict[str, Any]:
    return obj | {"metadata": obj["metadata"] | {"uid": uid, "resourceVersion": "5"} | meta}


def owned(kind: str, name: str, by: str, spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    of = "web" if by == "Deployment" else "web-x"
    owner = {"apiVersion": "apps/v1", "kind": by, "name": of, "uid": by}
    labels = {"app": "web", "pod-template-hash": "x"}
    meta = {
        "name": name,
        "namespace": "shop",
        "labels": labels,
        "ownerReferences": [owner | {"controller": True}],
    }
    version = "v1" if kind == "Pod" else "apps/v1"
    obj = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
    return served(obj, kind if kind == "ReplicaSet" else name) | fields


def dump(replicas: int, cpu: int, annotations: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """A cluster of one node, on which all pods of a Deployment run."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "n1"},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}},
    }
    live = deployment(replicas)
    live["spec"]["template"]["metadata"]["annotations"] = annotations or {}
    template = copy.deepcopy(live["spec"]["template"])
    template["metadata"]["labels"]["pod-template-hash"] = "x"
    selector = {"matchLabels": {"app": "web", "pod-template-hash": "x"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = [
        owned("Pod", f"web-x-{at}", "ReplicaSet", template["spec"] | {"nodeName": "n1"}, status=status)
        for at in range(replicas)
    ]
    return [node, served(live, "Deployment"), owned("ReplicaSet", "web-x", "Deployment", spec), *pods]


def check(tmp_path: Path, *layers: list[dict[str, Any]]) -> int:
    arguments = []
    for at, items in enumerate(layers):
        (tmp_path / f"{at}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        arguments += ["-f", str(tmp_path / f"{at}.json")]
    return main(["check", *arguments])


def test_replicas_of_an_autoscaler_take_their_room(tmp_path: Path) -> None:
    """The manifest names no replicas: the seven stay, and there is room for one more pod."""
    assert check(tmp_path, dump(7, 8), [deployment(None), deployment(1, "other")]) == 0
    assert check(tmp_path, dump(7, 8), [deployment(None), deployment(6, "other")]) == 1


def test_a_manifest_after_a_restart_is_no_rollout(tmp_path: Path) -> None:
    assert check(tmp_path, dump(3, 3, RESTARTED), [deployment(3)]) == 0


def test_a_change_of_the_environment_needs_room(tmp_path: Path) -> None:
    changed = deployment(3, env=[{"name": "A", "value": "2"}])
    assert check(tmp_path, dump(3, 3), [changed]) == 1
    assert check(tmp_path, dump(3, 4), [changed]) == 0


def test_a_changed_selector_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = deployment(3)
    changed["spec"]["selector"]["matchLabels"] = {"v": "2"}
    changed["spec"]["template"]["metadata"]["labels"]["v"] = "2"
    assert check(tmp_path, dump(3, 8), [changed]) == 1
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error:")]
    assert line.endswith(
        '1.json: Deployment.apps "web" is invalid: spec.selector: '
        'Invalid value: {"matchLabels":{"app":"web","v":"2"}}: '
        "field is immutable"
    )

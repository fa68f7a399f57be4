"""Files are applied to the store of a scheduler as ``kubectl apply`` does, as `tests/cases/cli/applied.md`
shows; objects replace what was there."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.make import make, manifest, node

import moorage as mo
from moorage.errors import InputError
from moorage.kube import Deployment

NODE = manifest(node("n1", cpu=64, memory="64Gi"))


def deployment(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "web:1", "env": [{"name": "A", "value": "1"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template} | spec
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def served(manifest: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """An object of a server, as kubectl has applied it, with fields that others have set."""
    obj = copy.deepcopy(manifest)
    obj["metadata"] |= {
        "uid": "u",
        "resourceVersion": "5",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest)},
    }
    obj["spec"] |= spec
    return obj


def written(tmp_path: Path, obj: dict[str, Any], name: str = "app.json") -> Path:
    (tmp_path / name).write_text(json.dumps(obj))
    return tmp_path / name


def scheduler(tmp_path: Path, *objects: dict[str, Any]) -> mo.Scheduler:
    dump = {"apiVersion": "v1", "kind": "List", "items": [NODE, *objects]}
    one = mo.Scheduler(mo.load(written(tmp_path, dump, "dump.json")))
    one.run()
    return one


def replicas(one: mo.Scheduler) -> int | None:
    found: Deployment = one.client.get(Deployment, "web", "default")
    return found.spec.replicas


def test_what_a_user_has_scaled_stays(tmp_path: Path) -> None:
    one = scheduler(tmp_path)
    path = written(tmp_path, deployment())
    assert "Deployment default/web" in one.change.apply(path).created
    one.change.scale("deploy/web", 4)
    one.change.apply(path)
    assert replicas(one) == 4


def test_a_changed_class_changes_the_priority_of_a_template(tmp_path: Path) -> None:
    one = scheduler(tmp_path)
    one.change.apply(
        [make("PriorityClass", "low", None, value=1), make("PriorityClass", "high", None, value=9)]
    )
    for name in ("low", "high"):
        obj = deployment()
        obj["spec"]["template"]["spec"]["priorityClassName"] = name
        one.change.apply(written(tmp_path, obj))
    found: Deployment = one.client.get(Deployment, "web", "default")
    assert found.spec.template.spec.priority == 9


def test_several_files_are_applied_one_after_the_other(tmp_path: Path) -> None:
    one = scheduler(tmp_path, served(deployment(replicas=3)))
    one.change.apply([written(tmp_path, deployment(replicas=5)), written(tmp_path, deployment(), "b.json")])
    assert replicas(one) == 1


def test_an_immutable_field_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    one = scheduler(tmp_path, served(deployment(replicas=3)))
    other = deployment(replicas=4, selector={"matchLabels": {"v": "2"}})
    other["spec"]["template"]["metadata"]["labels"]["v"] = "2"
    with pytest.raises(InputError, match=r"app.json: Deployment web: spec.selector: .* immutable"):
        one.change.apply(written(tmp_path, other))
    assert replicas(one) == 3


def test_an_object_replaces_the_whole(tmp_path: Path) -> None:
    one = scheduler(tmp_path, served(deployment(), replicas=5))
    found: Deployment = one.client.get(Deployment, "web", "default")
    one.change.apply(mo.edit(found, {"spec.replicas": None}))
    assert replicas(one) == 1


EXISTS = {"key": "x", "operator": "Exists"}
CLASSES = {"low": {"value": 10, "preemptionPolicy": "Never"}, "usual": {"value": 5, "globalDefault": True}}


@pytest.mark.parametrize(
    "spec",
    [
        *({"tolerations": each} for each in ([EXISTS], [EXISTS | {"effect": "NoSchedule"}], [])),
        {"tolerations": [{"operator": "Exists"}]},
        {"priorityClassName": "low"},
        {"priorityClassName": "system-cluster-critical"},
    ],
)
@pytest.mark.parametrize("is_served", [True, False])
def test_a_job_changes_but_for_its_template(spec: dict[str, Any], is_served: bool, tmp_path: Path) -> None:
    containers = [{"name": "c", "image": "i"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers} | spec}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    job["spec"] = {"parallelism": 2, "completions": 2, "suspend": True, "template": template}
    classes = [make("PriorityClass", name, None, **fields) for name, fields in CLASSES.items()]
    before = job | {"metadata": {"name": "j", "uid": "u", "resourceVersion": "5"}} if is_served else job
    one = scheduler(tmp_path, before, *map(manifest, classes))
    changed = copy.deepcopy(job)
    changed["spec"] |= {"parallelism": 1, "suspend": False, "backoffLimit": 1}
    assert one.change.apply(written(tmp_path, changed)).changed == ("Job default/j",)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "k"
    with pytest.raises(InputError, match="field is immutable"):
        one.change.apply(written(tmp_path, changed))


def test_a_manifest_is_in_a_namespace_of_the_cluster(tmp_path: Path) -> None:
    one = scheduler(tmp_path, deployment())
    elsewhere = deployment() | {"metadata": {"name": "web", "namespace": "shpo"}}
    with pytest.raises(InputError, match='Deployment shpo/web: namespaces "shpo" not found'):
        one.change.apply(elsewhere)
    assert (
        "Namespace kube-public"
        in one.change.apply(deployment() | {"metadata": {"name": "web", "namespace": "kube-public"}}).created
    )  # every server has it
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shpo"}}
    assert "Deployment shpo/web" in one.change.apply([space, elsewhere]).created
    assert (
        "Deployment any/web"
        in mo.Scheduler(mo.load(NODE))
        .change.apply(deployment() | {"metadata": {"name": "web", "namespace": "any"}})
        .created
    )  # nothing is known of the namespaces of a node


def test_what_a_server_warns_of_is_noted(tmp_path: Path) -> None:
    requests = {"resources": {"requests": {"memory": "400m"}}}
    spec = {"containers": [{"name": "c", "image": "web:1"} | requests]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    (note,) = scheduler(tmp_path).change.apply(deployment(template=template)).notes
    assert note.endswith('requests[memory]: fractional byte value "400m" is invalid, must be an integer.')

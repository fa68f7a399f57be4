"""Objects from Python: dicts, texts, file objects and objects of clients are read as files are."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import yaml

from moorage.errors import InputError
from moorage.kube import Node, Pod, dump, load, object_to_dict, read_object

META = {"name": "web", "labels": {"app_name": "web"}, "creationTimestamp": "2026-01-02T03:04:05Z"}
CONTAINER = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "500m"}}}
WEB = {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": {"containers": [CONTAINER]}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


# ---- objects of clients, with what each of them has of its own ---------------------------------------------


class Model(SimpleNamespace):
    """An object of the official client: attributes, and a table of the names that they have on the wire."""

    attribute_map: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return vars(self)  # with the names of attributes, which no manifest has


def official(name: str, /, **fields: str) -> type[Model]:
    return type(name, (Model,), {"attribute_map": fields})


V1Meta = official("V1ObjectMeta", name="name", labels="labels", created="creationTimestamp", uid="uid")
V1Container = official("V1Container", name="name", image="image", resources="resources")
V1Spec = official("V1PodSpec", containers="containers", node_name="nodeName")
TOP = {"api_version": "apiVersion", "kind": "kind", "metadata": "metadata"}
V1Pod, V1PodList = official("V1Pod", **TOP, spec="spec"), official("V1PodList", **TOP, items="items")
V1beta1Pod = official("V1beta1Pod", **TOP, spec="spec")


def of_official(struct: type[Model] = V1Pod) -> Model:
    created = datetime(2026, 1, 2, 4, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    meta = V1Meta(name="web", labels={"app_name": "web"}, created=created, uid=None)
    spec = V1Spec(containers=[V1Container(**CONTAINER)], node_name=None)
    return struct(api_version=None, kind=None, metadata=meta, spec=spec)


class Lightkube:
    """An object of lightkube: it converts itself, without the kind, which its class tells."""

    kind = None
    metadata: Any = object()

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value

    def to_dict(self) -> dict[str, Any]:
        return {key: one for key, one in self.value.items() if key not in ("kind", "apiVersion")}


def of_lightkube(kind: str, value: dict[str, Any], group: str = "", version: str = "v1") -> Lightkube:
    info = SimpleNamespace(resource=SimpleNamespace(group=group, version=version, kind=kind))
    made: Lightkube = type(kind, (Lightkube,), {"_api_info": info})(value)
    return made


class OfPykube:
    """An object of pykube: it has the manifest, without the kind if it was read in a list."""

    def __init__(self, obj: dict[str, Any]) -> None:
        self.obj = obj
        self.metadata = obj["metadata"]


def of_pykube(kind: str, version: str, value: dict[str, Any]) -> OfPykube:
    obj = {key: one for key, one in value.items() if key not in ("kind", "apiVersion")}
    made: OfPykube = type(kind, (OfPykube,), {"version": version, "kind": kind})(obj)
    return made


FORMS: dict[str, Callable[[], Any]] = {
    "dict": lambda: WEB,
    "mapping": lambda: MappingProxyType(WEB),
    "list": lambda: [WEB],
    "generator": lambda: (one for one in [WEB]),
    "JSON": lambda: json.dumps(WEB),
    "YAML": lambda: yaml.safe_dump(WEB),
    "bytes": lambda: yaml.safe_dump(WEB).encode(),
    "compressed bytes": lambda: gzip.compress(json.dumps(WEB).encode()),
    "text file": lambda: io.StringIO(yaml.safe_dump(WEB)),
    "binary file": lambda: io.BytesIO(json.dumps(WEB).encode()),
    "moorage": lambda: read_object(WEB),
    "official client": of_official,
    "official client, beta": lambda: of_official(V1beta1Pod),
    "list of the official client": lambda: V1PodList(
        api_version="v1", kind=None, metadata=None, items=[of_official()]
    ),
    "lightkube": lambda: of_lightkube("Pod", WEB),
    "pykube": lambda: of_pykube("Pod", "v1", WEB),
    "cluster": lambda: load(WEB),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_a_file_is(form: str, tmp_path: Path) -> None:
    (file := tmp_path / "pod.json").write_text(json.dumps(WEB))
    assert load(FORMS[form]()).pods == load(file).pods


def test_values_are_not_changed() -> None:
    value = json.loads(json.dumps(WEB))
    load(value)
    read_object(value)
    assert value == WEB


def test_the_group_of_a_client_decides_where_a_kind_has_two() -> None:
    tasks = [{"name": "t", "replicas": 3, "template": {"spec": {"containers": [CONTAINER]}}}]
    job = {"metadata": {"name": "j"}, "spec": {"tasks": tasks}}
    assert len(load(of_lightkube("Job", job, "batch.volcano.sh", "v1alpha1")).pods) == 3
    assert len(load(of_pykube("Job", "batch.volcano.sh/v1alpha1", job)).pods) == 3


def test_a_string_is_a_text_by_its_line_break_or_its_brace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^kind: Node: no such file$"):
        load("kind: Node")
    assert [one.name for one in load("kind: Node\nmetadata: {name: n1}").nodes] == ["n1"]
    assert [one.name for one in load('{"kind": "Node", "metadata": {"name": "n"}}').nodes] == ["n"]
    (tmp_path / "{odd}.yaml").write_text(json.dumps(NODE))
    assert len(load(tmp_path / "{odd}.yaml").nodes) == 1


def test_times_of_python_are_those_of_the_api() -> None:
    naive, day = datetime(2026, 1, 2, 3, 4, 5), date(2026, 1, 2)
    for time in (naive, naive.replace(tzinfo=UTC)):
        node = read_object(NODE | {"metadata": {"name": "n", "creationTimestamp": time}})
        assert node.metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    labelled = read_object(NODE | {"metadata": {"name": "n", "labels": {"day": day}}})
    assert labelled.metadata.labels == {"day": "2026-01-02"}


# ---- errors ------------------------------------------------------------------------------------------------


def named(stream: Any, name: object) -> Any:
    stream.name = name
    return stream


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
BAD = [
    (WEB | {"specs": 1}, 'input: Pod web: unknown field "specs"'),
    (WEB | {"spec": {}}, "input: Pod web: spec.containers: Required value"),
    (WEB | {"spec": {"containers": 5}}, "input: Pod web: spec.containers: expected list, got integer"),
    ({"metadata": {"name": "web"}}, "input: web: no kind"),
    ("kind: Pod\nspec: [", "input:3: "),
    (b"\xff\x00", "input: not a text file"),
    (named(io.BytesIO(b"kind: Pod\nspec: ["), "web.yaml"), "web.yaml:3: invalid YAML: "),
    (named(io.BytesIO(b"kind: Pod\nspec: ["), 3), "input:3: invalid YAML: "),
    (WEB | {"spec": {1, 2}}, "input: Pod web: a value of type set is not a JSON value"),
    (WEB | {"spec": float("nan")}, "input: Pod web: Out of range float values are not JSON compliant"),
    (WEB | {"spec": CYCLE}, "input: Pod web: Circular reference detected"),
]


@pytest.mark.parametrize(("value", "text"), BAD)
def test_an_error_names_source_object_and_field(value: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        load(value)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, r"^must be a path, text, file object, dict or object of Kubernetes, not int$"),
        (None, r"not NoneType$"),
        (Pod, r"not StructMeta$"),
        (
            ["a.yaml"],
            r"^a list holds dicts and objects, not str: paths and texts are arguments of their own$",
        ),
    ],
)
def test_another_type_is_an_error_of_types(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        load(value)


# ---- one object --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([WEB, NODE], r"^must be one object, not 2$"),
        ([], r"^must be one object, not 0$"),
        ({"kind": "Secret", "metadata": {"name": "s"}}, r"^scheduling does not read this kind: Secret$"),
        (NODE, r"^Node n: must be a Pod$"),
        (
            {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"}},
            r"ended with Kubernetes 1\.36: write it as scheduling\.k8s\.io/v1beta1",
        ),
        (
            WEB | {"spec": {"containers": [CONTAINER], "priorityClassName": "x"}},
            r"^Pod default/web: .*: there is no",
        ),
    ],
)
def test_one_object_is_refused(value: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        read_object(value, Pod)


def test_one_object_of_another_project_is_not_its_first_pod() -> None:
    template = {"spec": {"containers": [CONTAINER]}}
    tasks = {"tasks": [{"name": "w", "replicas": 2, "template": template}]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": tasks}
    assert read_object(job).full_kind == "Job.batch.volcano.sh"


def test_pods_that_are_read_one_by_one_share_their_spec() -> None:
    first, second = (read_object(WEB | {"metadata": {"name": name}}, Pod) for name in ("a", "b"))
    assert first.spec is second.spec


def test_an_object_goes_out_as_it_came_in() -> None:
    given = object_to_dict(read_object(WEB, Pod))
    assert (given["kind"], given["spec"]["containers"][0]["image"]) == ("Pod", "web:1")
    assert read_object(given) == read_object(WEB)
    assert json.loads(dump([read_object(NODE, Node)])) == object_to_dict(read_object(NODE, Node))

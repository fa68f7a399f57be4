"""Unknown and duplicate fields: errors in manifests, warnings about objects of a server."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.objects import load

ROOT = Path(__file__).parents[3]

TYPO = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelektor: {disk: ssd}
      containers:
      - name: web
        image: nginx
        resources: {request: {cpu: "3"}}
"""
TYPOS = (
    'unknown field "spec.template.spec.containers[0].resources.request", '
    'unknown field "spec.template.spec.nodeSelektor"'
)


def pod(name: str = "p", spec: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c"}]} | (spec or {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec} | fields


def of_server(obj: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(obj)
    changed["metadata"]["uid"] = f"uid-{obj['metadata']['name']}"
    return changed


@pytest.mark.parametrize("form", ["yaml", "json", "list", "lines"])
def test_all_unknown_fields_are_one_error(form: str, tmp_path: Path) -> None:
    file = tmp_path / ("f.yaml" if form == "yaml" else "f.json")
    obj = yaml.safe_load(TYPO)
    node = {"kind": "Node", "metadata": {"name": "n"}}
    file.write_text(
        {
            "yaml": TYPO,
            "json": json.dumps(obj, indent=1),
            "list": json.dumps({"kind": "List", "items": [node, obj]}),
            "lines": json.dumps(node) + "\n" + json.dumps(obj) + "\n",
        }[form]
    )
    assert refusal(file) == f"{file.name}: Deployment shop/web: {TYPOS}"


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_pods_and_nodes_are_checked_as_a_whole(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    for obj, error in (
        (pod(spec={"nodeSelektor": {}}), 'Pod p: unknown field "spec.nodeSelektor"'),
        (pod(Spec={}), 'Pod p: unknown field "Spec"'),
        (pod(status={"fase": "x"}), 'Pod p: unknown field "status.fase"'),
        (
            {"kind": "Node", "metadata": {"name": "n", "lables": {}}},
            'Node n: unknown field "metadata.lables"',
        ),
        ({"kind": "NodeList", "items": [{"metadata": {"name": "n"}, "x": 1}]}, 'Node n: unknown field "x"'),
    ):
        file.write_text(json.dumps(obj))
        assert refusal(file) == f"{name}: {error}"


def test_kinds_that_scheduling_does_not_read_are_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    head = "apiVersion: {}\nkind: {}\nmetadata: {{name: x}}\n"
    file.write_text(head.format("v1", "ConfigMap") + "dta: {a: b}\n")
    assert refusal(file) == 'f.yaml: ConfigMap x: unknown field "dta"'
    file.write_text(head.format("example.com/v1", "Widget") + "any: {a: b}\n")
    assert load(file).skipped == {"Widget.example.com": 1}


def test_many_unknown_fields_are_counted(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps(pod(**{f"x{at}": 1 for at in range(10, 40)})))
    error = refusal(tmp_path / "f.json")
    assert error.startswith('f.json: Pod p: unknown field "x10", unknown field "x11", ')
    assert error.endswith('unknown field "x19", and 20 more')


def test_warnings_instead_of_errors(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(TYPO)
    (tmp_path / "g.json").write_text(
        json.dumps({"kind": "List", "items": [pod(name, {"nodeSelektor": {}}) for name in "abc"]})
    )
    cluster = load(tmp_path, validate="warn")
    assert (len(cluster.pods), len(cluster.others)) == (3, 1)
    web = f"{tmp_path}/f.yaml: Deployment shop/web: unknown field"
    assert cluster.warnings == [
        f'{web} "spec.template.spec.containers[0].resources.request".',
        f'{web} "spec.template.spec.nodeSelektor".',
        f'{tmp_path}/g.json: Pod a: unknown field "spec.nodeSelektor".',
    ]
    assert load(tmp_path, validate="ignore").warnings == []
    with pytest.raises(InputError, match="unknown field"):
        load(tmp_path)


def test_objects_of_a_server_warn_once_for_each_path(tmp_path: Path) -> None:
    items = [of_server(pod(name, {"nodeSelektor": {}, "hostname": name})) for name in "abc"]
    items += [
        of_server({"kind": "Node", "metadata": {"name": n}, "spec": {"tains": []}}) for n in ("n1", "n2")
    ]
    items.append(of_server(yaml.safe_load(TYPO)))
    (tmp_path / "f.json").write_text(json.dumps({"kind": "List", "items": items}))
    file = f"{tmp_path}/f.json"
    expected = {
        f'{file}: Deployment shop/web: unknown field "spec.template.spec.containers[0].resources.request".',
        f'{file}: Deployment shop/web: unknown field "spec.template.spec.nodeSelektor".',
        f'{file}: Node n1: unknown field "spec.tains".',
        f'{file}: Pod a: unknown field "spec.nodeSelektor".',
    }
    assert set(load(file).warnings) == expected
    assert len(load(file).warnings) == 4
    (tmp_path / "f.json").unlink()
    (tmp_path / "f.yaml").write_text(yaml.safe_dump_all(items))
    found = {text.replace("f.yaml", "f.json") for text in load(tmp_path / "f.yaml").warnings}
    assert found == expected


def test_a_resource_version_is_of_a_server(tmp_path: Path) -> None:
    obj = pod(spec={"nodeSelektor": {}})
    obj["metadata"]["resourceVersion"] = "1"
    (tmp_path / "f.json").write_text(json.dumps(obj))
    assert load(tmp_path / "f.json").warnings == [
        f'{tmp_path}/f.json: Pod p: unknown field "spec.nodeSelektor".'
    ]


DUPLICATES = {
    '{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], '
    '"hostname": "a", "hostname": "b"}}': 'duplicate field "spec.hostname"',
    '{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "name": "c"}]}}': (
        'duplicate field "spec.containers[0].name"'
    ),
    '{"kind": "Pod", "metadata": {"name": "p"}, "x": 1, "spec": {"containers": []}, '
    '"spec": {"containers": [{"name": "c"}]}}': 'duplicate field "spec", unknown field "x"',
}


@pytest.mark.parametrize("text", DUPLICATES)
def test_duplicate_fields_of_json(text: str, tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text(text)
    assert refusal(file) == f"f.json: Pod p: {DUPLICATES[text]}"
    assert load(file, validate="warn").warnings == [
        f"{file}: Pod p: {one}." for one in DUPLICATES[text].split(", ")
    ]
    assert len(load(file, validate="ignore").pods) == 1


def test_other_spellings_are_no_duplicates(tmp_path: Path) -> None:
    text = json.dumps(pod(metadata={"name": "p", "annotations": {"é": "\t\\u0041"}}), indent=3)
    (tmp_path / "f.json").write_text(text.replace('"p"', '"\\u0070"'))
    assert load(tmp_path / "f.json").pods[0].name == "p"


def test_duplicate_fields_of_yaml(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    name: d\n  priority: 1\n"
    )
    assert refusal(file) == 'f.yaml:6: duplicate field "spec.containers[0].name"'
    cluster = load(file, validate="warn")
    assert cluster.pods[0].spec.containers[0].name == "d"
    assert cluster.warnings == [f'{file}:6: duplicate field "spec.containers[0].name".']
    assert load(file, validate="ignore").warnings == []


def test_escape_codes_are_not_in_the_way(tmp_path: Path) -> None:
    name = "x" * 5000 + "\x1b[31m"
    (tmp_path / "f.json").write_text(json.dumps(pod(**{name: 1})))
    assert len(refusal(tmp_path / "f.json")) < 500


def test_an_unknown_mode_is_refused() -> None:
    mode: Any = "lax"
    with pytest.raises(InputError, match=r"^validate: must be one of strict, warn, ignore, not 'lax'$"):
        load(validate=mode)


@pytest.mark.parametrize("mode", ["strict", "warn", "ignore"])
def test_the_examples_have_no_unknown_fields(mode: Literal["strict", "warn", "ignore"]) -> None:
    for folder in ("examples", "tests/data"):
        for file in sorted((ROOT / folder).glob("*.[jy]*")):
            if "trace" not in file.name and "moorage.dev/" not in file.read_text(encoding="utf-8"):
                assert not [text for text in load(file, validate=mode).warnings if "unknown field" in text]


def of_template(name: str, text: str = "") -> str:
    """One line of a manifest; `text` follows the name of its container."""
    return (
        '{"apiVersion": "v1", "kind": "Pod", '
        f'"metadata": {{"labels": {{"name": "web"}}, "name": "{name}"}}, '
        f'"spec": {{"containers": [{{"name": "c"{text}}}], "nodeName": ""}}}}\n'
    )


@pytest.mark.parametrize("form", ["lines", "list"])
def test_manifests_that_differ_in_names_are_checked_and_decoded_once(form: str, tmp_path: Path) -> None:
    lines = [of_template(name) for name in ("spec", "containers", "p-3", "image")]
    file = tmp_path / "f.json"
    listed = '{{"kind": "PodList", "items": [{}]}}'.format(",".join(lines))
    file.write_text("".join(lines) if form == "lines" else listed)
    pods = load(file).pods
    assert [one.name for one in pods] == ["spec", "containers", "p-3", "image"]
    first, second, third, fourth = (one.spec for one in pods)
    assert second is third is fourth  # the first was read as a whole
    assert first == second
    assert load(file, validate="ignore").pods == pods


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (', "nmae": "c"', 'unknown field "spec.containers[0].nmae"'),
        (', "name": "c"', 'duplicate field "spec.containers[0].name"'),
        (', "name\\u0000": ""', "unknown field"),
        (', "image": "a", "image": "a"', 'duplicate field "spec.containers[0].image"'),
    ],
)
def test_a_sound_manifest_of_the_same_template_hides_no_problem(
    text: str, error: str, tmp_path: Path
) -> None:
    file = tmp_path / "f.json"
    file.write_text(of_template("p") + of_template("q") + of_template("r", text))
    with pytest.raises(InputError, match=re.escape(error)):
        load(file)
    assert [one.name for one in load(file, validate="ignore").pods] == ["p", "q", "r"]


def test_a_sound_manifest_says_nothing_about_another_kind(tmp_path: Path) -> None:
    text = '{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}'
    file = tmp_path / "f.json"
    file.write_text(
        '{{"kind": "PodList", "items": [{}, {}]}}\n'.format(text, text.replace('"x"', '"y"'))
        + f'{{"kind": "NodeList", "items": [{text}]}}\n'
    )
    with pytest.raises(InputError, match=re.escape('unknown field "spec.containers"')):
        load(file)


def test_fields_and_kinds_of_v1_37_are_known(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "spec": {"podPreemptionPolicy": {"disableResizePreemption": ["autoscaler"]}},
        "status": {"nodeInfo": {"runningInUserNamespace": True}},
    }
    responders = [{"name": "a.io/b", "priority": 1}]
    volumes = [{"name": "v", "emptyDir": {"mode": 448}}]
    mounts = [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]
    containers = [{"name": "c", "volumeMounts": mounts}]
    asked = pod(spec={"containers": containers, "volumes": volumes, "evictionResponders": responders})
    rule = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "r"}}
    rule["spec"] = {"taint": {"key": "k", "effect": "NoSchedule"}}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, asked, rule]}))
    assert load(path).nodes[0].spec.pod_preemption_policy is not None

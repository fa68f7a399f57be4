"""Unknown and duplicate fields in forms of files, and as warnings; single ones are in the case
`kube/refused_fields`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from tests.house.source import ROOT
from tests.make import Json, template, written
from tests.objects.refusal import refusal

import moorage as mo
from moorage.errors import InputError
from moorage.kube import load


def pod(name: str = "p", spec: Json | None = None, **fields: Any) -> Json:
    spec = {"containers": [{"name": "c"}]} | (spec or {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec} | fields


def of_server(obj: Json) -> Json:
    return obj | {"metadata": obj["metadata"] | {"uid": f"uid-{obj['metadata']['name']}"}}


NODE = {"kind": "Node", "metadata": {"name": "n"}}
CONTAINER = {"name": "web", "image": "nginx", "resources": {"request": {"cpu": "3"}}}
TYPO: Json = written(
    "apps/v1/Deployment",
    {"name": "web", "namespace": "shop"},
    {
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", nodeSelektor={"disk": "ssd"}, containers=[CONTAINER]),
    },
)
TYPOS = [
    'unknown field "spec.template.spec.containers[0].resources.request"',
    'unknown field "spec.template.spec.nodeSelektor"',
]


@pytest.mark.parametrize("form", ["yaml", "json", "list", "lines"])
def test_all_unknown_fields_are_one_error(form: str, tmp_path: Path) -> None:
    file = tmp_path / ("f.yaml" if form == "yaml" else "f.json")
    forms = {
        "yaml": yaml.safe_dump(TYPO),
        "json": json.dumps(TYPO, indent=1),
        "list": json.dumps({"kind": "List", "items": [NODE, TYPO]}),
        "lines": f"{json.dumps(NODE)}\n{json.dumps(TYPO)}\n",
    }
    file.write_text(forms[form])
    assert refusal(file) == f"{file.name}: Deployment shop/web: {', '.join(TYPOS)}"


def test_warnings_instead_of_errors(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(TYPO))
    (tmp_path / "g.json").write_text(
        json.dumps({"kind": "List", "items": [pod(name, {"nodeSelektor": {}}) for name in "abc"]})
    )
    cluster = load(tmp_path, validate="warn")
    assert (len(cluster.pods), len(cluster.others)) == (3, 1)
    assert cluster.warnings == [
        *(f"{tmp_path}/f.yaml: Deployment shop/web: {text}." for text in TYPOS),
        f'{tmp_path}/g.json: Pod a: unknown field "spec.nodeSelektor".',
    ]
    assert load(tmp_path, validate="ignore").warnings == []
    with pytest.raises(InputError, match="unknown field"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_objects_of_a_server_warn_once_for_each_path(name: str, tmp_path: Path) -> None:
    items = [pod(name, {"nodeSelektor": {}, "hostname": name}) for name in "abc"]
    items += [NODE | {"metadata": {"name": name}, "spec": {"tains": []}} for name in ("n1", "n2")]
    served = list(map(of_server, [*items, TYPO]))
    text = json.dumps({"kind": "List", "items": served}) if name == "f.json" else yaml.safe_dump_all(served)
    (tmp_path / name).write_text(text)
    assert sorted(load(tmp_path / name).warnings) == [
        *(f"{tmp_path}/{name}: Deployment shop/web: {text}." for text in TYPOS),
        f'{tmp_path}/{name}: Node n1: unknown field "spec.tains".',
        f'{tmp_path}/{name}: Pod a: unknown field "spec.nodeSelektor".',
    ]


HEAD = '{"kind": "Pod", "metadata": {"name": "p"}'
DUPLICATES = {
    HEAD + ', "spec": {"containers": [{"name": "c"}], "hostname": "a", "hostname": "b"}}': [
        'duplicate field "spec.hostname"'
    ],
    HEAD + ', "spec": {"containers": [{"name": "c", "name": "c"}]}}': [
        'duplicate field "spec.containers[0].name"'
    ],
    HEAD + ', "x": 1, "spec": {"containers": []}, "spec": {"containers": [{"name": "c"}]}}': [
        'duplicate field "spec"',
        'unknown field "x"',
    ],
}


@pytest.mark.parametrize("text", DUPLICATES)
def test_duplicate_fields_of_json(text: str, tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text(text)
    assert refusal(file) == f"f.json: Pod p: {', '.join(DUPLICATES[text])}"
    assert load(file, validate="warn").warnings == [f"{file}: Pod p: {one}." for one in DUPLICATES[text]]
    assert len(load(file, validate="ignore").pods) == 1


def test_other_spellings_are_no_duplicates(tmp_path: Path) -> None:
    text = json.dumps(pod(metadata={"name": "p", "annotations": {"é": "\t\\u0041"}}), indent=3)
    (tmp_path / "f.json").write_text(text.replace('"p"', '"\\u0070"'))
    assert load(tmp_path / "f.json").pods[0].name == "p"


def test_of_duplicate_fields_of_yaml_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    name: d\n")
    cluster = load(file, validate="warn")
    assert cluster.pods[0].spec.containers[0].name == "d"
    assert cluster.warnings == [f'{file}:6: duplicate field "spec.containers[0].name".']
    assert load(file, validate="ignore").warnings == []


def test_escape_codes_are_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps(pod(**{"x" * 5000 + "\x1b[31m": 1})))
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
    names = ["spec", "containers", "p-3", "image"]
    lines = list(map(of_template, names))
    file = tmp_path / "f.json"
    listed = '{{"kind": "PodList", "items": [{}]}}'.format(",".join(lines))
    file.write_text("".join(lines) if form == "lines" else listed)
    pods = load(file).pods
    assert [one.name for one in pods] == names
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
    items = [{"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}]}} for name in "xy"]
    lists = [{"kind": "PodList", "items": items}, {"kind": "NodeList", "items": items[:1]}]
    (tmp_path / "f.json").write_text("\n".join(map(json.dumps, lists)))
    with pytest.raises(InputError, match=re.escape('unknown field "spec.containers"')):
        load(tmp_path / "f.json")


LATER = pod(
    spec={
        "containers": [{"name": "c", "image": "a:1"}],
        "volumes": [{"name": "v", "emptyDir": {"mode": 448}}],
    }
)
UNKNOWN = 'Pod p: unknown field "spec.volumes[0].emptyDir.mode"'


@pytest.mark.parametrize("form", [dict, json.dumps])
@pytest.mark.parametrize(("release", "is_known"), [("1.35", False), ("1.36", False), ("1.37", True)])
def test_a_change_may_have_the_fields_of_its_release(form: Any, release: str, is_known: bool) -> None:
    answer = mo.admit(mo.Cluster(), form(LATER), kubernetes_version=release)
    assert [refused.text for refused in answer.refused] == [f"argument 2: {UNKNOWN}"] * (not is_known)


@pytest.mark.parametrize(("kubelet", "is_known"), [("v1.36.2", False), ("v1.37.0", True)])
def test_the_cluster_tells_whose_fields_a_change_may_have(kubelet: str, is_known: bool) -> None:
    node = NODE | {"status": {"nodeInfo": {"kubeletVersion": kubelet}}}
    refused = load(node, LATER, refused="ignore").refused_objects
    assert [obj.text for obj in refused] == [f"argument 2: {UNKNOWN}"] * (not is_known)
    warnings = [text for text in load(node, LATER, validate="warn").warnings if "unknown" in text]
    assert warnings == [f"argument 2: {UNKNOWN}."] * (not is_known)
    assert len(load([node, LATER]).pods) == 1  # the server has accepted its own objects once


def test_kinds_that_are_not_read_have_the_fields_of_their_release() -> None:
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.io"}}
    driver["spec"] = {"preventPodSchedulingIfMissing": True}
    answer = mo.admit(mo.Cluster(), driver, kubernetes_version="1.35")
    assert "preventPodSchedulingIfMissing" in answer.refused[0].text
    assert mo.admit(mo.Cluster(), driver, kubernetes_version="1.36").refused == []

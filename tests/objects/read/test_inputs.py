"""Inputs as they are: nested directories, archives, UTF-16, snapshots of other tools, unknown workloads."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.make import written
from tests.objects.read.limits import lower_limits
from tests.objects.refusal import refusal

from moorage.kube import Cluster, load

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return written("v1/Pod", name, {"containers": [{"name": "c"}]} | spec)


def names(cluster: Cluster) -> list[str]:
    return [obj.name for obj in (*cluster.nodes, *cluster.pods)]


FILES = {
    "dump/core/nodes.json": json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [NODE]}),
    "dump/namespaces/a/pods.yaml": yaml.safe_dump(pod("p1")),
    "dump/namespaces/a/pods/p1.yaml": yaml.safe_dump(pod("p1")),
    "dump/version.txt": "4.2",
    "dump/chart/values.yaml": "replicas: 3\n",
    "dump/chart/templates/web.yaml": "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
    "dump/empty.json": "",
    "dump/binary.json": "\0\1",
    "dump/list.yaml": "- a\n",
}
LEFT_OUT = 5


def write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def pack(path: Path, files: dict[str, bytes]) -> Path:
    """An archive of files; the suffix decides its format."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return path
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


# ---- directories -------------------------------------------------------------------------------------------


def test_without_recursion_they_are_not_read(tmp_path: Path) -> None:
    write(tmp_path)
    hint = "; -R also reads the directories in it"
    assert refusal(tmp_path / "dump") == f"dump: its files have no objects{hint}"
    (tmp_path / "outer" / ".git").mkdir(parents=True)
    assert refusal(tmp_path / "outer") == "outer: no .json, .yaml or .yml file in this directory"
    (tmp_path / "outer" / "inner").mkdir()
    assert refusal(tmp_path / "outer") == f"outer: no .json, .yaml or .yml file in this directory{hint}"


def test_archives_in_a_directory_are_named(tmp_path: Path) -> None:
    (tmp_path / "d" / "inner").mkdir(parents=True)
    pack(tmp_path / "d" / "b.tar.gz", {"a.json": json.dumps(NODE).encode()})
    (tmp_path / "d" / "c.zip").write_bytes(b"")
    hint = "give each archive with its own -f, as -f d/b.tar.gz"
    assert refusal(tmp_path / "d") == f"d: no .json, .yaml or .yml file in this directory; {hint}"


def test_documents_of_moorage_are_passed_over(tmp_path: Path) -> None:
    own = "apiVersion: sweep.moorage.dev/v1\nkind: Sweep\nspec: {}\n"
    (tmp_path / "a.yaml").write_text(f"{own}---\n{json.dumps(NODE)}")
    (tmp_path / "b.yaml").write_text(own)
    cluster = load(tmp_path)
    assert (names(cluster), cluster.warnings, cluster.skipped) == (["n1"], [], {})
    (tmp_path / "b.yaml").write_text(own.replace(".moorage.dev", ".example.com"))
    assert load(tmp_path).skipped == {"Sweep.sweep.example.com": 1}


def test_a_table_of_a_trace_is_told(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli\nn1,4000\n")
    message = "a CSV file, not a dump of objects; for a trace, use moorage replay"
    assert refusal(tmp_path / "nodes.csv") == f"nodes.csv: {message}"


def test_a_chart_of_helm_is_told(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: web\n")
    (chart / "templates" / "web.yaml").write_text("kind: Pod\nmetadata:\n  {{- toYaml . }}\n")
    hint = "for a Helm chart, use helm template FOLDER | moorage … -f -"
    assert refusal(chart) == f"chart: its files have no objects; {hint}"
    assert refusal(chart, recursive=True) == f"chart: its files have no objects; {hint}"
    assert refusal(chart / "templates") == f"templates: its files have no objects; {hint}"
    (chart / "templates" / "web.yaml").write_text(json.dumps(NODE))
    (warning,) = load(chart, recursive=True).warnings
    assert warning.endswith(f"Chart.yaml; {hint}.")
    (tmp_path / "empty").mkdir()
    (tmp_path / "Chart.yaml").write_text("")
    assert refusal(tmp_path / "empty").endswith(f"no .json, .yaml or .yml file in this directory; {hint}")


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
        "kind: Pod\nmetadata: {name: '{{ .Release.Name }}'}\n",
        "kind: Pod\nmetadata: {name: web, namespace: '{{ .Release.Namespace }}'}\n",
        "kind: ConfigMap\nmetadata: {name: web, labels: {app: '{{ .Chart.Name }}'}}\n",
        f"{json.dumps(NODE)}\n---\nkind: Pod\nmetadata: {{generateName: '{{{{ .Release.Name }}}}-'}}\n",
        "kind: Pod\nmetadata: {name: web}\nspec: {priority: '{{ .Values.priority }}'}\n",
        "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{ports: [{containerPort: '{{ .port }}'}]}]}\n",
    ],
)
def test_a_template_in_a_directory_is_left_out(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    hint = "for a template of Helm, use helm template"
    assert refusal(tmp_path).endswith(f": its files have no objects; {hint}")
    (tmp_path / "n.json").write_text(json.dumps(NODE))
    cluster = load(tmp_path)
    assert (names(cluster), cluster.skipped, len(cluster.pods)) == (["n1"], {}, 0)
    (warning,) = cluster.warnings
    assert warning.startswith("Left out, because there are no objects in these files (1): ")
    assert warning.endswith(f"a.yaml; {hint}.")
    assert refusal(tmp_path / "a.yaml").endswith(f"; {hint}")


def test_a_manifest_is_none_the_less_one_for_braces_where_they_may_be(tmp_path: Path) -> None:
    pod = "kind: Pod\nmetadata: {name: p, annotations: {a: '{{b}}'}}\nspec: {containers: [{args: ['{{c}}']}]"
    (tmp_path / "a.yaml").write_text(f"{pod}}}\n")
    assert [one.name for one in load(tmp_path, validate="ignore").pods] == ["p"]
    (tmp_path / "a.yaml").write_text(f"{pod}, priority: high}}\n")
    assert refusal(tmp_path).endswith("a.yaml: Pod p: spec.priority: expected integer, got string")


def test_hidden_directories_and_links_to_directories_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "d" / ".git").mkdir(parents=True)
    (tmp_path / "d" / ".git" / "x.json").write_text("{")
    (tmp_path / "d" / "loop").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "n.json").write_text(json.dumps(NODE))
    assert names(load(tmp_path / "d", recursive=True)) == ["n1"]


def test_a_broken_manifest_is_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(NODE))
    (tmp_path / "b.yaml").write_text("kind: Pod\nmetadata: {name: p\n")
    assert refusal(tmp_path).endswith("b.yaml:3: invalid YAML: did not find expected ',' or '}'")
    (tmp_path / "b.yaml").write_text("kind: Pod\nmetadata: {name: p}\nspec: {}\n---\nno: kind\n")
    assert refusal(tmp_path).endswith("b.yaml: document 2: no kind")


# ---- lists, and what is no manifest ------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_plain_list_of_objects_is_read(suffix: str, tmp_path: Path) -> None:
    """As in the custom resources of a support bundle, and of ``jq .items``."""
    write_value = json.dumps if suffix == "json" else yaml.safe_dump
    file = tmp_path / f"f.{suffix}"
    file.write_text(write_value([NODE, pod("p1"), {"kind": "HelmChart", "metadata": {"name": "h"}}]))
    cluster = load(file)
    assert (names(cluster), cluster.skipped) == (["n1", "p1"], {"HelmChart": 1})
    file.write_text(write_value([pod("p1"), {"kind": "Pod", "metadata": {"name": "q"}, "spec": 7}]))
    assert refusal(file) == f"f.{suffix}: Pod q: spec: expected map, got integer"


OTHERS: dict[str, str | bytes] = {
    "empty list.json": "[]",
    "texts.json": '["a"]',
    "maps.json": '[{"name": "a"}]',
    "subjects.json": '[{"kind": "User", "name": "a"}]',
    "text.json": '"a"',
    "null.json": "null",
    "number kind.json": '{"kind": 7}',
    "cut off.json": '{"level": "info",',
    "log.json": '{"level": "info"}\n}',
    "latin.json": b'{"name": "caf\xe9"}',
    "log.yaml": "2024-01-01 started: ok\n  at: :\n- a\n",
    "twice.yaml": "a: 1\na: 2\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_manifest_is_left_out_of_an_archive(name: str, tmp_path: Path) -> None:
    text = OTHERS[name]
    data = text if isinstance(text, bytes) else text.encode()
    packed = pack(tmp_path / "a.tgz", {name: data, "n.json": json.dumps(NODE).encode()})
    cluster = load(packed)
    assert names(cluster) == ["n1"]
    left_out = "Left out, because there are no objects in these files (1): "
    assert cluster.warnings == [f"{left_out}{packed}!{name}."]
    (tmp_path / name).write_bytes(data)
    assert refusal(tmp_path / name).startswith(name)


def test_a_broken_file_with_a_kind_is_not_left_out(tmp_path: Path) -> None:
    files = {"a.json": json.dumps(NODE).encode(), "b.json": b'{"kind": "Pod", "metadata": '}
    packed = pack(tmp_path / "a.tgz", files)
    assert refusal(packed) == "a.tgz!b.json:1: invalid JSON: it ends too early"


@pytest.mark.parametrize("items", ["[]", "null"])
def test_an_empty_list_is_not_told(items: str, tmp_path: Path) -> None:
    text = f'{{"kind": "PodList", "apiVersion": "v1", "items": {items}}}'
    (tmp_path / "f.json").write_text(f"{text}\n{json.dumps(NODE)}")
    (tmp_path / "f.yaml").write_text(f"kind: DeploymentList\napiVersion: apps/v1\nitems: {items}\n")
    cluster = load(tmp_path / "f.yaml", tmp_path / "f.json")
    assert (names(cluster), cluster.skipped, cluster.warnings) == (["n1"], {}, [])


def without_kind(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


INSIGHTS: dict[str, Any] = {
    "i/config/node/n1.json": without_kind(NODE),
    "i/config/node/logs/n1.json": {"metadata": {"name": "a log"}},
    "i/config/pod/shop/web.json": without_kind(pod("p1", nodeName="n1")),
    "i/config/persistentvolumes/v.json": {
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}},
    },
    "i/config/storage/storageclasses/s.json": {"metadata": {"name": "s"}, "provisioner": "x"},
    "i/config/featuregate.json": {"metadata": {"name": "cluster"}},
}
BUNDLE: dict[str, Any] = {
    "b/cluster-resources/nodes.json": [without_kind(NODE)],
    "b/cluster-resources/pods/shop.json": [without_kind(pod("p1", nodeName="n1"))],
    "b/cluster-resources/pods/logs/shop/web.json": {"metadata": {"name": "a log"}},
}


SONOBUOY: dict[str, Any] = {  # up to 0.10
    "s/resources/cluster/Nodes.json": [without_kind(NODE)],
    "s/resources/ns/shop/Pods.json": [without_kind(pod("p1", nodeName="n1"))],
    "s/resources/ns/shop/Events.json": [{"metadata": {"name": "an event"}}],
}


@pytest.mark.parametrize(("files", "left_out"), [(INSIGHTS, 2), (BUNDLE, 1), (SONOBUOY, 1)])
def test_objects_without_a_kind_get_that_of_their_place(
    files: dict[str, Any], left_out: int, tmp_path: Path
) -> None:
    texts = {name: json.dumps(content) for name, content in files.items()}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    packed = pack(tmp_path / "a.tgz", {name: text.encode() for name, text in texts.items()})
    for cluster in (load(packed), load(tmp_path / next(iter(files))[0], recursive=True)):
        assert names(cluster) == ["n1", "p1"]
        assert [one.kind for one in cluster.others] == ["PersistentVolume", "StorageClass"][
            : 2 * (left_out - 1)
        ]
        (warning,) = cluster.warnings
        assert f"no objects in these files ({left_out}): " in warning


# ---- archives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip", "no suffix.tar"])
def test_an_archive_is_read_and_what_it_leaves_out_is_named(name: str, tmp_path: Path) -> None:
    packed = pack(tmp_path / name, {file: text.encode() for file, text in FILES.items()})
    if name.startswith("no"):
        packed = packed.rename(tmp_path / "archive")
    cluster = load(packed)
    assert names(cluster) == ["n1", "p1"]
    assert f"({LEFT_OUT}): {packed}!dump/" in cluster.warnings[0]


def test_errors_name_archive_and_member(tmp_path: Path) -> None:
    packed = pack(tmp_path / "a.zip", {"x/p.json": json.dumps(pod("p", x=1)).encode()})
    assert refusal(packed) == 'a.zip!x/p.json: Pod p: unknown field "spec.x"'
    packed = pack(tmp_path / "b.zip", {"notes.txt": b"nothing"})
    assert refusal(packed) == "b.zip: no .json, .yaml or .yml file in this archive"
    packed = pack(tmp_path / "c.zip", {"a.yaml": b"no: object"})
    assert refusal(packed) == "c.zip: its files have no objects"


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
def test_an_empty_archive_is_told(name: str, tmp_path: Path) -> None:
    assert refusal(pack(tmp_path / name, {})) == f"{name}: no .json, .yaml or .yml file in this archive"


def test_an_archive_with_a_file_without_a_name(tmp_path: Path) -> None:
    packed = pack(tmp_path / "a.zip", {"name": b"", "n.json": json.dumps(NODE).encode()})
    packed.write_bytes(packed.read_bytes().replace(b"name", b"\0ame"))  # a name ends at its first zero
    assert names(load(packed)) == ["n1"]


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_an_archive_that_unpacks_to_too_much_is_refused(name: str, tmp_path: Path) -> None:
    packed = pack(tmp_path / name, {"x.json": bytes(17 << 20)})
    assert refusal(packed) == f"{name}: unpacks to more than {16 << 20} bytes"


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
def test_limits_of_members(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(tmp_path / name, {f"{at}.json": json.dumps(NODE).encode() for at in range(3)})
    lower_limits(monkeypatch, 2, "files.MAX_MEMBERS")
    assert refusal(packed) == f"{name}: more than 2 files"
    lower_limits(monkeypatch, 3, "files.MAX_MEMBERS")
    lower_limits(monkeypatch, 10, "files.MAX_SIZE")
    assert refusal(packed).startswith(f"{name}: more than 10 bytes; write JSON without")


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
def test_a_truncated_archive_is_refused_unless_only_its_end_is_missing(name: str, tmp_path: Path) -> None:
    packed = pack(tmp_path / name, {f"{at}.json": json.dumps(NODE).encode() * 99 for at in range(3)})
    data = packed.read_bytes()
    for size in (len(data) // 2, len(data) - 30):
        packed.write_bytes(data[:size])
        if name != "a.tar" or size < len(data) - 30:
            assert refusal(packed).startswith(name)
        else:  # only the end of the archive is missing
            assert names(load(packed)) == ["n1"]


def test_names_of_members_go_nowhere(tmp_path: Path) -> None:
    packed = pack(tmp_path / "a.tar", {"../../etc/n.json": json.dumps(NODE).encode()})
    assert names(load(packed)) == ["n1"]
    assert list(tmp_path.iterdir()) == [packed]


# ---- texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["f.json", "f.yaml", "f.json.gz"])
def test_files_in_utf_16_are_read(encoding: str, name: str, tmp_path: Path) -> None:
    data = ("\ufeff" + json.dumps(NODE)).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert names(load(tmp_path / name)) == ["n1"]


def test_broken_utf_16(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(b"\xff\xfe{\x00\x00\xd8x")
    assert refusal(tmp_path / "f.json").startswith("f.json")


# ---- snapshots of other tools ------------------------------------------------------------------------------


def of_server(obj: dict[str, Any]) -> dict[str, Any]:
    """An object as these tools write it: with a UID, without kind and apiVersion."""
    meta = obj["metadata"] | {"uid": f"uid-{obj['metadata']['name']}"}
    return {"metadata": meta, **{key: obj[key] for key in ("spec", "status") if key in obj}}


SIMULATOR = {
    "pods": [of_server(pod("p1"))],
    "nodes": [of_server(NODE)],
    "pvs": [],
    "pvcs": None,
    "storageClasses": [],
    "priorityClasses": [{"metadata": {"name": "high"}, "value": 5}],
    "schedulerConfig": {"kind": "KubeSchedulerConfiguration"},
    "namespaces": [{"metadata": {"name": "default"}}],
}
AUTOSCALER = {
    "NodeList": [{"Node": of_server(NODE), "Pods": [{"Pod": of_server(pod("p0", nodeName="n1"))}]}],
    "UnscheduledPodsCanBeScheduled": [of_server(pod("p1"))],
    "TemplateNodes": {"group": {"Node": of_server(NODE), "Pods": None}},
    "Error": "",
}
KAI = {
    "config": {},
    "rawObjects": {
        "pods": [of_server(pod("p1"))],
        "nodes": [of_server(NODE)],
        "queues": [{"metadata": {"name": "q"}}],
        "priorityClasses": None,
    },
}


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
@pytest.mark.parametrize(
    ("snapshot", "found", "skipped"),
    [
        (SIMULATOR, ["n1", "p1"], {"schedulerConfig": 1}),
        (AUTOSCALER, ["n1", "p0", "p1"], {"TemplateNodes": 1}),
        (KAI, ["n1", "p1"], {"queues (KAI)": 1}),
    ],
)
def test_snapshots_of_other_tools_are_read(
    name: str, snapshot: Any, found: list[str], skipped: Any, tmp_path: Path
) -> None:
    text = json.dumps(snapshot) if name == "f.json" else yaml.safe_dump(snapshot)
    (tmp_path / name).write_text(text)
    cluster = load(tmp_path / name)
    assert names(cluster) == found
    assert cluster.skipped == skipped


def test_a_snapshot_of_kai_is_an_archive_of_any_name(tmp_path: Path) -> None:
    packed = pack(tmp_path / "s.zip", {"snapshot.json": json.dumps(KAI).encode()})
    assert names(load(packed.rename(tmp_path / "snapshot.gzip"))) == ["n1", "p1"]


def test_a_bad_snapshot_is_refused_with_its_reason(tmp_path: Path) -> None:
    for snapshot, error in (
        (KAI | {"rawObjects": {"pods": 7}}, "f.json: document 1: pods: expected list, got integer"),
        (
            AUTOSCALER | {"Error": "no lister"},
            "f.json: document 1: Error: cluster-autoscaler could not take this snapshot: no lister",
        ),
        (SIMULATOR | {"pods": [{"spec": 7}]}, "f.json: Pod (items[3]): spec: expected map, got integer"),
    ):
        (tmp_path / "f.json").write_text(json.dumps(snapshot))
        assert refusal(tmp_path / "f.json") == error


# ---- what is told or refused by name -----------------------------------------------------------------------


def test_the_output_of_cluster_info_dump_has_logs_between_its_lists(tmp_path: Path) -> None:
    def listed(kind: str, *items: dict[str, Any]) -> str:
        return json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "items": items}, indent=4)

    logs = "==== START logs for container c of pod kube-system/p ====\n{not: json}\n[ERROR] plugin\n"
    logs += "==== END logs for container c of pod kube-system/p ====\n"
    text = (
        f"{listed('Node', NODE)}\n{listed('Pod', pod('p1'))}\n{logs}{logs}{listed('Pod', pod('p2'))}\n{logs}"
    )
    (tmp_path / "dump.txt").write_text(text)
    assert names(load(tmp_path / "dump.txt")) == ["n1", "p1", "p2"]


@pytest.mark.parametrize("text", ["resources: [a.yaml]\n", "kind: Kustomization\n", "kind: Component\n"])
def test_a_folder_with_a_kustomization_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "a.json").write_text(json.dumps(NODE))
    (tmp_path / "overlay" / "kustomization.yaml").write_text(text)
    hint = "a kustomization; use kubectl kustomize overlay | moorage … -f -; to read the files as they are"
    assert hint in refusal(tmp_path / "overlay")

"""`moorage capacity`: how many fit, in its own form and in that of cluster-capacity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli import main
from tests.house.source import ROOT

DUMP = ["-f", "tests/data/troubleshoot_bundle.json"]
POD = "tests/data/web_pod.yaml"
COMMAND = ["capacity", *DUMP, "--pod", POD]
MESSAGE = (
    "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are "
    "available: 2 No preemption victims found for incoming pod."
)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def lines(capsys: pytest.CaptureFixture[str], *command: str) -> list[str]:
    assert main(list(command)) == 0
    return capsys.readouterr().out.splitlines()


def test_the_table_has_replicas_and_what_stops_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, *COMMAND, "--verbose") == [
        "59 of default/small-pod fit",
        f"next replica of default/small-pod: {MESSAGE}",
        "",
        "TEMPLATE           SHARE  REPLICAS  NODES",
        "default/small-pod  1      59        2",
        "",
        "zone    NODES  BINDING RESOURCE  REASONS",
        "(none)  2      cpu               2 Insufficient cpu",
        "",
        "TEMPLATE           NODE              REPLICAS",
        "default/small-pod  biggernode-3i745  53",
        "default/small-pod  smallnode-3i74t   6",
        "",
    ]


def test_csv_markdown_and_yaml_have_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, *COMMAND, "-o", "csv") == [
        "template,node,replicas",
        "default/small-pod,biggernode-3i745,53",
        "default/small-pod,smallnode-3i74t,6",
    ]
    assert lines(capsys, *COMMAND, "-o", "markdown")[3] == "| TEMPLATE | SHARE | REPLICAS | NODES |"
    assert yaml.safe_load("\n".join(lines(capsys, *COMMAND, "-o", "yaml")))["kind"] == "Capacity"


def test_rounds_and_their_limit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "a=b.yaml"
    other.write_text(Path(POD).read_text().replace("small-pod", "other"))
    command = [*COMMAND, "--pod", f"{other}=3", "--max-limit", "2"]
    assert lines(capsys, *command)[:6] == [
        "2 rounds fit: 2 of default/small-pod, 6 of default/other",
        "limit of 2 reached",
        "",
        "TEMPLATE           SHARE  REPLICAS  NODES",
        "default/small-pod  1      2         1",
        "default/other      3      6         1",
    ]


def test_the_namespace_is_that_of_the_template_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, *COMMAND, "-n", "kube-system")[4].startswith("kube-system/small-pod ")


def test_nodes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    out = lines(capsys, *COMMAND, "--exclude-nodes", " biggernode-3i745,")
    assert out[4] == "default/small-pod  1      6         1"
    assert "0/1 nodes are available: 1 Insufficient cpu." in out[1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("", "an argument is empty; give it a value, or leave it out"),
        (" ,", "give at least one node"),
        ("bigernode-3i745", 'there is no Node "bigernode-3i745"; nearest: biggernode-3i745, smallnode-3i74t'),
    ],
)
def test_without_a_node_to_leave_out_the_option_is_refused(
    names: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "--exclude-nodes", names]) == 2
    assert capsys.readouterr().err == f"error: --exclude-nodes: {message}\n"


def test_pending_pods_may_be_placed_first(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["capacity", "-f", "examples", "--pod", POD, "-o", "json"]
    before, after = (json.loads("\n".join(lines(capsys, *command, *more))) for more in ([], ["--after-run"]))
    assert before["count"] > after["count"] > 0


def test_reasons_by_a_label(capsys: pytest.CaptureFixture[str]) -> None:
    out = lines(capsys, *COMMAND, "--by", "kubernetes.io/os")
    assert out[6:8] == [
        "kubernetes.io/os  NODES  BINDING RESOURCE  REASONS",
        "linux             2      cpu               2 Insufficient cpu",
    ]


def test_a_gated_template_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gated = tmp_path / "gated.yaml"
    gated.write_text(
        Path(POD).read_text().replace("spec:\n", "spec:\n  schedulingGates: [{name: hold}]\n", 1)
    )
    out = lines(capsys, "capacity", *DUMP, "--pod", str(gated))
    assert out[3:5] == [
        "TEMPLATE           SHARE  REPLICAS  NODES  NOT SCHEDULED NOW",
        "default/small-pod  1      59        2      gated",
    ]


# ---- the workload of a file, and the objects on which it depends -------------------------------------------

CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}},
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "20"}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1},
  spec: {drivers: [{name: csi.x, nodeID: n1, allocatable: {count: 2}}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: csi}, provisioner: csi.x,
  volumeBindingMode: WaitForFirstConsumer}
"""
SPEC = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
LABELS = {"matchLabels": {"app": "web"}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "csi",
    "resources": {"requests": {"storage": "1Gi"}},
}
SCALED = ["--scale", "rs/web=3"]


def made(kind: str, version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, **parts}


def workload(kind: str, version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    return made(kind, version, spec={"selector": LABELS, "template": TEMPLATE, **spec})


def job(**spec: Any) -> dict[str, Any]:
    return {"template": {**TEMPLATE, "spec": {**SPEC, "restartPolicy": "Never"}}, **spec}


def counted(
    capsys: pytest.CaptureFixture[str], at: Path, *objects: dict[str, Any], cluster: list[Any] | None = None
) -> tuple[int, str]:
    """How many fit in `CLUSTER` with more objects, and what is said against the next one."""
    (at / "cluster.yaml").write_text(CLUSTER + "".join(f"---\n{json.dumps(one)}\n" for one in cluster or []))
    (at / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    command = ["capacity", "-f", str(at / "cluster.yaml"), "--pod", str(at / "pod.json"), "-o", "json"]
    found = json.loads("\n".join(lines(capsys, *command)))
    return found["count"], found["next"]["message"]


@pytest.mark.parametrize(
    "obj",
    [
        workload("Deployment", replicas=0),
        workload("Deployment", replicas=9, paused=True),
        workload("ReplicaSet", replicas=0),
        made("Job", "batch/v1", spec=job(suspend=True)),
        made("Job", "batch/v1", spec=job(managedBy="kueue.x-k8s.io/multikueue")),
        made("Job", "batch/v1", spec=job(), status={"completionTime": "2026-01-01T00:00:00Z"}),
        made("CronJob", "batch/v1", spec={"schedule": "@daily", "jobTemplate": {"spec": job(parallelism=0)}}),
    ],
)
def test_the_template_counts_whatever_the_replicas_are(
    obj: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert counted(capsys, tmp_path, obj)[0] == 4


def test_a_deployment_of_the_cluster_is_scaled_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Spread constraints count its pods by the hash that its ReplicaSet has."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": LABELS,
        "matchLabelKeys": ["pod-template-hash"],
    }
    spec = {**SPEC, "topologySpreadConstraints": [spread]}
    labels = {"app": "web", "pod-template-hash": "real"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    names = {"name": "web", "kind": "Deployment", "apiVersion": "apps/v1", "uid": "u", "controller": True}
    status = {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "9"}}
    cluster: list[dict[str, Any]] = [
        made("Node", status=status)
        | {"metadata": {"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}}},
        workload("ReplicaSet", template=template, selector={"matchLabels": labels}, replicas=1)
        | {"metadata": {"name": "web-real", "ownerReferences": [names]}},
        made("Pod", spec={**spec, "nodeName": "n1"}) | {"metadata": {"name": "old", "labels": labels}},
    ]
    deployment = workload("Deployment", template={**TEMPLATE, "spec": spec}, replicas=1)
    assert counted(capsys, tmp_path, deployment, cluster=cluster)[0] == 2
    assert counted(capsys, tmp_path, deployment, cluster=[cluster[0], cluster[2]])[0] == 3


def test_each_replica_of_a_stateful_set_has_volumes_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    count, message = counted(capsys, tmp_path, workload("StatefulSet", volumeClaimTemplates=claims))
    assert (count, "1 node(s) exceed max volume count." in message) == (2, True)


def test_the_other_objects_of_the_file_are_applied(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "web"}}
    pod = made(
        "Pod", spec={**SPEC, "volumes": [volume], "priorityClassName": "web", "runtimeClassName": "web"}
    )
    others = [
        made("PersistentVolumeClaim", spec=CLAIM),
        made("PriorityClass", "scheduling.k8s.io/v1", value=7),
        made("RuntimeClass", "node.k8s.io/v1", handler="h", overhead={"podFixed": {"cpu": "1"}}),
    ]
    assert counted(capsys, tmp_path, pod, *others)[0] == 2
    assert counted(capsys, tmp_path, pod, cluster=others)[0] == 2
    assert counted(capsys, tmp_path, pod) == (
        0,
        'pods "web" is forbidden: no PriorityClass with name web was found',
    )


def test_policies_of_the_namespace_count(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pod = made("Pod", spec={"containers": [{"name": "c"}]})
    limits = {"type": "Container", "default": {"cpu": "500m"}}
    limit_range = made("LimitRange", spec={"limits": [limits]})
    assert counted(capsys, tmp_path, pod, cluster=[limit_range])[0] == 8
    quota = made("ResourceQuota", spec={"hard": {"requests.cpu": "1600m"}})
    running = made("Pod", spec={**SPEC, "nodeName": "n1"}) | {"metadata": {"name": "running"}}
    assert counted(capsys, tmp_path, pod, cluster=[limit_range, quota, running]) == (
        1,
        'pods "web" is forbidden: exceeded quota: web, requested: requests.cpu=500m, '
        "used: requests.cpu=1500m, limited: requests.cpu=1600m",
    )


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            [workload("DaemonSet")],
            ": DaemonSet default/web: a DaemonSet has a pod on each node, and no replicas to ",
        ),
        ([made("ConfigMap")], "this file has no pod or workload; left out: ConfigMap"),
        (
            [
                made(
                    "LeaderWorkerSet",
                    "leaderworkerset.x-k8s.io/v1",
                    spec={"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
                )
            ],
            "LeaderWorkerSet default/web: its pods have 2 templates: give each of them as a pod in a file",
        ),
        (
            [made("CronJob", "batch/v1", spec={"jobTemplate": {"spec": {"parallelism": "x"}}})],
            "CronJob web: spec.jobTemplate.spec.parallelism: expected integer, got string",
        ),
        ([made("CronJob", "example.com/v1", spec={})], "this file has no pod or workload; left out: CronJob"),
    ],
)
def test_what_is_no_template(
    objects: list[Any], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert main(["capacity", *DUMP, "--pod", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_a_workload_of_the_cluster_is_a_template(capsys: pytest.CaptureFixture[str]) -> None:
    examples = ["capacity", "-f", "examples"]
    for option, name in (("--pod", "deploy/default/nginx-deploy"), ("--like", "deploy/nginx-deploy")):
        row = lines(capsys, *examples, option, f"{name}=2")[4]
        assert row.split()[:2] == ["default/nginx-deploy", "2"]


def test_each_document_of_a_file_is_a_template(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    one = Path(POD).read_text()
    path.write_text(one + "\n---\n" + one.replace("name: small-pod", "name: other-pod"))
    found = lines(capsys, "capacity", *DUMP, "--pod", str(path), "--max-limit", "3")
    assert [row.split() for row in found[4:6]] == [
        ["default/small-pod", "1", "3", "1"],
        ["default/other-pod", "1", "3", "1"],
    ]


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "Missing option '--pod'"),
        (["--pod", "nowhere.yaml"], "nowhere.yaml"),
        (
            ["--pod", f"{POD}=0"],
            "--pod: tests/data/web_pod.yaml=0: a round needs at least one replica: give =1 or more",
        ),
        (
            ["--pod", "deploy/web"],
            "--pod: deploy/web: no such file, and no Deployment default/web; there is ",
        ),
        (["--pod", ""], "--pod: an argument is empty; give it a value, or leave it out"),
        (["--pod", "n" * 300], "--pod: no such file, and "),
        (["--pod", "web"], '--pod: no such file, and "web" is not a reference such as deploy/web'),
        (["--pod", "depoly/web"], '--pod: no such file, and there is no kind "depoly"; nearest: deploy'),
        (
            ["--pod", "hpa/web"],
            "--pod: hpa/web: no such file, and a HorizontalPodAutoscaler has no pods; name",
        ),
        (
            ["--pod", "deploy/web=-1"],
            "--pod: deploy/web=-1: no such file; in KIND/NAME=N, N must be a whole number",
        ),
        (["--pod", POD, "--by", ""], "--by: an argument is empty; give it a value, or leave it out"),
        (["--pod", "docs/nowhere.yaml"], "docs/nowhere.yaml: no such file"),
        (["--pod", POD, "--exclude-nodes", "x"], '--exclude-nodes: there is no Node "x"'),
        (["--pod", POD, "--max-limit", "-1"], "must be a whole number of at least 0, not '-1'"),
    ],
)
def test_bad_input_is_one_line_on_stderr(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capacity", *DUMP, *command]) == 2
    out, err = capsys.readouterr()
    assert (out, message in err, err.count("\n")) == ("", True, 1), err


NAMESPACES = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
    for name in ("default", "shop")
]


@pytest.mark.parametrize(
    ("place", "server", "more", "message"),
    [
        ("nowhere", True, "", 'Pod nowhere/small-pod: namespaces "nowhere" not found'),
        ("shop", True, "", ""),
        ("nowhere", True, "namespace", ""),
        ("nowhere", False, "", ""),
    ],
)
def test_a_template_in_a_namespace_that_the_server_lacks_is_refused(
    place: str, server: bool, more: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster, pod = tmp_path / "cluster.json", tmp_path / "pod.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": NAMESPACES if server else NAMESPACES[:0]}))
    text = Path(POD).read_text().replace("metadata:\n", f"metadata:\n  namespace: {place}\n", 1)
    if more:
        text += f"\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {place}}}\n"
    pod.write_text(text)
    code = main(["capacity", "-f", "tests/data/gang.yaml", "-f", str(cluster), "--pod", str(pod)])
    err = capsys.readouterr().err
    assert (code, message in err) == (2 if message else 0, True), err


def test_pods_that_a_change_makes_are_placed_before_the_count(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{CLUSTER}---\n{json.dumps(workload('ReplicaSet', replicas=0))}\n")
    command = ("capacity", "-f", str(path), "--pod", "rs/web", "-o", "json")
    counts = [json.loads("\n".join(lines(capsys, *command, *more)))["count"] for more in ([], SCALED)]
    assert counts == [4, 1]


def test_gangs_are_counted_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, *COMMAND, "--gang", "8")[:5] == [
        "7 gangs of 8 pods fit: 56 of default/small-pod",
        f"3 of the 8 pods of the next gang fit; next replica of default/small-pod: {MESSAGE}",
        "",
        "TEMPLATE           GANGS  SHARE  REPLICAS  NODES",
        "default/small-pod  7      8      56        2",
    ]
    document = json.loads("\n".join(lines(capsys, *COMMAND, "--gang", "8", "-o", "json")))
    assert (document["gang"], document["count"]) == ({"size": 8, "count": 7, "rest": 3}, 56)
    assert "3 of the 8 pods of the next gang fit" in "\n".join(
        lines(capsys, *COMMAND, "--gang", "8", "-o", "html")
    )
    assert lines(capsys, *COMMAND, "--gang", "8", "--max-limit", "2")[1] == "limit of 2 reached"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gang", "0"], "Invalid value for '--gang': must be a whole number of at least 1, not '0'."),
        (["--gang", "x"], "Invalid value for '--gang': must be a whole number of at least 1, not 'x'."),
        (["--gang", "2", "--pod", f"{POD}=2"], "--gang: it says how many pods a gang has: leave out =N"),
    ],
)
def test_wrong_gangs_are_refused(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main([*COMMAND, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"error: {message}\n")


def test_where_one_template_blocks_the_others_are_counted_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items: list[Any] = [
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 4, "pods": 9}}}
    ]
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "items": items}))
    for name, cpu in (("big", 8), ("small", 1)):
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        pod = {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        (tmp_path / f"{name}.json").write_text(json.dumps(pod))
    templates = [word for name in ("small", "big") for word in ("--pod", str(tmp_path / f"{name}.json"))]
    assert main(["capacity", "-f", str(tmp_path / "nodes.json"), *templates]) == 0
    first, stop, alone = capsys.readouterr().out.splitlines()[:3]
    assert first == "0 rounds fit: 0 of default/small, 0 of default/big"
    assert stop.startswith("next replica of default/big: 0/1 nodes are available")
    assert alone == "alone fit: 4 of default/small"

"""``moorage explain``: documents, situations and groups; its text is in `tests/cases/cli/explain*.md`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli import main
from tests.cli.test_simulate import node, pod
from tests.house.source import ROOT

BIG = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "5", "memory": "1Gi"}}}]}
TAINT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
ITEMS = [
    node("a", "z1"),
    node("b", "z2") | {"spec": {"taints": [TAINT]}},
    pod("old", nodeName="a"),
    pod("fits"),
    pod("twin"),
    pod("twin", "other"),
    pod("big") | {"spec": BIG},
    pod("torn") | {"spec": BIG | {"nodeSelector": {"disk": "ssd"}}},
    pod("done", nodeName="b") | {"status": {"phase": "Succeeded"}},
    pod("gated", schedulingGates=[{"name": "wait"}]),
]


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    return str(path)


def explain(*arguments: str) -> int:
    return main(["explain", *arguments])


def test_yaml_is_the_same_document(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    documents = []
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert explain("big", "-f", dump, "-o", form, "--node", "b") == 1
        documents.append(read(capsys.readouterr().out))
    assert documents[0] == documents[1]
    assert documents[0]["apiVersion"] == "explain.moorage.dev/v1"
    assert [details["node"] for details in documents[0]["details"]] == ["b"]


def test_nodes_limits_the_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--synthetic", "nodes=30,pods=1", "-o", "json")
    shown: list[Any] = []
    for limit in ("2", "all"):
        assert explain("worker-000000", *sizes, "--nodes", limit) == 0
        shown.append(json.loads(capsys.readouterr().out)["ranking"])
    assert [len(ranking) for ranking in shown] == [2, 30]


@pytest.mark.parametrize("name", ["default/fits", "default/twin", "other/twin", "big", "torn"])
def test_the_situation_is_that_of_simulate(name: str, dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", dump, "-o", "json"]) == 0
    said = {f"{one['namespace']}/{one['pod']}": one for one in json.loads(capsys.readouterr().out)["pods"]}
    code = explain(name, "-f", dump, "-o", "json")
    made = json.loads(capsys.readouterr().out)
    placed = said[made["pod"]]["node"]
    assert made["fits"] == bool(placed)
    assert code == (0 if placed else 1)
    assert said[made["pod"]]["reason"].startswith(made["message"])
    at = {"default/fits": 0}.get(made["pod"], 1)
    assert made["situation"].pop("message").startswith(made["message"])
    assert made["situation"] == {"kind": "in-turn", "placed": at, "pending": 5 - at, "node": placed}


def test_a_pod_that_simulate_does_not_try_is_explained_alone(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, others in (("gated", 5), ("old", 6)):
        assert explain(name, "-f", dump, "-o", "json") == (1 if name == "gated" else 0)
        expected = {"kind": "alone", "placed": 0, "pending": others, "node": "", "message": ""}
        assert json.loads(capsys.readouterr().out)["situation"] == expected


def test_volumes_are_bound_before_a_pod_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A claim of a class that binds at once, and a local volume whose status the dump leaves out."""
    at_once = {"metadata": {"name": "fast"}, "provisioner": "x.example.com", "volumeBindingMode": "Immediate"}
    late = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    classes = [one | {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"} for one in (at_once, late)]
    modes = {"accessModes": ["ReadWriteOnce"]}
    on_b = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}
    disk = modes | {
        "capacity": {"storage": "10Gi"},
        "storageClassName": "local",
        "local": {"path": "/d"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [on_b]}},
    }
    items: list[Any] = [node("a", "z1"), node("b", "z2"), *classes]
    items.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": disk})
    for name, its_class in (("p", "fast"), ("q", "local")):
        spec = modes | {"storageClassName": its_class, "resources": {"requests": {"storage": "5Gi"}}}
        claim = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        items.append(claim | {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        items.append(pod(name, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": name}}]))
    for each in items[:2]:
        each["metadata"]["labels"]["kubernetes.io/hostname"] = each["metadata"]["name"]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    for options in ([], ["--alone"], ["--after-run"]):
        for name, feasible in (("p", 2), ("q", 1)):
            assert explain(name, "-f", str(path), "-o", "json", *options) == 0
            assert json.loads(capsys.readouterr().out)["nodes"]["feasible"] == feasible


def test_simulate_says_who_evicted_whom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"resources": {"requests": {"cpu": "4"}}, "name": "c", "image": "i"}
    items = [node("a", "z1"), pod("low", nodeName="a"), pod("high", priority=9, containers=[small])]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["simulate", "-f", str(path), "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["summary"]["evicted"] == 1
    assert made["pods"][1]["victims"] == ["default/low"]
    assert made["pods"][1]["reason"] == "preempted default/low"


BUDGETS = str(ROOT / "tests/data/threads/11b.yaml")


def test_budgets_that_evictions_violate_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Three preemptors, and two budgets that each allow one disruption."""
    assert main(["simulate", "-f", BUDGETS, "-o", "json"]) == 0
    pods = {one["pod"]: one for one in json.loads(capsys.readouterr().out)["pods"]}
    assert [name for name, one in pods.items() if "violatedBudgets" in one] == ["a2"]
    assert pods["a2"]["violatedBudgets"] == ["default/a"]


# ---- workloads and all pending pods ------------------------------------------------------------------------


@pytest.fixture
def web(tmp_path: Path) -> str:
    """A Deployment of four pods and room for two, one pod of its own, and one with a gate."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    items = [
        node("a", "z1"),
        {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
        pod("big") | {"spec": BIG},
        pod("gated", schedulingGates=[{"name": "wait"}]),
    ]
    path = tmp_path / "web.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


@pytest.mark.parametrize(
    "name", ["deployment/web", "deploy/web", "Deployments.apps/web", "rs/web-hash", "web", "default/web"]
)
def test_a_workload_is_explained_by_one_of_its_pods(
    name: str, web: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.startswith("rs/"):
        assert main(["simulate", "-f", web, "-o", "name"]) == 0
        name = "rs/" + capsys.readouterr().out.split()[0].removeprefix("pod/").rpartition("-")[0]
    assert explain(name, "-f", web) == 1
    out = capsys.readouterr().out
    assert out.startswith("deployment/web in namespace default: 2 pods without a node; one of them is\n")
    assert out.count("fits 0 of 1 nodes") == 1
    assert "2 of 2 pods" in out
    assert explain(name, "-f", web, "-o", "json") == 1
    made = json.loads(capsys.readouterr().out)
    (item,) = made["items"]
    assert (made["kind"], item["workload"], len(item["pods"])) == ("ExplanationList", "deployment/web", 2)
    assert item["explanation"]["pod"] == item["pods"][0]


def test_replicas_of_a_stateful_set_that_fail_alike_are_one_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their names and claims differ, and claims are in a table below."""
    labels = {"app": "db"}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"] |= {"storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": 3,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        "volumeClaimTemplates": [claim],
    }
    slow = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    items = [
        node("a", "z1"),
        {"kind": "StorageClass", "metadata": {"name": "slow"}} | slow,
        {"kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec},
    ]
    path = tmp_path / "sts.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert explain("db", "-f", str(path), "-o", "json") == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    names = [f"default/db-{at}" for at in range(3)]
    assert item["pods"] == names
    assert item["own"] == {name: [name.replace("/", "/data-")] for name in names}
    assert explain("--all-pending", "-f", str(path)) == 1
    out = capsys.readouterr().out
    assert out.startswith("statefulset/db in namespace default: 3 pods without a node; one of them is\n")
    table = out.strip().split("\n\n")[-1].splitlines()
    assert table[1].split() == ["default/db-0", "default/data-db-0"]


def test_all_pending_pods_once_per_class(web: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--all-pending", "-f", web, "-o", "json") == 1
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(item["workload"], len(item["pods"])) for item in items] == [
        ("deployment/web", 2),
        ("pod/big", 1),
        ("pod/gated", 1),
    ]
    fitting = ["--scale", "deploy/web=0", "-n", "default"]
    assert explain("--all-pending", "-f", web, *fitting) == 1
    assert capsys.readouterr().out.count(" in namespace default: 1 pod without a node\n") == 2


def test_prose_is_wrapped_on_a_terminal(
    web: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert explain("big", "--alone", "-f", web) == 1
    lines = [re.sub("\x1b.*?m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 60


def boat(name: str, replicas: int) -> dict[str, Any]:
    """A workload of a kind that nobody knows."""
    spec = {"replicas": replicas, "template": {"spec": pod("x")["spec"]}}
    return {"apiVersion": "sea.example/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec}


def ray_cluster(name: str, namespace: str) -> dict[str, Any]:
    head = {"template": {"spec": BIG}}
    meta = {"name": name, "namespace": namespace}
    spec = {"headGroupSpec": head}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": spec}


def stateful_set(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"] | BIG}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


SUBJECTS = [
    *(node("a", "z1"), node("b", "z2")),
    *(pod("old", nodeName="a"), pod("big") | {"spec": BIG}),
    pod("refused") | {"spec": BIG | {"priorityClassName": "gone"}},
    pod("other", schedulerName="theirs"),
    *(boat("b", 3), ray_cluster("rc", "shop"), stateful_set("db")),
]


def test_every_subject_that_check_prints_can_be_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": SUBJECTS}))
    dump = ["-f", str(file), "--drain", "a"]
    assert main(["check", *dump, "-o", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {(one["workload"], one["status"]) for one in findings} == {
        ("pod/old", "kept"),
        ("pod/big", "unschedulable"),
        ("pod/other", "other-scheduler"),
        ("raycluster.ray.io/rc", "unschedulable"),
        ("statefulset/db", "unschedulable"),
        ("statefulset/db", "waiting"),
        ("pod/refused", "refused"),
        ("boat.sea.example/b", "skipped-kind"),
    }
    for one in findings:
        for subject in (one["workload"], *one["names"]):
            assert explain(subject, *dump, "-n", one["namespace"]) in (0, 1), subject
            captured = capsys.readouterr()
            if one["status"] in ("refused", "skipped-kind"):
                assert f"{one['workload']}: {one['pods']} {one['status']}: {one['reason']}" in captured.out


@pytest.mark.parametrize(
    "target",
    [
        *("raycluster/rc", "RayCluster/shop/rc", "rayclusters/rc", "raycluster.ray.io/rc"),
        *("rayclusters.ray.io/rc", "pod/shop/{pod}", "shop/{pod}"),
    ],
)
def test_forms_of_names(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), ray_cluster("rc", "shop")]}))
    assert main(["check", "-f", str(file), "-o", "name"]) == 1
    name = capsys.readouterr().out.strip().removeprefix("pod/")
    assert explain(target.format(pod=name), "-f", str(file), "-o", "json") == 1
    made = json.loads(capsys.readouterr().out)
    assert made.get("pod") == f"shop/{name}" or made["items"][0]["workload"] == "raycluster.ray.io/rc"


def test_a_pod_that_nobody_makes_is_told_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": SUBJECTS}))
    assert explain("refused", "-f", str(file), "-o", "json") == 1
    made = json.loads(capsys.readouterr().out)
    assert (made["kind"], made["items"]) == ("ExplanationList", [])
    assert "no PriorityClass with name gone" in made["warnings"][-1]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.34", "1 pod has claims for devices, which are allocated as in v1.35: v1.34.4 may choose other"),
        ("1.35", ""),
        ("1.36", ""),
        ("1.37", ""),
    ],
)
@pytest.mark.parametrize("command", [["explain", "p"], ["check"]])
def test_pods_with_claims_warn_where_the_allocator_is_not_the_releases(
    command: list[str], version: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = [{"name": "c", "resourceClaimName": "c"}]
    asking, placed = pod("p", resourceClaims=claims), pod("q", nodeName="a", resourceClaims=claims)
    files = tmp_path / "f.yaml"
    files.write_text(yaml.safe_dump_all([node("a", "z1"), asking, placed]))
    main([*command, "-f", str(files), "--kubernetes-version", version])
    told = [line for line in capsys.readouterr().err.splitlines() if "claims for devices" in line]
    assert len(told) == bool(text)
    assert all(text in line and "docs/releases.md" in line for line in told)


def test_pods_that_fail_alike_are_one_block_though_another_name_begins_like_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"containers": [{"name": "c", "image": "i"}], "affinity": away}
    meta = {"labels": {"app": "x"}}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
    web = {
        "replicas": 11,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": meta, "spec": spec},
    }
    room = {"cpu": "8", "memory": "8Gi", "pods": "20"}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
            "status": {"capacity": room, "allocatable": room},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": web,
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta | {"name": "web-10", "namespace": "default", "ownerReferences": [owner]},
            "spec": spec | {"nodeName": "n1"},
        },
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    assert main(["explain", "-f", str(path), "sts/web"]) == 1
    assert "10 pods without a node; one of them is" in capsys.readouterr().out


def test_a_job_of_a_cron_job_is_found_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "u", "controller": True}
    spec = {"template": {"spec": {**BIG, "restartPolicy": "Never"}}}
    meta = {"name": "night-1", "ownerReferences": [owner]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), job]}))
    found = []
    for target in ("job/night-1", "night-1", "default/night-1"):
        assert explain(target, "-f", str(path)) == 1
        found.append(capsys.readouterr().out)
    assert "night-1-" in found[0]
    assert found == found[:1] * 3
    assert explain("other/night-1", "-f", str(path)) == 2


# ---- groups ------------------------------------------------------------------------------------------------

GANG = str(ROOT / "tests/data/gang.yaml")
GROUPS = ["-f", GANG, "--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
GROUP_WORDS = """\
group default/train: 2 of 4 pods fit at once; minCount is 4
  default/train-2 fits nowhere beside these: 0/2 nodes are available: 2 Insufficient cpu.

NODES  EXAMPLES  REJECTED BY, FOR default/train-2    MISSING OR BLOCKED BY
2      a, b      NodeResourcesFit: Insufficient cpu  2 more cpu

CHANGE FOR THE GROUP                           PODS WITH A NODE
add 2 nodes like a (4 cpu, 8Gi memory)         4
lower the cpu request of each pod from 3 to 2  4
lower minCount from 4 to 2                     2
"""


@pytest.mark.parametrize(
    "target",
    ["podgroup/train", "podgroups.scheduling.k8s.io/default/train", "train", "train-3", "--all-pending"],
)
def test_a_group_is_explained_with_what_would_place_it(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(target, *GROUPS) == 1
    out = capsys.readouterr().out
    assert GROUP_WORDS in out
    assert out.count("CHANGE FOR THE GROUP") == 1
    first = "train-3" if target == "train-3" else "train-0"
    assert f"{GROUP_WORDS}\none pod of the group, default/{first}:\nRANK" in out
    if target == "--all-pending":
        assert out.startswith("4 pods in namespace default without a node (train-0, ")
    elif target != "train-3":
        head = "podgroup/train in namespace default: 4 pods without a node; one of them is\n"
        assert out.startswith(head)


def test_the_document_and_the_page_of_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("train-0", *GROUPS, "-o", "json") == 1
    group = json.loads(capsys.readouterr().out)["group"]
    assert (group["group"], group["minCount"], group["fit"]) == ("default/train", 4, 2)
    assert group["changes"][0] == {
        "kind": "add-node",
        "text": "add 2 nodes like a (4 cpu, 8Gi memory)",
        "placed": 4,
        "nodes": 2,
        "like": "a",
    }
    assert group["changes"][2]["from"] == "4"
    assert explain("podgroup/train", *GROUPS, "-o", "html") == 1
    page = capsys.readouterr().out
    assert "group default/train: 2 of 4 pods fit at once" in page
    assert "What would place the group, each tried on the engine" in page


WITHOUT_GROUP = """\
warning: 4 pods wait for PodGroup default/train, which does not exist: create it as scheduling.k8s.io/v1beta1.
"""


@pytest.mark.parametrize("form", ["table", "html"])
def test_a_pod_of_a_group_that_is_not_in_the_input_is_explained_so(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = [text for text in Path(GANG).read_text().split("\n---\n") if "kind: PodGroup" not in text]
    (tmp_path / "pods.yaml").write_text("\n---\n".join(listed))
    assert explain("train-0", "-f", str(tmp_path / "pods.yaml"), *GROUPS[2:], "-o", form) == 1
    out, err = capsys.readouterr()
    assert err == WITHOUT_GROUP
    assert "its pods wait until it is created" in out
    if form == "table":
        assert "group default/train: there is no such PodGroup\n" in out


LOW = """
apiVersion: v1
kind: Pod
metadata: {name: low-a, namespace: default}
spec: {priority: 2, nodeName: a, containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""


@pytest.mark.parametrize("situation", [[], ["--alone"]])
def test_a_group_is_explained_before_the_attempt_that_evicts_pods_for_it(
    situation: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(GANG).read_text().replace("minCount: 4}}", "minCount: 2}}, priority: 9")
    text = text.replace("spec: {schedulingGroup", "spec: {priority: 9, schedulingGroup")
    (tmp_path / "gang.yaml").write_text("\n---\n".join(text.split("\n---\n")[:-2]))
    (tmp_path / "low.yaml").write_text(LOW)
    words = ["-f", str(tmp_path / "gang.yaml"), "-f", str(tmp_path / "low.yaml"), *GROUPS[2:], *situation]
    assert explain("podgroup/train", *words) == (1 if situation else 0)  # alone, one pod fits, and none else
    out = capsys.readouterr().out
    assert "  preemption: it would evict default/low-a (2) to place 2 of its pods\n" in out
    explain("podgroup/train", *words, "-o", "json")
    (item,) = json.loads(capsys.readouterr().out)["items"]
    victims = [{"pod": "default/low-a", "priority": 2}]
    expected = {"priority": 9, "own": True, "placed": 2, "victims": victims}
    assert item["explanation"]["group"]["evictions"] == expected


def test_a_missing_class_comes_with_the_command_that_gets_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.json"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x", priorityClassName="vip")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    web = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    path.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), web]}))
    missing = "no PriorityClass with name vip was found"
    hint = f"{missing}; if the cluster has it, add `kubectl get priorityclass vip -o yaml`"
    for command in (["check"], ["explain", "deploy/web"]):
        assert main([*command, "-f", str(path)]) == 1
        assert hint in capsys.readouterr().out


def test_nearest_names_have_their_namespaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.json"
    items = [node("a", "z1")]
    for place in ("default", "more"):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        items.append(
            {"kind": "Deployment", "metadata": {"name": "nginx-deploy", "namespace": place}, "spec": spec}
        )
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert explain("deployment/nginx", "-f", str(path)) == 2
    wanted = "; nearest: deployment/default/nginx-deploy, deployment/more/nginx-deploy\n"
    assert capsys.readouterr().err.endswith(wanted)

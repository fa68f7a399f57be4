"""``moorage explain``: what it prints, which pod it takes, and its exit codes."""

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

FITS = """\
default/fits: fits 1 of 2 nodes
situation: as in simulate; of the other pending pods 0 placed before it, 5 not
simulate places it on a

RANK  NODE  TOTAL  TaintToleration x3  NodeResourcesFit x1  NodeResourcesBalancedAllocation x1
1     a     434    100 (raw 0)         62                   72

NODES  EXAMPLES  REJECTED BY                                        MISSING OR BLOCKED BY
1      b         TaintToleration: node(s) had untolerated taint(s)  untolerated taint spot=yes:NoSchedule

"""

BIG_WORDS = """\
default/big: fits 0 of 2 nodes
situation: alone; 5 other pending pods ignored
0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).

NODES EXAMPLES REJECTED BY MISSING OR BLOCKED BY
1 a NodeResourcesFit: Insufficient cpu 2 more cpu
1 b TaintToleration: node(s) had untolerated taint(s); NodeResourcesFit: Insufficient cpu
 untolerated taint spot=yes:NoSchedule; 1 more cpu

preemption: no node where it helps

CHANGE REDUCTION NODES ENABLED
lower the cpu request of container c from 5 to 3 40.0% 1

"""


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    return str(path)


def explain(*arguments: str) -> int:
    return main(["explain", *arguments])


def test_a_pod_that_fits(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("fits", "-f", dump) == 0
    assert capsys.readouterr() == (FITS, "")


def test_a_pod_that_fits_nowhere(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("big", "--alone", "-f", dump) == 1
    out, _ = capsys.readouterr()
    assert out.split() == BIG_WORDS.split()


def test_conflicts_are_shown_with_the_two_changes_that_resolve_them(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("torn", "--alone", "-f", dump) == 1
    out, _ = capsys.readouterr()
    assert "no single change places it, two changes do\n" in out
    words = " ".join(out.split())
    assert "lower the cpu request of container c from 5 to 3 label node a with disk=ssd 1 " in words
    assert "NO NODE SATISFIES request cpu NO NODE SATISFIES node-selector disk=ssd" in words


@pytest.mark.parametrize("text", ["default/twin", "twin -n default", "pod/twin -n default"])
def test_naming_the_pod(text: str, dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(*text.split(), "-f", dump, "-o", "json") == 1
    assert json.loads(capsys.readouterr().out)["pod"] == "default/twin"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("twin", "TARGET: twin: there are several, in namespaces default, other: choose one with -n"),
        ("none", "TARGET: none: no pod, workload or group has this name; nearest: pod/default/torn"),
        ("none -n other", "TARGET: none: no pod, workload or group in namespace other has this name"),
        (
            "fits -n other",
            "TARGET: fits: no pod, workload or group in namespace other has this name; "
            "there is pod/default/fits",
        ),
        (
            "gone/fits",
            "TARGET: gone/fits: no pod, workload or group in namespace gone has this name; "
            "there is pod/default/fits",
        ),
        ("default/fits -n other", "TARGET: default/fits: names another namespace than -n other"),
        ("done", "TARGET: done: the pod has finished, and is not scheduled any more"),
        ("fits --node c", '--node, --why-not: there is no Node "c"'),
        ("fits --node ab", '--node, --why-not: there is no Node "ab"; nearest: b, a'),
        ("fits --nodes -1", "Invalid value for '--nodes': must be a number of at least 1, or all, not '-1'"),
        ("fits --nodes 0", "Invalid value for '--nodes': must be a number of at least 1, or all, not '0'"),
        ("fits --synthetic nodes=1", "--synthetic cannot be combined with -f or --kubeconfig"),
    ],
)
def test_bad_input_is_one_line_on_stderr(
    arguments: str, message: str, dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*arguments.split(), "-f", dump) == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


def test_no_pod_and_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("fits") == 2
    assert capsys.readouterr().err == "error: give the cluster with -f or --kubeconfig\n"
    assert explain() == 2
    assert capsys.readouterr().err == "error: give either TARGET or --all-pending\n"


def test_bound_and_gated_pods(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("old", "-f", dump) == 0
    assert capsys.readouterr().out.startswith(
        "default/old: fits 1 of 2 nodes\nalready bound to a; explained without it\n"
    )
    assert explain("gated", "-f", dump) == 1
    assert "\nnot scheduled: waiting for scheduling gates: [wait]\n" in capsys.readouterr().out


def test_yaml_is_the_same_document(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    documents = []
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert explain("big", "-f", dump, "-o", form, "--node", "b") == 1
        documents.append(read(capsys.readouterr().out))
    assert documents[0] == documents[1]
    assert documents[0]["apiVersion"] == "explain.moorage.dev/v1"
    assert [details["node"] for details in documents[0]["details"]] == ["b"]


def test_a_node_in_detail(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("big", "-f", dump, "--node", "b") == 1
    table = capsys.readouterr().out.split("\n\n")[-2].splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in table] == [
        ("b", "VERDICT"),
        ("NodeUnschedulable", "passes"),
        ("NodeName", "passes"),
        ("TaintToleration", "node(s) had untolerated taint(s)"),
        ("NodeResourcesFit", "Insufficient cpu"),
        ("because", "untolerated taint spot=yes:NoSchedule"),
        ("because", "1 more cpu"),
    ]


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


def test_one_situation_only(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("big", "-f", dump, "--after-run") == 1
    assert (
        "\nsituation: after simulate; of the other pending pods 1 placed, 4 not\n" in capsys.readouterr().out
    )
    for order in (["--alone", "--after-run"], ["--after-run", "--alone"]):
        assert explain("big", "-f", dump, *order) == 2
        assert capsys.readouterr() == ("", "error: give either --alone or --after-run\n")


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


def test_after_run_explains_a_pod_among_those_that_were_placed(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("default/twin", "-f", dump, "-o", "json", "--after-run") == 1
    alone = json.loads(capsys.readouterr().out)
    assert (alone["boundTo"], alone["nodes"]["feasible"]) == ("", 0)
    assert "Too many pods" in alone["message"]


def test_whom_a_pod_would_evict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    low = [pod(f"low-{name}", nodeName=name, priority=at) | {} for at, name in enumerate("ab")]
    items = [
        node("a", "z1"),
        node("b", "z2"),
        *low,
        pod("high", priority=9) | {"spec": BIG | {"priority": 9}},
    ]
    small = {"resources": {"requests": {"cpu": "4"}}, "name": "c", "image": "i"}
    items[-1]["spec"] = items[-1]["spec"] | {"containers": [small]}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert explain("high", "-f", str(path)) == 0, "simulate places it, by eviction"
    out = capsys.readouterr().out
    assert "preemption: would evict pods on a, chosen among 2 of 2 nodes that may help" in out
    assert "decided by: the lowest priority of the most important victim" in out
    assert "a          default/low-a (0)  0               0" in out
    assert "b          default/low-b (1)  0               1" in out
    assert explain("high", "-f", str(path), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["preemption"]["chosen"] == "a"


def test_simulate_says_who_evicted_whom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"resources": {"requests": {"cpu": "4"}}, "name": "c", "image": "i"}
    items = [node("a", "z1"), pod("low", nodeName="a"), pod("high", priority=9, containers=[small])]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["simulate", "-f", str(path)]) == 0
    out = capsys.readouterr().out
    assert "default    pod/low   1     evicted  preempted by default/high on node a" in out
    assert "default    pod/high  1/1        a\n" in out
    assert main(["simulate", "-f", str(path), "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["summary"]["evicted"] == 1
    assert made["pods"][1]["victims"] == ["default/low"]
    assert made["pods"][1]["reason"] == "preempted default/low"


BUDGETS = str(ROOT / "tests/data/threads/11b.yaml")


def test_budgets_that_evictions_violate_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Three preemptors, and two budgets that each allow one disruption."""
    assert main(["simulate", "-f", BUDGETS]) == 0
    out, err = capsys.readouterr()
    (told,) = [line for line in out.splitlines() if "violates" in line]
    assert told.split()[1] == "pod/a2"
    assert told.endswith(" on node n2, which violates default/a")
    assert "warning: preemption evicts 1 pod in violation of PodDisruptionBudget default/a.\n" in err
    assert main(["simulate", "-f", BUDGETS, "-o", "json"]) == 0
    pods = {one["pod"]: one for one in json.loads(capsys.readouterr().out)["pods"]}
    assert [name for name, one in pods.items() if "violatedBudgets" in one] == ["a2"]
    assert pods["a2"]["violatedBudgets"] == ["default/a"]


def test_evicted_pods_that_nobody_makes_again_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--all-pending", "-f", BUDGETS) == 1
    out = capsys.readouterr().out
    told = [line for line in out.splitlines() if "1 evicted: preempted by default/imp-" in line]
    assert [line.split()[0] for line in told] == ["pod/a1:", "pod/a2:", "pod/b1:"]


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


def test_pods_of_no_workload_that_fail_alike_are_one_explanation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = [pod(f"big-{at}") | {"spec": BIG} for at in range(5)]
    labelled = {"kind": "Pod", "metadata": {"name": "own", "labels": {"x": "y"}}, "spec": BIG}
    path = tmp_path / "bare.json"
    path.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), *big, labelled]}))
    assert explain("--all-pending", "-f", str(path)) == 1
    names = "big-0, big-1, big-2, and 3 others"
    heading = f"6 pods in namespace default without a node ({names}); one of them is\n"
    out = capsys.readouterr().out
    assert out.startswith(heading)
    assert out.count(" fits 0 of 1 nodes") == 1
    assert explain("--all-pending", "-f", str(path), "-o", "json") == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["pods"] == [*(f"default/big-{at}" for at in range(5)), "default/own"]


def test_a_workload_whose_pods_all_get_a_node(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    items = [node("a", "z1"), pod("old", nodeName="a"), pod("new")]
    for each in items[1:]:
        each["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "db", "controller": True}]
    Path(dump).write_text(json.dumps({"kind": "List", "items": items}))
    assert explain("sts/db", "-f", dump) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "statefulset/db in namespace default: 2 pods; one of them is\ndefault/new: fits 1 of"
    )


def test_a_name_of_several_workloads_is_ambiguous(web: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(Path(web).read_text())
    listed["items"].append(listed["items"][1] | {"kind": "StatefulSet"})
    Path(web).write_text(json.dumps(listed))
    assert explain("web", "-f", web) == 2
    among = "deployment/web in namespace default or statefulset/web in namespace default"
    assert capsys.readouterr().err == f"error: TARGET: web: several workloads have this name: give {among}\n"


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


def test_no_pending_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), pod("p")]}))
    assert explain("--all-pending", "-f", str(tmp_path / "dump.json")) == 0
    assert capsys.readouterr().out == "every pod has a node or gets one\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("deploy/none", "TARGET: deployment/none: there is no such workload with a pod"),
        (
            "deploy/none -n default",
            "TARGET: deployment/none: there is no such workload with a pod in namespace default",
        ),
        ("deploy/web --all-pending", "give either TARGET or --all-pending"),
        (
            "widget/web",
            "TARGET: widget/web: no pod, workload or group in namespace widget has this name; "
            "there is deployment/default/web",
        ),
    ],
)
def test_a_workload_that_cannot_be_explained_is_one_line_on_stderr(
    arguments: str, message: str, web: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*arguments.split(), "-f", web) == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


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


IDLE = """
apiVersion: batch/v1
kind: Job
metadata: {name: done}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: batch}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "@daily"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: web}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec: {suspend: true}
---
apiVersion: v1
kind: Node
metadata: {name: a}
"""


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("job/done", "job/done: it has finished"),
        ("done", "done: there is no such pod, but Job default/done: it has finished"),
        ("job/batch", "job/batch: it is suspended, and has no pods; --unsuspend lets it run"),
        ("jobset/train", "jobset/train: it is suspended, and has no pods; --unsuspend lets it run"),
        ("train", "train: there is no such pod, but JobSet.jobset.x-k8s.io default/train: it is suspended"),
        ("batch", "batch: there is no such pod, but Job default/batch: it is suspended, and has no pods"),
        (
            "cj/nightly",
            "cronjob/nightly: it has no pods between its runs; --cronjobs runs it",
        ),
        (
            "nightly",
            "nightly: there is no such pod, but CronJob default/nightly: it has no pods between its runs",
        ),
        ("deploy/web", "deployment/web: it has 0 replicas; --scale deployment/default/web=N gives it some"),
        ("sts/web", "statefulset/web: there is no such workload with a pod; there is deployment/default/web"),
        (
            "deploy/weeb",
            "deployment/weeb: there is no such workload with a pod; nearest: deployment/default/web",
        ),
        ("hpa/web", "hpa/web: a HorizontalPodAutoscaler has no pods of its own; name a pod or a workload"),
        (
            "node/a",
            "there is no NodePool and no node group, so no autoscaler removes node a; moorage nodes shows",
        ),
        (
            "a",
            "a: there is no such pod, but a Node; moorage nodes shows its room, and explain POD --why-not a",
        ),
    ],
)
def test_what_has_no_pods_is_told_with_what_to_do(
    target: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "idle.yaml"
    file.write_text(IDLE)
    assert explain(target, "-f", str(file)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: TARGET: {message}")


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


def test_an_empty_target_is_refused(web: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("", "-f", web) == 2
    assert explain("deploy/web", "--why-not", "", "-f", web) == 2
    empty = "an argument is empty; give it a value, or leave it out"
    assert capsys.readouterr().err == f"error: TARGET: {empty}\nerror: --node: {empty}\n"


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


def test_two_groups_of_equal_pods_are_explained_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.yaml"
    text = Path(GANG).read_text()
    other.write_text(text[text.index("apiVersion: scheduling") :].replace("train", "tune"))
    assert explain("--all-pending", *GROUPS, "-f", str(other)) == 1
    out = capsys.readouterr().out
    assert "group default/train: 2 of 4" in out
    assert "group default/tune: 2 of 4" in out


def test_without_the_gate_the_pods_of_a_group_are_explained_one_by_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain("podgroup/train", "-f", GANG) == 1
    out, err = capsys.readouterr()
    assert "minCount" not in out
    assert "podgroup/train in namespace default: 2 pods without a node; one of them is" in out
    assert "PodGroup is ignored" in err


def test_a_job_is_meant_before_a_group_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: default}\n"
        "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n"
    )
    assert explain("train", *GROUPS, "-f", str(job)) == 0
    assert capsys.readouterr().out.startswith("job/train in namespace default: 1 pod\n")


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


def test_the_error_about_a_wrong_name_names_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("tain", *GROUPS) == 2
    assert "nearest: podgroup/default/train" in capsys.readouterr().err
    (tmp_path / "idle.yaml").write_text(
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\n"
        "metadata: {name: idle, namespace: default}\nspec: {schedulingPolicy: {gang: {minCount: 4}}}\n"
    )
    assert explain("idle", *GROUPS, "-f", str(tmp_path / "idle.yaml")) == 2
    text = "error: TARGET: idle: there is no such pod, but PodGroup default/idle: it has no pod\n"
    assert capsys.readouterr().err == text


def test_the_error_about_a_group_without_pods_names_pods_that_misspell_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(GANG).read_text().replace("podGroupName: train", "podGroupName: trian")
    (tmp_path / "gang.yaml").write_text(text)
    words = ["-f", str(tmp_path / "gang.yaml"), *GROUPS[2:]]
    waiting = "4 pods wait for PodGroup default/trian, which does not exist; nearest: default/train"
    assert explain("podgroup/train", *words) == 2
    assert capsys.readouterr().err == f"error: TARGET: podgroup/train: it has no pod; {waiting}\n"
    assert explain("train", *words) == 2
    assert capsys.readouterr().err.endswith(f"but PodGroup default/train: it has no pod; {waiting}\n")
    assert main(["check", *words]) == 1
    assert capsys.readouterr().err == f"warning: {waiting}.\n"


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


def test_a_group_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("podgroup/none", *GROUPS) == 2
    assert "podgroup/none" in capsys.readouterr().err


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

"""``moorage simulate``: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage import Pod, PodTimes, Scheduler, load, object_to_dict
from moorage.cli import main
from moorage.releases import DEFAULT_GATES


def node(name: str, zone: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    resources = {"cpu": "4", "memory": "8Gi", "pods": "2"}
    status = {"capacity": resources, "allocatable": resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": containers} | spec,
    }


ITEMS = [
    node("a", "z1"),
    node("b", "z2"),
    pod("old", nodeName="a"),
    pod("p1"),
    pod("p2", "other"),
    pod("p3"),
    pod("p4"),
    pod("gated", schedulingGates=[{"name": "wait"}]),
    pod("done", nodeName="b") | {"status": {"phase": "Succeeded"}},
]

TABLE = """\
3 pods have found a node, 2 have none

NAMESPACE  WORKLOAD   WITH NODE  PLACED ON
default    pod/p1     1/1        b
other      pod/p2     1/1        a
default    pod/p3     1/1        b
default    pod/p4     0/1
default    pod/gated  0/1

NAMESPACE  WORKLOAD   PODS  STATUS         REASON
default    pod/p4     1     unschedulable  FULL
default    pod/gated  1     gated          waiting for scheduling gates: [wait]

PODS               COUNT
already bound      1
placed             3
unschedulable      1
  Too many pods    1
skipped: finished  1
skipped: gated     1

RESOURCE  REQUESTED  ALLOCATABLE  USE
cpu       4          8            50.0%
memory    4Gi        16Gi         25.0%
pods      4          4            100.0%

ZONE  NODES  CPU    MEMORY  PODS
z1    1      50.0%  25.0%   100.0%
z2    1      50.0%  25.0%   100.0%

"""
SHORT = "0/2 nodes are available: 2 Too many pods."
FULL = (
    "0/2 nodes are available: 2 Too many pods. no new claims to deallocate, preemption: 0/2 nodes are "
    "available: 2 No preemption victims found for incoming pod."
)
TABLE = TABLE.replace("FULL", SHORT)


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    return str(path)


def simulate(*arguments: str) -> int:
    return main(["simulate", *arguments])


def moorage(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moorage", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_the_table_is_on_stdout_and_the_time_on_stderr(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump) == 0
    out, err = capsys.readouterr()
    assert out == TABLE
    assert "scheduled in" in err


def test_reasons_are_whole_by_pod(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form, is_whole in (("wide", True), ("csv", True), ("table", False), ("markdown", False)):
        assert simulate("-f", dump, "-o", form) == 0
        assert (FULL in capsys.readouterr().out) is is_whole


def test_json_has_a_row_for_each_pod(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["pod"]: row for row in document["pods"]}
    assert list(rows) == ["p1", "p2", "p3", "p4", "gated"]
    assert rows["p2"] == {
        "namespace": "other",
        "pod": "p2",
        "workload": "pod/p2",
        "node": "a",
        "status": "placed",
        "reason": "",
    }
    assert rows["p4"]["node"] == ""
    assert rows["p4"]["status"] == "unschedulable"
    assert rows["p4"]["reason"] == FULL
    (unplaced,) = next(one for one in document["workloads"] if one["workload"] == "pod/p4")["withoutNode"]
    assert unplaced["rejections"] == [
        {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Too many pods"], "nodes": 2}
    ]
    summary = document["summary"]
    assert {key: summary[key] for key in ("nodes", "running", "placed", "unschedulable")} == {
        "nodes": 2,
        "running": 1,
        "placed": 3,
        "unschedulable": 1,
    }
    assert summary["reasons"] == {"Too many pods": 1}
    assert summary["skipped"] == {"finished": 1, "gated": 1}
    assert summary["use"][0] == {
        "resource": "cpu",
        "unit": "millicores",
        "requested": 4000,
        "allocatable": 8000,
        "percent": 50.0,
    }
    assert [zone["name"] for zone in summary["zones"]] == ["z1", "z2"]


def test_namespace_only_chooses_rows(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    simulate("-f", dump, "-o", "json")
    everything = json.loads(capsys.readouterr().out)
    simulate("-f", dump, "-o", "json", "-n", "other")
    one = json.loads(capsys.readouterr().out)
    assert one["pods"] == [row for row in everything["pods"] if row["namespace"] == "other"]
    assert one["summary"] == everything["summary"]


def test_summary_leaves_out_the_rows(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    simulate("-f", dump, "--summary")
    assert capsys.readouterr().out == f"{TABLE.partition(chr(10))[0]}\n\n{TABLE.split(chr(10) * 2, 3)[3]}"
    simulate("-f", dump, "--summary", "-o", "json")
    fields = ["apiVersion", "kind", "evictions", "restsOn", "summary"]
    fields += ["release", "newPods", "leftOut", "warnings"]
    assert list(json.loads(capsys.readouterr().out)) == fields


def test_pods_of_a_workload_are_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a Deployment whose ReplicaSet is not listed, of one whose ReplicaSet is, and of a CronJob."""
    (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "items": workload_items()}))
    assert simulate("-f", str(tmp_path / "dump.json"), "-o", "json") == 0
    made = {one["workload"]: one for one in json.loads(capsys.readouterr().out)["workloads"]}
    assert {name: (one["pods"], one["placed"]) for name, one in made.items()} == {
        "deployment/web": (4, 2),
        "deployment/api": (1, 0),
        "cronjob/nightly": (1, 0),
    }
    assert made["deployment/web"]["alreadyBound"] == 1
    assert [one["pods"] for one in made["deployment/web"]["withoutNode"]] == [1]


def workload_items() -> list[dict[str, Any]]:
    def owned(name: str, kind: str, owner: str, **spec: Any) -> dict[str, Any]:
        made = pod(name, **spec)
        made["metadata"]["ownerReferences"] = [{"kind": kind, "name": owner, "controller": True}]
        made["metadata"]["labels"] = {"pod-template-hash": "abc"} if kind == "ReplicaSet" else {}
        return made

    def owner(kind: str, name: str, of: dict[str, Any]) -> dict[str, Any]:
        meta = {"name": name, "namespace": "default", "ownerReferences": [of | {"controller": True}]}
        template = {"spec": {"containers": [{"name": "c"}]}, "metadata": {"labels": {"x": "y"}}}
        spec = {"template": template, "replicas": 1, "selector": {"matchLabels": {"x": "y"}}}
        spec = spec if kind == "ReplicaSet" else {"template": template, "parallelism": 1, "completions": 1}
        return {"kind": kind, "metadata": meta, "spec": spec}

    web = [
        owned(f"web-abc-{at}", "ReplicaSet", "web-abc", **({"nodeName": "a"} if not at else {}))
        for at in range(4)
    ]
    api = owned("api-1", "ReplicaSet", "api-set")
    night = owned("nightly-1-x", "Job", "nightly-1")
    owners = [
        owner("ReplicaSet", "api-set", {"kind": "Deployment", "name": "api"}),
        owner("Job", "nightly-1", {"kind": "CronJob", "name": "nightly"}),
    ]
    return [
        node("a", "z1"),
        node("b", "z2") | {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "1"}}},
        *web,
        api,
        night,
        *owners,
    ]


def test_a_synthetic_cluster_has_the_sizes_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--synthetic", "nodes=6,pods=9,zones=2", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["pods"]) == 9
    assert [(zone["name"], zone["nodes"]) for zone in document["summary"]["zones"]] == [
        ("zone-0", 3),
        ("zone-1", 3),
    ]


def test_parity_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for option in ([], ["--tie-break", "go-heap"], ["--tie-break", "first"]):
        assert simulate("--synthetic", "nodes=9,pods=40,zones=3", "-o", "json", *option) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


@pytest.mark.parametrize("tie_break", ["first", "random", "go-heap"])
def test_settings_reach_the_scheduler(tie_break: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    real = Scheduler

    def spy(cluster: Any, **settings: Any) -> Any:
        seen.update(settings)
        return real(cluster, **settings)

    monkeypatch.setattr("moorage.cli.runs.beginning.Scheduler", spy)
    options = ["--tie-break", tie_break, "--seed", "7", "--percentage-of-nodes-to-score", "30"]
    assert simulate("--synthetic", "nodes=3,pods=1", *options) == 0
    given = {"tie_break": tie_break, "seed": 7, "percentage_of_nodes_to_score": 30}
    of_release = {"feature_gates": DEFAULT_GATES}
    times = {"pod_times": PodTimes()}
    assert seen == given | of_release | times | {"config": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "/no/such/file.yaml"], "/no/such/file.yaml: "),
        ([], "give the cluster with -f or --kubeconfig"),
        (["-f", "x", "--synthetic", "nodes=1"], "--synthetic cannot be combined with -f or --kubeconfig"),
        (["--synthetic", "nodes=many"], "--synthetic: nodes: must be a whole number below 10^9, not 'many'"),
        (
            ["--synthetic", "nodes=" + "9" * 5000],
            "--synthetic: nodes: must be a whole number below 10^9, not '999",
        ),
        (["--synthetic", "racks=3"], "--synthetic: 'racks': must be nodes, pods or zones"),
        (["--synthetic", "nodes=1,zones=0"], "synthetic: zones: must be at least 1, not 0"),
        (["--percentage-of-nodes-to-score", "101"], "Invalid value for '--percentage-of-nodes-to-score'"),
        (["-o", "xml"], "Invalid value for '-o' / '--output'"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_an_error_of_several_lines_becomes_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import moorage.objects
    from moorage.errors import InputError

    def load(*paths: str, **rest: Any) -> None:
        raise InputError("two\nlines", source=paths[0], obj="Pod a/b", path="spec.x")

    monkeypatch.setattr(moorage.objects, "load", load)
    assert simulate("-f", "f.yaml") == 2
    assert capsys.readouterr().err == "error: f.yaml: Pod a/b: spec.x: two lines\n"


def test_an_interrupt_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import moorage.objects

    def load(*paths: str, **rest: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moorage.objects, "load", load)
    assert simulate("-f", "f.yaml") == 130


def test_warnings_go_to_stderr(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import moorage.objects

    real = moorage.objects.load

    def load(*paths: str, **rest: Any) -> Any:
        cluster = real(*paths, **rest)
        cluster.warnings.append("something\nodd")
        return cluster

    monkeypatch.setattr(moorage.objects, "load", load)
    assert simulate("-f", dump) == 0
    out, err = capsys.readouterr()
    assert "warning: something odd\n" in err
    assert "odd" not in out


BOTH = """
import sys
from moorage.cli import main
sys.exit(main(["simulate", "-f", sys.argv[1]])
         or main(["simulate", "--synthetic", "nodes=40,pods=90", "-o", "json"])
         or main(["explain", "p4", "-f", sys.argv[1], "-o", "json"]) - 1)
"""


def test_stdout_is_the_same_bytes_every_time(dump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = set()
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        command = [sys.executable, "-c", BOTH, dump]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert (shown := outputs.pop()).startswith(f"{TABLE}{{")
    assert "2 Too many pods" in shown.splitlines()[-1] + shown.split(TABLE)[1]


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "moorage", "simulate", "--synthetic", "nodes=50,pods=4000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 0
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


def test_tables_on_a_terminal(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert simulate("-f", dump) == 0
    assert capsys.readouterr().out == TABLE
    monkeypatch.setenv("COLUMNS", "70")
    assert simulate("-f", dump) == 0
    out = capsys.readouterr().out
    assert SHORT not in out
    assert SHORT in " ".join(out.split())


def test_groups_get_their_nodes_all_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def group(name: str, minimum: int) -> dict[str, Any]:
        return {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
        }

    def members(of: str, count: int) -> list[dict[str, Any]]:
        return [pod(f"{of}{number}", schedulingGroup={"podGroupName": of}) for number in range(count)]

    items = [
        node("a", "z1"),
        group("g", 3),
        *members("g", 3),
        group("h", 2),
        *members("h", 2),
        *members("few", 1),
    ]
    file = tmp_path / "gangs.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    gates = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
    assert main(["simulate", "-f", str(file), "-o", "json", *gates]) == 0
    rows = {row["pod"]: row for row in json.loads(capsys.readouterr().out)["pods"]}
    assert [rows[f"h{number}"]["status"] for number in range(2)] == ["placed", "placed"]
    ended = "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
    of_g = [rows[f"g{number}"] for number in range(3)]
    assert {row["status"] for row in of_g} == {"unschedulable"}
    assert [row["reason"] for row in of_g] == ["0/1 nodes are available: 1 Too many pods.", ended, ended]
    few = 'GangScheduling: waiting for pods\'s pod group "few" to appear in scheduling queue'
    assert rows["few0"]["reason"] == few
    assert main(["simulate", "-f", str(file), "-o", "json"]) == 0
    rows = {row["pod"]: row for row in json.loads(capsys.readouterr().out)["pods"]}
    assert sum(row["status"] == "placed" for row in rows.values()) == 2


@pytest.mark.parametrize("bound", [True, False])
def test_restarts_of_all_workloads_have_rows(
    bound: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    items = [node, workload]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    if bound:
        scheduler = Scheduler(load(path))
        scheduler.run()
        items += [object_to_dict(one) for one in scheduler.client.list(Pod)[0]]
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["simulate", "-f", str(path), "--restart-all", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["workloads"]
    assert (row["workload"], row["pods"], row["alreadyBound"], row["placed"]) == ("deployment/web", 2, 0, 2)
    assert [one["status"] for one in found["pods"]] == ["placed", "placed"]
    assert (found["summary"]["running"], found["summary"]["placed"]) == (0, 2)


def test_bound_pods_are_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    items = [node("a", "z1"), pod("old", nodeName="a"), pod("other", "shop", nodeName="a"), pod("new")]
    path.write_text(json.dumps({"kind": "List", "items": items}))
    run = ["simulate", "-f", str(path), "-o", "csv"]
    rows = {}
    for options in ("", "--bound", "--bound -n shop", "--bound -l a=b", "--bound --drain a"):
        assert main([*run, *options.split()]) == 0
        cells = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
        rows[options] = sorted((row[1], row[3], row[4]) for row in cells)
    (new,) = rows[""]
    old, other = ("old", "bound", "a"), ("other", "bound", "a")
    assert rows["--bound"] == [new, old, other]
    assert rows["--bound -n shop"] == [other]
    assert rows["--bound -l a=b"] == []
    assert [row[1] for row in rows["--bound --drain a"] if row[0] == "old"] == ["kept"]
    assert main(["simulate", "-f", str(path), "--bound"]) == 2
    assert capsys.readouterr().err == "error: --bound needs -o wide or -o csv\n"

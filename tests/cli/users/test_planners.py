"""What planners do with a dump of a cluster and with manifests, in their words."""

from __future__ import annotations

import csv
import json
import tarfile
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.house.source import ROOT

import moorage as mo
from moorage.cli import main
from moorage.objects import Pod
from moorage.tables import Tabular

USERS = ROOT / "tests/data/users"
DUMP = ("-f", str(USERS / "dump.json.gz"))
NODE = "ip-10-0-{}.eu-west-1.compute.internal".format
ZONES = ("1-28", "1-29", "2-30")  # a node in each zone


def put(*names: str) -> list[str]:
    """The dump with manifests over it."""
    return [*DUMP, *(part for name in names for part in ("-f", str(USERS / name)))]


NINE = {"resources": {"requests": {"cpu": 9}}}
NOT_MADE = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bad}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {priorityClassName: nope, containers: [{name: c}]}}
---
{apiVersion: example.com/v1, kind: Database, metadata: {name: d}, spec: {replicas: 3}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {a: c}}
  template:
    metadata: {labels: {a: c}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 9}}}]}
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command, and returns its exit code, what it prints, and what it says."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize(
    ("file", "pod", "node"),
    [("vol3.yaml", "pg-0", "n1"), ("vol3.yaml", "pg-1", "n1"), ("vol.yaml", "db", "n2")],
)
def test_1_explain_and_simulate_say_the_same(run: Any, file: str, pod: str, node: str) -> None:
    """Claims that a run binds first, local volumes, and a pod that a StatefulSet makes during the run."""
    _, simulated, _ = run("simulate", "-f", str(USERS / file), "-o", "csv")
    assert f"default,{pod}," in simulated
    assert f",placed,{node}," in next(line for line in simulated.splitlines() if f",{pod}," in line)
    code, explained, _ = run("explain", pod, "-f", str(USERS / file))
    assert (code, f"simulate places it on {node}" in explained) == (0, True)


def test_2_a_changed_template_is_rolled_out(run: Any) -> None:
    """The template has grown from 2 to 3.5 cpu; two of the new pods replace old ones, and do not fit."""
    code, said, _ = run("check", "-f", str(ROOT / "tests/data/changed_deployment.json"))
    assert code == 1
    assert "deployment/svc-00" in said


def test_3_a_run_that_is_rolled_back_leaves_nothing() -> None:
    sched = mo.Scheduler(mo.load(USERS / "dump.json.gz", USERS / "web.yaml"))
    before = sched.table.requested["cpu"].copy()
    with sched.transaction():
        first = dict(sched.run().placements)
    assert (sched.table.requested["cpu"] == before).all()
    assert dict(sched.run().placements) == first
    pods: list[Pod] = sched.client.list(Pod)[0]
    used = dict.fromkeys(sched.table.names, 0)
    for pod in pods:
        if pod.spec.node_name:
            cpu = pod.spec.containers[0].resources.requests["cpu"]
            used[pod.spec.node_name] += mo.objects.parse_milli(cpu)
    known = dict(zip(sched.table.names, sched.table.requested["cpu"].tolist(), strict=False))
    assert used == {name: known[name] for name in used}


OTHER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: x}]
"""


def test_4_the_gate_fails_where_nobody_would_place_a_pod(run: Any, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(OTHER)
    code, said, warned = run("check", *put("web.yaml"), "--config", str(tmp_path / "other.yaml"))
    assert (code, said.splitlines()[0]) == (1, "FAIL: 12 pods have no node")
    assert "12 pods ask for the scheduler default-scheduler, which is not one of the profiles" in warned
    code, said, _ = run("check", *put("gated.yaml"))
    assert (code, "waiting for scheduling gates: [example.com/wait]" in said) == (1, True)
    assert "no profile for the scheduler volcano" in said
    assert run("check", *put("gated.yaml"), "--allow", "gated,other-scheduler")[0] == 0


def test_5_typos_are_named(run: Any) -> None:
    code, said, error = run("check", *put("typo.yaml"))
    assert (code, said, error.count("\n")) == (2, "", 1)
    assert 'unknown field "spec.template.spec.nodeSelektor"' in error
    code, _, warned = run("check", *put("typo.yaml"), "--validate", "warn")
    assert 'unknown field "spec.template.spec.containers[0].resources.request"' in warned


def test_6_a_running_pod_with_claims_blocks_nothing(run: Any) -> None:
    code, said, _ = run("simulate", *put("dra_running.yaml"))
    assert (code, "already bound  40" in said) == (0, True)


def test_7_how_many_fit(run: Any) -> None:
    code, said, _ = run("capacity", *DUMP, "--pod", str(USERS / "web.yaml"), "-o", "json")
    found = json.loads(said)
    _, simulated, _ = run("simulate", *put("web.yaml"), "-o", "name")
    assert (code, found["templates"][0]["count"]) == (0, len(simulated.splitlines()))


@pytest.mark.parametrize(
    ("changes", "code", "first"),
    [
        ([f"--add-nodes={NODE(name)}=1" for name in ZONES], 0, "PASS: 12 pods have found a node"),
        (["--remove-nodes", "zone=eu-west-1c", "--scale", "deploy/shop/web=5"], 1, "FAIL: "),
        (["--scale", "deploy/shop/web=5"], 0, "PASS: 5 pods have found a node"),
        (["--cordon", NODE("1-28"), "--scale", "deploy/shop/web=5"], 1, "FAIL: "),
        (["--taint", NODE("1-28"), "a=b:NoSchedule", "--scale", "deploy/shop/web=5"], 1, "FAIL: "),
        (["--drain", NODE("0-10"), "--scale", "deploy/shop/web=1"], 0, "PASS: "),
    ],
)
def test_8_what_if(run: Any, changes: list[str], code: int, first: str) -> None:
    got, said, _ = run("check", *put("web.yaml"), *changes)
    assert (got, said.splitlines()[0].startswith(first)) == (code, True), said


def test_9_a_later_file_replaces(run: Any) -> None:
    """Identical duplicates are harmless."""
    _, once, _ = run("simulate", *put("web.yaml"), "-o", "csv")
    code, twice, _ = run("simulate", *DUMP, *put("web.yaml", "web.yaml"), "-o", "csv")
    assert (code, twice) == (0, once)
    assert run("check", *put("web.yaml"), "-f", str(USERS / "vol3.yaml"))[0] == 1


def test_10_the_choice_among_ties_is_that_of_kube_scheduler(run: Any) -> None:
    made = [
        run("simulate", "--synthetic", "nodes=30,pods=90", "-o", "csv", *options)[1]
        for options in ([], ["--tie-break", "go-heap"], ["--tie-break", "first"])
    ]
    assert made[0] == made[1] != made[2]


def test_11_evicted_pods_come_back_and_are_told(run: Any) -> None:
    code, said, _ = run("check", *put("prio.yaml"))
    assert (code, said.splitlines()[0]) == (0, "PASS: 7 pods have found a node")
    code, said, _ = run(
        "check", *put("prio.yaml"), "--cordon", "zone=eu-west-1a", "--cordon", "zone=eu-west-1c"
    )
    assert code == 1


def test_12_explain_counts_other_pending_pods(run: Any) -> None:
    """As simulate does; `--alone` ignores them."""
    code, said, _ = run("explain", "deployment/web", "-n", "shop", *put("web.yaml"))
    assert (code, "fits 0 of 7 nodes" in said, "5 placed before it" in said) == (1, True, True)
    pod = next(line.split(":")[0] for line in said.splitlines() if line.startswith("shop/web-"))
    assert run("explain", pod, "--alone", *put("web.yaml"))[0] == 0


def test_13_workloads_and_all_pending_pods_are_explained(run: Any) -> None:
    code, said, _ = run("explain", "--all-pending", *put("web.yaml", "gated.yaml"))
    assert code == 1
    assert "deployment/web in namespace shop: 7 pods without a node; one of them is" in said
    assert "example.com/wait" in run("explain", "shop/gated", *put("gated.yaml"))[1]
    named = [
        run("explain", *target, *put("web.yaml"))
        for target in (("deploy/web", "-n", "shop"), ("deploy/shop/web",))
    ]
    assert named[0] == named[1]
    assert named[0][0] == 1
    code, _, said = run("explain", "deploy/shop/web", "-n", "data", *put("web.yaml"))
    assert (code, said) == (2, "error: TARGET: deploy/shop/web: names another namespace than -n data\n")


def test_pods_that_nobody_makes_are_told(run: Any, tmp_path: Path) -> None:
    """Refused ones, those that wait for others of their StatefulSet, and those of kinds that are unknown."""
    (tmp_path / "f.yaml").write_text(NOT_MADE)
    file = "-f", str(tmp_path / "f.yaml")
    code, said, _ = run("check", *file, "-o", "json")
    found = {(one["workload"], one["status"]): one["pods"] for one in json.loads(said)["findings"]}
    wanted = {("statefulset/db", "unschedulable"): 1, ("statefulset/db", "waiting"): 2}
    assert found == wanted | {("deployment/bad", "refused"): 2, ("database.example.com/d", "skipped-kind"): 3}
    code, said, _ = run("explain", "--all-pending", *file)
    assert (code, "default/db-0: fits 0 of 1 nodes" in said) == (1, True)
    assert "statefulset/db: 2 waiting: waits until the pods before it are available" in said
    change: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
    template = {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": [{"name": "c"} | NINE]}}
    selector = {"matchLabels": {"a": "c"}}
    change["spec"] = {"replicas": 5, "selector": selector, "template": template}
    (tmp_path / "change.json").write_text(json.dumps(change))
    allow = "--new-only", "--allow", "skipped-kind", "-o", "json"
    _, said, _ = run("check", *file, "-f", str(tmp_path / "change.json"), *allow)
    counted = [one for one in json.loads(said)["findings"] if one["counts"] and one["status"] == "waiting"]
    assert [one["names"] for one in counted] == [["db-3", "db-4"]]  # the others waited before
    code, said, _ = run("explain", "deployment/bad", *file)
    assert (code, said.startswith("deployment/bad: 2 refused: pods ")) == (1, True)


def test_14_directories_and_archives(run: Any, tmp_path: Path) -> None:
    inner = tmp_path / "must-gather" / "cluster" / "shop"
    inner.mkdir(parents=True)
    (inner / "web.yaml").write_bytes((USERS / "web.yaml").read_bytes())
    (inner / "pods.json.gz").write_bytes((USERS / "dump.json.gz").read_bytes())
    (inner / "values.yaml").write_text("replicaCount: 3\n")
    assert run("check", "-f", str(tmp_path / "must-gather"))[0] == 2
    code, said, warned = run("check", "-R", "-f", str(tmp_path / "must-gather"))
    assert (code, said.splitlines()[0]) == (1, "FAIL: 7 pods have no node")
    assert warned.count("there are no objects in these files (1)") == 1
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "must-gather", "must-gather")
    code, again, _ = run("check", "-f", str(tmp_path / "all.tar.gz"))
    assert (code, again.split("\n\n", 1)[1]) == (1, said.split("\n\n", 1)[1])


def test_15_tables_to_pass_on(run: Any) -> None:
    for command in (
        ["simulate", *put("web.yaml")],
        ["check", *put("web.yaml")],
        ["compare", "as-is", "as-is", *DUMP],
    ):
        csv, markdown = (run(*command, "-o", form)[1] for form in ("csv", "markdown"))
        assert "," in csv.splitlines()[0]
        assert any(line.startswith("| --") for line in markdown.splitlines())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras.keys() == {
        "cli",
        "report",
        "lp",
        "kube",
        "ray",
        "rl",
        "docs",
        "test",
        "bench",
        "campaign",
        "lint",
        "mcp",
    }  # none is without use


def test_16_json_has_a_version_codes_and_the_whole_reason(run: Any) -> None:
    found = json.loads(run("simulate", *put("web.yaml"), "-o", "json")[1])
    assert found["apiVersion"].startswith("simulate.moorage")
    (web,) = found["workloads"]
    assert (web["workload"], web["placed"], web["pods"]) == ("deployment/web", 5, 12)
    (failed,) = web["withoutNode"]
    assert (failed["pods"], "preemption: 0/7 nodes are available" in failed["reason"]) == (7, True)
    assert {one["plugin"] for one in failed["rejections"]} >= {"NodeResourcesFit", "TaintToleration"}
    assert all(one["code"] for one in failed["rejections"])


def test_17_comparisons(run: Any) -> None:
    alternatives = ["as-is", f"cordon {NODE('1-28')}"]
    code, said, _ = run("compare", *alternatives, *put("web.yaml"), "-o", "json")
    assert (code, [one["measures"]["placed"] for one in json.loads(said)["alternatives"]]) == (0, [5, 2])
    code, packed, _ = run("compare", *alternatives, *DUMP, "--from-scratch")
    assert (code, packed != run("compare", *alternatives, *DUMP)[1]) == (0, True)


def test_18_branches_are_whole_schedulers() -> None:
    sched = mo.Scheduler(mo.load(USERS / "dump.json.gz", USERS / "web.yaml"))
    branch = sched.fork()
    for name in ZONES:
        branch.add_nodes(1, NODE(name))
    assert len(branch.run().placements) == 12
    with sched.transaction():
        sched.drain(NODE("0-10"))
        sched.run()
    assert len(sched.run().placements) == 5
    assert len(sched.diff(branch).nodes_added) == 3


SWEEP = """
apiVersion: sweep.moorage.dev/v1
kind: Sweep
spec:
  seeds: [1, 2]
  measures: [gpu_allocation]
  replay: {onFailure: drop}
  timelines:
    openb: {files: [nodes.csv, pods.csv], format: openb, options: {seed: $seed, demand: 1.3}}
  configurations:
    default: {}
    FGD:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: KubeSchedulerConfiguration
      percentageOfNodesToScore: 100
      profiles:
      - plugins:
          multiPoint:
            disabled: [{name: "*"}]
            enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: GpuShare}, {name: DefaultBinder}]
          score: {disabled: [{name: "*"}], enabled: [{name: FGD, weight: 1000}]}
        pluginConfig:
        - {name: GpuShare, args: {gpuSelection: gradient, typicalPods: $typicalPods}}
"""


def test_19_a_trace_is_replayed_measured_and_swept(run: Any, tmp_path: Path) -> None:
    openb = ROOT / "tests/data/openb"
    trace = [str(openb / name) for name in ("nodes.csv", "pods.csv")]
    usage = ("--show", "usage", "--resource", "alibabacloud.com/gpu-milli", "-o", "csv")
    code, said, _ = run("replay", *trace, *usage)
    used = [int(row["requested"]) for row in csv.DictReader(said.splitlines())]
    assert code == 0
    assert {one < other for one, other in pairwise(used)} == {True, False}  # pods come and go
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    sweep = ("sweep", str(tmp_path / "sweep.yaml"), "--data", str(openb), "--executor", "serial", "-o", "csv")
    code, said, _ = run(*sweep)
    found = {(row.pop("configuration"), row["seed"]): row for row in csv.DictReader(said.splitlines())}
    assert code == 0
    assert found.keys() == {(name, seed) for name in ("default", "FGD") for seed in ("1", "2")}
    assert all(any("gpu_allocation" in name for name in row) for row in found.values())


def test_20_results_are_short_and_convert() -> None:
    cluster = mo.load(USERS / "dump.json.gz", USERS / "web.yaml")
    sched = mo.Scheduler(cluster)
    result, branch = sched.run(), sched.fork()
    branch.drain(NODE("0-10"))
    branch.run()
    pod = next(iter(result.unschedulable))
    web = next(each for each in mo.expanded(cluster).pods if each.name.startswith("web-"))
    found: list[Tabular] = [cluster, result, sched.explain(pod), branch.capacity(web), sched.diff(branch)]
    found += [sched.nodes_needed((web, 3), like=NODE("1-28")), sched.drain_plan(1), sched.defragment(nodes=1)]
    for one in found:
        assert len(repr(one).splitlines()) <= 40, type(one)
        assert one._repr_html_().startswith(("<p>", "<table"))
        assert one.to_arrow().__arrow_c_stream__() is not None
        assert json.dumps(one.to_dict())

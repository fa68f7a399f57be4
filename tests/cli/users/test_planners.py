"""What planners do with a dump of a cluster and with manifests, in their words."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.house.source import ROOT

import moorage as mo
from moorage.cli import main
from moorage.kube import Pod
from moorage.table import Tabular

USERS = ROOT / "tests/data/users"
DUMP = ("-f", str(USERS / "dump.json.gz"))
NODE = "ip-10-0-{}.eu-west-1.compute.internal".format


def put(*names: str) -> list[str]:
    """The dump with manifests over it."""
    return [*DUMP, *(part for name in names for part in ("-f", str(USERS / name)))]


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
def test_explain_and_simulate_say_the_same(run: Any, file: str, pod: str, node: str) -> None:
    """Claims that a run binds first, local volumes, and a pod that a StatefulSet makes during the run."""
    _, simulated, _ = run("simulate", "-f", str(USERS / file), "-o", "csv")
    assert f"default,{pod}," in simulated
    assert f",placed,{node}," in next(line for line in simulated.splitlines() if f",{pod}," in line)
    code, explained, _ = run("explain", pod, "-f", str(USERS / file))
    assert (code, f"simulate places it on {node}" in explained) == (0, True)


def test_a_run_that_is_rolled_back_leaves_nothing() -> None:
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
            used[pod.spec.node_name] += mo.kube.parse_milli(cpu)
    known = dict(zip(sched.table.names, sched.table.requested["cpu"].tolist(), strict=False))
    assert used == {name: known[name] for name in used}


def test_a_running_pod_with_claims_blocks_nothing(run: Any) -> None:
    code, said, _ = run("simulate", *put("dra_running.yaml"))
    assert (code, "already bound  40" in said) == (0, True)


def test_how_many_fit(run: Any) -> None:
    code, said, _ = run("capacity", *DUMP, "--pod", str(USERS / "web.yaml"), "-o", "json")
    found = json.loads(said)
    _, simulated, _ = run("simulate", *put("web.yaml"), "-o", "name")
    assert (code, found["templates"][0]["count"]) == (0, len(simulated.splitlines()))


def test_a_later_file_replaces(run: Any) -> None:
    """Identical duplicates are harmless."""
    _, once, _ = run("simulate", *put("web.yaml"), "-o", "csv")
    code, twice, _ = run("simulate", *DUMP, *put("web.yaml", "web.yaml"), "-o", "csv")
    assert (code, twice) == (0, once)
    assert run("check", *put("web.yaml"), "-f", str(USERS / "vol3.yaml"))[0] == 1


def test_directories_and_archives(run: Any, tmp_path: Path) -> None:
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


def test_json_has_a_version_codes_and_the_whole_reason(run: Any) -> None:
    found = json.loads(run("simulate", *put("web.yaml"), "-o", "json")[1])
    assert found["apiVersion"].startswith("simulate.moorage")
    (web,) = found["workloads"]
    assert (web["workload"], web["placed"], web["pods"]) == ("deployment/web", 5, 12)
    (failed,) = web["withoutNode"]
    assert (failed["pods"], "preemption: 0/7 nodes are available" in failed["reason"]) == (7, True)
    assert {one["plugin"] for one in failed["rejections"]} >= {"NodeResourcesFit", "TaintToleration"}
    assert all(one["code"] for one in failed["rejections"])


def test_results_are_short_and_convert() -> None:
    cluster = mo.load(USERS / "dump.json.gz", USERS / "web.yaml")
    sched = mo.Scheduler(cluster)
    result, branch = sched.run(), sched.fork()
    branch.change.drain(NODE("0-10"))
    branch.run()
    pod = next(iter(result.unschedulable))
    web = next(each for each in mo.expanded(cluster).pods if each.name.startswith("web-"))
    found: list[Tabular] = [
        cluster,
        result,
        sched.ask.explain(pod),
        branch.ask.capacity(web),
        sched.ask.diff(branch),
    ]
    found += [
        sched.ask.nodes_needed((web, 3), like=NODE("1-28")),
        sched.ask.drain_plan(1),
        sched.ask.defragment(nodes=1),
    ]
    for one in found:
        assert len(repr(one).splitlines()) <= 40, type(one)
        assert one._repr_html_().startswith(("<p>", "<table"))
        assert one.to_arrow().__arrow_c_stream__() is not None
        assert json.dumps(one.to_dict())

"""Results of plugins in kube-scheduler-simulator's annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from moorage.cli import main
from moorage.sim.result_annotations import PREFIX, AnnotatedRun, exported
from tests.core.make import node, pinned, pod
from tests.house.source import ROOT

DEMO = str(ROOT / "examples/demo.yaml")


def results(run: AnnotatedRun, pod: mo.Pod) -> dict[str, Any]:
    """The annotations of a pod without their prefix, decoded."""
    found = {key.removeprefix(PREFIX): value for key, value in run.annotations(pod).items()}
    return {key: value if key == "selected-node" else json.loads(value) for key, value in found.items()}


def ran(nodes: list[mo.Node], *pods: mo.Pod) -> AnnotatedRun:
    run = AnnotatedRun()
    run.over(mo.Scheduler(mo.Cluster(nodes=nodes, pods=list(pods)))).all()
    return run


@pytest.fixture(scope="module")
def demo() -> AnnotatedRun:
    run = AnnotatedRun()
    run.over(mo.Scheduler(mo.load(DEMO))).all()
    return run


def by_name(run: AnnotatedRun, name: str) -> mo.Pod:
    return next(one for one in run.scheduler.client.list(mo.Pod)[0] if one.name == name)


def test_placements_are_those_of_a_run_without(demo: AnnotatedRun) -> None:
    plain = mo.Scheduler(mo.load(DEMO)).run()
    assert dict(demo.loop.result.placements) == dict(plain.placements)
    assert {key: one.message for key, one in demo.loop.result.unschedulable.items()} == {
        key: one.message for key, one in plain.unschedulable.items()
    }


def test_a_pod_with_several_feasible_nodes(demo: AnnotatedRun) -> None:
    pod = by_name(demo, "pi-tgd6t")
    found = results(demo, pod)
    assert found["selected-node"] == demo.loop.result.placements[pod.key] == "worker-1"
    assert found["filter-result"]["master-1"] == {
        "NodeUnschedulable": "passed",
        "NodeName": "passed",
        "TaintToleration": "node(s) had untolerated taint(s)",
    }
    assert found["filter-result"]["node-1"]["NodeResourcesFit"] == "passed"
    scores, final = found["score-result"], found["finalscore-result"]
    assert scores.keys() == final.keys() == {"node-1", "worker-1"}
    assert scores["node-1"]["TaintToleration"] == "0"
    assert final["node-1"]["TaintToleration"] == "300"  # 100 after normalization, times the weight 3
    totals = {name: sum(map(int, of.values())) for name, of in final.items()}
    assert max(totals, key=lambda name: totals[name]) == "worker-1"
    assert found["bind-result"] == {"DefaultBinder": "success"}
    assert found["prefilter-result-status"]["NodePorts"] == ""  # it returned Skip
    assert found["prefilter-result-status"]["NodeResourcesFit"] == "success"
    (only,) = found["result-history"]
    assert only[f"{PREFIX}selected-node"] == "worker-1"


def test_a_pod_without_a_node(demo: AnnotatedRun) -> None:
    found = results(demo, by_name(demo, "gpu-rs-03-hc4qv"))
    assert found["selected-node"] == ""
    assert found["filter-result"]["node-1"]["NodeResourcesFit"] == "Insufficient memory"
    assert found["score-result"] == found["reserve-result"] == found["bind-result"] == {}


def test_each_attempt_is_in_the_history() -> None:
    low = pod("low", on="n", requests={"cpu": "3"}, priority=0)
    run = ran([node("n", cpu="4")], low, pod("high", requests={"cpu": "3"}, priority=10))
    found = results(run, by_name(run, "high"))
    first, last = found["result-history"]
    assert json.loads(first[f"{PREFIX}filter-result"])["n"]["NodeResourcesFit"] == "Insufficient cpu"
    assert first[f"{PREFIX}selected-node"] == ""
    assert last[f"{PREFIX}selected-node"] == found["selected-node"] == "n"
    assert found["postfilter-result"] == {"n": {"DefaultPreemption": "preemption victim"}}


def test_a_narrowed_search() -> None:
    run = ran([node("a"), node("b")], pod("p", affinity=pinned("b")))
    found = results(run, by_name(run, "p"))
    assert found["prefilter-result"] == {"NodeAffinity": ["b"]}
    assert found["selected-node"] == "b"


def test_an_export_is_read_again(demo: AnnotatedRun, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(exported(demo)))
    cluster = mo.load(str(path))
    assert {one.key: one.spec.node_name for one in cluster.pods if one.spec.node_name} == {
        one.key: one.spec.node_name for one in demo.scheduler.client.list(mo.Pod)[0] if one.spec.node_name
    }
    again = next(one for one in cluster.pods if one.name == "pi-tgd6t")
    assert again.metadata.annotations[f"{PREFIX}selected-node"] == "worker-1"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_simulate_writes_annotations_in_each_form(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", DEMO, "--annotate", "-o", form]) == 0
    out = capsys.readouterr().out
    assert f"{PREFIX}selected-node" in out
    assert out.lstrip().startswith("{" if form == "json" else "schedulerConfig")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "--annotate needs -o json or -o yaml"),
        (
            ("-o", "json", "--schedulers", "2"),
            "--annotate cannot be combined with --schedulers, --summary or --selector",
        ),
        (
            ("-o", "json", "--summary"),
            "--annotate cannot be combined with --schedulers, --summary or --selector",
        ),
    ],
)
def test_annotations_are_refused_with_options_that_contradict(
    options: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "-f", DEMO, "--annotate", *options]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert text in caught.err

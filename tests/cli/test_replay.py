"""``moorage replay``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.cli import main
from tests.house.source import ROOT

NODES, PODS = str(ROOT / "tests/data/openb/nodes.csv"), str(ROOT / "tests/data/openb/pods.csv")
A_LIST = [str(ROOT / "tests/data/scheduler_perf/excerpt/performance-config.yaml")]
SIMKUBE = str(ROOT / "tests/data/simkube/trace.json")
NO_NODE = "The input has no node, so no pod can have one; give the nodes of a cluster with -f"
RECORD = """\
{"requestObject":{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},\
"status":{"allocatable":{"cpu":"4","pods":"9"}}},"objectRef":{"resource":"nodes","name":"a"},HEAD00Z"}
{"requestObject":{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"},\
"status":{"allocatable":{"cpu":"8","pods":"9"}}},"objectRef":{"resource":"nodes","name":"b"},HEAD01Z"}
{"requestObject":POD,"objectRef":{"resource":"pods","namespace":"default","name":"x"},HEAD02Z"}
{"requestObject":{"target":{"kind":"Node","name":"NODE"}},\
"objectRef":{"resource":"pods","namespace":"default","name":"x","subresource":"binding"},HEAD03Z"}
not JSON
"""
HEAD = '"verb":"create","stage":"ResponseComplete","apiVersion":"audit.k8s.io/v1","kind":"Event",'
HEAD += '"responseStatus":{"code":201},"stageTimestamp":"2026-01-01T00:00:'
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}


def record(tmp_path: Path, node: str) -> list[str]:
    path = tmp_path / "audit.log"
    text = RECORD.replace("HEAD", HEAD).replace("POD", json.dumps(POD)).replace("NODE", node)
    path.write_text(text)
    return ["replay", str(path), "--format", "audit"]


def test_a_trace_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", NODES, PODS]) == 0
    out, err = capsys.readouterr()
    headline, *lines, basis = out.splitlines()
    assert headline == "300 of 302 pods got a node within 12902960 s; 2 ended without a node"
    assert basis == "rests on: Kubernetes 1.36"
    values = dict(line.split() for line in lines if line)
    assert (values["events"], values["pods"], values["placed"]) == ("604", "302", "300")
    assert err == ""
    assert main(["replay", NODES, PODS]) == 0
    assert capsys.readouterr().out == out


def test_a_trace_without_pods_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", NODES]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "The trace has no pod, so there is nothing to place" in err


def test_a_replay_to_high_demand_fills_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--option", "seed=42", "--option", "demand=1.3", "--on-failure", "drop"]
    shown = ["--show", "usage", "--resource", "alibabacloud.com/gpu-milli", "-o", "csv"]
    assert main(["replay", NODES, PODS, *options, *shown]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "time,group,requested,allocatable"
    _, _, requested, allocatable = lines[-1].split(",")
    assert 0.8 < int(requested) / int(allocatable) <= 1


def test_a_condition_and_a_cluster_of_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = str(ROOT / "tests/data/simkube/trace.json")
    nodes = tmp_path / "nodes.yaml"
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: big}\n"
    nodes.write_text(node + "status: {allocatable: {cpu: 9, memory: 9Gi, pods: 99}}\n")
    command = ["replay", trace, "--format", "simkube", "-f", str(nodes), "--until", "running >= 4"]
    assert main([*command, "--show", "pods", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["pods"]) == 6
    assert {one["node"] for one in document["pods"]} == {"big"}
    assert main([*command[:-1], "0.5"]) == 0
    assert "\npods            3\n" in capsys.readouterr().out


def test_a_record_is_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*record(tmp_path, "b"), "--verify"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "1 of 1 recorded bindings are decided alike"
    assert "warning: 1 lines left out: not an event of an audit log" in out.splitlines()
    assert main([*record(tmp_path, "a"), "--verify"]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "0 of 1 recorded bindings are decided alike"
    at = lines.index("first divergence at 3 s: default/x")
    assert lines[at + 1].startswith("  recorded: a: total ")
    assert lines[at + 2].startswith("  here: b: total ")


def test_a_history_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["replay", NODES, PODS, "--write", str(tmp_path / "out")]) == 0
    files = {path.stem: path for path in (tmp_path / "out").iterdir()}
    assert set(files) == {"decisions", "pods", "nodes", "cpu", "memory"}
    if files["pods"].suffix == ".csv":
        head, *lines = files["pods"].read_text().splitlines()
        assert head == "pod,node,created,bound,ended,pending,attempts,cause"
        assert len(lines) == 302
    (tmp_path / "file").write_text("")
    assert main(["replay", NODES, PODS, "--write", str(tmp_path / "file")]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([NODES, PODS, "-f", NODES], "-f: the trace has nodes itself"),
        (A_LIST, "performance-config.yaml: apiVersion: must be replay.moorage.dev/v1, not None"),
        ([NODES, "--option", "x"], '--option: must be NAME=VALUE, not "x"'),
        ([NODES, "--format", "x"], 'there is no format "x"'),
        ([NODES, PODS, "--until", "x"], 'until: "x" is not a condition'),
        ([SIMKUBE], NO_NODE),
        ([SIMKUBE, "--format", "simkube", "--verify"], NO_NODE),
        ([str(ROOT / "tests/data/traces/falco.log")], NO_NODE),
        ([SIMKUBE, "-f", str(ROOT / "tests/data/objects/pdb.json")], NO_NODE),
    ],
)
def test_bad_input_is_refused_with_its_reason(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["replay", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    [
        ("--until", "1h"),
        ("--on-failure", "drop"),
        ("--show", "pods"),
        ("--resource", "memory"),
        ("--by", "node"),
        ("--measure", "utilization"),
        ("--write", "history"),
    ],
)
def test_verify_refuses_what_concerns_a_history(
    given: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*record(tmp_path, "b"), "--verify", *given]) == 2
    assert f"--verify makes no history: leave out {given[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--resource", "memory"), "--show summary does not use --resource: leave it out"),
        (("--show", "pods", "--by", "node"), "--show pods does not use --by: leave it out"),
        (
            ("--show", "usage", "--measure", "utilization"),
            "--show usage does not use --measure: leave it out",
        ),
        (
            ("-o", "svg", "--measure", "utilization"),
            "-o svg shows no measures: leave out --measure",
        ),
    ],
)
def test_options_that_the_shown_part_has_no_place_for(
    given: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", NODES, PODS, *given]) == 2
    assert message in capsys.readouterr().err


def test_options_that_are_true_or_false_are_so(capsys: pytest.CaptureFixture[str]) -> None:
    """`false` is not a text, which would be true."""
    command, shown = ["replay", NODES, PODS, "--option", "seed=42", "--show", "nodes", "-o", "csv"], []
    for option in ([], ["--option", "shuffle_nodes=false"], ["--option", "shuffle_nodes=true"]):
        assert main([*command, *option]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize(
    ("folder", "told"),
    [(["--folder", "kept"], "saved in kept: the same command goes on"), ([], "lost: --folder keeps them")],
)
def test_an_interrupted_sweep_says_what_is_saved(
    folder: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, progress: Callable[[int, int], None], **__: object) -> None:
        progress(2, 4)
        raise KeyboardInterrupt

    monkeypatch.setattr("moorage.sim.sweep.sweep", stopped)
    assert main(["sweep", "tests/data/openb/sweep.yaml", *folder]) == 130
    assert capsys.readouterr().err.strip() == f"interrupted: 2 of 4 replays are done, and {told}"

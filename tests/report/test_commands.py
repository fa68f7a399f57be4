"""`-o html`: pages are views of the documents of `-o json`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from moorage.answers import comparison_page
from moorage.cli import main
from moorage.kube.releases import DEFAULT
from tests.house.source import ROOT

from .pages import COMMANDS, TRACE, Read

LIMIT = 1 << 20


pytestmark = pytest.mark.usefixtures("in_the_repository")


PRINTED: dict[tuple[str, ...], str] = {}
"""What commands have printed, each of which runs once."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def of(*command: str) -> str:
        if command not in PRINTED:
            assert main(list(command)) < 2, capsys.readouterr().err
            PRINTED[command] = capsys.readouterr().out
        return PRINTED[command]

    return of


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_small_and_has_the_same_bytes(name: str, run: Any) -> None:
    command = *COMMANDS[name], "-o", "html"
    text = run(*command)
    PRINTED.pop(command)
    assert text == run(*command)
    island = text.split('id="data">')[1].split("</script>")[0]
    assert len(text.encode()) - len(island) < LIMIT / 5


def test_the_page_of_simulate_has_the_figures_of_its_json(run: Any) -> None:
    found = Read(run(*COMMANDS["simulate"], "-o", "html"))
    document = json.loads(run(*COMMANDS["simulate"], "-o", "json"))
    summary = document["summary"]
    assert f"{summary['placed']} pods have found a node, {summary['unschedulable']} have none." in found.text
    rows = found.tables["Workloads, those with the most pods without a node first"][1:]
    wanted = {(one["namespace"], one["workload"], str(one["pods"])) for one in document["workloads"]}
    assert {(row[0], row[1], row[3]) for row in rows} == wanted
    use = {row[0]: row[3] for row in found.tables["Whole cluster"][1:]}
    assert use == {one["resource"]: f"{one['percent']:.1f} %" for one in summary["use"]}
    cells = found.data["b4-1"]
    assert cells["names"] == ["master-1", "worker-1", "node-1"]
    assert {one["name"] for one in cells["resources"]} == use.keys()


def test_pods_without_a_node_have_causes_and_what_helps(run: Any) -> None:
    found = Read(run(*COMMANDS["simulate"], "-o", "html"))
    part = found.text.split("Pods without a node (8)")[-1]
    assert "Insufficient memory, Insufficient cpu, node(s) had untolerated taint(s)" in part
    assert "6 pods: pai-gpu/replicaset/gpu-rs-03 (6)" in part
    helps = "lower the memory request of container main from 18Gi to 12800Mi (31 % less): fits 1 node"
    assert helps in part
    explained = run("explain", "replicaset/gpu-rs-03", "-n", "pai-gpu", "-f", "examples", "--after-run")
    assert "lower the memory request of container main from 18Gi to 12800Mi" in explained


def test_fewer_replicas_enable_no_nodes(run: Any, tmp_path: Path) -> None:
    card = {"containers": [{"name": "c", "resources": {"limits": {"example.com/card": "1"}}}]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": card}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    room = {"cpu": "4", "pods": "9", "example.com/card": "1"}
    objects: list[Any] = [
        {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": room}},
        {"kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec},
    ]
    file = tmp_path / "in.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    text = Read(run("simulate", "-f", str(file), "-o", "html")).text
    part = text.split("What would help")[1]
    assert "add a node like n1 (4 cpu, 0 memory): fits 1 node" in part
    assert "scale replicaset/x to 1: 1 of 2 fit as it is" in part
    assert "fits 0" not in part


def test_a_summary_has_reasons_and_no_pods(run: Any) -> None:
    found = Read(run(*COMMANDS["simulate"], "--summary", "-o", "html"))
    assert ["Insufficient memory", "8"] in found.tables["Reasons of the scheduler"]
    assert "Workloads" not in found.text


def test_the_page_of_capacity_has_the_figures_of_its_json(run: Any) -> None:
    found = Read(run(*COMMANDS["capacity"], "-o", "html"))
    (template,) = json.loads(run(*COMMANDS["capacity"], "-o", "json"))["templates"]
    assert f"{template['count']} of {template['name']} fit" in found.text
    rows = found.tables["Replicas by node, the most first"][1:]
    assert {row[1]: int(row[2]) for row in rows} == template["nodes"]
    name, *_ = found.data["b3-1"]["resources"]
    assert name["name"].startswith("replicas, in % of the most")
    assert max(name["percent"]) == 100
    limited = Read(run(*COMMANDS["capacity"], "--max-limit", "1", "-o", "html"))
    assert "limit of 1 reached" in limited.text


def test_the_page_of_compare_has_the_figures_of_its_json(run: Any) -> None:
    found = Read(run(*COMMANDS["compare"], "-o", "html"))
    document = json.loads(run(*COMMANDS["compare"], "-o", "json"))
    pods = {row[0]: row[1:] for row in found.tables["Pods that are not in the same place"][1:]}
    assert pods == {one["pod"]: one["places"] for one in document["differences"]}
    moved = sum(int(row[3]) for row in found.tables["Moves"][1:])
    assert moved == len(pods)
    measures = {row[0]: row[1:] for row in found.tables["Measures"][1:]}
    assert measures["cpu imbalance %"] == ["17.71", "16.88 (-0.83)"]
    same = Read(run("compare", "as-is", "as-is", "-f", "examples", "-o", "html"))
    assert "Every pod is in the same place." in same.text


def test_moves_are_differences_from_the_first() -> None:
    """A column that is empty is left out, and so are rows after the 500th."""
    places = [["n1", "n1", "n2", ""], *[["", "n1", "", ""]] * 500]
    differences = [SimpleNamespace(pod=f"a/{at}", places=each) for at, each in enumerate(places)]
    names = ["as-is", "same", "other", "gone"]
    document: Any = SimpleNamespace(
        alternatives=[SimpleNamespace(measures={})] * 4, differences=differences, releases=None
    )
    found = Read(comparison_page(document, names, ["501 pods are not in the same place"]).html())
    assert found.tables["Moves"][1:] == [
        ["same", "no such pod", "n1", "500"],
        ["gone", "n1", "no such pod", "1"],
        ["other", "n1", "n2", "1"],
    ]
    pods = found.tables["Pods that are not in the same place"]
    assert pods[:2] == [["pod", *names[:3]], ["a/0", "n1", "n1", "n2"]]
    assert len(pods) == 501
    assert "500 of 501 rows. -o csv has them all." in found.text


def test_the_page_of_explain_has_the_figures_of_its_json(run: Any) -> None:
    found = Read(run(*COMMANDS["explain"], "-o", "html"))
    items = json.loads(run(*COMMANDS["explain"], "-o", "json"))["items"]
    rows = found.tables["Explained pods"][1:]
    assert [(row[0], int(row[1])) for row in rows] == [
        ("deployment/default/nginx-deploy", len(items[0]["pods"])),
        ("replicaset/pai-gpu/gpu-rs-03", len(items[1]["pods"])),
    ]
    assert {"deployment/default/nginx-deploy", "replicaset/pai-gpu/gpu-rs-03"} <= found.headings
    assert [row[3] for row in rows] == [one["explanation"]["changes"][0]["text"] for one in items]
    one = Read(run("explain", "single-pod", "-f", "examples", "--node", "node-1", "-o", "html"))
    assert "pod/default/single-pod fits 1 of 3 nodes." in one.text
    assert one.title == "Explanation of pod/default/single-pod: examples"
    assert ["1", "master-1"] in [row[:2] for row in one.tables["The best nodes"]]
    assert one.tables["Verdicts of node node-1"]


def test_the_page_of_explain_has_a_table_of_devices(run: Any) -> None:
    files = ["cluster.yaml", "pods.yaml", "misfits.yaml"]
    gpu = [part for name in files for part in ("-f", f"examples/gpu/{name}")]
    found = Read(run("explain", "--all-pending", *gpu, "-o", "html"))
    assert any(name.startswith("Devices of claim") for name in found.tables)


def test_the_page_of_replay_has_the_figures_of_its_json(run: Any) -> None:
    found = Read(run(*COMMANDS["replay"], "-o", "html"))
    summary = json.loads(run(*COMMANDS["replay"], "-o", "json"))["summary"]
    assert f"{summary['placed']} of {summary['pods']} pods got a node" in found.text
    use, pods = found.data["b2-1"]
    running, waiting = pods["series"]
    assert (running["name"], waiting["name"]) == ("running", "waiting")
    assert max(running["values"]) == 5
    assert {"cpu", "memory"} <= {one["name"] for one in use["series"]}
    assert "Ended without a node: " in found.text
    assert [row[0] for row in found.tables["Pods that waited longest"][1:]] == [
        "default/openb-pod-5724",
        "default/openb-pod-2376",
    ]


def test_replay_by_a_label(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = "alibabacloud.com/gpu-card-model"
    found = Read(run(*COMMANDS["replay"], "--by", model, "-o", "html"))
    assert f"By pool (label {model})" in found.tables
    assert main([*COMMANDS["replay"], "--by", "nobody", "-o", "html"]) == 2
    assert "--by" in (error := capsys.readouterr().err)
    assert "no node has this label" in error


def test_dropped_pods_have_causes(run: Any) -> None:
    options = ["--option", "seed=42", "--option", "demand=1.3", "--on-failure", "drop"]
    found = Read(run(*COMMANDS["replay"], *options, "-o", "html"))
    assert "Dropped: Insufficient" in found.text
    assert "What would help" in found.text.split("Dropped: Insufficient")[1]


def test_the_page_of_a_verification_has_the_figures_of_its_json(run: Any) -> None:
    trace = ["replay", "tests/data/simkube/trace.json", "--format", "simkube", "-f", "examples", "--verify"]
    found = Read(run(*trace, "-o", "html"))
    document = json.loads(run(*trace, "-o", "json"))
    assert f"of {document['bindings']} recorded bindings are decided alike." in found.text


def test_the_page_of_sweep_has_the_figures_of_its_json(run: Any) -> None:
    found = Read(run(*COMMANDS["sweep"], "-o", "html"))
    document = json.loads(run(*COMMANDS["sweep"], "-o", "json"))
    names = [[row[at] for at in (0, 1, 2, 3)] for row in found.tables["Means over seeds"][1:]]
    wanted = [
        [one[key] for key in ("configuration", "timeline", "change", "measure")] for one in document["means"]
    ]
    assert names == wanted
    assert len(found.tables["Measures of each replay"]) == 1 + len(document["runs"])
    drawn = {(row["configuration"], row["measure"]): row["mean"] for row in found.data["b2-1"]}
    unsteady = [one for one in document["means"] if one["least"] < one["greatest"]]
    assert drawn == {(one["configuration"], one["measure"]): one["mean"] for one in unsteady}
    assert "No measure differs between the configurations." in found.text
    assert found.tables["Means side by side"][0] == ["measure", "default", "all nodes"]


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        (["capacity", "-f", "examples", "--pod", "tests/data/web_pod.yaml", "-o", "png"], "'png'"),
        ([*COMMANDS["compare"], "-o", "svg"], "'svg'"),
        ([*COMMANDS["explain"], "-o", "png"], "'png'"),
        ([*COMMANDS["simulate"], "--summary", "-o", "png"], "--summary does not write -o png"),
        (["replay", *TRACE, "--show", "pods", "-o", "html"], "--show"),
        (["replay", *TRACE, "--resource", "memory", "-o", "svg"], "--resource"),
        (["replay", *TRACE, "--by", "node", "-o", "html"], "--by"),
        (["replay", *TRACE, "--verify", "-o", "png"], "--verify does not write -o png"),
    ],
)
def test_what_a_form_has_no_place_for_is_refused(
    command: list[str], refused: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert (out, refused in err) == ("", True)


MADE = [
    ("simulate", ("--drain", "worker-1"), "Simulation: examples, drain worker-1"),
    ("capacity", (), "Capacity for default/small-pod: examples"),
    ("compare", (), "Comparison of as-is and drain worker-1: examples"),
    ("replay", (), "Replay: tests/data/openb/nodes.csv + tests/data/openb/pods.csv"),
    ("sweep", (), "Sweep: tests/data/openb/sweep.yaml"),
    ("check", ("--scale", "deployment/nginx-deploy=9"), "Check: examples, scale deployment/nginx-deploy=9"),
    ("nodes", ("--by", "workload"), "Nodes by workload: examples"),
    ("plan", (), "New nodes that pods need: examples"),
]


@pytest.mark.parametrize(("name", "more", "title"), MADE)
def test_a_page_says_what_it_is_about(name: str, more: tuple[str, ...], title: str, run: Any) -> None:
    found = Read(run(*COMMANDS[name], *more, "-o", "html"))
    assert found.title == title
    assert shlex.join(["moorage", *COMMANDS[name], *more, "-o", "html"]) in found.text
    assert name == "sweep" or f"Kubernetes {DEFAULT}" in found.text
    assert Read(run(*COMMANDS[name], "--title", "Mine", "-o", "html")).title == "Mine"


def test_warnings_stand_on_the_page_and_folders_do_not(run: Any, tmp_path: Path) -> None:
    (cluster := tmp_path / "cluster.yaml").write_text((ROOT / "examples/demo.yaml").read_text())
    (tmp_path / "empty.yaml").write_text("kind: Unknown\napiVersion: example.com/v1\nmetadata: {name: a}\n")
    page = run("simulate", "-f", str(cluster), "-f", str(tmp_path / "empty.yaml"), "-o", "html")
    found = Read(page)
    assert {"Warnings (1)", "Notes (1)"} <= found.headings
    assert "Unknown.example.com" in found.text
    assert "empty.yaml has nothing that moorage reads" in found.text
    assert found.title == "Simulation: cluster.yaml + empty.yaml"
    assert str(tmp_path) not in page
    compared = run("compare", "as-is", str(cluster), "-f", str(cluster), "-o", "html")
    assert str(tmp_path) not in compared
    (spaced := tmp_path / "my files").mkdir()
    (cluster := spaced / "shop.yaml").write_text((ROOT / "examples/shop/cluster.yaml").read_text())
    checked = run("check", "-f", str(cluster), "--scale", "deploy/shop/web=99", "-o", "html")
    assert (str(tmp_path) in checked, "my files" in checked) == (False, False)
    assert "explain deployment/shop/web -f 'shop.yaml' --scale deploy/shop/web=99" in Read(checked).text


def test_the_page_of_check_has_the_answer(run: Any) -> None:
    command = ["check", "-f", "examples/shop/cluster.yaml", "-f", "examples/shop/release/web.yaml"]
    found = Read(run(*command, "--survive", "node", "-o", "html"))
    document = json.loads(run(*command, "--survive", "node", "-o", "json"))
    assert "FAIL: 1 pod has no node" in found.text
    assert "why: moorage explain deployment/shop/web" in found.text
    (row,) = found.tables["Pods that fail or wait"][1:]
    assert row[:2] == ["shop", "deployment/web"]
    rows = found.tables["Losses that leave pods without a place"][1:]
    assert {name for row in rows for name in row[0].split(", ")} == {
        name for one in document["survival"]["losses"] for name in one["domains"]
    }
    assert "PASS: " in Read(run("check", "-f", "examples/shop/cluster.yaml", "-o", "html")).text


def test_a_page_of_many_nodes_and_pods_is_bounded(run: Any) -> None:
    found = run("simulate", "--synthetic", "nodes=1000,pods=3000,zones=3", "-o", "html")
    island = found.split('id="data">')[1].split("</script>")[0]
    assert len(found) < LIMIT / 2
    assert len(island) < 1000 * 60
    assert "500 of 3,000 rows." in Read(found).text


def test_a_name_with_markup_is_a_name(run: Any, tmp_path: Path) -> None:
    """The name of a file, which compare shows."""
    cluster = tmp_path / "<img src=x onerror=alert(1)>.yaml"
    cluster.write_text((ROOT / "examples/demo.yaml").read_text())
    found = run("compare", "as-is", str(cluster), "-f", "examples", "-o", "html")
    assert "<img" not in found
    assert "<img src=x onerror=alert(1)>.yaml" in Read(found).text

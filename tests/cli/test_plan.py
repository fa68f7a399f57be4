"""``moorage plan …``: each plan is that of the Python method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moorage
from moorage.cli import main
from tests.cli.test_check import owned
from tests.cli.test_simulate import node, pod
from tests.house.source import ROOT


@pytest.fixture
def dump(tmp_path: Path) -> str:
    items = [node("a", "z1"), node("b", "z2"), owned("p", "a"), owned("q", "b"), pod("x"), pod("y"), pod("z")]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


def document(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main(["plan", *command, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    for name in ("apiVersion", "kind", "release", "newPods", "leftOut", "warnings"):
        del made[name]
    return made


def test_plans_are_those_of_the_methods(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = moorage.Scheduler(moorage.load(dump))
    needed = document(capsys, "nodes", "-f", dump, "--like", "a")
    assert needed == scheduler.nodes_needed(like="a").to_dict()
    assert needed["nodes"] == 1
    one = moorage.load(dump).pods[-1]
    given = document(capsys, "nodes", "-f", dump, "--like", "a", "--pod", "pod/z=9")
    assert given == scheduler.nodes_needed((one, 9), like="a").to_dict()
    assert document(capsys, "drain", "-f", dump, "--count", "1") == scheduler.drain_plan(1).to_dict()
    assert document(capsys, "drain", "-f", dump, "a", "b") == scheduler.drain_plan(["a", "b"]).to_dict()
    assert document(capsys, "defragment", "-f", dump, "--nodes", "1") == scheduler.defragment(1).to_dict()
    assert document(capsys, "bound", "-f", dump) == scheduler.bound().to_dict()


def test_pending_pods_may_be_placed_first(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "drain", "-f", dump, "a")["status"] == "found"
    assert document(capsys, "drain", "-f", dump, "a", "--after-run")["status"] == "impossible"


def test_a_change_has_pending_pods_placed_first_unless_they_are_asked_about(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert document(capsys, "drain", "-f", dump, "a", "--label", "b", "k=v")["status"] == "impossible"
    asked = ("bound", "-f", dump, "--pod", "pod/z=9")
    assert document(capsys, *asked)["bound"] > document(capsys, *asked, "--label", "b", "k=v")["bound"]
    for command in (("bound", "-f", dump), ("nodes", "-f", dump, "--like", "a")):
        assert document(capsys, *command, "--label", "b", "k=v") == document(capsys, *command)


def test_new_nodes_may_be_like_a_manifest(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps(node("big", "z3")))
    assert document(capsys, "nodes", "-f", dump, "--like", str(path))["counts"] == {"big": 1}
    assert main(["plan", "nodes", "-f", dump, "--like", dump, "--pod", "pod/z=0"]) == 2


def test_the_table_has_the_answer_moves_and_nodes(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "drain", "-f", dump, "a"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("found: 1 node, 1 move\n\nPOD        SOURCE  TARGET\ndefault/p  a       b\n")
    assert "EMPTIED NODE\na\n" in out
    assert main(["plan", "defragment", "-f", dump, "--gpus", "1", "--resource", "cpu"]) == 0
    assert "NODE WITH FREE cpu\n" in capsys.readouterr().out
    assert main(["plan", "drain", "-f", dump, "a", "b"]) == 0
    assert "BLOCKED BY  NODE  REASON\ndefault/p   a " in capsys.readouterr().out
    assert main(["plan", "nodes", "-f", dump, "--like", "a", "-o", "csv"]) == 0
    assert capsys.readouterr().out == "template,nodes,packed\na,1,1\n"


def test_the_table_has_what_a_bound_relaxes_and_what_is_not_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gated = pod("g", schedulingGates=[{"name": "wait"}])
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), pod("x"), gated]}))
    assert main(["plan", "bound", "-f", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "at most 1 of 1 pods; placed: 1, gap: 0.0%",
        "not asked about: 1 pending pod (gated)",
        "relaxed: nodes of a pool share their free resources",
        "relaxed: parts of pods are placed",
    ]
    assert main(["plan", "nodes", "-f", str(path), "--like", "a"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert (first, second) == (
        "found: 0 nodes",
        "not asked about: 1 pending pod (gated)",
    )


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["nodes", "--like", "none"], '--like: there is no Node "none"'),
        (
            ["nodes", "--like", "a", "--pod", "deploy/web"],
            "--pod: deploy/web: no such file, and no Deployment",
        ),
        (["nodes", "--like", "n" * 300], '--like: there is no Node "nnn'),
        (["drain"], "give either nodes or --count"),
        (["drain", "a", "--count", "1"], "give either nodes or --count"),
        (["drain", "none"], 'NODE: there is no Node "none"'),
        (
            ["drain", "--count", "9"],
            "--count: the number of nodes to empty must be from 1 to 2, the number of schedulable nodes, "
            "not 9",
        ),
        (["drain", ""], "NODE|LABEL=VALUE: an argument is empty; give it a value, or leave it out"),
        (["drain", "--count", "x"], "'--count': must be a whole number of at least 1, not 'x'."),
        (["defragment"], "give either --nodes or --gpus"),
        (["defragment", "--nodes", "0"], "'--nodes': must be a whole number of at least 1, not '0'."),
        (["defragment", "--nodes", "9"], "--nodes: the number of nodes to empty must be from 1 to 2"),
        (["bound", "--pod", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_bad_options_are_one_line(
    dump: str, command: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *command, "-f", dump]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), text in err) == ("", 1, True), err


@pytest.mark.parametrize("words", [["nodes", "--like", "a"], ["bound"]])
def test_a_plan_for_pending_pods_says_that_there_is_none(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "tests/data/gang.yaml").read_text()
    (tmp_path / "nodes.yaml").write_text("---\n".join(text.split("---\n")[:2]))
    command = ["plan", *words, "-f", str(tmp_path / "nodes.yaml")]
    warning = "warning: No pod is pending, so the answer is about none; --pod asks about others.\n"
    assert main(command) == 0
    assert capsys.readouterr().err == warning
    web = str(ROOT / "tests/data/web_pod.yaml")
    for more in (["--pod", web], ["-f", web]):
        assert main([*command, *more]) == 0
        assert capsys.readouterr().err == ""


def test_a_plan_says_that_it_counts_the_pods_of_groups_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    gang = str(ROOT / "tests/data/gang.yaml")
    gates = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
    text = "bounds and packings count them one by one, without minimum and topology of a group."
    for words in (["nodes", "--like", "a"], ["bound"]):
        assert main(["plan", *words, "-f", gang, *gates]) == 0
        assert capsys.readouterr().err == f"warning: 4 pods belong to pod groups; {text}\n"
    command = ["plan", "bound", "-f", gang, "--pod", "pod/train-0=2"]
    assert main([*command, *gates]) == 0
    assert capsys.readouterr().err == f"warning: 2 pods belong to pod groups; {text}\n"
    for other in (command, ["plan", "drain", "b", "-f", gang, *gates]):
        assert main(other) == 0
        assert "one by one, without" not in capsys.readouterr().err


def test_a_template_that_is_no_node_says_what_to_write(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "nodes", "-f", dump, "--like", "m5.large"]) == 2
    told = capsys.readouterr().err
    assert 'error: --like: there is no Node "m5.large"; give a node of the cluster (a' in told
    assert "or a file with a Node manifest: its labels, taints and status.allocatable" in told
    path = tmp_path / "pool.yaml"
    spec = "{nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}, requirements: []}"
    pool = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: %s}}}"
    path.write_text(pool % spec)
    assert main(["plan", "nodes", "-f", dump, "--like", str(path)]) == 2
    assert "this file has no node; write a Node manifest, with the labels" in capsys.readouterr().err

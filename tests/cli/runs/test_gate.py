"""``moorage check --survive`` as a gate that stays on: only what a change made worse fails it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.cli.test_check import owned
from tests.cli.test_simulate import node, pod
from tests.house.source import ROOT

from moorage.cli import main

DATA = ROOT / "tests/data"
MASTERS = str(DATA / "etcd_quorum_guard.json")
"""Of six nodes, each of three has a pod of one workload that runs nowhere else, within its budget, and a
fourth has a pod without a controller."""


def written(tmp_path: Path, *items: dict[str, Any], name: str = "dump") -> list[str]:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return ["-f", str(path)]


def deployment(cpu: str = "100m") -> dict[str, Any]:
    container = {"name": "m", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "new"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "new"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": spec}


def losses(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    """The exit code, and of each row the workload and whether it counts."""
    code = main(["check", *arguments, "-o", "csv"])
    rows = [line.split(",", 9) for line in capsys.readouterr().out.replace('"no, ', '"no ').splitlines()[1:]]
    return code, sorted((row[5], row[7].strip('"')) for row in rows)


GUARD, BARE = "deployment/etcd-quorum-guard", "pod/redhat-operators-k6wwt"


@pytest.mark.parametrize(
    ("options", "code", "rows"),
    [
        ([], 1, [(GUARD, "yes")] * 3 + [(BARE, "yes")]),
        (["--new-only"], 0, [(GUARD, "no as before")] * 3 + [(BARE, "no as before")]),
        (["--allow", "evicted"], 1, [(GUARD, "yes")] * 3 + [(BARE, "no allowed")]),
        (["--within-budgets"], 1, [(BARE, "yes")]),
        (["--within-budgets", "--allow", "evicted"], 0, [(BARE, "no allowed")]),
        (["--survive-only", "openshift-marketplace"], 1, [(BARE, "yes")]),
        (["--survive-only", "k8s-app=etcd-quorum-guard"], 1, [(GUARD, "yes")] * 3),
        (["--survive-only", "default"], 0, []),
    ],
)
def test_a_real_cluster_that_was_never_perfect(
    options: list[str],
    code: int,
    rows: list[tuple[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change = written(tmp_path, deployment())
    assert losses(capsys, "-f", MASTERS, *change, "--survive", "node", *options) == (code, rows)


def test_the_loss_of_all_nodes_is_no_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(DATA / "archives/support-bundle.tar.xz")
    gate = ["-f", bundle, *written(tmp_path, deployment()), "--survive", "node"]
    code, rows = losses(capsys, *gate, "--new-only")
    assert (code, len(rows), {counts for _, counts in rows}) == (0, 5, {"no as before"})
    assert losses(capsys, *gate)[0] == 1


def test_a_loss_that_a_change_made_worse_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = written(tmp_path, node("a", "z1"), node("b", "z2"), owned("p", "a"))
    gate = [*dump, "--survive", "node", "--new-only"]
    assert losses(capsys, *gate, *written(tmp_path, deployment(), name="small")) == (0, [])
    large = written(tmp_path, deployment("3500m"), name="large")
    rows = [("deployment/new", "yes"), ("replicaset/web", "yes")]
    assert losses(capsys, *gate, *large) == (1, rows)


def test_what_was_compared_is_said_in_all_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = written(tmp_path, node("a", "z1"), node("b", "z2"), owned("p", "a"))
    change = written(tmp_path, deployment(), name="release")
    releases = ["--upgrade-from", "1.35", "--kubernetes-version", "1.37"]
    gate = ["check", *dump, *change, "--cordon", "b", *releases]
    changes, upgrade = f"changes: {change[1]}, --cordon b", "1.35 to 1.37: no pod loses its node"
    for form in ("table", "wide", "markdown", "github", "junit", "csv", "name"):
        assert main([*gate, "-o", form]) == 0
        out, err = capsys.readouterr()
        said = (err if form in ("csv", "name") else out).replace("\\_", "_")
        assert changes in said
        assert upgrade in said
        assert not (form == "csv" and upgrade in out)
    assert main([*gate, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["changes"] == [change[1], "--cordon b"]
    assert made["upgrade"] == {"from": "1.35", "to": "1.37", "lost": 0, "ended": []}
    assert main([*gate[:3], "--survive", "node", "--survive-only", "default", "-o", "junit"]) == 0
    text = capsys.readouterr().out.removeprefix('<?xml version="1.0" encoding="UTF-8"?>')
    properties = [one.get("value") for one in ElementTree.fromstring(text).iter("property")]
    assert properties == [
        "PASS: every pod finds a place after the loss of any node",
        "tried: each of 2 alone; for pods of default",
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--survive-only", "default"], "--survive-only needs --survive"),
        (["--within-budgets"], "--within-budgets needs --survive"),
        (
            ["--survive", "node", "--survive-only", "defalt"],
            '--survive-only: there is no Namespace "defalt"; nearest: default',
        ),
        (["--survive", "node", "--survive-only", "app=x"], '--survive-only: no pod has the labels "app=x"'),
    ],
)
def test_bad_options_are_one_line(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *written(tmp_path, node("a", "z1"), pod("p")), *options]) == 2
    assert capsys.readouterr().err == f"error: {text}\n"

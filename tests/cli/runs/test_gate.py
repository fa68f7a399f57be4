"""``moorage check --survive`` as a gate that stays on: only what a change made worse fails it. Small clusters
are in `tests/cases/cli/survive.md`."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from tests.house.source import ROOT
from tests.make import manifest, workload

from moorage.cli import main

MASTERS = str(ROOT / "tests/data/etcd_quorum_guard.json")
"""Of six nodes, each of three has a pod of one workload that runs nowhere else, within its budget, and a
fourth has a pod without a controller."""
BUNDLE = str(ROOT / "tests/data/archives/support-bundle.tar.xz")
GUARD, BARE = "deployment/etcd-quorum-guard", "pod/redhat-operators-k6wwt"


@pytest.fixture
def change(tmp_path: Path) -> list[str]:
    """A Deployment of one small pod."""
    deployment = manifest(workload("Deployment", "new", 1, {"cpu": "100m"}))
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "i"
    (tmp_path / "new.json").write_text(json.dumps(deployment))
    return ["-f", str(tmp_path / "new.json")]


def losses(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    """The exit code, and of each row the workload and whether it counts."""
    code = main(["check", *arguments, "--survive", "node", "-o", "csv"])
    rows = csv.DictReader(StringIO(capsys.readouterr().out))
    return code, sorted((row["workload"], row["counts"]) for row in rows)


@pytest.mark.parametrize(
    ("options", "code", "rows"),
    [
        ("", 1, [(GUARD, "yes")] * 3 + [(BARE, "yes")]),
        ("--new-only", 0, [(GUARD, "no, as before")] * 3 + [(BARE, "no, as before")]),
        ("--allow evicted", 1, [(GUARD, "yes")] * 3 + [(BARE, "no, allowed")]),
        ("--within-budgets", 1, [(BARE, "yes")]),
        ("--within-budgets --allow evicted", 0, [(BARE, "no, allowed")]),
        ("--survive-only openshift-marketplace", 1, [(BARE, "yes")]),
        ("--survive-only k8s-app=etcd-quorum-guard", 1, [(GUARD, "yes")] * 3),
        ("--survive-only default", 0, []),
    ],
)
def test_a_real_cluster_that_was_never_perfect(
    options: str,
    code: int,
    rows: list[tuple[str, str]],
    change: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert losses(capsys, "-f", MASTERS, *change, *options.split()) == (code, rows)


def test_the_loss_of_all_nodes_is_no_worse(change: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = losses(capsys, "-f", BUNDLE, *change, "--new-only")
    assert (code, len(rows), {counts for _, counts in rows}) == (0, 5, {"no, as before"})
    assert losses(capsys, "-f", BUNDLE, *change)[0] == 1


def test_what_was_compared_is_said_in_all_forms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    gate = ["check", "-f", "examples/shop/cluster.yaml", "--cordon", "old-a", "--upgrade-from", "1.35"]
    gate += ["--kubernetes-version", "1.37"]
    changes, upgrade = "changes: --cordon old-a", "1.35 to 1.37: no pod loses its node"
    for form in ("table", "wide", "markdown", "github", "junit", "csv", "name"):
        assert main([*gate, "-o", form]) == 0
        out, err = capsys.readouterr()
        said = (err if form in ("csv", "name") else out).replace("\\_", "_")
        assert (changes in said, upgrade in said) == (True, True)
        assert not (form == "csv" and upgrade in out)
    assert main([*gate, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changes"] == ["--cordon old-a"]
    assert document["upgrade"] == {"from": "1.35", "to": "1.37", "lost": 0, "ended": [], "touched": []}

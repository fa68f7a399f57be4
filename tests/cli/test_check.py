"""``moorage check``: what cases (`tests/cases/cli/check.md`, `applied.md`, `survive.md`) cannot show."""

from __future__ import annotations

import html
import json
import re
import shlex

import pytest

from moorage.cli import main

SHOP = "-f", "examples/shop/cluster.yaml"
RELEASE = *SHOP, "-f", "examples/shop/release/web.yaml"


pytestmark = pytest.mark.usefixtures("in_the_repository")


def test_what_is_left_out_stands_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With all warnings, so that a gate that reads JSON sees them."""
    assert main(["check", *SHOP, "-f", "tests/data/left_out.yaml", "-o", "json"]) == 1
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    named = {"group": "example.com", "kind": "Database", "namespace": "shop", "name": "orders"}
    why = "but moorage does not know whether Database.example.com makes pods"
    assert document["leftOut"] == [named | {"replicas": 3, "why": why}]
    assert [f"warning: {text}" for text in document["warnings"]] == printed.err.splitlines()
    assert any("CronJob shop/nightly" in text for text in document["warnings"])


def named_by(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The command that a failed check names."""
    assert main(["check", *words]) == 1
    (command,) = re.findall(r"why: `?(moorage [^`\"\n]*)", capsys.readouterr().out)
    return html.unescape(command)


def why(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The same; it is run, and explains why a pod has no node."""
    unescaped = named_by(*words, capsys=capsys)
    assert main(shlex.split(unescaped)[1:]) == 1
    assert "nodes are available" in capsys.readouterr().out
    return unescaped


@pytest.mark.parametrize("form", ["table", "wide", "markdown", "github", "junit"])
def test_a_failure_names_the_command_that_says_why(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = named_by(*RELEASE, "--new-only", "-o", form, capsys=capsys)
    assert named == f"moorage explain deployment/shop/web {' '.join(RELEASE)}"


def test_that_command_has_all_that_the_state_depends_on(capsys: pytest.CaptureFixture[str]) -> None:
    before = *RELEASE, "--ignore-siblings", "--kubernetes-version", "1.35", "--seed"
    after = "--cordon", "pool=old", "--label", "new-a", "x=y", "--restart-all", "--pod-times", "1", "2", "3"
    named = why(*before, "1", *after, "--seed", "2", "-q", "--allow", "gated", capsys=capsys)
    assert shlex.split(named)[3:] == [*before, "2", *after]


def test_after_a_loss_that_command_removes_the_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    named = why(*SHOP, "--scale", "deploy/shop/web=9", "--survive", "zone", capsys=capsys)
    assert named.startswith("moorage explain --all-pending -f ")
    assert re.search(r" --fail-zone [abc]$", named)


def test_what_was_compared_is_said_in_all_forms(capsys: pytest.CaptureFixture[str]) -> None:
    gate = ["check", *SHOP, "--cordon", "old-a", "--upgrade-from", "1.35"]
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

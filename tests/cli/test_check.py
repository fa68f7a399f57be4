"""``moorage check``: what cases (`tests/cases/cli/check.md`, `applied.md`, `survive.md`) cannot show."""

from __future__ import annotations

import html
import json
import re
import shlex

import pytest

from moorage.cli import main
from tests.house.source import ROOT

TRACES = ROOT / "tests/data/traces"
SHOP = "-f", "examples/shop/cluster.yaml"
RELEASE = *SHOP, "-f", "examples/shop/release/web.yaml"


pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("nasa.swf", "swf"),
        ("falco.log", "audit"),
        ("aks_wrapped.log", "audit"),
        ("bare-pods.sktrace", "simkube"),
        ("cluster_job_log", "philly"),
        ("cluster_machine_list", "philly"),
        ("../simkube/trace.json", "simkube"),
        ("../openb/nodes.csv", "openb"),
    ],
)
def test_the_command_that_reads_a_trace_is_named(
    name: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["-f", str(TRACES / "dump.json")]):
        assert main(["check", *more, "-f", str(TRACES / name)]) == 2
        assert capsys.readouterr().err.endswith(f"; moorage replay --format {form} reads it\n")


def test_events_alone_are_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-f", str(TRACES / "events.json")]) == 2
    hint = "to replay events as a trace, use moorage replay --format kubectl-events"
    assert hint in capsys.readouterr().err


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

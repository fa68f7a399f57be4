"""Nodes that come in commands, where the input has NodePools."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import moorage.cli
from moorage.cli import main

CLUSTER = ["-f", "examples/karpenter/cluster.yaml"]
TYPES = ["--instance-types", "examples/karpenter/instance_types.yaml"]


pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.fixture
def limited(tmp_path: Path) -> list[str]:
    """The example with less room below its limit."""
    path = tmp_path / "limited.yaml"
    path.write_text(Path(CLUSTER[1]).read_text().replace('limits: {cpu: "32"}', 'limits: {cpu: "12"}'))
    return ["-f", str(path)]


def test_a_row_says_that_karpenter_refuses(limited: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *limited, *TYPES, "--seeds", "2"]) == 1
    out = capsys.readouterr().out
    assert "draws: in 2 of 2 a pod waits\n" in out
    assert "Karpenter: all available instance types exceed limits for nodepool (NodePool=general)\n" in out


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_the_document_follows_its_schema(
    command: str, limited: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, *limited, *TYPES, "-o", "json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    schema = json.loads((Path(moorage.cli.__file__).parent / f"schemas/{command}.v1.json").read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
    made = document["newNodes"]
    assert made["karpenterVersion"] == "1.15.0"
    assert made["pricePerHour"] == pytest.approx(sum(one["pricePerHour"] for one in made["nodes"]))
    assert {one["refusedBy"] for one in made["waiting"]} == {"Karpenter"}


def test_simulate_names_the_new_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *CLUSTER, *TYPES]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "14 pods have found a node\n6 new nodes (6 m5.xlarge spot us-west-2a): 0.86 $/h more\n"
    )
    assert "general-1" in out
    assert "\nrests on: Kubernetes 1.36 by default; Karpenter" in out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            [*TYPES, "-f", "examples/demo.yaml"],
            "--instance-types has no effect with an input without a NodePool or node group",
        ),
        ([*CLUSTER, "--seeds", "2", "--no-autoscale"], "--seeds has no effect with --no-autoscale"),
    ],
)
def test_options_without_an_effect_are_errors(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["capacity", "--pod", "tests/data/web_pod.yaml"], ["plan", "drain", "first"]]
)
def test_other_questions_make_no_nodes_and_say_so(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command, *CLUSTER])
    text = f"NodePools make no new nodes for {command[0]}. With --autoscale they do."
    assert text in capsys.readouterr().out


def test_losses_are_asked_about_with_new_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(Path(CLUSTER[1]).read_text().replace('limits: {cpu: "32"}', "limits: {}"))
    asked = ["check", "-f", str(path), *TYPES, "--survive"]
    assert main([*asked, "node"]) == 1  # no other node has room
    assert main([*asked, "node", "--autoscale"]) == 0
    assert "each of 7 alone; nodes come after a loss" in capsys.readouterr().out
    assert main([*asked, "zone", "--autoscale"]) == 1  # the types are in this zone alone


def test_replicas_are_counted_on_nodes_that_come(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["capacity", *CLUSTER, "--pod", "deploy/web"]
    assert main([*asked, *TYPES, "--autoscale"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("14 of default/web fit\n")
    assert "first 8 new nodes (7 m5.xlarge spot us-west-2a, 1 m6i.large spot us-west-2a)" in out
    assert "No more nodes come: Karpenter: all available instance types exceed limits" in out
    assert main([*asked, *TYPES, "--autoscale", "--max-limit", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 of default/web fit\n")
    assert "No more nodes come: they were made for 3 pods (see --max-limit)." in out
    assert main([*asked, *TYPES]) == 2
    assert "--instance-types has no effect with this question without --autoscale" in capsys.readouterr().err


def test_nodes_come_before_others_are_drained(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "drain", *TYPES, "--force", "-f", "examples/karpenter/cluster.yaml"]
    assert main([*asked, "first", "--after-run", "--autoscale", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["source"] for one in document["moves"]} == {"first"}
    assert {one["target"].rpartition("-")[0] for one in document["moves"]} == {"general"}
    assert main([*asked, "--count", "1", "--autoscale"]) == 2
    assert "--autoscale needs the nodes that are drained" in capsys.readouterr().err


def test_a_pool_is_compared_as_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = (
        Path(CLUSTER[1]).read_text().partition("---")[0].replace("[m6i.large, m5.xlarge]", "[m6i.large]")
    )
    (tmp_path / "pool.yaml").write_text(changed.rstrip() + "\n  disruption: {consolidateAfter: 1h}\n")
    assert main(["compare", "as-is", str(tmp_path / "pool.yaml"), *CLUSTER, *TYPES, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "Karpenter 1.15.0 makes the new nodes, with types of instance_types.yaml." in document["warnings"]
    (told,) = (text for text in document["warnings"] if "The disruption of NodePool general differs" in text)
    assert "ask plan consolidate with each, or sweep over a replay" in told
    before, after = (one["measures"] for one in document["alternatives"])
    assert (before["new nodes"], before["new nodes $/h"], before["without a node"]) == (6, 0.8568, 0)
    assert (after["new nodes"], after["new nodes $/h"], after["without a node"]) == (5, 0.336, 2)


@pytest.fixture
def crowded(tmp_path: Path) -> list[str]:
    """The example with many workloads that no type is large enough for."""
    one = {"apiVersion": "apps/v1", "kind": "Deployment"}
    resources = {"requests": {"cpu": "20"}}
    items = [
        one
        | {"metadata": {"name": f"big-{at}", "namespace": "default"}}
        | {
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": f"big-{at}"}},
                "template": {
                    "metadata": {"labels": {"app": f"big-{at}"}},
                    "spec": {"containers": [{"name": "c", "image": "c", "resources": resources}]},
                },
            }
        }
        for at in range(20)
    ]
    (tmp_path / "big.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return [*CLUSTER, "-f", str(tmp_path / "big.json"), *TYPES]


@pytest.mark.parametrize("form", ["markdown", "github"])
def test_comments_stay_short(form: str, crowded: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *crowded, "-o", form]) == 1
    out = capsys.readouterr().out
    assert len(out.splitlines()) < 25
    assert "12 more" in out
    assert main(["compare", "as-is", "drain first", *crowded, "-o", form]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) < 25
    if form == "github":
        assert "::notice title=as-is::nodes 7, placed 14, without a node 20, evicted 0, new nodes 6" in out
        assert "nodes $/h 0.9528" in out
        assert out.count(" waits: Karpenter: no instance type has enough resources") == 8
        assert out.count("16 more wait, stay or are evicted") == 2
    else:
        assert "| nodes $/h | 0.9528 | 1.02 |" in out
        assert "imbalance" not in out


def test_releases_are_compared_without_new_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "kubernetes 1.35", "kubernetes 1.36", *CLUSTER]) == 0
    assert "NodePools make no new nodes for a comparison of releases." in capsys.readouterr().out
    assert main(["compare", "kubernetes 1.35", "kubernetes 1.36", *CLUSTER, *TYPES]) == 2


def test_a_plan_of_nodes_is_what_check_makes(limited: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads((Path(moorage.cli.__file__).parent / "schemas/plan.v1.json").read_text())
    for cluster in (limited, CLUSTER):
        main(["check", *cluster, *TYPES, "-o", "json"])
        made = json.loads(capsys.readouterr().out)["newNodes"]
        assert main(["plan", "nodes", *cluster, *TYPES, "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
        kinds = Counter((node["instanceType"], node["capacityType"]) for node in made["nodes"])
        named = {f"general.{kind}.{sold}.us-west-2a": count for (kind, sold), count in kinds.items()}
        assert {name: count for name, count in document["counts"].items() if count} == named
        assert document["pricePerHour"] == pytest.approx(made["pricePerHour"])
        assert document["unplaced"].keys() == {each["pod"] for each in made["waiting"]}
        assert document["status"] == ("not found" if made["waiting"] else "found")
        assert (document["lowerBound"], document["packed"]) == (None, None)


def test_nodes_of_the_cluster_have_the_prices_of_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    for prices in (TYPES, ["--price", "first=0.096"]):
        assert main(["plan", "nodes", *CLUSTER, "--like", "first", *prices, "-o", "csv"]) == 0
        capsys.readouterr()
    assert main(["plan", "nodes", *CLUSTER, "--price", "first"]) == 2
    assert "--price first: write NODE=PRICE" in capsys.readouterr().err
    assert main(["plan", "nodes", "-f", "examples/demo.yaml"]) == 2
    assert "name a node to copy, or give an input with NodePools, or node groups" in capsys.readouterr().err

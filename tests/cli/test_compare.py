"""``moorage compare``: configurations, clusters and changes side by side."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from moorage.cli import main
from tests.cli.test_simulate import node, pod
from tests.house.source import ROOT

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACK = """profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 1}]}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Two configurations, and two clusters: one with a bound pod and two pending, one with a larger pod."""
    pods = [pod("old", nodeName="a"), pod("p1"), pod("p2")]
    clusters = {"one": pods[:2], "two": [*pods[:2], pods[2]]}
    found = {}
    for name, listed in clusters.items():
        room = {"status": {"allocatable": {"cpu": "9", "memory": "9Gi", "pods": "9"}}}
        items = [*(node(host, "z1") | room for host in "ab"), *listed]
        found[name] = str(tmp_path / f"{name}.json")
        Path(found[name]).write_text(json.dumps({"kind": "List", "items": items}))
    for name, text in (("pack", PACK), ("spread", PACK.replace("Most", "Least"))):
        found[name] = str(tmp_path / f"{name}.yaml")
        Path(found[name]).write_text(HEAD + text)
    return found


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main(["compare", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_configurations_of_one_cluster_are_compared(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = files["spread"], files["pack"]
    made = compared(capsys, *names, "-f", files["one"])
    assert [one["name"] for one in made["alternatives"]] == list(names)
    assert made["differences"] == [{"pod": "default/p1", "places": ["b", "a"]}]
    spread, pack = (one["measures"] for one in made["alternatives"])
    assert (spread["nodes with pods"], pack["nodes with pods"]) == (2, 1)
    assert spread["cpu imbalance %"] == 0
    assert pack["cpu imbalance %"] == pytest.approx(11.11)


def test_two_clusters_of_one_configuration_are_compared(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = compared(capsys, files["one"], files["two"], "--config", files["pack"])
    assert [one["measures"]["placed"] for one in made["alternatives"]] == [1, 2]
    assert made["differences"] == [{"pod": "default/p2", "places": ["", "a"]}]


def test_the_cluster_as_it_is_is_compared_with_a_changed_one(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["as-is", "cordon b; add-nodes b=1", "-f", files["two"], "--config", files["spread"]]
    made = compared(capsys, *arguments)
    as_is, changed = (one["measures"] for one in made["alternatives"])
    assert (as_is["nodes"], changed["nodes"]) == (2, 3)
    assert all("b" not in row["places"][1:] for row in made["differences"])
    assert made["differences"]


def test_pods_that_have_finished_are_in_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    done = pod("done", nodeName="b") | {"status": {"phase": "Succeeded"}}
    path.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), node("b", "z1"), done]}))
    assert compared(capsys, "as-is", "remove-nodes b", "-f", str(path))["differences"] == []


def test_bound_pods_are_placed_anew(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [files["spread"], files["pack"], "-f", files["two"]]
    for options, placed in (([], 2), (["--from-scratch"], 3)):
        made = compared(capsys, *arguments, *options)
        assert [one["measures"]["placed"] for one in made["alternatives"]] == [placed, placed]


def test_text_csv_and_markdown_name_the_pods_in_other_places(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", files["spread"], files["pack"], "-f", files["one"]]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 pod is not in the same place\n\nMEASURE ")
    assert "POD         " in out
    assert main([*arguments, "-o", "csv"]) == 0
    (row,) = csv.DictReader(StringIO(capsys.readouterr().out))
    assert row == {"pod": "default/p1", files["spread"]: "b", files["pack"]: "a"}  # names as they were given
    assert main([*arguments, "-o", "markdown"]) == 0
    assert "\n\n| MEASURE |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["as-is"], "give at least two alternatives"),
        (["as-is", "as-is"], "give the cluster with -f or --kubeconfig"),
        (["as-is", "/nowhere", "--synthetic", "nodes=1"], "/nowhere: no such file"),
        (["as-is", "drain n; sing", "--synthetic", "nodes=1"], "drain n; sing: not a change: 'sing'"),
        (["as-is", "drain a b", "--synthetic", "nodes=1"], "drain a b: not a change: 'drain a b'"),
        (["as-is", "drain n", "--synthetic", "nodes=1"], "--drain: "),
        (
            ["as-is", "drian n", "--synthetic", "nodes=1"],
            "drian n: no such file, and not as-is, a change such as 'drain n1', or a release such as "
            "'kubernetes 1.36'; nearest: drain",
        ),
        (["as-is", "drian " + "n" * 300, "--synthetic", "nodes=1"], "drian nnn"),
        (["asis", "as-is", "--synthetic", "nodes=1"], "asis: no such file, and not as-is, a change such as"),
        (
            ["as-is", "drain", "--synthetic", "nodes=1"],
            "drain: no such file, and the change drain is written drain NODE|LABEL=VALUE",
        ),
    ],
)
def test_bad_input_is_one_line_on_stderr(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_a_bad_configuration(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path(files["pack"]).write_text(HEAD + "parallelism: 0\n")
    assert main(["compare", "as-is", files["pack"], "-f", files["one"]]) == 2
    assert capsys.readouterr().err.startswith(f"error: {files['pack']}: parallelism: Invalid value: 0")


def test_a_warning_about_one_alternative_names_it(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    (tmp_path / "job.json").write_text(json.dumps(job | {"spec": {"suspend": True, "template": template}}))
    idle, base = str(tmp_path / "job.json"), files["one"]
    told = "Not counted, because they are suspended (spec.suspend: false counts them) (1): Job default/j."
    assert main(["compare", "as-is", idle, "-f", base]) == 0
    assert capsys.readouterr().err == f"warning: {idle}: {told}\n"
    assert main(["compare", idle, idle, "-f", base]) == 0
    assert capsys.readouterr().err == f"warning: {told}\n"


def test_manifests_without_a_node_change_the_cluster(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.json").write_text(json.dumps(pod("p9")))
    new = str(tmp_path / "new.json")
    made = compared(capsys, "as-is", new, "-f", files["one"])
    assert [one["measures"]["nodes"] for one in made["alternatives"]] == [2, 2]
    assert [row["pod"] for row in made["differences"]] == ["default/p9"]
    assert main(["compare", files["one"], new]) == 2
    refused = "The input has no node, so no pod can have one; kubectl get nodes -o json lists nodes"
    assert capsys.readouterr().err == f"error: {new}: {refused}\n"


def test_a_drained_node_is_no_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    shop = str(ROOT / "examples/shop/cluster.yaml")
    as_is, drained = compared(capsys, "as-is", "drain old-a", "-f", shop)["alternatives"]
    assert (as_is["measures"]["cordoned nodes"], drained["measures"]["cordoned nodes"]) == (0, 1)
    assert as_is["measures"]["cpu use %"] == 60
    assert drained["measures"]["cpu use %"] == pytest.approx(60 * 30 / 26, abs=0.01)


def test_the_first_line_says_how_many_pods_are_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    shop = str(ROOT / "examples/shop/cluster.yaml")
    assert main(["compare", "as-is", "drain old-a", "-f", shop]) == 0
    assert capsys.readouterr().out.startswith("3 pods are not in the same place\n\nMEASURE ")
    assert main(["compare", "as-is", "as-is", "-f", shop]) == 0
    assert capsys.readouterr().out.startswith("every pod is in the same place\n\nMEASURE ")

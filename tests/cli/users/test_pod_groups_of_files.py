"""Files with pod groups: rows of groups, and a replay. What fits and what would help is in
`tests/cases/cli/capacity_groups.md` and `explain_groups.md`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.house.source import ROOT

from moorage import Timeline, replay
from moorage.cli import main
from moorage.kube.releases import feature_gates, release_named

GANG = (ROOT / "tests/data/gang.yaml").read_text()
GATES = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
TREES = ["--feature-gates", "TopologyAwareWorkloadScheduling=true"]
STOP = "0/2 nodes are available: 2 Insufficient cpu."
HIGH = "{priority: 9, containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}"
TOPOLOGY = "minCount: 4}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}"


def head(name: str) -> str:
    """The name of a pod of the file, and how its spec begins."""
    return f"{name}, namespace: default}}\nspec: {{"


@pytest.fixture
def group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The row of the group: minimum, pods with a node and in all, how many more fit, and what stops it."""

    def run(text: str, command: str = "check", *options: str) -> tuple[int, str, int, str, str]:
        (tmp_path / "gang.yaml").write_text(text)
        assert main([command, "-f", str(tmp_path / "gang.yaml"), *GATES, *options, "-o", "json"]) < 2
        (row,) = json.loads(capsys.readouterr().out)["groups"]
        placed = f"{row['withNode']}/{row['pods']}"
        return row["minCount"], placed, row["fit"], row["next"].partition("/")[2], row["message"]

    return run


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("", "", (4, "0/4", 2, "train-2", STOP)),
        ("minCount: 4", "minCount: 9", (9, "0/4", 2, "", "the group has only 4 of 9 pods")),
        ("gang: {minCount: 4}", "basic: {}", (0, "2/4", 0, "train-2", STOP)),
        (
            head("train-3"),
            "train-3, namespace: default}\nstatus: {phase: Succeeded}\nspec: {nodeName: a, ",
            (4, "0/3", 2, "", "the group has only 3 of 4 pods"),
        ),
        (
            "apiVersion: scheduling",
            "kind: ResourceQuota\nmetadata: {name: q, namespace: default}\nspec: {hard: {pods: 3}}\n---\n"
            "apiVersion: scheduling",
            (4, "0/4", 2, "", "the group has only 3 of 4 pods"),
        ),
    ],
)
def test_a_group_has_a_row_that_says_what_stops_it(old: str, new: str, row: Any, group: Any) -> None:
    assert old in GANG
    assert group(GANG.replace(old, new, 1) if old else GANG) == row


def test_a_group_that_is_placed_or_has_a_topology(group: Any) -> None:
    assert group(GANG, "simulate", "--add-nodes", "a=2") == (4, "4/4", 0, "", "")
    stop = "0/1 nodes are available: 1 Insufficient cpu."
    assert group(GANG.replace("minCount: 4}}", TOPOLOGY), "check", *TREES) == (4, "0/4", 1, "train-1", stop)


def test_evicted_pods_that_nobody_replaces_count_in_the_row_of_a_group(group: Any) -> None:
    text = GANG.replace("minCount: 4", "minCount: 2")
    for pod, node in (("train-0", "a"), ("train-1", "b")):
        text = text.replace(head(pod), f"{head(pod)}nodeName: {node}, ")
    text = text.replace("train-3, namespace: default", "train-3, namespace: default, labels: {at: last}")
    text += f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: high, namespace: default}}\nspec: {HIGH}\n"
    assert group(text)[:2] == group(text, "simulate", "-l", "at=last")[:2] == (2, "1/4")


def test_a_group_that_waits_for_pods_fails_the_gate_though_gated_pods_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few.yaml").write_text("\n---\n".join(GANG.split("\n---\n")[:-1]))
    words = ["check", "-f", str(tmp_path / "few.yaml"), *GATES, "--allow", "gated", "-o", "json"]
    assert main(words) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["status"] for finding in findings} == {"waiting"}
    assert sum(finding["pods"] for finding in findings if finding["counts"]) == 3


SCENARIO = """\
apiVersion: replay.moorage.dev/v1
kind: Scenario
metadata: {name: test}
spec:
  cluster: [nodes.yaml]
  templates:
    group:
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: train, namespace: default}
      spec: {schedulingPolicy: {gang: {minCount: 2}}}
    pod:
      apiVersion: v1
      kind: Pod
      metadata: {name: train, namespace: default}
      spec:
        schedulingGroup: {podGroupName: train}
        containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
  events:
  - {time: 1, create: group, name: train}
  - {time: 2, create: pod, name: train-0}
  - {time: 60, create: pod, name: train-1}
"""


def test_a_replay_places_a_group_when_its_last_pod_comes(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text("\n---\n".join(GANG.split("\n---\n")[:2]))
    (tmp_path / "s.yaml").write_text(SCENARIO)
    read = Timeline.read(tmp_path / "s.yaml")
    gates = feature_gates({"GenericWorkload": True}, release_named("1.37"))
    assert replay(read, feature_gates=gates).pods().to_dict()["bound"] == [60.0, 60.0]
    assert replay(read, kubernetes_version="1.37").pods().to_dict()["bound"] == [2.0, 60.0]

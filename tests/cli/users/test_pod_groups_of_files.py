"""Files with pod groups: with the gates on, every command and verb that decides places groups whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.house.source import ROOT

import moorage as mo
from moorage import Scheduler, Timeline, replay
from moorage.cli import main
from moorage.objects import PodGroup
from moorage.releases import feature_gates, release_named

GANG = str(ROOT / "tests/data/gang.yaml")
GATES = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
ON = feature_gates({"GenericWorkload": True}, release_named("1.37"))
PODS = [f"train-{at}" for at in range(4)]
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
      spec: {schedulingPolicy: {gang: {minCount: 3}}}
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
  - {time: 3, create: pod, name: train-1}
  - {time: 60, create: pod, name: train-2}
"""


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "-o", "json"]) < 2
    return json.loads(capsys.readouterr().out)


def test_simulate_places_none_of_a_group_that_fits_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "simulate", "-f", GANG, *GATES)
    assert {one["pod"] for one in found["pods"] if one["node"]} == set()
    found = document(capsys, "simulate", "-f", GANG, *GATES, "--add-nodes", "a=2")
    assert {one["pod"] for one in found["pods"] if one["node"]} == set(PODS)


def test_check_fails_until_the_whole_group_has_room(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "-f", GANG, *GATES]
    assert main([*words, "--add-nodes", "a=1"]) == 1
    assert "FAIL: 4 pods have no node" in capsys.readouterr().out
    assert main([*words, "--add-nodes", "a=2"]) == 0


def group_row(capsys: pytest.CaptureFixture[str], *words: str, form: str = "table") -> list[str]:
    """The cells of the row of the group in the table of groups."""
    assert main([*words, "-o", form]) < 2
    lines = capsys.readouterr().out.splitlines()
    (at,) = [at for at, line in enumerate(lines) if line.startswith("NAMESPACE  GROUP ")]
    heads = ["NAMESPACE", "GROUP", "MINIMUM", "WITH NODE", "MORE FIT", "STOPPED BY"]
    shown = [head for head in heads if head in lines[at]]  # the others are empty
    starts = [lines[at].index(head) for head in shown]
    cells = [lines[at + 1][a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return [dict(zip(shown, cells, strict=True)).get(head, "") for head in heads]


@pytest.mark.parametrize(("command", "form"), [("check", "table"), ("check", "wide"), ("simulate", "wide")])
def test_a_group_has_a_row_that_says_what_stops_it(
    command: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = group_row(capsys, command, "-f", GANG, *GATES, form=form)
    stop = "default/train-2: 0/2 nodes are available: 2 Insufficient cpu."
    assert row == ["default", "train", "4", "0/4", "2", stop]


def test_simulate_says_how_many_pods_of_a_placed_group_have_a_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = group_row(capsys, "simulate", "-f", GANG, *GATES, "--add-nodes", "a=2")
    assert row == ["default", "train", "4", "4/4", "", ""]
    assert main(["check", "-f", GANG, *GATES, "--add-nodes", "a=2"]) == 0
    assert "GROUP" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("minCount: 4", "minCount: 9", ["9", "0/4", "2", "the group has only 4 of 9 pods"]),
        (
            "gang: {minCount: 4}",
            "basic: {}",
            ["", "2/4", "0", "default/train-2: 0/2 nodes are available: 2 Insufficient cpu."],
        ),
        (
            "kind: PodGroup\nmetadata: {name: train",
            "kind: PodGroup\nmetadata: {name: trian",
            [
                *("", "0/4", "0"),
                "its pods wait until it is created: add the PodGroup, or remove spec.schedulingGroup from "
                "the pods",
            ],
        ),
    ],
)
def test_the_row_of_a_group_says_what_else_stops_it(
    old: str, new: str, row: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gang.yaml").write_text(Path(GANG).read_text().replace(old, new))
    assert group_row(capsys, "check", "-f", str(tmp_path / "gang.yaml"), *GATES)[2:] == row


def test_pods_that_have_finished_do_not_count_in_the_row_of_a_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = "train-3, namespace: default}\nstatus: {phase: Succeeded}\nspec: {nodeName: a, "
    text = Path(GANG).read_text().replace("train-3, namespace: default}\nspec: {", done)
    assert done in text
    (tmp_path / "gang.yaml").write_text(text)
    row = group_row(capsys, "check", "-f", str(tmp_path / "gang.yaml"), *GATES)
    assert row[2:] == ["4", "0/3", "2", "the group has only 3 of 4 pods"]


def test_evicted_pods_that_nobody_replaces_count_in_the_row_of_a_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(GANG).read_text().replace("minCount: 4", "minCount: 2")
    for pod, node in (("train-0", "a"), ("train-1", "b")):
        bound = f"{pod}, namespace: default}}\nspec: {{nodeName: {node}, "
        text = text.replace(f"{pod}, namespace: default}}\nspec: {{", bound)
    high = "{priority: 9, containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}"
    text += f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: high, namespace: default}}\nspec: {high}\n"
    (tmp_path / "gang.yaml").write_text(text)
    row = group_row(capsys, "check", "-f", str(tmp_path / "gang.yaml"), *GATES)
    assert row[2:4] == ["2", "1/4"]
    text = text.replace("train-3, namespace: default", "train-3, namespace: default, labels: {at: last}")
    (tmp_path / "gang.yaml").write_text(text)
    row = group_row(capsys, "simulate", "-f", str(tmp_path / "gang.yaml"), *GATES, "-l", "at=last")
    assert row[2:4] == ["2", "1/4"]


def test_refused_pods_count_in_the_row_of_a_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quota = "---\nkind: ResourceQuota\nmetadata: {name: q, namespace: default}\nspec: {hard: {pods: 3}}\n"
    (tmp_path / "gang.yaml").write_text(Path(GANG).read_text() + quota)
    row = group_row(capsys, "check", "-f", str(tmp_path / "gang.yaml"), *GATES)
    assert row[2:] == ["4", "0/4", "2", "the group has only 3 of 4 pods"]


@pytest.mark.parametrize("target", ["compositepodgroup/top", "compositepodgroup/default/top"])
def test_explain_names_the_groups_of_a_composite_one(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = "workloadRef: {workloadName: w, templateName: t}"
    text = (
        Path(GANG)
        .read_text()
        .replace(
            "spec: {schedulingPolicy", f"spec: {{{ref}, parentCompositePodGroupName: top, schedulingPolicy"
        )
    )
    text += "---\napiVersion: scheduling.k8s.io/v1alpha3\nkind: CompositePodGroup\n"
    text += (
        f"metadata: {{name: top, namespace: default}}\nspec: {{{ref}, schedulingPolicy: {{basic: {{}}}}}}\n"
    )
    (tmp_path / "tree.yaml").write_text(text)
    assert main(["explain", target, "-f", str(tmp_path / "tree.yaml"), *GATES]) == 2
    text = f"{target}: a CompositePodGroup has no pods of its own; explain one of its groups"
    assert capsys.readouterr().err.endswith(f"{text}: podgroup/default/train\n")
    for absent, there in (("nosuch", ""), ("other/top", "; there is compositepodgroup/default/top")):
        words = ["explain", f"compositepodgroup/{absent}", "-f", str(tmp_path / "tree.yaml"), *GATES]
        assert main(words) == 2
        said = f"compositepodgroup/{absent}: there is no such CompositePodGroup{there}\n"
        assert capsys.readouterr().err.endswith(said)


def test_groups_have_no_row_without_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", GANG]) == 0
    assert "GROUP" not in capsys.readouterr().out
    assert document(capsys, "simulate", "-f", GANG)["groups"] == []
    found = document(capsys, "check", "-f", GANG, *GATES)["groups"]
    assert [(one["group"], one["minCount"], one["pods"], one["withNode"], one["fit"]) for one in found] == [
        ("train", 4, 4, 0, 2)
    ]


def test_a_group_that_waits_for_pods_fails_the_gate_though_gated_pods_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = Path(GANG).read_text().split("\n---\n")
    (tmp_path / "few.yaml").write_text("\n---\n".join(listed[:-1]))
    words = ["check", "-f", str(tmp_path / "few.yaml"), *GATES, "--allow", "gated", "-o", "json"]
    assert main(words) == 1
    found = json.loads(capsys.readouterr().out)
    assert {one["status"] for one in found["findings"]} == {"waiting"}
    assert sum(one["pods"] for one in found["findings"] if one["counts"]) == 3


def test_a_configuration_without_gang_scheduling_places_what_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cycle of groups stays, but nobody counts."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}\n"
    )
    found = document(capsys, "simulate", "-f", GANG, *GATES, "--config", str(config))
    assert len([one for one in found["pods"] if one["node"]]) == 2


def test_a_replay_places_a_group_when_its_last_pod_comes(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text("\n---\n".join(Path(GANG).read_text().split("\n---\n")[:2]))
    (tmp_path / "s.yaml").write_text(SCENARIO)
    read = Timeline.read(tmp_path / "s.yaml")
    bound = replay(read, feature_gates=ON).pods().to_dict()["bound"]
    assert bound == [60.0, 60.0, 60.0]
    assert replay(read, kubernetes_version="1.37").pods().to_dict()["bound"] == [2.0, 3.0, 60.0]


def test_schedule_workload_places_the_group_of_a_file_whole_or_not() -> None:
    cluster = mo.load(GANG)
    one = Scheduler(cluster, feature_gates=ON)
    group = one.client.get(PodGroup, "train", "default")
    result = one.schedule_workload(group)
    assert (result.rows.tolist(), len(result.failures)) == ([-1] * 4, 4)
    one.add_nodes(2, "a")
    assert (one.schedule_workload(group).rows >= 0).all()


def parts(tmp_path: Path, *replaced: tuple[str, str]) -> tuple[str, str]:
    """The nodes, and the group with its pods, in a file each."""
    text = Path(GANG).read_text()
    for old, new in (*replaced, ('cpu: "4"', 'cpu: "10"')):
        text = text.replace(old, new)
    listed = text.split("\n---\n")
    (tmp_path / "nodes.yaml").write_text("\n---\n".join(listed[:2]))
    (tmp_path / "group.yaml").write_text("\n---\n".join(listed[2:]))
    return str(tmp_path / "nodes.yaml"), str(tmp_path / "group.yaml")


def gangs(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, list[tuple[str, int, int]]]:
    found = document(capsys, "capacity", *words, *GATES)
    return found["gang"], [(one["name"], one["share"], one["count"]) for one in found["templates"]]


def test_capacity_counts_the_gangs_of_a_file_with_a_group_and_its_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = "train-3, namespace: default}\nspec: {"
    cluster, group = parts(tmp_path, (pod, f"{pod}hostname: last, "))
    expected = {"size": 4, "count": 1, "rest": 2}, [("default/train-0", 4, 4)]
    assert gangs(capsys, "-f", cluster, "--pod", group, "--gang", "4") == expected
    both = ["-f", cluster, "-f", group, "--gang", "4", "--pod"]
    assert gangs(capsys, *both, "podgroup/train") == expected
    assert gangs(capsys, *both, "podgroup/default/train") == expected


def test_capacity_repeats_the_different_pods_of_a_group_in_proportion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = "train-0, namespace: default}\nspec: {"
    cluster, group = parts(tmp_path, (pod, f"{pod}tolerations: [{{key: a, operator: Exists}}], "))
    expected = {"size": 4, "count": 1, "rest": 2}, [("default/train-0", 1, 1), ("default/train-1", 3, 3)]
    assert gangs(capsys, "-f", cluster, "--pod", group, "--gang", "4") == expected
    words = ["capacity", "-f", cluster, "--pod", group, "--gang", "6", *GATES]
    assert main(words) == 2
    text = "error: --gang: must be a multiple of 4 (1 default/train-0, 3 default/train-1), not 6\n"
    assert capsys.readouterr().err == text


INDEXED = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  {replicas: 2, podManagementPolicy: Parallel, selector: {matchLabels: {app: db}},
  template: {metadata: {labels: {app: db}}, spec: {schedulingGroup: {podGroupName: train}, containers: [C]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job, namespace: default}
spec:
  {completions: 2, parallelism: 2, completionMode: Indexed,
  template: {spec: {restartPolicy: Never, schedulingGroup: {podGroupName: train}, containers: [C]}}}
""".replace("[C]", "[{name: c, image: i, resources: {requests: {cpu: 3}}}]")


def test_pods_that_controllers_number_are_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, group = parts(tmp_path)
    (tmp_path / "group.yaml").write_text(Path(group).read_text().split("\n---\n")[0] + "\n---" + INDEXED)
    words = ["-f", cluster, "-f", group, "--pod", "podgroup/train", "--gang", "4"]
    size, templates = gangs(capsys, *words)
    assert (size["count"], [one[1:] for one in templates]) == (1, [(2, 2), (2, 2)])
    assert {name[: len("default/db-0")] for name, _, _ in templates} == {"default/db-0", "default/job-"}


def test_the_row_of_a_group_with_a_topology_names_the_domain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = "minCount: 4}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}"
    (tmp_path / "gang.yaml").write_text(Path(GANG).read_text().replace("minCount: 4}}", topology))
    gates = [*GATES, "--feature-gates", "TopologyAwareWorkloadScheduling=true"]
    row = group_row(capsys, "check", "-f", str(tmp_path / "gang.yaml"), *gates)
    stop = "default/train-1 in topology.kubernetes.io/zone=z1: 0/1 nodes are available: 1 Insufficient cpu."
    assert row[2:] == ["4", "0/4", "1", stop]


def test_capacity_refuses_a_group_without_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, group = parts(tmp_path, ("podGroupName: train", "podGroupName: trian"))
    assert main(["capacity", "-f", cluster, "-f", group, "--pod", "podgroup/train", *GATES]) == 2
    assert capsys.readouterr().err == "error: --pod: PodGroup default/train: no pod is in this group\n"


@pytest.mark.parametrize(
    ("leave_out", "size", "warning"),
    [
        ("", "4", ""),
        ("", "2", "--gang 2 counts gangs of 2, but minCount of PodGroup default/train is 4."),
        (
            "kind: PodGroup",
            "4",
            "default/train-9 names PodGroup default/train, which is not in the input, so that its topology "
            "does not count: add it with -f.",
        ),
    ],
)
def test_capacity_warns_of_a_group_that_is_not_what_is_counted(
    leave_out: str, size: str, warning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = Path(GANG).read_text().split("\n---\n")
    (tmp_path / "pod.yaml").write_text(listed[-1].replace("train-3", "train-9"))
    kept = [text for text in listed if "kind: Pod\n" not in text and not (leave_out and leave_out in text)]
    (tmp_path / "cluster.yaml").write_text("\n---\n".join(kept))
    words = ["capacity", "-f", str(tmp_path / "cluster.yaml"), "--pod", str(tmp_path / "pod.yaml")]
    assert main([*words, "--gang", size, *GATES]) == 0
    assert capsys.readouterr().err == (f"warning: {warning}\n" if warning else "")


NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {pods: 10}}
"""
TREE = """
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: root}
spec:
  workloadRef: {workloadName: w, templateName: root}
  schedulingPolicy: {gang: {minGroupCount: 2}}
"""
CHILD = """---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: NAME}
spec:
  workloadRef: {workloadName: w, templateName: NAME}
  schedulingPolicy: {gang: {minCount: 1}}
  parentCompositePodGroupName: root
---
apiVersion: v1
kind: Pod
metadata: {name: NAME-0}
spec:
  schedulingGroup: {podGroupName: NAME}
  containers: [{name: c, image: i}]
"""


def test_capacity_counts_no_trees_of_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(NODE)
    tree = tmp_path / "tree.yaml"
    tree.write_text(TREE + CHILD.replace("NAME", "a") + CHILD.replace("NAME", "b"))
    gates = [*GATES, "--feature-gates", "TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"]
    words = ["capacity", "-f", str(tmp_path / "cluster.yaml"), *gates, "--gang"]
    assert main([*words, "2", "--pod", str(tree)]) == 2
    refused = "error: --gang: the pods of a gang must be in one pod group, not in default/a, default/b\n"
    assert capsys.readouterr().err == refused
    assert main([*words, "1", "-f", str(tree), "--pod", "podgroup/a"]) == 0
    assert capsys.readouterr().err == (
        "warning: PodGroup default/a is part of CompositePodGroup default/root, whose other groups and "
        "topology do not count here.\n"
    )


def test_capacity_names_the_domains_of_the_gangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bound = "minCount: 4}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}}"
    (tmp_path / "gang.yaml").write_text(Path(GANG).read_text().replace("minCount: 4}}}", bound))
    gates = [*GATES[:-1], f"{GATES[-1]},TopologyAwareWorkloadScheduling=true"]
    words = ["capacity", "-f", str(tmp_path / "gang.yaml"), *gates, "--pod", "podgroup/train", "--gang", "1"]
    assert main(words) == 0
    zone = "topology.kubernetes.io/zone"
    assert f"gangs: 1 in {zone}=z1, 1 in {zone}=z2" in capsys.readouterr().out.splitlines()
    assert main([*words, "-o", "html"]) == 0
    assert f"gangs: 1 in {zone}=z1, 1 in {zone}=z2" in capsys.readouterr().out

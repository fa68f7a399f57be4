"""What is ignored of pod groups where gates are off: each command that decides says so once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from tests.make import node
from tests.scheduler.groups.gang_kit import (
    GATES,
    TOPOLOGY,
    TREES,
    composite,
    gang,
    member,
    members,
    nodes,
    store_of,
    topology,
    world,
)

import moorage as mo
from moorage.cli import main
from moorage.errors import InputError
from moorage.kube.releases import DEFAULT_GATES

NEEDS = "scheduled one by one: pod groups need Kubernetes 1.37 or 1.38 and the gate GenericWorkload=true"
ONE_BY_ONE = f"are ignored, so their pods are {NEEDS}"
TOPOLOGIES = "a topology that is ignored: the gate TopologyAwareWorkloadScheduling is off."
TREE = (
    "1 CompositePodGroup is ignored, so groups that belong to one are scheduled one by one: "
    "the gate CompositePodGroup is off."
)
NONE = "1 pod waits for PodGroup default/x, which does not exist"
TOP = composite("top", 1, **topology("zone"))
BOUND = [gang("g", 2, "top", **topology("zone")), gang("h", 2)]
LACKS = (
    "PodGroup default/g belongs to CompositePodGroup default/r, which does not exist: "
    "create it as scheduling.k8s.io/v1alpha3 (v1beta1 since 1.38)."
)
ITSELF = "belongs to itself, so that its pods wait: change its parent."
CIRCLE = [gang("g", 1, "r"), composite("r", 1, "s"), composite("s", 1, "r")]


@pytest.mark.parametrize(
    ("gates", "objects", "expected"),
    [
        (DEFAULT_GATES, [*BOUND, TOP], [f"2 PodGroups {ONE_BY_ONE}."]),
        (DEFAULT_GATES, [gang("h", 2)], [f"1 PodGroup is ignored, so its pods are {NEEDS}."]),
        (DEFAULT_GATES, [TOP], [f"1 pod of a pod group is {NEEDS}."]),
        (GATES, [*BOUND, TOP], [TREE, f"2 groups have {TOPOLOGIES}", NONE]),
        (TOPOLOGY, [*BOUND, TOP], [TREE, NONE]),
        (TREES, [*BOUND, TOP], [NONE]),
        (TREES, [gang("g", 1, "r"), gang("h", 1)], [LACKS, NONE]),
        (TREES, CIRCLE, [*(f"CompositePodGroup default/{name} {ITSELF}" for name in "rs"), NONE]),
        (TOPOLOGY, CIRCLE, [TREE.replace("1 CompositePodGroup is", "2 CompositePodGroups are"), NONE]),
    ],
)
def test_a_run_says_what_it_ignores_of_groups(gates: Any, objects: list[Any], expected: list[str]) -> None:
    one = world(objects, [*members("x", 1), member("i-0", "i", node_name="a")], feature_gates=gates)
    found = one.run().warnings
    assert [text[: len(start)] for text, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_the_result_of_a_run_prints_its_warnings(version: str) -> None:
    result = mo.Scheduler(mo.load(NODE + FILE), kubernetes_version=version).run()
    assert result.warnings == [f"2 PodGroups {ONE_BY_ONE}."]
    assert len(result.headline().splitlines()) == 1
    assert repr(result).splitlines()[1] == f"warning: 2 PodGroups {ONE_BY_ONE}."
    assert result.to_dict()["warnings"] == result.warnings


def test_with_the_gate_a_run_says_nothing_but_which_groups_pods_wait_for() -> None:
    one = world(nodes(4), gang("g", 1), members("g", 1), members("o", 1, scheduler_name="other"))
    result = one.run()
    assert (result.warnings, "warnings" in result.to_dict(), "warning" in repr(result)) == ([], False, False)
    store_of(one).create_many(members("h", 2))
    (text,) = one.run().warnings
    assert text == ("2 pods wait for PodGroup default/h, which does not exist; nearest: default/g.")


def test_over_another_client_a_run_does_not_list_groups() -> None:
    class Other:
        """A client that is no `ObjectStore`, such as one of a cluster."""

        def __init__(self, store: mo.ObjectStore) -> None:
            self.store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self.store, name)

    one = world(nodes(4), members("g", 1))
    other = mo.Scheduler(cast(Any, Other(store_of(one))), feature_gates=GATES)
    assert other.run().warnings == []
    assert len(one.run().warnings) == 1


@pytest.mark.parametrize(("gates", "texts"), [(DEFAULT_GATES, 1), (GATES, 1), (TOPOLOGY, 0)])
def test_a_group_that_is_placed_by_name_says_if_its_topology_is_ignored(gates: Any, texts: int) -> None:
    """It is placed as a group whatever the gate of groups is, so that only the topology is ignored."""
    there = [node("a", zone="x", cpu=4), node("b", zone="y", cpu=4)]
    bound = gang("g", 2, **topology("topology.kubernetes.io/zone"))
    one = world(there, bound, members("g", 2, 3), feature_gates=gates)
    result = one.schedule_workload("podgroup/g")
    assert result.warnings == [f"1 group has {TOPOLOGIES}"] * texts
    assert len(result.placements) == 2 * texts
    assert world(there, gang("g", 2), feature_gates=gates).schedule_workload("podgroup/g").warnings == []
    with pytest.raises(InputError, match="other"):
        one.schedule_workload("podgroup/default/other")


# ---- on the command line -----------------------------------------------------------------------------------

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}
---
"""
FILE = """\
{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: one, namespace: default},
 spec: {schedulingPolicy: {gang: {minCount: 2}}}}
---
{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: two, namespace: default},
 spec: {schedulingPolicy: {basic: {}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default},
 spec: {schedulingGroup: {podGroupName: one}, containers: [{name: c, image: i}]}}
"""
SCENARIO = """\
apiVersion: replay.moorage.dev/v1
kind: Scenario
metadata: {name: test}
spec:
  cluster: [cluster.yaml]
  templates:
    group:
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: late, namespace: default}
      spec: {schedulingPolicy: {gang: {minCount: 2}}}
  events:
  - {time: 1, create: group, name: late}
"""
ON = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
COMMANDS = {
    "simulate": [],
    "check": [],
    "explain": ["p"],
    "capacity": ["--pod", "pod/default/p"],
    "compare": ["as-is", "cordon a"],
    "nodes": [],
    "plan": ["bound"],
}
"""Those that take -f, with what else they need."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_once_that_groups_are_ignored(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODE + FILE)
    words = [command, *COMMANDS[command], "-f", str(path), "--kubernetes-version", "1.37", "-o", "json"]
    assert main(words) < 2
    out, err = capsys.readouterr()
    expected = f"2 PodGroups {ONE_BY_ONE}."
    assert [line for line in err.splitlines() if "PodGroup" in line] == [f"warning: {expected}"]
    assert expected in json.loads(out)["warnings"]


def test_a_replay_says_so_of_the_groups_at_the_start_and_of_later_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(NODE + FILE)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    words = ["replay", str(tmp_path / "s.yaml"), "-o", "json", "--verify"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "PodGroup" in line] == [f"warning: 3 PodGroups {ONE_BY_ONE}"]
    assert json.loads(out)["counts"][f"PodGroups {ONE_BY_ONE}"] == 3
    assert main([*words, *ON]) == 0
    assert "PodGroup" not in "".join(capsys.readouterr())

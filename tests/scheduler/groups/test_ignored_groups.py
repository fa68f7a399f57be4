"""What is ignored of pod groups where gates are off: each command that decides says so once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from tests.core.make import ZONE, node
from tests.doors.engine import groups_without_top, ignored_groups, pods_without_group
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
from moorage.objects import AnyGroup, PodGroup
from moorage.releases import DEFAULT_GATES
from moorage.store import NotFoundError

TOPOLOGIES = "a topology that is ignored: the gate TopologyAwareWorkloadScheduling is off"

GROUPS = [gang("g", 2, "top", **topology("zone")), gang("h", 2), composite("top", 1, **topology("zone"))]
ONE_BY_ONE = (
    "are ignored, so their pods are scheduled one by one: "
    "pod groups need Kubernetes 1.37 and the gate GenericWorkload=true"
)
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a, labels: {topology.kubernetes.io/zone: z}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}
---
"""
FILE = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: one, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: two, namespace: default}
spec: {schedulingPolicy: {basic: {}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  schedulingGroup: {podGroupName: one}
  containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]
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


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        (DEFAULT_GATES, {f"PodGroups {ONE_BY_ONE}": 2}),
        (
            GATES,
            {
                "CompositePodGroup is ignored, so groups that belong to one are scheduled one by one: "
                "the gate CompositePodGroup is off": 1,
                "groups have a topology that is ignored: the gate TopologyAwareWorkloadScheduling is off": 2,
            },
        ),
        (
            TOPOLOGY,
            {
                "CompositePodGroup is ignored, so groups that belong to one are scheduled one by one: "
                "the gate CompositePodGroup is off": 1
            },
        ),
        (TREES, {}),
    ],
)
def test_each_gate_that_is_off_is_named(gates: Any, expected: dict[str, int]) -> None:
    assert ignored_groups(world(feature_gates=gates).handle, GROUPS) == expected


def test_one_group_is_told_in_the_singular_and_no_group_not_at_all() -> None:
    handle = world(feature_gates=DEFAULT_GATES).handle
    (text,) = ignored_groups(handle, GROUPS[1:2])
    assert text.startswith("PodGroup is ignored, so its pods ")
    assert ignored_groups(handle, GROUPS[2:]) == {}


@pytest.mark.parametrize(
    ("gates", "known", "expected"),
    [
        (GATES, [], ["1 pod waits for PodGroup default/g,", "2 pods wait for PodGroup default/h,"]),
        (GATES, GROUPS[:1], ["2 pods wait for PodGroup default/h,"]),
        (DEFAULT_GATES, [], ["3 pods of pod groups are scheduled one by one:"]),
        (DEFAULT_GATES, GROUPS[:1], []),
    ],
)
def test_a_sentence_names_each_group_that_pending_pods_wait_for(
    gates: Any, known: list[PodGroup], expected: list[str]
) -> None:
    pods = [*members("g", 1), *members("h", 2), member("i-0", "i", node_name="a")]
    texts = pods_without_group(world(feature_gates=gates).handle, known, pods)
    assert [text[: len(start)] for text, start in zip(texts, expected, strict=True)] == expected


def test_a_sentence_names_each_group_whose_tree_has_no_top() -> None:
    lacks = "PodGroup default/g belongs to CompositePodGroup default/r, which does not exist"
    itself = "belongs to itself, so that its pods wait: change its parent."

    def told(*groups: AnyGroup, gates: Any = TREES) -> list[str]:
        scheduler = world(list(groups), feature_gates=gates)
        scheduler.sync()
        return groups_without_top(scheduler.groups, groups)

    assert told(gang("g", 1, "r"), gang("h", 1)) == [f"{lacks}: create it as scheduling.k8s.io/v1alpha3."]
    circle = [gang("g", 1, "r"), composite("r", 1, "s"), composite("s", 1, "r")]
    assert told(*circle) == [f"CompositePodGroup default/{name} {itself}" for name in ("r", "s")]
    assert told(gang("g", 1, "r"), composite("r", 1)) == []
    assert told(*circle, gates=TOPOLOGY) == []


# ---- in Python ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_the_result_of_a_run_says_that_groups_are_ignored_and_prints_it(version: str) -> None:
    result = mo.Scheduler(mo.load(NODE + FILE), kubernetes_version=version).run()
    assert result.warnings == [f"2 PodGroups {ONE_BY_ONE}."]
    assert len(result.headline().splitlines()) == 1
    assert repr(result).splitlines()[1] == f"warning: 2 PodGroups {ONE_BY_ONE}."
    assert result.to_dict()["warnings"] == result.warnings


def test_with_the_gate_a_run_says_nothing_but_which_groups_pods_wait_for() -> None:
    one = world(nodes(4), gang("g", 1), members("g", 1))
    result = one.run()
    assert (result.warnings, "warnings" in result.to_dict(), "warning" in repr(result)) == ([], False, False)
    store_of(one).create_many(members("h", 2))
    (text,) = one.run().warnings
    assert text == ("2 pods wait for PodGroup default/h, which does not exist; nearest: default/g.")


def test_pods_of_another_scheduler_do_not_count_as_waiting() -> None:
    pods = [*members("g", 1), *members("h", 2, scheduler_name="other")]
    (text,) = world(nodes(4), pods).run().warnings
    assert text == (
        "1 pod waits for PodGroup default/g, which does not exist: create it as scheduling.k8s.io/v1beta1."
    )


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
    one = world(there, gang("g", 2, **topology(ZONE)), members("g", 2, 3), feature_gates=gates)
    result = one.schedule_workload("podgroup/g")
    assert result.warnings == [f"1 group has {TOPOLOGIES}."] * texts
    assert len(result.placements) == 2 * texts
    assert world(there, gang("g", 2), feature_gates=gates).schedule_workload("podgroup/g").warnings == []
    with pytest.raises(NotFoundError, match="other"):
        one.schedule_workload("podgroup/default/other")


# ---- on the command line -----------------------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("command", "version"), [("simulate", "1.36"), *[(command, "1.37") for command in COMMANDS]]
)
def test_a_command_says_once_that_groups_are_ignored(
    command: str, version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODE + FILE)
    words = [command, *COMMANDS[command], "-f", str(path), "--kubernetes-version", version, "-o", "json"]
    assert main(words) < 2
    out, err = capsys.readouterr()
    expected = f"2 PodGroups {ONE_BY_ONE}."
    assert [line for line in err.splitlines() if "PodGroup" in line] == [f"warning: {expected}"]
    assert expected in json.loads(out)["warnings"]


@pytest.mark.parametrize("command", ["simulate", "check"])
def test_with_the_gate_nothing_is_said(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODE + FILE)
    gates = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
    assert main([command, "-f", str(path), *gates]) < 2
    assert "PodGroup" not in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--verify"]])
def test_a_replay_says_so_of_the_groups_at_the_start_and_of_later_ones(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(NODE + FILE)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    words = ["replay", str(tmp_path / "s.yaml"), "-o", "json", *more]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "PodGroup" in line] == [f"warning: 3 PodGroups {ONE_BY_ONE}"]
    assert json.loads(out)["counts"][f"PodGroups {ONE_BY_ONE}"] == 3
    gates = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
    assert main([*words, *gates]) == 0
    assert "PodGroup" not in "".join(capsys.readouterr())

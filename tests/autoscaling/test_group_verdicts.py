"""What becomes of nodes and pods where cluster-autoscaler has node groups, and what would help."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage import Scheduler, load
from moorage.autoscalers import AutoscalerSettings, GroupSettings, NodeGroup
from moorage.cli import main
from tests.doors.autoscalers import Judge, checked_groups, group_removal_verdict

from .test_groups_in_commands import CLUSTER, GROUPS, node
from .test_provision import pod

pytestmark = pytest.mark.usefixtures("in_the_repository")
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def autoscaling(*groups: NodeGroup, **fields: Any) -> AutoscalerSettings:
    return AutoscalerSettings(groups=checked_groups(GroupSettings([*groups], **fields), {}))


def placed(name: str, on: str, cpu: str = "1", **metadata: Any) -> dict[str, Any]:
    made = pod(name, cpu, nodeName=on)
    made["metadata"] |= {"ownerReferences": [OWNER]} | metadata
    return made


def nodes(**metadata: Any) -> list[dict[str, Any]]:
    """The node that is asked about, and another one of its group."""
    both = [node(name, **{"moorage.dev/node-group": "g"}) for name in ("a", "b")]
    both[0]["metadata"] |= metadata
    return both


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "pdb", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "100%"},
}
ANNOTATE = f'annotate pod default/web-1 with {SAFE}: "true"'
CASES = {
    "lone": (
        [*nodes(), placed("web-1", "a", ownerReferences=[])],
        "BlockedByPod: NotReplicated (default/web-1)",
        [ANNOTATE],
    ),
    "budget": (
        [*nodes(), BUDGET, placed("web-1", "a")],
        "BlockedByPod: NotEnoughPdb (default/web-1)",
        ["PodDisruptionBudget default/pdb allows a disruption (more replicas, or another limit)"],
    ),
    "annotated": (
        nodes(annotations={DISABLED: "true"}),
        "ScaleDownDisabledAnnotation",
        [f"remove the annotation {DISABLED} of the node"],
    ),
    "used": (
        [*nodes(), placed("web-1", "a", "3")],
        "NotUnderutilized: 75.0 % of its cpu is requested",
        ["raise utilizationThreshold from 0.5 to 0.75"],
    ),
    "full": (
        [*nodes(), placed("web-1", "a"), placed("other-1", "b", "4")],
        "NoPlaceToMovePods: default/web-1 fits on no other node (b: NodeResourcesFit: Insufficient cpu)",
        ["pod default/web-1 moves elsewhere, or ends"],
    ),
    "minimum": (
        [*nodes()[:1], placed("web-1", "a", annotations={SAFE: "false"}), node("c")],
        "NodeGroupMinSizeReached: node group g has its minimum of 1",
        ["lower minSize of node group g to 0", ANNOTATE],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_node_stays_and_changes_would_free_it(case: str) -> None:
    objects, why, changes = CASES[case]
    fate = group_removal_verdict(
        Scheduler(load(objects)), autoscaling(NodeGroup("g", min_size=1, price=0.5)), "a"
    )
    assert fate is not None
    assert (fate.decision, fate.message, list(fate.changes), fate.freed) == ("", why, changes, "delete")


def test_a_node_goes_and_its_pods_have_places() -> None:
    settings = autoscaling(NodeGroup("g", price=0.5))
    scheduler = Scheduler(load([*nodes(), placed("web-1", "a")]))
    before = scheduler.fork()
    fate = group_removal_verdict(scheduler, settings, "a")
    assert fate is not None
    verdict, place = fate.lines()
    assert verdict.endswith("would delete node a (Underutilized) if it is looked at alone: 0.5 $/h less")
    assert place == "b would take default/web-1"
    empty = group_removal_verdict(scheduler, settings, "b")
    assert empty is not None
    assert (empty.decision, empty.reason) == ("delete", "Empty")
    assert not scheduler.ask.diff(before)
    assert group_removal_verdict(Scheduler(load([node("a")])), settings, "a") is None


def test_a_pod_is_refused_and_changes_would_help() -> None:
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    tainted = node("t", pool="t") | {"spec": {"taints": [taint]}}
    full = node("f", pool="f")
    waits = pod("web", "3", nodeSelector={"pool": "f"})
    scheduler = Scheduler(load([tainted, full, placed("other", "f", "3"), waits, pod("large", "9")]))
    scheduler.run()
    groups = autoscaling(
        NodeGroup("f", label="pool=f", max_size=1, price=0.5),
        NodeGroup("t", label="pool=t"),
        NodeGroup("none"),
        flags={"maxNodesTotal": 9},
    )
    first, *others = Judge(scheduler, groups).refusals("default/web")
    assert [*first.lines()] == [
        "node group f: max node group size reached",
        "  would help: raise maxSize from 1 to 2 (a node more, 0.50 $/h more)",
    ]
    tainted, unknown = others
    assert (tainted.reason, tainted.changes) == ("node(s) had untolerated taint(s)", ())
    assert unknown.reason.startswith("not ready for scale-up: no node has a provider's label with its name")
    first, second, _ = Judge(scheduler, groups).refusals("default/large")
    both = "raise maxSize from 1 to 2, and lower the cpu request of container c from 9 to 4"
    assert [one.text for one in first.changes] == [both]
    assert not second.changes
    limited = autoscaling(NodeGroup("f", label="pool=f"), flags={"maxNodesTotal": 2})
    (refusal,) = Judge(scheduler, limited).refusals("default/web")
    assert refusal.reason.endswith("max total nodes in cluster reached")
    assert [one.text for one in refusal.changes] == ["raise maxNodesTotal from 2 to 3"]


def test_explain_tells_of_a_node_of_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "node/smallnode-3i74t", *CLUSTER, *GROUPS, "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["clusterAutoscalerVersion"] == "1.36.1"
    assert document["changes"][0] == "lower minSize of node group smallnode to 0"
    sizes = ["--group-sizes", "0:2:biggernode"]
    assert main(["explain", "node/smallnode-3i74t", *CLUSTER, *sizes, "-o", "json"]) == 0
    assert "clusterAutoscalerVersion" not in json.loads(capsys.readouterr().out)  # it is in no group


def test_a_pod_below_the_cutoff_gets_no_node() -> None:
    scheduler = Scheduler(load([node("f", "1", pool="f"), pod("low", "1", priority=-20), pod("one", "1")]))
    scheduler.run()
    (refusal,) = Judge(scheduler, autoscaling(NodeGroup("f", label="pool=f"))).refusals("default/low")
    assert refusal.reason == "no node is added for a pod whose priority is below -10"
    assert [one.text for one in refusal.changes] == ["raise its priority to -10"]

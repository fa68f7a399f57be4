"""matchLabelKeys of spread constraints count, unless their gate is off."""

from __future__ import annotations

from tests.core.make import ZONE, node, pod
from tests.doors.engine import dependents_off
from tests.scheduler.make import Clock

from moorage import Scheduler
from moorage.objects import Cluster, LabelSelector, Pod, TopologySpreadConstraint

KEY = "default/p"


def spreading(**gates: bool) -> Scheduler:
    """Pod p, of revision 2, beside one of revision 1 in the only zone that has room."""
    selector = LabelSelector(match_labels={"app": "x"})
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=selector,
        match_label_keys=("rev",),
    )
    asked = pod(
        "p", requests={"cpu": 1}, labels={"app": "x", "rev": "2"}, topology_spread_constraints=(spread,)
    )
    before = pod("x", "a", labels={"app": "x", "rev": "1"})
    nodes = [node("a", labels={ZONE: "za"}), node("b", labels={ZONE: "zb"}, cpu=0)]
    return Scheduler(Cluster(nodes=nodes, pods=[before, asked]), clock=Clock(), feature_gates=gates)


def test_pods_of_another_revision_do_not_count() -> None:
    assert spreading().run().placements == {KEY: "a"}


def test_without_the_gate_they_count() -> None:
    gates = {"MatchLabelKeysInPodTopologySpread": False}
    one = spreading(**gates, **dependents_off(gates))
    message = one.run().unschedulable[KEY].message
    assert "1 node(s) didn't match pod topology spread constraints" in message
    asked = one.client.get(Pod, "p", "default")
    texts = [found.text for group in one.explain(asked).groups for found in group.evidence]
    assert (
        f"domain {ZONE}=za: 2 with this pod, fewest 0 in {ZONE}=zb (node b: 1 more cpu), maxSkew 1" in texts
    )
    one.client.delete(Pod, "x", "default")  # of revision 1
    one.sync()
    assert [waiting.pod.name for waiting in one.queue.pending_pods().backoff] == ["p"]

"""matchLabelKeys of spread constraints count, unless their gate is off."""

from __future__ import annotations

from tests.make import ZONE, node, pod
from tests.scheduler.make import Clock

from moorage import Scheduler
from moorage.kube import Cluster, Pod
from moorage.kube.releases import dependents_off

KEY = "default/p"


def spreading(**gates: bool) -> Scheduler:
    """Pod p, of revision 2, beside one of revision 1 in the only zone that has room."""
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread |= {"labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["rev"]}
    labels = {"app": "x", "rev": "2"}
    asked = pod("p", requests={"cpu": 1}, labels=labels, topologySpreadConstraints=[spread])
    before = pod("x", "a", labels=labels | {"rev": "1"})
    nodes = [node("a", zone="za"), node("b", zone="zb", cpu=0)]
    return Scheduler(Cluster(nodes=nodes, pods=[before, asked]), clock=Clock(), feature_gates=gates)


def test_pods_of_another_revision_do_not_count() -> None:
    assert spreading().run().placements == {KEY: "a"}


def test_without_the_gate_they_count() -> None:
    gates = {"MatchLabelKeysInPodTopologySpread": False}
    one = spreading(**gates, **dependents_off(gates))
    message = one.run().unschedulable[KEY].message
    assert "1 node(s) didn't match pod topology spread constraints" in message
    asked = one.client.get(Pod, "p", "default")
    texts = [found.text for group in one.ask.explain(asked).groups for found in group.evidence]
    assert f"domain {ZONE}=za: 2 with this pod, fewest 0 in zb, maxSkew 1" in texts
    one.client.delete(Pod, "x", "default")  # of revision 1
    one.sync()
    assert [waiting.pod.name for waiting in one.queue.pending_pods().backoff] == ["p"]

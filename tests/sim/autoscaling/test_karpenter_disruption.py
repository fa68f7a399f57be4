"""Karpenter removes nodes in a replay."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage import Timeline
from moorage.kube import Cluster, Node, NodeClaim, Object, Pod, decode_object
from moorage.sim.measures import evaluate
from tests import make as kit
from tests.doors.sim import Disrupter
from tests.sim.autoscaling.made import budget, deployment, scalings
from tests.sim.autoscaling.test_karpenter_scaler import spec

HOUR = 3600.0


def pool(template: dict[str, Any] | None = None, **disruption: Any) -> Object:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    kinds = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    inside = {"requirements": [kinds], "nodeClassRef": reference} | (template or {})
    rules = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]} | disruption
    head = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}}
    return decode_object(head | {"spec": {"template": {"spec": inside}, "disruption": rules}})


def node(name: str, kind: str = "m5.xlarge", cpu: str = "3900m", **labels: str) -> Any:
    """A node of the pool, of one of its instance types."""
    labels |= {
        "karpenter.sh/nodepool": "general",
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": "us-west-2a",
        "kubernetes.io/hostname": name,
    }
    room = {"cpu": cpu, "memory": "7Gi", "pods": "32"}
    return kit.node(name, labels=labels, status={"capacity": room}, **room)


def timeline(*nodes: Any, objects: tuple[Any, ...], end: float = 2 * HOUR, **fields: Any) -> Timeline:
    made = Timeline(Cluster(nodes=list(nodes), others=list(objects)))
    made.autoscale(spec(**fields))
    made.measure(end, "end")
    return made


def steps(history: mo.History) -> list[tuple[Any, ...]]:
    return [(time, action, nodes) for time, action, _, nodes, _ in scalings(history)]


def names(history: mo.History, time: float) -> list[str]:
    return sorted(one.name for one in history.at(time).client.list(Node)[0])


def test_a_replacement_is_ready_before_the_old_node_goes() -> None:
    """The pod fits a cheaper node. That is launched first, while the old one takes no pods."""
    history = mo.replay(timeline(node("large"), objects=(pool(), deployment("web", 1))))
    # A pass at 0 s, validated 15 s later; launched and registered within 40 s, initialized 10 s after that.
    new = "m6i.large on-demand us-west-2a, 0.096 $/h more"
    assert scalings(history) == [
        (15, "add", "general", 1, f"replaces 1 node: Underutilized: {new}"),
        (65, "remove", "general", 1, "Underutilized"),
    ]
    assert names(history, 54) == ["large"]
    assert names(history, 56) == names(history, 64) == ["general-1", "large"]
    assert names(history, 66) == ["general-1"]
    tainted = history.at(60).client.get(Node, "large").spec.taints
    assert [taint.key for taint in tainted] == ["karpenter.sh/disrupted"]
    (pod,) = history.at(66).client.list(Pod)[0]
    assert pod.spec.node_name == "general-1"
    assert history.summary()["pending"] == 0
    assert history.disruptions().to_dict() == {"time": [65], "node": ["large"], "reason": ["Underutilized"]}
    found = evaluate(history, "cost", "disruptions")
    spent = (65 * 0.204 + (2 * HOUR - 55) * 0.096) / HOUR
    assert found["cost"].numbers["cost"] == pytest.approx(spent)
    assert found["disruptions"].numbers["nodes_removed_underutilized"] == 1
    assert found["disruptions"].numbers["pods_moved"] == 1


def test_schedules_of_budgets_hold_by_the_virtual_clock() -> None:
    """No node goes from six to seven; the replay begins at half past five."""
    rules = {"budgets": [{"nodes": "0", "schedule": "0 6 * * *", "duration": "1h"}]}
    for start, expected in (("2026-06-01T05:30:00Z", 15), ("2026-06-01T06:30:00Z", 30 * 60 + 15)):
        made = timeline(node("a"), objects=(pool(**rules),), startTime=start)
        assert steps(mo.replay(made)) == [(expected, "remove", 1)]


def test_a_node_is_left_alone_until_its_pods_stay() -> None:
    made = timeline(node("a"), node("b"), objects=(pool(consolidateAfter="5m"),))
    for at in range(4):
        made.create(at * 100, deployment(f"web-{at}", 1))
    made.delete(1000, "deployment/default/web-3")
    history = mo.replay(made)
    # "b" never had a pod. "a" has had none since 1000 s, but three stay.
    assert steps(history)[0] == (15, "remove", 1)
    policy = timeline(node("a"), objects=(pool(consolidateAfter="5m"), deployment("web", 1)))
    policy.delete(1003, "deployment/default/web")
    moves = mo.replay(policy)
    # Passes are 10 s after one at 15 s that found nothing more: the next is at 1305 s.
    assert steps(moves)[-1] == (1305 + 15, "remove", 1)


def test_kube_scheduler_may_refuse_a_pod_after_a_command() -> None:
    """Karpenter does not know the affinity that the scheduler's profile adds: it sees room on "other"."""
    made = timeline(
        node("own", zone="mine"), node("other"), objects=(pool(consolidateAfter="0s"), deployment("web", 1))
    )
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["mine"]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    profile = {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    made.create(1, pod_on("other"))
    history = mo.replay(made, config=head | {"profiles": [profile]})
    assert history.disruptions().columns["node"] == ["own"]
    assert history.summary()["pending"] == 1
    assert any("didn't match scheduler-enforced node affinity" in reason for reason in history.reasons)


def pod_on(name: str, keeps: str = "true") -> Pod:
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stays", "namespace": "default"}}
    head["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": keeps}  # type: ignore[index]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    found = decode_object(head | {"spec": {"nodeName": name, "containers": [container]}})
    assert isinstance(found, Pod)
    return found


def test_nodes_expire_and_are_drained_as_budgets_and_the_grace_period_allow() -> None:
    template = {"expireAfter": "10m", "terminationGracePeriod": "5m"}
    objects = pool(template, consolidateAfter="Never"), deployment("web", 2), budget("web", 0)
    history = mo.replay(timeline(objects=objects, end=1000))
    # The claim is of 1 s. Pods have 30 s to stop; 30 s before the grace period is over they are deleted.
    expired = history.disruptions().to_dict()
    assert expired == {"time": [601.0], "node": ["general-1"], "reason": ["Expired"]}
    assert names(history, 870) == ["general-1"]
    assert names(history, 871) == []
    assert names(history, 1000) == ["general-2"]
    ends = history.pods().to_dict()["ended"]
    assert sorted(ends)[:2] == [871, 871]


def test_a_node_that_joins_is_as_young_as_it_is() -> None:
    made = timeline(objects=(pool({"expireAfter": "10m"}, consolidateAfter="5m"),))
    made.create(700, node("a"))
    assert steps(mo.replay(made)) == [(700 + 300 + 15, "remove", 1)]
    assert steps(mo.replay(timeline(node("a"), objects=(pool(consolidateAfter="5m"),)))) == [
        (15, "remove", 1)
    ]


def test_nodes_drift_from_their_template_one_after_the_other() -> None:
    made = timeline(objects=(pool(consolidateAfter="Never"), deployment("web", 4, "1500m")), end=1000)
    made.patch(
        300,
        "nodepool/general",
        {"spec": {"template": {"spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}}}},
    )
    history = mo.replay(made)
    reasons = set(history.disruptions().columns["reason"])
    assert reasons == {"Drifted"}
    before, now = names(history, 299), names(history, 1000)
    assert len(before) == len(now)
    assert set(before).isdisjoint(now)
    assert history.summary()["pending"] == 0


def test_a_claim_goes_with_its_node_and_a_node_with_its_claim() -> None:
    """Pods that no controller makes again are lost."""
    for subject, removed in (("node/general-1", 0), ("nodeclaim/general-1", 1)):
        made = timeline(objects=(pool(consolidateAfter="Never"), deployment("web", 1)), end=400)
        made.create(100, pod_on("general-1", "false"))
        made.delete(200, subject)
        history = mo.replay(made)
        assert names(history, 199) == ["general-1"]
        assert names(history, 400) == ["general-2"]
        assert [one.name for one in history.scheduler.client.list(NodeClaim)[0]] == ["general-2"]
        numbers = evaluate(history, "disruptions")["disruptions"].numbers
        assert (numbers["nodes_removed"], numbers["pods_lost"]) == (removed, removed)


@pytest.mark.parametrize("checkpoints", [0, 64])
def test_the_past_leads_to_the_same_future(checkpoints: int) -> None:
    made = timeline(node("large"), node("empty"), objects=(pool(consolidateAfter="1m"), deployment("web", 1)))
    for at in range(1, 30):
        made.measure(at * 10 + 3, f"m{at}")
    made.scale(200, "deployment/default/web", 9)
    made.scale(400, "deployment/default/web", 2)
    history = mo.replay(made, checkpoints=checkpoints)
    there: dict[float, set[str]] = {}
    current = set[str]()
    for time, name, is_there in zip(*history.nodes().to_dict().values(), strict=True):
        current = current | {name} if is_there else current - {name}
        there[time] = current
    assert len(scalings(history)) > 4
    for time in (5.0, 66.0, 80.0, 130.0, 199.0, 300.0, 470.0, 500.0, 7000.0):
        assert set(names(history, time)) == there[max(at for at in there if at <= time)], time


def test_a_pass_that_would_find_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = list[float]()
    real = Disrupter._disruption
    monkeypatch.setattr(Disrupter, "_disruption", lambda self, now: (passes.append(now), real(self, now))[1])
    made = timeline(objects=(pool(consolidateAfter="10m"), deployment("web", 2)), end=240 * HOUR)
    history = mo.replay(made)
    claims: list[NodeClaim] = history.scheduler.client.list(NodeClaim)[0]
    assert len(claims) == 1
    assert max(passes) < 2 * HOUR  # when the claim is an hour old, it may drift
    assert len(passes) < 20

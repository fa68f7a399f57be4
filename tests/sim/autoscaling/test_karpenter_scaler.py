"""Karpenter makes nodes in a replay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import moorage as mo
from moorage import Timeline
from moorage.errors import InputError
from moorage.kube import Cluster, Node, Object, decode_object
from tests import make as kit
from tests.doors.sim import AutoscalerSpec, checked, spec_value
from tests.house.source import ROOT
from tests.sim.autoscaling.made import pod, scalings, tiny

TYPES = str(ROOT / "examples/karpenter/instance_types.yaml")


def pool(**limits: str) -> Object:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    startup = [{"key": "agent", "value": "starts", "effect": "NoSchedule"}]
    template = {"requirements": [], "nodeClassRef": reference, "startupTaints": startup}
    spec = {"template": {"spec": template}, "limits": limits}
    head = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}}
    return decode_object(head | {"spec": spec})


def spec(**fields: Any) -> AutoscalerSpec:
    return msgspec.convert({"karpenter": {"instanceTypes": TYPES} | fields}, AutoscalerSpec)


def timeline(*pools: Object, **fields: Any) -> Timeline:
    """Nodes take pods 50 s after their claim."""
    made = Timeline(Cluster(nodes=[tiny()], others=list(pools or (pool(),))))
    made.autoscale(spec(**fields))
    return made


def bound(history: mo.History) -> list[float]:
    return sorted(history.pods().to_dict()["bound"])


def test_a_pass_waits_until_no_pod_comes() -> None:
    made = timeline()
    for at in (5.0, 5.5, 6.25):
        made.create(at, pod(f"p{at}"))
    history = mo.replay(made)
    why = "3 pods: m5.xlarge spot us-west-2a, 0.14 $/h more"
    assert scalings(history) == [(7.25, "add", "general", 1, why)]
    assert bound(history) == [57.25] * 3


def test_a_pass_waits_for_ten_seconds_at_most() -> None:
    made = timeline()
    for at in range(15):
        made.create(at * 0.75, pod(f"p{at}", "200m", "100Mi"))
    history = mo.replay(made)
    assert [step[:4] for step in scalings(history)] == [(10, "add", "general", 1)]  # it has room for the last
    assert bound(history) == [60] * 15


def test_a_node_takes_pods_once_it_is_initialized() -> None:
    made = timeline(launchTime="5s", registrationTime="5s", initializationTime="100s")
    made.create(0, pod("p"))
    history = mo.replay(made)
    assert history.nodes().to_dict()["time"] == [0, 11, 111]
    assert bound(history) == [111]
    at_once = timeline(launchTime=0, registrationTime=0, initializationTime=0)
    at_once.create(0, pod("p"))
    assert bound(mo.replay(at_once)) == [1]


def test_pods_that_still_wait_are_looked_at_again() -> None:
    """The large pod came last, and the small ones have taken its place."""
    made = timeline()
    for at in range(12):
        made.create(0, pod(f"small-{at}", "900m", "1Gi"))
    for at in range(2):
        made.create(0.5, pod(f"large-{at}", "3", "10Gi"))
    history = mo.replay(made)
    times = [step[0] for step in scalings(history)]
    assert times[0] == 1.5 < times[-1]
    assert (times[-1] - 1.5) % 10 < 10
    assert history.summary()["pending"] == 0


def test_limits_hold_and_another_run_is_the_same() -> None:
    made = timeline(pool(cpu="6"))
    for at in range(20):
        made.create(at, pod(f"p{at}", "1500m"))
    history = mo.replay(made)
    assert len(scalings(history)) == 2  # of 4 and 2 cpu
    assert history.summary()["pending"] == 17
    assert scalings(mo.replay(made)) == scalings(history)


def test_a_state_of_the_past_has_the_nodes_of_then() -> None:
    made = timeline()
    for at in (0, 100):
        for number in range(6):
            made.create(at, pod(f"p{at}-{number}"))
    history = mo.replay(made)
    for time, ready in ((40, 0), (60, 2), (149, 2), (151, 4)):
        nodes = history.at(time).client.list(Node)[0]
        assert sum("karpenter.sh/initialized" in one.metadata.labels for one in nodes) == ready


def test_a_pool_may_come_later() -> None:
    made = Timeline(Cluster(nodes=[tiny()]))
    made.autoscale(spec())
    made.create(0, pod("p"))
    made.create(100, pool())
    made.measure(400, "end")
    history = mo.replay(made)
    assert [step[:3] for step in scalings(history)] == [(101, "add", "general")]


def test_a_node_whose_name_the_timeline_has_given_away_is_an_error() -> None:
    made = timeline()
    made.create(0, pod("p"))
    made.create(20, kit.node("general-1"))
    with pytest.raises(InputError, match=r'nodes that join at 41 s: .*"general-1" already exists'):
        mo.replay(made)


def test_it_stands_alone_and_is_written_as_read() -> None:
    resolved = checked(spec(batchIdle="2s"), {})
    assert spec_value(resolved)["karpenter"]["batchIdle"] == 2.0
    assert msgspec.convert(spec_value(resolved), AutoscalerSpec) == resolved
    with pytest.raises(InputError, match="leave out all other fields"):
        checked(msgspec.structs.replace(spec(), scan_interval=5), {})
    with pytest.raises(InputError, match=r"karpenter\.batchMax"):
        checked(spec(batchMax="soon"), {})
    with pytest.raises(InputError, match=r"karpenter\.startTime: must be a time like"):
        checked(spec(startTime="monday", spotToSpot=True), {})

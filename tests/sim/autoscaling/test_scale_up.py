"""Nodes are added for pods that fit nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from moorage import Timeline
from moorage.cli import main
from moorage.errors import InputError
from moorage.kube import Cluster, decode_object
from tests import make as kit
from tests.doors.sim import spec_value
from tests.make import workload
from tests.sim.autoscaling.made import deployment, group, node, pod, scalings, sizes, spec, steps, timeline


def test_a_node_joins_after_its_delay() -> None:
    made = timeline(group())
    made.create(12, pod("a"))
    history = mo.replay(made)
    # Scans are each 10 s.
    assert scalings(history) == [(20, "add", "small", 1, "1 pod")]
    assert history.pods().to_dict()["bound"] == [80]
    assert history.nodes().to_dict()["time"] == [0, 80]


def test_pods_that_fit_requested_nodes_request_no_more() -> None:
    made = timeline(group(), scanInterval="5s")
    for at in range(9):
        made.create(2 * at, pod(f"p{at}"))
    history = mo.replay(made)
    assert steps(history) == [(0, "add", "small", 1), (10, "add", "small", 1), (20, "add", "small", 1)]
    assert history.summary()["pending"] == 0


def test_larger_pods_go_first() -> None:
    made = timeline(group())
    for name, cpu in (("a", "1"), ("b", "1"), ("c", "3"), ("d", "3")):
        made.create(0, pod(name, cpu))
    assert steps(mo.replay(made)) == [(0, "add", "small", 2)]


def test_no_more_nodes_than_the_maximum() -> None:
    made = timeline(group(maxSize=2))
    for at in range(20):
        made.create(0, pod(f"p{at}"))
    history = mo.replay(made)
    assert steps(history) == [(0, "add", "small", 2)]
    assert history.summary()["placed"] == 8


def test_flags_limit_spread_and_delay() -> None:
    def grown(flags: dict[str, Any], *groups: dict[str, Any]) -> list[tuple[Any, ...]]:
        made = timeline(*(groups or (group(),)), flags=flags)
        for at in range(8):
            made.create(0, pod(f"p{at}"))
        return steps(mo.replay(made))

    assert grown({}) == [(0, "add", "small", 2)]
    assert grown({"maxNodesTotal": 2}) == [(0, "add", "small", 1)]  # one node of the cluster takes no pod
    assert grown({"maxCores": 5}) == [(0, "add", "small", 1)]
    assert grown({"newPodScaleUpDelay": "1m"}) == [(70, "add", "small", 2)]
    both = group("a"), group("b")
    spread = grown({"balanceSimilarNodeGroups": True}, *both)
    assert sorted(spread) == [(0, "add", "a", 1), (0, "add", "b", 1)]
    assert grown({}, group(zeroOrMaxNodeScaling=True, maxSize=5)) == [(0, "add", "small", 5)]


def test_a_group_has_its_minimum_from_the_start_and_gets_it_again() -> None:
    made = timeline(group(minSize=2))
    made.leave(100, "small-1")
    made.measure(200, "end")
    history = mo.replay(made)
    assert scalings(history) == [(100, "add", "small", 1, "minimum size")]
    assert sizes(history)["small"] == [1, 2, 1, 2]


def test_groups_whose_names_begin_alike_have_nodes_of_different_names() -> None:
    made = timeline(group("s_1", minSize=1), group("s-1", minSize=1))
    assert mo.replay(made).nodes().to_dict()["node"][1:] == ["s-1-1", "s-1-2"]


def test_a_new_node_has_no_taint_of_a_moment() -> None:
    template = node() | {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}}
    made = timeline(group(template=template))
    made.create(0, pod("a"))
    assert mo.replay(made).pods().to_dict()["bound"] == [60]


def test_nodes_of_the_cluster_belong_to_the_group_of_their_label() -> None:
    own = decode_object(
        node() | {"metadata": {"name": "small-1", "labels": {"moorage.dev/node-group": "small"}}}
    )
    made = timeline(group(minSize=1, maxSize=2), cluster=Cluster(nodes=[own]))  # type: ignore[list-item]
    for at in range(20):
        made.create(0, pod(f"p{at}"))
    history = mo.replay(made)
    assert steps(history) == [(0, "add", "small", 1)]
    assert history.nodes().to_dict()["node"] == ["small-1", "small-2"]


def test_pods_that_fit_no_template_and_expendable_pods_request_nothing() -> None:
    made = timeline(group())
    made.create(0, pod("large", "5"))
    made.create(0, pod("low", priority=-11))
    history = mo.replay(made)
    assert steps(history) == []
    assert history.summary()["pending"] == 2
    lower = timeline(group(), expendablePodsPriorityCutoff=-20)
    lower.create(0, pod("low", priority=-11))
    assert steps(mo.replay(lower)) == [(0, "add", "small", 1)]


def test_daemon_pods_take_room_on_new_nodes() -> None:
    daemon = workload("DaemonSet", "default/d", None, {"cpu": "2"})
    made = timeline(group())
    made.create(0, daemon)
    for at in range(4):
        made.create(0, pod(f"p{at}"))
    assert steps(mo.replay(made)) == [(0, "add", "small", 2)]


def test_the_engine_that_schedules_is_asked() -> None:
    # Zones of the pods keep them apart, so that each needs a node of its own.
    apart: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    ]}  # fmt: skip
    made = timeline(group())
    for at in range(3):
        own: dict[str, Any] = {"affinity": {"podAntiAffinity": apart}}
        made.create(0, kit.pod(f"p{at}", labels={"app": "a"}, **own))
    assert steps(mo.replay(made)) == [(0, "add", "small", 3)]


def test_pods_wait_for_nodes_after_the_last_event() -> None:
    made = timeline(group(provisionTime="1h59m"))
    made.create(0, pod("a"))
    history = mo.replay(made)
    assert history.pods().to_dict()["bound"] == [7140]


def test_time_travel_continues_the_autoscaler() -> None:
    made = timeline(group(), scaleDown={"unneededTime": "1m", "delayAfterAdd": 0})
    made.create(0, deployment("web", 3))
    made.create(5, pod("a"))
    made.scale(300, "deploy/web", 30)
    made.scale(900, "deploy/web", 2)
    made.measure(2000, "end")
    history = mo.replay(made)
    assert len(steps(history)) >= 3
    for time in (0, 59, 60, 61, 300, 400, 950, 1500, 2000):
        then = history.at(time)
        there = {
            name
            for at, name, is_there in zip(*history.nodes().to_dict().values(), strict=True)
            if at <= time and is_there
        } - {
            name
            for at, name, is_there in zip(*history.nodes().to_dict().values(), strict=True)
            if at <= time and not is_there
        }
        assert set(then.context.view_order()) == there


def test_other_timelines_have_the_autoscaler_and_the_measures() -> None:
    made = timeline(group())
    made.create(0, pod("a"))
    made.measures = ["utilization"]
    for other in (made.repeat(2), made.window(0, 10), made.without_bindings()):
        assert (other.autoscaler, other.measures) == (made.autoscaler, made.measures)
    assert steps(mo.replay(made.repeat(5))) == [(0, "add", "small", 2)]


def test_a_record_has_no_nodes_of_an_autoscaler() -> None:
    made = timeline(group())
    made.create(0, pod("a"))
    with pytest.raises(InputError, match="autoscaler: has nodes that no event of the timeline records"):
        mo.verify(mo.replay(made).record())


def test_a_timeline_is_pickled_with_its_autoscaler() -> None:
    made = timeline(group(), scaleDown={})
    made.create(0, pod("a"))
    again = pickle.loads(pickle.dumps(made))
    assert steps(mo.replay(again)) == steps(mo.replay(made)) != []


# ---- scenarios ---------------------------------------------------------------------------------------------

SCENARIO = """
apiVersion: replay.moorage.dev/v1
kind: Scenario
spec:
  templates:
    node: {apiVersion: v1, kind: Node, metadata: {name: small}, status: {allocatable: {cpu: "4", pods: "10"}}}
    pod: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}
  events: [{time: 0, create: pod}]
  autoscaler:
    nodeGroups: [{name: small, template: node, provisionTime: 30s}]
    expander: [priority, price]
    priorities: {10: [small]}
    scaleDown: {unneededTime: 5m}
"""


def test_a_scenario_describes_an_autoscaler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, again = tmp_path / "s.yaml", tmp_path / "again.yaml"
    path.write_text(SCENARIO.replace("provisionTime: 30s", "provisionTime: 30s, price: 1"))
    read = Timeline.read(path)
    read.write(again)
    assert read.autoscaler is not None
    assert Timeline.read(again).autoscaler == read.autoscaler
    assert spec_value(read.autoscaler)["scaleDown"] == {"unneededTime": 300}
    for file in (path, again):
        assert main(["replay", str(file), "--show", "scalings", "-o", "csv"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["time,action,group,nodes,reason", "0,add,small,1,1 pod"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodeGroups": []}, "autoscaler.nodeGroups: must have at least one node group"),
        ({"nodeGroups": [group(), group()]}, "nodeGroups: 2 node groups have the name small"),
        ({"nodeGroups": [group("a b")]}, r"nodeGroups\[0\].name: must be the value of a label"),
        (
            {"nodeGroups": [group(minSize=3, maxSize=2)]},
            r"nodeGroups\[0\].minSize: must be from 0 to maxSize \(2\), not 3",
        ),
        ({"nodeGroups": [group(price=-1)]}, r"nodeGroups\[0\].price"),
        ({"nodeGroups": [group(template="x")]}, r'nodeGroups\[0\].template: there is no template "x"'),
        ({"nodeGroups": [group(template={"apiVersion": "v1", "kind": "Pod"})]}, "must be a Node"),
        ({"nodeGroups": [group(provisionTime="soon")]}, r"nodeGroups\[0\].provisionTime"),
        ({"expander": "grpc"}, "autoscaler.expander: must be some of random"),
        ({"expander": ["random", "random"]}, "autoscaler.expander"),
        ({"expander": "priority"}, "autoscaler.priorities"),
        ({"priorities": {"1": ["a"]}}, "autoscaler.priorities"),
        ({"expander": "priority", "priorities": {"1": ["("]}}, "autoscaler.priorities.1"),
        ({"podPrices": {"cpu": 0}}, "autoscaler.podPrices"),
        ({"scanInterval": 0}, "autoscaler.scanInterval: must be at least"),
        ({"flags": {"maxNodes": 3}}, "autoscaler.flags.maxNodes: must be one of balanceSimilarNodeGroups, "),
        ({"flags": {"maxNodesTotal": "many"}}, "autoscaler.flags.maxNodesTotal: Expected `int`"),
        ({"flags": {"newPodScaleUpDelay": "soon"}}, "autoscaler.flags.newPodScaleUpDelay: "),
        ({"nodeGroups": [group(options={"maxCores": 3})]}, r"nodeGroups\[0\].options.maxCores: must be"),
        ({"scaleDown": {"utilizationThreshold": 2}}, "autoscaler.scaleDown.utilizationThreshold"),
        ({"scaleDown": {"maxScaleDownParallelism": 0}}, "autoscaler.scaleDown.maxScaleDownParallelism"),
    ],
)
def test_a_wrong_autoscaler_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Timeline().autoscale(spec(**({"nodeGroups": [group()]} | fields)))

"""Schedulers made of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.core.make import pinned
from tests.doors.engine import read_configuration, schedule_one
from tests.make import configuration as head
from tests.make import node, pod

import moorage as mo
from moorage import Scheduler
from moorage.errors import ConfigurationError
from moorage.kube import Cluster, Pod

NODES = [node("small", cpu=2, labels={"disk": "ssd"}), node("large", cpu=8)]


def config(*profiles: Any, **settings: Any) -> dict[str, Any]:
    return head(profiles=list(profiles), **settings)


def scheduler(configuration: Any, *pods: Pod, **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=NODES, pods=list(pods)), config=configuration, **settings)


@pytest.mark.parametrize(
    ("parallelism", "asked", "expected"),
    [(None, None, 4), (2, None, 2), (None, 1, 1), (2, 3, 3), (None, 99, 4), (99, None, 4)],
)
def test_threads_are_those_asked_for_up_to_the_cores(
    parallelism: int | None, asked: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(4)))
    given = {} if parallelism is None else {"parallelism": parallelism}
    one = scheduler(config(**given), threads=asked)
    assert [engine.search.threads for engine in one.engines.values()] == [expected]
    with pytest.raises(ValueError, match=r"^threads must be at least 1, not 0$"):
        Scheduler(threads=0)


WITHOUT = {
    "plugin": {"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}},
    "PreFilter": {"preFilter": {"disabled": [{"name": "NodeAffinity"}]}},
}


@pytest.mark.parametrize(("without", "feasible"), [("plugin", ["small", "large"]), ("PreFilter", ["large"])])
def test_named_nodes_restrict_the_search_by_pre_filter_alone(without: str, feasible: list[str]) -> None:
    made = scheduler(config({"plugins": WITHOUT[without]}))
    seen = made.examine(pod("p", affinity=pinned("large")))
    assert (seen.feasible, seen.pre_filter) == (feasible, None)
    away = schedule_one(made.context, pod("q", affinity=pinned("other")))
    if without == "plugin":
        assert away.node is not None
    else:
        assert away.fit_error == (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims "
            "to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )


@pytest.mark.parametrize("without", WITHOUT)
def test_pods_that_name_several_nodes_are_placed_in_one_call_as_one_by_one(without: str) -> None:
    asked = [
        pod(f"p{i}", requests={"cpu": 1}, affinity=pinned(("small", "large", "other")[i % 3]))
        for i in range(9)
    ]
    together, alone = (scheduler(config({"plugins": WITHOUT[without]})) for _ in range(2))
    rows = together.schedule_pods(asked).rows.tolist()
    assert rows == [alone.schedule_pods([one]).rows.tolist()[0] for one in asked]
    assert together.context.rotation.start == alone.context.rotation.start


def test_the_percentage_of_a_profile_wins() -> None:
    assert scheduler(config({}, percentageOfNodesToScore=30)).placer.decider.percentage == 30
    assert (
        scheduler(
            config({"percentageOfNodesToScore": 40}, percentageOfNodesToScore=30)
        ).placer.decider.percentage
        == 40
    )
    given = scheduler(config({}, percentageOfNodesToScore=30), percentage_of_nodes_to_score=50)
    assert given.placer.decider.percentage == 50


def test_a_plugin_of_ones_own_by_name() -> None:
    class Nowhere(mo.FilterPlugin):
        name = "Nowhere"

        def filter(self, state: Any, pod: Pod, node_info: Any) -> mo.Status | None:
            return mo.Status(mo.Code.UNSCHEDULABLE, (self.args["why"],))

    enabled = {"plugins": {"filter": {"enabled": [{"name": "Nowhere"}]}}}
    profile = enabled | {"pluginConfig": [{"name": "Nowhere", "args": {"why": "because"}}]}
    one = scheduler(config(profile), registry=mo.Registry({"Nowhere": Nowhere}))
    assert one.examine(pod("p")).fit_error == "0/2 nodes are available: 2 because."
    with pytest.raises(ConfigurationError) as caught:
        scheduler(config(profile))
    assert caught.value.stage == "new"
    assert caught.value.upstream.endswith('FilterPlugin "Nowhere" does not exist')


def test_a_configuration_is_read_from_each_kind_of_source(tmp_path: Path) -> None:
    """A file, a text, a mapping, and what was read before."""
    lines = [*(f"{key}: {value}" for key, value in head().items()), "percentageOfNodesToScore: 7"]
    text = "\n".join(lines)
    path = tmp_path / "config.yaml"
    path.write_text(text)
    read = read_configuration(text.encode())
    for source in (path, str(path), text.encode(), head(percentageOfNodesToScore=7), read):
        assert scheduler(source).placer.decider.percentage == 7


def test_unknown_gates_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^unrecognized feature gate: Nonsense$"):
        scheduler(config({}), feature_gates={"Nonsense": True})


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("InterPodAffinity", "failed to read"),
        ("TaintToleration", "failed to read"),
        ("PodTopologySpread", "error reading"),
    ],
)
def test_a_score_plugin_without_its_pre_score_fails_scored_cycles(plugin: str, words: str) -> None:
    """kube-scheduler v1.36 runs the plugin at Score alone where MultiPoint disables it."""
    enabled = {"multiPoint": {"disabled": [{"name": plugin}]}, "score": {"enabled": [{"name": plugin}]}}
    one = scheduler(config({"plugins": enabled}))
    missing = f'{words} "PreScore{plugin}" from cycleState: not found'
    error = f'running Score plugins: plugin "{plugin}" failed with: {missing}'
    assert one.examine(pod("p")).error == error
    one.client.create(pod("p"))
    one.client.create(pod("q", requests={"cpu": 3}))
    result = one.run()
    assert {key: failure.message for key, failure in result.unschedulable.items()} == {"default/p": error}
    assert result.placements == {"default/q": "large"}, "one feasible node is not scored"


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("NodePorts", "reading"),
        ("NodeResourcesFit", "error reading"),
        ("PodTopologySpread", "reading"),
        ("InterPodAffinity", "error reading"),
    ],
)
def test_a_filter_without_its_pre_filter_fails_where_it_is_asked(plugin: str, words: str) -> None:
    enabled = {"multiPoint": {"disabled": [{"name": plugin}]}, "filter": {"enabled": [{"name": plugin}]}}
    one = scheduler(config({"plugins": enabled}))
    error = f'running "{plugin}" filter plugin: {words} "PreFilter{plugin}" from cycleState: not found'
    assert one.examine(pod("p")).error == error
    assert schedule_one(one.context, pod("p")).error == error
    assert one.examine(pod("p", node_name="nowhere")).fit_error != ""


def test_dynamic_resources_cannot_score_without_its_pre_filter() -> None:
    named = [{"name": "DynamicResources"}]
    enabled = {"multiPoint": {"disabled": named}, "score": {"enabled": named}}
    one = scheduler(config({"plugins": enabled}), pod("q", requests={"cpu": 3}))
    error = 'running Score plugins: plugin "DynamicResources" failed with: not found'
    assert schedule_one(one.context, pod("p")).error == error
    assert one.run().placements == {"default/q": "large"}, "one feasible node is not scored"

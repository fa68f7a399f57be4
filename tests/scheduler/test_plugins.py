"""A plugin at each extension point changes what becomes of a pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.framework.make import make, status
from tests.make import node, pod
from tests.scheduler.make import scheduler_with, searched

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Answers, Code, NominatingInfo, PreFilterResult, Status
from moorage.kube import Pod, PodSchedulingGate, PodStatus

UNSCHEDULABLE, UNRESOLVABLE, SKIPPED = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.SKIP
GPU = "nvidia.com/gpu"


class GpuPack(mo.ScorePlugin):
    name = "GpuPack"

    def score_all(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Any:
        free = nodes.allocatable[GPU] - nodes.requested[GPU]
        return 100 - np.minimum(free, 100)


def placed(one: Scheduler) -> dict[str, str]:
    result = one.run()
    assert {key: failure.message for key, failure in result.unschedulable.items()} == {}
    return {key.removeprefix("default/"): node for key, node in result.placements.items()}


def message(one: Scheduler, name: str = "p") -> str:
    return searched(one.run().unschedulable[f"default/{name}"].message)


def prefers(*order: str) -> Any:
    """A Score plugin that prefers nodes in this order."""
    return make(mo.ScorePlugin, "Prefers", score=lambda s, st, p, info: 100 - order.index(info.name))


# ---- the queue ---------------------------------------------------------------------------------------------


def test_pre_enqueue_keeps_a_pod_out() -> None:
    plugin = make(
        mo.PreEnqueuePlugin, "Gate", pre_enqueue=lambda self, p: status(UNSCHEDULABLE, f"not {p.name}")
    )
    one = scheduler_with(plugin, pods=[pod("p"), pod("q", scheduling_gates=(PodSchedulingGate(name="g"),))])
    assert one.run().skipped == {"default/p": "Gate: not p", "default/q": "gated"}


class ByName(mo.QueueSortPlugin):
    name = "ByName"

    def less(self, a: Any, b: Any) -> bool:
        return bool(a.pod.name < b.pod.name)


def test_queue_sort_decides_who_goes_first() -> None:
    plugins = [ByName() if p.name == "PrioritySort" else p for p in default_profile().plugins]
    pods = [pod(name, requests={"cpu": 3}) for name in ("c", "a", "b")]
    cluster = mo.Cluster(nodes=[node("n")], pods=pods)
    result = Scheduler(cluster, profile=mo.Profile(plugins)).run()
    assert list(result.placements) == ["default/a"]
    assert list(result.unschedulable) == ["default/b", "default/c"]


def test_the_default_order_is_that_of_less() -> None:
    sort = default_profile().at(mo.QueueSortPlugin)[0]
    plain = {"PrioritySort": make(mo.QueueSortPlugin, "Sort", less=lambda self, a, b: sort.less(a, b))}
    plugins = [plain.get(p.name, p) for p in default_profile().plugins]
    pods = [pod("low"), pod("high", priority=9), pod("alike"), pod("last", priority=-1)]
    cluster = mo.Cluster(nodes=[node("n")], pods=pods)
    assert list(placed(Scheduler(cluster, profile=mo.Profile(plugins)))) == ["high", "low", "alike", "last"]


# ---- filtering ---------------------------------------------------------------------------------------------


def test_pre_filter_rejects() -> None:
    plugin = make(mo.PreFilterPlugin, "No", pre_filter=status(UNRESOLVABLE, "not this pod"))
    assert message(scheduler_with(plugin, pods=[pod("p")])) == "0/3 nodes are available: not this pod."


def test_pre_filter_fails() -> None:
    plugin = make(mo.PreFilterPlugin, "No", pre_filter=ValueError("boom"))
    text = 'running PreFilter plugin "No": plugin "No" raised ValueError: boom'
    assert message(scheduler_with(plugin, pods=[pod("p")])) == text
    assert (
        scheduler_with(make(mo.PreFilterPlugin, "No", pre_filter=ValueError("boom"))).examine(pod("p")).error
        == text
    )


class Picky(mo.PreFilterPlugin, mo.FilterPlugin):
    """Rejects every node, unless its PreFilter skips."""

    name = "Picky"
    skips = False

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> Status | None:
        return status(SKIPPED) if self.skips else None

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        return status(UNSCHEDULABLE, "too picky")


def test_pre_filter_skips_its_filter() -> None:
    plugin = Picky()
    one = scheduler_with(plugin, pods=[pod("p")])
    assert message(one) == "0/3 nodes are available: 3 too picky."
    plugin.skips = True
    assert placed(one) == {"p": "a"}
    assert "Picky" in one.examine(pod("q")).skipped_filter


def test_nodes_that_pre_filter_names_are_searched_alone() -> None:
    asked: list[str] = []

    def filter(self: Any, state: Any, pod: Pod, info: Any) -> Status | None:
        asked.append(info.name)
        return status(UNSCHEDULABLE, "no") if pod.name == "q" else None

    names = make(mo.PreFilterPlugin, "Names", pre_filter=PreFilterResult(frozenset(("b", "gone"))))
    one = scheduler_with(names, make(mo.FilterPlugin, "F", filter=filter), pods=[pod("p"), pod("q")])
    seen = one.examine(pod("x"))
    assert seen.pre_filter is not None
    assert (seen.pre_filter.node_names, seen.pre_filter.plugins) == (["b", "gone"], ["Names"])
    assert seen.feasible == asked == ["b"]
    result = one.run()
    assert result.placements == {"default/p": "b"}
    text = "0/3 nodes are available: 1 no, 2 node(s) didn't satisfy plugin(s) [Names]."
    assert searched(result.unschedulable["default/q"].message) == text
    assert set(asked) == {"b"}


def only(*names: str) -> Any:
    def filter(self: Any, state: Any, pod: Pod, info: Any) -> Status | None:
        return None if info.name in names else status(UNSCHEDULABLE, f"not {info.name}")

    return make(mo.FilterPlugin, "Only", filter=filter)


def test_filter_node_by_node() -> None:
    one = scheduler_with(only("b"), pods=[pod("p")])
    seen = one.examine(pod("q"))
    assert {name: (s.plugin, s.reasons) for name, s in seen.rejected.items()} == {
        "a": ("Only", ("not a",)),
        "c": ("Only", ("not c",)),
    }
    assert placed(one) == {"p": "b"}


def test_filter_all_nodes_at_once() -> None:
    class Big(mo.FilterPlugin):
        name = "Big"
        filter_reason = "node is small"

        def filter_all(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Any:
            return nodes.allocatable["cpu"] > 4000

    nodes = [node("a"), node("b", cpu=8), node("c")]
    assert placed(scheduler_with(Big(), pods=[pod("p")], nodes=nodes)) == {"p": "b"}
    one = scheduler_with(Big(), pods=[pod("p", requests={"cpu": 9})], nodes=nodes)
    assert message(one) == "0/3 nodes are available: 3 Insufficient cpu."
    one = scheduler_with(Big(), pods=[pod("p", requests={"cpu": 5})], nodes=nodes[::2])
    assert message(one) == "0/2 nodes are available: 2 Insufficient cpu."
    one = scheduler_with(Big(), pods=[pod("p")], nodes=nodes[::2])
    assert message(one) == "0/2 nodes are available: 2 node is small."


def test_filters_run_in_profile_order() -> None:
    asked: list[str] = []

    def filter(self: Any, state: Any, pod: Pod, info: Any) -> Status | None:
        asked.append(info.name)
        return status(UNSCHEDULABLE, "no")

    plugin = make(mo.FilterPlugin, "No", filter=filter)
    nodes = [node("a", cpu=1), node("b"), node("c")]
    one = scheduler_with(plugin, pods=[pod("p", requests={"cpu": 2})], nodes=nodes)
    assert message(one) == "0/3 nodes are available: 1 Insufficient cpu, 2 no."
    assert asked == ["b", "c"]  # what NodeResourcesFit rejects is not asked about, and nothing twice


def test_a_filter_error_on_one_node_fails_the_cycle() -> None:
    def filter(self: Any, state: Any, pod: Pod, info: Any) -> Status | None:
        if info.name == "b":
            raise ValueError("boom")
        return None

    one = scheduler_with(make(mo.FilterPlugin, "Bad", filter=filter), pods=[pod("p")])
    text = 'running "Bad" filter plugin: plugin "Bad" raised ValueError: boom'
    assert message(one) == text
    assert one.examine(pod("q")).error == text
    assert schedule_one(one.context, pod("q")).error == text
    assert not one.cache.state.has_pod(pod("p"))


WORDS = None, status(UNSCHEDULABLE, "x"), status(UNRESOLVABLE, "y", "z")


def said(*numbers: float, words: Any = WORDS) -> Answers:
    """What filter_all answers in statuses of its own, by their places."""
    return Answers(np.array(numbers), words)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([True], 'filter_all of plugin "All" answered shape (1,) for 3 nodes'),
        ([0, 1, 0], 'filter_all of plugin "All" answered neither booleans nor codes of Filter'),
        ([0.0, 2.0, 0.0], 'filter_all of plugin "All" answered neither booleans nor codes of Filter'),
        (said(0, 1), 'filter_all of plugin "All" answered shape (2,) for 3 nodes'),
        (said(0, 1, 3), 'filter_all of plugin "All" answered numbers of no status'),
        (said(0, 1, -1), 'filter_all of plugin "All" answered numbers of no status'),
        (said(0.0, 1.0, 1.0), 'filter_all of plugin "All" answered numbers of no status'),
        (said(0, 1, 0, words=(None, "no")), 'plugin "All" answered str, not a Status'),
        (said(0, 1, 0, words=(None, status(Code.ERROR, "boom"))), "boom"),
    ],
)
def test_what_filter_all_may_not_answer(answer: Any, text: str) -> None:
    one = scheduler_with(make(mo.FilterPlugin, "All", filter_all=answer), pods=[pod("p")])
    assert message(one) == f'running "All" filter plugin: {text}'


def test_filter_all_may_answer_codes() -> None:
    codes = [0, 2, 3]
    one = scheduler_with(make(mo.FilterPlugin, "All", filter_all=codes))
    seen = one.examine(pod("q"))
    assert seen.feasible == ["a"]
    assert {name: s.code for name, s in seen.rejected.items()} == {"b": UNSCHEDULABLE, "c": UNRESOLVABLE}


def test_filter_all_may_answer_statuses() -> None:
    """An error among them counts where a node has it."""
    answer = said(2, 0, 1, words=(*WORDS, status(Code.ERROR, "boom")))
    seen = scheduler_with(make(mo.FilterPlugin, "All", filter_all=answer)).examine(pod("q"))
    assert seen.feasible == ["b"]
    assert {name: (s.code, s.reasons) for name, s in seen.rejected.items()} == {
        "a": (UNRESOLVABLE, ("y", "z")),
        "c": (UNSCHEDULABLE, ("x",)),
    }


def test_post_filter_nominates_and_adds_to_the_message() -> None:
    seen: dict[str, Status] = {}

    def post_filter(self: Any, state: Any, pod: Pod, statuses: Any) -> Any:
        seen.update(statuses)
        return NominatingInfo("b"), status(UNSCHEDULABLE, "made room on b")

    one = scheduler_with(
        only(), make(mo.PostFilterPlugin, "Room", post_filter=post_filter), pods=[pod("p")], nodes=[
            node("a"), node("b", cpu=1)
        ]
    )  # fmt: skip
    one_pod = one.pods.pending["default/p"]
    decision = schedule_one(one.context, one_pod)
    vain = "0/2 nodes are available: 2 No preemption victims found for incoming pod."
    others = f"no new claims to deallocate, preemption: {vain}"
    text = f"0/2 nodes are available: 1 not a, 1 not b. {others}, made room on b"
    assert decision.fit_error == text
    assert {name: (s.code, s.reasons) for name, s in seen.items()} == {
        "a": (UNSCHEDULABLE, ("not a",)),
        "b": (UNSCHEDULABLE, ("not b",)),
    }
    assert [p.name for p in one.handle.nominator.nominated_pods_for_node("b")] == ["p"]
    stored = one.client.get(Pod, "p", "default")
    assert stored.status.nominated_node_name == "b"
    assert [(c.type, c.status, c.reason, c.message) for c in stored.status.conditions] == [
        ("PodScheduled", "False", "Unschedulable", text)
    ]


def test_post_filter_hears_of_a_pre_filter_rejection_too() -> None:
    seen: dict[str, Status] = {}
    plugins = (
        make(mo.PreFilterPlugin, "No", pre_filter=status(UNSCHEDULABLE, "no")),
        make(mo.PostFilterPlugin, "Room", post_filter=lambda s, st, p, told: (None, seen.update(told))),
    )
    message(scheduler_with(*plugins, pods=[pod("p")]))
    assert {name: s.reasons for name, s in seen.items()} == dict.fromkeys("abc", ("no",))


# ---- scoring -----------------------------------------------------------------------------------------------


def test_the_scores_of_a_plugin_decide() -> None:
    one = scheduler_with(
        prefers("c", "b", "a"), pods=[pod("p")], profile={"weight_overrides": {"Prefers": 9}}
    )
    assert one.examine(pod("q")).normalized["Prefers"].tolist() == [98, 99, 100]
    assert placed(one) == {"p": "c"}


def test_ten_lines_are_enough() -> None:
    nodes = [node(name, **{GPU: gpus}) for name, gpus in (("a", 8), ("b", 2), ("c", 4))]
    assert placed(scheduler_with(GpuPack(), pods=[pod("p")], nodes=nodes)) == {"p": "b"}


class Scaled(mo.PreScorePlugin, mo.ScorePlugin):
    """Scores by a table of its own that PreScore writes, and normalizes."""

    name = "Scaled"
    skips = False

    def pre_score(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Status | None:
        state.write("order", {name: at for at, name in enumerate(nodes.names)})
        return status(SKIPPED) if self.skips else None

    def score(self, state: Any, pod: Pod, node_info: Any) -> int:
        return int(state.read("order")[node_info.name]) * 1000

    def normalize_score(self, state: Any, pod: Pod, scores: Any) -> Any:
        return scores * 100 // max(scores.max(), 1)


def test_pre_score_and_normalize() -> None:
    plugin = Scaled()
    one = scheduler_with(plugin, only("a", "b", "c"), pods=[pod("p"), pod("q")])
    seen = one.examine(pod("x"))
    assert (seen.raw["Scaled"].tolist(), seen.normalized["Scaled"].tolist()) == (
        [0, 1000, 2000],
        [0, 50, 100],
    )
    assert schedule_one(one.context, one.pods.pending["default/p"]).node == "c"
    plugin.skips = True
    assert "Scaled" in one.examine(pod("x")).skipped_score
    assert schedule_one(one.context, one.pods.pending["default/q"]).node == "a"


def test_score_errors_fail_the_cycle_where_two_nodes_are_feasible() -> None:
    failing = make(mo.ScorePlugin, "Bad", score=lambda s, st, p, i: 101)
    text = (
        'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score 101, '
        "it should in the range of [0, 100] after normalizing"
    )
    one = scheduler_with(failing, pods=[pod("p")])
    assert one.examine(pod("q")).error == text
    assert message(one) == text
    assert placed(scheduler_with(make(mo.ScorePlugin, "Bad", score=101), only("b"), pods=[pod("p")])) == {
        "p": "b"
    }


def test_pre_score_errors_fail_the_cycle_where_two_nodes_are_feasible() -> None:
    text = 'running PreScore plugin "Bad": broken'
    failing = make(mo.PreScorePlugin, "Bad", pre_score=status(Code.ERROR, "broken"))
    assert message(scheduler_with(failing, pods=[pod("p")])) == text
    failing = make(mo.PreScorePlugin, "Bad", pre_score=status(Code.ERROR, "broken"))
    one = scheduler_with(failing, only("b"), pods=[pod("p")])
    assert one.examine(pod("q")).error == ""
    assert placed(one) == {"p": "b"}


def test_the_search_stops_when_enough_nodes_are_feasible() -> None:
    asked: set[str] = set()

    def filter(self: Any, state: Any, pod: Pod, info: Any) -> Status | None:
        asked.add(info.name)
        return None

    nodes = [node(f"n{at}", zone=f"z{at % 3}") for at in range(1000)]
    one = scheduler_with(make(mo.FilterPlugin, "Any", filter=filter), nodes=nodes, pods=[pod("p")])
    decision = schedule_one(one.context, one.pods.pending["default/p"])
    assert (len(decision.feasible), decision.evaluated) == (420, 420)
    assert len(asked) < 1000


def test_image_counts_of_a_node_are_those_of_when_it_last_changed_for_scheduling() -> None:
    told: dict[str, int] = {}

    def look(self: Any, state: Any, p: Pod, info: Any) -> int:
        told[info.name] = info.image_states["i"].num_nodes
        return 0

    plugin = make(mo.ScorePlugin, "Look", score=look)
    images = [(["i"], 5)]
    one = scheduler_with(plugin, pods=[pod("p")], nodes=[node("a", images=images), node("b", images=images)])
    one.run()
    assert told == {"a": 2, "b": 2}


def test_plugins_and_kernels_decide_as_kernels_alone() -> None:
    """Plugins that say yes to everything change nothing, whatever the tie-break and the sample."""
    nodes = [node(f"n{at}", cpu=1 + at % 5, memory=f"{1 + at % 4}Gi") for at in range(150)]
    pods = [pod(f"p{at}", requests={"cpu": f"{250 * (1 + at % 3)}m"}) for at in range(300)]
    for tie_break in ("first", "go-heap", "random"):
        plain = Scheduler(mo.Cluster(nodes=nodes, pods=pods), tie_break=tie_break, seed=3).run()
        yes = make(mo.FilterPlugin, "Yes", filter_all=lambda s, st, p, nodes: np.ones(len(nodes), dtype=bool))
        zero = make(mo.ScorePlugin, "Zero", score_all=lambda s, st, p, nodes: np.zeros(len(nodes)))
        ours = scheduler_with(yes, zero, nodes=nodes, pods=pods, tie_break=tie_break, seed=3).run()
        assert ours.placements == plain.placements
        assert {k: f.message for k, f in ours.unschedulable.items()} == {
            k: f.message for k, f in plain.unschedulable.items()
        }


def test_nominated_pods_count_for_plugins_too() -> None:
    """A node is full for a plugin with the pods that are nominated there, and says so; alone it is not."""

    def filter(self: Any, state: Any, pod: Pod, info: Any) -> Status | None:
        return status(UNSCHEDULABLE, f"{len(info.pods)} there") if info.pods else None

    one = scheduler_with(make(mo.FilterPlugin, "Alone", filter=filter), nodes=[node("a"), node("b")])
    urgent = pod("urgent", priority=9)
    one.client.create(replace(urgent, status=PodStatus(nominated_node_name="a")))
    one.sync()
    assert {n: s.reasons for n, s in one.examine(pod("x")).rejected.items()} == {"a": ("1 there",)}
    assert one.examine(pod("higher", priority=10)).rejected == {}


def test_a_nomination_without_evictions_is_tried_again_once() -> None:
    asked: list[str] = []

    def post_filter(self: Any, state: Any, pod: Pod, statuses: Any) -> Any:
        asked.append(pod.name)
        return NominatingInfo("a"), None

    plugin = make(mo.PostFilterPlugin, "Hopes", post_filter=post_filter)
    pods = [pod("p", requests={"cpu": 2})]
    result = scheduler_with(only(), plugin, pods=pods, nodes=[node("a", cpu=1)]).run()
    assert set(result.unschedulable) == {"default/p"}
    assert asked == ["p", "p"]

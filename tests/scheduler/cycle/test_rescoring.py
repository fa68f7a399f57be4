"""Opportunistic batching of kube-scheduler v1.37: the node chosen last is scored again where the next equal
pod fits there too (framework/runtime/batch.go rescoreHintedNode)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.make import ZONE, container, node, pod
from tests.scheduler.cycle.test_opportunistic_batching import (
    cycles,
    outcomes,
    scheduler,
    unspread,
)
from tests.scheduler.make import Clock

from moorage import RowPlugin, Scheduler
from moorage.engine.framework import Code, FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin, Status
from moorage.engine.scheduler import Profile
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    WeightedPodAffinityTerm,
)

NEW: dict[str, Any] = {"kubernetes_version": "1.37"}


def small(name: str, **spec: Any) -> Pod:
    return pod(name, requests={"cpu": 1}, **spec)


def preferring(kinds: dict[str, int]) -> Affinity:
    """Preferred node affinity to nodes of these kinds, with their weights."""
    terms = [
        PreferredSchedulingTerm(weight, NodeSelectorTerm((NodeSelectorRequirement("kind", "In", (kind,)),)))
        for kind, weight in kinds.items()
    ]
    return Affinity(node_affinity=NodeAffinity(preferred=tuple(terms)))


def preferring_pods(app: str, weight: int) -> Affinity:
    """Preferred affinity to the zones of pods of an app."""
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": app}), topology_key=ZONE)
    preferred = (WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term),)
    return Affinity(pod_affinity=PodAffinity(preferred=preferred))


def by_name(found: list[tuple[str | None, bool]]) -> str:
    """The nodes of decisions, in capitals where they were hints."""
    return "".join((name or "-").upper() if hinted else name or "-" for name, hinted in found)


def test_the_age_of_a_list_counts_from_its_search() -> None:
    clock = Clock(7.0)
    one = scheduler(clock=clock, **NEW)
    found = []
    for at in range(4):
        found += outcomes(one, small(f"p{at}"))
        clock.now += 0.2
    assert [hinted for _, hinted in found] == [False, True, True, False]


@pytest.mark.parametrize(("version", "cpu"), [("1.36", 3), ("1.37", 3), ("1.37", 1.5)])
def test_a_batch_searches_where_the_proposed_node_is_full(version: str, cpu: float) -> None:
    """c would be next; of 1.5 cpu two fit on d, where what is left is no better than on b."""
    together, single = (scheduler(kubernetes_version=version) for _ in range(2))
    pods = [pod(f"p{at}", requests={"cpu": cpu}) for at in range(4)]
    for one in (together, single):
        schedule_one(one.context, pods[0])
        one.client.create(pod("other", on="c", requests={"cpu": 3}))
        one.sync()
    expected = [node for node, _ in outcomes(single, *pods[1:])]
    assert expected[0] == "b"
    assert together.schedule_pods(pods[1:]).nodes == expected
    assert (together.table.requested["cpu"] <= together.table.allocatable["cpu"]).all()


def test_a_rollback_takes_scores_back() -> None:
    """Within the transaction the nodes get scores that the pods which are undone have changed."""
    one, other = scheduler(nodes=3, **NEW), scheduler(nodes=3, **NEW)
    pods = [small(f"p{at}") for at in range(8)]
    expected = by_name(outcomes(other, *pods))
    assert by_name(outcomes(one, *pods[:3])) == expected[:3]
    for _ in range(2):
        with one.cache.transaction():
            assert by_name(outcomes(one, *pods[3:7])) == expected[3:7]
    assert by_name(outcomes(one, *pods[3:])) == expected[3:]


# ---- what is chosen

TEMPLATES: list[dict[str, Any]] = [
    {"labels": {"app": "a"}, "requests": {"cpu": 1}},
    {"labels": {"app": "b"}, "requests": {"cpu": "300m", "memory": "1Gi"}},
    {"labels": {"app": "a"}, "affinity": preferring({"x": 10, "y": 3}), "requests": {"cpu": "500m"}},
    {"containers": (container(image="example.com/large:1", requests={"cpu": "700m"}),)},
]
TAINT = Taint(key="t", effect="PreferNoSchedule")
TAINTS = (), (TAINT,), (TAINT, replace(TAINT, key="u")), (replace(TAINT, effect="NoSchedule"),)
IMAGES = (), ((("example.com/large:1",), 900 * 2**20),)


@st.composite
def nodes_of(draw: st.DrawFn, name: str) -> Node:
    labels = {"kind": draw(st.sampled_from("xyz"))}
    taints = TAINTS[draw(st.sampled_from([0, 0, 0, 1, 2, 3]))]
    zone, images, cpu = draw(st.sampled_from("mn")), draw(st.sampled_from(IMAGES)), draw(st.integers(1, 4))
    return node(name, zone=zone, labels=labels, taints=taints, images=images, cpu=cpu)


@given(st.data(), st.sampled_from(["first", "go-heap"]))
def test_batches_decide_as_single_cycles_do(data: st.DataObject, tie_break: str) -> None:
    names = [f"n{at}" for at in range(data.draw(st.integers(1, 9)))]
    nodes = [data.draw(nodes_of(name)) for name in names]
    near = [
        pod(f"near-{app}", on=names[0], affinity=preferring_pods(app, 5))
        for app in data.draw(st.lists(st.sampled_from("ab"), unique=True))
    ]
    kinds = data.draw(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "", "", "n0"])), min_size=2, max_size=12)
    )
    repeated = [one for one in kinds for _ in range(data.draw(st.integers(1, 4)))]
    pods = [pod(f"p{at}", nominated=to, **TEMPLATES[kind]) for at, (kind, to) in enumerate(repeated)]
    together, single = (
        Scheduler(Cluster(nodes=nodes, pods=near), profile=unspread(), tie_break=tie_break, **NEW)
        for _ in range(2)
    )
    assert together.schedule_pods(pods).nodes == [node for node, _ in outcomes(single, *pods)]
    lists = [one.context.rotation.engines[0].batching.scored for one in (together, single)]
    kept = [
        None if each is None else (each.last_row(one.table), len(each), each.created)
        for one, each in zip((together, single), lists, strict=True)
    ]
    assert kept[0] == kept[1]
    assert together.placer.decider.start == single.placer.decider.start


@pytest.mark.parametrize("verb", ["run", "schedule_pods", "schedule_by_template"])
def test_pods_of_a_batch_follow_the_list_without_cycles(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [small(f"p{at}", labels={"a": "b"}) for at in range(8)]
    expected = [node for node, _ in outcomes(scheduler(nodes=3, **NEW), *pods)]
    one, alone = scheduler(*(pods if verb == "run" else ()), nodes=3, **NEW), cycles(monkeypatch)
    if verb == "run":
        nodes = list(one.run().placements.values())
    elif verb == "schedule_pods":
        nodes = list(one.schedule_pods(pods).nodes)
    else:
        nodes = list(one.schedule_by_template(pods[0], 8).nodes)
    assert (nodes, alone) == (expected, [0])


def test_a_fork_begins_without_a_list() -> None:
    one = scheduler(nodes=3, **NEW)
    schedule_one(one.context, small("p"))
    other = one.fork()
    assert by_name(outcomes(one, *(small(f"q{at}") for at in range(3)))) == "BAC"
    assert by_name(outcomes(other, *(small(f"q{at}") for at in range(3)))) == "bAC"


# ---- plugins outside the core


class Ranks(FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin):
    """Ranks nodes by their name, and counts what it is asked. Fails, skips or filters where it is told to."""

    name = "Ranks"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.skips = False
        self.failing = ""
        self.highest = 100

    def sign_pod(self, pod: Pod) -> None:
        return None

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        return None

    def pre_score(self, state: Any, pod: Pod, nodes: Any) -> Status | None:
        assert state.find("Ranks") is None, "what PreScore writes for a hint does not reach the search"
        state.write("Ranks", len(nodes))
        self.asked.append("pre " + "".join(nodes.names))
        if self.failing == "pre_score":
            return Status(Code.ERROR, ("broken",))
        return Status(Code.SKIP) if self.skips else None

    def score(self, state: Any, pod: Pod, node_info: Any) -> int:
        assert state.read("Ranks")
        self.asked.append("score " + node_info.name)
        if self.failing == "score":
            raise RuntimeError("broken")
        return 10 * ord(node_info.name)

    def normalize_score(self, state: Any, pod: Pod, scores: Any) -> Any:
        self.asked.append(f"normalize {(scores // 10).tolist()}")
        if self.failing == "normalize_score":
            raise RuntimeError("broken")
        return self.highest * (scores - scores.min()) // max(1, scores.max() - scores.min())


def with_plugin(plugin: Any) -> tuple[Scheduler, list[Pod]]:
    """A scheduler of three nodes whose profile has this plugin, and equal pods of its store."""
    pods = [small(f"p{at}") for at in range(8)]
    profile = Profile((plugin, *unspread().plugins), weight_overrides={plugin.name: 50})
    one = Scheduler(Cluster(nodes=[node(name) for name in "abc"]), profile=profile, **NEW)
    one.client.create_many(pods)
    return one, pods


def test_a_plugin_scores_the_last_node_alone_and_normalizes_all() -> None:
    plugin = Ranks()
    one, pods = with_plugin(plugin)
    assert by_name(outcomes(one, pods[0])) == "c"
    asked = ["pre abc", *(f"score {name}" for name in "abc"), f"normalize {[*map(ord, 'abc')]}"]
    assert plugin.asked == asked
    plugin.asked.clear()
    assert by_name(outcomes(one, pods[1])) == "C"
    rest = plugin.asked[0].removeprefix("pre ")
    assert sorted(rest) == ["a", "b", "c"]
    assert rest[-1] == "c", "the last node comes after those that are left"
    assert plugin.asked[1:] == ["score c", f"normalize {[*map(ord, rest)]}"]


def test_a_plugin_that_skips_counts_for_no_node() -> None:
    plugin = Ranks()
    one, pods = with_plugin(plugin)
    plugin.skips = True
    assert by_name(outcomes(one, *pods[:3])) == "aCB"
    plugin.skips = False
    plugin.asked.clear()
    assert by_name(outcomes(one, pods[3])) == "B", "alone has a score: the others have 0"
    assert plugin.asked[-1].count("0") == 2
    plugin.skips = True
    assert by_name(outcomes(one, pods[4])) in ("A", "C"), "scores that there are do not count"


@pytest.mark.parametrize("point", ["pre_score", "score", "normalize_score", "range"])
def test_a_failing_plugin_drops_the_list(point: str) -> None:
    plugin = Ranks()
    one, pods = with_plugin(plugin)
    schedule_one(one.context, pods[0])
    plugin.failing, plugin.highest = point, 101 if point == "range" else 100
    decision = schedule_one(one.context, pods[1])
    assert (decision.node, bool(decision.error)) == (None, True), "the search fails, too"
    plugin.failing, plugin.highest = "", 100
    assert by_name(outcomes(one, pods[2])) == "c"


class FailsOnce(ScorePlugin, SignPlugin):
    """Fails for the hint of the second pod, and not in the search after it."""

    name = "FailsOnce"
    times = 0

    def sign_pod(self, pod: Pod) -> None:
        return None

    def score(self, state: Any, pod: Pod, node_info: Any) -> int:
        self.times += 1
        if self.times == 4:
            raise RuntimeError("broken")
        return 0


def test_after_a_failure_for_a_hint_all_nodes_are_searched() -> None:
    one, pods = with_plugin(FailsOnce())
    assert by_name(outcomes(one, *pods[:3])) == "abC"


class ByRow(RowPlugin, ScorePlugin, SignPlugin):
    """Scores a node by its row, in the core's loop."""

    name = "ByRow"

    def sign_pod(self, pod: Pod) -> None:
        return None

    def score_rows(self, rows: Any) -> Any:
        return 7 * rows.astype("int64")

    def normalize_rows(self, scores: Any) -> Any:
        return 100 * scores // max(1, scores.max())


def test_a_plugin_that_the_loop_asks_about_rows_scores_the_last_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def one() -> Scheduler:
        return with_plugin(ByRow())[0]

    pods = [small(f"p{at}") for at in range(8)]
    found = outcomes(one(), *pods)
    assert all(hinted for _, hinted in found[1:])
    alone = cycles(monkeypatch)
    assert one().schedule_pods(pods).nodes == [node for node, _ in found]
    assert alone == [0]

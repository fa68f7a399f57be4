"""A decision in parts: find, score and pick come to what decide comes to; and what they do beyond that."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core.made_up import make_node, make_pod, make_spec
from tests.core.make import ZONE, node, pinned, pod
from tests.doors.engine import Placer, group_by_verdict

from moorage import Scheduler
from moorage.framework import StatusError
from moorage.objects import Cluster, LabelSelector, Pod, TopologySpreadConstraint, decode_object


def in_parts(placer: Placer, target: tuple[int, int, int]) -> tuple[object, ...]:
    """What `Placer.decide` answers, by its parts."""
    start, looked_at, positions = placer.decider.find(*target)
    rows = placer.search.state.view.rows()[positions]
    assert set(rows) <= set(looked_at)
    assert len(set(looked_at.tolist())) == len(looked_at)
    totals = placer.decider.score(rows, *target) if len(rows) > 1 else None
    row = -1
    if len(rows):
        row = rows[0 if totals is None else placer.decider.pick(totals)]
    return row, start, len(looked_at), positions.tolist(), None if totals is None else totals.tolist()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**64),
    st.sampled_from([1, 2, 30, 130]),
    st.sampled_from([0, 7, 100]),
    st.sampled_from(["first", "go-heap"]),
)
def test_the_parts_of_a_decision(seed: int, nodes: int, percentage: int, tie_break: str) -> None:
    random = Random(seed)
    cluster = Cluster(nodes=[decode_object(make_node(random, at)) for at in range(nodes)])  # type: ignore[misc]
    one = Scheduler(cluster, percentage_of_nodes_to_score=percentage, tie_break=tie_break)
    for at in range(8):
        waiting = decode_object(make_pod(f"p{at}", make_spec(random, nodes)))
        target = one.context.target_of(waiting)  # type: ignore[arg-type]
        start = one.placer.decider.start
        parts, after = in_parts(one.placer, target), one.placer.decider.start
        one.placer.decider.start = start
        row, began, evaluated, positions, totals = one.placer.decider.decide(*target)
        whole = row, began, evaluated, positions.tolist(), None if totals is None else totals.tolist()
        assert (parts, after) == (whole, one.placer.decider.start)
        if row >= 0:
            one.context.assume(waiting, one.table.row_name(row))  # type: ignore[arg-type]


def three() -> Scheduler:
    return Scheduler(Cluster(nodes=[node(name) for name in "abc"]), tie_break="go-heap", seed=5)


def test_only_the_rows_that_were_looked_at() -> None:
    one = three()
    one.placer.decider.start = 1
    start, looked_at, positions = one.placer.decider.find(
        *one.context.target_of(pod("p", affinity=pinned("c")))
    )
    assert (start, looked_at.tolist(), positions.tolist(), one.placer.decider.start) == (1, [2], [2], 2)
    start, looked_at, positions = one.placer.decider.find(
        *one.context.target_of(pod("p", affinity=pinned("x")))
    )
    assert (start, looked_at.tolist(), positions.tolist(), one.placer.decider.start) == (2, [], [], 2)


def test_outsiders_want_more_than_one_node() -> None:
    profile = {"plugins": {"score": {"disabled": [{"name": "*"}]}}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    one = Scheduler(Cluster(nodes=[node(name) for name in "abc"]), config=head | {"profiles": [profile]})
    target = one.context.target_of(pod("p"))
    assert len(one.placer.decider.find(*target)[2]) == 1
    one.placer.decider.has_extenders = True
    assert len(one.placer.decider.find(*target)[2]) == 3
    assert one.placer.decider.score(np.arange(3, dtype=np.int32), *target).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("totals", "drawn", "winners"),
    [
        ([3, 1, 3, 3], [0, 0, 0, 0], {0}),
        ([1, 3, 2, 1, 3], [0, 0, 0, 0, 0], {1}),
        ([3, 1, 3, 3], [0, 1, 0, 1], {3}),
        ([3, 1, 3, 3], [0, 1, 1, 1], {2, 3}),
        ([5, 5, 5], [1, 1, 1], {0, 1, 2}),
        ([7], [0], {0}),
    ],
)
def test_lots_are_drawn_among_the_best(totals: list[int], drawn: list[int], winners: set[int]) -> None:
    one = three()
    found = {one.placer.decider.pick(np.array(totals), np.array(drawn, dtype=bool)) for _ in range(40)}
    assert found == winners


def test_a_rollback_takes_the_lots_back() -> None:
    one = three()
    totals, drawn = np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=bool)
    with one.cache.transaction():
        first = one.placer.decider.pick(totals, drawn)
    assert one.placer.decider.pick(totals, drawn) == first
    assert one.placer.decider.pick(totals, drawn) != first


# ---- rows without pods and images


def config(**scoring: object) -> dict[str, object]:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}
    return head | {"profiles": [{"pluginConfig": [fit] if scoring else []}]}


GPU = "example.com/gpu"
RESOURCES = [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]
PACKED = config(type="MostAllocated", resources=RESOURCES)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**64), st.sampled_from([config(), PACKED]))
def test_bare_rows_score_as_those_of_an_empty_cluster(seed: int, configuration: dict[str, object]) -> None:
    random = Random(seed)
    manifests = [make_node(random, at) for at in range(12)]
    for manifest in manifests:
        manifest["status"]["allocatable"][GPU] = str(random.randrange(4))
    full = Cluster(nodes=[decode_object(one) for one in manifests])  # type: ignore[misc]
    for manifest in manifests:
        manifest["status"].pop("images", None)
    empty = Cluster(nodes=[decode_object(one) for one in manifests])  # type: ignore[misc]
    one, twin = (Scheduler(cluster, config=configuration) for cluster in (full, empty))
    for at in range(20):
        requests = {"cpu": random.choice(["1m", "2", "9007199254740993"]), GPU: random.randrange(2)}
        row = random.randrange(12)
        one.cache.add_pod(pod(f"b{at}", on=one.table.row_name(row), requests=requests))
    for at in range(4):
        waiting = decode_object(make_pod(f"p{at}", make_spec(random, 12)))
        assert isinstance(waiting, Pod)
        rows = np.array(random.sample(range(12), 7), dtype=np.int32)
        before, expected = scores(one, waiting, rows), scores(twin, waiting, rows)
        assert scores(one, waiting, rows, bare=True) == expected
        assert scores(one, waiting, rows) == before


def scores(one: Scheduler, waiting: Pod, rows: NDArray[np.int32], bare: bool = False) -> list[int] | str:
    """Score of each row; or the error of amounts so large that a score is out of range, as upstream's is."""
    try:
        return one.placer.decider.score(rows, *one.context.target_of(waiting), bare=bare).tolist()
    except StatusError as error:
        return str(error)


@pytest.mark.parametrize(("key", "counted"), [("kubernetes.io/hostname", False), (ZONE, True)])
def test_pods_of_a_bare_row_count_for_its_zone_only(key: str, counted: bool) -> None:
    """Upstream counts those of other domains before it scores, over all nodes as they are."""
    nodes = [node(name, zone=f"z{name}", labels={"kubernetes.io/hostname": name}) for name in "abc"]
    one = Scheduler(Cluster(nodes=nodes, pods=[pod("t", on="a", labels={"app": "x"})]))
    selector = LabelSelector(match_labels={"app": "x"})
    soft = TopologySpreadConstraint(1, key, "ScheduleAnyway", selector)
    target = one.context.target_of(pod("p", labels={"app": "x"}, topology_spread_constraints=(soft,)))
    rows = np.arange(3, dtype=np.int32)
    whole, bare = one.placer.decider.score(rows, *target), one.placer.decider.score(rows, *target, bare=True)
    assert whole[0] < whole[1] == whole[2]
    assert (bare[0] < bare[1]) == counted
    assert one.placer.decider.score(rows, *target).tolist() == whole.tolist()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**64), st.sampled_from([1, 5, 70]))
def test_marks_are_at_the_rows_whose_verdict_is_0(seed: int, nodes: int) -> None:
    random = Random(seed)
    cluster = Cluster(nodes=[decode_object(make_node(random, at)) for at in range(nodes)])  # type: ignore[misc]
    one = Scheduler(cluster)
    marks = np.full(nodes + 2, 7, np.int8)
    for at in range(6):
        waiting = decode_object(make_pod(f"p{at}", make_spec(random, nodes)))
        target = one.context.target_of(waiting)  # type: ignore[arg-type]
        count = one.placer.search.mark_feasible(marks, *target)
        rows, verdicts = one.placer.search.verdicts(*target)
        assert np.flatnonzero(marks).tolist() == sorted(rows[verdicts == 0].tolist())
        assert count == marks.sum()


def test_marks_need_room_and_count_nominated_pods() -> None:
    one = three()
    search, target = one.placer.search, one.context.target_of(pod("p", requests={"cpu": 3}))
    with pytest.raises(ValueError, match="3 rows, where 2 have room"):
        search.mark_feasible(np.zeros(2, np.int8), *target)
    marks = np.zeros(3, np.int8)
    search.nominate([(1, [pod("n", requests={"cpu": 2})])])
    assert (search.mark_feasible(marks, *target), marks.tolist()) == (2, [1, 0, 1])


@given(st.lists(st.sampled_from([0, 1, 2**64 - 1])))
def test_items_by_verdict(verdicts: list[int]) -> None:
    items = [f"n{at}" for at in range(len(verdicts))]
    expected: dict[int, list[str]] = {}
    for verdict, item in zip(verdicts, items, strict=True):
        expected.setdefault(verdict, []).append(item)
    groups = group_by_verdict(np.array(verdicts, dtype=np.uint64), items)
    assert groups == expected
    assert list(groups) == list(expected)


def test_as_many_items_as_verdicts() -> None:
    with pytest.raises(ValueError, match="1 verdicts for 2 items"):
        group_by_verdict(np.zeros(1, dtype=np.uint64), ["a", "b"])

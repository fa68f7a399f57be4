"""Scheduler.schedule: pods in a given order, decided in runs as they are one by one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import schedule_one
from tests.make import container, node, pod, port, scheduler
from tests.scheduler.make import scheduler_with

from moorage import Scheduler
from moorage.engine.framework import FilterPlugin, Status
from moorage.errors import CacheError
from moorage.kube import (
    Affinity,
    Cluster,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)

NODES = [node(name, labels={"name": name}, cpu=cpu) for name, cpu in zip("abcd", (4, 3, 2, 1), strict=True)]


def equal(n: int, prefix: str = "p", **spec: Any) -> list[Pod]:
    return [pod(f"{prefix}{at}", **spec) for at in range(n)]


def compared(pods: list[Pod], *there: Pod, **settings: Any) -> Scheduler:
    """Schedule pods at once; what comes of it is that of single cycles."""
    batch, alone = scheduler(NODES, *there, **settings), scheduler(NODES, *there, **settings)
    result = batch.schedule_pods(pods)
    decisions = [schedule_one(alone.context, each) for each in pods]
    rows = [-1 if d.node is None else alone.table.find_row(d.node) for d in decisions]
    assert result.rows.tolist() == rows
    messages = {at: d.error or d.fit_error for at, d in enumerate(decisions) if d.node is None}
    assert {at: failure.message for at, failure in result.failures.items()} == messages
    assert batch.placer.decider.start == alone.placer.decider.start
    assert all(batch.cache.is_assumed_pod(one) for one, row in zip(pods, rows, strict=True) if row >= 0)
    return batch


def test_each_search_in_vain_among_named_nodes_moves_the_rotation() -> None:
    """So the failure of one pod does not stand for the next: that one begins elsewhere."""
    among = NodeSelectorRequirement("metadata.name", "In", ("a", "b", "c"))
    required = NodeSelector((NodeSelectorTerm(match_fields=(among,)),))
    affinity = Affinity(node_affinity=NodeAffinity(required=required))
    coming = equal(6, affinity=affinity, requests={"cpu": 9}, ports=[port(80)])
    compared([*coming, pod("last", requests={"cpu": 1})])
    in_calls, alone = scheduler(NODES), scheduler(NODES)
    for pods in (coming[:1], coming[1:2], coming[2:4], coming[4:]):
        in_calls.schedule_pods(pods)
        assert in_calls.placer.decider.start == [schedule_one(alone.context, one).next for one in pods][-1]


def test_a_failure_is_told_as_things_were() -> None:
    """What a pod failed by before still holds when the next one comes, and not any more for the last one."""
    large = [pod(f"large{at}", requests={"cpu": 5}) for at in range(3)]
    one = Scheduler(Cluster(nodes=[node("a", pods=1)]))
    before = one.schedule_pods(large[:1]).failures[0].message
    failures = one.schedule_pods([large[1], pod("small"), large[2]]).failures
    assert failures[0].message == before
    assert "Too many pods" not in before
    assert "Too many pods" in failures[2].message


@pytest.mark.parametrize("known", [True, False])
def test_a_pod_comes_once(known: bool) -> None:
    one = scheduler(NODES, *([pod("p1", on="a")] if known else []))
    pods = equal(2) if known else [*equal(2), pod("p1")]
    with pytest.raises(CacheError, match="pod default/p1 is in the cache, so can't be assumed"):
        one.schedule_pods(pods)
    assert not one.cache.state.has_pod(pod("p0"))


class OnlyB(FilterPlugin):
    name = "OnlyB"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        return None if node_info.node.name == "b" else self.verdict(2)


def test_with_plugins_outside_the_core_pods_go_through_whole_cycles() -> None:
    pods = equal(2, requests={"cpu": 3})
    one = scheduler_with(OnlyB())
    one.client.create_many(pods)
    result = one.schedule_pods(pods)
    assert result.rows.tolist() == [one.table.find_row("b"), -1]
    assert one.placer.decider.start == 0
    assert list(result.failures) == [1]
    assert one.client.get(Pod, "p0", "default").spec.node_name == "b"


def test_the_last_node_of_a_run_shows_its_images_as_the_next_cycle_finds_them() -> None:
    """Counts of images are those of the cycle that first sees the pod there, which is after the run."""
    image = ("example.com/large:1",), 900 * 2**20

    def scores(in_batch: bool) -> list[int]:
        one = Scheduler(Cluster(nodes=[node("a", images=[image]), node("b", cpu=1)]))
        pods = equal(3, requests={"cpu": "100m"})
        if in_batch:
            assert one.schedule_pods(pods).rows.tolist() == [0, 0, 0]
        else:
            assert [schedule_one(one.context, each).node for each in pods] == ["a"] * 3
        one.client.update(node("b", cpu=1, images=[image]))
        one.sync()
        asking = pod("p", containers=(container(image=image[0][0]),))
        return one.examine(asking).raw["ImageLocality"].tolist()

    assert scores(in_batch=True) == scores(in_batch=False)


def test_a_pod_that_was_placed_is_nominated_no_more() -> None:
    waiting = pod("n", nominated="b")
    one = scheduler(NODES, waiting)
    assert one.handle.nominator
    assert one.schedule_pods([waiting]).rows.tolist() == [one.table.find_row("b")]
    assert not one.handle.nominator

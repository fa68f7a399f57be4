"""Workers in threads: what they decide, and what happens to errors of one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.make import node
from tests.multi.kit import asking
from tests.scheduler.groups.gang_kit import TREES, composite

from moorage.errors import CacheError, NotBuiltError
from moorage.multi import (
    BinderUpdate,
    Threads,
    Worker,
    WorkerInit,
)
from moorage.objects import Cluster

PODS = tuple(asking(f"p{at}", "2") for at in range(6))
NONE = np.zeros(0, dtype=np.int32)


def ints(*values: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, dtype=np.int32)


def inits(owners: list[int] | None = None) -> list[WorkerInit]:
    there = Cluster(nodes=[node("a"), node("b")], pods=[asking("x", "1", on="a")])
    return [WorkerInit(PODS, there, number, owners) for number in range(2)]


def test_workers_decide_by_what_they_have_heard() -> None:
    with Threads(inits()) as pool:
        first = pool.propose([ints(0, 1), ints(2, 3, 4)])
        assert [one.nodes.tolist() for one in first] == [[1, 0], [1, 0, 1]]
        # The first worker gets both; the second loses 2 and 3, and hears of 0 and 1.
        pool.update([BinderUpdate([], ints(4), ints(1)), BinderUpdate([2, 3], ints(0, 1), ints(1, 0))])
        second = pool.propose([ints(5), ints(2, 3)])
        assert [one.nodes.tolist() for one in second] == [[-1], [-1, -1]]


def test_a_worker_looks_at_its_partition_first() -> None:
    worker = Worker(inits([0, 1])[1])
    assert worker.propose(ints(0, 1, 2, 3)).nodes.tolist() == [1, 1, 0, -1]


def test_victims_come_back_with_a_rejection_unless_they_are_gone() -> None:
    pods = (asking("p", "4", 9), asking("q", "4", 9))
    there = Cluster(nodes=[node("a")], pods=[asking("x", "1", on="a")])
    for gone in ((), ("x",)):
        worker = Worker(WorkerInit(pods, there))
        proposal = worker.propose(ints(0))
        assert proposal.nodes.tolist() == [0]
        assert proposal.victims == {0: (("x",), 0)}
        assert not worker.scheduler.cache.state.has_pod(there.pods[0])
        worker.update(BinderUpdate([0], NONE, NONE, gone))
        assert worker.scheduler.cache.state.has_pod(there.pods[0]) != bool(gone)
        assert bool(worker.propose(ints(1)).victims) != bool(gone)


def test_a_worker_hears_of_victims_of_others() -> None:
    pods = (asking("p", "4", 9), asking("q", "1"))
    worker = Worker(WorkerInit(pods, Cluster(nodes=[node("a")], pods=[asking("x", "3", on="a")])))
    assert worker.propose(ints(1)).nodes.tolist() == [0]
    worker.update(BinderUpdate([], ints(0), ints(0), ("x", "q")))
    assert [one.name for one in worker.scheduler.cache.state.pods()] == ["p"]


def test_an_error_of_a_worker_is_the_caller_s() -> None:
    with Threads(inits()) as pool, pytest.raises(CacheError):
        pool.update([BinderUpdate([5], NONE, NONE), BinderUpdate([], NONE, NONE)])  # it has not placed that


def test_a_worker_that_cannot_be_made_ends_all() -> None:
    wrong = [WorkerInit(one.pods, one.cluster, one.number, None, {"tie_break": "last"}) for one in inits()]
    with pytest.raises(ValueError, match=r"^tie_break must be one of first, random, go-heap, not 'last'"):
        Threads(wrong)


def test_composite_groups_are_refused() -> None:
    cluster = Cluster(nodes=[node("a")], others=[composite("c", 1)])
    assert Worker(WorkerInit([], cluster)).scheduler.table.find_row("a") is not None
    with pytest.raises(NotBuiltError, match="composite pod groups with several schedulers"):
        Worker(WorkerInit([], cluster, settings={"feature_gates": TREES}))

"""Which nodes belong to which scheduler, and what it sees of the others'."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.core.make import node, pod

from moorage import Scheduler
from moorage.multi import assign_owners
from moorage.multi.partition import mark_partition, tolerate_partitions
from moorage.objects import Cluster
from moorage.scheduler.placing.schedule_pods import schedule_one

NODES = [node(f"n{at}", zone=f"z{at % 5}") for at in range(23)]


def test_no_partition_belongs_to_nobody() -> None:
    assert assign_owners(NODES, 3, "none") is None


def test_zones_stay_whole_and_are_shared_out_evenly() -> None:
    held = assign_owners(NODES, 2, "zone")
    assert held is not None
    of_zone = {
        (one.metadata.labels["topology.kubernetes.io/zone"], owner)
        for one, owner in zip(NODES, held, strict=True)
    }
    assert len(of_zone) == 5
    assert sorted(Counter(held).values()) == [10, 13]


def test_a_hash_follows_the_name_alone() -> None:
    held, backwards = assign_owners(NODES, 4, "hash"), assign_owners(NODES[::-1], 4, "hash")
    assert held is not None
    assert backwards is not None
    assert held == backwards[::-1]
    assert set(held) == {0, 1, 2, 3}


def test_another_kind_of_partition_is_an_error() -> None:
    with pytest.raises(ValueError, match="partition must be one of none, zone, hash, not 'rack'"):
        assign_owners(NODES, 2, "rack")


def test_a_scheduler_looks_at_its_own_nodes_first_and_anywhere_then() -> None:
    nodes = [mark_partition(1, one, owner) for one, owner in zip((node("a"), node("b")), (0, 1), strict=True)]
    scheduler = Scheduler(Cluster(nodes=nodes))
    assert [schedule_one(scheduler.context, pod(f"p{at}", requests={"cpu": 2})).node for at in range(3)] == [
        "b",
        "b",
        None,
    ]
    assert schedule_one(scheduler.context, tolerate_partitions(pod("q", requests={"cpu": 2}))).node == "a"

"""Groups bound to a topology, placed with the memory of earlier groups: each as in a cycle of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import most_allocated
from tests.make import ZONE, node
from tests.scheduler.groups.gang_kit import TOPOLOGY
from tests.scheduler.groups.group_world import RACK, gang, made_up, members, note_searches, racks
from tests.scheduler.groups.test_group_batch import Groups, leftovers, place_each, place_in_batch

from moorage import Cluster, Scheduler
from moorage.engine.scheduler import ScheduleResult
from moorage.kube import Pod

SETTINGS: dict[str, Any] = {"feature_gates": TOPOLOGY}
GROUP = st.tuples(st.just("group"), st.sampled_from([2, 2, 2, 1, 3]), st.sampled_from([3, 3, 3, 1, 0]))
STEPS = st.lists(
    st.one_of(
        GROUP,
        GROUP,
        GROUP,
        st.tuples(st.just("forget"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("node"), st.integers(0, 20), st.integers(1, 9)),
        st.tuples(st.just("turn"), st.integers(0, 1), st.just(0)),
    ),
    min_size=6,
    max_size=20,
)


class Steps:
    """Groups, and changes of the cluster between them."""

    def __init__(self, scheduler: Scheduler, pods: list[Pod], key: str, place: Any) -> None:
        self.scheduler, self.pods, self.key, self.place = scheduler, pods, key, place

    def take(self, kind: str, number: int, more: int) -> Any:
        scheduler, state = self.scheduler, self.scheduler.cache.state
        if kind == "group":
            pods, self.pods = self.pods[:number], self.pods[number:]
            return self.place(scheduler, [(gang(min(more, number), self.key), pods)])
        if kind == "turn":
            scheduler.context.rotation.start = number
        elif kind == "forget":
            there = sorted((pod for row in range(state.table.used) for pod in state.pods_of(row)), key=_name)
            if there:
                scheduler.cache.forget_pod(there[number % len(there)])
        else:
            one = state.table.objects[number % state.table.used]
            assert one is not None
            allocatable = {**one.status.allocatable, "cpu": str(more)}
            state.set_node(replace(one, status=replace(one.status, allocatable=allocatable)))
        return None


def _name(pod: Pod) -> str:
    return pod.name


def in_batch(scheduler: Scheduler, groups: Groups) -> list[list[int]]:
    return place_in_batch(scheduler, groups)[0]


@given(
    world=st.integers(0, 2000),
    nodes=st.integers(2, 12),
    is_made_up=st.sampled_from([False, False, True]),
    steps=STEPS,
    tie_break=st.sampled_from(["first", "go-heap", "random"]),
)
def test_like_the_cycle_of_each_group(
    world: int, nodes: int, is_made_up: bool, steps: Any, tie_break: str
) -> None:
    outcomes = []
    count = sum(number for kind, number, _ in steps if kind == "group")
    for way in (place_each, in_batch):
        if is_made_up:
            scheduler, pods = made_up(world, nodes, count, tie_break=tie_break, **SETTINGS)
        else:
            there = racks(*(str(2 + (world >> at) % 4) for at in range(2 + nodes % 5)))
            if nodes % 2:
                there.append(node("last", labels={RACK: "r0"}))  # racks of different sizes
            scheduler = Scheduler(Cluster(nodes=there), tie_break=tie_break, **SETTINGS)
            pods = members(count, str(1 + world % 2))
        for engine in scheduler.engines.values():
            engine.runs_post_filter = False
        one = Steps(scheduler, pods, ZONE if is_made_up else RACK, way)
        outcomes.append([*(one.take(*step) for step in steps), leftovers(scheduler)])
    assert outcomes[0] == outcomes[1]


def over_racks(*cpus: str, **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=racks(*cpus)), **SETTINGS, **settings)


def bound_groups(*sizes: int, minimum: int | None = None) -> Groups:
    out: Groups = []
    for size in sizes:
        pods = members(size, "1", sum(len(pods) for _, pods in out))
        out.append((gang(size if minimum is None else minimum, RACK), pods))
    return out


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The placements that are searched."""
    return note_searches(monkeypatch)


def test_only_placements_that_have_changed_are_searched_again(searched: list[str]) -> None:
    scheduler, groups = over_racks("4", "4", "4"), bound_groups(2, 2, 2, 3)
    rows, alone = place_in_batch(scheduler, groups)
    assert (alone, searched) == (0, [f"r{at}" for at in (0, 1, 2, 0, 0, 0, 1, 2)])
    assert rows == place_each(over_racks("4", "4", "4"), groups)


def test_where_the_rotation_moves() -> None:
    """In placements of 100 nodes and more, a search ends before it has seen all of them."""
    outcomes = []
    for way in (place_each, in_batch):
        scheduler = Scheduler(Cluster(nodes=racks("2", "4", "3", size=110)), **SETTINGS)
        found = []
        for turn in range(3):
            found.append(way(scheduler, bound_groups(2, 2, 3)))
            there = [pod for row in range(scheduler.table.used) for pod in scheduler.cache.state.pods_of(row)]
            scheduler.cache.forget_pods(there[turn:])
            scheduler.context.rotation.start = 5 * turn
            for one in there[:turn]:
                scheduler.cache.forget_pod(one)
        outcomes.append([found, leftovers(scheduler)])
    assert outcomes[0] == outcomes[1]


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def quotient(dividend: int, divisor: int) -> int:
    return wrapped(abs(dividend) // abs(divisor) * (1 if (dividend < 0) == (divisor < 0) else -1))


AMOUNTS = st.one_of(st.just(0), st.integers(0, 10**6), st.integers(-(2**63), 2**63 - 1))


@given(
    world=st.integers(0, 500),
    nodes=st.integers(1, 6),
    pods=st.integers(0, 6),
    rows=st.lists(st.integers(0, 5)),
    asked=st.lists(st.tuples(st.integers(1, 100), AMOUNTS), min_size=6, max_size=6),
)
def test_the_twin_scores_placements_alike(
    world: int, nodes: int, pods: int, rows: list[int], asked: list[tuple[int, int]]
) -> None:
    """Sums wrap at 64 bits; what no pod asks for, or a node has not, does not count."""
    scheduler, wanted = made_up(world, nodes, pods)
    scheduler.schedule_pods(wanted)
    table = scheduler.table
    some = np.array([row % nodes for row in rows], dtype=np.int32)
    names = ("cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu", "unknown")
    points = weights = 0
    for name, (weight, request) in zip(names, asked, strict=True):
        if name in ("pods", "unknown") or (name == "example.com/gpu" and not request):
            continue
        used = table.column("nonzero" if name in ("cpu", "memory") else "requested", name)[some].tolist()
        there = table.column("allocatable", name)[some].tolist()
        capacity = wrapped(sum(there))
        total = wrapped(request + sum(one for one, has in zip(used, there, strict=True) if has))
        if capacity:
            points += quotient(wrapped(min(total, capacity) * 100), capacity) * weight
            weights += weight
    resources = [(name, *one) for name, one in zip(names, asked, strict=True)]
    expected = quotient(wrapped(points), weights) if weights else 0
    assert most_allocated(scheduler.cache.state, some, resources) == expected
    with pytest.raises(IndexError):
        most_allocated(scheduler.cache.state, np.array([table.used], dtype=np.int32), resources)


def test_only_pods_that_are_there_are_accounted_for() -> None:
    scheduler, pods = over_racks("4"), members(2)
    batch = scheduler.context.batch_of(pods)
    result, placer = (
        ScheduleResult(scheduler.cache.state, 2, batch),
        scheduler.context.rotation.engines[0].placer,
    )
    placer.account(batch, result, 0, 2)  # none has a row
    assert leftovers(scheduler) == leftovers(over_racks("4"))
    for first, end in ((0, 3), (-1, 1), (2, 1), (0, 1)):  # the last has a row that is no node's
        result.rows[0] = scheduler.table.used if end == 1 else -1
        with pytest.raises(IndexError):
            placer.account(batch, result, first, end)
    assert not placer.reads_rows_alone(batch, 1, 1)
    assert batch.key(0, 1) == batch.key(1, 2) != batch.key(0, 2)

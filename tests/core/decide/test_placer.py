"""Pods of any classes in one call, what is kept of classes, and threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.child import LIMIT
from tests.core.made_up import decoded, make_node, make_pod, make_spec
from tests.core.make import pinned
from tests.doors.engine import (
    LedgerSink,
    Placements,
    Placer,
    Plan,
    PodBatch,
    TieBreak,
    bound,
    count_verdicts,
    schedule_one,
)
from tests.make import node, pod, port

from moorage import Cluster, Scheduler
from moorage.kube import Pod, Taint, Toleration, decode_object


class Placing:
    """A placer of its own over a scheduler's cluster, and the pods that it places."""

    def __init__(self, nodes: list[Any], pods: list[Pod], **setting: Any) -> None:
        self.scheduler = Scheduler(Cluster(nodes=nodes))
        self.state, self.pods = self.scheduler.cache.state, pods
        tie_break, percentage = setting.get("tie_break", TieBreak.FIRST), setting.get("percentage", 0)
        self.placer = Placer(self.state, self.scheduler.plan, tie_break, percentage)
        self.batch = PodBatch(self.state, pods)
        self.out = Placements(self.state, len(pods))
        self.rows = self.out.rows
        self.rows[:] = -9
        self.starts = dict[int, int]()
        self.failed: list[int] = []
        self.why: list[dict[int, int]] = []

    def note(self, at: int) -> int:
        self.failed.append(at)
        target = self.batch.target(at)
        self.why.append(self.placer.decider.rejections(*target))
        assert self.why[-1] == count_verdicts(self.placer.search.verdicts(*target)[1])
        return at

    def place(self, first: int, end: int) -> None:
        """The pods from `first` to `end` in one call."""
        assert self.placer.place(self.batch, self.out, first, end, LedgerSink(), self.note) == end
        self.starts[end] = self.placer.decider.start

    def many(self, ends: Iterable[int] = ()) -> None:
        """One call for all pods, or one up to each of these ends."""
        first = 0
        for end in (*ends, len(self.pods)):
            self.place(first, end)
            first = end

    def each(self, first: int = 0, end: int | None = None) -> None:
        """The search of each pod from `first` to `end` by itself, and its row."""
        for at, one in list(enumerate(self.pods))[first:end]:
            self.rows[at] = row = self.placer.decider.decide(*self.batch.target(at))[0]
            if row >= 0:
                self.state.assume_pod(bound(one, self.state.table.row_name(row)))
            self.starts[at + 1] = self.placer.decider.start


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**64),
    st.sampled_from([1, 3, 20, 120]),
    st.sampled_from([0, 30, 100]),
    st.sampled_from(list(TieBreak)),
)
def test_many_are_placed_as_one_after_the_other(
    seed: int, nodes: int, percentage: int, tie_break: TieBreak
) -> None:
    random = Random(seed)
    manifests = [make_node(random, at) for at in range(nodes)]
    specs = [make_spec(random, nodes) for _ in range(5)]
    pods = [make_pod(f"p{at}", random.choice(specs)) for at in range(80)]
    setting = {"percentage": percentage, "tie_break": tie_break}
    many, each = (Placing(decoded(manifests), decoded(pods), **setting) for _ in range(2))
    many.many(sorted(random.sample(range(1, len(pods)), random.choice([0, 3, 40]))))
    each.each()
    assert many.rows.tolist() == each.rows.tolist()
    assert many.starts == {end: each.starts[end] for end in many.starts}
    assert sorted(many.out.failures) == np.flatnonzero(many.rows < 0).tolist()
    for at, why in many.out.failures.items():  # that of the latest pod of the target about which it was asked
        told = [one for one in many.failed if one <= at and many.batch.target(one) == many.batch.target(at)]
        assert why == told[-1]


GPU, FPGA = "example.com/gpu", "example.com/fpga"


def with_few(random: Random, nodes: int) -> list[Any]:
    """Nodes of which few have a GPU, and fewer an FPGA."""
    having = random.sample(range(nodes), random.choice([0, 1, nodes // 8]))
    amounts = {at: {GPU: random.choice([1, 2, 8])} for at in having}
    amounts |= {at: amounts[at] | {FPGA: 1} for at in having[::3]}
    return [
        node(
            f"n{at}",
            labels={"k": random.choice("ab")},
            taints=random.choice([(), (), (Taint(key="t", effect="NoSchedule"),)]),
            **amounts.get(at, {}),
        )
        for at in range(nodes)
    ]


ASKING: list[dict[str, Any]] = [
    {"requests": {GPU: 1, "cpu": "100m"}},
    {"requests": {GPU: 2}, "tolerations": (Toleration(operator="Exists"),)},
    {"requests": {GPU: 1, FPGA: 1}},
    {"requests": {GPU: 1}, "node_selector": {"k": "a"}},
    {"requests": {"cpu": "100m"}},
]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**64),
    st.sampled_from([8, 70, 300]),
    st.sampled_from([0, 30, 100]),
    st.sampled_from([TieBreak.FIRST, TieBreak.GO_HEAP]),
)
def test_what_few_nodes_have(seed: int, nodes: int, percentage: int, tie_break: TieBreak) -> None:
    """Rows that lack it are rejected as a search does that looks at them; a node gains it in between, another
    loses it."""
    random = Random(seed)
    listed = with_few(random, nodes)
    changed = [replace(one, metadata=listed[at].metadata) for at, one in enumerate(with_few(random, nodes))]
    pods = [pod(f"p{at}", **random.choice(ASKING)) for at in range(60)]
    setting = {"percentage": percentage, "tie_break": tie_break}
    many, each = (Placing(listed, pods, **setting) for _ in range(2))
    for first, end in ((0, 20), (20, 40), (40, 60)):
        many.place(first, end)
        each.each(first, end)
        assert many.rows[:end].tolist() == each.rows[:end].tolist()
        assert many.starts[end] == each.starts[end]
        for at in random.sample(range(nodes), 3):
            many.state.set_node(changed[at])
            each.state.set_node(changed[at])


@pytest.mark.parametrize("amount", [1, 2**63 - 1])
def test_requests_that_wrap_leave_room_for_what_a_node_lacks(amount: int) -> None:
    """As in Go, the sum of two of the largest amounts is -2, and 0 - -2 is enough for 2."""
    nodes = [node(f"n{at}", pods=1 if at else 9, **({GPU: 1} if at == 5 else {})) for at in range(20)]
    placing = Placing(nodes, [pod("p", requests={GPU: 2})])
    for at in range(2):
        placing.state.add_pod(pod(f"large-{at}", on="n0", requests={GPU: amount}))
    placing.many()
    assert placing.rows.tolist() == [0 if amount > 1 else -1]


def test_resources_that_devices_provide_are_not_looked_for() -> None:
    """Before and after that, pods fit only the node that has some."""
    nodes = [node(f"n{at}", **({GPU: 1} if at == 5 else {})) for at in range(20)]
    placing = Placing(nodes, [pod(f"p{at}", requests={GPU: 1}) for at in range(4)])
    search = placing.placer.search
    placing.place(0, 2)
    search.plan.delegate((GPU,))
    search.states.open_scope()
    placing.note(2)  # what rejects it now
    placing.place(2, 3)
    search.plan.delegate(())
    search.states.open_scope()
    placing.place(3, 4)
    assert placing.failed == [1, 2, 3]
    assert [sum(why.values()) for why in placing.why] == [20, 1, 20]
    assert placing.rows[0] == 5
    assert placing.rows[2] not in (5, -1)


def fitting(at: int) -> Pod:
    return pod(f"fits-{at}", requests={"cpu": "100m"})


def large(at: int, cpu: int = 9) -> Pod:
    return pod(f"large-{at}", requests={"cpu": cpu})


NODES = [node(f"n{at}", cpu=2) for at in range(5)]


# ---- which pods, which rows


def test_the_pods_between_two_places() -> None:
    placing = Placing(NODES, [fitting(at) for at in range(6)])
    assert placing.placer.place(placing.batch, placing.out, 2, 4) == 4
    assert (placing.rows >= 0).tolist() == [False, False, True, True, False, False]
    placing.out.truncate(5)
    assert placing.placer.place(placing.batch, placing.out, 4) == 5, "as many as have a row"
    assert (placing.rows >= 0).tolist() == [False, False, True, True, True, False]


@pytest.mark.parametrize(("first", "end", "rows"), [(-1, 2, 2), (0, 3, 2), (0, 2, 1), (0, 3, 3)])
def test_a_row_for_each_pod(first: int, end: int, rows: int) -> None:
    placing = Placing(NODES, [fitting(0), fitting(1)])
    where = Placements(placing.state, rows)
    with pytest.raises(ValueError, match="a row for each pod is wanted, and a pod to begin with"):
        placing.placer.place(placing.batch, where, first, end)
    assert set(where.rows.tolist()) == {-1}
    assert placing.placer.decider.from_candidates == placing.placer.decider.from_scans == 0


@pytest.mark.parametrize(("first", "end", "answer"), [(2, 2, 2), (2, 1, 1), (2, -1, 2), (5, -1, 2)])
def test_no_pod_to_place(first: int, end: int, answer: int) -> None:
    placing = Placing(NODES, [fitting(0), fitting(1)])
    assert placing.placer.place(placing.batch, placing.out, first, end) == answer
    assert placing.rows.tolist() == [-9, -9]


# ---- a pod that fits nowhere


PORTS = ["none", "ports"]  # which are placed one by one


def kinds(ports: str) -> list[Pod]:
    """Pods 1 and 2, 5 and 6 fit nowhere: each looks at one node, and the others at all."""
    more: dict[str, Any] = {"ports": [port(80)]} if ports == "ports" else {}
    one, two = more | {"affinity": pinned("n1")}, more | {"affinity": pinned("n2")}
    kinds = [(1, more), (9, one), (9, one), (1, more), (1, more), (8, two), (8, two), (1, more)]
    return [pod(f"p{at}", requests={"cpu": cpu}, **rest) for at, (cpu, rest) in enumerate(kinds)]


@pytest.mark.parametrize("ports", PORTS)
def test_it_ends_before_the_pod_that_it_is_told_to_stop_at(ports: str) -> None:
    """As if that pod had not been looked at; those before it are in the ledger."""
    placing, pods = Placing(NODES, kinds(ports)), kinds(ports)
    told = list[int]()

    def stop(at: int) -> str | None:
        told.append(at)
        return None if at == 5 else "full"

    sink = LedgerSink()
    assert placing.placer.place(placing.batch, placing.out, 0, -1, sink, stop) == 5
    assert (told, [one.name for one in placing.state.pods()]) == ([1, 5], ["p0", "p3", "p4"])
    assert placing.placer.decider.start == 2, "the two that fit nowhere"
    until = Placing(NODES, pods)
    until.many([5])
    assert until.starts[5] == 2
    assert until.rows[:5].tolist() == placing.rows[:5].tolist()
    assert placing.placer.place(placing.batch, placing.out, 5, -1, sink, placing.note) == 8
    assert placing.failed == [5], "it was told to stop, so nothing is known of such pods"
    assert placing.rows.tolist() == until.rows.tolist()
    assert placing.placer.decider.start == until.starts[8]


@pytest.mark.parametrize("ports", PORTS)
def test_what_is_raised_about_a_pod_comes_out(ports: str) -> None:
    """What was placed before stays placed, unless pods have host ports; the others can be placed later."""
    placing, expected = Placing(NODES, kinds(ports)), Placing(NODES, kinds(ports))
    expected.many()

    def fail(at: int) -> None:
        raise LookupError(f"pod {at}")

    with pytest.raises(LookupError, match=r"^pod 1$"):
        placing.placer.place(placing.batch, placing.out, 0, -1, LedgerSink(), fail)
    stays = 0 if ports == "ports" else 1
    assert [one.name for one in placing.state.pods()] == ["p0"][:stays]
    table = placing.state.table
    assert table.requested["cpu"].sum() == 1000 * stays
    placing.placer.decider.start = 0  # where the search for that pod began
    placing.place(stays, 8)
    assert placing.rows.tolist() == expected.rows.tolist()
    assert placing.failed == [1, 5]


# ---- many equal pods: as many tries as may matter


def test_no_more_tries_than_there_are_slots() -> None:
    placing = Placing([node(f"n{at}", cpu=2, pods=3) for at in range(2)], [fitting(0)])
    placing.many()
    assert [placing.placer.tries(pods) for pods in (1, 2, 5, 6, 7, 1000)] == [1, 2, 5, 6, 6, 6]
    everything = Placing([node("n0", pods=2), node("n1", pods=0)], [])
    assert everything.placer.tries(9) == 3
    plan = Plan(everything.state.table, filters=["NodeName"], scores=[])
    assert Placer(everything.state, plan, TieBreak.FIRST).tries(9) == 9, "nothing keeps a node from more pods"


def test_pods_that_are_skipped_move_the_rotation_as_if_they_had_been_tried() -> None:
    """Over the whole list that are full circles; among named nodes not."""
    asks = [pod(f"p{at}", requests={"cpu": 9}, affinity=pinned("n1")) for at in range(4)]
    tried, skipped = Placing(NODES, asks), Placing(NODES, asks)
    tried.many()
    skipped.place(0, 1)
    skipped.placer.skip(3)
    assert tried.placer.decider.start == skipped.placer.decider.start == 4


# ---- what is kept of classes


@pytest.mark.parametrize("keeps", [True, False])
def test_threads_have_no_effect(keeps: bool) -> None:
    random = Random(5)
    nodes = decoded([make_node(random, at) for at in range(700)])
    pods = decoded([make_pod(f"p{at}", make_spec(random, 700)) for at in range(60)])
    outcomes = []
    for threads in (1, 2, 5):
        placing = Placing(nodes, pods, percentage=100)
        placing.placer.decider.keeps_candidates = keeps
        placing.placer.search.threads, placing.placer.search.parallel_from = threads, 0
        placing.many()
        outcomes.append((placing.rows.tolist(), placing.starts))
        assert (placing.placer.decider.parallel_scans > 0) == (threads > 1)
    assert outcomes == [outcomes[0]] * 3


FORKING = """
import os, sys
from moorage import Scheduler, synthetic

scheduler = Scheduler(synthetic(nodes=2000, pods=1, seed=1))
placer, pod = scheduler.placer, next(iter(scheduler.pods.pending.values()))
placer.search.threads, placer.search.parallel_from = 2, 0
target = scheduler.context.target_of(pod)
expected = placer.decider.decide(*target)[0]
placer.decider.start = 0
child = os.fork()
if child == 0:
    same = placer.decider.decide(*target)[0] == expected and placer.decider.parallel_scans == 2
    os._exit(0 if same and len(os.listdir("/proc/self/task")) == 2 else 1)
print(placer.decider.parallel_scans, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    """The threads of its parent are not there, and waiting for them has no end."""
    ran = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert ran.stdout.split() == ["1", "0"]


def test_two_callers_at_once() -> None:
    """Each has a cluster of its own; one of them has the pool, and the other does without."""
    random = Random(6)
    nodes = decoded([make_node(random, at) for at in range(700)])
    pods = decoded([make_pod(f"p{at}", make_spec(random, 700)) for at in range(200)])
    expected = Placing(nodes, pods)
    expected.many()
    placings = [Placing(nodes, pods) for _ in range(4)]
    for placing in placings:
        placing.placer.decider.keeps_candidates = False
        placing.placer.search.threads, placing.placer.search.parallel_from = 3, 0
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(placing.many) for placing in placings]:
            done.result(60)
    for placing in placings:
        assert placing.rows.tolist() == expected.rows.tolist()


# ---- the verdicts of classes that fit nowhere


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**64))
def test_rejections_follow_what_changes(seed: int) -> None:
    random = Random(seed)
    manifests = [make_node(random, at) for at in range(40)]
    placing = Placing(decoded(manifests), [])
    asking = [decode_object(make_pod(f"asks-{at}", make_spec(random, 40))) for at in range(3)]
    targets = [placing.scheduler.context.target_of(one) for one in asking]
    for at in range(25):
        for target in targets:
            if random.random() < 0.7:
                expected = count_verdicts(placing.placer.search.verdicts(*target)[1])
                assert placing.placer.decider.rejections(*target) == expected
        change = random.randrange(4)
        if change == 0:
            placing.scheduler.client.update(decode_object(make_node(random, random.randrange(40))))
            placing.scheduler.sync()
        elif change < 3:
            one = decode_object(make_pod(f"p{at}", make_spec(random, 40)))
            schedule_one(placing.scheduler.context, one)

"""Pods of any classes in one call, what is kept of classes, and threads."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.made_up import make_node, make_pod, make_spec
from tests.core.make import node, pinned, pod
from tests.core.twins.cycle_twin import Manifest

from moorage import Cluster, Scheduler
from moorage._core.decide.decider import TieBreak, count_verdicts
from moorage._core.decide.placer import Placer
from moorage.objects.model.meta import LabelSelector
from moorage.objects.model.pod import Pod, TopologySpreadConstraint
from moorage.objects.read.decode import decode_object


def decoded(manifests: list[Manifest]) -> list[Any]:
    return [decode_object(one) for one in manifests]


class Placing:
    """A cycle of its own over a scheduler's cluster, and the pods that it places."""

    def __init__(self, nodes: list[Any], pods: list[Pod], **setting: Any) -> None:
        self.scheduler = Scheduler(Cluster(nodes=nodes))
        self.state, self.pods = self.scheduler.cache.state, pods
        tie_break, percentage = setting.get("tie_break", TieBreak.FIRST), setting.get("percentage", 0)
        self.placer = Placer(self.state, self.scheduler.plan, tie_break, percentage)
        targets = [self.scheduler.context.target_of(one) for one in pods]
        self.classes = np.array([target[0] for target in targets], dtype=np.int32)
        self.pinned = np.array([target[2] for target in targets], dtype=np.int32)
        self.rows = np.full(len(pods), -9, dtype=np.int32)
        self.nexts = np.full(len(pods), -9, dtype=np.int32)
        self.failed: list[int] = []
        self.why: list[dict[int, int]] = []

    def note(self, at: int) -> None:
        self.failed.append(at)
        target = int(self.classes[at]), 0, int(self.pinned[at])
        self.why.append(self.placer.decider.rejections(*target))
        assert self.why[-1] == count_verdicts(self.placer.search.verdicts(*target)[1])

    def enter(self, first: int, end: int) -> None:
        for at in range(first, end):
            if self.rows[at] >= 0:
                self.state.assume_rows(int(self.classes[at]), [self.pods[at]], self.rows[at : at + 1])

    def many(self) -> None:
        done = 0
        while done < len(self.pods):
            before, rest = done, (self.rows, done, self.note, self.nexts)
            done = place_many(self.placer, self.classes, self.pinned, *rest)
            self.enter(before, done)

    def each(self) -> None:
        for at in range(len(self.pods)):
            found = place_run(self.placer, int(self.classes[at]), 1, 0, int(self.pinned[at]))
            self.rows[at] = found[0] if len(found) else -1
            self.nexts[at] = self.placer.decider.start
            self.enter(at, at + 1)


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
    many.many()
    each.each()
    assert many.rows.tolist() == each.rows.tolist()
    assert many.nexts.tolist() == each.nexts.tolist()
    assert set(many.failed) <= set(np.flatnonzero(many.rows < 0).tolist())


def fitting(at: int) -> Pod:
    return pod(f"fits-{at}", requests={"cpu": "100m"})


def large(at: int, cpu: int = 9) -> Pod:
    return pod(f"large-{at}", requests={"cpu": cpu})


NODES = [node(f"n{at}", cpu=2) for at in range(5)]


def test_a_failure_is_told_once_as_long_as_nothing_changes() -> None:
    placing = Placing(NODES, [fitting(0), large(0), large(1), large(2, 8), large(3), fitting(1), large(4)])
    placing.many()
    assert placing.failed == [1, 3, 6]
    assert (placing.rows < 0).tolist() == [False, True, True, True, True, False, True]
    assert [sum(counts.values()) for counts in placing.why] == [5, 5, 5]


def test_pods_that_name_their_nodes() -> None:
    on = [
        pod(f"p{at}", requests={"cpu": 1}, affinity=pinned(name))
        for at, name in enumerate(["n1", "n3", "gone", "n1", "n1", "n1"])
    ]
    placing = Placing(NODES, on)
    placing.many()
    names = [placing.scheduler.table.row_name(row) if row >= 0 else None for row in placing.rows.tolist()]
    assert names == ["n1", "n3", None, "n1", None, None]
    assert placing.failed == [2, 4]
    assert placing.nexts.tolist() == [1, 2, 2, 3, 4, 0]


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_where_there_is_no_room_for_all_counters(limit: int) -> None:
    """Then each class is placed by itself; to make the counters of one drops those of the others."""
    hosts = [node(f"n{at}", cpu=40, pods=50, labels={"kubernetes.io/hostname": f"n{at}"}) for at in range(6)]
    pods = [
        pod(
            f"p{at}",
            labels={"app": "abc"[at % 3]},
            topology_spread_constraints=(
                TopologySpreadConstraint(
                    max_skew=1,
                    topology_key="kubernetes.io/hostname",
                    when_unsatisfiable="DoNotSchedule",
                    label_selector=LabelSelector(match_labels={"app": "abc"[at % 3]}),
                ),
            ),
        )
        for at in range(36)
    ]
    placing = Placing(hosts, pods)
    placing.state.domains.limit = limit
    placing.many()
    for app in range(3):
        assert np.bincount(placing.rows[app::3]).tolist() == [2] * 6


def test_a_class_that_is_not_there() -> None:
    placing = Placing(NODES, [fitting(0)])
    for number in (-1, 99):
        placing.classes[0] = number
        with pytest.raises(ValueError, match=f"there is no class {number}"):
            placing.many()


def test_arrays_of_other_lengths() -> None:
    placing = Placing(NODES, [fitting(0), fitting(1)])
    for lengths in ((1, 2, 2), (2, 1, 2), (2, 2, 1)):
        pinned, rows, nexts = (np.zeros(length, dtype=np.int32) for length in lengths)
        with pytest.raises(ValueError, match="one number for each pod is wanted"):
            place_many(placing.placer, placing.classes, pinned, rows, 0, None, nexts)
    assert placing.placer.decider.from_candidates == placing.placer.decider.from_scans == 0


# ---- what is kept of classes


def test_candidates_are_bounded() -> None:
    pods = [pod(f"p{at}-{one}", requests={"cpu": f"{at + 1}m"}) for at in range(6) for one in range(30)]
    nodes = [node(f"n{at:04}", cpu=50) for at in range(500)]
    free = Placing(nodes, pods)
    free.many()
    of_one = free.placer.decider.candidates_bytes // 6
    bounded = Placing(nodes, pods)
    bounded.placer.decider.candidates_limit = 2 * of_one
    for at in range(0, len(pods), 30):
        bounded.rows[at : at + 30] = place_run(bounded.placer, int(bounded.classes[at]), 30)
        bounded.enter(at, at + 30)
        assert bounded.placer.decider.candidates_bytes <= 2 * of_one
    assert bounded.rows.tolist() == free.rows.tolist()
    none = Placing(nodes, pods)
    none.placer.decider.candidates_limit = 0
    none.many()
    assert none.placer.decider.from_candidates == none.placer.decider.candidates_bytes == 0
    assert none.rows.tolist() == free.rows.tolist()


@pytest.mark.parametrize("keeps", [True, False])
def test_threads_have_no_effect(keeps: bool) -> None:
    random = Random(5)
    nodes = decoded([make_node(random, at) for at in range(700)])
    pods = decoded([make_pod(f"p{at}", make_spec(random, 700)) for at in range(60)])
    outcomes = []
    for threads in (1, 2, 3):
        placing = Placing(nodes, pods)
        placing.placer.decider.keeps_candidates = keeps
        placing.placer.search.threads, placing.placer.search.parallel_from = threads, 0
        placing.many()
        outcomes.append((placing.rows.tolist(), placing.nexts.tolist()))
        assert (placing.placer.decider.parallel_scans > 0) == (threads > 1)
    assert outcomes == [outcomes[0]] * 3


FORKING = """
import os, sys
from moorage import Scheduler, synthetic

scheduler = Scheduler(synthetic(nodes=500, pods=1, seed=1))
placer, pod = scheduler.placer, next(iter(scheduler.pods.pending.values()))
placer.search.threads, placer.search.parallel_from = 2, 0
target = scheduler.context.target_of(pod)
expected = placer.decider.decide(*target)[0]
placer.decider.start = 0
child = os.fork()
if child == 0:
    os._exit(0 if placer.decider.decide(*target)[0] == expected and placer.decider.parallel_scans == 1 else 1)
print(placer.decider.parallel_scans, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_process_has_one_thread() -> None:
    """The threads of its parent are not there, and waiting for them has no end."""
    ran = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.split() == ["1", "0"]


def test_a_mark_for_each_256_pods() -> None:
    placing = Placing([node("n", cpu=10, pods=2000)], [pod("p")])
    marks = np.zeros(4, dtype=np.int64)
    assert len(place_run(placing.placer, int(placing.classes[0]), 600, marks=marks)) == 600
    assert marks[0] > 0
    assert marks[1] >= marks[0]
    assert marks[2:].tolist() == [0, 0]
    with pytest.raises(ValueError, match="a mark for each 256 pods is wanted"):
        place_run(placing.placer, int(placing.classes[0]), 600, marks=marks[:1])


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
            placing.scheduler.context.schedule_one(one)

"""Whom a change preempts, and which changes let in a workload: what no command shows in few objects."""

from __future__ import annotations

import moorage as mo
from moorage.kube import Job, load
from moorage.queues import Cycle, Kueue, PreemptedWorkload
from tests.calls import calls_of
from tests.doors.answers import helpful_changes, new_preemptions

from .test_queue_controller import NODE, QUEUES, QUOTA, Json, job, of_kueue


def test_a_victim_of_earlier_cycles_may_be_one_of_new_ones_again() -> None:
    first, second = (PreemptedWorkload("d/a", by, "InClusterQueue", "") for by in ("d/b", "d/c"))
    before = (Cycle(preempted=(first,)),)
    assert new_preemptions(before, before) == []
    assert new_preemptions((*before, Cycle(preempted=(second,)), Cycle(preempted=(second,))), before) == [
        second
    ]


def offers(scheduler: mo.Scheduler, deleted: str = "") -> list[str]:
    """Return the changes that let in job b; another job is deleted while they are sought."""
    queues = scheduler.ask.queues()
    assert queues is not None
    (waiting,) = [each for each in queues.kueue.workloads.values() if "job-b" in each.key]
    assert waiting.is_queued
    if deleted:
        scheduler.client.delete(Job, deleted, "default")
    return helpful_changes(scheduler, queues, waiting)


def other_queue(name: str) -> list[Json]:
    quota = QUOTA | {"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 5}]}]}
    return [
        of_kueue("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [quota]}),
        of_kueue("LocalQueue", name, {"clusterQueue": name}, "default"),
    ]


def test_a_change_that_the_api_server_refuses_is_not_offered() -> None:
    given = [NODE, *QUEUES, *other_queue("other"), job("a", 4), job("b", 2)]
    for deleted, number in (("", 1), ("a", 0)):  # job b is written before, so that its change conflicts
        offered = offers(mo.Scheduler(load(given)), deleted)
        assert len([each for each in offered if each.startswith("in queue other")]) == number, offered


def test_few_changes_are_tried_whatever_there_is() -> None:
    queues = [each for number in range(50) for each in other_queue(f"q{number:02}")]
    scheduler = mo.Scheduler(load([NODE, *QUEUES, *queues, job("a", 4), job("b", 9)]))
    offered, runs = calls_of(Kueue.run, offers, scheduler)
    assert offered[0].startswith("with nominalQuota 13 cpu")
    assert len(runs) < 50

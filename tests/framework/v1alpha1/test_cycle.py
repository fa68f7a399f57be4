"""What the framework's answers do to a pod on its way to a node, in the order of a scheduler's steps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import node, pod
from tests.framework.v1alpha1.world import Log, ScriptedClock, framework, plugin, schedule, wait

from moorage.cache import SchedulerCache
from moorage.framework.v1alpha1 import Code, Error, Framework, NewStatus, Status, Unschedulable

POD = pod("p", on="a", requests={"cpu": 1})


def cluster() -> SchedulerCache:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    return cache


def pods(cache: SchedulerCache) -> list[str]:
    return [held.name for held in cache.snapshot().nodes["a"].pods]


def test_a_pod_passes_reserve_permit_and_prebind_and_is_bound() -> None:
    log: Log = []
    run = framework(plugin("x", log, Prebind=None, Permit=(None, 0.0), Unreserve=None, Reserve=None))
    cache = cluster()
    assert schedule(run, cache, POD, "a") is None
    assert (pods(cache), cache.is_assumed_pod(POD)) == (["p"], False)
    assert [point for _, point, *_ in log] == ["Reserve", "Permit", "Prebind"]


@pytest.mark.parametrize("code", [Error, Unschedulable])
def test_a_pod_that_was_not_reserved_stays_unscheduled_and_nobody_unreserves(code: Code) -> None:
    log: Log = []
    run = framework(
        plugin("first", log, Reserve=None, Unreserve=None), plugin("bad", log, Reserve=NewStatus(code, "no"))
    )
    cache = cluster()
    result = schedule(run, cache, POD, "a")
    assert result == NewStatus(Error, "error while running bad reserve plugin for pod p: no")
    assert pods(cache) == []
    assert [point for _, point, *_ in log] == ["Reserve", "Reserve"]


@pytest.mark.parametrize(
    ("point", "answer", "code"),
    [
        ("Permit", (NewStatus(Unschedulable, "no"), 0.0), Unschedulable),
        ("Permit", (NewStatus(Error, "no"), 0.0), Error),
        ("Permit", wait(5), Unschedulable),
        ("Prebind", NewStatus(Unschedulable, "no"), Unschedulable),
        ("Prebind", NewStatus(Error, "no"), Error),
    ],
)
def test_a_pod_that_is_rejected_later_is_not_bound_and_its_plugins_clean_up(
    point: str, answer: Any, code: Code
) -> None:
    log: Log = []
    held: set[str] = set()
    keeper = plugin(
        "keeper",
        log,
        Reserve=lambda pc, p, node_name: held.add(p.name),
        Unreserve=lambda pc, p, node_name: held.remove(p.name),
    )
    bad = plugin("bad", log, **{point: answer})
    late = plugin("late", log, Prebind=None)
    cache = cluster()
    run = framework(keeper, bad, late, clock=ScriptedClock())
    assert Status.Code(schedule(run, cache, POD, "a")) == code
    assert (pods(cache), held) == ([], set())
    assert [each for _, each, *_ in log] == ["Reserve", point, "Unreserve"]


def test_permit_comes_before_prebind_and_prebind_after_the_wait() -> None:
    log: Log = []
    run: Framework

    def allow() -> None:
        assert [point for _, point, *_ in log] == ["Permit"]
        run.IterateOverWaitingPods(lambda waiting: waiting.Allow())

    run = framework(plugin("x", log, Prebind=None, Permit=wait(5)), clock=ScriptedClock(allow))
    cache = cluster()
    assert schedule(run, cache, POD, "a") is None
    assert ([point for _, point, *_ in log], pods(cache)) == (["Permit", "Prebind"], ["p"])


def test_the_snapshot_is_of_the_beginning_of_the_cycle_until_reserve_is_done() -> None:
    seen: list[list[str]] = []

    def look(pc: Any, p: Any, node_name: str) -> None:
        cache.add_pod(pod(f"during-{p.name}", on="a"))
        info = run.NodeInfoSnapshot().NodeInfoMap["a"]
        seen.append([held.name for held in info.pods])

    cache = cluster()
    run = framework(plugin("x", Reserve=look))
    assert schedule(run, cache, POD, "a") is None
    assert schedule(run, cache, pod("q", on="a"), "a") is None
    assert seen == [[], ["during-p", "p"]]


def test_each_cycle_has_a_context_of_its_own_from_reserve_to_unreserve() -> None:
    seen: list[object] = []

    def write(pc: Any, p: Any, node_name: str) -> None:
        with pytest.raises(Exception, match=r"^not found$"):
            pc.Read("who")
        pc.Write("who", p.name)

    run = framework(
        plugin("x", Reserve=write),
        plugin("y", Prebind=NewStatus(Error, "no")),
        plugin("z", Unreserve=lambda pc, p, node_name: seen.append(pc.Read("who"))),
    )
    cache = cluster()
    for name in ("p", "q"):
        schedule(run, cache, pod(name, on="a"), "a")
    assert seen == ["p", "q"]

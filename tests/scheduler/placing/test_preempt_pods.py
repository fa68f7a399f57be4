"""Pods that are placed at once and evict others, and that all of it can be taken back."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.core.inside import dump
from tests.core.twins.preemption_world import World, worlds
from tests.doors.answers import examine_preemption
from tests.doors.engine import schedule_one
from tests.framework.make import make
from tests.make import node, pod
from tests.preemption.test_eviction_units import group, of
from tests.preemption.world import nominated, preemptor, victim
from tests.scheduler.groups.gang_kit import GATES
from tests.scheduler.make import profile_with

import moorage as mo
from moorage import Preemption, Scheduler, default_profile
from moorage.errors import CacheError, MoorageError
from moorage.kube import Cluster, Pod


def scheduler(*pods: Pod, others: Any = (), **settings: Any) -> Scheduler:
    """Nodes a and b of 4 cpu."""
    cluster = Cluster(nodes=[node("a"), node("b")], pods=list(pods), others=list(others))
    return Scheduler(cluster, **settings)


def high(name: str, cpu: Any = 2, **spec: Any) -> Pod:
    one = preemptor(cpu, **spec)
    return replace(one, metadata=replace(one.metadata, name=name, uid=name))


def said(one: Scheduler, done: Preemption) -> list[tuple[str, list[str]]]:
    names = [one.table.row_name(row) if row >= 0 else "" for row in done.rows.tolist()]
    return [(name, [victim.name for victim in done.victims(at)]) for at, name in enumerate(names)]


LOW = [victim("a1", "a", 2), victim("a2", "a", 2, 1), victim("b1", "b", 3, 5)]


def test_all_of_it_is_taken_back() -> None:
    one = scheduler(*LOW)
    schedule_one(one.context, pod("first", requests={"cpu": 1}))
    with one.transaction():  # the view reads pending rows before it
        pass
    before, start = dump(one.cache.state), one.placer.decider.start
    done = one.preempt_pods([high("h1"), high("h2"), high("h3", 4)])
    assert (done.rows >= 0).all()
    done.undo()
    assert dump(one.cache.state, before) == before
    assert one.placer.decider.start == start
    assert {pod.name for pod in one.client.list(Pod)[0]} == {"a1", "a2", "b1"}
    for at in (-1, 3):
        with pytest.raises(IndexError, match=f"there is no pod {at} among 3"):
            done.victims(at)
    again = one.preempt_pods([high("h1"), high("h2"), high("h3", 4)])
    assert again.rows.tolist() == done.rows.tolist()
    again.undo()
    with pytest.raises(MoorageError, match="taken back already"):
        again.undo()


def test_after_either_end_a_cycle_evicts_pods_again() -> None:
    for end in ("undo", "commit"):
        one = scheduler(*LOW)
        runs = [engine.runs_post_filter for engine in one.engines.values()]
        getattr(one.preempt_pods([high("h1")]), end)()
        assert [engine.runs_post_filter for engine in one.engines.values()] == runs
        one.client.create(high("next"))
        assert one.run().evicted


def test_what_is_kept_is_heard_of_by_the_store() -> None:
    one = scheduler(*LOW)
    done = one.preempt_pods([high("h1"), high("h2")])
    assert {pod.name for pod in one.client.list(Pod)[0]} == {"a1", "a2", "b1"}
    done.commit()
    assert said(one, done) == [("a", ["a1"]), ("a", ["a2"])]
    assert {pod.name for pod in one.client.list(Pod)[0]} == {"b1"}
    assert {pod.name for pod in one.cache.state.pods()} == {"b1", "h1", "h2"}
    assert one.cache.is_assumed_pod(high("h1"))
    with pytest.raises(MoorageError, match="kept or taken back"):
        done.commit()


def test_what_is_kept_is_written_as_a_run_writes_it() -> None:
    """Nominations of lower priority to the node end. Of each victim there is a condition and an event."""
    mid = [nominated(high(f"mid-{on}", 1, priority=9), on) for on in "ab"]
    one = scheduler(victim("a1", "a", 4), victim("b1", "b", 4, 5), *mid)
    one.sync()
    _, version = one.client.list(Pod)
    one.preempt_pods([high("h1", 4)]).commit()
    with one.client.watch(Pod, resource_version=version) as watch:
        written = [
            (each.type, each.object.name, each.object.status.nominated_node_name, reasons_of(each.object))
            for each in watch.poll()
        ]
    evicted = [
        ("MODIFIED", "a1", "", ["PreemptionByScheduler"]),
        ("DELETED", "a1", "", ["PreemptionByScheduler"]),
    ]
    assert written == [("MODIFIED", "mid-a", "", []), *evicted]
    assert list(one.handle.nominator.by_node) == ["b"]
    assert [event.reason for event in one.handle.recorder.events] == ["Preempted"]


def test_a_victim_that_is_terminating_already_is_left_to_its_end() -> None:
    low = victim("a1", "a", 4)
    ending = replace(
        low.metadata, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("example.com/keep",)
    )
    one = scheduler(replace(low, metadata=ending), victim("b1", "b", 4, 5))
    one.sync()
    before = one.client.get(Pod, "a1", "default")
    done = one.preempt_pods([high("h1", 4)])
    assert said(one, done) == [("a", ["a1"])]
    done.commit()
    assert one.client.get(Pod, "a1", "default") == before
    assert not one.handle.recorder.events


def reasons_of(one: Pod) -> list[str]:
    return [condition.reason for condition in one.status.conditions]


def test_victims_that_only_the_cache_knows() -> None:
    one = scheduler()
    one.schedule_by_template(pod("low", requests={"cpu": 4}), 2)
    done = one.preempt_pods([high("h1")])
    assert said(one, done) == [("a", ["low-0"])]
    done.commit()
    assert {pod.name for pod in one.cache.state.pods()} == {"low-1", "h1"}


def test_a_victim_that_waits_on_permit_is_rejected_and_stays() -> None:
    permit = make(mo.PermitPlugin, "Permit", permit=(mo.Status(mo.Code.WAIT), 10.0))
    nodes, low = [node("a")], pod("low", requests={"cpu": 4}, scheduler_name="waits")
    profiles = [default_profile(), profile_with(permit, scheduler_name="waits")]
    one = Scheduler(Cluster(nodes=nodes, pods=[low]), profiles=profiles, clock=lambda: 0.0)
    assert one.run().waiting == {"default/low": "a"}
    one.preempt_pods([high("h1")]).commit()
    assert one.client.get(Pod, "low", "default").metadata.uid == low.metadata.uid
    failed = one.advance().unschedulable
    assert failed["default/low"].message == "waiting on permit for pod: preempted"
    assert not one.handle.waiting_pods
    assert one.table.requested["cpu"].tolist() == [2000]


def test_what_is_kept_is_undone_with_the_transaction_of_the_cache_around_it() -> None:
    one = scheduler(*LOW, nominated(high("n"), "b"))
    before, stored = dump(one.cache.state), one.client.list(Pod)[0]
    with one.cache.transaction():
        one.preempt_pods([nominated(high("n"), "b"), high("h1", 4)]).commit()
        assert len(one.client.list(Pod)[0]) < len(stored)
    assert one.client.list(Pod)[0] == stored
    assert one.handle.nominator.nodes == {"n": "b"}
    one.sync()
    assert dump(one.cache.state, before) == before


def test_nominated_pods_count_where_they_are_expected() -> None:
    pods = [victim("a1", "a", 4), victim("b1", "b", 4, 5)]
    one = scheduler(*pods, nominated(high("n"), "a"))
    with one.preempt_pods([high("h1", 4), high("h2", 4)]) as done:
        assert said(one, done) == [("b", ["b1"]), ("", [])]
    with one.preempt_pods([high("h1", 2)]) as done:
        assert said(one, done) == [("a", ["a1"])]
    done = one.preempt_pods([nominated(high("n"), "a")])
    assert said(one, done) == [("a", ["a1"])]
    done.commit()
    assert not one.handle.nominator


def test_where_dry_runs_begin() -> None:
    pods = [victim("a1", "a", 4), victim("b1", "b", 4)]
    for offset, expected in {0: "a1", 1: "b1", 2: "a1"}.items():
        with scheduler(*pods).preempt_pods([high("h1")], [offset]) as done:
            assert [pod.name for pod in done.victims(0)] == [expected]
            for at in (-1, 1):
                with pytest.raises(IndexError, match=f"^there is no pod {at} among 1$"):
                    done.victims(at)
    with pytest.raises(ValueError, match="an offset for each pod"):
        scheduler().preempt_pods([high("h1")], [1, 2])


def test_a_group_goes_whole() -> None:
    there = [of("g", victim("a1", "a", 2)), of("g", victim("b1", "b", 2)), victim("b2", "b", 2, 1)]
    one = scheduler(*there, others=[group()], feature_gates=GATES)
    with one.preempt_pods([high("h1", 4), high("h2")]) as done:
        assert said(one, done) == [("a", ["a1", "b1"]), ("b", [])]
        assert [victim.spec.node_name for victim in done.victims(0)] == ["a", "b"]
        done.commit()
    assert {pod.name for pod in one.client.list(Pod)[0]} == {"b2"}


def test_what_cannot_be_placed_at_once() -> None:
    one = scheduler(*LOW)
    with pytest.raises(CacheError, match="pod default/h1 is in the cache"):
        one.preempt_pods([high("h1"), high("h1")])
    with pytest.raises(CacheError, match="pod default/a1 is in the cache"):
        one.preempt_pods([LOW[0]])

    class Picky(mo.FilterPlugin):
        name = "Picky"

        def filter(self, state: Any, pod: Pod, node_info: Any) -> None:
            return None

    picky = scheduler(*LOW, profile=profile_with(Picky()))
    with pytest.raises(MoorageError, match="default/h1: a plugin or an extender outside the core"):
        picky.preempt_pods([high("h1")])


def test_a_failure_half_way_leaves_everything() -> None:
    one = scheduler(*LOW, victim("bad", "b", 0, start="yesterday"))
    before = dump(one.cache.state)
    with pytest.raises(MoorageError, match="yesterday"):
        one.preempt_pods([high("h1", 1), high("h2", 4)])
    after = dump(one.cache.state, before)
    assert {key: value for key, value in after.items() if key != "memory"} == {
        key: value for key, value in before.items() if key != "memory"
    }


@settings(max_examples=60)
@given(world=worlds(plain=True))
def test_it_is_the_choice_of_post_filter(world: World) -> None:
    """A pod that fits nowhere gets the node that its own cycle would nominate it to."""
    namespaces = [mo.kube.Namespace(metadata=mo.kube.ObjectMeta(name="default", labels={"team": "x"}))]
    pods = [pod for there in world.pods.values() for pod in there]
    pods = [replace(one, metadata=replace(one.metadata, uid=one.key)) for one in pods]
    nodes = list(world.nodes.values())
    one = Scheduler(Cluster(nodes=nodes, pods=pods, namespaces=namespaces, others=list(world.budgets)))
    with one.preempt_pods([world.preemptor]) as done:
        placed = said(one, done)[0]
    examined = one.examine(world.preemptor)
    if examined.feasible:
        assert placed[1] == []
        return
    choice = examine_preemption(one.engines["default-scheduler"], world.preemptor).choice
    expected = (
        ("", [])
        if choice is None
        else (
            choice.candidate.name,
            [victim.name for victim in choice.candidate.victims.pods],
        )
    )
    assert placed == expected


def is_free(one: Scheduler) -> bool:
    """Whether another thread gets the lock of the cache."""
    free: list[bool] = []

    def acquire() -> None:
        free.append(one.cache.lock.acquire(blocking=False))
        if free[0]:
            one.cache.lock.release()

    thread = threading.Thread(target=acquire)
    thread.start()
    thread.join()
    return free[0]


def test_a_handle_that_nobody_has_is_undone() -> None:
    one = scheduler(*LOW)
    one.preempt_pods([high("h1")])
    assert not one.cache.transactions
    assert is_free(one)


@pytest.mark.parametrize("end", [Preemption.commit, Preemption.undo])
@pytest.mark.parametrize("is_kept", [False, True])
def test_it_ends_with_the_transaction_around_it(end: Any, is_kept: bool) -> None:
    one = scheduler(*LOW)
    before, stored = dump(one.cache.state), one.client.list(Pod)[0]
    with one.transaction() as transaction:
        done = one.preempt_pods([high("h1", 4)])
        if is_kept:
            transaction.commit()
    assert is_free(one)
    assert dump(one.cache.state) == before
    with one.transaction():
        one.cache.assume_pod(pod("later", on="b"))
        with one.transaction():
            within = dump(one.cache.state)
            with pytest.raises(MoorageError, match="kept or taken back already"):
                end(done)
            assert dump(one.cache.state) == within
            assert len(one.cache.transactions) == 2
    assert dump(one.cache.state) == before
    assert one.client.list(Pod)[0] == stored
    assert is_free(one)

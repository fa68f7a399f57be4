"""What is done in a transaction and undone leaves no trace: the next run is as that of an untouched one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
from tests.doors.engine import schedule_pods
from tests.framework.make import make
from tests.make import node, pod
from tests.scheduler.make import Clock, profile_with
from tests.scheduler.transactions.interrupts import check_settled

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import Code, NominatingInfo, Status
from moorage.kube import Node, Pod, PodSchedulingGroup
from moorage.store import ObjectStore


def world(**settings: Any) -> Scheduler:
    """Two nodes that are full of pods of low priority, one more, and pods that wait."""
    nodes = [node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="1")]
    low = [pod(f"low{at}", "ab"[at % 2], requests={"cpu": "1"}) for at in range(4)]
    pending = [
        pod("high", requests={"cpu": "2"}, priority=10),
        *(pod(f"p{at}", requests={"cpu": "1"}) for at in range(4)),
        pod("big", requests={"cpu": "64"}),
    ]
    return Scheduler(mo.Cluster(nodes=nodes, pods=[*low, *pending]), **settings)


def everything(one: Scheduler) -> dict[str, Any]:
    """All that decisions and users can see."""
    queue, indexer = one.queue.pending_pods(), one.informers.informer(Pod).indexer
    permit: list[tuple[str, list[str]]] = []
    one.handle.iterate_over_waiting_pods(
        lambda each: permit.append((each.pod.name, each.get_pending_plugins()))
    )
    return {
        "store": one.client.list(Pod),
        "informer": indexer.values(),
        "cache": one.cache.state.pods(),
        "assumed": one.cache.state.assumed_pods(),
        "requested": one.table.requested["cpu"].tolist(),
        "queue": [[(i.pod, i.attempts, i.order, i.timestamp, i.place) for i in place] for place in queue],
        "in flight": [info.pod.name for info in one.queue.in_flight()],
        "nominated": {name: one.handle.nominator.nominated_pods_for_node(name) for name in "abc"},
        "start": one.context.rotation.start,
        "waiting": list(one.bindings.waiting),
        "permit": permit,
        "events": list(one.handle.recorder.events),
        "order": one.context.view_order(),
        "others": dict(one.pods.others),
        "finished": dict(one.pods.finished),
    }


def outcome(one: Scheduler) -> Any:
    """What a run does, and what it leaves."""
    result = one.run()
    left = everything(one)
    return result.placements, sorted(result.unschedulable), result.evicted, result.skipped, left


def run(one: Scheduler) -> None:
    assert one.run().evicted


def write(one: Scheduler) -> None:
    one.client.create(node("d", cpu="1"))
    one.client.create(pod("new", requests={"cpu": "1"}))
    one.client.delete(Pod, "low0", "default")
    one.sync()
    one.client.delete(Node, "c")


def schedule(one: Scheduler) -> None:
    one.schedule_pods([each for each in one.client.list(Pod)[0] if not each.spec.node_name])


def schedule_one(one: Scheduler) -> None:
    for each in one.client.list(Pod)[0]:
        if not each.spec.node_name:
            schedule_pods.schedule_one(one.context, each)


def nominate(one: Scheduler) -> None:
    high = one.client.get(Pod, "high", "default")
    one.handle.nominator.add_nominated_pod(high, NominatingInfo("c"))


def use_queue(one: Scheduler) -> None:
    one.queue.pop()
    (popped,) = one.queue.pop()
    assert popped is not None
    one.queue.give_back([popped], [popped.pod], [(frozenset({"NodeResourcesFit"}), frozenset())])
    one.queue.delete([one.client.get(Pod, "p3", "default")])


ACTIONS = [run, write, schedule, schedule_one, nominate, use_queue]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("tie_break", ["go-heap", "random"])
def test_a_rollback_leaves_no_trace(action: Callable[[Scheduler], None], tie_break: str) -> None:
    one, twin = world(tie_break=tie_break, seed=3), world(tie_break=tie_break, seed=3)
    before = everything(one)
    assert before == everything(twin)
    with one.transaction():
        action(one)
    assert everything(one) == before
    assert outcome(one) == outcome(twin)
    check_settled(one)


@pytest.mark.parametrize("tie_break", ["go-heap", "random"])
def test_others_are_evicted_as_if_nothing_had_been_undone(tie_break: str) -> None:
    """On 150 nodes: candidates are 100 of them, from an offset on."""

    def crowd() -> Scheduler:
        nodes = [node(f"n{at}", cpu="1") for at in range(150)]
        low = [pod(f"low{at}", f"n{at}", requests={"cpu": "1"}) for at in range(150)]
        high = [pod(f"high{at}", requests={"cpu": "1"}, priority=10) for at in range(4)]
        return Scheduler(mo.Cluster(nodes=nodes, pods=[*low, *high]), tie_break=tie_break, seed=7)

    one, twin = crowd(), crowd()
    before = one.context.view_order()
    with one.transaction():
        assert len(one.run().evicted) == 4
    assert one.context.view_order() == before
    first, untouched = one.run(), twin.run()
    assert (first.placements, first.evicted) == (untouched.placements, untouched.evicted)
    assert ("default/low0" in first.evicted) == (tie_break == "go-heap")
    for each in (one, twin):
        each.client.create_many([pod(f"more{at}", requests={"cpu": "1"}, priority=20) for at in range(4)])
    assert outcome(one) == outcome(twin)


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_committed_stays(action: Callable[[Scheduler], None]) -> None:
    one, twin = world(), world()
    with one.transaction() as transaction:
        action(one)
        transaction.commit()
    action(twin)
    assert everything(one) == everything(twin)
    assert outcome(one) == outcome(twin)


@pytest.mark.parametrize("inner", [run, schedule, schedule_one, nominate, use_queue])
@pytest.mark.parametrize("commits", [False, True])
def test_transactions_nest(inner: Callable[[Scheduler], None], commits: bool) -> None:
    one, twin = world(), world()
    write(twin)
    with one.transaction() as outer:
        with one.transaction():
            write(one)
            with one.transaction() as second:
                inner(one)
                second.commit()
        write(one)
        if commits:
            outer.commit()
    assert outcome(one) == outcome(twin if commits else world())


def test_a_run_in_a_transaction_of_the_cache_is_undone_as_well() -> None:
    one, twin = world(), world()
    with one.cache.transaction():
        first = one.run()
    assert first.placements
    assert outcome(one) == outcome(twin)
    assert sum(bool(each.spec.node_name) for each in one.client.list(Pod)[0]) == len(one.cache.state.pods())


def test_an_exception_undoes_a_transaction() -> None:
    one, twin = world(), world()

    @contextmanager
    def failing() -> Any:
        with one.transaction() as transaction:
            yield
            transaction.commit()
            raise KeyError("late")

    with pytest.raises(KeyError), failing():
        one.run()
    assert outcome(one) == outcome(twin)


def test_pods_that_wait_on_permit_wait_again() -> None:
    def make_world() -> Scheduler:
        late = make(mo.PermitPlugin, "Late", permit=(Status(Code.WAIT), 10.0))
        pods = [pod(f"p{at}") for at in range(2)]
        one = Scheduler(mo.Cluster(nodes=[node("a")], pods=pods), profile=profile_with(late), clock=Clock())
        one.run()
        return one

    one, twin = make_world(), make_world()
    with one.transaction():
        for waiting in one.bindings.waiting.values():
            assert waiting.waiting is not None
            waiting.waiting.allow("Late")
        assert len(one.advance(1.0).placements) == 2
    assert one.advance(1.0).waiting == twin.advance(1.0).waiting == {"default/p0": "a", "default/p1": "a"}
    assert one.advance(11.0).unschedulable.keys() == twin.advance(11.0).unschedulable.keys()


class Keeping(mo.ReservePlugin):
    name = "Keeping"

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[str] = []

    def reserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.reserved.append(pod.name)

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.reserved.remove(pod.name)

    def save(self) -> list[str]:
        return self.reserved.copy()

    def undo(self, saved: list[str]) -> None:
        self.reserved = saved.copy()


def test_a_plugin_that_can_takes_part() -> None:
    plugin = Keeping()
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(plugin))
    with one.transaction():
        one.run()
        assert plugin.reserved == ["p"]
    assert plugin.reserved == []
    one.run()
    assert plugin.reserved == ["p"]


def test_an_undo_that_always_raises_keeps_no_other_from_its_own_and_the_scheduler_answers_no_more() -> None:
    class Fails(Keeping):
        name = "Fails"

        def undo(self, saved: list[str]) -> None:
            raise ValueError("undone by halves")

    plugin = Keeping()
    profile = profile_with(Fails(), plugin)
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile)
    with pytest.raises(ValueError, match="undone by halves"), one.transaction():
        one.run()
    assert plugin.reserved == []
    p = one.client.get(Pod, "p", "default")
    calls: list[Callable[[], object]] = [
        one.run, one.sync, one.fork, one.transaction().__enter__, one.advance, one.cache.snapshot,
        lambda: one.examine(p), lambda: one.ask.explain(p), lambda: one.schedule_pods([p]),
        lambda: one.ask.capacity(p), lambda: one.can_schedule_pod(p),
        lambda: one.table, lambda: one.groups, lambda: one.pods.pending,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(mo.MoorageError, match=r"^an undo has failed, so half of what it should restore"):
            call()


def test_a_plugin_that_only_saves_takes_no_part() -> None:
    """Something else of it may have that name."""
    plugin: Any = make(mo.PostBindPlugin, "Archive", post_bind=None, save=AssertionError("not for this"))
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(plugin))
    with one.transaction():
        assert one.run().placements == {"default/p": "a"}
    assert not one.cache.state.pods()


def test_other_watchers_hear_that_it_was_undone() -> None:
    one = world()
    watch = one.client.watch(Pod, resource_version=one.client.list(Pod)[1])
    with one.transaction():
        one.run()
        seen = {event.object.name for event in watch.poll()}
    assert seen == {event.object.name for event in watch.poll()}


class Remote:
    """A client that is no store of this process."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("save", "undo", "release"):
            raise AttributeError(name)
        return getattr(self._store, name)


def test_what_cannot_be_undone_is_refused() -> None:
    store = ObjectStore()
    store.create_many([node("a"), pod("p")])
    client: Any = Remote(store)
    one = Scheduler(client)
    refused = (
        r"^a transaction cannot take back what is written to Remote: only to an ObjectStore of this process$"
    )
    with pytest.raises(mo.MoorageError, match=refused), one.transaction():
        pass
    with one.cache.transaction(), pytest.raises(mo.MoorageError, match=refused):
        one.run()
    with one.cache.transaction():
        assert one.schedule_pods([store.get(Pod, "p", "default")]).rows.tolist() == [0]
        store.create(node("late"))
        assert not one.sync(), "events are left for later"
    assert one.sync()
    assert one.run().placements == {"default/p": "a"}
    check_settled(one)


def test_a_shared_store_is_undone_for_all_who_follow_it() -> None:
    store = ObjectStore()
    store.create_many([node("a"), pod("p"), pod("q", scheduler_name="two")])
    one = Scheduler(store)
    two = Scheduler(store, profile=mo.Profile(one.profile.plugins, scheduler_name="two"))
    with one.transaction():
        one.run()
        two.sync()
        assert len(two.cache.state.pods()) == 1
    two.sync()
    assert two.cache.state.pods() == []
    assert (one.run().placements, two.run().placements) == ({"default/p": "a"}, {"default/q": "a"})


@pytest.mark.parametrize("changes", [False, True])
def test_what_is_known_of_groups_can_be_asked_for_again(changes: bool) -> None:
    """Who first asks makes an index of the pods, which goes with the transaction."""
    one, twin = world(), world()
    with one.transaction():
        assert one.groups.size(("default", "g")) == 0
        if changes:
            write(one)
    member = pod("m", requests={"cpu": "1"}, scheduling_group=PodSchedulingGroup("g"))
    for each in (one, twin):
        each.client.create(member)
        each.sync()
        assert each.groups.size(("default", "g")) == 1
    assert outcome(one) == outcome(twin)

"""Runs over the queue: who comes again after what, and that nothing is lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import Loop, evict_victims, loop
from tests.doors.store import PodBinder
from tests.framework.make import make
from tests.make import configuration, node, pod, port
from tests.scheduler.make import Clock, scheduler_with

import moorage as mo
from moorage import Scheduler
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler import Failure, ScheduleResult
from moorage.kube import Affinity, Cluster, LabelSelector, ObjectMeta, Pod, PodAffinity, PodAffinityTerm


def beside(name: str, **labels: str) -> Pod:
    """A pod that goes only where one with these labels is."""
    term = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=LabelSelector(labels))
    affinity = Affinity(pod_affinity=PodAffinity(required=(term,)))
    return pod(name, requests={"cpu": 1}, priority=5, affinity=affinity)


def named(name: str, cpu: int = 4) -> Any:
    return node(name, labels={"kubernetes.io/hostname": name}, cpu=cpu)


def places(one: Scheduler) -> dict[str, list[str]]:
    """Where the queue has which pods."""
    pending = one.queue.pending_pods()._asdict()
    return {place: [info.pod.name for info in infos] for place, infos in pending.items() if infos}


def test_a_pod_that_waits_for_another_comes_again_when_that_is_bound() -> None:
    one = Scheduler(
        Cluster(
            nodes=[named("a"), named("b")], pods=[beside("late", app="db"), pod("db", labels={"app": "db"})]
        )
    )
    result = one.run()
    assert list(result.placements) == ["default/db", "default/late"], "the first attempt was in vain"
    assert result.placements["default/db"] == result.placements["default/late"]
    assert result.unschedulable == {}
    assert (places(one), one.queue.in_flight()) == ({}, [])


def test_pods_that_nothing_has_helped_are_tried_once_in_a_run() -> None:
    one = Scheduler(Cluster(nodes=[named("a")], pods=[pod("big", requests={"cpu": 9}), pod("small")]))
    assert one.run().placements == {"default/small": "a"}
    assert places(one) == {"unschedulable": ["big"]}
    assert one.queue.pending_pods().unschedulable[0].attempts == 1
    assert list(one.run().unschedulable) == ["default/big"]
    assert one.queue.pending_pods().unschedulable[0].attempts == 2
    one.client.create(named("c", cpu=16))
    assert one.run().placements == {"default/big": "c"}


def test_what_is_behind_a_preemptor_waits_again_in_its_place() -> None:
    low = [pod(f"low-{n}", on="a", requests={"cpu": 1}) for n in range(4)]
    high = [pod(f"high-{n}", requests={"cpu": 2}, priority=9) for n in range(2)]
    rest = [pod(f"rest-{n}", requests={"cpu": 1}) for n in range(3)]
    one = Scheduler(Cluster(nodes=[named("a"), named("b", cpu=3)], pods=[*low, *rest, *high]))
    result = one.run()
    # One fits on b at once, the other takes a from two; of the rest one has room on b.
    assert result.placements["default/high-0"] == "b"
    assert result.placements["default/high-1"] == "a"
    assert len(result.evicted) == 2
    assert {each.by for each in result.evicted.values()} == {"default/high-1"}
    assert result.placements["default/rest-0"] == "b"
    assert list(result.unschedulable) == ["default/rest-1", "default/rest-2"]
    waiting = one.queue.pending_pods().unschedulable
    assert [info.attempts for info in waiting] == [1, 1]


def test_an_error_is_no_reason_to_try_again_at_once() -> None:
    def fails(self: Any, state: Any, pod: Pod, name: str) -> Any:
        raise ValueError("no")

    one = scheduler_with(make(mo.ReservePlugin, "R", reserve=fails), pods=[pod("p")], clock=Clock())
    result = one.run()
    assert "ValueError" in result.unschedulable["default/p"].message
    assert places(one) == {"error_backoff": ["p"]}


SIZES = st.integers(1, 3)
PODS = st.lists(st.tuples(SIZES, st.integers(0, 2), st.booleans(), st.booleans()), max_size=12)


@settings(deadline=None)
@given(PODS, st.integers(1, 3), st.booleans())
def test_every_pod_is_somewhere_and_no_node_holds_too_much(made: Any, nodes: int, python: bool) -> None:
    """`made`: size, priority, whether it is on a node, whether it is only placed beside others."""
    free = [4] * nodes
    pods = []
    for number, (cpu, priority, bound, choosy) in enumerate(made):
        at = next((n for n in range(nodes) if free[n] >= cpu), None) if bound else None
        if at is not None:
            free[at] -= cpu
        base = beside("", app="db") if choosy and at is None else pod("")
        meta = replace(
            base.metadata, name=f"p{number}", uid=f"p{number}", labels={"app": "db"} if bound else {}
        )
        spec = replace(
            pod("", requests={"cpu": cpu}, priority=priority).spec,
            affinity=base.spec.affinity,
            node_name="" if at is None else f"n{at}",
        )
        pods.append(replace(base, metadata=meta, spec=spec))
    plugins = (make(mo.ReservePlugin, "R"),) if python else ()
    one = scheduler_with(*plugins, nodes=[named(f"n{number}") for number in range(nodes)], pods=pods)
    result = one.run()
    stored = {each.key: each.spec.node_name for each in one.client.list(Pod)[0]}
    was_on = {each.key: each.spec.node_name for each in pods if each.spec.node_name}
    expected = {key: on for key, on in (was_on | result.placements).items() if key not in result.evicted}
    assert stored == expected | dict.fromkeys(result.unschedulable, "")
    assert {each.key for each in pods} == {*stored, *result.evicted}
    assert not {*result.placements} & {*result.evicted, *result.unschedulable}
    for name in (f"n{number}" for number in range(nodes)):
        info = one.cache.node_info(name)
        assert {each.key for each in info.pods} == {key for key, on in expected.items() if on == name}
        assert info.requested.milli_cpu <= 4000
    waiting = [info.pod.key for infos in one.queue.pending_pods() for info in infos]
    assert sorted(waiting) == sorted(result.unschedulable)
    assert one.queue.in_flight() == []
    assert one.cache.state.pods() == [] or not any(map(one.cache.is_assumed_pod, one.cache.state.pods()))


def test_a_run_and_a_verb_answer_with_one_type() -> None:
    """Rows and failures by place, nodes and reasons by the pods' keys."""
    huge = pod("huge", requests={"cpu": 100})
    nodes = [node("a", cpu=1), node("b", cpu=1)]
    cluster = Cluster(nodes=nodes, pods=[pod("p"), huge, pod("q", requests={"cpu": 1})])
    one = Scheduler(cluster, tie_break="first")
    run = one.run()
    assert run.placements == {"default/p": "a", "default/q": "b"}
    assert list(run.unschedulable) == ["default/huge"]
    assert run.keys == ["default/p", "default/q", "default/huge"]
    assert run.rows.tolist() == [one.table.find_row("a"), one.table.find_row("b"), -1]
    assert run.nodes == ["a", "b", None]
    assert run.failures == {2: run.unschedulable["default/huge"]}
    assert run.failure is run.failures[2]
    other = Scheduler(Cluster(nodes=nodes), tie_break="first")
    placed = other.schedule_pods(cluster.pods)
    assert type(placed) is type(run)
    assert placed.keys == ["default/p", "default/huge", "default/q"]
    assert placed.placements == run.placements
    assert placed.unschedulable["default/huge"].message == run.unschedulable["default/huge"].message
    assert (placed.waiting, placed.binding, placed.evicted, placed.skipped) == ({}, {}, {}, {})
    assert placed.seconds == 0 < run.seconds
    replicas = other.schedule_by_template(pod("web", requests={"cpu": 1}), 3)
    assert (replicas.keys, replicas.placements) == (["default/web-0"], {"default/web-0": "a"})
    assert list(replicas.unschedulable) == ["default/web-1"]


def test_a_batch_that_is_cut_into_many_pieces_has_one_result(monkeypatch: Any) -> None:
    """One for each piece would cost pods times pieces."""
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    pods = [pod(f"p{at}", scheduler_name="other" if at % 2 else "default-scheduler") for at in range(8)]
    one = Scheduler(Cluster(nodes=[named("a")], pods=pods), config=configuration(profiles=profiles))
    sizes = []

    class Counted(ScheduleResult):
        def __init__(self, state: Any, n: int, batch: Any = None) -> None:
            sizes.append(n)

    monkeypatch.setattr(loop, "ScheduleResult", Counted)
    assert len(one.run().placements) == len(pods)
    assert sizes == [0, len(pods)], "that of the run, and that of its batch"


def test_a_class_that_fails_again_is_told_why_now() -> None:
    there = pod("there", on="a", requests={"cpu": 1})
    one = Scheduler(Cluster(nodes=[node("a", cpu=2)], pods=[there, pod("big", requests={"cpu": 2})]))
    failure = one.run().unschedulable["default/big"]
    one.client.create(pod("small", requests={"cpu": 1}))
    again = one.run()
    assert again.placements == {"default/small": "a"}
    assert again.unschedulable["default/big"].message == failure.message
    one.client.create(node("b", cpu=1))
    more = one.run().unschedulable["default/big"]
    assert more.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    one.client.create(pod("low", requests={"cpu": 1}, priority=-1))
    assert one.run().placements == {"default/low": "b"}
    now = one.run().unschedulable["default/big"]
    assert now is not more, "PostFilter has run, as a pod of lower priority is there"


@pytest.mark.parametrize("ports", [(), (port(80),)])
def test_events_of_bindings_are_read_without_the_pods(monkeypatch: Any, ports: Any) -> None:
    one, made = Scheduler(Cluster(nodes=[node("a")], pods=[pod("p", ports=ports)])), list[str]()
    bind = PodBinder.__call__

    def noted(binding: PodBinder, bound: Pod, version: str, on: str) -> Pod:
        made.append(bound.name)
        return bind(binding, bound, version, on)

    monkeypatch.setattr(PodBinder, "__call__", noted)
    assert one.run().placements == {"default/p": "a"}
    assert made == []
    assert one.client.get(Pod, "default/p").spec.node_name == "a"
    assert made == ["p"]


def test_equal_pods_fail_alike_while_a_pod_is_nominated_to_a_node_that_is_gone() -> None:
    """Such a nomination changes nothing for others, so what is known of the first is known of the next."""
    nominated = pod("p0", requests={"cpu": 1})
    nominated = replace(nominated, status=replace(nominated.status, nominated_node_name="gone"))
    one = Scheduler(Cluster(nodes=[], pods=[nominated, pod("p1", requests={"cpu": 1})]))
    for _ in range(3):
        failures = one.run().unschedulable
        assert {key: failure.message for key, failure in failures.items()} == {
            "default/p0": "no nodes available to schedule pods",
            "default/p1": "no nodes available to schedule pods",
        }


# ---- pods that are placed and not yet bound


def placed(*names: str) -> tuple[Loop, list[QueuedPodInfo]]:
    """A run that has placed pods on node a, and their entries."""
    scheduler = Scheduler(Cluster(nodes=[node("a")], pods=[pod(name) for name in names]))
    scheduler.sync()
    run = Loop(scheduler.context)
    infos = run.take()
    for info in infos:
        scheduler.context.assume(info.pod, "a")
    run.assumed(infos, ["a"] * len(infos))
    return run, infos


def bound(run: Loop) -> list[str]:
    """The pods that the run has placed in the end, which all are in the cache; no attempt goes on."""
    run.bind()
    context = run.context
    assert context.queue.in_flight() == []
    stored = {one.name for one in context.client.list(Pod)[0] if one.spec.node_name}
    assert stored == {one.name for one in context.cache.node_info("a").pods}
    return [key.removeprefix("default/") for key in run.result.placements]


def test_deleted_bound_and_evicted_pods_are_not_bound_again() -> None:
    run, infos = placed(*"pqrs")
    client, handle = run.context.client, run.context.handle
    client.delete("Pod", "p", "default")
    client.bind(infos[1].pod, "a")
    with run.recording_evictions():
        evict_victims(handle, "a", pod("high"), [run.context.cache.get_pod(infos[2].pod)], "P")
        run.context.sync()
        assert bound(run) == ["s"]


def test_a_pod_with_the_name_of_a_deleted_one_is_bound() -> None:
    run, _ = placed(*"pq")
    context = run.context
    context.client.delete("Pod", "p", "default")
    context.client.create(Pod(metadata=ObjectMeta(name="p", namespace="default", uid="again")))
    context.sync()
    again = run.take()
    context.assume(again[0].pod, "a")
    run.assumed(again, ["a"])
    assert bound(run) == ["p", "q"]


def test_a_pod_that_is_deleted_unnoticed_fails() -> None:
    run, _ = placed(*"pq")
    run.context.client.delete("Pod", "p", "default")
    assert bound(run) == ["q"]


def test_a_pod_whose_claims_are_refused_is_not_bound() -> None:
    run, _ = placed(*"pq")
    assert [info.key for info in run._drop_placed({"default/p"})] == ["default/p"]
    assert [info.key for info in run._take_placed()[0]] == ["default/q"]


# ---- what a run has placed


def entries(*names: str) -> list[QueuedPodInfo]:
    return [QueuedPodInfo(pod(name)) for name in names]


@pytest.mark.parametrize("reads", [(), ("placements",), ("has_placed",), ("keys",)])
def test_placed_pods_are_recorded_in_order(reads: tuple[str, ...]) -> None:
    """Whenever somebody reads them."""
    out = ScheduleResult(Scheduler(Cluster(nodes=[node("a"), node("b")])).cache.state, 0)
    out.note_placed([], [])
    assert not out.has_placed
    for names, nodes in (("pq", ["a", "b"]), ("r", ["gone"])):
        if reads != ("keys",):
            _ = [getattr(out, name) for name in reads]
        out.note_placed(entries(*names), nodes)
        assert out.has_placed
    out.unschedulable["default/s"] = Failure(error="no")
    assert out.end_run(False) is out
    if reads == ("keys",):
        assert out.keys == ["default/p", "default/q", "default/r", "default/s"]
    assert out.placements == {"default/p": "a", "default/q": "b", "default/r": "gone"}
    assert out.keys == ["default/p", "default/q", "default/r", "default/s"]
    assert (out.rows.tolist(), out.nodes) == ([0, 1, -1, -1], ["a", "b", None, None])
    assert list(out.failures) == [3]
    assert out.table().columns["pod"] == out.keys


def test_a_pod_that_was_placed_twice_has_its_last_node() -> None:
    out = ScheduleResult(Scheduler(Cluster(nodes=[node("a"), node("b")])).cache.state, 0)
    out.note_placed(entries("p", "q"), ["a", "a"])
    out.note_placed(entries("p"), ["b"])
    assert out.end_run().keys == ["default/p", "default/q"]
    assert out.nodes == ["b", "a"]


def test_a_run_that_begins_again() -> None:
    out = ScheduleResult(Scheduler(Cluster(nodes=[node("a")])).cache.state, 0)
    out.note_placed(entries("p"), ["a"])
    out.skipped["default/q"] = "why"
    out.clear_run()
    assert (out.has_placed, out.skipped) == (False, {})
    assert out.placements == {}
    out.note_placed(entries("q", "r"), ["a", "a"])
    del out.placements["default/q"]
    out.clear_run()
    assert out.end_run().keys == []

"""Scheduler.run: queue order, what is skipped, failures, warnings; and the scheduler's own arguments."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.make import node, pod, scheduler
from tests.scheduler.make import searched

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import CycleState, NodesView, PreFilterPlugin, Profile
from moorage.errors import InputError
from moorage.kube import (
    Affinity,
    Cluster,
    Pod,
    PodAffinity,
    PodSchedulingGate,
    PodStatus,
    Volume,
    build_cluster,
)

GPU = "example.com/gpu"


def created(one: Pod, at: str) -> Pod:
    return replace(one, metadata=replace(one.metadata, creation_timestamp=at))


def with_status(one: Pod, **status: Any) -> Pod:
    return replace(one, status=PodStatus(**status))


# ---- queue order -----------------------------------------------------------------------------------------


def order(*pods: Pod) -> list[str]:
    """In which order pods that all fit are placed."""
    result = scheduler([node("a", pods=100)], list(pods)).run()
    assert not result.unschedulable
    return [key.removeprefix("default/") for key in result.placements]


def test_then_the_older_pod() -> None:
    times = {
        "youngest": "2026-01-02T00:00:00Z",
        "oldest": "2025-12-31T23:30:00-01:00",  # half past midnight, UTC
        "middle": "2026-01-01T01:00:00.5Z",
    }
    pods = [created(pod(name), at) for name, at in times.items()]
    urgent = created(pod("urgent", priority=1), "2027-01-01T00:00:00Z")
    assert order(pod("untimed"), *pods, urgent) == ["urgent", "oldest", "middle", "youngest", "untimed"]


# ---- who takes part --------------------------------------------------------------------------------------


def test_skipped_pods_and_why() -> None:
    terminating = pod("terminating")
    terminating = replace(
        terminating, metadata=replace(terminating.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    pods = [
        terminating,
        pod("theirs", scheduler_name="other"),
        pod("ours", scheduler_name="default-scheduler"),
        pod("gated", scheduling_gates=(PodSchedulingGate(name="g"),)),
        with_status(pod("done"), phase="Succeeded"),
        with_status(pod("broken", on="a", requests={"cpu": 4}), phase="Failed"),
        pod("bound", on="a"),
    ]
    result = scheduler([node("a")], pods).run()
    assert result.placements == {"default/ours": "a"}
    assert result.skipped == {
        "default/terminating": "terminating",
        "default/theirs": "other scheduler",
        "default/gated": "gated",
    }
    assert result.unschedulable == {}


def test_ties_are_broken_as_kube_scheduler_breaks_them_unless_told_otherwise() -> None:
    """Four equal nodes: when two are taken, the last of the other two has come up in Go's heap."""
    nodes = [node(name) for name in "abcd"]
    pods = [pod(f"p{at}", requests={"cpu": "1"}) for at in range(3)]
    by_default, by_heap, first = (
        list(scheduler(nodes, pods, **setting).run().placements.values())
        for setting in ({}, {"tie_break": "go-heap"}, {"tie_break": "first"})
    )
    assert by_default == by_heap == ["a", "b", "d"]
    assert first == ["a", "b", "c"]


# ---- failures --------------------------------------------------------------------------------------------


def test_pods_of_one_class_that_fail_alike_share_one_failure() -> None:
    pods = [pod(f"p{at}", requests={"cpu": 3}) for at in range(4)]
    pods.append(pod("small", requests={"cpu": 1}))
    pods += [pod(f"q{at}", requests={"cpu": 3}) for at in range(2)]
    result = scheduler([node("a")], pods).run()
    assert list(result.placements) == ["default/p0", "default/small"]
    first, second, third = (result.unschedulable[f"default/p{at}"] for at in (1, 2, 3))
    assert first is second is third
    assert searched(first.message) == "0/1 nodes are available: 1 Insufficient cpu."
    assert first.reasons == {"Insufficient cpu": 1}
    # "small" has changed the node since, and they fail as before.
    late = [result.unschedulable[f"default/q{at}"] for at in (0, 1)]
    assert late[0] is late[1]
    assert late[0].message == first.message


@pytest.mark.parametrize("order", ["abx", "xab", "axb", "xza", "axzb"])
def test_a_pod_that_cannot_be_read_fails_alone(order: str) -> None:
    pods = [pod(name, requests={"cpu": "x" if name in "xz" else "1"}) for name in order]
    one = Scheduler(Cluster(nodes=[node("n")], pods=pods))
    result = one.run()
    assert result.placements.keys() == {"default/a", "default/b"} & {one.key for one in pods}
    texts = {key: failure.message for key, failure in result.unschedulable.items()}
    assert texts.keys() == {one.key for one in pods if one.name in "xz"}
    for key, text in texts.items():
        assert text.startswith(
            f'pod {key}: spec.containers[0].resources.requests[cpu]: "x" is not a quantity'
        )


UNREADABLE = r"^{}: {}\[cpu\]: \"x\" is not a quantity"
REQUESTS = r"spec.containers\[0\].resources.requests"


def test_what_cannot_be_read_is_named_where_it_comes_in() -> None:
    bound, bad = pod("bound", on="n", requests={"cpu": "x"}), node("bad", cpu="x")
    pods = [pod("a"), pod("b", on="n")]
    for obj, field in ((bound, REQUESTS), (bad, "status.allocatable")):
        text = UNREADABLE.format(f"{obj.kind} {obj.key}", field)
        for controllers in (False, True):
            with pytest.raises(InputError, match=text):
                Scheduler(build_cluster([node("n"), *pods, obj]), controllers=controllers)
        one = scheduler([node("n")], pods)
        one.client.create_many([obj])
        with pytest.raises(InputError, match=text):
            one.sync()
        assert one.run().placements == {"default/a": "n"}


def test_a_given_pod_that_cannot_be_read_is_named() -> None:
    one, bad = scheduler([node("n")], []), pod("bad", requests={"cpu": "x"})
    text = UNREADABLE.format("Pod default/bad", REQUESTS)
    one_by_one = one.can_schedule_pod, one.ask.explain, one.schedule_one, one.ask.capacity
    many = [partial(call, [pod("p"), bad]) for call in (one.schedule_pods, one.preempt_pods)]
    for call in (
        *[partial(call, bad) for call in one_by_one],
        partial(one.schedule_by_template, bad, 1),
        *many,
    ):
        with pytest.raises(InputError, match=text):
            call()
        assert not list(one.cache.state.pods())


def test_a_run_without_nodes_places_no_pod() -> None:
    result = scheduler([], [pod("p"), pod("q")]).run()
    assert {searched(failure.message) for failure in result.unschedulable.values()} == {
        "no nodes available to schedule pods"
    }


def test_an_empty_cluster() -> None:
    result = Scheduler().run()
    assert (result.placements, result.unschedulable, result.skipped, result.warnings) == ({}, {}, {}, [])


# ---- features without their plugin -----------------------------------------------------------------------


def test_empty_forms_are_not_uses() -> None:
    empty = Affinity(pod_affinity=PodAffinity(), pod_anti_affinity=PodAffinity())
    result = scheduler([node("a")], [pod("p", affinity=empty), pod("q", volumes=(Volume(name="v"),))]).run()
    assert result.warnings == []


# ---- arguments -------------------------------------------------------------------------------------------


def test_arguments_of_another_type() -> None:
    one, pods = scheduler([node("n")], []), "^pods must be a sequence of Pod, not Pod$"
    by_template = partial(one.schedule_by_template, n=1)
    for call in (one.can_schedule_pod, one.examine, one.schedule_one, by_template):
        text = r"^(pod|template) must be a path, text, .* or object of Kubernetes, not int$"
        with pytest.raises(TypeError, match=text):
            call(5)
    for many in (one.schedule_pods, one.preempt_pods):
        with pytest.raises(TypeError, match=pods):
            many(pod("p"))
        with pytest.raises(TypeError, match=r"^pods must be a Pod, not Node$"):
            many([pod("p"), node("n")])
    with pytest.raises(TypeError, match=r"^pod must be a Pod, not Node$"):
        one.ask.explain(node("n"))
    for cluster in ("cluster.yaml", [node("n")]):
        with pytest.raises(
            TypeError, match=rf"^a scheduler takes a Cluster, .* not {type(cluster).__name__}$"
        ):
            Scheduler(cluster)
    for seed in ("a", 1.5, None):
        with pytest.raises(TypeError, match=rf"^seed must be a whole number, not {type(seed).__name__}$"):
            Scheduler(seed=seed)
    for name in ("clock", "wait"):
        with pytest.raises(TypeError, match=rf"^{name} must be a callable or None, not int$"):
            Scheduler(**{name: 0})  # type: ignore[arg-type]


def test_its_parts_are_shown_in_a_line() -> None:
    one = scheduler([node("a")], [pod("p"), pod("gone", on="b"), pod("q", requests={"cpu": 99})])
    one.run()
    assert repr(one) == "<Scheduler: 1 nodes, 2 pods on nodes, 1 waiting>"
    assert repr(one.cache) == "<SchedulerCache: 1 nodes, 2 pods>"
    assert repr(one.queue) == "<SchedulingQueue: 1 waiting>"
    (waiting,) = one.queue.pending_pods().unschedulable
    assert repr(waiting) == "<QueuedPodInfo of <Pod default/q>: Place.UNSCHEDULABLE, 1 attempts>"
    assert repr(one.pods) == "<PodHandler: 1 waiting, 0 finished>"
    assert repr(one.context) == f"<SchedulerState: {one.cache}, {one.queue}>"
    assert repr(one.informers) == f"<InformerFactory: {one.client}>"
    assert repr(one.client).endswith(" writes>")
    informer = one.informers.informer(Pod)
    assert repr(informer) == "<Informer: Pod, <Indexer: 3 objects>>"
    assert repr(informer.lister) == "<Lister: Pod, <Indexer: 3 objects>>"
    engine = one.engines["default-scheduler"]
    assert repr(engine) == f"<Engine: {engine.profile}>"
    assert repr(engine.framework) == f"<Framework: {engine.profile}>"
    assert repr(engine.framework.all_nodes()) == "<NodesView: 1 nodes>"
    assert repr(Cluster()).startswith("Cluster: empty")


def test_an_option_that_is_unknown() -> None:
    with pytest.raises(TypeError, match=r"^a scheduler takes no option colour, tie-break$"):
        Scheduler(**{"colour": 1, "tie-break": "first", "seed": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes no option version; nearest: kubernetes_version"):
        Scheduler(version="1.37")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^a replay takes no option untl; nearest: until, ttl$"):
        mo.replay(mo.Timeline(Cluster()), untl=3)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^tie_break must be one of first, random, go-heap, not 'last'$"):
        Scheduler(tie_break="last")
    for percentage in (-1, 101):
        with pytest.raises(
            ValueError,
            match=rf"^percentage_of_nodes_to_score must be from 0 \(adaptive\) to 100, not {percentage}$",
        ):
            Scheduler(percentage_of_nodes_to_score=percentage)


def test_times_of_pods_are_whole_seconds() -> None:
    with pytest.raises(TypeError, match=r"^ready must be a whole number, not str$"):
        mo.PodTimes(ready="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^ready must be at least 0, not -1$"):
        mo.PodTimes(ready=-1)
    with pytest.raises(
        TypeError, match=r"^PodTimes.__init__\(\) takes 1 positional argument but 2 were given$"
    ):
        mo.PodTimes(2)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"^pod_times must be a PodTimes or a callable, not int$"):
        Scheduler(pod_times=5)  # type: ignore[arg-type]


def test_the_random_tie_break_follows_its_seed() -> None:
    nodes = [node(f"n{at}") for at in range(20)]

    def placed(seed: int) -> list[str]:
        pods = [pod(f"p{at}", requests={"cpu": 1}) for at in range(10)]
        return list(scheduler(nodes, pods, tie_break="random", seed=seed).run().placements.values())

    assert placed(1) == placed(1)
    assert len({tuple(placed(seed)) for seed in range(5)}) == 5


# ---- the cache's lock --------------------------------------------------------------------------------------


class Held:
    """A lock that knows how often it is held."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *rest: object) -> None:
        self.depth -= 1


class Watcher(PreFilterPlugin):
    """Notes whether the lock is held when a cycle runs its plugins."""

    name = "Watcher"

    def __init__(self, lock: Held) -> None:
        super().__init__()
        self.lock = lock
        self.seen: list[bool] = []

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> None:
        self.seen.append(self.lock.depth > 0)


def test_a_cycle_runs_under_the_lock_of_the_cache() -> None:
    lock = Held()
    watcher = Watcher(lock)
    profile = Profile(plugins=(*default_profile().plugins, watcher))
    one = scheduler([node("a")], [pod("p")], profile=profile)
    one.cache.lock = lock  # type: ignore[assignment]
    one.run()
    one.examine(pod("q"))
    schedule_one(one.context, pod("q"))
    assert watcher.seen == [True, True, True]
    assert lock.depth == 0

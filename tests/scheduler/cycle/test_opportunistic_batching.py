"""Opportunistic batching (kube-scheduler v1.36, framework/runtime/batch.go): each rule of the list that a
search leaves to the next, equal pod."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import Placing, Route, place_listed, schedule_one
from tests.make import configuration, in_tree, node, pod, port
from tests.scheduler.make import Clock

from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, FilterPlugin, ReservePlugin, SignPlugin, Status, StatusError
from moorage.engine.scheduler import Decision, Profile, ScheduleResult
from moorage.kube import Cluster, EmptyDirVolumeSource, Pod, Volume

LARGE = {"cpu": 3}  # one of them fills a node
LISTED = {"defaultingType": "List"}


def unspread(*others: Any, **settings: Any) -> Profile:
    """The default profile, but that it spreads no pods by default."""
    plugins = (p for p in default_profile().plugins if p.name != "PodTopologySpread")
    return Profile((*plugins, in_tree("PodTopologySpread")(LISTED), *others), **settings)


def scheduler(*pods: Pod, nodes: int = 4, **settings: Any) -> Scheduler:
    """Over nodes a, b, … that are the better, the later they come: those before are used a little."""
    names = "abcdefgh"[:nodes]
    used = [
        pod(f"on-{name}", on=name, requests={"cpu": f"{100 * (nodes - at)}m"})
        for at, name in enumerate(names)
    ]
    cluster = Cluster(nodes=[node(name) for name in names], pods=[*used, *pods])
    return Scheduler(cluster, **({"profile": unspread()} | settings))


def large(name: str, **spec: Any) -> Pod:
    return pod(name, requests=LARGE, **spec)


def outcomes(one: Scheduler, *pods: Pod) -> list[tuple[str | None, bool]]:
    decisions = [schedule_one(one.context, each) for each in pods]
    return [(d.node, d.hinted) for d in decisions]


@pytest.mark.parametrize(("seconds", "hinted"), [(0.0, True), (0.5, True), (0.51, False)])
def test_a_list_is_good_for_half_a_second_after_its_search(seconds: float, hinted: bool) -> None:
    clock = Clock(7.0)
    one = scheduler(clock=clock)
    schedule_one(one.context, large("p"))
    clock.now += seconds
    assert outcomes(one, large("q")) == [("c", hinted)]
    clock.now += 0.4  # what counts is when the list was made, not when it was last used
    assert schedule_one(one.context, large("r")).hinted == (seconds == 0.0 or not hinted)


def test_without_a_clock_no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", itertools.count().__next__)
    assert outcomes(scheduler(), large("p"), large("q")) == [("d", False), ("c", True)]


# ---- when it is off


@pytest.mark.parametrize(
    "settings",
    [
        {"feature_gates": {"OpportunisticBatching": False}},
        {"profile": default_profile()},
        {"tie_break": "random"},
    ],
)
def test_without_batching_pods_take_no_hint(settings: dict[str, Any]) -> None:
    assert outcomes(scheduler(**settings), large("p"), large("q")) == [("d", False), ("c", False)]


def test_extenders_sign_no_pod() -> None:
    config = configuration(
        profiles=[{"pluginConfig": [{"name": "PodTopologySpread", "args": LISTED}]}],
        extenders=[{"urlPrefix": "http://x", "managedResources": [{"name": "example.com/gpu"}]}],
    )
    assert outcomes(scheduler(profile=None, config=config), large("p"), large("q"))[1] == ("c", False)


def test_a_list_of_another_profile_is_not_used() -> None:
    profiles = (unspread(), unspread(scheduler_name="other"))
    one = scheduler(profile=None, profiles=profiles)
    other = large("q", scheduler_name="other")
    assert outcomes(one, large("p"), other, large("r")) == [("d", False), ("c", False), ("b", False)]


# ---- plugins outside the core


class Broken(FilterPlugin, SignPlugin):
    """Fails with an error about a node, as often as it is told to."""

    name = "Broken"
    failing = ""
    times = 99

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        if node_info.node.name != self.failing or self.times == 0:
            return None
        self.times -= 1
        return Status(Code.ERROR, ("broken",))

    def sign_pod(self, pod: Pod) -> None:
        return None


def with_plugin(plugin: Any) -> tuple[Scheduler, list[Pod]]:
    """A scheduler whose profile asks this plugin first, and three equal pods of its store."""
    pods = [large(f"p{at}") for at in range(3)]
    one = scheduler(profile=Profile((plugin, *unspread().plugins)))
    one.client.create_many(pods)
    return one, pods


def test_a_plugin_that_signs_takes_part() -> None:
    one, pods = with_plugin(Broken())
    assert outcomes(one, *pods) == [("d", False), ("c", True), ("b", True)]


class ByName(Broken):
    """Signs the name of a pod."""

    def sign_pod(self, pod: Pod) -> Any:
        return {"name": pod.name}


@pytest.mark.parametrize("plugin", [None, Broken(), ByName()])
def test_routes_tell_where_signatures_differ(plugin: Any) -> None:
    """Also of pods that have all objects in common but their metadata."""
    one = scheduler() if plugin is None else with_plugin(plugin)[0]
    first = large("p")
    alike = replace(first, metadata=replace(first.metadata, name="q", uid="q"))
    larger = pod("r", requests={"cpu": 2})
    batch = one.context.batch_of([first, alike, larger])
    bits = [batch.route(at) & Route.SIGNATURE for at in range(3)]
    differ = [a != b for a, b in itertools.pairwise(bits)]
    assert differ == [isinstance(plugin, ByName), True]


def test_a_plugin_that_fails_on_the_last_node_does_not_make_it_full() -> None:
    plugin = Broken()
    one, pods = with_plugin(plugin)
    schedule_one(one.context, pods[0])
    plugin.failing = "d"
    assert outcomes(one, pods[1]) == [("c", False)]


def test_a_plugin_that_fails_on_the_hint_is_asked_again_by_the_search() -> None:
    plugin = Broken()
    one, pods = with_plugin(plugin)
    schedule_one(one.context, pods[0])
    plugin.failing = "c"
    decision = schedule_one(one.context, pods[1])
    assert (decision.node, decision.error) == (None, 'running "Broken" filter plugin: broken')
    plugin.failing = ""
    assert outcomes(one, pods[1]) == [("c", False)], "no list was left"
    plugin.failing, plugin.times = "b", 1
    assert outcomes(one, pods[2]) == [("b", True)], "the search came to the node that was proposed"


class Refuses(ReservePlugin):
    name = "Refuses"

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("no",)) if pod.name == "p1" else None


def test_a_pod_that_is_taken_back_leaves_its_node_free() -> None:
    """The list was stored before Reserve; the next pod would fit the node, so that it is of no use."""
    one, pods = with_plugin(Refuses())
    assert outcomes(one, *pods) == [("d", False), (None, True), ("c", False)]


# ---- in a transaction, in a run


def test_a_rollback_takes_the_list_back() -> None:
    one = scheduler(tie_break="go-heap")
    schedule_one(one.context, large("p"))
    for _ in range(2):
        with one.cache.transaction():
            assert outcomes(one, large("q"), large("r")) == [("c", True), ("b", True)]
    with one.cache.transaction() as kept:
        assert outcomes(one, large("q")) == [("c", True)]
        with one.cache.transaction():
            schedule_one(one.context, pod("other"))
        kept.commit()
    assert outcomes(one, large("r")) == [("b", True)]


def cycles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The indexes of the pods that have a cycle of their own in a batch from now on."""
    out, cycle = list[int](), Placing.cycle

    def noted(placing: Placing, at: int) -> Decision:
        out.append(at)
        return cycle(placing, at)

    monkeypatch.setattr(Placing, "cycle", noted)
    return out


@pytest.mark.parametrize("verb", ["run", "schedule_pods", "schedule_by_template"])
def test_pods_of_a_batch_follow_the_list_without_cycles(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [large(f"p{at}", labels={"a": "b"}) for at in range(5)]
    one, alone = scheduler(*(pods if verb == "run" else ()), nodes=6), cycles(monkeypatch)
    if verb == "run":
        nodes = list(one.run().placements.values())
    elif verb == "schedule_pods":
        nodes = list(one.schedule_pods(pods).nodes)
    else:
        nodes = list(one.schedule_by_template(pods[0], 5).nodes)
    assert (nodes, alone) == (["f", "e", "d", "c", "b"], [0])
    assert one.table.requested["cpu"].tolist() == [600, 3500, 3400, 3300, 3200, 3100]
    assert one.schedule_pods([large("q", labels={"a": "b"})]).nodes == ["a"]
    assert alone == [0] if verb != "run" else [0, 0]


def test_an_exception_between_hints_places_none_of_the_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    one = scheduler(nodes=6)
    before = one.table.requested["cpu"].tolist()

    def failing(engine: Any, scored: Any, batch: Any, result: Any, first: int, end: int) -> int:
        assert place_listed(engine, scored, batch, result, first, first + 2) == first + 2
        raise MemoryError

    monkeypatch.setattr("moorage.engine.scheduler.place.place_listed", failing)
    with pytest.raises(MemoryError):
        one.schedule_pods([large(f"p{at}") for at in range(5)])
    monkeypatch.undo()
    assert one.table.requested["cpu"].tolist() == before
    assert one.context.rotation.engines[0].batching.scored is None
    assert one.schedule_pods([large(f"p{at}") for at in range(5)]).nodes == ["f", "e", "d", "c", "b"]


def test_pods_of_equal_class_and_other_signature_do_not_follow_the_list() -> None:
    """Of volumes the class reads none here; the signature does."""
    one = scheduler(nodes=6)
    volumes = (), (Volume("a", empty_dir=EmptyDirVolumeSource()),)
    pods = [large(f"p{at}", volumes=volumes[at in (2, 3)]) for at in range(5)]
    batch = one.context.batch_of(pods)
    assert batch.classes() == [batch.target(0)[0]]
    turns = [batch.route(at) & Route.SIGNATURE for at in range(5)]
    assert turns[0] == turns[1] != turns[2] == turns[3] != turns[4]
    assert [batch.end_of_run(at) for at in range(5)] == [2, 2, 4, 4, 5]
    assert batch.key(0, 1) == batch.key(2, 3), "a search does not depend on it"
    together, single = (scheduler(nodes=6, tie_break="go-heap") for _ in range(2))
    assert together.schedule_pods(pods).nodes == [node for node, _ in outcomes(single, *pods)]


class FailsForTheThird:
    """A list of scored nodes."""

    created = 0.0

    def __init__(self, signature: bytes | None) -> None:
        self.signature = signature

    def place(self, search: Any, batch: Any, result: Any, first: int, end: int) -> int:
        result.rows[first : first + 2] = 7
        raise StatusError(Status(Code.ERROR, ("broken",)))


def test_a_pod_for_which_a_plugin_fails_has_a_cycle_of_its_own() -> None:
    one, pods = scheduler(), [large(f"p{at}") for at in range(5)]
    batch = one.context.batch_of(pods)
    engine, result = one.context.rotation.engines[0], ScheduleResult(one.cache.state, 5, batch)
    scored = FailsForTheThird(engine.sign(pods[0]))
    assert scored.signature is not None
    assert place_listed(engine, cast(Any, scored), batch, result, 1, 5) == 3


def test_a_list_expires_in_the_middle_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.engine.scheduler.place.LISTED", 2)
    one, alone = scheduler(nodes=8, clock=itertools.count(0.0, 0.2).__next__), cycles(monkeypatch)
    one.schedule_pods([large(f"p{at}") for at in range(8)])
    assert alone == [0, 5], "two times two pods follow a list, until it is more than 0.5 s old"


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 3]), st.sampled_from(["", "", "", "a", "d"]), st.sampled_from([0, 0, 80])
        ),
        min_size=2,
        max_size=14,
    ),
    st.integers(1, 6),
    st.sampled_from(["first", "go-heap"]),
)
def test_batches_of_any_pods_decide_as_single_cycles_do(
    asked: list[tuple[int, str, int]], nodes: int, tie_break: str
) -> None:
    pods = [
        pod(f"p{at}", nominated=to, requests={"cpu": cpu}, ports=[port(host)] if host else [])
        for at, (cpu, to, host) in enumerate(asked)
    ]
    together, single = (scheduler(nodes=nodes, tie_break=tie_break) for _ in range(2))
    assert together.schedule_pods(pods).nodes == [node for node, _ in outcomes(single, *pods)]
    lists = [one.context.rotation.engines[0].batching.scored for one in (together, single)]
    kept = [
        None if each is None else (each.last_row(one.table), each.signature, each.created, len(each))
        for one, each in zip((together, single), lists, strict=True)
    ]
    assert kept[0] == kept[1]
    assert together.placer.decider.start == single.placer.decider.start

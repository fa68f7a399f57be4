"""Extenders in the cycle: which nodes they are asked about, and what is made of what they say."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import pinned
from tests.doors.engine import schedule_one, schedule_pod
from tests.extenders.extended import ABC, GPU, configured, decide, of, only, scheduler, scores, why
from tests.extenders.extender_server import Answer, ExtenderServer
from tests.make import node, pod
from tests.scheduler.cycle.test_modes import World
from tests.scheduler.make import events

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import Victims
from moorage.errors import ExtenderError
from moorage.kube import Node, Pod, PodStatus, decode_object

# ---- Filter


def test_a_filter_decides_where_a_pod_goes() -> None:
    with ExtenderServer(filter=only("b"), prioritize=scores(a=10)) as server:
        one = scheduler(of(server.url, "filter", "prioritize"), pods=[pod("p"), pod("q")])
        result = one.run()
        assert result.placements == {"default/p": "b", "default/q": "b"}
        assert result.warnings == []
    assert server.verbs == ["filter", "filter"]  # a single node is not scored
    assert one.client.get(Pod, "p", "default").spec.node_name == "b"
    assert [event[:3] for event in events(one)] == [
        ("p", "Normal", "Scheduled"),
        ("q", "Normal", "Scheduled"),
    ]


def test_what_the_decision_tells() -> None:
    """Node b, about which the extender says nothing, is not counted."""
    with ExtenderServer(filter=only("c", "a"), prioritize=scores(a=9)) as server:
        one = scheduler(of(server.url, "filter", "prioritize", weight=2), pods=[pod("t", on="b")])
        decision = decide(one, pod("p", requests={"cpu": 1}))
        plain = scheduler(config=configured()).examine(pod("p", requests={"cpu": 1}))
    totals = dict(zip(plain.feasible, plain.total.tolist(), strict=True))
    assert (decision.node, decision.start, decision.next, decision.evaluated) == ("a", 0, 0, 2)
    assert decision.feasible.tolist() == [2, 0]  # in the extender's order
    assert decision.totals is not None
    assert decision.totals.tolist() == [totals["c"], totals["a"] + 9 * 2 * 10]


def test_a_plugin_that_named_nodes_rejects_a_pod_beside_an_extender() -> None:
    with ExtenderServer(filter=only()) as server:
        one = scheduler(of(server.url, "filter"))
        diagnosis = decide(one, pod("p", affinity=pinned("b"))).diagnosis
    assert diagnosis is not None
    assert diagnosis.rejectors().unschedulable == {"NodeAffinity", "Extender"}


class Notes(mo.PostFilterPlugin):
    """Remembers why nodes were rejected."""

    name = "Notes"
    seen: Mapping[str, mo.Status] = {}

    def post_filter(self, state: Any, pod: Pod, statuses: Mapping[str, mo.Status]) -> Any:
        Notes.seen = dict(statuses)
        return None, mo.Status(mo.Code.UNSCHEDULABLE, ("noted",))


def noting(*extenders: dict[str, Any]) -> dict[str, Any]:
    return configured(*extenders, profile={"plugins": {"postFilter": {"enabled": [{"name": "Notes"}]}}})


def test_why_a_pod_fits_nowhere() -> None:
    failed = {"a": "not here", "b": "not here", "gone": "unknown"}
    result = {"NodeNames": [], "FailedNodes": failed, "FailedAndUnresolvableNodes": {"b": "never here"}}
    nodes = [*ABC, node("d", cpu=1), node("e", cpu=8, labels={"silent": ""})]
    with ExtenderServer(filter=result) as server:
        config = noting(of(server.url, "filter"))
        one = scheduler(nodes=nodes, config=config, registry=mo.Registry({"Notes": Notes}))
        decision = decide(one, pod("p", requests={"cpu": 2}))
    reasons = "1 Insufficient cpu, 1 never here, 1 not here, 1 unknown"
    assert decision.fit_error.startswith(f"0/5 nodes are available: {reasons}. ")
    assert decision.diagnosis is not None
    assert decision.diagnosis.extender_rejected
    assert decision.diagnosis.reasons() == {
        "Insufficient cpu": 1,
        "never here": 1,
        "not here": 1,
        "unknown": 1,
    }
    assert {name: (int(status.code), status.reasons) for name, status in Notes.seen.items()} == {
        "a": (2, ("not here",)),
        "b": (3, ("never here",)),
        "c": (3, ()),
        "d": (3, ("Insufficient cpu",)),
        "e": (3, ()),
    }
    assert list(Notes.seen) == ["a", "b", "c", "d", "e"]
    condition = one.client.get(Pod, "p", "default").status.conditions[0]
    assert (condition.reason, condition.message) == ("Unschedulable", decision.fit_error)


def many(n: int, cpu: int = 4) -> list[Node]:
    return [node(f"n{at:03}", cpu=cpu) for at in range(n)]


def test_a_sample_that_an_extender_rejects() -> None:
    """Of 300 nodes 150 are looked at, 6 of them in vain; the rest has no part in the message."""
    nodes = [node(f"n{at:03}", cpu=1 if at % 25 == 0 else 4) for at in range(300)]
    with ExtenderServer(
        filter=lambda message: {"FailedNodes": dict.fromkeys(message["NodeNames"], "no")}
    ) as server:
        one = scheduler(of(server.url, "filter"), nodes=nodes, percentage_of_nodes_to_score=48)
        decision = decide(one, pod("p", requests={"cpu": 2}))
    assert len(server.requests[0].message["NodeNames"]) == 144
    assert (decision.next, decision.evaluated) == (151, 151)
    assert why(decision) == "0/300 nodes are available: 144 no, 7 Insufficient cpu."


@pytest.mark.parametrize(("verb", "looked_at"), [("filter", 100), ("prioritize", 100), ("bind", 1)])
def test_without_score_plugins_one_node_is_not_enough(verb: str, looked_at: int) -> None:
    """Whoever is interested."""
    unscored = {"plugins": {"score": {"disabled": [{"name": "*"}]}}}
    one_extender = of("http://127.0.0.1:1", verb, managedResources=[{"name": GPU}])
    one = scheduler(
        nodes=many(200), config=configured(one_extender, profile=unscored, percentageOfNodesToScore=5)
    )
    decision = schedule_one(one.context, pod("p"))
    assert (len(decision.feasible), decision.next) == (looked_at, looked_at)


# ---- faults


def test_a_filter_that_fails_ends_the_cycle() -> None:
    with ExtenderServer(filter={"Error": "broken"}) as server:
        one = scheduler(
            of(server.url, "filter"), nodes=many(200), pods=[pod("p")], percentage_of_nodes_to_score=60
        )
        result = one.run()
    assert result.unschedulable["default/p"].message == "broken"
    assert result.unschedulable["default/p"].diagnosis is None
    assert one.placer.decider.start == 120
    condition = one.client.get(Pod, "p", "default").status.conditions[0]
    assert (condition.reason, condition.message) == ("SchedulerError", "broken")
    assert events(one) == [("p", "Warning", "FailedScheduling", "Scheduling", "broken")]


def test_a_filter_that_may_fail_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    with ExtenderServer(x=Answer(status=500), y=only("c")) as server:
        extenders = of(server.url, filterVerb="x", ignorable=True), of(server.url, filterVerb="y")
        with caplog.at_level(logging.INFO):
            assert decide(scheduler(*extenders), pod("p")).node == "c"
        assert server.verbs == ["y", "x"]  # ignorable ones come last
    reason = f"failed x with extender at URL {server.url}/x, code 500"
    text = f"Skipping extender {server.url} as it returned error and has ignorable flag set: {reason}"
    assert text in caplog.messages


def test_scores_that_fail_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with ExtenderServer(x=Answer(b"{"), y=scores(a=10, nobody=10)) as server:
        extenders = [of(server.url, prioritizeVerb=verb) for verb in "xy"]
        with caplog.at_level(logging.INFO):
            decision = decide(scheduler(*extenders), pod("p", requests={"cpu": 1}))
        assert (decision.node, server.verbs) == ("a", ["x", "y"])
    text = "Failed to run extender's priority function. No score given by this extender: "
    assert f"{text}{server.url}: unexpected EOF" in caplog.messages


class Failing(mo.PreScorePlugin):
    name = "Failing"

    def pre_score(self, state: Any, pod: Pod, nodes: Any) -> mo.Status:
        return mo.Status(mo.Code.ERROR, ("no",))


def test_where_pre_score_fails_nobody_scores() -> None:
    with ExtenderServer(prioritize=scores(a=10)) as server:
        config = configured(
            of(server.url, "prioritize"),
            profile={"plugins": {"preScore": {"enabled": [{"name": "Failing"}]}}},
        )
        one = scheduler(config=config, registry=mo.Registry({"Failing": Failing}))
        assert decide(one, pod("p")).error == 'running PreScore plugin "Failing": no'
    assert server.requests == []


# ---- Score


@pytest.mark.parametrize(("by_name", "node"), [(True, "b"), (False, "a")])
def test_nodes_that_are_sent_back_are_scored_as_if_they_were_empty(by_name: bool, node: str) -> None:
    """As upstream does by mistake (kubernetes issue 141781)."""

    def all_of_them(message: Any) -> Any:
        return {"NodeNames": message["NodeNames"], "Nodes": message["Nodes"]}

    nodes = [ABC[0], replace(ABC[0], metadata=replace(ABC[0].metadata, name="b"))]
    with ExtenderServer(filter=all_of_them, broken=Answer(status=500), other={}) as server:
        decides = of(server.url, "filter", nodeCacheCapable=by_name)
        others = [
            of(server.url, filterVerb="broken", nodeCacheCapable=False, ignorable=True),
            of(server.url, prioritizeVerb="other", nodeCacheCapable=False),
        ]
        one = scheduler(
            decides, *others, nodes=nodes, pods=[pod("t", on="a", requests={"cpu": 2})], tie_break="first"
        )
        decision = decide(one, pod("p", requests={"cpu": 1}))
        again = decide(one, pod("q", requests={"cpu": 1})).totals
    assert decision.node == node
    assert decision.totals is not None
    assert again is not None
    assert (decision.totals[0] == decision.totals[1]) != by_name
    assert (again.tolist() == decision.totals.tolist()) != by_name


def test_scores_wrap_as_in_go() -> None:
    with ExtenderServer(prioritize=scores(a=2**62, b=1)) as server:
        decision = decide(scheduler(of(server.url, "prioritize")), pod("p"))
    plain = scheduler(config=configured()).examine(pod("p")).total
    assert decision.totals is not None
    assert (decision.totals - plain).tolist() == [-(2**63), 10, 0]  # 10 * 2^62 is 2^63 modulo 2^64


def test_the_random_number_decides_among_equals_that_were_scored() -> None:
    """An extender that does not score counts as one that gives 0 to all."""
    nodes = many(8)

    def counts(verb: str, **by_name: int) -> Counter[str | None]:
        with ExtenderServer(
            prioritize=scores(**by_name), filter=only(*(one.name for one in nodes))
        ) as server:
            config = configured(of(server.url, verb))
            settings = {"config": config, "nodes": nodes, "tie_break": "go-heap"}
            return Counter(decide(scheduler(**settings, seed=seed), pod("p")).node for seed in range(6))

    assert counts("prioritize") == {"n000": 6}
    assert counts("prioritize", n003=0) == {"n003": 6}
    assert counts("prioritize", n003=0, n005=0).keys() == {"n003", "n005"}
    assert counts("prioritize", n003=0, n004=-1, n005=0).keys() == {"n003", "n005"}
    assert len(counts("filter")) > 2


# ---- against a search without extenders


class Silent:
    """An extender that lets all nodes pass and scores none."""

    name = "silent"
    weight = 1
    is_ignorable = returns_bare_nodes = is_binder = supports_preemption = False
    is_filter = is_prioritizer = True

    def is_interested(self, pod: Pod) -> bool:
        return True

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        return [one.name for one in nodes], {}, {}

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        return {}

    def bind(self, pod: Pod, node: str) -> None:
        raise ExtenderError("not asked")

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        raise ExtenderError("not asked")


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**64),
    st.sampled_from([2, 3, 10, 30, 130]),
    st.booleans(),
    st.sampled_from([0, 10, 100]),
    st.sampled_from(["first", "go-heap", "random"]),
)
def test_an_extender_that_says_nothing_changes_nothing(
    seed: int, nodes: int, spread: bool, percentage: int, tie_break: str
) -> None:
    gates = {"OpportunisticBatching": False}
    world = World(
        seed, nodes, spread, percentage_of_nodes_to_score=percentage, tie_break=tie_break, feature_gates=gates
    )
    plain, extended = world.schedulers[:2]
    for engine in extended.engines.values():
        engine.handle.extenders = [Silent()]
    for _ in range(3):
        for manifest in world.pods():
            waiting = decode_object(manifest)
            assert isinstance(waiting, Pod)
            if world.random.random() < 0.3:
                name = world.random.choice([*world.nodes, "gone"])
                waiting = replace(waiting, status=PodStatus(nominated_node_name=name))
            first, second = (decided(one, waiting) for one in (plain, extended))
            assert first == second
        world.change([])


def decided(one: Scheduler, waiting: Pod) -> tuple[Any, ...]:
    (engine,) = one.engines.values()
    decision, _ = schedule_pod(engine, waiting, one.context.target_of(waiting))
    if decision.node is not None:
        one.context.assume(waiting, decision.node)
    totals = None if decision.totals is None else decision.totals.tolist()
    place = decision.node, decision.start, decision.next, decision.evaluated
    return *place, decision.feasible.tolist(), totals, decision.fit_error, decision.error

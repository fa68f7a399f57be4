"""What holds of each replay with an autoscaler."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import moorage as mo
from moorage import Timeline
from moorage.kube import Cluster
from tests.doors.autoscalers import Flags, NodeFacts
from tests.sim.autoscaling.made import budget, deployment, group, pod, scalings, sizes, spec, tiny

TIMES = st.integers(0, 900)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    made = Timeline(Cluster(nodes=[tiny()]))
    small = {"minSize": draw(st.integers(0, 2)), "maxSize": draw(st.integers(2, 6)), "price": 1.0}
    large = {"maxSize": draw(st.sampled_from([0, 1, 60])), "price": 1.5}
    removal: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"scaleDown": {"unneededTime": "1m", "delayAfterAdd": "30s", "maxDrainParallelism": 2}},
            ]
        )
    )
    expander = draw(st.sampled_from(["random", "least-waste", "price", "most-pods"]))
    delay = draw(st.sampled_from([0, 25, 60]))
    made.autoscale(
        spec(
            group("small", "2", "8Gi", provisionTime=delay, **small),
            group("large", "8", "32Gi", provisionTime=2 * delay, **large),
            expander=expander,
            seed=draw(st.integers(0, 3)),
            **removal,
        )
    )
    for at in range(draw(st.integers(0, 6))):
        time = draw(TIMES)
        made.create(time, pod(f"p{at}", draw(st.sampled_from(["500m", "1", "2", "7"]))))
        if draw(st.booleans()):
            made.delete(time + draw(TIMES), f"pod/p{at}")
    for at in range(draw(st.integers(0, 2))):
        time, name = draw(TIMES), f"web{at}"
        made.create(time, deployment(name, draw(st.integers(1, 9)), draw(st.sampled_from(["500m", "1500m"]))))
        if draw(st.booleans()):
            made.create(time, budget(name, draw(st.integers(0, 1))))
        made.scale(time + draw(TIMES), f"deploy/{name}", draw(st.integers(0, 9)))
    made.measure(2000, "end")
    return made


@settings(max_examples=60, deadline=None)
@given(timelines())
def test_sizes_are_within_limits_and_pods_that_fit_a_template_run(timeline: Timeline) -> None:
    history = mo.replay(timeline)
    assert timeline.autoscaler is not None
    groups = {one.name: one for one in timeline.autoscaler.node_groups}
    for name, one in groups.items():
        had = sizes(history).get(name, [0])
        assert max(had) <= one.max_size
        started = had[one.min_size - 1 :] if one.min_size else had
        assert min(started) >= one.min_size
    if groups["large"].max_size == 60:
        assert history.summary()["pending"] == 0
    # Pods of a deployment are there as its replicas say, wherever they were moved.
    again = mo.replay(timeline)
    assert scalings(again) == scalings(history)
    assert again.pods().to_dict() == history.pods().to_dict()


@settings(max_examples=20, deadline=None)
@given(timelines(), st.integers(0, 2000))
def test_time_travel_leads_to_the_same_nodes(timeline: Timeline, time: int) -> None:
    history = mo.replay(timeline)
    then = sorted(history.at(time).context.view_order())
    there: dict[str, bool] = {}
    for at, name, is_there in zip(*history.nodes().to_dict().values(), strict=True):
        if at <= time:
            there[name] = is_there
    assert then == sorted(name for name, is_there in there.items() if is_there)


def test_what_a_loop_has_found_of_a_node_holds_while_it_is_the_same() -> None:
    facts, flags, there = NodeFacts(), Flags(), [pod("p")]

    def found(answer: str, flags: Flags = flags) -> str:
        facts.begin_loop(flags)
        return facts.kept("n", (there,), lambda: answer)

    assert [found("first"), found("second")] == ["first", "first"]
    there = [pod("q")]
    assert found("third") == "third"
    assert found("fourth", Flags(min_replica_count=1)) == "fourth"
    facts.begin_loop(flags)
    assert found("fifth") == "fifth"

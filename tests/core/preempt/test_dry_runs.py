"""Dry runs of preemption: against a slow twin over objects, and against the core with pods really gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.core.twins.preemption_twin import Evictions, Rejection
from tests.core.twins.preemption_world import World, on, worlds, worlds_of_groups
from tests.doors.engine import NO_VICTIMS, UNRESOLVABLE, DryRuns
from tests.make import node as make_node
from tests.make import pod as make_pod

from moorage.errors import InputError
from moorage.kube import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)


def rejection(world: World, verdict: int) -> Rejection | None:
    """What a verdict says, as the twin does."""
    if verdict == 0:
        return None
    if verdict == NO_VICTIMS:
        return "", ("No preemption victims found for incoming pod",), True
    shape = world.state.classes.shape_of(world.target()[0])
    status = world.profile.rejection(verdict, shape)
    return status.plugin, tuple(status.reasons), bool(verdict & UNRESOLVABLE)


def dry_run(world: World, wanted: int = -1) -> tuple[Any, list[Evictions]]:
    runs = DryRuns(world.placer.decider, world.stops)
    rows = [world.row(name) for name in world.nodes]
    out = runs.dry_run(world.target(), rows, world.budgets, wanted, world.groups())
    verdicts, violations = out.verdicts.tolist(), out.violations.tolist()
    return out, [
        Evictions(rejection(world, verdicts[at]), tuple(pod.name for pod in out.victims(at)), violations[at])
        for at in range(len(out.rows))
    ]


@settings(max_examples=400)
@given(world=worlds())
def test_dry_runs_are_those_of_the_twin(world: World) -> None:
    twin = world.twin()
    expected = [twin.dry_run(world.preemptor, node, world.pods[name]) for name, node in world.nodes.items()]
    assert dry_run(world)[1] == expected


@settings(max_examples=400)
@given(world=worlds_of_groups())
def test_groups_go_as_those_of_the_twin(world: World) -> None:
    twin = world.twin()
    expected = [twin.dry_run(world.preemptor, node, world.pods[name]) for name, node in world.nodes.items()]
    assert dry_run(world)[1] == expected
    assert dry_run(world)[1] == expected, "the counters are as before"


@given(world=worlds())
def test_dry_runs_leave_no_trace(world: World) -> None:
    before = world.placer.search.verdicts(*world.target())
    head = world.state.log.head
    first = dry_run(world)[1]
    assert world.state.log.head == head
    assert dry_run(world)[1] == first
    after = world.placer.search.verdicts(*world.target())
    assert [array.tolist() for array in before] == [array.tolist() for array in after]


def selects_nothing(pod: Pod) -> bool:
    """Whether a constraint of the pod has an empty selector: RemovePod takes off what never counted."""
    return any(c.label_selector == LabelSelector() for c in pod.spec.topology_spread_constraints)


@settings(max_examples=200)
@given(world=worlds(plain=True))
def test_verdicts_are_those_with_the_pods_really_gone(world: World) -> None:
    """Word for word, reasons included."""
    if selects_nothing(world.preemptor):
        return
    out, runs = dry_run(world)
    state, target = world.state, world.target()
    least = world.preemptor.spec.priority
    assert least is not None
    twin = world.twin()
    for at, (name, one) in enumerate(zip(world.nodes, runs, strict=True)):
        units = [twin.unit(pod) for pod in world.pods[name]]
        lower = {pod.name: pod for unit, priority, _ in units if priority < least for pod in unit}
        if not lower:
            assert out.verdicts[at] == NO_VICTIMS
            continue
        skipped = not world.placer.search.terms_of(target[0], target[2]).affinity_filters
        mark = state.begin()
        for pod in lower.values():
            if one.rejection or pod.name in one.victims:
                state.remove_pod(pod)
        verdict = world.placer.search.verdict(world.row(name), *target)
        assert verdict == (0 if not one.rejection else out.verdicts[at]) or skipped
        state.rollback(mark)


# ---- single rules


def small(there: list[Pod], **allocatable: Any) -> World:
    world = World({"n0": make_node("n0", **allocatable)}, {"n0": [on(pod, "n0") for pod in there]}, high())
    world.make()
    return world


def high(**rest: Any) -> Pod:
    return make_pod("new", priority=10, **({"requests": {"cpu": "2"}} | rest))


def low(name: str, start: str | None = None, cpu: str = "1", **rest: Any) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, status={"startTime": start}, **({"priority": 1} | rest))


def seconds(number: int) -> str:
    return f"2026-01-01T00:00:{number:02}Z"


def names(world: World) -> tuple[str, ...]:
    return dry_run(world)[1][0].victims


def test_more_pods_than_a_word_has_bits() -> None:
    pods = [low(f"p{i:03}", f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z") for i in range(150)]
    assert names(small(pods[::-1], cpu="150", pods="200")) == ("p148", "p149")
    world = small(pods, cpu="150", pods="200")
    world.preemptor = high(requests={"cpu": "149"})
    assert len(names(world)) == 149


def test_more_budgets_than_a_word_has_bits() -> None:
    def budget(number: int, allowed: int) -> PodDisruptionBudget:
        return PodDisruptionBudget(
            metadata=ObjectMeta(name=f"b{number}", namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "a"})),
            status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
        )

    world = small([low(f"p{i}", labels={"app": "a"}) for i in range(4)], cpu="4")
    world.budgets = [budget(number, 9) for number in range(99)] + [budget(99, 1)]
    # The first may be disrupted, so it goes once those whose budget is spent have come back. Of equal victims
    # those that violate a budget come first.
    assert dry_run(world)[1] == [Evictions(None, ("p3", "p0"), 1)]


def test_a_row_is_read_again_when_it_has_changed() -> None:
    world = small([low(f"p{i}", seconds(i)) for i in range(4)], cpu="4", pods="99")
    runs = DryRuns(world.placer.decider)
    target = world.target()

    def victims() -> list[str]:
        return [pod.name for pod in runs.dry_run(target, [0]).victims(0)]

    assert victims() == ["p2", "p3"]
    mark = world.state.begin()
    world.state.remove_pod(on(low("p3", seconds(3)), "n0"))
    assert victims() == ["p2"]
    world.state.rollback(mark)
    assert victims() == ["p2", "p3"]
    old = on(low("p0", seconds(0)), "n0")
    world.state.update_pod(old, replace(old, spec=replace(old.spec, priority=-1)))
    assert victims() == ["p3", "p0"]
    for number in range(4, 40):
        world.state.add_pod(on(low(f"p{number}", seconds(number), cpu="0"), "n0"))
    assert victims() == ["p3", "p0"]


def test_a_start_that_is_no_time_is_said_to_be_one() -> None:
    world = small([low("p0", "yesterday")], cpu="1")
    with pytest.raises(InputError, match=r"pod default/p0: .*yesterday"):
        dry_run(world)

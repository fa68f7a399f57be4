"""Dry runs of preemption: limits of words, rows that change, and that nothing of them stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.core.twins.preemption_world import World, on, worlds
from tests.doors.engine import DryRuns
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

Outcome = tuple[int, tuple[str, ...], int]
"""The verdict, the names of the victims, and how many of them violate a budget."""


def dry_run(world: World) -> list[Outcome]:
    runs = DryRuns(world.placer.decider, world.stops)
    rows = [world.row(name) for name in world.nodes]
    out = runs.dry_run(world.target(), rows, world.budgets, -1, world.groups())
    verdicts, violations = out.verdicts.tolist(), out.violations.tolist()
    return [
        (verdicts[at], tuple(pod.name for pod in out.victims(at)), violations[at])
        for at in range(len(out.rows))
    ]


@given(world=worlds())
def test_dry_runs_leave_no_trace(world: World) -> None:
    before = world.placer.search.verdicts(*world.target())
    head = world.state.log.head
    first = dry_run(world)
    assert world.state.log.head == head
    assert dry_run(world) == first
    after = world.placer.search.verdicts(*world.target())
    assert [array.tolist() for array in before] == [array.tolist() for array in after]


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
    return dry_run(world)[0][1]


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
    assert dry_run(world) == [(0, ("p3", "p0"), 1)]


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

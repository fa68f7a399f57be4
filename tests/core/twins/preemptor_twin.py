"""Preemption pod by pod: search, dry runs of every node in its turn, the best of them, all without memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from tests.core.placing import enter, place_run
from tests.core.twins.preemption_world import Groups
from tests.doors.engine import UNRESOLVABLE, ClusterState, DryRuns, Placer

from moorage.engine.framework import Victims
from moorage.engine.preemption import Candidate, pick_one_node
from moorage.kube import Pod, PodDisruptionBudget

Target = tuple[int, int, int]
Placed = list[tuple[str, list[str]]]


def evict(state: ClusterState, pod: Pod) -> None:
    (state.forget_pod if state.is_assumed_pod(pod) else state.remove_pod)(pod)


def potential_rows(placer: Placer, target: Target) -> list[int]:
    """Where the filters say that evictions might help."""
    rows, verdicts = placer.search.verdicts(*target)
    return [
        row
        for row, verdict in zip(rows.tolist(), verdicts.tolist(), strict=True)
        if verdict and not verdict & UNRESOLVABLE
    ]


def place_each(  # noqa: PLR0913
    placer: Placer,
    target: Target,
    pods: Sequence[Pod],
    budgets: Sequence[PodDisruptionBudget],
    offsets: Sequence[int],
    percentage: int,
    least: int,
    groups: Groups | None = None,
) -> Placed:
    """Node and victims of each pod, until one fits nowhere."""
    state, out = placer.search.state, list[tuple[str, list[str]]]()
    for pod, offset in zip(pods, offsets, strict=True):
        fitting = place_run(placer, target[0], 1, target[1], target[2])
        if len(fitting):
            enter(state, [pod], fitting)
            out.append((state.table.row_name(fitting[0]), []))
            continue
        rows = potential_rows(placer, target)
        if not rows:
            break
        first = offset % len(rows)
        wanted = min(len(rows), max(len(rows) * percentage // 100, least))
        tried = rows[first:] + rows[:first]
        runs = DryRuns(placer.decider).dry_run(target, tried, budgets, wanted, groups)
        found = zip(runs.rows.tolist(), runs.verdicts.tolist(), runs.violations.tolist(), strict=True)
        choice = pick_one_node(
            [
                Candidate(state.table.row_name(row), Victims(tuple(runs.victims(at)), violations))
                for at, (row, verdict, violations) in enumerate(found)
                if not verdict
            ]
        )
        if choice is None:
            break
        name, victims = choice.candidate.name, choice.candidate.victims.pods
        for victim in victims:
            evict(state, victim)
        state.assume_pod(replace(pod, spec=replace(pod.spec, node_name=name)))
        out.append((name, [victim.name for victim in victims]))
    return out

"""Preemption pod by pod: search, dry runs of every node in its turn, the best of them, all without memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from tests.core.placing import enter, place_run
from tests.core.twins.preemption_twin import rank
from tests.core.twins.preemption_world import Groups
from tests.doors.engine import UNRESOLVABLE, ClusterState, DryRuns, Placer

from moorage.kube import Pod, PodDisruptionBudget

Target = tuple[int, int, int]
Placed = list[tuple[str, list[str]]]


def bound(pod: Pod, state: ClusterState, row: int) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=state.table.row_name(row)))


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
    state, out = placer.search.state, []
    for pod, offset in zip(pods, offsets, strict=True):
        found = place_run(placer, target[0], 1, target[1], target[2])
        if len(found):
            enter(state, [pod], found)
            out.append((state.table.row_name(found[0]), list[str]()))
            continue
        rows = potential_rows(placer, target)
        if not rows:
            break
        first = offset % len(rows)
        wanted = min(len(rows), max(len(rows) * percentage // 100, least))
        tried = rows[first:] + rows[:first]
        runs = DryRuns(placer.decider).dry_run(target, tried, budgets, wanted, groups)
        best = min(
            (
                (rank(runs.victims(at), violations), at)
                for at, violations in enumerate(runs.violations.tolist())
                if not runs.verdicts[at]
            ),
            default=None,
        )
        if best is None:
            break
        row, victims = int(runs.rows[best[1]]), runs.victims(best[1])
        for victim in victims:
            evict(state, victim)
        state.assume_pod(bound(pod, state, row))
        out.append((state.table.row_name(row), [victim.name for victim in victims]))
    return out

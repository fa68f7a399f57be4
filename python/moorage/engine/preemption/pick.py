"""The choice among candidates: the one node on which pods are evicted.

kube-scheduler v1.36, framework/preemption/preemption.go pickOneNodeForPreemption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from moorage._core.preempt.importance import start_time

from ..framework.plugin.extender import Victims
from .eviction_units import priority_of


class Candidate(Struct, frozen=True):
    """A node on which the pod would fit after evictions.

    Attributes
    ----------
    name : str
        The node's.
    victims : Victims
        At least one pod, the most important first.
    """

    name: str
    victims: Victims


def highest_priority(victims: Victims) -> int:
    """Return the priority of the most important victim."""
    return priority_of(victims.pods[0])


def sum_of_priorities(victims: Victims) -> int:
    """Return the sum of the victims' priorities, each raised by 2**31 so that one more victim never lowers
    it.
    """
    return sum(priority_of(pod) + 2**31 for pod in victims.pods)


def earliest_start(victims: Victims) -> int:
    """Return the earliest start of the victims with the highest priority, in microseconds since 1970."""
    highest = max(map(priority_of, victims.pods))
    return min(start_time(pod) for pod in victims.pods if priority_of(pod) == highest)


CRITERIA: tuple[tuple[str, Callable[[Victims], float]], ...] = (
    ("pdb violations", lambda victims: victims.num_pdb_violations),
    ("highest priority", highest_priority),
    ("sum of priorities", sum_of_priorities),
    ("number of victims", lambda victims: len(victims.pods)),
    ("start time", lambda victims: -earliest_start(victims)),
)
"""The criteria in their order, each with its name and a value of which the lowest is best. (The best start is
the latest: its victims have run for the shortest time.)"""

ONLY_ONE = "only candidate"
ORDER = "order"

CRITERION_TEXTS = {
    "pdb violations": "the fewest violations of PodDisruptionBudgets",
    "highest priority": "the lowest priority of the most important victim",
    "sum of priorities": "the lowest sum of the victims' priorities",
    "number of victims": "the fewest victims",
    "start time": "the latest start of the most important victims",
    ONLY_ONE: "nothing, there is only one candidate",
    ORDER: "order, several are equal by all criteria",
}
"""A description of each criterion."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate.

    Attributes
    ----------
    candidate : Candidate
    criterion : str
        The criterion that decided: "only candidate", a name of `CRITERIA`, or "order" for the first of
        several candidates that are equal in all criteria (upstream takes any).
    tied : tuple of str
        Names of the nodes that were equal until then; the chosen one is the first.
    """

    candidate: Candidate
    criterion: str
    tied: tuple[str, ...]


def pick_one_node(candidates: Sequence[Candidate]) -> Choice | None:
    """Choose one of the candidates by the criteria in their order; of equal candidates the first.

    Returns
    -------
    Choice or None
        None without candidates.
    """
    if not candidates:
        return None
    remaining, decided = list(candidates), ONLY_ONE
    for criterion, value in CRITERIA:
        if len(remaining) == 1:
            break
        values = [value(each.victims) for each in remaining]
        best = min(values)
        remaining = [each for each, its_value in zip(remaining, values, strict=True) if its_value == best]
        decided = criterion
    if len(remaining) > 1:
        decided = ORDER
    return Choice(remaining[0], decided, tuple(each.name for each in remaining))

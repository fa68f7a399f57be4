"""Why a pod goes to one node and not to another: their scores, plugin by plugin, and what would turn it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from moorage.engine.scheduler.cycle.results import Examination


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """The scores of two nodes by one plugin, normalized, before its weight.

    Attributes
    ----------
    plugin : str
    weight, chosen, asked : int
    """

    plugin: str
    weight: int
    chosen: int
    asked: int

    @property
    def weighted(self) -> int:
        """How far the asked node is ahead by this plugin, in points of the total."""
        return self.weight * (self.asked - self.chosen)


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """A node, and the one on which the pod is placed.

    Attributes
    ----------
    chosen, asked : str
    chosen_total, asked_total : int
    differences : list of ScoreDifference
        Of the plugins by which the nodes differ, those that speak most for the chosen one first.
    turning : dict of str to int
        By plugin, the nearest weight with which the asked node alone would have the highest total.
    cause : str
        Why the pod is not on a better node than the chosen one, where that is known; else "".
    """

    chosen: str
    asked: str
    chosen_total: int
    asked_total: int
    differences: list[ScoreDifference]
    turning: dict[str, int]
    cause: str = ""

    @property
    def text(self) -> str:
        """The result in words."""
        behind = self.chosen_total - self.asked_total
        if behind == 0:
            return f"{self.asked} has the total of {self.chosen}: the order among equal ones decides"
        if behind < 0:
            return f"{self.asked} is {-behind} ahead of {self.chosen}" + (self.cause and f": {self.cause}")
        weights = {difference.plugin: difference.weight for difference in self.differences}
        turns = [f"{plugin} x{weight} (now x{weights[plugin]})" for plugin, weight in self.turning.items()]
        would = f"; it would win with {' or '.join(turns)}" if turns else "; no weight of one plugin turns it"
        return f"{self.asked} is {behind} behind {self.chosen}{would}"


MOST_WEIGHT = 100
"""The largest weight that is tried."""


def compare_nodes(
    examination: Examination, weights: Mapping[str, int], chosen: str, asked: str
) -> NodeComparison | None:
    """Compare a node with the one on which a pod is placed.

    Parameters
    ----------
    weights : mapping of str to int
        By plugin.

    Returns
    -------
    NodeComparison or None
        None unless both are feasible and different, and have scores.
    """
    feasible = examination.feasible
    if chosen == asked or chosen not in feasible or asked not in feasible or not len(examination.total):
        return None
    at, other = feasible.index(chosen), feasible.index(asked)
    found = [
        ScoreDifference(plugin, weights[plugin], int(column[at]), int(column[other]))
        for plugin, column in examination.normalized.items()
        if column[at] != column[other]
    ]
    found.sort(key=lambda one: one.weighted)
    turning = {
        one.plugin: weight
        for one in found
        if (weight := _turning_weight(examination, one, other)) is not None
    }
    totals = int(examination.total[at]), int(examination.total[other])
    return NodeComparison(chosen, asked, *totals, found, turning)


def _turning_weight(examination: Examination, one: ScoreDifference, asked: int) -> int | None:
    """Return the weight of a plugin nearest to its present one with which a node has the highest total alone;
    None if there is none from 1 to `MOST_WEIGHT`."""
    column = examination.normalized[one.plugin]
    rest = examination.total - one.weight * column
    for weight in sorted(range(1, MOST_WEIGHT + 1), key=lambda weight: (abs(weight - one.weight), weight)):
        totals = rest + weight * column
        if np.count_nonzero(totals >= totals[asked]) == 1:
            return weight
    return None

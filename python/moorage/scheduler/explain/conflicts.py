"""Constraints of a pod that cannot be satisfied together."""

from __future__ import annotations

from collections import Counter

from moorage.objects.model.node import Node, Taint
from moorage.objects.model.pod import Pod

from .constraints import Constraint, request_constraints, taint_constraints, term_constraints
from .probe import Probe
from .shortfalls import PodRequirements

MOST_TAINTS = 32
"""More different taints than this count as one constraint."""


def find_conflicts(probe: Probe, requirements: PodRequirements) -> tuple[list[list[Constraint]], str]:
    """Find disjoint sets of constraints, each of which alone makes all nodes infeasible, and which are
    minimal by inclusion. Without all of them the pod fits.

    Returns
    -------
    conflicts : list of list of Constraint
    blocked : str
        Where even a pod without any constraint fits nowhere, its FitError text; there are no conflicts then.
    """
    every = pod_constraints(probe, requirements)
    free = _without(probe, every, [])
    if not probe.count_feasible(free):
        return [], probe.fit_error(free)
    conflicts: list[list[Constraint]] = []
    left = every
    while not probe.count_feasible(_without(probe, every, left)):
        conflict = _minimal(probe, every, left)
        conflicts.append(conflict)
        left = [constraint for constraint in left if constraint not in conflict]
    return conflicts, ""


def pod_constraints(probe: Probe, requirements: PodRequirements) -> list[Constraint]:
    """All constraints of the pod, without overlaps."""
    nodes = probe.nodes(probe.rows())
    return [
        *request_constraints(requirements.resources),
        *taint_constraints(_taints(nodes, requirements)),
        *term_constraints(probe.pod),
    ]


def _taints(nodes: list[Node], requirements: PodRequirements) -> list[Taint | None]:
    """Taints that the pod does not tolerate, those of most nodes first; None stands for all of them if there
    are many."""
    counts = Counter(taint for node in nodes for taint in requirements.untolerated(node))
    return [taint for taint, _ in counts.most_common()] if len(counts) <= MOST_TAINTS else [None]


def _without(probe: Probe, every: list[Constraint], kept: list[Constraint]) -> Pod:
    """The pod with only these constraints."""
    pod = probe.pod
    for constraint in every:
        if constraint not in kept:
            pod = constraint.drop(pod)
    return pod


def _minimal(probe: Probe, every: list[Constraint], conflict: list[Constraint]) -> list[Constraint]:
    """A subset that makes all nodes infeasible and is minimal by inclusion."""
    for constraint in conflict:
        if not probe.count_feasible(_without(probe, every, [constraint])):
            return [constraint]
    size = 0
    while size != len(conflict):  # once, unless dropping one constraint makes another one harder to meet
        size = len(conflict)
        for constraint in conflict:
            fewer = [each for each in conflict if each != constraint]
            if not probe.count_feasible(_without(probe, every, fewer)):
                conflict = fewer
    return conflict

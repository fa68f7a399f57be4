"""Sets of constraints of a pod that cannot be satisfied together."""

from __future__ import annotations

from moorage.cluster.requirements import Constraint, request_constraints, term_constraints
from moorage.kube import Pod

from .probe import Probe
from .rules import selection


def find_conflicts(probe: Probe) -> tuple[list[list[Constraint]], str]:
    """Find disjoint sets of constraints, each of which alone makes all nodes infeasible and is minimal by
    inclusion. The pod fits once all of these constraints are dropped.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.

    Returns
    -------
    blocked : str
        FitError text of the pod without any constraint, if it fits nowhere even then; there are no conflicts
        in that case.
    """
    every = pod_constraints(probe)
    bare = _with_only(probe, every, [])
    if not probe.count_feasible(bare):
        return [], probe.fit_error(bare)
    conflicts: list[list[Constraint]] = []
    remaining = every
    while not probe.count_feasible(_with_only(probe, every, remaining)):
        conflict = _minimal(probe, every, remaining)
        conflicts.append(conflict)
        remaining = [constraint for constraint in remaining if constraint not in conflict]
    return conflicts, ""


def pod_constraints(probe: Probe) -> list[Constraint]:
    """Return all constraints of the pod, without overlaps.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.
    """
    return [
        *request_constraints(probe.resources),
        *selection.taint_constraints(probe),
        *term_constraints(probe.pod),
    ]


def _with_only(probe: Probe, every: list[Constraint], only: list[Constraint]) -> Pod:
    """Return the pod with only these constraints."""
    pod = probe.pod
    for constraint in every:
        if constraint not in only:
            pod = constraint.drop(pod)
    return pod


def _minimal(probe: Probe, every: list[Constraint], conflict: list[Constraint]) -> list[Constraint]:
    """Return a subset of a conflict that makes all nodes infeasible and is minimal by inclusion."""
    for constraint in conflict:
        if not probe.count_feasible(_with_only(probe, every, [constraint])):
            return [constraint]
    size = 0
    while size != len(conflict):  # one pass, unless dropping a constraint makes another one stricter
        size = len(conflict)
        for constraint in conflict:
            fewer = [each for each in conflict if each != constraint]
            if not probe.count_feasible(_with_only(probe, every, fewer)):
                conflict = fewer
    return conflict

"""The pod groups of a run: how many of their pods have a node, how many fit at once, and what stops
the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.kube import Pod, group_of
from moorage.kube.workloads.ownership import FINISHED

from .simulation import EVICTED, PLACED, REFUSED, Outcome, Simulation

if TYPE_CHECKING:
    from moorage.answers.explain.explain_group import Fit


class GroupFit(msgspec.Struct, frozen=True, rename="camel"):
    """A pod group after a run.

    Attributes
    ----------
    namespace, group : str
    min_count : int
        0 for a group without a minimum, and for one that does not exist.
    pods : int
        Number of its pods, without those that have finished; evicted and refused ones that should run count.
    with_node : int
        Number of these that have a node.
    fit : int
        Number of the others that fit at once after the run, without evictions.
    domain : str
        ``LABEL=VALUE`` of the domain in which they fit, of a group that is bound to a topology; else "".
    next : str
        The first pod that fits nowhere beside those, as ``namespace/name``; "" for none.
    message : str
        Why that one fits nowhere, or what else stops the group; "" where all pods have a node.
    """

    namespace: str
    group: str
    min_count: int
    pods: int
    with_node: int
    fit: int = 0
    domain: str = ""
    next: str = ""
    message: str = ""


def group_fits(simulation: Simulation, outcomes: Iterable[Outcome]) -> list[GroupFit]:
    """Return the groups of pods, in the order of their first pods; none where groups are ignored.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Those that are shown, of pods with groups and without.
    """
    scheduler = simulation.scheduler
    of_units: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes if scheduler.handle.groups_pods else ():
        if (unit := group_of(one.pod)) is not None:
            of_units.setdefault(unit, []).append(one)
    if not of_units:
        return []
    stored = [pod for pod in scheduler.client.list(Pod)[0] if pod.status.phase not in FINISHED]
    pods = Counter(map(group_of, stored))
    with_node = Counter(group_of(pod) for pod in stored if pod.spec.node_name)
    gone = Counter(group_of(one.pod) for one in simulation.outcomes if one.status in (EVICTED, REFUSED))
    found: list[GroupFit] = []
    known: dict[Hashable, Fit] = {}
    for unit, members in of_units.items():
        group = scheduler.context.groups.get(unit)
        minimum = 0 if group is None else group.min_count
        counts = minimum, pods[unit] + gone[unit], with_node[unit]
        found.append(GroupFit(*unit, *counts, **_stop(simulation, members, minimum, known)))
    return found


def _stop(
    simulation: Simulation, members: Iterable[Outcome], minimum: int, known: dict[Hashable, Fit]
) -> dict[str, Any]:
    """Return how many pods of a group fit at once, and what stops the next one; nothing if all are placed."""
    from moorage.answers.explain.explain_group import fit_of_group

    left = next((one for one in members if one.status != PLACED), None)
    seen = None if left is None else fit_of_group(simulation.scheduler.context, left.pod, known)
    if left is None:
        return {}
    if seen is None:
        return {"message": left.short_reason}
    if seen.pods < minimum:  # nothing is tried before the others are there
        return {"fit": seen.fits, "message": f"the group has only {seen.pods} of {minimum} pods"}
    message = seen.message or left.short_reason
    return {"fit": seen.fits, "domain": seen.domain, "next": seen.next, "message": message}

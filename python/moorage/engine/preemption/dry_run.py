"""The second step of preemption: the nodes on which the pod fits after evictions, with the victims there, and
the choice among them.

kube-scheduler v1.36, framework/preemption/preemption.go DryRunPreemption, defaultpreemption/
SelectVictimsOnNode. For groups that are evicted as a whole: v1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.preempt.dry_runs import NO_VICTIMS as NOBODY
from moorage._core.preempt.importance import start_time
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import Pod, PodDisruptionBudget

from ..cache import NodeInfo, NodeInfoClone
from ..framework.handle import Extender, Victims
from ..framework.run_plugins import Target, target_of
from .eviction_units import (
    NO_VICTIM,
    NO_VICTIMS,
    EvictionUnits,
    Unit,
    groups_of,
    priority_of,
    units_by_importance,
    violations,
)

# ---- pick --------------------------------------------------------------------------------------------------
# The choice among candidates: the one node on which pods are evicted.
#
# kube-scheduler v1.36, framework/preemption/preemption.go pickOneNodeForPreemption.


class Candidate(Struct, frozen=True):
    """A node on which the pod would fit after evictions.

    Attributes
    ----------
    name : str
        The node's.
    victims : Victims
        The most important first; none only where an extender may add some.
    """

    name: str
    victims: Victims


def preempting(extenders: Sequence[Extender], pod: Pod) -> list[Extender]:
    """Return the extenders that take part in preemption for a pod."""
    return [each for each in extenders if each.supports_preemption and each.is_interested(pod)]


def highest_priority(victims: Victims) -> int:
    """Return the priority of the most important victim."""
    return priority_of(victims.pods[0])


def earliest_start(victims: Victims) -> int:
    """Return the earliest start of the victims with the highest priority, in microseconds since 1970."""
    highest = max(map(priority_of, victims.pods))
    return min(start_time(pod) for pod in victims.pods if priority_of(pod) == highest)


CRITERIA: tuple[tuple[str, Callable[[Victims], float]], ...] = (
    ("pdb violations", lambda victims: victims.num_pdb_violations),
    ("highest priority", highest_priority),
    # Each is raised by 2**31, so that one more victim never lowers the sum.
    ("sum of priorities", lambda victims: sum(priority_of(pod) + 2**31 for pod in victims.pods)),
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


class Choice(Struct, frozen=True):
    """The chosen candidate.

    Attributes
    ----------
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


# ---- dry run -----------------------------------------------------------------------------------------------

Outcome = tuple[list[Candidate], dict[str, fwk.Status]]
"""The candidates, those that violate a budget last, otherwise in the order of the trials; and the status of
each other node that was tried, an Error if a plugin failed."""


class PreemptionDryRuns:
    """The dry runs of one preemption. They change nothing.

    Parameters
    ----------
    state : CycleState
        After PreFilter has run for the pod.
    """

    def __init__(
        self,
        handle: fwk.FrameworkHandle,
        state: fwk.CycleState,
        pod: Pod,
        budgets: Sequence[PodDisruptionBudget],
    ) -> None:
        self.handle, self.state, self.pod, self.budgets = handle, state, pod, budgets
        self.units = EvictionUnits(self.handle)
        self._keeps_fitting = self.handle.release.extenders_see_fitting_nodes and bool(
            preempting(handle.extenders, pod)
        )

    def run(self, nodes: Sequence[str], offset: int, wanted: int) -> Outcome:
        """Try nodes one after the other until there are enough candidates.

        Parameters
        ----------
        nodes : sequence of str
            The potential nodes, in list order.
        offset : int
            The index of the node to begin with. After the last node the first one follows.
        wanted : int
            Dry runs end with this number of candidates, of which at least one violates no budget.
        """
        order = (*nodes[offset:], *nodes[:offset])
        target = self.kernel_target(order)
        if target is not None:
            return self.in_core(target, order, wanted)
        candidates: list[Candidate] = []
        rejected: dict[str, fwk.Status] = {}
        has_fine = False
        for name in order:
            info = self.handle.cache.node_info(name)
            if info is None:
                raise MoorageError(f"node {name} is not in the cache")
            candidates_here, failed = self._by_filters(info)
            rejected |= failed
            candidates += candidates_here
            has_fine |= not all(map(_violates, candidates_here))
            if has_fine and len(candidates) >= wanted:
                break
        return sorted(candidates, key=_violates), rejected

    def _by_filters(self, info: NodeInfo) -> Outcome:
        """Return the outcome of one node by the Filter plugins of the framework."""
        if all(self.units.priority_of(other) >= priority_of(self.pod) for other in info.pods):
            return [], {info.name: NO_VICTIMS}
        victims, protected, status = self.select_victims_on_node(info)
        if status is None and not victims and not self._keeps_fitting:
            status = self._no_victim(info.name)
        if status is not None:
            return [], {info.name: status}
        return [Candidate(info.name, Victims(tuple(victims), protected))], {}

    def _no_victim(self, node: str) -> fwk.Status:
        """The status of a node where the pod fits with all victims put back."""
        if self.handle.release.needless_evictions_reject:
            return NO_VICTIMS
        return fwk.Status(fwk.Code.ERROR, err=MoorageError(NO_VICTIM.format(node)))

    def select_victims_on_node(self, info: NodeInfo) -> tuple[list[Pod], int, fwk.Status | None]:
        """Choose the pods whose eviction would make room for the pod on one node.

        All units of lower priority that have a pod on the node are removed, with their pods on other nodes.
        If the pod fits then, they are added again one by one: first those that a budget protects, each kind
        in the order of importance. A unit with which the pod would not fit is a victim.

        Returns
        -------
        victims : list of Pod
            The most important first.
        violations : int
            The number of victims whose eviction violates a budget.
        status : Status or None
            Why evictions do not help; None if they do.
        """
        attempt = DryRunAttempt(self.handle, self.state.clone(), self.pod, info.clone())
        priority = priority_of(self.pod)
        potential = [unit for unit in self.units.of(info.pods) if unit.priority < priority]
        for unit in potential:
            if status := attempt.change(unit, adds=False):
                return [], 0, status
        if not potential:
            return [], 0, NO_VICTIMS
        if status := attempt.rejection():
            return [], 0, status
        release = self.handle.release
        ordered = units_by_importance(potential, release.victims_tie_by_uid)
        costs = violations(ordered, self.budgets, release)
        chosen: list[int] = []
        for at in sorted(range(len(ordered)), key=lambda at: not costs[at]):
            if status := attempt.change(ordered[at], adds=True):
                return [], 0, status
            if attempt.rejection() is None:
                continue
            if status := attempt.change(ordered[at], adds=False):
                return [], 0, status
            chosen.append(at)
        evicted = units_by_importance([ordered[at] for at in chosen], release.victims_tie_by_uid)
        victims = [other for unit in evicted for other in unit.pods]
        return victims, sum(costs[at] for at in chosen), None

    def kernel_target(self, nodes: Sequence[str]) -> Target | None:
        """Return the target by which the core can make the dry runs.

        Filters about volumes do not matter if the volumes of the pod fit on all nodes, whichever pods are
        evicted.

        Returns
        -------
        (int, int, int) or None
            None if a plugin outside the core filters there or has PreFilter.
        """
        framework: fwk.Framework | None = self.handle.framework
        if framework is None or framework.kernels is None or not framework.kernels.dry_runs.suits:
            return None
        target, profile = self.state.target, framework.profile_of(self.state.target)
        if profile is not framework.profile:
            view = framework.nodes(self._rows(nodes))
            if profile.claim_plugins.fit_everywhere(self.pod, view):
                target, profile = target_of(self.handle.cache, self.pod), framework.profile
        return target if profile.pre_filters_in_core and profile.filters_in_core else None

    def in_core(self, target: Target, nodes: Sequence[str], wanted: int) -> Outcome:
        """Try nodes by the kernels of the core; otherwise like `run`.

        Parameters
        ----------
        target : (int, int, int)
            See `kernel_target`.
        nodes : sequence of str
            In the order in which to try them.
        wanted : int
            Number of candidates that ends the dry runs, see `run`.
        """
        framework: fwk.Framework = self.handle.framework
        table, kernels = self.handle.cache.state.table, framework.kernels
        assert kernels is not None
        candidates: list[Candidate] = []
        rejected: dict[str, fwk.Status] = {}
        with self.handle.cache.lock:
            nominated_by_node = self.handle.nominator.nominated_before(self.pod).items()
            nominated = [(table.find_row(name), pods) for name, pods in nominated_by_node]
            kernels.search.nominate(
                [(row, pods) for row, pods in nominated if row is not None and table.is_present(row)]
            )
            rows = self._rows(nodes).tolist()
            groups = groups_of(self.handle)
            out = kernels.dry_runs.dry_run(target, rows, self.budgets, wanted, groups)
            verdicts, costs = out.verdicts.tolist(), out.violations.tolist()
            statuses = {each: status_of(framework, self.state, each) for each in set(verdicts) if each}
            for at, (name, verdict) in enumerate(zip(nodes, verdicts, strict=False)):
                victims = Victims(tuple(out.victims(at)), costs[at])
                if verdict:
                    rejected[name] = statuses[verdict]
                elif not victims.pods and not self._keeps_fitting:
                    rejected[name] = self._no_victim(name)
                else:
                    candidates.append(Candidate(name, victims))
        return sorted(candidates, key=_violates), rejected

    def _rows(self, nodes: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the rows of nodes by name."""
        rows = []
        for name in nodes:
            row = self.handle.cache.state.table.find_row(name)
            if row is None:
                raise MoorageError(f"node {name} is not in the cache")
            rows.append(row)
        return np.array(rows, dtype=np.int32)


def _violates(candidate: Candidate) -> bool:
    """Whether the eviction of a candidate's victims violates a PodDisruptionBudget."""
    return candidate.victims.num_pdb_violations > 0


class DryRunAttempt:
    """A dry run for a pod on one node."""

    def __init__(
        self, handle: fwk.FrameworkHandle, state: fwk.CycleState, pod: Pod, node_info: NodeInfoClone
    ) -> None:
        self.cache = handle.cache
        self.framework: fwk.Framework = handle.framework
        self.state, self.pod, self.node_info = state, pod, node_info
        plugins = self.framework.profile.at(fwk.PreFilterPlugin)
        active = (p for p in plugins if p.name not in state.skip_filter_plugins)
        self.has_extensions = any(plugin.pre_filter_extensions() is not None for plugin in active)

    def change(self, unit: Unit, adds: bool) -> fwk.Status | None:
        """Add or remove the pods of a unit; an Error if a PreFilter extension fails."""
        for other in unit.pods:
            if status := self.change_pod(other, adds):
                return status
        return None

    def change_pod(self, other: Pod, adds: bool) -> fwk.Status | None:
        """Add or remove one pod. If the pod is on another node, the NodeInfo of that node is not changed."""
        is_here = other.spec.node_name == self.node_info.name
        if is_here:
            (self.node_info.add_pod if adds else self.node_info.remove_pod)(other)
        elif adds:
            del self.state.removed_pods[other.metadata.uid]
        else:
            self.state.removed_pods[other.metadata.uid] = other
        if not self.has_extensions:
            return None
        info = self.node_info if is_here else self.cache.node_info(other.spec.node_name)
        assert info is not None  # the cache has the pod
        own = self.framework
        run = own.run_pre_filter_extension_add_pod if adds else own.run_pre_filter_extension_remove_pod
        return run(self.state, self.pod, other, info)

    def rejection(self) -> fwk.Status | None:
        """Return why the pod does not fit, with or without the pods nominated to the node; None if it
        fits."""
        return self.framework.run_filter_plugins_with_nominated_pods(self.state, self.pod, self.node_info)


def status_of(framework: fwk.Framework, state: fwk.CycleState, verdict: int) -> fwk.Status:
    """Return the status of a node on which evictions do not help.

    Parameters
    ----------
    state : CycleState
        After PreFilter has run for the pod.
    verdict : int
        Result of a dry run: `NO_VICTIMS` of the core, or the verdict of a filter.
    """
    return NO_VICTIMS if verdict == NOBODY else framework.profile.rejection(verdict, state.shape)

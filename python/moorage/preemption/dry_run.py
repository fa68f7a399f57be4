"""The second step of preemption: the nodes on which the pod would fit after evictions, and the victims there.

kube-scheduler v1.36, preemption/preemption.go DryRunPreemption, defaultpreemption SelectVictimsOnNode; for
groups that are evicted as a whole v1.37.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from moorage import framework as fwk
from moorage._core.preempt.dry_runs import NO_VICTIMS as NOBODY
from moorage.cache import NodeInfo, NodeInfoClone
from moorage.errors import MoorageError
from moorage.framework.plugin.extender import Victims
from moorage.framework.profiles.in_core import NativePlugin, VolumePlugin
from moorage.framework.runtime.kernels import place_of, rejection
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.objects import Pod, PodDisruptionBudget

from .eligibility import NO_VICTIM, NO_VICTIMS
from .eviction_units import Units
from .importance import Unit, priority_of, units_by_importance, violations
from .pick import Candidate


def dry_run_preemption(
    handle: PreemptHandle,
    state: fwk.CycleState,
    pod: Pod,
    nodes: Sequence[str],
    budgets: Sequence[PodDisruptionBudget],
    offset: int,
    wanted: int,
) -> tuple[list[Candidate], dict[str, fwk.Status]]:
    """Try nodes one after the other until there are enough candidates; nothing is changed.

    Parameters
    ----------
    handle : PreemptHandle
    state : CycleState
        After PreFilter has run for the pod.
    pod : Pod
    nodes : sequence of str
        The potential nodes, in list order.
    budgets : sequence of PodDisruptionBudget
    offset : int
        The index of the node to begin with. After the last node the first one follows.
    wanted : int
        Dry runs end with this number of candidates, of which at least one violates no budget.

    Returns
    -------
    candidates : list of Candidate
        In the order in which they were tried, those that violate a budget last.
    rejected : dict of str to Status
        Why each of the other nodes that were tried is no candidate; an Error if a plugin failed.
    """
    order = (*nodes[offset:], *nodes[:offset])
    units = Units(handle.handle)
    framework = framework_of(handle.handle, state, pod, order)
    if framework is not None and not units:
        return dry_run_in_core(framework, handle.handle, state, pod, order, budgets, wanted)
    fine: list[Candidate] = []
    violating: list[Candidate] = []
    rejected: dict[str, fwk.Status] = {}
    for name in order:
        info = handle.handle.cache.node_info(name)
        if info is None:
            raise MoorageError(f"node {name} is not in the cache")
        if framework is not None and not units.has_group_among(info.pods):
            found, failed = dry_run_in_core(framework, handle.handle, state, pod, [name], budgets, 1)
        else:
            found, failed = _dry_run(handle, state, pod, info, budgets, units)
        rejected |= failed
        for candidate in found:
            (violating if candidate.victims.num_pdb_violations else fine).append(candidate)
        if fine and len(fine) + len(violating) >= wanted:
            break
    return fine + violating, rejected


def _dry_run(
    handle: PreemptHandle,
    state: fwk.CycleState,
    pod: Pod,
    info: NodeInfo,
    budgets: Sequence[PodDisruptionBudget],
    units: Units,
) -> tuple[list[Candidate], dict[str, fwk.Status]]:
    """`dry_run_preemption` of one node, by the filters of the framework."""
    if all(units.priority_of(other) >= priority_of(pod) for other in info.pods):
        return [], {info.name: NO_VICTIMS}
    victims, protected, status = select_victims_on_node(
        handle, state.clone(), pod, info.clone(), budgets, units
    )
    if status is None and not victims:
        status = fwk.as_status(MoorageError(NO_VICTIM.format(info.name)))
    if status is not None:
        return [], {info.name: status}
    return [Candidate(info.name, Victims(tuple(victims), protected))], {}


def select_victims_on_node(
    handle: PreemptHandle,
    state: fwk.CycleState,
    pod: Pod,
    node_info: NodeInfoClone,
    budgets: Sequence[PodDisruptionBudget],
    units: Units | None = None,
) -> tuple[list[Pod], int, fwk.Status | None]:
    """Choose the pods whose eviction would make room for a pod on one node.

    All units of lower priority that have a pod on the node are removed, with their pods on other nodes. If
    the pod fits then, they are added again one by one: first those that a budget protects, each kind in the
    order of importance. A unit with which the pod would not fit is a victim.

    Parameters
    ----------
    handle : PreemptHandle
    state : CycleState
    node_info : NodeInfoClone
        Both are changed: pass copies.
    pod : Pod
        The preemptor.
    budgets : sequence of PodDisruptionBudget
    units : Units, optional
        By default those of the cluster at present.

    Returns
    -------
    victims : list of Pod
        The most important first.
    violations : int
        The number of victims whose eviction violates a budget.
    status : Status or None
        Why evictions do not help; None if they do.
    """
    attempt = _Attempt(handle, state, pod, node_info)
    priority = priority_of(pod)
    present = (units or Units(handle.handle)).of(node_info.pods)
    potential = [unit for unit in present if unit.priority < priority]
    for unit in potential:
        if status := attempt.change(unit, adds=False):
            return [], 0, status
    if not potential:
        return [], 0, NO_VICTIMS
    if status := attempt.rejection():
        return [], 0, status
    ordered = units_by_importance(potential)
    costs = violations(ordered, budgets)
    chosen: set[int] = set()
    for at in sorted(range(len(ordered)), key=lambda at: not costs[at]):
        if status := attempt.change(ordered[at], adds=True):
            return [], 0, status
        if attempt.rejection() is None:
            continue
        if status := attempt.change(ordered[at], adds=False):
            return [], 0, status
        chosen.add(at)
    victims = [other for at in sorted(chosen) for other in ordered[at].pods]
    return victims, sum(costs[at] for at in chosen), None


class _Attempt:
    """A dry run for a pod on one node."""

    def __init__(
        self, handle: PreemptHandle, state: fwk.CycleState, pod: Pod, node_info: NodeInfoClone
    ) -> None:
        self.handle = handle
        self.state, self.pod, self.node_info = state, pod, node_info
        framework = handle.handle.framework
        plugins = () if framework is None else framework.profile.at(fwk.PreFilterPlugin)
        active = (p for p in plugins if p.name not in state.skip_filter_plugins)
        self.has_extensions = any(plugin.pre_filter_extensions() is not None for plugin in active)

    def change(self, unit: Unit, adds: bool) -> fwk.Status | None:
        """Add or remove the pods of a unit; an Error if a PreFilter extension fails."""
        for other in unit.pods:
            if status := self._change(other, adds):
                return status
        return None

    def _change(self, other: Pod, adds: bool) -> fwk.Status | None:
        """Add or remove one pod, on this node or on another one (whose NodeInfo stays as it is)."""
        is_here = other.spec.node_name == self.node_info.name
        if is_here:
            (self.node_info.add_pod if adds else self.node_info.remove_pod)(other)
        elif adds:
            del self.state.removed_pods[other.metadata.uid]
        else:
            self.state.removed_pods[other.metadata.uid] = other
        if not self.has_extensions:
            return None
        info = self.node_info if is_here else self.handle.handle.cache.node_info(other.spec.node_name)
        assert info is not None  # the cache has the pod
        handle = self.handle
        run = handle.run_pre_filter_extension_add_pod if adds else handle.run_pre_filter_extension_remove_pod
        return run(self.state, self.pod, other, info)

    def rejection(self) -> fwk.Status | None:
        """Why the pod does not fit, with and without the pods that are nominated to the node; None if it
        fits.
        """
        return self.handle.run_filter_plugins_with_nominated_pods(self.state, self.pod, self.node_info)


# ---- in the core -------------------------------------------------------------------------------------------


def framework_of(
    handle: fwk.FrameworkHandle, state: fwk.CycleState, pod: Pod, nodes: Sequence[str]
) -> fwk.Framework | None:
    """Return the framework whose kernels can make the dry runs.

    Filters about volumes do not matter if the volumes of the pod fit on all nodes, whichever pods are
    evicted.

    Parameters
    ----------
    handle : FrameworkHandle
    state : CycleState
        After PreFilter has run for the pod.
    pod : Pod
    nodes : sequence of str
        The nodes to try.

    Returns
    -------
    Framework or None
        None if a plugin outside the core filters there or has PreFilter.
    """
    framework = handle.framework
    if framework is not None and framework.without_volumes is not None:
        rows = np.array([_row(handle, name) for name in nodes], dtype=np.int32)
        view, skipped = framework.nodes(rows), state.skip_filter_plugins
        active = [p for p in framework.filters if isinstance(p, VolumePlugin) and p.name not in skipped]
        if all(plugin.fits_everywhere(state, pod, view) for plugin in active):
            framework = framework.without_volumes
    if framework is None or framework.kernels is None or not framework.kernels.dry_runs.suits:
        return None
    return framework if all(p.in_core for p in framework.profile.at(fwk.PreFilterPlugin)) else None


def dry_run_in_core(
    framework: fwk.Framework,
    handle: fwk.FrameworkHandle,
    state: fwk.CycleState,
    pod: Pod,
    nodes: Sequence[str],
    budgets: Sequence[PodDisruptionBudget],
    wanted: int,
) -> tuple[list[Candidate], dict[str, fwk.Status]]:
    """Do what `dry_run_preemption` does, with kernels, for nodes in the order in which to try them.

    Parameters
    ----------
    framework : Framework
        See `framework_of`.
    handle, state, pod, budgets, wanted
        As for `dry_run_preemption`.
    nodes : sequence of str
        In the order in which to try them.

    Returns
    -------
    candidates : list of Candidate
    rejected : dict of str to Status
        As for `dry_run_preemption`.
    """
    table, kernels = handle.cache.state.table, framework.kernels
    assert kernels is not None
    fine: list[Candidate] = []
    violating: list[Candidate] = []
    rejected: dict[str, fwk.Status] = {}
    with handle.cache.lock:
        before = handle.nominator.nominated_before(pod).items()
        found = [(table.find_row(name), pods) for name, pods in before]
        present = [(row, pods) for row, pods in found if row is not None and table.is_present(row)]
        kernels.search.nominate(present)
        rows = [_row(handle, name) for name in nodes]
        pod_class, node_name, pinned = state.target
        out = kernels.dry_runs.dry_run(pod_class, rows, budgets, node_name, pinned, wanted)
        verdicts, violations = out.verdicts.tolist(), out.violations.tolist()
        statuses = {verdict: status_of(framework, state, verdict) for verdict in set(verdicts) if verdict}
        for at, (name, verdict) in enumerate(zip(nodes, verdicts, strict=False)):
            victims = Victims(tuple(out.victims(at)), violations[at])
            if verdict:
                rejected[name] = statuses[verdict]
            elif not victims.pods:
                rejected[name] = fwk.Status(fwk.Code.ERROR, err=MoorageError(NO_VICTIM.format(name)))
            else:
                (violating if violations[at] else fine).append(Candidate(name, victims))
    return fine + violating, rejected


def _row(handle: fwk.FrameworkHandle, name: str) -> int:
    row = handle.cache.state.table.find_row(name)
    if row is None:
        raise MoorageError(f"node {name} is not in the cache")
    return row


def status_of(framework: fwk.Framework, state: fwk.CycleState, verdict: int) -> fwk.Status:
    """Return why evictions do not help on a node.

    Parameters
    ----------
    framework : Framework
    state : CycleState
        After PreFilter has run for the pod.
    verdict : int
        Of a dry run: `NO_VICTIMS` of the core, or the verdict of a filter.
    """
    if verdict == NOBODY:
        return NO_VICTIMS
    plugin = framework.profile.planned(fwk.FilterPlugin)[place_of(verdict)]
    assert isinstance(plugin, NativePlugin)
    return rejection(plugin, state, verdict)

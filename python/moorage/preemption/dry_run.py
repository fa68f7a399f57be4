"""The second step of preemption: on which nodes the pod would fit without pods of lower priority, and which.

kube-scheduler v1.36, preemption/preemption.go DryRunPreemption, defaultpreemption SelectVictimsOnNode; of
v1.37, that groups may have to be evicted whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from moorage._core.preempt.dry_runs import NO_VICTIMS as NOBODY
from moorage.cache import NodeInfo, NodeInfoClone
from moorage.errors import MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.extender import Victims
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import FilterPlugin, PreFilterPlugin
from moorage.framework.plugin.status import Code, Status, as_status
from moorage.framework.profiles.in_core import NativePlugin, VolumePlugin
from moorage.framework.runtime.kernels import place_of, rejection
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.framework.runtime.runtime import Framework
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget

from .eligibility import NO_VICTIM, NO_VICTIMS
from .eviction_units import Units
from .importance import Unit, priority_of, units_by_importance, violations
from .pick import Candidate


def dry_run_preemption(
    handle: PreemptHandle,
    state: CycleState,
    pod: Pod,
    nodes: Sequence[str],
    budgets: Sequence[PodDisruptionBudget],
    offset: int,
    wanted: int,
) -> tuple[list[Candidate], dict[str, Status]]:
    """Try nodes one after the other until there are enough candidates; nothing is changed.

    Parameters
    ----------
    state : CycleState
        After PreFilter has run for the pod.
    nodes : sequence of str
        The potential nodes, in list order.
    offset : int
        The place among them of the node to begin with; behind the last one comes the first.
    wanted : int
        It ends with so many candidates, one of which at least must violate no PodDisruptionBudget.

    Returns
    -------
    candidates : list of Candidate
        In the order in which they were tried, those that violate a budget last.
    rejected : dict of str to Status
        Why each of the other nodes that were tried is none; an Error where it could not be found out.
    """
    order = (*nodes[offset:], *nodes[:offset])
    units = Units(handle.handle)
    framework = framework_of(handle.handle, state, pod, order)
    if framework is not None and not units:
        return dry_run_in_core(framework, handle.handle, state, pod, order, budgets, wanted)
    fine: list[Candidate] = []
    violating: list[Candidate] = []
    rejected: dict[str, Status] = {}
    for name in order:
        info = handle.handle.cache.node_info(name)
        if info is None:
            raise MoorageError(f"node {name} is not in the cache")
        if framework is not None and not units.concern(info.pods):
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
    state: CycleState,
    pod: Pod,
    info: NodeInfo,
    budgets: Sequence[PodDisruptionBudget],
    units: Units,
) -> tuple[list[Candidate], dict[str, Status]]:
    """What `dry_run_preemption` answers for one node, by the filters of the framework."""
    if all(units.priority_of(other) >= priority_of(pod) for other in info.pods):
        return [], {info.name: NO_VICTIMS}
    victims, protected, status = select_victims_on_node(
        handle, state.clone(), pod, info.clone(), budgets, units
    )
    if status is None and not victims:
        status = as_status(MoorageError(NO_VICTIM.format(info.name)))
    if status is not None:
        return [], {info.name: status}
    return [Candidate(info.name, Victims(tuple(victims), protected))], {}


def select_victims_on_node(
    handle: PreemptHandle,
    state: CycleState,
    pod: Pod,
    node_info: NodeInfoClone,
    budgets: Sequence[PodDisruptionBudget],
    units: Units | None = None,
) -> tuple[list[Pod], int, Status | None]:
    """The pods that would have to leave for a pod to fit one node, how many of them violate a
    PodDisruptionBudget, and why it would not help.

    All units of lower priority are taken away that have a pod there, with their pods on other nodes; if the
    pod fits then, they come back one after the other, those first that a budget protects, the more important
    ones before the others, unless the pod would not fit with them. Both `state` and `node_info` are changed:
    they are to be copies.
    """
    attempt = _Attempt(handle, state, pod, node_info)
    priority = priority_of(pod)
    there = (units or Units(handle.handle)).of(node_info.pods)
    potential = [unit for unit in there if unit.priority < priority]
    for unit in potential:
        if status := attempt.change(unit, adds=False):
            return [], 0, status
    if not potential:
        return [], 0, NO_VICTIMS
    if status := attempt.rejection():
        return [], 0, status
    ordered = units_by_importance(potential)
    costs = violations(ordered, budgets)
    gone: set[int] = set()
    for at in sorted(range(len(ordered)), key=lambda at: not costs[at]):
        if status := attempt.change(ordered[at], adds=True):
            return [], 0, status
        if attempt.rejection() is None:
            continue
        if status := attempt.change(ordered[at], adds=False):
            return [], 0, status
        gone.add(at)
    victims = [other for at in sorted(gone) for other in ordered[at].pods]
    return victims, sum(costs[at] for at in gone), None


class _Attempt:
    """A pod on one node as it would be."""

    def __init__(self, handle: PreemptHandle, state: CycleState, pod: Pod, node_info: NodeInfoClone) -> None:
        self.handle = handle
        self.state, self.pod, self.node_info = state, pod, node_info
        framework = handle.handle.framework
        plugins = () if framework is None else framework.profile.at(PreFilterPlugin)
        heard = (p for p in plugins if p.name not in state.skip_filter_plugins)
        self.is_heard = any(plugin.pre_filter_extensions() is not None for plugin in heard)

    def change(self, unit: Unit, adds: bool) -> Status | None:
        """Let the pods of a unit come or go; an Error where a plugin cannot follow."""
        for other in unit.pods:
            if status := self._change(other, adds):
                return status
        return None

    def _change(self, other: Pod, adds: bool) -> Status | None:
        """One pod, on this node or on another one, whose NodeInfo stays: nobody is asked about it."""
        is_here = other.spec.node_name == self.node_info.name
        if is_here:
            (self.node_info.add_pod if adds else self.node_info.remove_pod)(other)
        elif adds:
            del self.state.removed_pods[other.metadata.uid]
        else:
            self.state.removed_pods[other.metadata.uid] = other
        if not self.is_heard:
            return None
        info = self.node_info if is_here else self.handle.handle.cache.node_info(other.spec.node_name)
        assert info is not None  # the cache has the pod
        run = self.handle
        tell = run.run_pre_filter_extension_add_pod if adds else run.run_pre_filter_extension_remove_pod
        return tell(self.state, self.pod, other, info)

    def rejection(self) -> Status | None:
        """Why the pod does not fit, with the pods that are nominated there and without."""
        return self.handle.run_filter_plugins_with_nominated_pods(self.state, self.pod, self.node_info)


# ---- in the core -------------------------------------------------------------------------------------------


def framework_of(
    handle: FrameworkHandle, state: CycleState, pod: Pod, nodes: Sequence[str]
) -> Framework | None:
    """Whose kernels make the dry runs on these nodes; None where a plugin outside the core filters there, or
    hears of each victim. Plugins about volumes do not, where those of the pod fit whoever leaves."""
    framework = handle.framework
    if framework is not None and framework.without_volumes is not None:
        rows = np.array([_row(handle, name) for name in nodes], dtype=np.int32)
        view, skipped = framework.nodes(rows), state.skip_filter_plugins
        at_work = [p for p in framework.filters if isinstance(p, VolumePlugin) and p.name not in skipped]
        if all(plugin.fits_everywhere(state, pod, view) for plugin in at_work):
            framework = framework.without_volumes
    if framework is None or framework.kernels is None or not framework.kernels.dry_runs.suits:
        return None
    return framework if all(p.in_core for p in framework.profile.at(PreFilterPlugin)) else None


def dry_run_in_core(
    framework: Framework,
    handle: FrameworkHandle,
    state: CycleState,
    pod: Pod,
    nodes: Sequence[str],
    budgets: Sequence[PodDisruptionBudget],
    wanted: int,
) -> tuple[list[Candidate], dict[str, Status]]:
    """What `dry_run_preemption` answers for nodes in the order in which they are to be tried."""
    table, kernels = handle.cache.state.table, framework.kernels
    assert kernels is not None
    fine: list[Candidate] = []
    violating: list[Candidate] = []
    rejected: dict[str, Status] = {}
    with handle.cache.lock:
        before = handle.nominator.nominated_before(pod).items()
        places = [(table.find_row(name), pods) for name, pods in before]
        present = [(row, pods) for row, pods in places if row is not None and table.is_present(row)]
        kernels.search.nominate(present)
        rows = [_row(handle, name) for name in nodes]
        pod_class, node_name, pinned = state.target
        out = kernels.dry_runs.dry_run(pod_class, rows, budgets, node_name, pinned, wanted)
        verdicts, violations = out.verdicts.tolist(), out.violations.tolist()
        said = {verdict: status_of(framework, state, verdict) for verdict in set(verdicts) if verdict}
        for at, (name, verdict) in enumerate(zip(nodes, verdicts, strict=False)):
            victims = Victims(tuple(out.victims(at)), violations[at])
            if verdict:
                rejected[name] = said[verdict]
            elif not victims.pods:
                rejected[name] = Status(Code.ERROR, err=MoorageError(NO_VICTIM.format(name)))
            else:
                (violating if violations[at] else fine).append(Candidate(name, victims))
    return fine + violating, rejected


def _row(handle: FrameworkHandle, name: str) -> int:
    row = handle.cache.state.table.find_row(name)
    if row is None:
        raise MoorageError(f"node {name} is not in the cache")
    return row


def status_of(framework: Framework, state: CycleState, verdict: int) -> Status:
    """Why evicting pods does not help on a node, from the verdict of a dry run."""
    if verdict == NOBODY:
        return NO_VICTIMS
    plugin = framework.profile.planned(FilterPlugin)[place_of(verdict)]
    assert isinstance(plugin, NativePlugin)
    return rejection(plugin, state, verdict)

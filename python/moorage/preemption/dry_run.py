"""The second step of preemption: on which nodes the pod would fit without pods of lower priority, and which.

kube-scheduler v1.36, preemption/preemption.go DryRunPreemption, defaultpreemption SelectVictimsOnNode.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage.cache import NodeInfoClone
from moorage.errors import MoorageError
from moorage.framework.cycle_state import CycleState
from moorage.framework.extender import Victims
from moorage.framework.handle import FrameworkHandle
from moorage.framework.runtime import Framework
from moorage.framework.status import Status, as_status
from moorage.objects.pod import Pod
from moorage.objects.policy import PodDisruptionBudget

from .eligibility import NO_VICTIM, NO_VICTIMS, priority_of
from .importance import by_importance, split_by_budget
from .native import dry_run_in_core, framework_of
from .pick import Candidate


def dry_run_preemption(
    handle: FrameworkHandle,
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
    framework = framework_of(handle, state, pod, order)
    if framework is not None:
        return dry_run_in_core(framework, handle, state, pod, order, budgets, wanted)
    fine: list[Candidate] = []
    violating: list[Candidate] = []
    rejected: dict[str, Status] = {}
    for name in order:
        info = handle.cache.node_info(name)
        if info is None:
            raise MoorageError(f"node {name} is not in the cache")
        if all(priority_of(other) >= priority_of(pod) for other in info.pods):
            rejected[name] = NO_VICTIMS
            continue
        victims, violations, status = select_victims_on_node(
            handle, state.clone(), pod, info.clone(), budgets
        )
        if status is None and not victims:
            status = as_status(MoorageError(NO_VICTIM.format(name)))
        if status is not None:
            rejected[name] = status
            continue
        (violating if violations else fine).append(Candidate(name, Victims(tuple(victims), violations)))
        if fine and len(fine) + len(violating) >= wanted:
            break
    return fine + violating, rejected


def select_victims_on_node(
    handle: FrameworkHandle,
    state: CycleState,
    pod: Pod,
    node_info: NodeInfoClone,
    budgets: Sequence[PodDisruptionBudget],
) -> tuple[list[Pod], int, Status | None]:
    """The pods that would have to leave one node, how many of them violate a PodDisruptionBudget, and why it
    would not help.

    All pods of lower priority are taken away; if the pod fits then, they come back one after the other, those
    first that a budget protects, the more important ones before the others, unless the pod would not fit with
    them. Both `state` and `node_info` are changed: they are to be copies.
    """
    attempt = _Attempt(_framework(handle), state, pod, node_info)
    priority = priority_of(pod)
    potential = [other for other in node_info.pods if priority_of(other) < priority]
    for other in potential:
        if status := attempt.change(other, adds=False):
            return [], 0, status
    if not potential:
        return [], 0, NO_VICTIMS
    if status := attempt.rejection():
        return [], 0, status
    ordered = by_importance(potential)
    protected, others = split_by_budget(ordered, budgets)
    victims: set[str] = set()
    violations = 0
    for at, other in enumerate((*protected, *others)):
        if status := attempt.change(other, adds=True):
            return [], 0, status
        if attempt.rejection() is None:
            continue
        if status := attempt.change(other, adds=False):
            return [], 0, status
        victims.add(other.metadata.uid)
        violations += at < len(protected)
    return [other for other in ordered if other.metadata.uid in victims], violations, None


class _Attempt:
    """A pod on one node as it would be."""

    def __init__(self, framework: Framework, state: CycleState, pod: Pod, node_info: NodeInfoClone) -> None:
        self.framework, self.state, self.pod, self.node_info = framework, state, pod, node_info

    def change(self, other: Pod, adds: bool) -> Status | None:
        """Let a pod come or go; an Error where a plugin cannot follow."""
        framework, about = self.framework, (self.state, self.pod, other, self.node_info)
        if adds:
            self.node_info.add_pod(other)
            return framework.run_pre_filter_extension_add_pod(*about)
        self.node_info.remove_pod(other)
        return framework.run_pre_filter_extension_remove_pod(*about)

    def rejection(self) -> Status | None:
        """Why the pod does not fit, with the pods that are nominated there and without."""
        return self.framework.run_filter_plugins_with_nominated_pods(self.state, self.pod, self.node_info)


def _framework(handle: FrameworkHandle) -> Framework:
    if handle.framework is None:
        raise MoorageError("the framework of this handle is not complete")
    return handle.framework

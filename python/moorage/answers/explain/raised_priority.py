"""The smallest priority with which a pod that fits nowhere would get a node, and whom it would evict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from msgspec.structs import replace

from moorage.engine.framework.plugin.extender import Victims
from moorage.engine.preemption.eviction_units import priority_of, violations_on
from moorage.engine.preemption.pick import Candidate
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.cycle.examine_preemption import examine_preemption
from moorage.kube import Pod
from moorage.kube.model.workload import PriorityClass
from moorage.store import ObjectClient

from .own_old_pods import own_controllers
from .probe import Probe

HIGHEST = 1_000_000_000
"""The highest priority that users may give (scheduling/v1, HighestUserDefinablePriority)."""


@dataclass(frozen=True, slots=True)
class RaisedPriority:
    """The smallest priority with which a pod would get a node.

    Attributes
    ----------
    priority : int
    class_name, class_value : str, int
        The PriorityClass of the cluster with the smallest value that is enough; "" and 0 if there is none.
    node : str
        The node.
    victims : tuple of Pod
        Whom it would evict there; none if only nominated pods keep the room.
    budgets : tuple of str
        The PodDisruptionBudgets that the evictions violate, as ``namespace/name``.
    """

    priority: int
    class_name: str
    class_value: int
    node: str
    victims: tuple[Pod, ...]
    budgets: tuple[str, ...]

    @property
    def text(self) -> str:
        """The priority and its effect in words."""
        victims = ", ".join(f"{pod.key} ({priority_of(pod)})" for pod in self.victims)
        effect = f"evict {victims} on {self.node}" if victims else f"fit {self.node}"
        of = f" (PriorityClass {self.class_name} has {self.class_value})" if self.class_name else ""
        violates = f"; violates {', '.join(self.budgets)}" if self.budgets else ""
        return f"with priority {self.priority}{of} it would {effect}{violates}"


def find_raised_priority(probe: Probe, classes: Sequence[PriorityClass]) -> RaisedPriority | None:
    """Find the smallest priority with which a pod would get a node.

    Parameters
    ----------
    probe : Probe
        Of a pod that fits nowhere and evicts nobody.

    Returns
    -------
    RaisedPriority or None
        None if no priority helps, or helps against pods of its own workload alone, or the pod may not
        preempt.
    """
    engine, pod = probe.engine, probe.pod
    if pod.spec.preemption_policy == "Never":
        return None
    own = priority_of(pod)
    # A superset of the priorities that matter, of few values. More priority can help less: a pod that the pod
    # has to be near is then evicted, too.
    there = {shape.priority for shape in engine.cache.state.classes.shapes}
    priorities = sorted(one + 1 for one in there if own <= one < HIGHEST)

    def candidate_with(priority: int) -> Candidate | None:
        raised = replace(pod, spec=replace(pod.spec, priority=priority))
        rows = probe.feasible(raised)
        if len(rows):
            return Candidate(probe.nodes(rows[:1])[0].name, Victims(()))
        choice = examine_preemption(engine, raised, everywhere=False).choice
        return None if choice is None else choice.candidate

    tried = ((priority, candidate_with(priority)) for priority in priorities)
    priority, candidate = next((one for one in tried if one[1] is not None), (0, None))
    if candidate is None:
        return None
    own_uids = own_controllers(cast(ObjectClient, engine.handle.client), pod)
    owners = (victim.metadata.controller() for victim in candidate.victims.pods)
    if any(owner is not None and owner.uid in own_uids for owner in owners):
        return None  # it would evict pods of its own workload, which would have the priority, too
    enough = [
        (pod_class.value, pod_class.name)
        for pod_class in classes
        if priority <= pod_class.value <= HIGHEST and pod_class.preemption_policy != "Never"
    ]
    helps = (one for one in sorted(enough) if candidate_with(one[0]) is not None)
    value, name = next(helps, (0, ""))
    budgets = budgets_of(engine, candidate, priority)
    return RaisedPriority(priority, name, value, candidate.name, tuple(candidate.victims.pods), budgets)


def budgets_of(engine: Engine, candidate: Candidate, priority: int) -> tuple[str, ...]:
    """Return the budgets that evictions violate.

    Parameters
    ----------
    candidate : Candidate
        The node and the victims.
    priority : int
        Of the pod that evicts them.

    Returns
    -------
    tuple of str
        As ``namespace/name``.
    """
    if not candidate.victims.num_pdb_violations:
        return ()
    violated = violations_on(engine.handle, candidate.name, priority, candidate.victims.pods)
    return tuple(sorted({budget for some in violated.values() for budget in some}))


def priority_classes(client: ObjectClient) -> list[PriorityClass]:
    """Return the priority classes of a cluster."""
    return list(client.list(PriorityClass)[0])

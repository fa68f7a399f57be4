"""The pods that workloads have removed after a change: rollouts, and workloads with fewer replicas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from moorage.controllers.rollout import Rollout
from moorage.kube import Pod
from moorage.kube.workloads.ownership import Workload

from .simulation import Simulation


class Removed(NamedTuple):
    """The pods of one workload that it has no more, or a rollout that has not removed any yet.

    Attributes
    ----------
    workload : Workload
    pods : list of Pod
        They had nodes before the run.
    placed : int
        Number of its new pods that have a node.
    is_rollout : bool
        Whether there are pods with another template in their place.
    unfinished : Rollout or None
        How far the rollout has come, if it is not complete.
    """

    workload: Workload
    pods: list[Pod]
    placed: int
    is_rollout: bool
    unfinished: Rollout | None


def removed_pods(simulation: Simulation, listed: Sequence[Pod]) -> list[Removed]:
    """Find the pods on nodes that controllers have removed, but for those that were evicted.

    Parameters
    ----------
    listed : sequence of Pod
        Those of the cluster before the change.

    Returns
    -------
    list of Removed
        By workload, in the order of their first pods; rollouts that removed none last.
    """
    workloads, scheduler = simulation.workloads, simulation.scheduler
    evicted = {one.pod.metadata.uid for one in simulation.evicted.values()}
    preempted = simulation.result.evicted
    beginning = simulation.preparation.beginning
    changed = beginning.changed_pods(scheduler, listed)
    gone: dict[Workload, list[Pod]] = {}
    for pod in changed.before:
        is_evicted = pod.metadata.uid in evicted or pod.key in preempted
        if pod.spec.node_name and not is_evicted and not simulation.exists(pod):
            gone.setdefault(workloads.of(pod), []).append(pod)
    rolling = {one.workload: one for one in beginning.rollouts(scheduler) if _has_old_pods(one)}
    versions, placed = defaultdict[Workload, set[tuple[str, str]]](set), Counter[Workload]()
    for pod in changed.new:
        workload = workloads.of(pod)
        versions[workload].add(_version(pod))
        placed[workload] += bool(pod.spec.node_name)
    found = []
    for workload, pods in gone.items():
        unfinished = rolling.pop(f"{workload.kind} {workload.namespace}/{workload.name}", None)
        is_rollout = unfinished is not None or not versions[workload] <= set(map(_version, pods))
        found.append(Removed(workload, pods, placed[workload], is_rollout, unfinished))
    for name, one in rolling.items():
        kind, _, key = name.partition(" ")
        namespace, _, name = key.partition("/")
        workload = Workload(namespace, kind, name)
        found.append(Removed(workload, [], placed[workload], True, one))
    return found


def _version(pod: Pod) -> tuple[str, str]:
    """What the pods of one template share: their ReplicaSet, or the revision that their label names."""
    owner = pod.metadata.controller()
    return "" if owner is None else owner.name, pod.metadata.labels.get("controller-revision-hash", "")


def _has_old_pods(rollout: Rollout) -> bool:
    """Whether a workload has pods of another template; without them it only lacks pods."""
    return rollout.available + len(rollout.without_node) > rollout.updated

"""What an answer rests on: what is taken as given in a run, and may be otherwise in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from moorage.answers.scheduler import Scheduler
from moorage.controllers import PodTimes
from moorage.controllers.attach_detach_controller import COMES_FREE
from moorage.controllers.kubelets import tolerated_seconds
from moorage.engine.scheduler.loop import Loop, Policy
from moorage.errors import examples, number_of
from moorage.kube import Node, Pod

from .removed_pods import Removed
from .simulation import PLACED, REFUSED, REPLACED, Simulation

OTHER_TIMES = (PodTimes(start=0, ready=0, stop=0), PodTimes(start=30, ready=60, stop=30))
_MOST = 3


def rests_on(simulation: Simulation, removed: Sequence[Removed], changes: int) -> Iterator[str]:
    """Yield what an answer rests on, where it may matter, in a few words each.

    Parameters
    ----------
    changes : int
        Number of changes, which are made one right after the other.
    """
    if any(one.is_rollout and one.placed and one.pods for one in removed):
        yield "new versions become ready"
    if changes > 1 and any(one.status not in (PLACED, REPLACED) for one in simulation.outcomes):
        yield "the changes come at one moment"
    yield from _later_evictions(simulation.scheduler)
    yield from _contended_quotas(simulation)
    yield from _lost_volumes(simulation.scheduler)


def _lost_volumes(scheduler: Scheduler) -> Iterator[str]:
    """Yield when the volumes of lost nodes come to other nodes."""
    lost = {} if scheduler.controllers is None else scheduler.controllers.attachments.lost
    by_node: dict[str, list[str]] = {}
    for volume, node in lost.items():
        by_node.setdefault(node, []).append(volume)
    for node, volumes in by_node.items():
        leave = number_of(len(volumes), "volume leaves", "volumes leave")
        yield f"{leave} lost node {node} {COMES_FREE}: {examples(volumes, _MOST)}"


def _later_evictions(scheduler: Scheduler) -> Iterator[str]:
    """Yield which pods leave their nodes later, as they tolerate a taint NoExecute for some seconds."""
    nodes: list[Node] = scheduler.client.list(Node)[0]
    tainted = {node.name: node.spec.taints for node in nodes if node.spec.taints}
    pods: list[Pod] = scheduler.client.list(Pod)[0] if tainted else []
    leaving: dict[float, list[str]] = {}
    for pod in pods:
        seconds = tolerated_seconds(pod, tainted.get(pod.spec.node_name, ()))
        if 0 < seconds < inf and pod.metadata.deletion_timestamp is None:
            leaving.setdefault(seconds, []).append(pod.key)
    for seconds, keys in sorted(leaving.items()):
        pods_leave = number_of(len(keys), "pod leaves its node", "pods leave their nodes")
        yield f"{pods_leave} only after {seconds} s, by tolerationSeconds: {examples(keys, _MOST)}"


def _contended_quotas(simulation: Simulation) -> Iterator[str]:
    """Yield which workloads want, since before the change, the room of a quota in which pods went and
    came."""
    scheduler, backed_off = simulation.scheduler, simulation.preparation.backing_off
    contended = [
        one
        for one in simulation.outcomes
        if one.status == REFUSED and "exceeded quota" in one.reason
        if (owner := one.pod.metadata.controller()) is not None
        and f"{owner.kind} {one.pod.namespace}/{owner.name}" in backed_off
    ]
    if not contended:
        return
    written = simulation.preparation.beginning.since(scheduler)
    went = {key.partition("/")[0] for key, pod in written.items() if pod is None}
    came = {key.partition("/")[0] for key, pod in written.items() if pod is not None and pod.spec.node_name}
    names = dict.fromkeys(
        f"{one.pod.namespace}/{one.workload.text}" for one in contended if one.pod.namespace in went & came
    )
    if names:
        before = f"{examples([*names], _MOST)}, refused before"
        yield f"room that is freed in a quota goes to what the change wants, not to {before}"


class Attempts(Policy):
    """Notes whether a pod had to wait for room in a run."""

    def __init__(self) -> None:
        self.has_failed = False

    def on_failed(self, infos: Sequence[object], failures: Sequence[object]) -> None:
        """Note that pods fit nowhere."""
        self.has_failed = True

    def over(self, scheduler: Scheduler) -> Loop:
        """Return a loop that tells."""
        return Loop(scheduler, self)

    def depend_on_times(self, removed: Sequence[Removed]) -> bool:
        """Whether the answer may depend on how long pods take: pods of two workloads were replaced, and a pod
        waited for room."""
        return self.has_failed and sum(bool(one.placed and one.pods) for one in removed) > 1


def differing_times(
    passes: bool, settings: Mapping[str, Any], verdict_of: Callable[[Mapping[str, Any]], bool]
) -> str:
    """Return that a verdict depends on how long pods take, if it does; "" otherwise.

    Parameters
    ----------
    passes : bool
        The verdict.
    settings : mapping of str to object
        Those of its scheduler.
    verdict_of : callable
        Returns the verdict with other settings.
    """
    verdicts = {settings["pod_times"]: passes}
    verdicts |= {times: verdict_of({**settings, "pod_times": times}) for times in OTHER_TIMES}
    if len(set(verdicts.values())) == 1:
        return ""
    texts = [
        f"{'PASS' if verdict else 'FAIL'} with --pod-times {times.start} {times.ready} {times.stop}"
        for times, verdict in verdicts.items()
    ]
    return f"depends on how long pods take: {', '.join(texts)}"

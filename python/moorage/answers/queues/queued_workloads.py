"""What Kueue makes of workloads in a run: who is admitted with which flavors, and whom that preempts; who
waits, and what would help."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from moorage.controllers.queues.queue_controller import QueueController
from moorage.errors import first_of, number_of
from moorage.grouped import grouped
from moorage.kube.model.kueue import Workload as KueueWorkload
from moorage.kube.model.meta import Object
from moorage.kube.model.workload import QUEUE, Deployment, Job, LeaderWorkerSet, StatefulSet
from moorage.kube.workloads.ownership import Workload
from moorage.lazy import NamedTuple
from moorage.queues import Cycle, Kueue
from moorage.queues.jobs.job_workloads import framework_of

from ..homeless_pods import Withheld
from .decided_workloads import (
    PlacedOf,
    admissions,
    decided_lines,
    name_of,
    new_preemptions,
    owner_of,
    why_waiting,
)
from .queue_changes import helpful_changes

if TYPE_CHECKING:
    from moorage.cluster import ChangingScheduler

_MOST = 5
OF_PODS = ("Pod", "StatefulSet", "LeaderWorkerSet")
"""The kinds of which each pod that waits is there already, with a gate."""


def job_of(kueue: Kueue, name: str, namespace: str) -> tuple[str, str, str | None] | None:
    """Return kind, name and namespace of the job of a Workload; None if there is none of its name.

    Parameters
    ----------
    namespace : str
        "" for all.
    """
    for workload in kueue.workloads.values():
        if workload.obj.name == name and namespace in ("", workload.obj.namespace):
            owner = owner_of(workload.obj)
            return owner.kind, owner.name, owner.namespace
    return None


class WaitingWorkload(NamedTuple):
    """A workload that Kueue has not admitted.

    Attributes
    ----------
    owner : Workload
        Its job.
    was_running : bool
        Whether it had quota before the change.
    """

    key: str
    owner: Workload
    pods: int
    why: str
    was_running: bool

    @property
    def mark(self) -> str:
        """What a workload has alone among the outcomes of pods."""
        return f"Workload.kueue.x-k8s.io {self.key}"


def waiting_workloads(queues: QueueController, before: Sequence[Cycle]) -> list[WaitingWorkload]:
    """Return the workloads that Kueue has not admitted, in the order in which they came.

    Parameters
    ----------
    before : sequence of Cycle
        What was decided before the change.
    """
    kueue = queues.kueue
    preempted = {each.workload: each.by for each in new_preemptions(queues.cycles, before)}
    waiting = [
        (
            workload.obj,
            (f"preempted for {name_of(kueue, preempted[key])}; " if key in preempted else "")
            + why_waiting(kueue, workload),
        )
        for key, workload in kueue.workloads.items()
        if workload.active and workload.status in ("pending", "quotaReserved")
    ]
    waiting += refused_workloads(queues)
    return [
        WaitingWorkload(
            workload.key,
            owner_of(workload),
            sum(each.count for each in workload.spec.pod_sets),
            why,
            workload.key in preempted,
        )
        for workload, why in waiting
        if (owner := next(iter(workload.metadata.owner_references), None)) is None
        or owner.kind not in OF_PODS
    ]


def whys_of_pods(queues: QueueController) -> dict[str, Withheld]:
    """Return by ``namespace/name`` why pods wait or are refused that go through queues by themselves, or with
    a group or StatefulSet."""
    kueue = queues.kueue
    refused = {workload.key: Withheld(why, waits=False) for workload, why in refused_workloads(queues)}
    return {
        pod: refused.get(key) or Withheld(why_waiting(kueue, kueue.workloads[key]), waits=True)
        for pod, key in queues.queued_pods().items()
        if key in refused or kueue.workloads[key].status in ("pending", "quotaReserved")
    }


def refused_workloads(queues: QueueController) -> list[tuple[KueueWorkload, str]]:
    """Return the workloads that Kueue does not make of jobs, each once, and why."""
    return [*{each.workload.key: (each.workload, each.why) for each in queues.refused.values()}.values()]


def uncounted(kueue: Kueue) -> dict[str, str]:
    """Return by key why the quota of workloads that hold some counts nowhere."""
    texts: dict[str, str] = {}
    for key, workload in kueue.workloads.items():
        queue = kueue.snapshot.queues.get(workload.cluster_queue)
        if workload.counts and queue is None:
            texts[key] = f"it holds quota of ClusterQueue {workload.cluster_queue}, which is not there"
        elif workload.counts and queue is not None:
            lacking = sorted({flavor for flavor, _ in workload.usage().quota if flavor not in queue.flavors})
            if lacking:
                texts[key] = (
                    f"it holds quota of flavor {', '.join(lacking)}, which ClusterQueue {queue.name} lacks"
                )
    return texts


def admission_lines(
    scheduler: ChangingScheduler,
    queues: QueueController,
    placed_of: PlacedOf,
    before: Sequence[Cycle],
    waited: Collection[str],
) -> Iterator[str]:
    """Yield what Kueue has admitted, whom that preempts, and how many of the pods have a node; and what would
    let those in that wait.

    Parameters
    ----------
    placed_of : callable
        Returns how many pods of a job have a node.
    before : sequence of Cycle
        What was decided before the change.
    waited : collection of str
        The marks of workloads that were waiting then.
    """
    kueue = queues.kueue
    lines = [*decided_lines(queues, placed_of, admissions(queues.cycles, before), before)]
    yield from lines[:_MOST]
    for waiting in waiting_workloads(queues, before)[:_MOST]:
        workload = kueue.workloads.get(waiting.key)
        if workload is None or waiting.was_running or waiting.mark in waited:
            continue
        if helps := helpful_changes(scheduler, queues, workload):
            yield f"{name_of(kueue, waiting.key)} would be admitted {'; or '.join(helps)}"
    if (more := len(lines) - _MOST) > 0:
        yield f"{number_of(more, 'more workload is', 'more workloads are')} admitted"
    if queues.unseen:
        run = "runs" if len(queues.unseen) == 1 else "run"
        text = f"{run} without a Workload in the input, so without quota: kubectl get workloads -A lists them"
        yield f"{first_of([*queues.unseen], 3)} {text}"
    yield from _unmanaged(scheduler, kueue)
    for by, victims in kueue.endless.items():
        text = f"whenever {'that is' if len(victims) == 1 else 'they are'} back, without end, as in Kueue"
        names = first_of([name_of(kueue, each) for each in victims], 3)
        yield f"{name_of(kueue, by)} preempts {names} {text}"
    if queues.ignored:
        yield f"not simulated of Kueue's configuration: {', '.join(queues.ignored)}"
    for why, keys in grouped((why, name_of(kueue, key)) for key, why in uncounted(kueue).items()).items():
        yield f"{first_of(keys, 3)}: {why}; it does not count"


def _unmanaged(scheduler: ChangingScheduler, kueue: Kueue) -> Iterator[str]:
    """Yield which jobs name a queue, though Kueue's configuration leaves their kind alone."""
    if (frameworks := kueue.settings.frameworks) is None:
        return
    kinds: tuple[type[Object], ...] = (Job, StatefulSet, LeaderWorkerSet, Deployment)
    owners = {owner.uid for each in kueue.workloads.values() for owner in each.obj.metadata.owner_references}
    named = [
        (framework_of(obj), obj.full_name)
        for kind in kinds
        for obj in scheduler.client.list(kind)[0]
        if QUEUE in obj.metadata.labels
        and obj.metadata.controller() is None
        and obj.metadata.uid not in owners
    ]
    for framework, names in grouped(each for each in named if each[0] not in frameworks).items():
        why = f"Kueue's configuration does not manage {framework} (integrations.frameworks)"
        yield f"{first_of(names, 3)}: {why}, so its queue does not count"

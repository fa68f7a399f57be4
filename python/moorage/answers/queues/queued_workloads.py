"""What Kueue makes of workloads in a run: who is admitted with which flavors, and whom that preempts; who
waits, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from moorage.controllers.queues.queue_controller import QueueController
from moorage.errors import first_of, number_of
from moorage.grouped import grouped
from moorage.kube.model.kueue import Workload as KueueWorkload
from moorage.kube.model.workload import KUEUE
from moorage.kube.workloads.ownership import Workload, group_to_show
from moorage.queues import REASONS, AdmittedWorkload, Cycle, Kueue, PreemptedWorkload, QueuedWorkload

from .queue_changes import helpful_changes

_MOST = 5
OF_PODS = ("Pod", "StatefulSet")
"""The kinds of which each pod that waits is there already, with a gate."""
PlacedOf = Callable[[Workload], int]


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


def owner_of(workload: KueueWorkload) -> Workload:
    """Return the job of a workload; itself without one."""
    owners, namespace = workload.metadata.owner_references, workload.namespace
    if not owners:
        return Workload(namespace, "Workload", workload.name, KUEUE)
    owner = owners[-1]  # of a pod, its Deployment comes last
    return Workload(namespace, owner.kind, owner.name, group_to_show(owner.kind, owner.api_version))


def name_of(kueue: Kueue, key: str) -> str:
    """Return how a workload is named: by the job that it is of."""
    workload = kueue.workloads.get(key)
    if workload is None:
        return key
    owner = owner_of(workload.obj)
    return f"{owner.namespace}/{owner.text}"


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
        if (owner := workload.metadata.controller()) is None or owner.kind not in OF_PODS
    ]


def whys_of_pods(queues: QueueController) -> dict[str, str]:
    """Return by ``namespace/name`` why pods wait that go through queues by themselves, or with a group or
    StatefulSet."""
    kueue = queues.kueue
    refused = {workload.key: why for workload, why in refused_workloads(queues)}
    return {
        pod: refused.get(key) or why_waiting(kueue, kueue.workloads[key])
        for pod, keys in queues.queued_pods().items()
        for key in keys[:1]
        if key in refused or kueue.workloads[key].status in ("pending", "quotaReserved")
    }


def refused_workloads(queues: QueueController) -> list[tuple[KueueWorkload, str]]:
    """Return the workloads that Kueue does not make of jobs, each once, and why."""
    refused = {
        workload.key: (workload, each.why) for each in queues.refused.values() for workload in each.workloads
    }
    return [*refused.values()]


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


def why_waiting(kueue: Kueue, workload: QueuedWorkload) -> str:
    """Return why a workload is not admitted, in Kueue's words."""
    queue = kueue.cluster_queue_of(workload)
    if workload.status == "quotaReserved":
        checks = [
            f"{name} ({check.state})" for name, check in workload.checks.items() if check.state != "Ready"
        ]
        where = f"has quota in ClusterQueue {workload.cluster_queue}"
        return f"{where}, and waits for admission checks: {', '.join(checks)}"
    reserved, where = workload.conditions.get("QuotaReserved"), f"waits in ClusterQueue {queue}: "
    if reserved is None or reserved.is_true:
        ahead = next((key for key in kueue.waiting(queue)[0] if key != workload.key), "") if queue else ""
        return f"{where}it comes after {name_of(kueue, ahead)}" if ahead else f"{where}it was not tried"
    inactive = kueue.snapshot.queues[queue].inactive if queue else ""
    why = f": {inactive}" if inactive and reserved.message.endswith("is inactive") else ""
    return f"{where if queue else 'waits: '}{reserved.message}{why}"


def new_preemptions(cycles: Iterable[Cycle], before: Iterable[Cycle]) -> list[PreemptedWorkload]:
    """Return whom cycles have preempted, and earlier ones had not."""
    known = {each.workload for cycle in before for each in cycle.preempted}
    return [each for cycle in cycles for each in cycle.preempted if each.workload not in known]


def admissions(cycles: Iterable[Cycle], before: Iterable[Cycle]) -> dict[str, AdmittedWorkload]:
    """Return the workloads that cycles have admitted, and earlier ones had not, by name."""
    known = {each.workload: each for cycle in before for each in cycle.admitted}
    new = {each.workload: each for cycle in cycles for each in cycle.admitted}
    return {key: each for key, each in new.items() if known.get(key) != each}


def admission_lines(
    queues: QueueController, placed_of: PlacedOf, before: Sequence[Cycle], waited: Collection[str]
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
        if helps := helpful_changes(kueue, workload):
            yield f"{name_of(kueue, waiting.key)} would be admitted {', or '.join(helps)}"
    if (more := len(lines) - _MOST) > 0:
        yield f"{number_of(more, 'more workload is', 'more workloads are')} admitted"
    if queues.unseen:
        text = "run without a Workload in the input, so they hold no quota: kubectl get workloads -A lists it"
        yield f"{first_of([*queues.unseen], 3)} {text}"
    for why, keys in grouped((why, name_of(kueue, key)) for key, why in uncounted(kueue).items()).items():
        yield f"{first_of(keys, 3)}: {why}; it does not count"


def decided_lines(
    queues: QueueController,
    placed_of: PlacedOf,
    admitted: Mapping[str, AdmittedWorkload],
    before: Sequence[Cycle],
) -> Iterator[str]:
    """Yield a line for each job, or for the pods of a Deployment that got the same."""
    kueue = queues.kueue
    victims = grouped((each.by, each) for each in new_preemptions(queues.cycles, before))
    alike = grouped((_what(kueue, each), each) for each in admitted.values())
    for what, members in alike.items():
        preempted = [victim for each in members for victim in victims.get(each.workload, ())]
        yield _line(queues, placed_of, what, members, preempted)


def _what(kueue: Kueue, admitted: AdmittedWorkload) -> str:
    """Return who is admitted, by which queue and with which flavors."""
    names = [", ".join(dict.fromkeys(pods.flavors.values())) or "no flavor" for pods in admitted.pods]
    if len({*names}) > 1:
        names = [f"{name} ({pods.name})" for name, pods in zip(names, admitted.pods, strict=True)]
    flavors = [*dict.fromkeys(names)]
    text = f"{name_of(kueue, admitted.workload)}: admitted by {admitted.cluster_queue}"
    return f"{text} with {'flavor' if len(flavors) == 1 else 'flavors'} {', '.join(flavors)}"


def _line(
    queues: QueueController,
    placed_of: PlacedOf,
    text: str,
    members: Sequence[AdmittedWorkload],
    victims: Sequence[PreemptedWorkload],
) -> str:
    """Return what Kueue has decided about workloads of one job, and the scheduler about their pods."""
    kueue = queues.kueue
    number = sum(pods.pods for each in members for pods in each.pods)
    workloads = [workload for each in members if (workload := kueue.workloads.get(each.workload)) is not None]
    wanted = sum(pods.count for workload in workloads for pods in workload.pod_sets)
    text += f", {number} of its {wanted} pods" if number < wanted else ""
    for reason, each in grouped((REASONS[each.reason], each.workload) for each in victims).items():
        text += f", preempts {first_of([name_of(kueue, key) for key in each], 3)} ({reason})"
    if not workloads:
        return text
    if workloads[0].status == "quotaReserved":
        return f"{text}; {why_waiting(kueue, workloads[0])}"
    if workloads[0].status != "admitted":
        return f"{text}; then it is preempted"
    owner = workloads[0].obj.metadata.controller()
    if owner is not None and owner.kind == "Pod":
        placed = sum(queues.with_node(workload.key) for workload in workloads)
    else:
        placed = min(number, placed_of(owner_of(workloads[0].obj)))
    if number == 1:
        return f"{text}; then its pod finds a node" if placed else f"{text}, but its pod finds no node"
    return f"{text}{'; then' if placed >= number else ', but only'} {placed} of {number} pods find nodes"

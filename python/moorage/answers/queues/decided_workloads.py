"""What Kueue has decided about workloads: who is admitted with which flavors, whom that preempts, why others
wait, and how many pods find nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from moorage.controllers.queues.queue_controller import QueueController
from moorage.errors import first_of
from moorage.grouped import grouped
from moorage.kube.model.kueue import STRICT
from moorage.kube.model.kueue import Workload as KueueWorkload
from moorage.kube.model.workload import KUEUE
from moorage.kube.workloads.ownership import Workload, workload_of
from moorage.notes import DecidingLine
from moorage.queues import REASONS, AdmittedWorkload, Cycle, Kueue, PreemptedWorkload, QueuedWorkload
from moorage.queues.whole_amounts import text as amount_text

PlacedOf = Callable[[Workload], int]


def owner_of(workload: KueueWorkload) -> Workload:
    """Return the job of a workload; itself without one."""
    owners, namespace = workload.metadata.owner_references, workload.namespace
    if not owners:
        return Workload(namespace, "Workload", workload.name, KUEUE)
    owner = owners[0] if owners[0].controller is None else owners[-1]  # of a pod, its Deployment comes last
    return workload_of(namespace, owner)


def name_of(kueue: Kueue, key: str) -> str:
    """Return how a workload is named: by the job that it is of."""
    workload = kueue.workloads.get(key)
    if workload is None:
        return key
    owner = owner_of(workload.obj)
    return f"{owner.namespace}/{owner.text}"


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
        if not ahead:
            return f"{where}it was not tried"
        is_strict = kueue.snapshot.queues[queue].strategy == STRICT
        return f"{where}it comes after {name_of(kueue, ahead)}{f' ({STRICT})' if is_strict else ''}"
    inactive = kueue.snapshot.queues[queue].inactive if queue else ""
    why = f": {inactive}" if inactive and reserved.message.endswith("is inactive") else ""
    return f"{where if queue else 'waits: '}{reserved.message}{why}"


def new_preemptions(cycles: Sequence[Cycle], before: Sequence[Cycle]) -> list[PreemptedWorkload]:
    """Return whom cycles have preempted since the earlier ones, with which they begin."""
    return [*dict.fromkeys(each for cycle in cycles[len(before) :] for each in cycle.preempted)]


def admissions(cycles: Iterable[Cycle], before: Iterable[Cycle]) -> dict[str, AdmittedWorkload]:
    """Return the workloads that cycles have admitted, and earlier ones had not, by name."""
    known = {each.workload: each for cycle in before for each in cycle.admitted}
    new = {each.workload: each for cycle in cycles for each in cycle.admitted}
    return {key: each for key, each in new.items() if known.get(key) != each}


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
        line = _line(queues, placed_of, what, members, preempted)
        yield DecidingLine(line) if preempted else line


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
    text += _borrowed_text(kueue, members)
    text += preemption_text(kueue, victims)
    if not workloads:
        return text
    if workloads[0].status == "quotaReserved":
        return f"{text}; {why_waiting(kueue, workloads[0])}"
    if workloads[0].status != "admitted":
        return f"{text}; then it is preempted"
    owners = workloads[0].obj.metadata.owner_references
    if owners and owners[0].kind in ("Pod", "LeaderWorkerSet"):
        placed = queues.with_node({workload.key for workload in workloads})
    else:
        placed = min(number, placed_of(owner_of(workloads[0].obj)))
    return f"{text}{nodes_text(number, placed)}"


def _borrowed_text(kueue: Kueue, members: Sequence[AdmittedWorkload]) -> str:
    """Return what the queue of workloads borrows of what they hold, as a part of a sentence."""
    queue = kueue.snapshot.queues.get(members[0].cluster_queue)
    if queue is None or queue.parent is None:
        return ""
    held = [pods.flavors for each in members for pods in each.pods]
    places = dict.fromkeys((flavor, resource) for each in held for resource, flavor in each.items())
    cells = {place: cell for place in places if (cell := queue.cell(place)).borrows_with(0)}
    over = [f"{amount_text(name, cell.usage - cell.subtree)} {name}" for (_, name), cell in cells.items()]
    return f", {queue.name} borrows {', '.join(over)}" if over else ""


def preemption_text(kueue: Kueue, victims: Iterable[PreemptedWorkload]) -> str:
    """Return whom a workload preempts, as the end of a sentence."""
    by_reason = grouped((REASONS[each.reason], name_of(kueue, each.workload)) for each in victims)
    return "".join(f", preempts {first_of(names, 3)} ({reason})" for reason, names in by_reason.items())


def nodes_text(number: int, placed: int, before: str = "; ") -> str:
    """Return how many pods find nodes, as the end of a sentence."""
    if number == 1:
        return f"{before}then its pod finds a node" if placed else ", but its pod finds no node"
    return f"{f'{before}then' if placed >= number else ', but only'} {placed} of {number} pods find nodes"

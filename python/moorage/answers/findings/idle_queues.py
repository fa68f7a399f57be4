"""Queues of Kueue that admit nothing, jobs that get no workload, and workloads whose quota counts nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.errors import first_of
from moorage.kube.model.kueue import RUN, ClusterQueue, LocalQueue
from moorage.queues import Kueue

from ..queues.decided_workloads import owner_of
from ..queues.queued_workloads import refused_workloads, uncounted
from ..runs.simulation import Simulation
from .finding import LintFinding, identity, of_workload

_EXAMPLES = 3


def idle_queues(done: Simulation) -> Iterator[LintFinding]:
    """Yield the queues that can admit nothing, whatever is submitted."""
    queues, client = done.scheduler.ask.queues(), done.scheduler.client
    kueue = Kueue(client.list(ClusterQueue)[0]) if queues is None else queues.kueue
    for queue in kueue.listed(ClusterQueue):
        if text := _why_idle(kueue, queue):
            yield LintFinding("queue-admits-nothing", identity(queue), text)
    for local in kueue.listed(LocalQueue):
        text = "" if local.spec.stop_policy == RUN else f"it is stopped (stopPolicy {local.spec.stop_policy})"
        if local.spec.cluster_queue not in kueue.snapshot.queues:
            text = f"ClusterQueue {local.spec.cluster_queue} doesn't exist"
        if text:
            yield LintFinding("queue-admits-nothing", identity(local), text)


def _why_idle(kueue: Kueue, given: ClusterQueue) -> str:
    """Return why a cluster queue admits nothing; "" if it can."""
    queue = kueue.snapshot.queues[given.name]
    if queue.inactive:
        return queue.inactive
    places = [
        (flavor, each) for group in queue.groups for flavor in group.flavors for each in group.resources
    ]
    if not any(queue.cell(place).potential() > 0 for place in places):
        return "no flavor of it has quota, and none can be borrowed"
    if given.spec.namespace_selector is None:
        return "without a namespaceSelector it is for no namespace; {} selects all"
    leading = [each.namespace for each in kueue.listed(LocalQueue) if each.spec.cluster_queue == given.name]
    if not leading:
        return "no LocalQueue leads to it"
    if not any(kueue.matches(queue, namespace) for namespace in leading):
        return (
            f"its namespaceSelector selects no namespace of its LocalQueues: {first_of(leading, _EXAMPLES)}"
        )
    return ""


def uncounted_workloads(done: Simulation) -> Iterator[LintFinding]:
    """Yield the workloads that hold quota of a queue or flavor that is not there."""
    if (queues := done.scheduler.ask.queues()) is not None:
        for key, text in uncounted(queues.kueue).items():
            workload = queues.kueue.workloads[key].obj
            about = owner_of(workload)
            yield LintFinding("quota-not-counted", identity(workload), text, about)


def jobs_without_workload(done: Simulation) -> Iterator[LintFinding]:
    """Yield the jobs of which Kueue makes no workload, and those whose queue does not exist."""
    if (queues := done.scheduler.ask.queues()) is not None:
        known = {local.key for local in queues.kueue.listed(LocalQueue)}
        lost = [
            (each.obj, f"LocalQueue {each.obj.spec.queue_name} doesn't exist")
            for each in queues.kueue.workloads.values()
            if each.active and each.status == "pending" and "/".join(each.queue) not in known
        ]
        for workload, text in (*refused_workloads(queues), *lost):
            pods = sum(each.count for each in workload.spec.pod_sets)
            yield of_workload("job-not-queued", owner_of(workload), text, pods)

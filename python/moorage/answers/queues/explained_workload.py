"""Why Kueue admits a workload or not: its place, each flavor, each level of borrowing, and whom it
preempts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from moorage.controllers.queues.queue_controller import QueueController
from moorage.errors import first_of, number_of
from moorage.grouped import grouped
from moorage.kube import Node
from moorage.kube.model.kueue import ResourceFlavor, Topology
from moorage.kube.workloads.ownership import Workload
from moorage.queues import REASONS, AdmittedWorkload, Kueue, QueuedWorkload
from moorage.queues.candidates import Preemptor
from moorage.queues.flavors import BORROWS_LAST, flavor_refusal
from moorage.queues.queue_cycle import OVERLAPPING, TAKEN
from moorage.queues.snapshot import FlavorGroup, Queue, is_usable
from moorage.queues.whole_amounts import PODS, text
from moorage.queues.workloads import RESERVED, Usage

from .decided_workloads import PlacedOf, decided_lines, name_of, owner_of
from .queue_changes import helpful_changes

if TYPE_CHECKING:
    from moorage.cluster import ChangingScheduler

_NAMES, _LINES = 3, 8
_PRIORITIES = {
    "LowerPriority": "of lower priority",
    "LowerOrNewerEqualPriority": "of lower priority, or as high and newer",
    "Any": "of any priority",
}


def workload_lines(scheduler: ChangingScheduler, queues: QueueController, key: str) -> Iterator[str]:
    """Yield what decides about a workload, a line each."""
    kueue = queues.kueue
    if (workload := kueue.workloads.get(key)) is None:  # none was made
        return
    name = workload.cluster_queue if workload.holds is not None else kueue.cluster_queue_of(workload)
    queue = kueue.snapshot.queues.get(name)
    if queue is None:
        return
    if queue.inactive:
        yield f"ClusterQueue {name}: {queue.inactive}"
    if workload.is_queued:
        yield _place(kueue, name, key)
        yield from _before(queues, queue, key)
    for at, _ in enumerate(workload.pod_sets):
        for group in queue.groups:
            yield from _flavor_lines(kueue, queue, group, workload, at)
    if workload.is_queued:
        yield _preemption(kueue, queue, workload)
    for cycle in queues.cycles if workload.is_queued else ():
        for each in cycle.preempted:
            if each.by == key:
                yield f"preempted {name_of(kueue, each.workload)} ({REASONS[each.reason]})"
    if workload.is_queued and (helps := helpful_changes(scheduler, queues, workload)):
        yield f"would be admitted {'; or '.join(helps)}"


def lines_about(
    scheduler: ChangingScheduler, queues: QueueController, placed_of: PlacedOf, owners: Collection[Workload]
) -> Iterator[str]:
    """Yield what Kueue has decided about the workloads of some jobs that it admitted, and what they hold."""
    held = {
        key: AdmittedWorkload(
            key, each.cluster_queue, each.holds or (), is_reserved_only=False, considered=""
        )
        for key, each in queues.kueue.workloads.items()
        if each.status == "admitted" and owner_of(each.obj) in owners
    }
    yield from decided_lines(queues, placed_of, held, ())
    texts = dict.fromkeys(line for key in held for line in workload_lines(scheduler, queues, key))
    yield from [f"  {text}" for text in texts][:_LINES]


def _place(kueue: Kueue, queue: str, key: str) -> str:
    """Return where a workload stands among those that wait."""
    tried, others = kueue.waiting(queue)
    if key in tried:
        at = tried.index(key)
        ahead = f", after {first_of([name_of(kueue, each) for each in tried[:at]], _NAMES)}" if at else ""
        return f"place {at + 1} of {len(tried)} that ClusterQueue {queue} tries{ahead}"
    more = f"; {len(others) - 1} others do" if len(others) > 1 else ""
    return f"it was tried, and waits until something changes in ClusterQueue {queue} or its cohort{more}"


def _before(queues: QueueController, queue: Queue, key: str) -> Iterator[str]:
    """Yield which workloads of the tree took, or held back, what a workload needs, in its last cycle."""
    kueue = queues.kueue
    cycle = next((each for each in reversed(queues.cycles) if key in each.waiting), None)
    if cycle is not None and cycle.waiting[key] in (TAKEN, OVERLAPPING) and key in cycle.attempts:
        trees, root = kueue.snapshot.queues, queue.root
        first = [
            other
            for other in cycle.attempts[: cycle.attempts.index(key)]
            if (known := kueue.workloads.get(other)) is not None
            and (its := trees.get(kueue.cluster_queue_of(known))) is not None
            and its.root is root
        ]
        names = first_of([name_of(kueue, other) for other in first], _NAMES)
        yield f"in its last cycle {names} came first, and got it or held it back"


def _flavor_lines(
    kueue: Kueue, queue: Queue, group: FlavorGroup, workload: QueuedWorkload, at: int
) -> Iterator[str]:
    """Yield what each flavor of a group says to a set of pods."""
    needs, spec = workload.needs()[at], workload.specs[at]
    name = f" ({needs.name})" if len(workload.pod_sets) > 1 else ""
    requests = dict(needs.requests)
    if PODS in group.resources:
        requests[PODS] = needs.pods
    requests = {each: value for each, value in requests.items() if each in group.resources and value}
    if workload.holds is not None:
        held = workload.held()[at]
        for resource, flavor_name in sorted(held.flavors.items()):
            if resource in group.resources:
                value = held.requests.get(resource, 0)
                yield f"flavor {flavor_name}{name}: {_quota(queue, flavor_name, resource, value, workload)}"
        return
    for flavor_name in group.flavors if requests else ():
        flavor = kueue.snapshot.flavors.get(flavor_name)
        if flavor is not None and (refusal := flavor_refusal(flavor, spec, group)):
            yield f"flavor {flavor_name}{name}: {refusal}"
            continue
        if flavor is not None and (lacking := _unusable_nodes(kueue, flavor)):
            yield f"flavor {flavor_name}{name}: {lacking}"
        places = {(flavor_name, resource): value for resource, value in sorted(requests.items())}
        for (_, resource), value in places.items():
            yield f"flavor {flavor_name}{name}: {_quota(queue, flavor_name, resource, value, workload)}"
        is_free = all(queue.available(place) >= value for place, value in places.items())
        borrows = any(queue.lowest_fit(*each)[0] for each in places.items())
        if is_free and borrows and queue.fungibility.preference == BORROWS_LAST:
            after = "flavors for which it borrows from less far, also if nobody can be preempted there"
            yield f"flavor {flavor_name}{name}: comes after {after} ({BORROWS_LAST})"


def _unusable_nodes(kueue: Kueue, flavor: ResourceFlavor) -> str:
    """Return which nodes of a flavor do not count in its topology, and why; "" if all do."""
    topology = next((each for each in kueue.listed(Topology) if each.name == flavor.spec.topology_name), None)
    if topology is None:
        return ""
    nodes = [
        node for node in kueue.listed(Node) if flavor.spec.node_labels.items() <= node.metadata.labels.items()
    ]
    lacks = grouped(
        (f"lack label {level.node_label}", node.name)
        for node in nodes
        for level in topology.spec.levels
        if level.node_label not in node.metadata.labels
    )
    idle = [node.name for node in nodes if not is_usable(node)]
    texts = [f"{len(names)} {what} ({first_of(names, _NAMES)})" for what, names in lacks.items()]
    texts += [f"{len(idle)} are cordoned or not ready ({first_of(idle, _NAMES)})"] if idle else []
    if nodes and not texts:
        return ""
    of_it = f"of {number_of(len(nodes), 'node', 'nodes')} with its labels"
    return f"topology {topology.name}: {of_it} {', '.join(texts)}" if nodes else "no node has its labels"


def _quota(queue: Queue, flavor: str, resource: str, value: int, workload: QueuedWorkload) -> str:
    """Return what a request meets on the way from a queue to the top of its cohorts."""
    place = flavor, resource
    cell = queue.cell(place)
    levels = [f"{queue.name} uses {text(resource, cell.usage)} of {text(resource, cell.nominal)}"]
    if cell.borrowing is not None:
        levels[0] += f" and borrows at most {text(resource, cell.borrowing)}"
    for node in queue.path:
        above = node.cell(place)
        levels.append(
            f"cohort {node.name} uses {text(resource, above.usage)} of {text(resource, above.subtree)}"
        )
    if workload.holds is not None:
        return f"{resource}: holds {text(resource, value)}; {', '.join(levels)}"
    left, potential = f"{text(resource, queue.available(place))} free", cell.potential()
    left += f", {text(resource, potential)} at most" if potential < value else ""
    return f"{resource}: asks for {text(resource, value)}; {', '.join(levels)}: {left}"


def _preemption(kueue: Kueue, queue: Queue, workload: QueuedWorkload) -> str:
    """Return whom a workload may preempt, who that is now, and why it waits even without them."""
    policies = queue.preemption
    within = _PRIORITIES.get(policies.within_cluster_queue, "")
    reclaims = _PRIORITIES.get(policies.reclaim_within_cohort, "") if queue.parent is not None else ""
    may = [f"workloads of its queue {within}"] if within else []
    may += (
        [f"others of its cohort that borrow, {reclaims}, while it stays in its nominal quota"]
        if reclaims
        else []
    )
    if queue.parent is not None and policies.borrow_within_cohort.policy != "Never":
        may.append("and those of lower priority while it borrows")
    if not may:
        return "may preempt nobody"
    text = f"may preempt {'; '.join(may)}"
    resources = {
        resource for needs in workload.needs() for resource, value in needs.requests.items() if value
    }
    needed = frozenset(place for place in queue.cells if place[1] in resources)
    preemptor = Preemptor(workload, queue, needed, Usage({}, {}), {}, None)
    allowed = preemptor.by_queue(kueue.snapshot, kueue.settings).values()
    names = [each.key for of_queue in allowed for each in of_queue]
    if not names:
        return f"{text}: nobody now"
    without = kueue.copy()
    for name in names:
        without.delete("Workload", name)
    without.run()
    left = without.workloads[workload.key]
    text += f": {first_of([name_of(kueue, name) for name in names], _NAMES)}"
    before, after = workload.conditions.get(RESERVED), left.conditions.get(RESERVED)
    if left.counts or before is None or after is None:
        return text
    why = " it is the same" if after.message == before.message else f": {after.message}"
    return f"{text}; without all of them{why}"

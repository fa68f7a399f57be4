"""The answer of ``moorage simulate``: its document, its lines and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType, structs

from moorage._core.base.resources import ZERO
from moorage.cluster.amounts import held_by, readable, unit
from moorage.document import Count, Document
from moorage.errors import first_of, located, number_of
from moorage.grouped import by_count
from moorage.kube import Node, Pod, parse_selector
from moorage.kube.model.about_input import about_input
from moorage.kube.model.cluster import DecidingRelease, LeftOutWorkload, NotAsked, RefusedObject
from moorage.kube.model.new_pods import NewPodsDocument
from moorage.kube.workloads.ownership import Workload
from moorage.notes import basis_line, of_kinds, with_notes

from ..findings.finding import told_facts
from ..findings.placements import told_by_run
from ..homeless_pods import HELD, NOT_ROLLED_OUT
from ..nodes.measured_use import forget_metrics
from ..nodes.node_room import Room
from ..text_tables import PrintedTable, answer_text
from .gate import GroupFit, group_fits, group_tables, removed_pods, rests_on
from .simulation import (
    NOT_STARTED,
    PLACED,
    REPLACED,
    SILENCE,
    SKIPPED_KIND,
    EvictedPod,
    PodOutcome,
    PodsWithoutNode,
    Progress,
    Simulation,
    SimulationSetup,
    Status,
    by_workload,
    group_outcomes,
)
from .summary import Summary, zone_of

if TYPE_CHECKING:
    from .coming_nodes import NewNodesDocument

NODES = 3
"""Maximum number of nodes that are named in a row of a workload."""


class PlacedWorkload(Document, frozen=True):
    """A workload after a run."""

    namespace: str
    workload: str
    """As kubectl names it, deployment/web."""
    pods: Count
    already_bound: Count
    placed: Count
    nodes: dict[str, Count]
    """Number of placed pods by node."""
    without_node: list[PodsWithoutNode]


class OutcomeRow(Document, frozen=True, omit_defaults=True):
    """The outcome of one pod."""

    namespace: str
    pod: str
    workload: str
    node: str
    """Empty without a node."""
    status: Status
    reason: str
    victims: tuple[str, ...] = ()
    """The pods that were evicted for it, as ``namespace/name``."""
    violated_budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that its eviction violates, as ``namespace/name``."""


class SimulationDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage simulate``."""

    api_version: Literal["simulate.moorage.dev/v1"] = "simulate.moorage.dev/v1"
    kind: Literal["Simulation"] = "Simulation"
    workloads: list[PlacedWorkload] | UnsetType = UNSET
    pods: list[OutcomeRow] | UnsetType = UNSET
    groups: list[GroupFit] | UnsetType = UNSET
    """Pod groups of the pods."""
    nodes: Sequence[Room] | UnsetType = UNSET
    """The room on each node after the run; absent with --summary."""
    evictions: list[EvictedPod]
    """The running pods that are evicted for others, and for whom."""
    rests_on: list[str]
    """What the answer takes as given and may be otherwise in a cluster, where it may matter."""
    queues: list[str] | UnsetType = UNSET
    """What Kueue has decided, a line each: who is admitted with which flavors, whom that preempts, how many
    pods find nodes, and what would let others in. Absent without a LocalQueue."""
    new_nodes: NewNodesDocument | UnsetType = UNSET
    """The nodes that autoscalers make; only if the input has NodePools, or node groups are given."""
    summary: Summary
    release: DecidingRelease
    new_pods: list[NewPodsDocument]
    left_out: list[LeftOutWorkload]
    warnings: list[str]
    refused: list[RefusedObject] | UnsetType = UNSET
    not_asked: list[NotAsked] | UnsetType = UNSET


@dataclass(frozen=True, repr=False)
class SimulationAnswer:
    """Where the pending pods are placed, or why they are not.

    Attributes
    ----------
    outcomes : list of PodOutcome or None
        The outcomes to show; None shows the summary alone.
    warnings, facts : sequence of str
        About the input and the run, and what the input says of itself, a sentence each.
    """

    simulation: Simulation
    outcomes: Sequence[PodOutcome] | None
    warnings: Sequence[str]
    facts: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<SimulationAnswer: {next(iter(self.lines()))}>"

    def __str__(self) -> str:
        lines = with_notes(self.lines(), of_kinds(self.warnings, self.facts))
        return answer_text(lines, self.tables(), basis_line(self.basis()))

    def basis(self) -> list[str]:
        """Return what the answer rests on, in a few words each."""
        return self.simulation.basis(self.warnings)

    def document(self) -> SimulationDocument:
        """Return the answer as its document."""
        simulation, outcomes = self.simulation, self.outcomes
        pods = dict[str, Any]()
        if outcomes is not None:
            forget_metrics(simulation.scheduler)
            pods = {
                "workloads": [self._placed(*item) for item in by_workload(outcomes).items()],
                "pods": [_pod_row(outcome) for outcome in outcomes],
                "groups": group_fits(simulation, outcomes),
                "nodes": simulation.scheduler.ask.node_room(),
            }
        about = about_input(simulation.cluster, [*self.facts, *self.warnings], simulation.not_asked)
        return SimulationDocument.from_object(
            self,
            **pods,
            summary=simulation.summary,
            evictions=simulation.evictions(),
            rests_on=simulation.taken_as_given(),
            queues=simulation.queues,
            new_nodes=simulation.scale_up,
            **structs.asdict(about),
        )

    def lines(self) -> Iterator[str]:
        """Yield the answer, what it does to running pods, and what becomes of nodes."""
        yield _headline(self.simulation, self.outcomes)
        yield from self.simulation.lines()
        if (scale_up := self.simulation.scale_up) is not None:
            yield from (scale_up.text(), *scale_up.lines())

    def tables(self, by_pod: bool = False, bound: Sequence[PodOutcome] = ()) -> Iterator[PrintedTable]:
        """Yield the table of workloads, or of pods, and those of groups and of the summary.

        Parameters
        ----------
        by_pod : bool, optional
            Whether each pod has a row, in place of its workload.
        bound : sequence of PodOutcome, optional
            Pods that have a row, too.
        """
        outcomes = self.outcomes or []
        rows = [self.pod_table(False, bound)] if by_pod else _workload_tables(self.simulation, outcomes)
        yield from rows
        yield from group_tables(group_fits(self.simulation, outcomes))
        yield from _summary_tables(self.simulation.summary)

    def pod_table(self, is_exact: bool = True, bound: Sequence[PodOutcome] = ()) -> PrintedTable:
        """Return a row for each pod, and for bound ones, with zone, effective requests (init containers and
        overhead included) and priority; in millicores and bytes, or as people read them."""
        scheduler = self.simulation.scheduler
        zones = {node.name: zone_of(node) for node in scheduler.client.list(Node)[0]}
        cells, gates = [], scheduler.cache.state.classes.gates
        for outcome in (*(self.outcomes or ()), *bound):
            row, requests = _pod_row(outcome), held_by(outcome.pod, gates)
            cpu, memory = requests.get("cpu", ZERO), requests.get("memory", ZERO)
            amounts = {"cpu": cpu.milli_value(), "memory": memory.value()}
            quantities = [str(n) if is_exact else readable(name, n) for name, n in amounts.items()]
            place = row.status, row.node, zones.get(row.node, ""), *quantities
            priority = str(outcome.pod.spec.priority or 0)
            cells.append((row.namespace, row.pod, row.workload, *place, priority, row.reason))
        amounts_of = [
            f"{name} {unit(name)}".upper() if is_exact else name.upper() for name in ("cpu", "memory")
        ]
        place_of = ("STATUS", "NODE", "ZONE", *amounts_of, "PRIORITY")
        return PrintedTable(("NAMESPACE", "POD", "WORKLOAD", *place_of, "REASON"), cells)

    def _placed(self, workload: Workload, members: Sequence[PodOutcome]) -> PlacedWorkload:
        running = self.simulation.running[workload]
        placed = Counter(outcome.node for outcome in members if outcome.status == PLACED)
        return PlacedWorkload(
            workload.namespace,
            workload.text,
            running + len(members),
            running,
            placed.total(),
            by_count(placed),
            [group.document() for group in group_outcomes(members) if group.status != PLACED],
        )


def shows(namespace: str | None, selector: str = "") -> Callable[[Pod], bool]:
    """Return whether a pod is shown: one of a namespace, or of all, with labels.

    Raises
    ------
    InputError
        The selector is not valid.
    """
    with located(ValueError):
        matcher = parse_selector(selector)
    return lambda pod: namespace in (None, pod.namespace) and matcher.matches(pod.metadata.labels)


def simulation_answer(
    setup: SimulationSetup,
    further: int,
    is_shown: Callable[[Pod], bool] | None = None,
    stages: Progress = SILENCE,
) -> SimulationAnswer:
    """Place the pending pods, and return the answer.

    Parameters
    ----------
    further : int
        Number of files that change the cluster.
    is_shown : callable, optional
        Returns whether a pod is shown; without it, none is.
    stages : Progress, optional
        Shows the stages: scheduling, summing up.
    """
    done = setup.run(stages)
    number = further + len(setup.changes)
    done.rests_on += rests_on(done, removed_pods(done, setup.cluster.pods), number)
    stages()
    shown = None if is_shown is None else [each for each in done.outcomes if is_shown(each.pod)]
    facts = told_facts([*told_by_run(done), *setup.loaded.facts])
    warnings = [*done.warnings(), *setup.unended_drains(done.scheduler)]
    return SimulationAnswer(done, shown, warnings, facts)


def _pod_row(outcome: PodOutcome) -> OutcomeRow:
    of = outcome.pod.namespace, outcome.pod.name, outcome.workload.text
    return OutcomeRow(*of, outcome.node, outcome.status, outcome.reason, outcome.victims, outcome.budgets)


def _headline(simulation: Simulation, outcomes: Sequence[PodOutcome] | None) -> str:
    """Return how many of the pods that are shown have found a node; of all where none is shown."""
    shown = simulation.outcomes if outcomes is None else outcomes
    placed = sum(outcome.status == PLACED for outcome in shown)
    waits = [
        outcome.status
        for outcome in shown
        if outcome.status not in (PLACED, REPLACED, *HELD) and not outcome.is_leaving
    ]
    idle, unknown = waits.count(NOT_STARTED), waits.count(SKIPPED_KIND)
    left = len(waits) - idle - unknown
    parts = [number_of(placed, "pod has found a node", "pods have found a node")]
    if idle:
        parts.append(f"{idle} {'has a node and does' if idle == 1 else 'have nodes and do'} not start")
    if left:
        parts.append(f"{left} {'has' if left == 1 else 'have'} none")
    text = ", ".join(parts) if placed + idle + left else "no pod waits for a node"
    if old := sum(outcome.status == NOT_ROLLED_OUT for outcome in shown):
        text += f"; {old} {'keeps' if old == 1 else 'keep'} an old template"
    return f"{text}; {number_of(unknown, 'replica', 'replicas')} not simulated" if unknown else text


def _workload_tables(simulation: Simulation, outcomes: Sequence[PodOutcome]) -> Iterator[PrintedTable]:
    """Yield the pods without a node, and the workloads with the number of their pods that have one."""
    groups = [
        group for group in group_outcomes(outcomes, short=True) if group.status not in (PLACED, REPLACED)
    ]
    rows = [
        (group.workload.namespace, group.workload.text, str(len(group.outcomes)), group.status, group.reason)
        for group in groups
    ]
    yield PrintedTable(("NAMESPACE", "WORKLOAD", "PODS", "STATUS", "REASON"), rows)
    cells = []
    for workload, members in by_workload(outcomes).items():
        running = simulation.running[workload]
        placed = Counter(outcome.node for outcome in members if outcome.status == PLACED)
        pods = f"{running + placed.total()}/{running + len(members)}"
        cells.append((workload.namespace, workload.text, pods, nodes_text(placed)))
    yield PrintedTable(("NAMESPACE", "WORKLOAD", "WITH NODE", "PLACED ON"), cells)


def nodes_text(placed: Mapping[str, int]) -> str:
    """Return the nodes of pods with their numbers, those with the most pods first: ``a (3), b``.

    Parameters
    ----------
    placed : mapping of str to int
        Number of pods by node.
    """
    texts = [f"{node} ({count})" if count > 1 else node for node, count in by_count(placed).items()]
    return first_of(texts, NODES)


def _summary_tables(summary: Summary) -> Iterator[PrintedTable]:
    pods = {"already bound": summary.running, "placed": summary.placed}
    pods["unschedulable"] = summary.unschedulable
    pods |= {f"  {reason}": count for reason, count in summary.reasons.items()}
    pods |= {"evicted": summary.evicted} if summary.evicted else {}
    pods |= {f"skipped: {why}": count for why, count in summary.skipped.items()}
    yield PrintedTable(("PODS", "COUNT"), [(name, str(count)) for name, count in pods.items()])
    rows = []
    used = [use for use in summary.use if use.requested]
    for use in used:
        amounts = [readable(use.resource, value) for value in (use.requested, use.allocatable)]
        rows.append((use.resource, *amounts, f"{use.share:.1f}%"))
    yield PrintedTable(("RESOURCE", "REQUESTED", "ALLOCATABLE", "USE"), rows)
    resources = [use.resource for use in used]
    zones: list[Sequence[str]] = []
    for zone in summary.zones if len(summary.zones) > 1 else ():
        percents = {use.resource: f"{use.share:.1f}%" for use in zone.use}
        zones.append((zone.name, str(zone.nodes), *(percents.get(name, "") for name in resources)))
    yield PrintedTable(("ZONE", "NODES", *(name.upper() for name in resources)), zones)

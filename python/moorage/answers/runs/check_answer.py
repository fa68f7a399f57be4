"""The answer of ``moorage check``: its document, its lines and its tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType, field, structs

from moorage.cluster.references import short_label
from moorage.document import Count, Document
from moorage.errors import first_of, number_of
from moorage.grouped import grouped
from moorage.kube.model.about_input import about_input
from moorage.kube.model.cluster import (
    DecidingRelease,
    EndedObjectDocument,
    LeftOutWorkload,
    NotAsked,
    RefusedObject,
)
from moorage.kube.model.new_pods import NewPodsDocument
from moorage.kube.workloads.ownership import Workload
from moorage.notes import DecidingLine, LineBelow, basis_line, of_kinds, with_notes

from ..homeless_pods import EXAMPLES, KEPT, NOT_ROLLED_OUT, what_keeps
from ..text_tables import PrintedTable, answer_text
from .gate import HINT, Finding, GroupFit, LossFinding, Removed, Verdict, group_fits, group_tables
from .simulation import (
    EVICTED,
    NOT_STARTED,
    PLACED,
    QUEUED,
    REFUSED,
    SKIPPED_KIND,
    EvictedPod,
    NodeRejection,
    PodOutcome,
    Simulation,
    Status,
    by_workload,
)

if TYPE_CHECKING:  # a check without losses, NodePools and an upgrade needs none of them
    from ..saved_by_requests import SavedByRequests
    from ..survival import Loss, Survival, SurvivalDocument
    from .coming_nodes import NewNodesDocument
    from .upgrade_effects import TouchedObjects


MOST_CHANGES = 10
"""How many lines about workloads that have removed pods an answer has."""
MOST_APART, LONG = 8, 60
"""How many rows about pods without a node an answer has, before workloads that fail alike share one; and how
many characters of a reason, before they do."""
COUNTS, HOMELESS, NOT_CHECKED = "COUNTS", "Pods that fail or wait", "no pod was checked"


class CheckedPods(Document, frozen=True):
    """Pods of one workload that have no node for one reason, or an object that the API server refuses."""

    namespace: str
    workload: str
    names: list[str]
    """Names of the pods."""
    status: Status
    pods: Count
    """Number of pods."""
    reason: str
    """The whole message, as kubectl describe shows it."""
    rejections: list[NodeRejection]
    counts: bool
    """Whether the pods are a failure."""
    waited: bool = field(name="waitedBefore")
    """Whether the pods have no node in the first file either; with --new-only, whether as many of their
    workload have none in a run without the change, or in the earlier release of --upgrade-from."""
    allowed: bool
    """Whether --allow names the problem."""
    because: tuple[str, ...]
    """With --upgrade-from: the behaviours and feature gates by which the earlier release gives the pods
    nodes."""


class RemovedPods(Document, frozen=True):
    """The pods that a workload has no more."""

    namespace: str
    workload: str
    names: list[str]
    """Names of the removed pods."""
    placed: Count
    """Number of new pods of the workload that have a node."""
    rollout: bool
    """Whether pods with another template replace them."""
    complete: bool
    """Whether the rollout is complete."""


class Upgrade(Document, frozen=True, rename={"earlier": "from", "later": "to"}):
    """The two releases of --upgrade-from."""

    earlier: str
    later: str
    lost: Count
    """Pods that only have a node in the first one."""
    ended: list[EndedObjectDocument]
    """Objects of the input in versions that the later release does not serve."""
    touched: list[TouchedObjects]
    """What else the later release takes otherwise, or is too new for."""


class CheckDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage check``."""

    api_version: Literal["check.moorage.dev/v1"] = "check.moorage.dev/v1"
    kind: Literal["Check"] = "Check"
    passed: bool
    """Whether the exit code is 0: neither a pod nor, with --survive, a loss is a failure."""
    placed: Count
    """Pods that have found a node."""
    failed: Count
    """Pods that are a failure."""
    findings: list[CheckedPods]
    changes: Sequence[str]
    """The files and options that change the cluster."""
    upgrade: Upgrade | UnsetType = UNSET
    """With --upgrade-from: the two releases."""
    new_nodes: NewNodesDocument | UnsetType = UNSET
    """The nodes that autoscalers make; only if the input has NodePools, or node groups are given."""
    survival: SurvivalDocument | UnsetType = UNSET
    """The answer of --survive; absent without it."""
    saved: SavedByRequests | UnsetType = UNSET
    """What the requests of --set-requests save; absent without it."""
    release: DecidingRelease
    new_pods: list[NewPodsDocument]
    left_out: list[LeftOutWorkload]
    warnings: list[str]
    refused: list[RefusedObject] | UnsetType = UNSET
    not_asked: list[NotAsked] | UnsetType = UNSET
    groups: list[GroupFit]
    """Pod groups with pods that have no node."""
    removed: list[RemovedPods]
    """Workloads that have removed pods with nodes: rollouts, and those with fewer replicas."""
    evictions: list[EvictedPod]
    """The running pods that are evicted for others, and for whom."""
    rests_on: list[str]
    """What the answer takes as given and may be otherwise in a cluster, where it may matter."""
    queues: list[str] | UnsetType = UNSET
    """What Kueue has decided, a line each: who is admitted with which flavors, whom that preempts, how many
    pods find nodes, and what would let others in. Absent without a LocalQueue."""


@dataclass(frozen=True, repr=False)
class CheckAnswer:
    """Whether every pod that should run has a node: false if not.

    Attributes
    ----------
    removed : list of Removed
        Pods that workloads have removed.
    warnings, facts : sequence of str
        About the input and the run, and what the input says of itself, a sentence each.
    """

    simulation: Simulation
    verdict: Verdict
    removed: Sequence[Removed]
    warnings: Sequence[str]
    facts: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.verdict.passed

    def __repr__(self) -> str:
        return f"<CheckAnswer: {next(iter(self.lines()))}>"

    def __str__(self) -> str:
        lines = with_notes(self.lines(), of_kinds(self.warnings, self.facts))
        return answer_text(lines, self.tables().values(), basis_line(self.basis()))

    def basis(self) -> list[str]:
        """Return what the answer rests on, in a few words each."""
        return self.simulation.basis(self.warnings)

    @cached_property
    def groups(self) -> list[GroupFit]:
        """The pod groups with pods that have no node."""
        homeless = (outcome for finding in self.verdict.findings for outcome in finding.group.outcomes)
        return group_fits(self.simulation, homeless)

    def document(self) -> CheckDocument:
        """Return the answer as its document."""
        verdict, simulation, compared = self.verdict, self.simulation, self.verdict.compared
        survival, ended = verdict.survival, [obj.document() for obj in compared.ended]
        about = about_input(simulation.cluster, [*self.facts, *self.warnings], simulation.not_asked)
        return CheckDocument.from_object(
            verdict,
            findings=[_checked_pods(finding) for finding in verdict.findings],
            changes=compared.changes,
            upgrade=compared.releases
            and Upgrade(*compared.releases, compared.lost, ended, [*compared.touched]),
            new_nodes=compared.scale_up,
            saved=compared.saved,
            survival=None if survival is None else survival.document(verdict.failed_losses),
            **structs.asdict(about),
            groups=self.groups,
            removed=[
                RemovedPods(
                    removal.workload.namespace,
                    removal.workload.text,
                    [pod.name for pod in removal.pods],
                    removal.placed,
                    removal.is_rollout,
                    removal.unfinished is None,
                )
                for removal in self.removed
            ],
            evictions=simulation.evictions(),
            rests_on=simulation.taken_as_given(),
            queues=simulation.queues,
        )

    def lines(self, names_all: bool = False) -> Iterator[str]:
        """Yield the answer, what the change does to running pods, and what was changed.

        Parameters
        ----------
        names_all : bool, optional
            Whether all removed pods are named.
        """
        kept = (
            outcome.pod
            for finding in self.verdict.findings
            for outcome in finding.group.outcomes
            if finding.counts and finding.group.status == KEPT
        )
        yield from _head(self.verdict, what_keeps(self.simulation.scheduler.client, [*kept]))
        compared = self.verdict.compared
        if compared.saved is not None:
            yield DecidingLine(compared.saved.text)
        yield from _changes(self.removed, None if names_all else MOST_CHANGES)
        counted = (each.group for each in self.verdict.findings if each.counts)
        refused = (each.is_of_queue or any(pod.refusal for pod in each.outcomes) for each in counted)
        is_below = any(refused)
        for line in compared.run_lines():
            yield LineBelow(line) if is_below and not isinstance(line, DecidingLine) else line
        yield from compared.lines()

    def tables(self, whole: bool = False) -> dict[str, PrintedTable]:
        """Return the tables by their titles: pods that fail or wait, pod groups, losses, and what then fails.

        Parameters
        ----------
        whole : bool, optional
            Whether all pods are named, with those that have found a node, and messages are whole.
        """
        verdict = self.verdict
        tables = {HOMELESS: _judged(self.pod_table(whole))}
        tables |= zip(("Pod groups",), group_tables(self.groups), strict=False)
        if whole:
            tables["Pods with a node"] = _placed(self.simulation)
        if verdict.survival is not None:
            tables["Losses that leave pods without a place"] = _losses(verdict.survival, verdict.losses)
            tables["What then has no place"] = _judged(_lost_workloads(verdict.losses))
        return tables

    def pod_table(self, whole: bool) -> PrintedTable:
        """Return a row for each workload and reason; as a whole with the names of the pods."""
        return _table(self.simulation, self.verdict, whole)

    def loss_table(self) -> PrintedTable:
        """Return a row for each loss, workload and reason; without --survive that of pods as a whole."""
        survival = self.verdict.survival
        return self.pod_table(True) if survival is None else _survival_table(survival, self.verdict.losses)


def in_short(table: PrintedTable) -> PrintedTable:
    """Return the table of pods without a node with a row for all workloads that fail alike, if there are many
    rows or it takes long to say why."""
    cells, are_many = [], len(table.cells) > MOST_APART
    keyed = [
        ((row[4:], () if are_many else row[:1] if len(row[-1]) > LONG else row[:2]), row)
        for row in map(tuple, table.cells)
    ]
    for rows in grouped(keyed).values():
        namespaces, (_, workload, with_node, _, *rest) = {row[0] for row in rows}, rows[0]
        if more := len(rows) - 1:
            workload, with_node = f"{workload} and {more} more", ""
        where = rows[0][0] if len(namespaces) == 1 else f"{len(namespaces)} namespaces"
        cells.append([where, workload, with_node, str(sum(int(row[3] or 0) for row in rows) or ""), *rest])
    return PrintedTable(table.headings, cells)


def _judged(table: PrintedTable) -> PrintedTable:
    """Return a table without the column that says what fails the check, if all rows do."""
    at = [*table.headings].index(COUNTS)
    if all(row[at] == "yes" for row in table.cells):
        rows = [[*row[:at], *row[at + 1 :]] for row in table.cells]
        return PrintedTable([*table.headings[:at], *table.headings[at + 1 :]], rows)
    return table._replace(headings=[*table.headings[:at], "FAILS CHECK", *table.headings[at + 1 :]])


def _checked_pods(finding: Finding) -> CheckedPods:
    group = finding.group
    of = {"namespace": group.workload.namespace, "workload": group.workload.text}
    names = [outcome.pod.name for outcome in group.outcomes]
    return CheckedPods.from_object(finding, **of, names=names, **structs.asdict(group.document()))


def _changes_that_fail(verdict: Verdict) -> Iterator[str]:
    """Yield which objects and workloads of the change fail by themselves."""
    if verdict.refused:
        yield f"FAIL: the API server refuses {number_of(verdict.refused, 'object', 'objects')} of the change"
    if later := verdict.refused_later:
        named = first_of([f"{workload.namespace}/{workload.text}" for workload in later], EXAMPLES)
        have = number_of(len(later), "workload gets", "workloads get")
        yield f"FAIL: {have} no new pods: the API server would refuse them: {named}"
    if held := [each for each in verdict.findings if each.group.status == NOT_ROLLED_OUT and each.counts]:
        workloads = [each.group.workload for each in held]
        named = first_of([f"{each.namespace}/{each.text}" for each in workloads], EXAMPLES)
        templates = number_of(
            len(held), "changed template is not rolled out", "changed templates are not rolled out"
        )
        yield f"FAIL: {templates}: {named}{held[0].hint}"


def _head(verdict: Verdict, keepers: str) -> Iterator[str]:
    """Yield the answer: first what fails, and PASS only where nothing does."""
    counted = Counter[str]()
    for finding in verdict.findings:
        counted[finding.group.status] += finding.pods * finding.counts
    refused = (each.group for each in verdict.findings if each.counts and each.group.status == REFUSED)
    stranded = sum(bool(outcome.node) for group in refused for outcome in group.outcomes)
    kept, idle, unadmitted = counted[KEPT], counted[NOT_STARTED], counted[REFUSED] - stranded
    unknown = verdict.not_known(counts=True)
    hinted = sum(finding.pods for finding in verdict.findings if finding.hint)
    of_queues = [each for each in verdict.findings if each.counts and each.group.is_of_queue]
    queued = sum(finding.pods for finding in of_queues)
    lost = counted[EVICTED] - sum(each.pods for each in of_queues if each.group.status == EVICTED)
    failed = verdict.failed - kept - idle - unadmitted - stranded - hinted - queued - lost
    yield from _changes_that_fail(verdict)
    if unadmitted:
        yield f"FAIL: the API server refuses {number_of(unadmitted, 'pod', 'pods')}"
    if stranded:
        names = (
            "pod does not start on the node that it names",
            "pods do not start on the nodes that they name",
        )
        yield f"FAIL: {number_of(stranded, *names)}"
    yield from _queued(verdict)
    if failed:
        scale_up = verdict.compared.scale_up
        came = f", beside {scale_up.text()}" if scale_up is not None and scale_up.up.nodes else ""
        yield f"FAIL: {number_of(failed, 'pod has', 'pods have')} no node{came}"
    if lost:
        yield f"FAIL: {number_of(lost, 'evicted pod is', 'evicted pods are')} not made again"
    if idle:
        yield f"FAIL: {number_of(idle, 'pod has a node and does', 'pods have nodes and do')} not start"
    if kept:
        stay = number_of(kept, "pod stays", "pods stay")
        yield f"FAIL: {stay} on a drained node{': ' * bool(keepers)}{keepers}"
    if unknown:
        yield f"FAIL: {unknown}{HINT.format(SKIPPED_KIND)}"
    losses = [] if verdict.survival is None else [*_survival_lines(verdict.survival, verdict)]
    yield from losses if verdict.failed_losses else ()
    if not verdict.failed:
        unknown = verdict.not_known(counts=False)
        text = "; ".join(filter(None, (_placed_text(verdict), unknown)))
        passed = "the others" if verdict.refused else "now" if verdict.refused_later else "PASS"
        yield f"{'before any loss' if verdict.failed_losses else passed}: {text}"
    yield from () if verdict.failed_losses else losses
    others = sum(finding.pods for finding in verdict.findings if not (finding.counts or finding.is_unknown))
    if others:
        yield f"not counted: {others}"


def _queued(verdict: Verdict) -> Iterator[str]:
    """Yield which workloads of the change wait in queues."""
    counted = [each.group for each in verdict.findings if each.counts]
    texts = {
        QUEUED: ("workload waits in its queue", "workloads wait in their queues"),
        EVICTED: ("workload is preempted by Kueue and waits", "workloads are preempted by Kueue and wait"),
    }
    for status, have in texts.items():
        groups = [group for group in counted if group.status == status and group.is_of_queue]
        if groups:
            names = [f"{group.workload.namespace}/{group.workload.text}" for group in groups]
            named = first_of([*dict.fromkeys(names)], EXAMPLES)
            yield f"FAIL: {number_of(len(groups), *have)}: {named}{HINT.format(status)}"


def _placed_text(verdict: Verdict) -> str:
    if not verdict.is_about_pods:
        return NOT_CHECKED
    scale_up = verdict.compared.scale_up
    new = scale_up.text() if scale_up is not None and scale_up.up.nodes else ""
    if verdict.placed:
        came = f", on {new}" if new else ""
        daemons = f", {verdict.daemons} of DaemonSets" if verdict.daemons else ""
        return number_of(verdict.placed, "pod has found a node", "pods have found a node") + daemons + came
    which = "should run" if all(finding.is_unknown for finding in verdict.findings) else "counts"
    return f"every pod that {which} has a node" + f"; {new}" * bool(new)


def _table(simulation: Simulation, verdict: Verdict, whole: bool) -> PrintedTable:
    """The pods without a node; as a whole with their names, and with what preemption adds to a reason."""
    with_node: dict[Workload, str] = {}
    for workload, members in by_workload(simulation.outcomes).items():
        running = simulation.running[workload]
        placed = sum(outcome.status == PLACED for outcome in members)
        with_node[workload] = f"{running + placed}/{running + len(members)}"
    for workload in {each.group.workload for each in verdict.findings if each.group.status == NOT_ROLLED_OUT}:
        running = simulation.running[workload]
        with_node.setdefault(workload, f"{running}/{running}")
    has_causes = any(finding.because for finding in verdict.findings)
    parts: dict[tuple[Workload, str, str, str, str], list[PodOutcome]] = {}
    for finding in verdict.findings:
        workload, status, reason, outcomes = finding.group
        reason = reason if whole or not outcomes else outcomes[0].short_reason
        key = workload, status, _counts_text(finding), ", ".join(finding.because), reason
        parts.setdefault(key, []).extend(outcomes)
    rows = []
    for (workload, status, counts, because, reason), outcomes in parts.items():
        more = [", ".join(outcome.pod.name for outcome in outcomes)] if whole else []
        more += [because] if has_causes else []
        numbers = with_node.get(workload, ""), str(len(outcomes) or ""), status, counts
        rows.append((workload.namespace, workload.text, *numbers, *more, reason))
    extra = [*(["NAMES"] if whole else []), *(["BECAUSE OF"] if has_causes else [])]
    columns = ("WITH NODE", "PODS", "PROBLEM", COUNTS, *extra, "REASON")
    return PrintedTable(("NAMESPACE", "WORKLOAD", *columns), rows)


def _changes(removed: Iterable[Removed], most: int | None) -> Iterator[str]:
    """Yield a line about each workload that has removed pods, at most so many; or all, with the names of the
    pods. DaemonSets that follow their nodes have one line."""
    followed, lines = list[Removed](), list[str]()
    for removal in removed:
        if removal.workload.kind == "DaemonSet" and not removal.is_rollout:
            followed.append(removal)
        else:
            lines.append(_change_line(removal, names_all=most is None))
    yield from lines[:most]
    if more := lines[most:] if most is not None else ():
        yield f"{number_of(len(more), 'more workload', 'more workloads')} with removed pods: -o wide has them"
    if followed:
        gone, placed = sum(len(each.pods) for each in followed), sum(each.placed for each in followed)
        sets = number_of(len(followed), "DaemonSet follows its", "DaemonSets follow their")
        yield f"{sets} nodes: {number_of(gone, 'pod goes', 'pods go')}, {placed} come"


def _change_line(removal: Removed, names_all: bool) -> str:
    """Return what a workload has removed and placed, if asked with the names of all removed pods."""
    names = [pod.name for pod in removal.pods]
    pods = "1 pod" if len(names) == 1 else f"{len(names) or 'no'} pods"
    if not removal.is_rollout:
        what = f"places {removal.placed} and removes {pods}" if removal.placed else f"{pods} removed"
    elif removal.placed or names:
        what = f"a rollout places {removal.placed or 'none'} and removes {pods}"
    else:
        what = "a rollout places and removes no pod"
    shown = f" ({', '.join(names)})" if names and names_all else ""
    left = "" if removal.unfinished is None else f"; it is not complete: {removal.unfinished.numbers()}"
    left += f"; {removal.strategy}" if removal.strategy else ""
    return f"{removal.workload.text} in namespace {removal.workload.namespace}: {what}{shown}{left}"


def _placed(simulation: Simulation) -> PrintedTable:
    """The pods that have found a node."""
    rows = [
        (outcome.pod.namespace, outcome.workload.text, outcome.pod.name, outcome.node, outcome.reason)
        for outcome in simulation.outcomes
        if outcome.status == PLACED
    ]
    return PrintedTable(("NAMESPACE", "WORKLOAD", "POD", "NODE", "REASON"), rows)


# ---- losses ------------------------------------------------------------------------------------------------


def compared_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what was compared: nodes that come, changes, releases, losses; without what failed."""
    if (scale_up := verdict.compared.scale_up) is not None:
        yield scale_up.text()
    if (saved := verdict.compared.saved) is not None:
        yield saved.text
    yield from (*verdict.compared.run_lines(), *verdict.compared.lines())
    if verdict.survival is not None:
        yield from islice(_survival_lines(verdict.survival, verdict), bool(verdict.failed_losses), None)


def _survival_lines(survival: Survival, verdict: Verdict) -> Iterator[str]:
    """Yield the answer and what was tried; nothing is a PASS where pods have no node before any loss."""
    if failed := verdict.failed_losses:
        yield f"FAIL: {number_of(failed, 'loss leaves', 'losses leave')} pods without a place"
    else:
        head = "losses" if verdict.failed else "PASS"
        which = "that counts " if survival.losses else ""
        yield f"{head}: every pod {which}finds a place after the loss of any {short_label(survival.by)}"
    yield f"tried: {survival.searched}"
    if survival.without_label:
        nodes = number_of(survival.without_label, "node has", "nodes have")
        yield f"not tried: {nodes} no label {short_label(survival.by)}"


def _survival_table(survival: Survival, losses: Iterable[LossFinding]) -> PrintedTable:
    """Return a row for each loss, workload and reason: first those that count, and that leave most pods
    out."""
    from ..survival import NODE

    rows = []
    for finding in losses:
        loss, pod = finding.loss, finding.lost[0]
        numbers = str(loss.nodes), str(loss.pods), str(len(loss.lost))
        of_it = str(len(finding.lost)), _counts_text(finding)
        rows.append((", ".join(loss.domains), *numbers, finding.namespace, pod.workload, *of_it, pod.reason))
    first = "NODE" if survival.by == NODE else short_label(survival.by)
    headings = first, "NODES", "PODS", "NO PLACE", "NAMESPACE", "WORKLOAD", "OF IT", COUNTS, "REASON"
    return PrintedTable(headings, rows)


def _losses(survival: Survival, findings: Iterable[LossFinding]) -> PrintedTable:
    """Return a row for the losses that are alike in numbers, the worst first."""
    from ..survival import NODE

    lost: dict[tuple[str, ...], set[tuple[str, str]]] = {}
    losses: dict[tuple[str, ...], Loss] = {}
    for finding in findings:
        losses[finding.loss.domains] = finding.loss
        names = lost.setdefault(finding.loss.domains, set())
        names |= {(finding.namespace, pod.workload) for pod in finding.lost}
    alike = grouped(
        ((loss.nodes, loss.pods, len(loss.lost), len(lost[domains])), ", ".join(domains))
        for domains, loss in losses.items()
    )
    rows = [(first_of(names, EXAMPLES), *map(str, numbers)) for numbers, names in alike.items()]
    first = "NODE" if survival.by == NODE else short_label(survival.by)
    return PrintedTable((first, "NODES", "PODS", "NO PLACE", "WORKLOADS"), rows)


def _lost_workloads(findings: Iterable[LossFinding]) -> PrintedTable:
    """Return a row for each workload and kind of reason, those that count first and then those of most pods:
    the losses after which pods have no place, and the reason after one of them."""
    pods: dict[tuple[str, str, str, str], Counter[str]] = {}
    reasons: dict[tuple[str, str, str, str], str] = {}
    for finding in findings:
        reason = finding.lost[0].reason
        why = re.sub("[0-9]+", "", reason)
        workload = finding.lost[0].workload
        workload = "pods without a controller" if workload.startswith("pod/") else workload
        key = finding.namespace, workload, _counts_text(finding), why
        pods.setdefault(key, Counter())[", ".join(finding.loss.domains)] += len(finding.lost)
        reasons.setdefault(key, reason)
    rows = []
    for key in sorted(pods, key=lambda key: (key[2] != "yes", -pods[key].total())):
        namespace, workload, counts, _ = key
        names = [f"{loss} ({number})" for loss, number in pods[key].most_common()]
        rows.append((namespace, workload, first_of(names, EXAMPLES), counts, reasons[key]))
    return PrintedTable(("NAMESPACE", "WORKLOAD", "NO PLACE AFTER", COUNTS, "REASON"), rows)


def _counts_text(finding: Finding | LossFinding) -> str:
    """Return whether the pods of a finding are a failure, and if not, why."""
    if isinstance(finding, LossFinding):
        why = "allowed" if finding.allowed else "as before"
        return "yes" if finding.counts else f"no, {why}"
    if finding.counts:
        return "yes, waited before" if finding.waited else "yes"
    why = "waited before" if finding.is_as_before else "not new"
    return f"no, {'allowed' if finding.allowed else why}"

"""The decision of ``moorage check``, and what it rests on: pods removed, groups, what is taken as given."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import structs

from moorage.controllers import PodTimes
from moorage.controllers.availability import Rollout
from moorage.controllers.claims_in_use import COMES_FREE
from moorage.controllers.kubelets import tolerated_seconds
from moorage.document import Count, Document
from moorage.engine.scheduler.loop import Loop, Policy
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.errors import examples, first_of, number_of
from moorage.grouped import grouped
from moorage.kube import Deployment, Node, Pod, group_of
from moorage.kube.model.workload import Rollout as ArgoRollout
from moorage.kube.model.workload import full_kind
from moorage.kube.workloads.deployment_rollout import stops_all
from moorage.kube.workloads.ownership import FINISHED, Workload
from moorage.kube.workloads.rollout_steps import steps_text
from moorage.lazy import NamedTuple
from moorage.store import find_object

from ..homeless_pods import KEPT, NOT_ROLLED_OUT, are_new
from ..scheduler import Scheduler
from ..text_tables import PrintedTable
from .simulation import (
    EVICTED,
    PLACED,
    QUEUED,
    REFUSED,
    REFUSED_LATER,
    REPLACED,
    SKIPPED_KIND,
    PodOutcome,
    PodsAlike,
    Simulation,
    group_outcomes,
    refused_groups,
)

if TYPE_CHECKING:
    from moorage.kube.model.cluster import EndedObject

    from ..explain.explain_group import Fit
    from ..saved_by_requests import SavedByRequests
    from ..survival import Loss, LostPod, Survival
    from .coming_nodes import ScaleUpReport
    from .upgrade_effects import TouchedObjects

MOST_NAMED = 70
"""How long changes in a row by one option may be together to be named."""
HINT = "; --allow {} lets check pass"


class Finding(NamedTuple):
    """Pods of one workload that have no node for one reason; or an object that the API server would refuse.

    Attributes
    ----------
    waited : bool
        Whether these pods were waiting before the change; where only new ones count, whether as many have no
        node without it.
    allowed : bool
        Whether ``--allow`` names the problem.
    counts : bool
        Whether the pods are a failure.
    because : tuple of str
        What makes the difference from an earlier release that gives them nodes.
    """

    group: PodsAlike
    waited: bool
    allowed: bool
    counts: bool
    because: tuple[str, ...] = ()

    @property
    def pods(self) -> int:
        """Number of pods."""
        return len(self.group.outcomes)

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows if these pods are missing: their kind is not simulated."""
        return self.group.status == SKIPPED_KIND

    @property
    def is_as_before(self) -> bool:
        """Whether the pods are no failure if they were waiting before: they have their turn in a queue, or
        nobody knows if they are missing."""
        return self.is_unknown or self.group.status == QUEUED

    @property
    def hint(self) -> str:
        """What lets the gate pass, as the end of a sentence; "" where the pods have to find a node."""
        is_unknown = self.is_unknown or self.group.status == NOT_ROLLED_OUT
        return HINT.format(self.group.status) if is_unknown and self.counts else ""


class LossFinding(NamedTuple):
    """Pods of one workload that a loss leaves without a place for one reason.

    Attributes
    ----------
    lost : list of LostPod
        At least one.
    allowed : bool
        Whether ``--allow`` names the problem.
    """

    loss: Loss
    lost: list[LostPod]
    allowed: bool

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        return self.lost[0].pod.partition("/")[0]

    @property
    def as_before(self) -> bool:
        """Whether the change made it no worse."""
        return self.lost[0].as_before

    @property
    def counts(self) -> bool:
        """Whether the pods are a failure."""
        return not (self.as_before or self.allowed)


class Compared(NamedTuple):
    """What the gate has looked at.

    Attributes
    ----------
    changes : list of str
        The files and options that change the cluster.
    releases : (str, str) or None
        That of ``--upgrade-from``, and the one that decides.
    lost : int
        Number of pods that only have a node in the first one.
    scale_up : ScaleUpReport or None
        The nodes that came; None where none may come.
    remarks : list of str
        See `Simulation.lines`.
    ended : sequence of EndedObject
        With ``--upgrade-from``, objects of the input in versions that the later release does not serve.
    touched : sequence of TouchedObjects
        With it, what else the later release takes otherwise, or is too new for.
    saved : SavedByRequests or None
        What other requests save; None where no change has them.
    """

    changes: Sequence[str] = ()
    releases: tuple[str, str] | None = None
    lost: int = 0
    scale_up: ScaleUpReport | None = None
    remarks: Sequence[str] = ()
    ended: Sequence[EndedObject] = ()
    touched: Sequence[TouchedObjects] = ()
    saved: SavedByRequests | None = None

    def run_lines(self) -> Iterator[str]:
        """Yield what queues decide, whom the change evicts, and what becomes of nodes."""
        yield from self.remarks
        if self.scale_up is not None:
            yield from self.scale_up.lines()

    def lines(self) -> Iterator[str]:
        """Yield what was changed, and what becomes of the pods by an upgrade."""
        if self.changes:
            yield f"changes: {', '.join(_in_short(self.changes))}"
        if self.releases is not None:
            what = number_of(self.lost, "pod loses its node", "pods lose their nodes")
            yield f"{' to '.join(self.releases)}: {what if self.lost else 'no pod loses its node'}"
            yield from (f"{self.releases[1]} does not serve {obj.text}" for obj in self.ended)
            yield from (f"{self.releases[1]} {objects.line}" for objects in self.touched)


def _in_short(changes: Sequence[str]) -> Iterator[str]:
    """Yield changes; those in a row by one option as their number, if they need a line or more."""
    for option, alike in groupby(changes, lambda text: text.partition(" ")[0]):
        texts = [*alike]
        is_long = len(texts) > 1 and sum(map(len, texts)) > MOST_NAMED
        yield from [f"{option} ({len(texts)} times)"] if is_long else texts


class Verdict(NamedTuple):
    """The answer of the gate.

    Attributes
    ----------
    placed : int
        Number of pods that had no node before the run and have one now.
    is_about_pods : bool
        Whether there is any pod that should run.
    survival : Survival or None
        The answer of ``--survive``.
    daemons : int
        How many of the placed pods are of DaemonSets.
    """

    findings: list[Finding]
    placed: int
    is_about_pods: bool = True
    survival: Survival | None = None
    losses: Sequence[LossFinding] = ()
    compared: Compared = Compared()
    daemons: int = 0

    @property
    def failed(self) -> int:
        """Number of pods that are a failure before any loss."""
        return sum(finding.pods for finding in self.findings if finding.counts)

    def not_known(self, counts: bool) -> str:
        """How many replicas of which kinds that are not simulated are a failure, or are none; "" for none."""
        findings = [finding for finding in self.findings if finding.is_unknown and finding.counts == counts]
        workloads = [finding.group.workload for finding in findings]
        kinds = first_of([*dict.fromkeys(full_kind(each.kind, f"{each.group}/") for each in workloads)], 2)
        replicas = number_of(sum(finding.pods for finding in findings), "replica", "replicas")
        return f"{replicas} not simulated ({kinds})" if findings else ""

    @property
    def failed_losses(self) -> int:
        """Number of losses that are a failure."""
        return len({finding.loss.domains for finding in self.losses if finding.counts})

    @property
    def refused(self) -> int:
        """Number of objects of the change that the API server would refuse."""
        return sum(not finding.pods for finding in self.findings) - len(self.refused_later)

    @property
    def refused_later(self) -> list[Workload]:
        """The workloads whose pods run, while the API server would refuse new ones."""
        return [finding.group.workload for finding in self.findings if finding.group.status == REFUSED_LATER]

    @property
    def passed(self) -> bool:
        """Whether neither a pod nor a loss is a failure, and no object is refused, nor pods later on."""
        return not (self.failed or self.failed_losses or self.refused or self.refused_later)

    def with_refused_later(self, groups: Iterable[PodsAlike]) -> Verdict:
        """Return the answer with workloads whose pods would not be made anew: `groups_refused_later`."""
        later = [Finding(group, waited=False, allowed=False, counts=True) for group in groups]
        return self._replace(findings=[*later, *self.findings])

    def with_losses(self, survival: Survival, allowed: Collection[str]) -> Verdict:
        """Return the answer with that of ``--survive``."""
        findings: dict[tuple[object, ...], LossFinding] = {}
        for loss in survival.losses:
            for pod in loss.lost:
                finding = LossFinding(loss, [], pod.problem in allowed)
                namespace, what = pod.pod.partition("/")[0], structs.astuple(pod)[1:]
                findings.setdefault((loss.domains, namespace, *what), finding).lost.append(pod)
        losses = sorted(findings.values(), key=lambda finding: not finding.counts)
        return self._replace(survival=survival, losses=losses)


def judge(
    simulation: Simulation,
    waiting: Collection[str],
    allowed: Collection[str],
    before: Simulation | None = None,
    causes: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:
    """Find the pods that should run and have no node.

    Pods that are being deleted are ignored, unless others wait for their end. An evicted pod counts unless
    its controller has made another one; that one counts as any pod does. Of objects of kinds that are not
    simulated it is not known whether they lack pods, and workloads wait in queues as a rule: only those count
    that a change brings.

    Parameters
    ----------
    waiting : collection of str
        What was waiting before the change: see `waiting_pods`.
    allowed : collection of str
        Problems that are no failure, by status.
    before : Simulation, optional
        The run without the change, where pods are no failure that it leaves without a node, too.
    causes : mapping of str to str, optional
        By ``namespace/name``, what makes the difference from an earlier release.
    """
    findings = [
        Finding(group, waited, group.status in allowed, False, because)
        for group, waited in _groups(simulation, waiting, before)
        for keys in [[outcome.pod.key for outcome in group.outcomes]]
        for because in [tuple(dict.fromkeys(causes[key] for key in keys if key in causes))]
    ]
    findings = [
        finding._replace(
            counts=not (finding.allowed or (finding.waited and (before is not None or finding.is_as_before)))
        )
        for finding in findings
    ]
    refused = refused_groups(simulation.cluster)
    findings[:0] = [Finding(group, waited=False, allowed=False, counts=True) for group in refused]
    placed = [outcome.workload.kind for outcome in simulation.outcomes if outcome.status == PLACED]
    is_about_pods = bool(simulation.before or simulation.outcomes)
    findings.sort(key=lambda finding: (not finding.counts, finding.group.status == KEPT))
    return Verdict(findings, len(placed), is_about_pods, daemons=placed.count("DaemonSet"))


def _groups(
    simulation: Simulation, waiting: Collection[str], before: Simulation | None
) -> Iterator[tuple[PodsAlike, bool]]:
    """Yield the pods without a node by workload and reason, and whether they were waiting before, or have
    none in the run without the change."""
    outcomes = [*chain.from_iterable(simulation.lacking.values())]
    waited = [each.key in waiting and not simulation.is_remade(each.pod) for each in outcomes]
    if before is not None:
        lacked = (each.lack for each in chain.from_iterable(before.lacking.values()))
        new = are_new([each.lack for each in outcomes], lacked)
        marked = [
            each.status in (QUEUED, SKIPPED_KIND) for each in outcomes
        ]  # as they are told before the run
        waited = [old if mark else not is_new for old, mark, is_new in zip(waited, marked, new, strict=True)]
    for old in (False, True):
        part = [each for each, is_old in zip(outcomes, waited, strict=True) if is_old == old]
        yield from ((group, old) for group in group_outcomes(part))


# ---- removed pods ------------------------------------------------------------------------------------------
#
# The pods that workloads have removed after a change: rollouts, and workloads with fewer replicas.


class Removed(NamedTuple):
    """The pods of one workload that it has no more, or a rollout that has not removed any yet.

    Attributes
    ----------
    pods : list of Pod
        They had nodes before the run.
    placed : int
        Number of its new pods that have a node.
    is_rollout : bool
        Whether there are pods with another template in their place.
    unfinished : Rollout or None
        How far the rollout has come, if it is not complete.
    strategy : str
        That it may stop all pods, or its steps; "" for nothing to say.
    """

    workload: Workload
    pods: list[Pod]
    placed: int
    is_rollout: bool
    unfinished: Rollout | None
    strategy: str = ""


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
    evicted = {eviction.pod.metadata.uid for eviction in simulation.evicted.values()}
    preempted = simulation.result.evicted
    loaded = simulation.setup.loaded
    changed = loaded.changed_pods(scheduler, listed)
    gone: dict[Workload, list[Pod]] = {}
    for pod in changed.before:
        is_evicted = pod.metadata.uid in evicted or pod.key in preempted
        if pod.spec.node_name and not is_evicted and not simulation.exists(pod):
            gone.setdefault(workloads.of(pod), []).append(pod)
    rollouts = filter(_has_old_pods, loaded.rollouts(scheduler))
    rolling = {rollout.workload: rollout for rollout in rollouts}
    versions, placed = defaultdict[Workload, set[tuple[str, str]]](set), Counter[Workload]()
    for pod in changed.new:
        workload = workloads.of(pod)
        versions[workload].add(_version(pod))
        placed[workload] += bool(pod.spec.node_name)
    removed = []
    for workload, pods in gone.items():
        unfinished = rolling.pop(f"{workload.kind} {workload.namespace}/{workload.name}", None)
        is_rollout = unfinished is not None or not versions[workload] <= set(map(_version, pods))
        strategy = _strategy(scheduler, workload) if is_rollout else ""
        removed.append(Removed(workload, pods, placed[workload], is_rollout, unfinished, strategy))
    for name, rollout in rolling.items():
        kind, _, key = name.partition(" ")
        namespace, _, name = key.partition("/")
        workload = Workload(namespace, kind, name)
        strategy = _strategy(scheduler, workload)
        removed.append(Removed(workload, [], placed[workload], True, rollout, strategy))
    return removed


def _strategy(scheduler: Scheduler, workload: Workload) -> str:
    """Return what is to say of the strategy of a rollout: that it may stop all pods, or its steps."""
    kind = {each.__name__: each for each in (Deployment, ArgoRollout)}.get(workload.kind)
    obj = kind and find_object(scheduler.client, kind, workload.name, workload.namespace)
    if isinstance(obj, Deployment):
        return f"{field} lets it stop all pods at once" if (field := stops_all(obj)) else ""
    return steps_text(obj)


def _version(pod: Pod) -> tuple[str, str]:
    """What the pods of one template share: their ReplicaSet, or the revision that their label names."""
    owner = pod.metadata.controller()
    return "" if owner is None else owner.name, pod.metadata.labels.get("controller-revision-hash", "")


def _has_old_pods(rollout: Rollout) -> bool:
    """Whether a workload has pods of another template; without them it only lacks pods."""
    return rollout.available + len(rollout.without_node) > rollout.updated


# ---- basis -------------------------------------------------------------------------------------------------
#
# What an answer rests on: what is taken as given in a run, and may be otherwise in a cluster.

OTHER_TIMES = (PodTimes(start=0, ready=0, stop=0), PodTimes(start=30, ready=60, stop=30))
_MOST = 3


def rests_on(simulation: Simulation, removed: Sequence[Removed], changes: int) -> Iterator[str]:
    """Yield what an answer rests on, where it may matter, in a few words each.

    Parameters
    ----------
    changes : int
        Number of changes, which are made one right after the other.
    """
    if any(removal.is_rollout and removal.placed and removal.pods for removal in removed):
        yield "new versions become ready"
    if any(removal.is_rollout and removal.workload.kind == ArgoRollout.__name__ for removal in removed):
        yield "pauses and analyses of Rollouts end well"
    if changes > 1 and any(outcome.status not in (PLACED, REPLACED) for outcome in simulation.outcomes):
        yield "the changes come at one moment"
    if (queues := simulation.scheduler.ask.queues()) is not None:
        yield queues.basis
    yield from _later_evictions(simulation.scheduler)
    yield from _contended_quotas(simulation)
    yield from _lost_volumes(simulation.scheduler)


def _lost_volumes(scheduler: Scheduler) -> Iterator[str]:
    """Yield when the volumes of lost nodes come to other nodes."""
    lost = {} if scheduler.controllers is None else scheduler.controllers.attachments.lost
    if lost and scheduler.handle.release.gone_nodes_free_volumes:
        nodes = {node.name for node in scheduler.client.list(Node)[0]}
        lost = {volume: node for volume, node in lost.items() if node in nodes}
    for node, volumes in grouped((node, volume) for volume, node in lost.items()).items():
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
    scheduler, backed_off = simulation.scheduler, simulation.setup.backing_off
    contended = [
        outcome
        for outcome in simulation.outcomes
        if outcome.status == REFUSED and "exceeded quota" in outcome.reason
        if (owner := outcome.pod.metadata.controller()) is not None
        and f"{owner.kind} {outcome.pod.namespace}/{owner.name}" in backed_off
    ]
    if not contended:
        return
    written = simulation.setup.loaded.since(scheduler)
    went = {key.partition("/")[0] for key, pod in written.items() if pod is None}
    came = {key.partition("/")[0] for key, pod in written.items() if pod is not None and pod.spec.node_name}
    names = dict.fromkeys(
        f"{outcome.pod.namespace}/{outcome.workload.text}"
        for outcome in contended
        if outcome.pod.namespace in went & came
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

    def over(self, context: SchedulerState) -> Loop:
        """Return a loop that tells."""
        return Loop(context, self)

    def depend_on_times(self, removed: Sequence[Removed]) -> bool:
        """Whether the answer may depend on how long pods take: pods of two workloads were replaced, and a pod
        waited for room."""
        return self.has_failed and sum(bool(removal.placed and removal.pods) for removal in removed) > 1


def differing_times(
    passes: bool, settings: Mapping[str, Any], verdict_of: Callable[[Mapping[str, Any]], bool]
) -> str:
    """Return that a verdict depends on how long pods take, if it does; "" otherwise.

    Parameters
    ----------
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


# ---- group fits --------------------------------------------------------------------------------------------
#
# The pod groups of a run: how many of their pods have a node, how many fit at once, and what stops
# the next one.


class GroupFit(Document, frozen=True):
    """A pod group after a run."""

    namespace: str
    group: str
    """Name of the pod group."""
    min_count: Count
    """0 without a minimum, and if there is no such PodGroup."""
    pods: Count
    """Pods of the group, without those that have finished; evicted and refused ones that should run count."""
    with_node: Count
    """Those of them that have a node."""
    fit: Count = 0
    """How many of the others fit at once after the run, without evictions."""
    domain: str = ""
    """``LABEL=VALUE`` of the domain in which they fit, of a group that is bound to a topology; else empty."""
    next: str = ""
    """The first pod that fits nowhere beside those, as ``namespace/name``; empty for none."""
    message: str = ""
    """Why it fits nowhere, or what else stops the group; empty if all pods have a node."""


def group_fits(simulation: Simulation, outcomes: Iterable[PodOutcome]) -> list[GroupFit]:
    """Return the groups of pods, in the order of their first pods; none where groups are ignored.

    Parameters
    ----------
    outcomes : iterable of PodOutcome
        Those that are shown, of pods with groups and without.
    """
    scheduler = simulation.scheduler
    of_units = grouped(
        (unit, outcome)
        for outcome in (outcomes if scheduler.handle.groups_pods else ())
        if (unit := group_of(outcome.pod)) is not None
    )
    if not of_units:
        return []
    stored = [pod for pod in scheduler.client.list(Pod)[0] if pod.status.phase not in FINISHED]
    pods = Counter(map(group_of, stored))
    with_node = Counter(group_of(pod) for pod in stored if pod.spec.node_name)
    homeless = (outcome.pod for outcome in simulation.outcomes if outcome.status in (EVICTED, REFUSED))
    gone = Counter(map(group_of, homeless))
    fits: list[GroupFit] = []
    known: dict[Hashable, Fit] = {}
    for unit, members in of_units.items():
        group = scheduler.context.groups.get(unit)
        minimum = 0 if group is None else group.min_count
        counts = minimum, pods[unit] + gone[unit], with_node[unit]
        fits.append(GroupFit(*unit, *counts, **_stop(simulation, members, minimum, known)))
    return fits


def _stop(
    simulation: Simulation, members: Iterable[PodOutcome], minimum: int, known: dict[Hashable, Fit]
) -> dict[str, Any]:
    """Return how many pods of a group fit at once, and what stops the next one; nothing if all are placed."""
    from ..explain.explain_group import fit_of_group

    left = next((outcome for outcome in members if outcome.status != PLACED), None)
    seen = None if left is None else fit_of_group(simulation.scheduler.context, left.pod, known)
    if left is None:
        return {}
    if seen is None:
        return {"message": left.short_reason}
    if seen.pods < minimum:  # nothing is tried before the others are there
        return {"fit": seen.fits, "message": f"the group has only {seen.pods} of {minimum} pods"}
    message = seen.message or left.short_reason
    return {"fit": seen.fits, "domain": seen.domain, "next": seen.next, "message": message}


def group_tables(groups: Sequence[GroupFit]) -> Iterator[PrintedTable]:
    """Yield the table of pod groups, if there are any."""
    if not groups:
        return
    rows = []
    for group in groups:
        fit = str(group.fit) if group.message else ""
        where = f" in {group.domain}" if group.domain else ""
        stop = f"{group.next}{where}: {group.message}" if group.next else group.message
        numbers = str(group.min_count or ""), f"{group.with_node}/{group.pods}", fit
        rows.append((group.namespace, group.group, *numbers, stop))
    yield PrintedTable(("NAMESPACE", "GROUP", "MINIMUM", "WITH NODE", "MORE FIT", "STOPPED BY"), rows)

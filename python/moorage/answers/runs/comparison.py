"""Runs side by side: alternatives that are arguments, and two releases of Kubernetes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace as with_fields

from moorage.cluster.verbs import RequestedChange
from moorage.document import Document, Positive
from moorage.errors import InputError, located, nearest, number_of
from moorage.kube import Cluster, Pod
from moorage.kube.model.cluster import DecidingRelease, LeftOutWorkload, NotAsked, RefusedObject
from moorage.kube.model.pod import MIRROR_ANNOTATION, PodStatus
from moorage.kube.releases import RELEASES, FeatureGates, changed_gates, release_named, selected_gates
from moorage.kube.releases.behaviours import Behaviour, Cause, differing, find_causes, switched
from moorage.kube.releases.feature_gates import is_gate, settable
from moorage.kube.workloads.ownership import FINISHED
from moorage.lazy import NamedTuple
from moorage.notes import basis_line, basis_of, of_kinds, with_notes

from ..homeless_pods import HELD, KEPT
from ..scheduler import Scheduler
from ..text_tables import PrintedTable, answer_text
from .changed_objects import BrokenWorkload, ChangedField, ObjectChanges
from .loaded_cluster import SchedulerSettings
from .simulation import NOT_STARTED, PLACED, REPLACED, SILENCE, Progress, Simulation, SimulationSetup

AS_IS = "as-is"
KEPT_MEASURE = "kept on a drained node"


class Alternative(Struct, frozen=True, dict=True):
    """One of several runs that are compared."""

    name: str
    simulation: Simulation

    @property
    def measures(self) -> dict[str, float]:
        """The measures of the run, by name."""
        done = self.simulation
        summary = done.summary
        statuses = Counter(outcome.status for outcome in done.outcomes)
        with_node = sum(statuses[status] for status in (PLACED, REPLACED, NOT_STARTED, *HELD))
        rows = np.asarray(done.scheduler.context.view_rows())
        measures: dict[str, float] = {
            "nodes": summary.nodes,
            "cordoned nodes": summary.nodes - len(_open_rows(done.scheduler)),
            "nodes with pods": int((done.scheduler.table.requested["pods"][rows] > 0).sum()),
            "placed": summary.placed,
            "without a node": statuses.total() - with_node,
            "evicted": summary.evicted + len(done.evicted),
        }
        if statuses[KEPT]:
            measures[KEPT_MEASURE] = statuses[KEPT]
        if (scale_up := done.scale_up) is not None:
            measures["new nodes"] = len(scale_up.up.nodes)
            measures |= {} if scale_up.up.price is None else {"new nodes $/h": round(scale_up.up.price, 4)}
            if scale_up.up.price is not None and scale_up.before is not None and not scale_up.before.unknown:
                measures["nodes $/h"] = round(scale_up.before.price + scale_up.up.price, 4)
        for use in summary.use:
            if (percent := _use(done.scheduler, use.resource)) is not None:
                measures[f"{use.resource} use %"] = percent
        for resource in ("cpu", "memory"):
            measures[f"{resource} imbalance %"] = _imbalance(done.scheduler, resource)
        return measures

    @cached_property
    def nodes(self) -> dict[str, str]:
        """The node of each pod that has one and has not finished, by ``namespace/name``."""
        pods = self.simulation.scheduler.client.list(Pod)[0]
        on_nodes = (pod for pod in pods if pod.spec.node_name and pod.status.phase not in FINISHED)
        return {pod.key: pod.spec.node_name for pod in on_nodes}

    @cached_property
    def places(self) -> dict[str, str]:
        """Where each pod is: its node, or its status, by ``namespace/name``."""
        places = {
            outcome.pod.key: outcome.status
            for outcome in self.simulation.outcomes
            if outcome.status != REPLACED
        }
        return places | self.nodes

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why pods are not placed, by ``namespace/name``, without what preemption adds."""
        return {
            outcome.pod.key: outcome.short_reason
            for outcome in self.simulation.outcomes
            if outcome.status != PLACED
        }


def _open_rows(scheduler: Scheduler) -> npt.NDArray[np.int32]:
    """Return the rows of the nodes that are not cordoned: what is left where some were drained."""
    rows, objects = np.asarray(scheduler.context.view_rows()), scheduler.table.objects
    return rows[[not objects[row].spec.unschedulable for row in rows.tolist()]]


def _use(scheduler: Scheduler, resource: str) -> float | None:
    """Return the requested part of a resource on the nodes that are not cordoned, in percent; None where they
    have none."""
    rows = _open_rows(scheduler)
    total = int(scheduler.table.column("allocatable", resource)[rows].sum())
    requested = int(scheduler.table.column("requested", resource)[rows].sum())
    return round(100 * requested / total, 2) if total else None


def _imbalance(scheduler: Scheduler, resource: str) -> float:
    """Return the standard deviation of the requested part of a resource over nodes, in percent."""
    rows = _open_rows(scheduler)
    allocatable = scheduler.table.allocatable[resource][rows]
    parts = scheduler.table.requested[resource][rows][allocatable > 0] / allocatable[allocatable > 0]
    return round(100 * float(np.std(parts)), 2) if len(parts) else 0.0


def without_bindings(cluster: Cluster) -> Cluster:
    """Return a cluster whose pods have no nodes, except for mirror pods."""
    pods = [
        pod
        if not pod.spec.node_name
        or MIRROR_ANNOTATION in pod.metadata.annotations
        or pod.metadata.deletion_timestamp
        else with_fields(pod, spec=with_fields(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
        for pod in cluster.pods
    ]
    return replace(cluster, pods=pods)


def differing_places(alternatives: Sequence[Alternative]) -> dict[str, list[str]]:
    """Return the pods that are not in the same place everywhere.

    Returns
    -------
    dict of str to list of str
        ``namespace/name`` to the place in each alternative; "" where there is no such pod.
    """
    places = [alternative.places for alternative in alternatives]
    keys = sorted(set().union(*places))
    rows = {key: [by_pod.get(key, "") for by_pod in places] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


# ---- release comparison ------------------------------------------------------------------------------------
#
# Two Kubernetes releases over one cluster: the pods that differ, and the behaviours that do it.

KUBERNETES = "kubernetes"
_EXAMPLE = "'kubernetes 1.36' 'kubernetes 1.37'"
MOVED, LOST, GAINED, OTHERWISE = "gets another node", "no longer fits", "now fits", "differs otherwise"
"""What becomes of a pod that is not in the same place in both releases."""
ORDER = (LOST, GAINED, MOVED, OTHERWISE)
"""The order in which differences are shown."""


class Side(NamedTuple):
    """One of the two releases that are compared.

    Attributes
    ----------
    gates : str
        Feature gates of this side alone, as ``A=true,B=false``.
    """

    version: str
    gates: str = ""

    @property
    def name(self) -> str:
        """The alternative: ``kubernetes 1.37 GenericWorkload=true``."""
        return f"{KUBERNETES} {self.version} {self.gates}".rstrip()


@dataclass(frozen=True)
class ReleaseDifference:
    """A pod that the two releases do not put into one place.

    Attributes
    ----------
    pod : str
        ``namespace/name``.
    change : str
        One of the constants of this module.
    places : tuple of str
        Its node or its status in each release; "" where there is no such pod.
    reason : str
        Why it has no node, where it has none, without what preemption adds; of the later release if it has
        none in either.
    """

    pod: str
    change: str
    places: tuple[str, str]
    reason: str
    cause: Cause


class ReleaseComparison(Struct, frozen=True):
    """What a change of the release changes.

    Attributes
    ----------
    from_scratch : bool
        Whether bound pods were placed anew; otherwise only pending ones were placed.
    tie_break : str
        How both choose among nodes of equal score, so that ties make no difference.
    behaviours : list of Behaviour
        What the two releases do not have alike.
    differences : list of ReleaseDifference
        Pods that no longer fit first, then those that now fit; by pod.
    """

    before: Alternative
    after: Alternative
    from_scratch: bool
    tie_break: str
    behaviours: list[Behaviour]
    differences: list[ReleaseDifference]

    @property
    def basis(self) -> str:
        """Which pods were placed, in a sentence."""
        if self.from_scratch:
            what = "All pods were placed anew, by priority and age; mirror pods stayed."
        else:
            what = "Pending pods were placed; bound pods stayed, --from-scratch places them anew."
        return f"{what} Both releases choose alike among nodes of equal score ({self.tie_break})."

    @property
    def effective(self) -> list[Behaviour]:
        """The behaviours that a cause names."""
        causes = (difference.cause for difference in self.differences)
        named = {name for cause in causes for names in cause.alternatives for name in names}
        return [behaviour for behaviour in self.behaviours if behaviour.name in named]

    @property
    def groups(self) -> Counter[tuple[str, str]]:
        """How many pods differ in one way for one reason."""
        return Counter((difference.change, difference.cause.text) for difference in self.differences)

    def document(self) -> ComparedReleases:
        """Return what documents have of the comparison."""
        return ComparedReleases(
            self.from_scratch,
            self.tie_break,
            [DifferenceGroup(*kind, pods) for kind, pods in self.groups.items()],
            [EffectiveBehaviour.from_object(behaviour) for behaviour in self.effective],
        )

    def losses(self) -> dict[str, str]:
        """Return, by pod, what makes the difference for those that no longer fit."""
        return {
            difference.pod: difference.cause.text
            for difference in self.differences
            if difference.change == LOST
        }


def releases_named(alternatives: Sequence[str]) -> tuple[Side, Side] | None:
    """Return the two releases that ``kubernetes 1.35`` and ``kubernetes 1.37 GenericWorkload=true`` name.

    Parameters
    ----------
    alternatives : sequence of str
        The arguments of the command.

    Returns
    -------
    (Side, Side) or None
        None where no argument names a release.

    Raises
    ------
    InputError
        A release is not known, or the arguments are not two releases or one with two sets of gates.
    """
    named = {text: _side(text) for text in alternatives if text.lower().split()[:1] == [KUBERNETES]}
    if not named:
        return None
    for other in alternatives:
        if other not in named:
            near = nearest(other, named)
            raise InputError(f"not a release: give two, as {_EXAMPLE}{near}", source=repr(other))
    if len(alternatives) != 2:
        raise InputError(f"give two releases, as {_EXAMPLE}, and not {len(alternatives)}")
    first, last = (named[text] for text in alternatives)
    if first == last:
        hint = f"give two, as {_EXAMPLE}, or one with other feature gates"
        raise InputError(f"both are release {first.version}: {hint}", source=repr(alternatives[1]))
    return first, last


def _side(text: str) -> Side:
    """Return the release of ``kubernetes 1.36``, or of ``kubernetes 1.37 A=true,B=false``."""
    words = text.split()
    with suppress(ValueError):
        if len(words) in (2, 3):
            return Side(release_named(words[1]).version, *words[2:])
    known = f"kubernetes and one of {', '.join(RELEASES)}"
    raise InputError(f"not a release: give {known}, and feature gates as A=true,B=false", source=repr(text))


def compare_releases(
    sides: tuple[Side, Side],
    cluster: Cluster,
    common: SchedulerSettings,
    changes: Sequence[RequestedChange] = (),
    from_scratch: bool = False,
    stages: Progress = SILENCE,
) -> ReleaseComparison:
    """Place the pods of one cluster as two releases do, and find what makes the differences.

    Parameters
    ----------
    common : SchedulerSettings
        Its gates are those of both sides.
    changes : sequence of RequestedChange, optional
        Changes of the cluster, made in this order.
    from_scratch : bool, optional
        Whether bound pods are placed anew.
    stages : Progress, optional
        Shows how many of the runs with one behaviour switched are done.

    Raises
    ------
    InputError
        The configuration is not valid, or a release does not have a feature gate.
    """
    before, after = (_gates(common.gates, side) for side in sides)
    # Among nodes of equal score both choose alike: by the seed only if both do, or the user asks for it.
    kinds = {gates.release.tie_break for gates in (before, after)}
    tie_break = common.tie_break or min(kinds, key=lambda kind: (kind == "random", kind))
    common = with_fields(common.read_once(), tie_break=tie_break)
    if from_scratch:
        cluster = without_bindings(cluster)
    behaviours = differing(before, after)
    names = [behaviour.name for behaviour in behaviours]
    ends: dict[bool, Alternative] = {}
    runs: list[Collection[str]] = []
    stages.count(len(names) + 2, lambda: len(runs))

    def run(switches: Collection[str]) -> Mapping[str, str]:
        runs.append(switches)
        is_after = len(switches) == len(names)
        gates = after if is_after else switched(before, after, switches)
        done = Alternative(
            sides[is_after].name, SimulationSetup(cluster, common.with_gates(gates), changes).run()
        )
        if is_after or not switches:
            ends[is_after] = done
        return done.places

    causes = find_causes(run, names)
    last = ends[True]
    first = ends.get(False) or Alternative(sides[0].name, last.simulation)
    differences = [_difference(key, first, last, cause) for key, cause in causes.items()]
    differences.sort(key=lambda difference: ORDER.index(difference.change))
    return ReleaseComparison(first, last, from_scratch, common.tie_break or "", behaviours, differences)


def _gates(common: str, side: Side) -> FeatureGates:
    with located(obj=f"{KUBERNETES} {side.version}"):
        return selected_gates(f"{common},{side.gates}", side.version)


def sides_of_upgrade(first: str, last: str, gates: str) -> tuple[Side, Side, list[str]]:
    """Return the sides of an upgrade. The feature gates are those of the later release, and the earlier one
    decides with those of them that can be set for it.

    Parameters
    ----------
    gates : str
        Value of ``--feature-gates``.

    Returns
    -------
    warnings : list of str
        A sentence about each of the others; not about gates that the earlier release does not have and that
        are switched off.
    """
    changes, release = changed_gates(gates), RELEASES[first]
    kept = settable(changes, release)
    texts = {name: f"{name}={str(value).lower()}" for name, value in changes.items()}
    warnings = [
        f"Kubernetes {first} decides without {text}: moorage cannot set this gate for that release."
        for name, text in texts.items()
        if name not in kept and (changes[name] or is_gate(name, release))
    ]
    common = ",".join(text for name, text in texts.items() if name in kept)
    return Side(first, common), Side(last, gates), warnings


def _difference(key: str, before: Alternative, after: Alternative, cause: Cause) -> ReleaseDifference:
    places = before.places.get(key, ""), after.places.get(key, "")
    has_node = key in before.nodes, key in after.nodes
    change = {(True, True): MOVED, (True, False): LOST, (False, True): GAINED}.get(has_node, OTHERWISE)
    without = before if change == GAINED else after
    return ReleaseDifference(key, change, places, without.reasons.get(key, ""), cause)


# ---- comparison answer -------------------------------------------------------------------------------------

SAME = "every pod is in the same place"


class ComparedRun(Document, frozen=True):
    """One of several runs that are compared."""

    name: str
    """The argument."""
    measures: dict[str, float]
    """Numbers of nodes and pods; use of resources in the cluster in percent; imbalance, the standard
    deviation over nodes in percent."""
    release: DecidingRelease | UnsetType = UNSET
    """The release of Kubernetes that decides, and what told it; absent where two are compared."""


class DifferingPod(Document, frozen=True):
    """A pod that is not in the same place everywhere."""

    pod: str
    places: list[str]
    """Its node or its status in each alternative; empty where there is no such pod."""
    change: Annotated[str, Meta(extra_json_schema={"enum": list(ORDER)})] | UnsetType = UNSET
    """Of two releases: what becomes of the pod."""
    reason: str | UnsetType = UNSET
    """Of two releases: why it has no node, where it has none; empty for others."""
    because: Sequence[Sequence[str]] | UnsetType = UNSET
    """Of two releases: each list of behaviours and feature gates makes the difference; those of one list
    together."""
    is_pinned: bool | UnsetType = UNSET
    """Of two releases: false where the difference comes of some of the listed behaviours, and it is not known
    which."""


class DifferenceGroup(Document, frozen=True):
    """Pods that differ between two releases in one way, for one reason."""

    change: str
    because: str
    """As in the table."""
    pods: Positive


class EffectiveBehaviour(Document, frozen=True):
    """A behaviour or feature gate that makes a difference."""

    name: str
    is_gate: bool
    values: Sequence[str]
    """In each release; of collections, what the other one has not."""
    text: str
    """What it is."""


class ComparedReleases(Document, frozen=True):
    """How two releases were compared, and what makes the differences."""

    from_scratch: bool
    """Whether bound pods were placed anew; otherwise only pending ones were placed."""
    tie_break: str
    """How both choose among nodes of equal score."""
    groups: list[DifferenceGroup]
    behaviours: list[EffectiveBehaviour]
    """The behaviours and feature gates that make a difference."""


class CompareDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage compare``."""

    api_version: Literal["compare.moorage.dev/v1"] = "compare.moorage.dev/v1"
    kind: Literal["Comparison"] = "Comparison"
    alternatives: list[ComparedRun]
    differences: list[DifferingPod]
    """The pods that are not in the same place everywhere."""
    releases: ComparedReleases | UnsetType = UNSET
    """How two releases were compared, and what makes the differences."""
    left_out: list[LeftOutWorkload]
    warnings: Sequence[str]
    refused: list[RefusedObject] | UnsetType = UNSET
    not_asked: list[NotAsked] | UnsetType = UNSET
    changed: list[ChangedField] | UnsetType = UNSET
    """Of two clusters: the fields of their objects that differ, but for pods of workloads."""
    broken: list[BrokenWorkload] | UnsetType = UNSET
    """Of two clusters: the workloads of which more pods are without a node in the second."""


@dataclass(frozen=True, repr=False)
class ComparisonAnswer:
    """Runs side by side.

    Attributes
    ----------
    warnings : sequence of str
        About the inputs and the runs, a sentence each.
    releases : ReleaseComparison or None
        What makes the differences, if the alternatives are two releases.
    objects : ObjectChanges or None
        What differs between the objects, if the alternatives are two clusters.
    """

    alternatives: Sequence[Alternative]
    warnings: Sequence[str]
    releases: ReleaseComparison | None = None
    objects: ObjectChanges | None = None

    def __repr__(self) -> str:
        return f"<ComparisonAnswer: {next(iter(self.lines()))}>"

    def __str__(self) -> str:
        lines = with_notes(self.lines(), of_kinds(self.warnings))
        return answer_text(lines, self.tables(), basis_line(self.basis()))

    def basis(self) -> list[str]:
        """Return what the answer rests on, in a few words each."""
        releases = [
            f"Kubernetes {run.simulation.scheduler.handle.release.version}" for run in self.alternatives
        ]
        return basis_of(releases, self.warnings)

    def document(self) -> CompareDocument:
        """Return the answer as its document."""
        runs, releases = self.alternatives, self.releases
        clusters = [run.simulation.cluster for run in runs]
        differences = [DifferingPod(key, places) for key, places in differing_places(runs).items()]
        if releases is not None:
            differences = [
                DifferingPod(
                    differing.pod,
                    [*differing.places],
                    differing.change,
                    differing.reason,
                    differing.cause.alternatives,
                    differing.cause.is_pinned,
                )
                for differing in releases.differences
            ]
        left_out = dict.fromkeys(obj for cluster in clusters for obj in cluster.left_out)
        refused = dict.fromkeys(obj for cluster in clusters for obj in cluster.refused_of_change)
        return CompareDocument.from_object(
            self,
            alternatives=[
                ComparedRun.from_object(
                    run, release=run.simulation.cluster.release if releases is None else None
                )
                for run in runs
            ],
            differences=differences,
            left_out=[*left_out],
            warnings=[*map(str, self.warnings)],
            refused=[*refused] or UNSET,
            not_asked=self.not_asked or UNSET,
            changed=UNSET if self.objects is None else self.objects.fields,
            broken=UNSET if self.objects is None else self.objects.broken,
        )

    @cached_property
    def not_asked(self) -> list[NotAsked]:
        """Who decides about the objects or the pods of a run, and cannot be asked."""
        every = [each for run in self.alternatives for each in run.simulation.not_asked]
        return [*{each.text: each for each in every}.values()]

    @cached_property
    def pods(self) -> PrintedTable:
        """The pods that differ, and of releases what makes the difference."""
        names, releases = _headings(self.alternatives), self.releases
        if releases is None:
            places = differing_places(self.alternatives).items()
            return PrintedTable(("POD", *names), [(key, *each) for key, each in places])
        rows = [
            (difference.pod, *difference.places, difference.change, difference.cause.text, difference.reason)
            for difference in releases.differences
        ]
        return PrintedTable(("POD", *names, "CHANGE", "BECAUSE OF", "REASON"), rows)

    @cached_property
    def measures(self) -> PrintedTable:
        """A row per measure that some run has."""
        measures = [run.measures for run in self.alternatives]
        names = dict.fromkeys(name for each in measures for name in each)
        rows = [(name, *(f"{each[name]:g}" if name in each else "" for each in measures)) for name in names]
        return PrintedTable(("MEASURE", *_headings(self.alternatives)), rows)

    def lines(self) -> Iterator[str]:
        """Yield how many pods differ, how releases were compared, and which nodes come."""
        moved = number_of(len(self.pods.cells), "pod is not", "pods are not")
        places = f"{moved} in the same place" if self.pods.cells else SAME
        objects = [] if self.objects is None else [*_changes_told(self.objects)]
        yield "; ".join([places, *objects[:1]])
        if self.releases is not None:
            yield self.releases.basis
        yield from objects[1:]
        for run in self.alternatives:
            if (scale_up := run.simulation.scale_up) is not None:
                yield from (f"{run.name}: {text}" for text in (scale_up.text(), *scale_up.gaps()))

    def tables(self) -> Iterator[PrintedTable]:
        """Yield what differs between clusters and what it broke, the measures, what makes differences between
        releases, and the pods that differ."""
        if self.objects is not None:
            yield from _changes(self.objects)
        yield self.measures
        yield from () if self.releases is None else _causes(self.releases)
        yield self.pods


_MOST_FIELDS = 30


def _changes_told(changes: ObjectChanges) -> Iterator[str]:
    """Yield how many objects differ, and which workloads lack more nodes than before."""
    broken, objects = changes.broken, {field.object for field in changes.fields}
    first = changes.fields[0]
    differ = number_of(len(objects), "object differs", "objects differ")
    if len(changes.fields) == 1 and first.field:
        differ = f"{first.object} differs in {first.field}"
    wait = number_of(len(broken), "workload waits", "workloads wait")
    text = f"; {wait} with more pods than before" if broken else ""
    yield f"{differ}{text}"
    if changes.untried:
        yield f"not undone to see what heals: {number_of(changes.untried, 'more change', 'more changes')}"


def _changes(changes: ObjectChanges) -> Iterator[PrintedTable]:
    """What differs, and what it broke."""
    rows = [
        (
            broken.workload,
            broken.namespace,
            str(broken.before),
            str(broken.after),
            ", ".join(broken.healed_by),
        )
        for broken in changes.broken
    ]
    yield PrintedTable(("BROKEN", "NAMESPACE", "WAITED", "WAIT NOW", "HEALED BY UNDOING"), rows)
    fields = [
        (field.object, field.field, field.before, field.after)
        if field.field
        else (field.object, "added" if field.after else "removed", "", "")
        for field in changes.fields
    ]
    more = len(fields) - _MOST_FIELDS
    if more > 0:
        fields = [*fields[:_MOST_FIELDS], (f"… and {more} more", "-o json has all", "", "")]
    yield PrintedTable(("OBJECT", "FIELD", "BEFORE", "AFTER"), fields)


def _headings(alternatives: Sequence[Alternative]) -> list[str]:
    """Return the names of runs; those of files as the shortest ends of their paths that differ."""
    names = [run.name for run in alternatives]
    paths = [[run.name] if run.simulation.setup.changes else run.name.split("/") for run in alternatives]
    for size in range(1, max(map(len, paths))):
        ends = ["/".join(path[-size:]) for path in paths]
        if len({*ends}) == len({*names}):
            return ends
    return names


def _causes(releases: ReleaseComparison) -> Iterator[PrintedTable]:
    """How many pods differ in what way and why, and what the behaviours are."""
    rows = [(change, str(count), cause) for (change, cause), count in releases.groups.items()]
    yield PrintedTable(("CHANGE", "PODS", "BECAUSE OF"), rows)
    names = releases.before.name, releases.after.name
    yield PrintedTable(
        ("BEHAVIOUR", *names, "WHAT IT IS"),
        [(behaviour.name, *behaviour.values, behaviour.text) for behaviour in releases.effective],
    )

"""What ``moorage explain`` is to explain: a pod, a workload, or every pod without a node."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from moorage.cluster.references import object_named, reference_to, several
from moorage.engine.scheduler.place_group import pods_without_group
from moorage.errors import (
    InputError,
    about_nodes,
    examples,
    located,
    number_of,
)
from moorage.kube import CompositePodGroup, Node, NodePool, Pod, PodGroup, group_of
from moorage.kube.model.workload import TEMPLATED, CronJob, DaemonSet, Job, StatefulSet
from moorage.kube.workloads.daemon_pods import why_on_no_node
from moorage.kube.workloads.job_state import is_over
from moorage.kube.workloads.ownership import Workload, controller_of, refers_to
from moorage.lazy import NamedTuple
from moorage.notes import RoutineNote
from moorage.store import kind_named, only_namespace

from ..asked_pods import without_number
from ..homeless_pods import HELD, KEPT
from ..runs.simulation import (
    EVICTED,
    NOT_STARTED,
    PLACED,
    QUEUED,
    REFUSED,
    REPLACED,
    SKIPPED_KIND,
    TERMINATING,
    WAITING,
    PodOutcome,
    PodsAlike,
    Simulation,
    SimulationSetup,
    group_outcomes,
    refused_groups,
)
from ..scheduler import Scheduler
from .explain_document import Explanation, document
from .explain_pod import groups_instead

# ---- absent targets ----------------------------------------------------------------------------------------
#
# Why ``moorage explain`` has nothing to explain: a workload without pods, another kind, a wrong name.

SUSPENDED = "it is suspended, and has no pods; --unsuspend lets it run"
_WORKLOADS = 3
"""Maximum number of workloads that a note names."""


def absent(
    scheduler: Scheduler, text: str, namespace: str | None, also: Sequence[Workload] = ()
) -> InputError:
    """Return why there is nothing to explain of what a target names, and what to do.

    Parameters
    ----------
    scheduler : Scheduler
        After the run.
    namespace : str or None
        Of a target that names none; None for all namespaces.
    also : sequence of Workload
        See `object_named`.
    """
    *where, name = text.split("/")
    for waiting in scheduler.ask.suspended():
        kind, _, group = waiting.full_kind.partition(".")
        known = {waiting.namespace, *_forms(kind.lower(), group)}
        its_place = namespace in (None, waiting.namespace) or waiting.namespace in where
        if waiting.name == name and its_place and {each.lower() for each in where} <= known:
            return InputError(SUSPENDED, source=SOURCE, obj=waiting.text)
    with located(source=SOURCE):
        obj = object_named(scheduler.client, text, namespace=namespace or "", also=also)
    return InputError(_without_pods(scheduler, obj), source=SOURCE, obj=obj.full_name)


def _without_pods(scheduler: Scheduler, obj: Any) -> str:
    """Return why an object has no pod now, or what to name in place of a kind that never has one."""
    if isinstance(obj, Node):
        return f"a Node is not scheduled; {about_nodes(obj.name)}"
    if isinstance(obj, CompositePodGroup):
        return groups_instead(scheduler.client, obj.namespace, obj.name)
    if obj.kind not in CONTROLLERS:
        instead = "name a pod or a workload, such as deploy/web"
        if isinstance(obj, NodePool):
            instead = "plan nodes says which nodes it makes, explain POD --by pool why it makes none"
        return f"a {obj.kind} has no pods of its own; {instead}"
    if isinstance(obj, CronJob):
        return "it has no pods between its runs; --cronjobs runs it once"
    if isinstance(obj, Job):
        if is_over(obj):
            return "it has finished"
        if obj.spec.suspend:
            return SUSPENDED
    if getattr(obj.spec, "replicas", None) == 0:
        return f"it has 0 replicas; --scale {reference_to(obj)}=N gives it some"
    if isinstance(obj, DaemonSet) and (why := why_on_no_node(obj, scheduler.client.list(Node)[0])):
        return why
    sets = scheduler.client.list(StatefulSet, obj.namespace)[0]
    if its := [reference_to(each) for each in sets if refers_to(each.metadata.controller(), obj)]:
        return f"it has no pods of its own; name a workload that it has made: {examples(its, 3)}"
    return "it has no pod" + _pods_of_missing_groups(scheduler, obj)


def _pods_of_missing_groups(scheduler: Scheduler, obj: Any) -> str:
    """Return what an error adds about a pod group without pods, if pods of its namespace wait for a group
    that does not exist: one of the names may be wrong."""
    if not isinstance(obj, PodGroup):
        return ""
    pods = [pod for pod in scheduler.client.list(Pod)[0] if pod.namespace == obj.namespace]
    texts = pods_without_group(scheduler.handle, scheduler.client.list(PodGroup)[0], pods)
    return f"; {texts[0].removesuffix('.')}" if texts else ""


# ---- targets -----------------------------------------------------------------------------------------------

SOURCE = "TARGET"
EXPLAINED_BY_STATUS = {PLACED, REPLACED, EVICTED, *HELD}
"""Status of pods about which there is nothing to explain."""
CONTROLLERS = {*(kind.__name__ for kind in TEMPLATED), PodGroup.__name__}


class Target(NamedTuple):
    """Pods that have one explanation.

    Attributes
    ----------
    key : str
        The pod that is explained, as ``namespace/name``.
    pods : tuple of str
        All pods with this explanation.
    of : int
        Number of pods that the workload has, or lacks, after the run; 0 where that is not asked.
    """

    key: str
    workload: Workload
    pods: tuple[str, ...]
    of: int = 0

    @property
    def alike(self) -> tuple[str, ...]:
        """What pods with one explanation have in common: their workload, or, without one, the namespace."""
        return _common(self.workload)


def _common(workload: Workload) -> tuple[str, ...]:
    return workload[:2] if workload.kind == Pod.__name__ else workload


def workload_named(
    setup: SimulationSetup, text: str, namespace: str | None
) -> tuple[str, str, str | None] | None:
    """Return the kind, name and namespace of a workload, if a target names one; None for a pod, which comes
    first.

    Parameters
    ----------
    text : str
        ``deploy/web``, ``deployment.apps/web``, ``deploy/NAMESPACE/web``; ``workload/NAME`` is the job of a
        Workload of Kueue; of a kind that scheduling does not
        read its name as `check` prints it, or without the API group.
    namespace : str or None
        Namespace of the option; None without it.

    Raises
    ------
    InputError
        The target names another namespace than the option.
    """
    if text in setup.pods:
        return None
    resource, _, rest = text.partition("/")
    place, _, name = rest.rpartition("/")
    kind = _kind(resource)
    if kind == "Workload" and (queues := setup.loaded.scheduler.ask.queues()) is not None:
        from ..queues.queued_workloads import job_of  # few clusters have Kueue

        return job_of(queues.kueue, name, place or namespace or "")
    if kind not in CONTROLLERS:
        kind = _other_kind(setup, resource.lower(), name)
    if not name or "/" in place or not kind or kind == "Pod":
        return None
    if place and namespace not in (None, place):
        raise InputError(f"names another namespace than -n {namespace}", source=SOURCE, obj=text)
    return kind, name, place or namespace


def _other_kind(setup: SimulationSetup, resource: str, name: str) -> str:
    """Return the kind of a workload that scheduling does not read; "" if there is none of this name."""
    workloads = {setup.workloads.of(pod) for pod in setup.pods.values()}
    kinds = [(workload.kind, workload.group) for workload in workloads if workload.name == name]
    kinds += [(obj.kind, obj.group) for obj in setup.cluster.left_out if obj.name == name]
    waiting = [obj.full_kind.partition(".") for obj in setup.cluster.suspended if obj.name == name]
    kinds += [(kind, group) for kind, _, group in waiting]
    names = {form: kind for kind, group in kinds for form in _forms(kind.lower(), group)}
    return names.get(resource, "")


def _forms(kind: str, group: str) -> Iterator[str]:
    """Yield how a kind may be named."""
    for form in (kind, f"{kind}s"):
        yield from (form, f"{form}.{group}")


def targets_of_workload(
    simulation: Simulation, kind: str, name: str, namespace: str | None
) -> tuple[list[Target], list[PodsAlike]]:
    """Find what to explain of a workload: its pods without a node by class, and those that nobody makes (see
    `groups_not_made`); or else one of its pods.

    Parameters
    ----------
    namespace : str or None
        None where the name is to be unique.

    Raises
    ------
    InputError
        There is no such workload with a pod, or it is in several namespaces.
    """
    text = "/".join(filter(None, (kind.lower(), namespace, name)))
    pods = _pods_of(simulation, kind, name, namespace)
    unmade = [
        group
        for group in groups_not_made(simulation)
        if namespace in (None, group.workload.namespace)
        and (
            (kind, name) == (group.workload.kind, group.workload.name)
            or any(_is_of(simulation, each.pod, kind, name) for each in group.outcomes)
        )
    ]
    if not pods and unmade:
        return [], unmade
    if not pods:
        raise absent(simulation.scheduler, text, namespace, _workloads(simulation))
    with located(source=SOURCE):
        namespace = only_namespace([pod.namespace for pod in pods], text)
    pods = [pod for pod in pods if pod.namespace == namespace]
    unmade = [group for group in unmade if group.workload.namespace == namespace]
    keys = {pod.key for pod in pods}
    ours = [outcome for outcome in simulation.outcomes if outcome.pod.key in keys]
    targets = targets_without_node(simulation, ours)
    is_group = kind == PodGroup.__name__
    if (
        is_group and targets and simulation.scheduler.handle.groups_pods
    ):  # one explanation is about all of them
        together = tuple(key for target in targets for key in target.pods)
        targets = [targets[0]._replace(pods=together)]
    if not (targets or unmade):
        new = simulation.scale_up.up.placed if simulation.scale_up is not None else ()
        grown = [outcome.pod for outcome in ours if outcome.pod.key in new]
        shown = grown or [outcome.pod for outcome in ours] or pods
        workload, keys_alike = simulation.workloads.of(shown[0]), tuple(pod.key for pod in grown or pods)
        targets = [Target(shown[0].key, workload, keys_alike, len(pods))]
    if is_group:
        workload = Workload(pods[0].namespace, kind, name)
        targets = [target._replace(workload=workload) for target in targets]
    return targets, unmade


def _pods_of(simulation: Simulation, kind: str, name: str, namespace: str | None) -> list[Pod]:
    pods = (*simulation.before.values(), *simulation.new)
    listed = [
        pod for pod in pods if namespace in (None, pod.namespace) and _is_of(simulation, pod, kind, name)
    ]
    return [pod for pod in listed if simulation.exists(pod)] or listed  # a rollout has removed others


def _kind(name: str) -> str:
    """Return the kind of a name that kubectl accepts; "" for an unknown name."""
    with suppress(InputError):
        return kind_named(name).__name__
    return ""


def _is_of(simulation: Simulation, pod: Pod, kind: str, name: str) -> bool:
    """Whether a workload is the controller of a pod, or the one above it."""
    if kind == PodGroup.__name__:
        return group_of(pod) == (pod.namespace, name)
    workload, owner = simulation.workloads.of(pod), pod.metadata.controller()
    is_owner = owner is not None and (owner.kind, owner.name) == (kind, name)
    return is_owner or (workload.kind, workload.name) == (kind, name)


def targets_without_node(simulation: Simulation, outcomes: Iterable[PodOutcome]) -> list[Target]:
    """Group pods without a node by class, pod group and claims, which decide what is explained. Pods that
    their controller numbers are alike if they fail alike, and have no claims."""
    intern = simulation.scheduler.cache.state.classes.intern
    unmade = {id(outcome) for group in groups_not_made(simulation) for outcome in group.outcomes}
    groups: dict[tuple[object, ...], list[PodOutcome]] = {}
    for outcome in outcomes:
        if not (outcome.status in EXPLAINED_BY_STATUS or outcome.is_leaving or id(outcome) in unmade):
            pod = outcome.pod
            claims = tuple(pod.claim_keys())
            unnumbered = pod if claims else without_number(pod)
            why = "" if unnumbered is pod else outcome.reason
            alike = _common(outcome.workload), intern(unnumbered), group_of(pod), claims, why
            groups.setdefault(alike, []).append(outcome)
    return [
        Target(
            members[0].pod.key,
            members[0].workload,
            tuple([outcome.pod.key for outcome in members]),
            simulation.count_of(members[0].workload),
        )
        for members in groups.values()
    ]


def groups_not_made(simulation: Simulation) -> list[PodsAlike]:
    """Return the pods that nobody makes, or makes again, so that there is nothing to explain but the reason.

    Returns
    -------
    list of PodsAlike
        Pods that the API server or a kubelet refuses, that wait for others of their StatefulSet or for the
        end of the one in whose place they come, or of workloads that are not simulated; evicted pods that no
        controller replaces, and pods that do not start on their node, keep an old template there, or that a
        drain leaves. Objects that the API server refuses are groups without a pod.
    """
    existing = {*simulation.before, *(pod.key for pod in simulation.new)}
    absent = (REFUSED, SKIPPED_KIND, WAITING)
    return refused_groups(simulation.cluster) + group_outcomes(
        outcome
        for outcome in simulation.outcomes
        if outcome.status in (EVICTED, NOT_STARTED, QUEUED, *HELD)
        or (outcome.status == TERMINATING and not outcome.is_leaving)
        or (outcome.status in absent and outcome.pod.key not in existing)
        or (outcome.status == REFUSED and outcome.node)  # by its kubelet
    )


def pod_named(
    setup: SimulationSetup, text: str, namespace: str | None
) -> tuple[list[Target], list[PodsAlike], bool, list[str]]:
    """Find the pod that a target names: one of before a run, one that controllers make during it, or one
    that nobody makes; in place of one that the changes have deleted, its replacement. A name of no pod may be
    that of one workload.

    Parameters
    ----------
    text : str
        Name, ``NAMESPACE/NAME``, ``pod/NAME`` or ``pod/NAMESPACE/NAME``.
    namespace : str or None
        Namespace of the option; None without it.

    Returns
    -------
    list of Target
        The pod; empty if nobody makes it.
    list of PodsAlike
        See `groups_not_made`.
    bool
        Whether several may be explained: the name is that of a workload, or nobody makes the pod.
    list of str
        What has become of the pod, if it is gone.

    Raises
    ------
    InputError
        There is no such pod, and not one workload of the name either; the pod has finished; or pods of
        several namespaces have this name.
    """
    first, _, rest = text.partition("/")
    kind = _kind(first) if rest and text not in setup.pods else ""
    if kind not in ("", "Pod", *CONTROLLERS):
        raise absent(setup.make(), text, namespace)
    place, _, name = (rest if kind == "Pod" else text).rpartition("/")
    if place and namespace not in (None, place):
        raise InputError(f"names another namespace than -n {namespace}", source=SOURCE, obj=text)
    place = place or namespace or ""

    def named(listed: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in listed if pod.name == name and place in ("", pod.namespace)]

    pods = named(setup.pods.values())
    if named(setup.cluster.finished) and not pods:
        raise InputError("the pod has finished, and is not scheduled any more", source=SOURCE, obj=text)
    unmade = list[PodsAlike]()
    is_gone = not pods or pods[0].metadata.deletion_timestamp is not None
    fates, old = list[str](), named(setup.loaded.pods.values())
    if is_gone or setup.changes or any(pods[0].claim_keys()):
        simulation = setup.simulation
        unmade = [
            group._replace(outcomes=own) if group.status == KEPT else group
            for group in groups_not_made(simulation)
            if is_gone or group.status in (EVICTED, KEPT, NOT_STARTED)
            if (own := [each for each in group.outcomes if named([each.pod])])
        ]
        pods = [] if unmade else pods or named(simulation.new)
        if setup.changes and len(old) == 1 and not (unmade or simulation.exists(old[0])):
            pods, why = _in_place_of(simulation, old[0])
            fates = [f"{old[0].key}: {why}"]
    with located(source=SOURCE):
        place = only_namespace([pod.namespace for pod in pods], text) or place
    pods = [pod for pod in pods if pod.namespace == place]
    if not (pods or unmade or fates):
        workload = _only_workload(simulation, text, name, namespace, place)
        return *targets_of_workload(simulation, workload.kind, name, workload.namespace), True, []
    listed = [Target(pod.key, setup.workloads.of(pod), (pod.key,)) for pod in pods[:1]]
    return listed, unmade, not listed, fates


def _in_place_of(simulation: Simulation, old: Pod) -> tuple[list[Pod], str]:
    """Return the replacement of a pod that is gone, and by what it went. New pods replace those of their
    workload that are gone in the order of both."""
    setup, of, workload = simulation.setup, simulation.workloads.of, simulation.workloads.of(old)
    listed = [pod for pod in setup.loaded.pods.values() if of(pod) == workload]
    uids = {pod.metadata.uid for pod in listed}
    new = [pod for pod in (*setup.pods.values(), *simulation.new) if of(pod) == workload]
    new = [pod for pod in new if pod.metadata.uid not in uids and simulation.exists(pod)]
    gone = [pod.key for pod in listed if not simulation.exists(pod)]
    at = sorted(gone, key=setup.pods.__contains__).index(old.key)  # those of the changes went first
    new = new[at : at + 1]
    changes = " ".join(change.text for change in setup.changes)
    why = simulation.why_evicted(old.key) or f"deleted by {changes}"
    return new, f"{why}; {f'its replacement is {new[0].key}' if new else 'nothing replaces it'}"


def _only_workload(
    simulation: Simulation, text: str, name: str, namespace: str | None, place: str
) -> Workload:
    """Return the workload with pods of a name; InputError if there is none or more than one."""
    pods = (*simulation.before.values(), *simulation.new)
    workloads = _workloads(simulation)
    named = sorted(each for each in workloads if each.name == name and place in ("", each.namespace))
    candidates = [workload for workload in named if workload.kind != PodGroup.__name__]
    candidates = candidates or _owners(pods, name, place) or named
    if not candidates:
        raise absent(simulation.scheduler, text, namespace, workloads)
    if len(candidates) > 1:
        candidates = [each for each in candidates if each.namespace == "default"] or candidates
    if len(candidates) > 1:
        with located(source=SOURCE):
            raise several(candidates, text)
    return candidates[0]


def _workloads(simulation: Simulation) -> list[Workload]:
    """Return the workloads and groups that have pods before or after a run, by name."""
    pods = (*simulation.before.values(), *simulation.new)
    groups = {Workload(key[0], PodGroup.__name__, key[1]) for key in map(group_of, pods) if key is not None}
    return sorted({simulation.workloads.of(pod) for pod in pods} | groups)


def _owners(pods: Iterable[Pod], name: str, place: str) -> list[Workload]:
    """Return the controllers of pods by a name, such as a Job of a CronJob."""
    owners = {owner for owner in map(controller_of, pods) if owner is not None and owner.name == name}
    return sorted(owner for owner in owners if place in ("", owner.namespace))


# ---- alike targets -----------------------------------------------------------------------------------------
#
# Pods of a workload that fail alike have one explanation, though their names and claims differ.

PER_POD = "pod", "situation"
"""Fields of a document that differ between pods that fail alike."""


class ExplainedTarget(Struct):
    """Pods that have one explanation.

    Attributes
    ----------
    own : dict of str to list of str
        By pod, the objects of its own that the explanation names, such as its claims; only where several
        explanations are told as one.
    outcomes : list of str
        What autoscalers do for the pods.
    runs : bool
        Whether the pods run once new nodes have come.
    """

    target: Target
    explanation: Explanation
    own: dict[str, list[str]] = msgspec.field(default_factory=dict)
    outcomes: list[str] = msgspec.field(default_factory=list)
    runs: bool = False


def terminating_pods(setup: SimulationSetup) -> list[Pod]:
    """Return the pods of the input that are being deleted and still on nodes."""
    pods = setup.loaded.pods.values()
    return [pod for pod in pods if pod.spec.node_name and pod.metadata.deletion_timestamp is not None]


def pods_to_make(setup: SimulationSetup, targets: Iterable[Target]) -> Iterator[str]:
    """Yield a note if kubectl would not show explained pods: the input is of a running cluster, and their
    controllers have not made them."""
    if not any(node.metadata.resource_version for node in setup.cluster.nodes):
        return
    listed, lacking = {pod.key for pod in setup.cluster.pods}, Counter[str]()
    for target in targets:
        if count := sum(key not in listed for key in target.pods):
            lacking[target.workload.text] += count
    if lacking:
        texts = [f"{number_of(count, 'pod', 'pods')} of {name}" for name, count in lacking.items()]
        named = examples(texts, _WORKLOADS)
        text = f"The input lacks {named}: controllers would make these."
        yield RoutineNote(text, f"{named} that the input lacks")


def merge_alike(explained: Sequence[tuple[Target, Explanation]]) -> list[ExplainedTarget]:
    """Tell explanations of pods of a workload as one that are equal but for the pod's name, and whom it would
    evict with a higher priority.

    Returns
    -------
    list of ExplainedTarget
        In the order of their first pods.
    """
    merged: dict[object, ExplainedTarget] = {}
    for target, explanation in explained:
        key = target.alike, _signature(explanation)
        known = merged.get(key)
        if known is None:
            merged[key] = ExplainedTarget(target, explanation, {target.key: _own_objects(explanation)})
        else:
            known.target = known.target._replace(pods=(*known.target.pods, *target.pods))
            known.own[target.key] = _own_objects(explanation)
    for entry in merged.values():
        if len(entry.own) == 1 or not any(entry.own.values()):
            entry.own = {}
    return list(merged.values())


def _signature(explanation: Explanation) -> str:
    """Return why a pod has no node and what would help, without the name of the pod; whom it would evict with
    a higher priority is its own."""
    fields = {name: value for name, value in document(explanation).to_dict().items() if name not in PER_POD}
    if fields["preemption"] is not None:
        fields["preemption"] |= {"raisedPriority": None}
    return _whole_name(explanation).sub("\0", json.dumps(fields, default=str))


def _own_objects(explanation: Explanation) -> list[str]:
    """Return the objects with the name of the pod in their names that keep it off nodes."""
    names = {fact.name for group in explanation.groups for fact in group.evidence}
    names |= {claim.claim for claim in explanation.claims}
    return sorted(filter(_whole_name(explanation).search, names))


def _whole_name(explanation: Explanation) -> re.Pattern[str]:
    """Return what finds the name of the pod, and not a longer one of another: claims end with it."""
    return re.compile(rf"{re.escape(explanation.pod.name)}(?![\w-])")

"""The explanation of a pod: verdicts of every filter on every node, scores, and changes that place the
pod."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt
from msgspec import structs

from moorage._core.decide.decider import num_feasible_nodes_to_find
from moorage._core.devices.claims_of_pods import ClaimError
from moorage._core.state.images import normalized_image_name
from moorage.cluster.amounts import readable
from moorage.cluster.examine import Examination, examine_nodes
from moorage.cluster.helpful_changes import HelpfulChange, Kind, cost
from moorage.cluster.played_changes import PlayedChanges
from moorage.cluster.references import NoSuchObjectError, object_named
from moorage.engine.cache import SchedulerCache
from moorage.engine.framework import CycleState, FilterPlugin, PreFilterRun, Status, StatusError
from moorage.engine.framework.claim_plugins import ClaimPlugin
from moorage.engine.framework.group_index import PodGroups
from moorage.engine.framework.in_tree_plugins import NativePlugin
from moorage.engine.plugins.dynamic_resources import DynamicResources
from moorage.engine.preemption.default_preemption import preemption_plugins
from moorage.engine.preemption.eviction_units import priority_of
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.errors import InputError, MoorageError, examples, number_of
from moorage.kube import CompositePodGroup, PodGroup, group_of
from moorage.kube.model.pod import Pod, PodStatus
from moorage.kube.model.workload import Job, ReplicaSet, ReplicationController, StatefulSet
from moorage.kube.workloads.ownership import Workload, Workloads, controller_of, is_active
from moorage.store import NotFoundError, ObjectClient, find_object, parse_reference

from .changes import find_changes, find_pairs
from .evidence_search import (
    EvidenceSearch,
    FilterVerdicts,
    after_extenders,
    ask_extenders,
    verdicts_of,
    weights_of,
)
from .examine_preemption import PreemptionExamination, examine_preemption
from .explain_document import Explanation
from .explanation import Note, group_nodes
from .find_conflicts import find_conflicts
from .pod_claims import PodClaims, generated_claims, released_claims
from .pods_in_the_way import (
    blocking_pods,
    budgets_of,
    find_old_pods,
    find_raised_priority,
    priority_classes,
    rollout_changes,
    with_others,
)
from .probe import Probe
from .replica_changes import carried_out, workload_changes

PRE_FILTER_COLUMN = "PreFilter"
OWNED = ReplicaSet, ReplicationController, StatefulSet, Job
"""Kinds of workloads that others may own."""
OS = "kubernetes.io/os"
_OLD_PODS = 3
"""Old pods, claims and nodes that the text of a note names."""
_WORKLOADS = 16
"""Workloads of a run without whose pods a pod is tried."""
_GROUPS = 5
"""Groups of a composite group that a text names."""


def pod_named(client: ObjectClient, text: str) -> Pod:
    """Return the pod that a text names: the pod itself, or of a workload the first one without a node, or its
    first one.

    Parameters
    ----------
    text : str
        ``namespace/name`` of a pod, which comes first; or a reference, such as ``deploy/web``.

    Raises
    ------
    InputError
        Several have this name, and it names no namespace.
    MoorageError
        It names a composite group.
    NotFoundError
        Nothing has this name, or no pod.
    """
    namespace, _, name = text.rpartition("/")
    if namespace and (pod := find_object(client, Pod, name, namespace)) is not None:
        return pod
    why = f"{text}: it has no pod"
    try:
        named = object_named(client, text, lacks="has no pods")
        kind, namespace, name = type(named), named.namespace, named.name
    except NoSuchObjectError as absent:  # of some workloads there are only pods
        named, why = None, absent.message
        try:
            kind, namespace, name = parse_reference(text)
        except InputError:
            raise NotFoundError(why) from None
    if isinstance(named, Pod):
        return named
    if isinstance(named, CompositePodGroup):
        raise MoorageError(f"{text}: {groups_instead(client, namespace, name)}")
    if pods := _pods_of(client, Workload(namespace, kind.__name__, name)):
        return min(pods, key=lambda pod: pod.spec.node_name != "")
    raise NotFoundError(why)


def groups_instead(client: ObjectClient, namespace: str, name: str) -> str:
    """Return what to explain in place of a composite group: the pod groups at the leaves of its tree.

    Parameters
    ----------
    namespace : str
        "" for all namespaces.
    """
    composites: list[CompositePodGroup] = client.list(CompositePodGroup, namespace)[0]
    level = {composite.unit for composite in composites if composite.name == name}
    inside = set(level)
    while level:
        level = {composite.unit for composite in composites if composite.parent in level} - inside
        inside |= level
    groups: list[PodGroup] = client.list(PodGroup, namespace)[0]
    its = [f"podgroup/{group.key}" for group in groups if group.parent in inside]
    instead = f"explain one of its groups: {examples(its, _GROUPS)}" if its else "no PodGroup belongs to it"
    return f"a CompositePodGroup has no pods of its own; {instead}"


def _pods_of(client: ObjectClient, workload: Workload) -> list[Pod]:
    """Return the active pods that a workload controls, itself or through another one, or those of a group."""
    if workload.kind == PodGroup.__name__:
        of_group = client.list(Pod, workload.namespace)[0]
        return [pod for pod in of_group if group_of(pod) == (workload.namespace, workload.name)]
    workloads = Workloads(obj for kind in OWNED for obj in client.list(kind, workload.namespace)[0])
    listed: list[Pod] = client.list(Pod, workload.namespace)[0]
    return [pod for pod in filter(is_active, listed) if workload in (workloads.of(pod), controller_of(pod))]


def explain(
    engine: Engine,
    pod: Pod,
    skipped: str,
    placed: Container[str] = (),
    ended: Sequence[Pod] = (),
    played: PlayedChanges | None = None,
) -> Explanation:
    """Explain a pod by an engine of its profile; see `Questions.explain`.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pod.
    skipped : str
        Why the scheduler ignores the pod; "" where it does not.
    placed : container of str, optional
        The pods that a run has placed before it, as ``namespace/name``.
    ended : sequence of Pod, optional
        The pods that were terminating before that run.
    played : PlayedChanges, optional
        Makes changes by the verbs of a user, where they can be undone.
    """
    fork = _fork_engine(engine)
    waiting, bound_to = _make_pending(fork.cache, pod)
    devices = PodClaims.of(fork, waiting)
    if devices is None:
        return _explain(Probe(fork, waiting, played=played), bound_to, skipped, placed, ended)
    group = None
    with suppress(ClaimError):
        group = devices.state.consumers.group_of(waiting)
    waiting, generated = generated_claims(cast(ObjectClient, fork.handle.client), waiting, group)
    if (
        generated
        and skipped.startswith(f"{DynamicResources.name}: ")
        and find_object(fork.handle.client, Pod, pod.name, pod.namespace) is None
    ):
        skipped = ""  # its claims would be made with it
    claims = [*generated, *released_claims(devices)] if bound_to else generated
    with devices.state.assuming(claims):
        return _explain(Probe(fork, waiting, played=played), bound_to, skipped, placed, ended)


def _fork_engine(engine: Engine) -> Engine:
    """Return an equal engine over a fork of its cluster, in which probes may change pods and nodes."""
    cache = SchedulerCache()
    if engine.handle.groups_pods:
        engine.handle.shared(PodGroups)  # made first, so that the fork shares it
    with engine.cache.lock:
        cache.state = engine.cache.state.fork()
    handle = engine.handle.over(cache)
    plugins = [
        plugin.another() if isinstance(plugin, ClaimPlugin) else plugin for plugin in engine.profile.plugins
    ]
    profile = replace(engine.profile, plugins=plugins)  # their handle becomes that of the fork
    return Engine(profile, handle, engine.decider.tie_break, engine.decider.percentage, 0)


def _make_pending(cache: SchedulerCache, pod: Pod) -> tuple[Pod, str]:
    """Remove a pod from the cache; return it as pending, and the node that it was on ("" for none)."""
    if not pod.metadata.uid or not cache.state.has_pod(pod):
        return pod, ""
    cached = cache.get_pod(pod)
    cache.discard_pod(cached)
    spec = structs.replace(cached.spec, node_name="")
    status = PodStatus(resource_claim_statuses=cached.status.resource_claim_statuses)
    return structs.replace(cached, spec=spec, status=status), cached.spec.node_name


def _explain(
    probe: Probe, bound_to: str, skipped: str, placed: Container[str], ended: Sequence[Pod]
) -> Explanation:
    """Explain a pending pod by the engine of a probe, whose cluster may be changed."""
    engine, pod = probe.engine, probe.pod
    view = engine.cache.state.view
    view.refresh()
    rows = view.rows()
    examination = examine_nodes(engine, pod, view.node_names())
    state, ran = probe.begin(pod)
    filters = _filters(engine, state, ran, rows)
    extenders = ask_extenders(probe, examination.feasible)
    fits_filters = bool(examination.feasible)
    filters += verdicts_of(extenders, examination.order)
    examination = after_extenders(probe, (state, ran), examination, extenders)
    search = EvidenceSearch(probe, state, filters, rows)
    explanation = Explanation(
        pod=pod,
        bound_to=bound_to,
        skipped=skipped,
        weights=engine.profile.weights | weights_of(extenders),
        examination=examination,
        filters=filters,
        groups=group_nodes(examination.order, filters, search.find),
        find_evidence=search.find,
        claims=probe.claims,
        extenders=extenders,
        percentage=engine.decider.percentage,
        enough=num_feasible_nodes_to_find(engine.decider.percentage, len(rows)),
    )
    if fits_filters or examination.error:
        notes = [
            *_of_ended(probe, ended),
            *_of_other_os(probe, examination.feasible),
            *_of_images(probe, examination),
        ]
        return replace(explanation, notes=notes)
    notes, rollout = _of_rollout(probe)
    notes += _of_run(probe, placed)
    is_alone = not engine.handle.groups_pods or group_of(pod) is None  # a pod of a group evicts no other
    preemption = None
    if is_alone and preemption_plugins(engine.profile):
        preemption = examine_preemption(engine, pod, everywhere=False)
    changes, waiting = _single_changes(probe, preemption), len(probe.waiting)
    conflicts, blocked = find_conflicts(probe) if not (rollout or changes) else ([], "")
    pairs = find_pairs(probe, conflicts) if conflicts else []
    changes += workload_changes(probe, len(rollout) + len(changes))
    explanation = replace(
        explanation,
        changes=[*rollout, *sorted(changes, key=partial(cost, waiting=waiting))],
        pairs=pairs,
        conflicts=conflicts,
        blocked=blocked,
        notes=notes,
        kinds=frozenset(probe.kinds),
        waiting=waiting,
        wait_more=len(probe.alike) > waiting,
    )
    return explanation if preemption is None else _with_preemption(explanation, probe, preemption)


def _single_changes(probe: Probe, preemption: PreemptionExamination | None) -> list[HelpfulChange]:
    """Return the single changes that place the pod; where only new nodes do, also those after which it evicts
    others."""
    engine, pod, changes = probe.engine, probe.pod, find_changes(probe)
    may_evict = preemption is not None and preemption.choice is None and pod.spec.preemption_policy != "Never"
    has_lower = any(each.priority < priority_of(pod) for each in engine.cache.state.classes.shapes)
    if may_evict and has_lower and all(change.kind == Kind.NODE for change in changes):
        others = find_changes(Probe(engine, pod, probe.kinds, evicts=True, played=probe.played))
        changes += [change for change in others if not changes or change.kind != Kind.NODE]
    return carried_out(probe, changes)


def _with_preemption(
    explanation: Explanation, probe: Probe, preemption: PreemptionExamination
) -> Explanation:
    """Return the explanation of a pod that fits nowhere with whom it may evict, now or with a higher
    priority."""
    engine, pod = probe.engine, probe.pod
    candidates = preemption.dry_run.candidates
    budgets = {candidate.name: budgets_of(engine, candidate, priority_of(pod)) for candidate in candidates}
    raised, notes = None, explanation.notes
    if preemption.choice is None:
        notes = [*notes, *_of_held_devices(explanation)]
        if preemption.dry_run.potential:
            raised = find_raised_priority(probe, priority_classes(cast(ObjectClient, engine.handle.client)))
    violated = {name: some for name, some in budgets.items() if some}
    explanation = replace(explanation, preemption=preemption, raised_priority=raised, notes=notes)
    return replace(explanation, violated_budgets=violated)


# ---- notes -------------------------------------------------------------------------------------------------


def _of_rollout(probe: Probe) -> tuple[list[Note], list[HelpfulChange]]:
    """Return what is to say of a rollout that its own old pods block, and what would help."""
    old = find_old_pods(probe)
    blocking = {} if old is None else blocking_pods(probe, old)
    if old is None or not blocking:
        return [], []
    named = examples(list(blocking), _OLD_PODS)
    ends = named if len(blocking) == 1 else f"one of {len(blocking)} pods ({named})"
    text = (
        f"its rollout waits for its own old pods: it fits once {ends} ends, but {old.workload} keeps those "
        f"of its old revision until the new pod is available (maxSurge {old.surge})"
    )
    return [Note("own-old-pods", text, tuple(blocking))], list(rollout_changes(probe, old, blocking))


def _of_run(probe: Probe, placed: Container[str]) -> Iterator[Note]:
    """Yield which workloads have the room that the pod would get without their pods, which a run has placed
    before it."""
    client, state = cast(ObjectClient, probe.engine.handle.client), probe.engine.cache.state
    pods = [state.get_pod(pod) for pod in client.list(Pod)[0] if pod.key in placed and state.has_pod(pod)]
    workloads = Workloads(obj for kind in OWNED for obj in (client.list(kind)[0] if pods else ()))
    by_workload = defaultdict[Workload, list[Pod]](list)
    for pod in pods:
        by_workload[workloads.of(pod)].append(pod)
    by_workload.pop(workloads.of(probe.pod), None)
    in_the_way = dict[str, list[Pod]]()
    for workload in sorted(by_workload, key=lambda each: (-len(by_workload[each]), each))[:_WORKLOADS]:
        with with_others(probe, by_workload[workload], []):
            if probe.count_feasible(probe.pod):
                number = number_of(len(by_workload[workload]), "pod", "pods")
                in_the_way[f"{workload.text} ({number})"] = by_workload[workload]
    if in_the_way:
        named = examples(list(in_the_way), _OLD_PODS)
        text = f"placed before it in this run, and it fits without: {named}"
        yield Note("placed-before", text, tuple(pod.key for pods in in_the_way.values() for pod in pods))


def _of_ended(probe: Probe, ended: Sequence[Pod]) -> Iterator[Note]:
    """Yield the terminating pods that are gone by now, and without which nodes fit."""
    state = probe.engine.cache.state
    gone = [pod for pod in ended if not state.has_pod(pod) and state.has_node(pod.spec.node_name)]
    if not gone:
        return
    fits = probe.feasible(probe.pod)
    with with_others(probe, [], gone):
        lost = [node.name for node in probe.nodes(np.setdiff1d(fits, probe.feasible(probe.pod)))]
    if lost:
        there = [pod.key for pod in gone if pod.spec.node_name in lost] or [pod.key for pod in gone]
        names = examples(there, _OLD_PODS)
        was, it = (
            ("is terminating and was", "it") if len(there) == 1 else ("are terminating and were", "them")
        )
        text = f"{names} {was} taken away; the pod fits on {examples(lost, _OLD_PODS)} only without {it}"
        yield Note("taken-away", text, tuple(there), tuple(lost))


def _of_held_devices(explanation: Explanation) -> Iterator[Note]:
    """Yield that preemption does not free the devices that claims of other pods hold."""
    steps = (step for claim in explanation.claims for survey in claim.requests for step in survey.steps)
    holders = (holder for step in steps for holder in step.holders)
    pods = dict.fromkeys(f"{each.claim.partition('/')[0]}/{name}" for each in holders for name in each.users)
    if pods:
        text = "preemption does not free devices, as claims of other pods would keep them"
        yield Note("held-devices", text, tuple(pods))


def _of_other_os(probe: Probe, feasible: Iterable[str]) -> Iterator[Note]:
    """Yield the feasible nodes whose kubelet would refuse the pod, as it is for another operating system."""
    system = probe.pod.spec.os
    if system is None:
        return
    nodes = [
        node.name
        for node in probe.nodes_named(feasible)
        if node.metadata.labels.get(OS, system.name) != system.name
    ]
    if nodes:
        where = number_of(len(nodes), "node that fits has", "nodes that fit have")
        text = (
            f"the pod is for {system.name}, and {where} another {OS} ({examples(nodes, _OLD_PODS)}): the "
            "scheduler does not look at spec.os, and the kubelet there refuses the pod; select "
            f"{OS}={system.name}"
        )
        yield Note("other-os", text, nodes=tuple(nodes))


def _of_images(probe: Probe, examination: Examination) -> Iterator[Note]:
    """Yield why the images of the pod that nodes have make no difference."""
    scores = examination.normalized.get("ImageLocality")
    if scores is None or scores.any():
        return
    nodes, fits = probe.nodes(probe.rows()), frozenset(examination.feasible)
    listed = [(node.name, each) for node in nodes for each in node.status.images]
    containers = *probe.pod.spec.init_containers, *probe.pod.spec.containers
    for name in dict.fromkeys(normalized_image_name(each.image) for each in containers if each.image):
        sizes = {node: each.size_bytes for node, each in listed if name in each.names}
        ending = f"/{name}"
        others = (other for _, each in listed for other in each.names if other.endswith(ending))
        if there := [node for node in sizes if node in fits]:
            size, share = sizes[there[0]], len(sizes) / len(nodes)
            whole, counted = (readable("memory", int(each)) for each in (size, size * share))
            where = f"on {len(sizes)} of {len(nodes)} nodes"
            text = f"{whole} of image {name} {where} count as {counted}, and scores begin above 23Mi"
            yield Note("image-locality", f"ImageLocality is 0: {text}", nodes=tuple(there))
        elif other := next(others, ""):
            text = f"nodes have {other}; the scheduler compares names, and the pod asks for {name}"
            yield Note("image-locality", f"ImageLocality is 0: {text}")


# ---- verdicts ----------------------------------------------------------------------------------------------


def _filters(
    engine: Engine, state: CycleState, ran: PreFilterRun, rows: npt.NDArray[np.int32]
) -> list[FilterVerdicts]:
    """Return the verdicts of all filters; of PreFilter alone for a pod that it rejects."""
    if ran.rejection is not None:
        status = replace(ran.rejection, plugin=ran.rejection.plugin or " ".join(ran.plugins))
        return [FilterVerdicts(PRE_FILTER_COLUMN, np.ones(len(rows), dtype=np.intp), [None, status])]
    searched = engine.search.searched_rows(*state.target)
    positions = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.intp)
    positions[rows] = np.arange(len(rows))
    verdicts, profile = [], engine.framework.profile_of(state.target)
    for plugin in profile.at(FilterPlugin):
        if isinstance(plugin, NativePlugin):
            _, bits = engine.search.filter_verdicts(plugin.name, *state.target)
            values, inverse = np.unique(np.append(bits, np.uint64(0)), return_inverse=True)
            numbers = inverse[:-1].astype(np.intp)
            statuses = [plugin.rejection(int(value), state.shape) if value else None for value in values]
        elif not profile.calls(plugin) or plugin.name in ran.skipped:
            continue
        else:
            numbers, statuses = _outside(engine, plugin, searched)
        codes = np.zeros(len(rows), dtype=np.intp)
        codes[positions[searched]] = numbers
        verdicts.append(FilterVerdicts(plugin.name, codes, statuses))
    if ran.absent is not None:
        not_searched = np.ones(len(rows), dtype=np.intp)
        not_searched[positions[searched]] = 0
        absent = replace(ran.absent, plugin=" ".join(ran.plugins))
        verdicts.insert(0, FilterVerdicts(PRE_FILTER_COLUMN, not_searched, [None, absent]))
    return verdicts


Numbered = tuple[npt.NDArray[np.intp], list[Status | None]]
"""Index of the status of each searched node, and the statuses; the first is None, for nodes that pass."""


def _outside(engine: Engine, plugin: FilterPlugin, searched: npt.NDArray[np.int32]) -> Numbered:
    """Return the verdicts of a plugin in Python on the searched nodes. Errors on nodes that a search would
    not evaluate are ignored."""
    with suppress(StatusError):
        engine.bridge.filter(plugin, searched)
    numbers: dict[Status | None, int] = {None: 0}
    codes = [
        numbers.setdefault(engine.bridge.status(plugin.name, row), len(numbers)) for row in searched.tolist()
    ]
    return np.array(codes, dtype=np.intp), list(numbers)

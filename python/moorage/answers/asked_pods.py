"""The pods that a question is about: those that are pending, or of the caller, with their claims as
controllers make them, and the verdicts of the filters about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.cluster.examine import begin_cycle
from moorage.controllers.resource_claim_controller import ResourceClaimController
from moorage.engine.framework.extension_points import PreFilterRun
from moorage.engine.framework.interface import Code, FilterPlugin
from moorage.engine.framework.status import CycleState, Status
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.kube.model.meta import Object, ObjectMeta
from moorage.kube.model.pod import Pod, PodStatus
from moorage.kube.model.resource_claims import ResourceClaimTemplate
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import QUEUE
from moorage.kube.workloads.job_state import INDEX
from moorage.kube.workloads.ownership import FINISHED
from moorage.kube.workloads.stateful_pods import ephemeral_claims
from moorage.store import AlreadyExistsError, NotFoundError, ObjectClient, ObjectStore, find_object

INDEX_LABELS = {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", INDEX}
"""Labels by which controllers number pods that are alike otherwise."""


def begin_search(engine: Engine, pod: Pod) -> tuple[CycleState, PreFilterRun]:
    """Begin a cycle for a pod, up to its search for a node."""
    state, ran = begin_cycle(engine, pod)
    engine.begin_search(state, pod, ran)
    return state, ran


# ---- templates: what is left of a pod when it is asked for more of its kind --------------------------------


def without_number(pod: Pod) -> Pod:
    """Return a pod without the labels by which its controller numbers it."""
    if INDEX_LABELS.isdisjoint(pod.metadata.labels):
        return pod
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in INDEX_LABELS}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def as_template(pod: Pod) -> Pod:
    """Return a pod without what is its own: node, UID, status, and times.

    Parameters
    ----------
    pod : Pod
        A manifest, or a pod of a cluster.
    """
    meta = pod.metadata
    kept = ObjectMeta(
        name=meta.name,
        generate_name=meta.generate_name,
        namespace=meta.namespace or "default",
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=meta.owner_references,
    )
    return replace(pod, metadata=kept, spec=replace(pod.spec, node_name=""), status=PodStatus())


# ---- what Kueue would have to let go first -----------------------------------------------------------------


def is_queued(client: ObjectClient, pod: Pod) -> bool:
    """Whether Kueue decides about a pod that the cluster does not have."""
    return QUEUE in pod.metadata.labels and isinstance(client, ObjectStore) and client.has_kind("LocalQueue")


# ---- their claims for volumes and devices, as controllers make them ----------------------------------------


def asks_devices(scheduler: PodScheduler, pod: Pod) -> bool:
    """Whether a pod has claims for devices, or extended resources that device classes provide."""
    return bool(pod.spec.resource_claims) or scheduler.context.engine_of(pod).profile.asks_devices(pod)


def has_ephemeral(pod: Pod) -> bool:
    """Whether a pod has ephemeral volumes, each of which has a claim of its own."""
    return any(volume.ephemeral is not None for volume in pod.spec.volumes)


def store_with_claims(scheduler: PodScheduler, pods: Sequence[Pod]) -> list[Pod]:
    """Make the claims of the ephemeral volumes and devices of pods as controllers do.

    Pods with such claims are stored, since the claims are written when the pods are bound.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction, which takes pods and claims back.
    pods : sequence of Pod
        Those that are in the store already stay as they are.

    Returns
    -------
    list of Pod
        In the same order, as they are in the store; the others unchanged.
    """
    client, out = scheduler.client, list(pods)
    asking = [at for at, pod in enumerate(out) if has_ephemeral(pod) or asks_devices(scheduler, pod)]
    if not asking:
        return out
    for at in asking:
        with suppress(AlreadyExistsError):
            client.create(out[at])
    pods_made = [client.get(Pod, out[at].name, out[at].namespace) for at in asking]
    _make_ephemeral_claims(scheduler, pods_made)
    for_groups = scheduler.handle.feature_gates["DRAWorkloadResourceClaims"]
    ResourceClaimController(client, for_groups).make_claims(pods_made)
    scheduler.sync()
    if any(has_ephemeral(pod) for pod in pods_made):
        scheduler.volumes.settle()
    for at in asking:
        stored = client.get(Pod, out[at].name, out[at].namespace)
        out[at] = replace(stored, spec=out[at].spec)
    return out


def _make_ephemeral_claims(scheduler: PodScheduler, pods: Sequence[Pod]) -> None:
    """Make the claims of ephemeral volumes, in place of those of earlier pods of the same names.

    Each gets a UID from the store: the volume of an earlier claim is not its own.
    """
    client = scheduler.client
    for generated in ephemeral_claims(pods):
        claim = replace(generated, metadata=replace(generated.metadata, uid=""))
        try:
            client.create(claim)
        except AlreadyExistsError:
            old = client.get(PersistentVolumeClaim, claim.name, claim.namespace).metadata.controller()
            new = claim.metadata.controller()
            if old and new and (old.kind, old.name) == (new.kind, new.name) and old.uid != new.uid:
                _end(client, claim)
                client.create(claim)


def _end(client: ObjectClient, obj: Object) -> None:
    """Remove an object at once, whatever keeps it: finalizers or a grace period."""
    with suppress(NotFoundError):
        current = client.get(type(obj), obj.name, obj.namespace)
        if current.metadata.finalizers:
            meta = replace(current.metadata, finalizers=(), resource_version="")
            client.update(replace(current, metadata=meta))
        client.delete(type(obj), obj.name, obj.namespace, grace_period_seconds=0)


def reason_not_scheduled(scheduler: PodScheduler, pod: Pod) -> str:
    """Return why the scheduler does not schedule pods like one now, once their claims are made.

    Returns
    -------
    str
        "" where it does.
    """
    generated = [
        claim for claim in pod.spec.resource_claims if claim.resource_claim_template_name is not None
    ]
    for use in generated:
        name = str(use.resource_claim_template_name)
        if find_object(scheduler.client, ResourceClaimTemplate, name, pod.namespace) is None:
            return f'ResourceClaimTemplate "{pod.namespace}/{name}" not found'
    named = tuple([claim for claim in pod.spec.resource_claims if claim not in generated])
    if not generated:
        return scheduler.context.not_ours(pod)
    return scheduler.context.not_ours(replace(pod, spec=replace(pod.spec, resource_claims=named)))


# ---- pods of the cluster that are pending ------------------------------------------------------------------


def pending_pods(scheduler: PodScheduler) -> tuple[list[Pod], dict[str, int]]:
    """Return the pods without a node that the scheduler schedules once their claims are made, in the order of
    a run.

    Returns
    -------
    pods : list of Pod
        Higher priority first, then older.
    skipped : dict of str to int
        Number of the other pods without a node, by reason.
    """
    pods, skipped = [], Counter[str]()
    for pod in scheduler.client.list(Pod)[0]:
        is_unbound = not pod.spec.node_name and pod.status.phase not in FINISHED
        if is_unbound and not scheduler.cache.state.has_pod(pod):
            why = reason_not_scheduled(scheduler, pod)
            if why:
                skipped[why] += 1
            else:
                pods.append(pod)
    pods.sort(key=queue_order)
    return pods, dict(skipped)


def queue_order(pod: Pod) -> tuple[int, str, int]:
    """Return the key of the order of PrioritySort; equal pods are queued in the order of their creation."""
    meta = pod.metadata
    return -(pod.spec.priority or 0), meta.creation_timestamp or "", int(meta.resource_version or 0)


def without_evictions(pods: Sequence[Pod]) -> list[Pod]:
    """Return pods for which no other pod is evicted."""
    return [replace(pod, spec=replace(pod.spec, preemption_policy="Never")) for pod in pods]


# ---- the verdict of the filters about one pod, by node -----------------------------------------------------

FITS, LEFT_OUT = 0, 1
"""Kinds besides the verdicts of filters, which name their filter in high bits: the pod fits; PreFilter leaves
the node out of the search, or rejects the pod."""
FIT = "NodeResourcesFit"
FIXED = frozenset(
    {"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures"}
)
"""Filters whose rejection of a node lasts, wherever other pods are."""
LASTING = FIXED | {FIT, "NodePorts"}
"""Filters whose rejection of a node lasts while pods are only added."""
PASSES = Status(Code.SUCCESS, ())


class NodeVerdicts(Struct, frozen=True):
    """The verdict about a pod on each node.

    Attributes
    ----------
    rows : (n,) int32 array
        Rows of all nodes of the snapshot.
    kinds : (n,) uint64 array
        0 where the pod fits; otherwise a key of `statuses`.
    statuses : dict of int to Status
        The status of the first filter that rejects the pod, or of PreFilter, by kind.
    filters : frozenset of str
        The filters that PreFilter does not skip for the pod; none where PreFilter rejects it.
    """

    rows: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint64]
    statuses: dict[int, Status]
    filters: frozenset[str]


def node_verdicts(scheduler: PodScheduler, pod: Pod) -> NodeVerdicts:
    """Return the verdicts of a cycle that begins now, without scores. The caller holds the lock of the cache.

    Parameters
    ----------
    pod : Pod
        In the cache or not; without a name, if need be.
    """
    context = scheduler.context
    if not pod.name:
        pod = replace(pod, metadata=replace(pod.metadata, name=pod.metadata.generate_name))
    engine, rows = context.engine_for(pod), context.view_rows()
    state, ran = begin_cycle(engine, pod)
    profile = engine.framework.profile_of(state.target)
    if ran.error or ran.rejection is not None:
        status = ran.rejection or Status(Code.ERROR, (ran.error,))
        kinds = np.full(len(rows), LEFT_OUT, dtype=np.uint64)
        return NodeVerdicts(rows, kinds, {LEFT_OUT: status}, frozenset())
    engine.begin_search(state, pod, ran)
    searched, verdicts, numbered = engine.verdicts(state.target)
    absent = Status(ran.absent.code, ran.absent.reasons, " ".join(ran.plugins)) if ran.absent else PASSES
    statuses = {FITS: PASSES, LEFT_OUT: absent}
    for verdict in np.unique(verdicts[verdicts != FITS]).tolist():
        statuses[verdict] = profile.rejection(verdict, state.shape, numbered)
    others = np.setdiff1d(rows, searched)
    kinds = np.concatenate([verdicts, np.full(len(others), LEFT_OUT, dtype=np.uint64)])
    filters = frozenset(profile.filter_names).difference(ran.skipped)
    return NodeVerdicts(np.concatenate([searched, others]), kinds, statuses, filters)


# ---- what is free, and what a pod takes of it --------------------------------------------------------------

Counts = npt.NDArray[np.int64]


def free_amounts(scheduler: PodScheduler, resource: str) -> Counts:
    """Return what each row of the node table has free of a resource; never less than 0."""
    allocatable, requested = (scheduler.table.column(kind, resource) for kind in ("allocatable", "requested"))
    return np.asarray(np.maximum(allocatable - requested, 0), dtype=np.int64)


def number_that_fits(free: Mapping[str, Counts], needs: Mapping[str, int], most: Counts) -> Counts:
    """Return how many equal pods fit on each node by their resources, and at most so many.

    The rule is that of NodeResourcesFit, as the kernels have it (`mr_fit_filter`). They say whether one pod
    fits, and would have to be asked once for each; a division says how many do.
    """
    rooms = [most, *(free[name] // need for name, need in needs.items())]
    return np.asarray(np.min(rooms, axis=0), dtype=np.int64)


def checked_needs(scheduler: PodScheduler, pod: Pod) -> dict[str, int]:
    """Return the requests that NodeResourcesFit checks for a pod, with 1 for ``pods``.

    Returns
    -------
    dict of str to int
        Positive amounts, without those of devices; none if the profile of the pod does not have the filter.
    """
    classes, engine = scheduler.cache.state.classes, scheduler.context.engine_of(pod)
    shape = classes.shape_of(classes.intern(pod))
    filters: Sequence[Any] = engine.profile.at(FilterPlugin)
    fit = next((plugin for plugin in filters if plugin.name == FIT), None)
    if fit is None:
        return {}
    names, groups = (fit.args.get(key) or () for key in ("ignoredResources", "ignoredResourceGroups"))
    ignored = engine.profile.delegated_resources().union(names)
    checked = {
        name: need
        for name, need in shape.needs.items()
        if need > 0 and name not in ignored and name.partition("/")[0] not in groups
    }
    return checked | {"pods": 1}

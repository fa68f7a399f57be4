"""Builds a cluster from objects.

Objects are validated and get defaults, later ones replace earlier ones, single new pods are admitted, and
disruption budgets get a status. The pods of workloads are made by controllers, in a scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain

from moorage.errors import InputError, examples, number_of, shorten
from moorage.lazy import NamedTuple
from moorage.notes import RoutineNote, as_sentence

from .. import read as room
from .. import workloads as of_workloads
from ..admission.validate_object import validate
from ..apiserver.decode import versions_gone
from ..apiserver.overlay import ListedTwiceError, Overlay, key_of
from ..apiserver.refusals import Origin, Refusals, located_at
from ..model.cluster import Cluster, LeftOut, OutsidePolicy, RefusedPod, Suspended
from ..model.meta import Object, ObjectMeta
from ..model.node import Namespace, Node
from ..model.pod import PREEMPTS, Pod
from ..model.resource_claims import ResourceClaim
from ..model.resource_slices import ResourceSlice, find_pool_problems
from ..model.storage import CSIDriver, CSINode, PersistentVolume
from ..model.workload import (
    CronJob,
    CustomObject,
    Job,
    PriorityClass,
    is_of_kueue,
)
from ..releases import DEFAULT_GATES, FeatureGates
from ..workloads.ownership import FINISHED, Names, PodIndex, has_made_up_uid
from .object_defaults import default_namespace, default_object, other_priority, priority_classes, with_class


def is_single(pod: Pod) -> bool:
    """Whether a pod is to be created by itself."""
    return not pod.spec.node_name and pod.metadata.controller() is None


# ---- cluster builder ---------------------------------------------------------------------------------------

_EXAMPLES = 3
_MOST_KINDS = 15
CONFIGURATION = "KubeSchedulerConfiguration.kubescheduler.config.k8s.io"
NO_TEXTS: Mapping[int, bytes] = {}


def build_cluster(
    objects: Iterable[Object],
    *,
    origins: Sequence[Origin] | None = None,
    texts: Mapping[int, bytes] = NO_TEXTS,
    skipped: Mapping[str, int] | None = None,
    refusals: Refusals | None = None,
    like_siblings: bool = True,
) -> Cluster:
    """Make a cluster of objects: validate them and set defaults.

    Pods of manifests without a node are admitted as by the API server (see `Admission`). Refused ones are in
    `Cluster.refused`. A PodDisruptionBudget without a status, as in manifests, gets the status that it has in
    this cluster.

    Parameters
    ----------
    objects : iterable of Object
        Objects in any order, decoded or made in Python.
    origins : sequence of Origin, optional
        Origin of each object, for errors.
    texts : mapping of int to bytes
        By index, manifests as JSON texts, which are applied to earlier objects; see `Overlay`.
    skipped : mapping, optional
        Number of objects that the reader left out, by kind.
    refusals : Refusals, optional
        Which objects change the cluster, and what an API server refuses of them.
    like_siblings : bool
        Whether new pods of a workload differ from their template as its running pods do (see `Siblings`).

    Raises
    ------
    RefusedObjectsError
        An API server would refuse objects of a change.
    InputError
        An object is invalid, or another one has its name and differs (see `Overlay`), or an API server would
        refuse it; the first error is reported.
    """
    refusals = refusals or Refusals()
    completed = complete(objects, origins, texts=texts, refusals=refusals)
    cluster = Cluster(skipped=dict(sorted((skipped or {}).items())), left_out=completed.left_out)
    cluster.suspended, cluster.outside_policies = completed.suspended, completed.policies
    for obj in completed.objects:
        _place(cluster, obj)
    is_plain = not (cluster.others or cluster.namespaces or completed.before) and all(
        map(_is_plain, chain(cluster.pods, cluster.finished))
    )
    used = [*cluster.pods, *cluster.finished, *cluster.others]
    cluster.known_namespaces = known_namespaces(cluster.namespaces, used)
    cluster.namespaces += implied_namespaces(cluster.namespaces, used, completed)
    cluster.warnings += [*completed.warnings, *idle_warnings(cluster.others, cluster.suspended)]
    cluster.warnings += [*skipped_warnings(cluster.skipped, completed.warned)]
    cluster.warnings += state_warnings(cluster, completed)
    if is_plain:
        cluster.pods_by_owner = PodIndex(cluster.pods + cluster.finished)
        return cluster
    return room.settle_cluster.settled(cluster, completed, refusals, like_siblings)


def _is_plain(pod: Pod) -> bool:
    """Whether nothing follows from a pod, nor can an API server change or refuse it, where there is no object
    beside pods and nodes: it has no owner, and names no class and no policy."""
    spec = pod.spec
    return not (
        pod.metadata.owner_references
        or spec.priority_class_name
        or spec.priority not in (None, 0)
        or spec.runtime_class_name is not None
        or spec.preemption_policy not in (None, PREEMPTS)
        or spec.resources is not None
        or any(volume.ephemeral is not None for volume in spec.volumes)
    )


class KnownObjects(NamedTuple):
    """What a cluster has beside the objects that are completed.

    Attributes
    ----------
    classes : iterable of PriorityClass
    namespaces : collection of str or None
        See `known_namespaces`.
    named : iterable of Object
        Those whose names new objects cannot get.
    queues : iterable of Object
        Queues of Kueue.
    """

    classes: Iterable[PriorityClass] = ()
    namespaces: Collection[str] | None = None
    named: Iterable[Object] = ()
    queues: Iterable[Object] = ()


NOTHING_AROUND = KnownObjects()


class Completed(NamedTuple):
    """Valid objects with defaults, what they were completed with, and workloads that are not simulated."""

    objects: list[Object]
    names: Names
    classes: Mapping[str, PriorityClass]
    warnings: list[str]
    before: Mapping[str, Object]  # as they were when the pods were read
    places: Sequence[Origin]
    left_out: list[LeftOut]
    warned: Counter[str]  # objects of kinds that are not read, by kind, that a warning names
    suspended: list[Suspended]
    policies: list[OutsidePolicy]
    texts: Mapping[str, bytes]  # by `key_of`, the manifests of the change


def complete(
    objects: Iterable[Object],
    origins: Sequence[Origin] | None = None,
    around: KnownObjects = NOTHING_AROUND,
    *,
    texts: Mapping[int, bytes] = NO_TEXTS,
    refusals: Refusals | None = None,
) -> Completed:
    """Validate objects, put later ones over earlier ones, and set defaults; new pods are admitted later.

    Parameters
    ----------
    origins : sequence of Origin, optional
        Origin of each object, for errors.
    around : KnownObjects, optional
        Of objects that change a cluster.
    texts : mapping of int to bytes
        See `build_cluster`.
    refusals : Refusals, optional
        See `build_cluster`.

    Raises
    ------
    RefusedObjectsError, InputError
        As for `build_cluster`.
    """
    listed = list(objects)
    places = origins if origins is not None else [Origin()] * len(listed)
    names, classes = _taken(around.named), priority_classes([*around.classes, *_rare(listed)])
    refusals, manifests = refusals or Refusals(), {key_of(listed[at]): text for at, text in texts.items()}

    @cache
    def gates() -> FeatureGates:
        return refusals.gates(_told(listed, places, refusals))

    overlay = Overlay(listed, places, texts, partial(with_class, classes=classes), gates)
    for at, obj in enumerate(listed):
        try:
            name = obj.metadata.name
            if name and not names.take(obj.full_kind, default_namespace(obj), name):
                overlay.put(at)
            else:
                is_change = at in texts and refusals.is_change(places[at])
                check_object(obj, texts[at] if is_change else None, gates)
            refusals.check(obj)
        except ListedTwiceError as error:
            raise located_at(error, obj, places[at]) from None
        except InputError as error:
            refusals.add(error, obj, places[at])
    refusals.raise_any()
    listed, places = overlay.result()
    _check_changes(listed, places, refusals, around)
    expanded, policies = None, list[OutsidePolicy]()
    if any(isinstance(obj, CustomObject) or is_of_kueue(obj) for obj in _rare(listed)):
        policies, origin_of = [*_outside_policies(listed, places)], places.__getitem__
        expanded = of_workloads.expand_kinds.expand_kinds(
            listed,
            default_namespace,
            lambda at: origin_of(at).source,
            lambda obj: key_of(obj) in overlay.applied,
            around.queues,
        )
        listed, places = expanded.objects, [places[at] for at in expanded.sources]
    classes = priority_classes([*around.classes, *_rare(listed)])
    shown, class_notes = list[PriorityClass](), list[str]()
    if any(isinstance(obj, Pod) and obj.spec.priority_class_name for obj in listed):
        shown, class_notes = room.recognize_templates.shown_classes(listed, classes)
    if shown:
        listed, places = [*listed, *shown], [*places, *[Origin()] * len(shown)]
        classes = {**classes, **priority_classes(shown)}
    before = {
        name: default_object(obj, classes, Names(), admitted=True) for name, obj in overlay.before.items()
    }
    uids, new = set[str](), manifests.keys() - overlay.applied
    for at, obj in enumerate(listed):
        try:
            if new and refusals.is_change(places[at]) and key_of(obj) in new:
                check_priority(obj, classes)
            completed = default_object(obj, classes, names, admitted=True)
            if completed.metadata.uid in uids:
                raise InputError("another object has the same UID", path="metadata.uid")
        except InputError as error:
            refusals.add(error, obj, places[at])
            continue
        uids.add(completed.metadata.uid)
        listed[at] = completed  # an object without defaults that nobody else holds is freed
    refusals.raise_any()
    notes = [*overlay.warnings(), *([] if expanded is None else expanded.notes), *class_notes]
    return Completed(
        listed,
        names,
        classes,
        notes,
        before,
        places,
        [] if expanded is None else expanded.left_out,
        Counter[str]() if expanded is None else expanded.warned,
        [] if expanded is None else expanded.suspended,
        policies,
        manifests,
    )


def _rare(objects: Iterable[Object]) -> list[Object]:
    """Return the objects that are neither pods nor nodes, of which a cluster has the most."""
    return [obj for obj in objects if type(obj) is not Pod and type(obj) is not Node]


def _taken(objects: Iterable[Object]) -> Names:
    """Return names of which those of objects are taken."""
    names = Names()
    for obj in objects:
        names.take(obj.full_kind, default_namespace(obj), obj.name)
    return names


def _told(objects: Sequence[Object], places: Sequence[Origin], refusals: Refusals) -> Cluster:
    """Return the nodes and pods of a cluster, which tell its release, without those of a change."""
    own = [obj for obj, place in zip(objects, places, strict=True) if not refusals.is_change(place)]
    return Cluster(
        [obj for obj in own if isinstance(obj, Node)], [obj for obj in own if isinstance(obj, Pod)]
    )


def _outside_policies(objects: Sequence[Object], places: Sequence[Origin]) -> Iterator[OutsidePolicy]:
    for obj, place in zip(objects, places, strict=True):
        if (
            isinstance(obj, CustomObject)
            and obj.api_version.partition("/")[0] in of_workloads.kind_table.POLICY_GROUPS
        ):
            yield OutsidePolicy(obj, place.source)


def check_namespaces(
    objects: Sequence[Object], places: Sequence[Origin], namespaces: Collection[str], refusals: Refusals
) -> None:
    """Check that the namespaces of manifests exist.

    Raises
    ------
    RefusedObjectsError, InputError
        As for `build_cluster`: a manifest is in another namespace.
    """
    for at, obj in enumerate(objects):
        if _is_manifest(obj) and (name := default_namespace(obj)) and name not in namespaces:
            refusals.add(InputError(f'namespaces "{name}" not found'), obj, places[at])
    refusals.raise_any()


ALWAYS_THERE = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""The namespaces that every server has."""


def known_namespaces(
    namespaces: Iterable[Namespace], objects: Iterable[Object] = ()
) -> frozenset[str] | None:
    """Return the namespaces of a cluster; None where its files say nothing of them.

    Parameters
    ----------
    namespaces : iterable of Namespace
        These are all if a server's ``default`` is among them, which cannot be deleted.
    objects : iterable of Object
        Otherwise those that these are in count as well.
    """
    listed = {namespace.name: namespace for namespace in namespaces}
    default = listed.get("default")
    if default is not None and not (_is_manifest(default) or has_made_up_uid(default)):
        return frozenset(listed)
    known = {*listed, *map(default_namespace, objects)} - {""}
    return frozenset(known | ALWAYS_THERE) if known else None


def _check_changes(
    objects: Sequence[Object], places: Sequence[Origin], refusals: Refusals, around: KnownObjects
) -> None:
    """Check that the namespaces of manifests exist."""
    listed = {"", *(obj.name for obj in _rare(objects) if isinstance(obj, Namespace))}
    known = around.namespaces
    if listed.issuperset(default_namespace(obj) for obj in objects if _is_manifest(obj)):
        return
    if refusals.has_cluster:
        spaces, own = list[Namespace](), dict[str, Object]()  # of the cluster; one object in each namespace
        for at, obj in enumerate(objects):
            name = default_namespace(obj)
            if (name not in own or isinstance(obj, Namespace)) and not refusals.is_change(places[at]):
                own.setdefault(name, obj)
                spaces += [obj] if isinstance(obj, Namespace) else []
        known = known_namespaces(spaces, own.values())
    if known is not None:
        check_namespaces(objects, places, {*known, *listed}, refusals)


def check_object(
    obj: Object, text: bytes | None, gates: Callable[[], FeatureGates] = lambda: DEFAULT_GATES
) -> None:
    """Check an object as it is read; a new one of a change by its whole text, as a server does."""
    if text is None or not _is_manifest(obj):
        validate(obj)
        return
    from ..admission.manifest_validation import check_new  # few objects are new

    check_new(obj, text, gates())


def check_priority(obj: Object, classes: Mapping[str, PriorityClass]) -> None:
    """Check that a new object, if it is a pod, names no other priority than that of its class."""
    is_new = isinstance(obj, Pod) and _is_manifest(obj)
    if isinstance(obj, Pod) and is_new and (refusal := other_priority(obj.spec, classes)) is not None:
        raise InputError(f'pods "{obj.name or obj.metadata.generate_name}" is forbidden: {refusal}')


def _is_manifest(obj: Object) -> bool:
    return not (obj.metadata.uid or obj.metadata.resource_version)


def _place(cluster: Cluster, obj: Object) -> None:
    if isinstance(obj, Pod):
        (cluster.finished if obj.status.phase in FINISHED else cluster.pods).append(obj)
    elif isinstance(obj, Node):
        cluster.nodes.append(obj)
    elif isinstance(obj, Namespace):
        cluster.namespaces.append(obj)
    else:
        cluster.others.append(obj)


def implied_namespaces(
    listed: Iterable[Namespace], objects: Iterable[Object], completed: Completed
) -> Iterator[Namespace]:
    """Yield the namespaces that contain objects but are not listed.

    Inter-pod affinity selects namespaces by labels, and each namespace has at least the label of its name.
    """
    objects = [*objects]
    known = {"", *(namespace.name for namespace in listed)}
    known |= {obj.name for obj in objects if isinstance(obj, Namespace)}
    for name in dict.fromkeys([obj.metadata.namespace for obj in objects]):
        if name not in known:
            namespace = Namespace(metadata=ObjectMeta(name=name))
            yield default_object(namespace, completed.classes, completed.names)


def refusal_warnings(refused: Sequence[RefusedPod]) -> list[str]:
    """Return a warning about refused pods, with the text about the first one, and what is not rolled out."""
    texts = [as_sentence(refusal.message) for refusal in refused if refusal.is_old_template]
    messages = [refusal.message for refusal in refused if not refusal.is_old_template]
    if messages:
        pods = number_of(len(messages), "new pod is", "new pods are")
        texts.append(f"{pods} refused by admission, such as: {shorten(messages[0])}.")
    return texts


def skipped_warnings(skipped: Mapping[str, int], warned: Mapping[str, int]) -> Iterator[str]:
    """Yield warnings about the kinds that are not read, but for objects that other warnings name."""
    left = {kind: count - warned.get(kind, 0) for kind, count in skipped.items()}
    if left.pop(CONFIGURATION, 0):
        yield "Left out: a KubeSchedulerConfiguration is read by --config, not by -f."
    for kind, instead in versions_gone().items():
        if gone := left.pop(kind, 0):
            yield f"Left out: {gone} {instead}."
    if not any(n > 0 for n in left.values()):
        return
    for why, is_known in (
        ("because scheduling does not read these kinds", True),
        (of_workloads.expand_kinds.NOT_KNOWN, False),
    ):
        texts = [
            f"{kind} ({n})"
            for kind, n in left.items()
            if n > 0 and of_workloads.kind_table.is_not_read(kind) == is_known
        ]
        if texts:
            number = f" ({len(texts)})" if len(texts) > _MOST_KINDS else ""
            short = number_of(len(texts), "kind", "kinds") + (" not read" if is_known else " not known")
            yield RoutineNote(f"Left out, {why}{number}: {examples(texts, _MOST_KINDS)}.", short)


def idle_warnings(
    objects: Sequence[Object], suspended: Collection[Suspended], in_queues: bool | None = None
) -> list[str]:
    """Return warnings about suspended workloads, and CronJobs without a run under way; none without any.

    Parameters
    ----------
    objects : sequence of Object
        With the Jobs and CronJobs.
    in_queues : bool, optional
        See `suspended_names`; by default whether the objects have queues.
    """
    if not (objects or suspended):
        return []
    kinds = of_workloads.expand_kinds
    timed = [f"CronJob {job.key}" for job in of_workloads.job_state.due(objects)]
    has_queues = kinds.has_queues(objects) if in_queues is None else in_queues
    names = kinds.suspended_names(objects, suspended, has_queues)
    whys = {kinds.SUSPENDED: names, of_workloads.kind_table.AT_TIMES: timed}
    return [kinds.not_counted(why, each) for why, each in whys.items() if each]


def state_warnings(cluster: Cluster, completed: Completed | None = None) -> list[str]:
    """Return warnings about what a cluster has, or lacks.

    Parameters
    ----------
    completed : Completed, optional
        What tells the files of objects.
    """
    warnings = list[str]()
    nodes = {node.name for node in cluster.nodes}
    stray = [pod for pod in cluster.pods if pod.spec.node_name and pod.spec.node_name not in nodes]
    if stray:
        shown = examples([f"{pod.key} on {shorten(pod.spec.node_name)}" for pod in stray], _EXAMPLES)
        verb = number_of(len(stray), "pod is", "pods are")
        warnings.append(f"{verb} bound to nodes that are not in the input: {shown}.")
    warnings += _pool_warnings(cluster, completed)
    return [*warnings, *_claim_warnings(cluster), *_driver_warnings(cluster)]


def _pool_warnings(cluster: Cluster, completed: Completed | None) -> list[str]:
    """Warnings about pools of devices that are invalid, so that none of their devices is allocated."""
    problems = find_pool_problems(obj for obj in cluster.others if isinstance(obj, ResourceSlice))
    sources = dict[str, str]()
    if problems and completed is not None:
        placed = zip(completed.objects, completed.places, strict=True)
        placed_slices = ((obj, at.source) for obj, at in placed if isinstance(obj, ResourceSlice))
        sources = {obj.name: f"{source}: " for obj, source in placed_slices if source}
    return [
        f"{sources.get(problem.slice, '')}{shorten(problem.text)}: "
        f"no device of pool {shorten('/'.join(problem.pool))} is allocated."
        for problem in problems
    ]


_WARNED = (Node, Job, CronJob, ResourceClaim, ResourceSlice, PersistentVolume, CSIDriver, CSINode)
"""The kinds on which the warnings about a cluster depend, beside pods on nodes."""


def warnings_after(before: Cluster, after: Cluster, completed: Completed, new: Iterable[Object]) -> list[str]:
    """Return the warnings of a cluster with changes: those that are still true, and new ones."""
    kept = before.warnings
    if not any(isinstance(obj, _WARNED) or (isinstance(obj, Pod) and obj.spec.node_name) for obj in new):
        return [*kept, *completed.warnings]
    past, now = (
        [*idle_warnings(cluster.others, cluster.suspended), *state_warnings(cluster, files)]
        for cluster, files in ((before, None), (after, completed))
    )
    gone = [text for text in past if not any(_is_same(text, other) for other in now)]
    kept = [text for text in kept if not any(_is_same(text, other) for other in gone)]
    fresh = (text for text in now if not any(_is_same(text, other) for other in kept))
    return [*kept, *completed.warnings, *fresh]


def _is_same(warning: str, other: str) -> bool:
    """Whether two warnings are one, of which one may name a file."""
    return warning.endswith(other) or other.endswith(warning)


_NO_CSI_NODE = (
    "no CSINode, so limits of attached volumes do not count, and nodes seem to lack what 1.37 asks for"
)


def _driver_warnings(cluster: Cluster) -> list[str]:
    """A warning about volumes of CSI drivers of which the input has no CSIDriver, or no CSINode at all."""
    named = [
        obj.spec.csi.driver for obj in cluster.others if isinstance(obj, PersistentVolume) and obj.spec.csi
    ]
    known = {obj.name for obj in cluster.others if isinstance(obj, CSIDriver)}
    lacking = sorted(set(named) - known)
    has_nodes = not cluster.nodes or any(isinstance(obj, CSINode) for obj in cluster.others)
    if not named or (not lacking and has_nodes):
        return []
    without = (
        f"no CSIDriver {examples(lacking, _EXAMPLES)}, so storage capacity does not count" if lacking else ""
    )
    nodes = "" if has_nodes else _NO_CSI_NODE
    what = ", and ".join(filter(None, (without, nodes)))
    return [f"The input has {what}; kubectl get -o yaml csidrivers,csinodes lists them."]


def _claim_warnings(cluster: Cluster) -> list[str]:
    """Warnings about pods on nodes whose claims for devices are not listed, and claims whose pods are not."""
    claims = {obj.key for obj in cluster.others if isinstance(obj, ResourceClaim)}
    missing = [
        pod.key
        for pod in cluster.pods
        if pod.spec.node_name and pod.spec.resource_claims and not _has_claims(pod, claims)
    ]
    uids = {pod.metadata.uid for pod in (*cluster.pods, *cluster.finished)} if claims else set[str]()
    lost = [
        obj.key
        for obj in cluster.others
        if isinstance(obj, ResourceClaim) and obj.status.reserved_for
        if all(user.resource == "pods" and user.uid not in uids for user in obj.status.reserved_for)
    ]
    out = []
    if missing:
        pods = number_of(len(missing), "pod on a node has", "pods on nodes have")
        text = "resource claims that are not in the input, so their devices count as free"
        out.append(f"{pods} {text}: {_some(missing)}.")
    if lost:
        claims_are = number_of(len(lost), "resource claim is", "resource claims are")
        text = "reserved only for pods that are not in the input, so their devices count as free"
        out.append(f"{claims_are} {text}: {_some(lost)}.")
    return out


def _some(names: Sequence[str]) -> str:
    return examples(list(map(shorten, names)), _EXAMPLES)


def _has_claims(pod: Pod, claims: Container[str]) -> bool:
    """Whether all claims of a pod are listed."""
    claim_names = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        name = use.resource_claim_name or claim_names.get(use.name, "")
        if name is not None and f"{pod.namespace}/{name}" not in claims:
            return False
    return True

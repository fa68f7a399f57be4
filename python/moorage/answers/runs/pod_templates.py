"""The templates of ``--pod``: the pods of the workloads in a file, or of a workload of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.given_objects import Counted, counted_pods
from moorage.cluster.lacking_pods import awaited_pods
from moorage.cluster.references import object_named
from moorage.controllers.availability import why_awaited
from moorage.errors import InputError, located
from moorage.kube import Cluster, Namespace, Object, Pod, PodGroup, UnitKey, group_of
from moorage.kube.admission.stored.strategy_warnings import strategy_warnings
from moorage.kube.apiserver.refusals import Refusals, ValidationMode
from moorage.kube.model.pod import EphemeralVolumeSource, Volume
from moorage.kube.model.pod_group import COMPOSITE, unit_name
from moorage.kube.model.workload import (
    KUEUE,
    PARENTS,
    QUEUE,
    CronJob,
    DaemonSet,
    Deployment,
    DeploymentConfig,
    Job,
    JobStatus,
    LeaderWorkerSet,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Rollout,
    StatefulSet,
)
from moorage.kube.plain import plain
from moorage.kube.read.cluster_builder import KnownObjects, check_namespaces, complete, known_namespaces
from moorage.kube.read.files import is_input
from moorage.kube.read.python_values import file_named, is_path, is_single
from moorage.kube.read.read_objects import in_namespace, read_objects
from moorage.kube.workloads.deployment_rollout import find_new_replica_set, next_children, next_step
from moorage.kube.workloads.job_state import next_run
from moorage.kube.workloads.missing_pods import PodControl, create_missing
from moorage.kube.workloads.ownership import refers_to
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, find_object

from ..asked_pods import as_template, is_queued, without_number

OPTION = "--pod"
_REPLICATED = (
    *(Deployment, ReplicaSet, ReplicationController, StatefulSet),
    *(Rollout, DeploymentConfig, LeaderWorkerSet),
)
_COUNTED = (Pod, Job, CronJob, DaemonSet, *_REPLICATED)


class Templates(NamedTuple):
    """What all values of ``--pod`` say.

    Attributes
    ----------
    pods : list of (Pod, int)
        Each pod, with defaults and the name of its workload, and not admitted; and its number in a round.
    others : list of Object
        The other objects of the files, on which pods may depend.
    """

    pods: list[tuple[Pod, int]]
    others: list[Object]
    warnings: list[str]


def read_templates(
    texts: Iterable[str],
    client: ObjectClient,
    cluster: Cluster,
    validate: ValidationMode,
    namespace: str | None,
) -> Templates:
    """Read ``FILE``, ``KIND/NAME`` or ``KIND/NAMESPACE/NAME``, each with ``=N`` or without; a pod group
    stands for its pods.

    Parameters
    ----------
    texts : iterable of str
        A file that exists is read. It may have several pods and workloads, each of which is a template.
    client : ObjectClient
        Has the workloads and groups that are named, the priority classes, and the ReplicaSets of Deployments.
    cluster : Cluster
        Has the namespaces.
    namespace : str or None
        Of objects and references that name none. Without it, an object is in ``default``, and a reference
        means the only object of its name.

    Raises
    ------
    InputError
        An object is invalid or does not exist, or a file has no pod or workload.
    """
    templates = Templates([], [], [])
    for text in texts:
        match = re.fullmatch("(.+)=([0-9]{1,9})", text)
        name, share = (match[1], int(match[2])) if match else (text, 1)
        if not share:
            raise InputError("a round needs at least one replica: give =1 or more", source=OPTION, obj=text)
        if is_input(name):
            known = known_namespaces(cluster.namespaces)
            tops = _read(name, templates, client, known, validate, namespace or "default")
        else:
            with located(source=OPTION):
                tops = _named(name, client, namespace or "")
        pods = [_template_of(top, client, templates.others, name) for top in tops]
        templates.pods.extend((pod, share) for pod in pods)
    return templates


def _template_of(top: Object, client: ObjectClient, others: Sequence[Object] = (), source: str = "") -> Pod:
    """Return the pod of a pod or workload, with its name."""
    with located(source=source, obj=top.full_name):
        if isinstance(top, CronJob):
            classes = [
                obj for obj in (*client.list(PriorityClass)[0], *others) if isinstance(obj, PriorityClass)
            ]
            job = next_run(top)
            meta = replace(job.metadata, name=top.name, owner_references=())
            top = complete([replace(job, metadata=meta)], around=KnownObjects(classes)).objects[0]
        pod = _pod_of(top, client)
        of_queue = {key: value for key, value in top.metadata.labels.items() if key.startswith(f"{KUEUE}/")}
        labels = {**of_queue, **pod.metadata.labels}
        return replace(pod, metadata=replace(pod.metadata, name=top.name, labels=labels))


def as_gang(scheduler: PodScheduler, templates: Sequence[tuple[Pod, int]]) -> list[tuple[Pod, int]]:
    """Return the templates of a gang: of those whose pods are alike for the scheduler, and in one group, the
    first, with the shares of all. A gang of one kind of pods may have any number of them.

    Raises
    ------
    InputError
        There is one kind of pods, and a number of them in a round.
    """
    classes, kinds = scheduler.cache.state.classes, dict[object, tuple[Pod, int]]()
    for pod, share in templates:
        kind = classes.intern(without_number(as_template(pod))), group_of(pod)
        first, shares = kinds.get(kind, (pod, 0))
        kinds[kind] = first, shares + share
    if len(kinds) > 1:
        return list(kinds.values())
    if any(share > 1 for _, share in templates):
        raise InputError("it says how many pods a gang has: leave out =N", source="--gang")
    return [(templates[0][0], 1)]


def template_group_warnings(
    scheduler: PodScheduler, templates: Iterable[tuple[Pod, int]], gang: int | None
) -> Iterator[str]:
    """Yield a sentence about each pod group of templates that is missing, is part of a composite one, or asks
    for another number of pods.

    Parameters
    ----------
    gang : int or None
        Pods of a gang that is counted.
    """
    units: dict[UnitKey, Pod] = {}
    for pod, _ in templates if scheduler.handle.groups_pods else ():
        if (unit := group_of(pod)) is not None:
            units.setdefault(unit, pod)
    for unit, pod in units.items():
        group, name = scheduler.context.groups.get(unit), "/".join(unit)
        if group is None:
            which = f"{pod.key} names PodGroup {name}, which is not in the input"
            yield f"{which}, so that its topology does not count: add it with -f."
        elif gang is not None and group.min_count not in (0, gang):
            least = f"minCount of PodGroup {name} is {group.min_count}"
            yield f"--gang {gang} counts gangs of {gang}, but {least}."
        root = scheduler.groups.root(unit)
        if root is not None and root != unit:
            whole = f"{COMPOSITE} {unit_name(root)}"
            yield f"PodGroup {name} is part of {whole}, whose other groups and topology do not count here."


def queue_warnings(client: ObjectClient, templates: Sequence[tuple[Pod, int]]) -> Iterator[str]:
    """Yield which of several templates, or of a gang, Kueue is not asked about."""
    for pod in (pod for pod, _ in templates if is_queued(client, pod)):
        what = "its quota, and the labels and tolerations of its flavors, do not count here"
        queue = f"{pod.namespace}/{pod.metadata.labels[QUEUE]}"
        yield f"{pod.key} is for LocalQueue {queue}: {what}; alone, or in check, they do."


def turn_warnings(scheduler: ChangingScheduler, templates: Iterable[tuple[Pod, int]]) -> Iterator[str]:
    """Yield of which workloads of the cluster the next replica waits for pods before it, and not for room."""
    for template, _ in templates:
        owner, namespace = template.metadata.controller(), template.namespace
        if owner is None or owner.kind != StatefulSet.__name__:
            continue
        workload = find_object(scheduler.client, StatefulSet, owner.name, namespace)
        if workload is not None:
            with scheduler.transaction():
                scheduler.change.scale(f"sts/{workload.key}", (workload.spec.replicas or 0) + 1)
                awaited = [pod for pod in awaited_pods(scheduler) if pod.metadata.controller() == owner]
            for pod in awaited[:1]:
                yield f"{workload.full_name}: {pod.name} {why_awaited(pod)}; the count is what fits then."


def asked_templates(
    client: ObjectClient, given: Counted | Sequence[Counted], name: str
) -> list[Pod | tuple[Pod, int]]:
    """Return the pods that a caller passes, as `counted_pods` does; also those of references."""
    if isinstance(given, tuple) or is_single(given):
        given = [cast("Counted", given)]
    out = list[Pod | tuple[Pod, int]]()
    for each in cast("Sequence[Counted]", given):
        what, number = each if isinstance(each, tuple) else (each, None)
        if isinstance(what, str) and is_path(what) and not is_input(text := str(what)):
            pods = [_template_of(top, client) for top in _named(text, client, "")]
            out += pods if number is None else [(pod, number) for pod in pods]
        else:
            out += counted_pods(client, each, name)
    return out


def _named(text: str, client: ObjectClient, namespace: str) -> list[Object]:
    """Return the pod or workload that a reference names, or the pods of a pod group."""
    if "=" in text:
        raise InputError("no such file; in KIND/NAME=N, N must be a whole number", obj=text)
    if Path(text).suffix:
        raise InputError("no such file", source=text)
    try:
        top: Object = object_named(client, text, (*_COUNTED, PodGroup), "has no pods", namespace)
    except InputError as error:
        raise InputError(f"no such file, and {error.message}", obj=error.obj) from None
    if not isinstance(top, PodGroup):
        return [top]
    members: list[Object] = [pod for pod in client.list(Pod)[0] if group_of(pod) == top.unit]
    if not members:
        raise InputError("no pod is in this group", obj=top.full_name)
    return members


def _read(
    file: str,
    templates: Templates,
    client: ObjectClient,
    known: frozenset[str] | None,
    validate: ValidationMode,
    namespace: str,
) -> list[Object]:
    """Return the pods and workloads of a file, and add its other objects to what was found."""
    read = read_objects(file_named(file), validate=validate, namespace=namespace)
    classes: list[PriorityClass] = client.list(PriorityClass)[0]
    objects = [*in_namespace(read.objects, namespace)]
    if known is not None:
        own = [obj.name for obj in objects if isinstance(obj, Namespace)]
        check_namespaces(objects, read.origins, {*known, *own}, Refusals(cluster=0))
    completed = complete(objects, read.origins, KnownObjects(classes))
    with located(source=file):
        tops = _tops([obj for obj in completed.objects if isinstance(obj, _COUNTED)])
    if not tops:
        left_out = f"; left out: {', '.join(read.skipped)}" if read.skipped else ""
        raise InputError(f"this file has no pod or workload{left_out}", source=OPTION, obj=file)
    templates.others.extend(obj for obj in completed.objects if not isinstance(obj, _COUNTED))
    templates.warnings.extend(completed.warnings + read.warnings)
    for obj in completed.objects:
        value = {"apiVersion": obj.api_version, "kind": obj.kind, **plain(obj)}
        templates.warnings.extend(f"{file}: {obj.full_name}: {text}." for text in strategy_warnings(value))
    return tops


_SEVERAL = "its pods have {} templates: give each of them as a pod in a file"


def _tops(objects: Sequence[Object]) -> list[Object]:
    """Return the pods and workloads that no other one controls; of those with the same controller one."""
    listed = {(obj.kind, obj.key) for obj in objects}
    tops: dict[object, Object] = {}
    requests: dict[str, list[object]] = {}
    for obj in objects:
        owner = obj.metadata.controller()
        if owner is None:
            tops[obj.kind, obj.key] = obj
        elif (owner.kind, f"{obj.namespace}/{owner.name}") not in listed:
            tops.setdefault(owner, obj)
            # Pods of a built-in workload have one template, though they may have been resized.
            if isinstance(obj, Pod | Job) and "." in owner.api_version.partition("/")[0]:
                spec = obj.spec if isinstance(obj, Pod) else obj.spec.template.spec
                asks = [each.resources for each in spec.containers], spec.node_selector
                known = requests.setdefault(f"{owner.kind} {obj.namespace}/{owner.name}", [])
                known += [asks] if asks not in known else []
    for name, known in requests.items():
        if len(known) > 1:
            raise InputError(_SEVERAL.format(len(known)), obj=name)
    return list(tops.values())


def _pod_of(obj: Object, client: ObjectClient) -> Pod:
    """Return the pod that a workload would create for one replica more, however many it has now."""
    if isinstance(obj, DaemonSet):
        raise InputError("a DaemonSet has a pod on each node, and no replicas to count")
    if isinstance(obj, Deployment):
        listed: list[ReplicaSet] = client.list(ReplicaSet, obj.namespace)[0]
        sets = [other for other in listed if refers_to(other.metadata.controller(), obj)]
        obj = find_new_replica_set(obj, sets) or obj
    pods = _pods_of(obj)
    templates = {pod.metadata.controller() for pod in pods}
    if len(templates) != 1:
        raise InputError(_SEVERAL.format(len(templates)))
    pod = pods[0]
    if isinstance(obj, StatefulSet):  # each replica has its own claims
        claims = {claim.metadata.name: claim for claim in obj.spec.volume_claim_templates}
        ephemeral = {
            name: Volume(name=name, ephemeral=EphemeralVolumeSource(volume_claim_template=claim))
            for name, claim in claims.items()
        }
        volumes = [ephemeral.get(volume.name, volume) for volume in pod.spec.volumes]
        pod = replace(pod, spec=replace(pod.spec, volumes=tuple(volumes)))
    return pod


def _pods_of(obj: Object) -> list[Pod]:
    """Return the pods of a workload with one replica."""
    if isinstance(obj, Pod):
        return [obj]
    obj = replace(obj, metadata=replace(obj.metadata, deletion_timestamp=None))
    if isinstance(obj, Job):
        spec = replace(obj.spec, parallelism=1, completions=1, suspend=False, managed_by=None)
        obj = replace(obj, spec=spec, status=JobStatus())
    elif isinstance(obj, Deployment):
        obj = replace(obj, spec=replace(obj.spec, replicas=1, paused=False))
    elif isinstance(obj, _REPLICATED):
        obj = replace(obj, spec=replace(obj.spec, replicas=1))
    control, children = _Template(), [obj]
    if isinstance(obj, Deployment):
        children = [*next_step(obj, [], {}, False)]
    elif isinstance(obj, PARENTS):
        children = next_children(obj, []) or []
    for child in children:
        create_missing(control, child, ())
    return control.pods


class _Template(PodControl):
    """Takes the pods of a workload that has none yet."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []

    def create(self, _: Object, pod: Pod, count: int = 1) -> None:
        self.pods += [pod] * count

    def create_claim(self, _: Object, __: Object) -> None:
        pass

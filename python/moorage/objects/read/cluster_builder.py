"""Builds a cluster from objects.

Objects are validated and get defaults, duplicates are refused, workloads are expanded to pods, and disruption
budgets get a status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.errors import InputError, shorten
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import Object, ObjectMeta
from moorage.objects.model.node import Namespace, Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import PriorityClass
from moorage.objects.validate.validate_object import validate
from moorage.objects.workloads.disruption import with_statuses
from moorage.objects.workloads.expand_workloads import expand_workloads
from moorage.objects.workloads.naming import Names
from moorage.objects.workloads.ownership import FINISHED

from .object_defaults import default_namespace, default_object, priority_classes

_EXAMPLES = 3


class Origin(NamedTuple):
    """The origin of an object: file, index of the document, index of the item in a list."""

    source: str = ""
    document: int = 0
    item: int | None = None


def label(kind: str, namespace: str, name: str, origin: Origin) -> str:
    """Return the name of an object in errors; its position if it has no name.

    Parameters
    ----------
    kind, namespace, name : str
        Identity of the object; empty if unknown.
    origin : Origin
        Origin of the object.

    Returns
    -------
    str
        ``Pod default/web-1``, or ``Pod (document 2)``.
    """
    if name:
        return shorten(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}").strip()
    position = f"document {origin.document}" if origin.item is None else f"items[{origin.item}]"
    return f"{shorten(kind)} ({position})" if kind else position


def build_cluster(
    objects: Iterable[Object],
    *,
    origins: Sequence[Origin] | None = None,
    skipped: Mapping[str, int] | None = None,
) -> Cluster:
    """Make a cluster of objects: validate them, set defaults, expand workloads.

    A PodDisruptionBudget without a status, as in manifests, gets the status that it has in this cluster (see
    `disruption_status`).

    Parameters
    ----------
    objects : iterable of Object
        Objects in any order, decoded or made in Python; controllers among them are expanded.
    origins : sequence of Origin, optional
        Origin of each object, for errors.
    skipped : mapping, optional
        Number of objects that the reader left out, by kind.

    Returns
    -------
    Cluster
        The cluster.

    Raises
    ------
    InputError
        An object is invalid, or occurs twice; the first error is reported.
    """
    listed = list(objects)
    places = origins if origins is not None else [Origin()] * len(listed)
    names = Names()
    for obj, origin in zip(listed, places, strict=True):
        try:
            validate(obj)
            if obj.name and not names.take(obj.kind, default_namespace(obj), obj.name):
                raise InputError("listed twice")
        except InputError as error:
            raise _located(error, obj, origin) from None
    classes = priority_classes(listed)
    cluster = Cluster(skipped=dict(sorted((skipped or {}).items())))
    uids: set[str] = set()
    for obj, origin in zip(listed, places, strict=True):
        try:
            filled = default_object(obj, classes, names)
            if filled.metadata.uid in uids:
                raise InputError("another object has the same UID", path="metadata.uid")
        except InputError as error:
            raise _located(error, obj, origin) from None
        uids.add(filled.metadata.uid)
        _place(cluster, filled)
    cluster.namespaces += _implied_namespaces(cluster, classes, names)
    cluster.warnings += _warnings(cluster)
    cluster = expand_workloads(cluster)
    cluster.others = with_statuses(cluster)
    return cluster


def _located(error: InputError, obj: Object, origin: Origin) -> InputError:
    named = label(obj.kind, obj.namespace, obj.name, origin)
    return InputError(error.message, source=origin.source, obj=named, path=error.path)


def _place(cluster: Cluster, obj: Object) -> None:
    if isinstance(obj, Pod):
        (cluster.finished if obj.status.phase in FINISHED else cluster.pods).append(obj)
    elif isinstance(obj, Node):
        cluster.nodes.append(obj)
    elif isinstance(obj, Namespace):
        cluster.namespaces.append(obj)
    else:
        cluster.others.append(obj)


def _implied_namespaces(
    cluster: Cluster, classes: Mapping[str, PriorityClass], names: Names
) -> Iterable[Namespace]:
    """The namespaces that contain objects but are not listed.

    Inter-pod affinity selects namespaces by labels, and each namespace has at least the label of its name.
    """
    listed = {namespace.name for namespace in cluster.namespaces}
    used = dict.fromkeys(obj.namespace for obj in (*cluster.pods, *cluster.finished, *cluster.others))
    for name in used:
        if name and name not in listed:
            yield default_object(Namespace(metadata=ObjectMeta(name=name)), classes, names)


def _warnings(cluster: Cluster) -> list[str]:
    warnings = []
    if cluster.skipped:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in cluster.skipped.items())
        warnings.append(f"Left out, because scheduling does not read these kinds: {kinds}.")
    nodes = {node.name for node in cluster.nodes}
    stray = [pod for pod in cluster.pods if pod.spec.node_name and pod.spec.node_name not in nodes]
    if stray:
        examples = [f"{pod.key} on {shorten(pod.spec.node_name)}" for pod in stray[:_EXAMPLES]]
        more = ["…"] if len(stray) > _EXAMPLES else []
        verb = "1 pod is" if len(stray) == 1 else f"{len(stray)} pods are"
        warnings.append(f"{verb} bound to nodes that are not listed: {', '.join(examples + more)}.")
    return warnings

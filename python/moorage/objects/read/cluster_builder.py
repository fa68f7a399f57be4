"""Builds a cluster from objects.

Objects are validated and get defaults, duplicates are refused, workloads are expanded to pods, and disruption
budgets get a status.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, overload

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


class Origins(Sequence[Origin]):
    """The origins of objects in reading order, without an object for each."""

    def __init__(self) -> None:
        self._sources: list[str] = []
        self._starts: list[int] = []  # index of the first object of each source
        self._documents, self._items = array("q"), array("q")

    def add(self, source: str, document: int, item: int | None) -> None:
        """Append an origin.

        Parameters
        ----------
        source : str
            Name of the file.
        document : int
            Index of the document.
        item : int or None
            Index of the item in a list.
        """
        if not self._sources or self._sources[-1] is not source:
            self._sources.append(source)
            self._starts.append(len(self._items))
        self._documents.append(document)
        self._items.append(-1 if item is None else item)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Origin: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Origin]: ...

    def __getitem__(self, at: int | slice) -> Origin | Sequence[Origin]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        source = self._sources[bisect_right(self._starts, at) - 1]
        item = self._items[at]
        return Origin(source, self._documents[at], None if item < 0 else item)


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
    for at, obj in enumerate(listed):
        try:
            validate(obj)
            name = obj.metadata.name
            if name and not names.take(obj.kind, default_namespace(obj), name):
                raise InputError("listed twice")
        except InputError as error:
            raise _located(error, obj, places[at]) from None
    classes = priority_classes(listed)
    cluster = Cluster(skipped=dict(sorted((skipped or {}).items())))
    uids: set[str] = set()
    for at, obj in enumerate(listed):
        try:
            filled = default_object(obj, classes, names)
            uid = filled.metadata.uid
            if uid in uids:
                raise InputError("another object has the same UID", path="metadata.uid")
        except InputError as error:
            raise _located(error, obj, places[at]) from None
        uids.add(uid)
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
    objects = chain(cluster.pods, cluster.finished, cluster.others)
    used = dict.fromkeys([obj.metadata.namespace for obj in objects])
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

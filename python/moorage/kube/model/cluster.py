"""Cluster: the objects of a cluster in reading order, and which of them is the newest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from moorage import kube as everything
from moorage.document import Count, Document
from moorage.errors import first_of
from moorage.lazy import NamedTuple
from moorage.table import Table, Tabular

from ..releases.release import EndedVersion
from ..workloads.ownership import PodIndex
from .admission_registration import WEBHOOKS
from .meta import Object
from .node import Namespace, Node
from .pod import Pod, PodSpec, Toleration
from .workload import CustomObject

if TYPE_CHECKING:
    from ..admission.siblings import Siblings
    from ..workloads.seen_failures import SeenFailures
    from .event import Event


class RefusedPod(NamedTuple):
    """A new pod that the API server would refuse.

    Attributes
    ----------
    is_old_template : bool
        Whether instead nobody makes new pods of a changed template; the pod stands for its workload.
    """

    pod: Pod
    message: str
    is_old_template: bool = False


class RefusedObject(Document, frozen=True):
    """An object of a change that the API server would refuse; the cluster is as it was without it."""

    group: str
    kind: str
    namespace: str
    name: str
    source: str
    """The file; empty for pods, which are refused when all are read."""
    message: str
    """The API server's text."""

    @property
    def text(self) -> str:
        """File, object and text in one line."""
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        named = [] if f'"{self.name}"' in self.message else [f"{self.kind} {key}"]
        return ": ".join(filter(None, [self.source, *named, self.message]))


class OutsidePolicy(NamedTuple):
    """An object of Kyverno or Gatekeeper, and its file."""

    obj: CustomObject
    source: str


class NotAsked(Document, frozen=True):
    """A webhook, a policy of Kyverno or Gatekeeper, the schema of a custom kind, or the validation of a
    built-in kind without rules here, that decides about the change or its pods, and that only a command with
    its server or its tool can ask."""

    kind: str
    namespace: str
    name: str
    webhook: str
    """Its name in the configuration; empty for a policy."""
    about: list[str]
    """The objects of the change, and the workloads with new pods."""
    command: str

    @property
    def text(self) -> str:
        """Who it is, what it is about, and the command, in one line."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        webhook = f", webhook {self.webhook}," if self.webhook else ""
        return f"{self.kind} {name}{webhook} about {first_of(self.about, _MOST_NAMES)}: {self.command}"


class RequestedObject(NamedTuple):
    """A manifest of a change.

    Attributes
    ----------
    document : bytes or dict
        Its JSON text, or value.
    namespace : str
        That in which the object is; "" for an object without, and for a kind that is not read and names none.
    is_new : bool or None
        None where it is not known whether there is an object of its name.
    unjudged_kind : str
        Kind and group, where the rules by which a server judges such objects are not known.
    node : str
        The node that a new pod names; "" for none.
    """

    source: str
    document: bytes | msgspec.Raw | dict[str, Any]
    namespace: str
    is_new: bool | None
    unjudged_kind: str = ""
    node: str = ""

    def value(self) -> dict[str, Any]:
        """Return the JSON value, with its namespace."""
        document = self.document
        value: dict[str, Any] = document if isinstance(document, dict) else msgspec.json.decode(document)
        if not self.namespace:
            return value
        return value | {"metadata": (value.get("metadata") or {}) | {"namespace": self.namespace}}

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace, and name or its prefix."""
        sent = self.value()
        meta = sent.get("metadata") or {}
        return str(sent.get("kind")), self.namespace, str(meta.get("name") or meta.get("generateName") or "")

    @property
    def name(self) -> str:
        """Kind, namespace, and name or its prefix, in a text."""
        kind, namespace, name = self.key
        return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


class EndedObjectDocument(Document, frozen=True):
    """An object in a version that a release does not serve, as documents have it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    source: str
    instead: str
    """The version to write; empty where the kind has ended."""


class EndedObject(NamedTuple):
    """An object of a file in a version of its kind that a release of Kubernetes has ended."""

    version: EndedVersion
    namespace: str
    name: str
    source: str

    def document(self) -> EndedObjectDocument:
        """Return what documents have of it."""
        return EndedObjectDocument(
            self.version.api_version, self.version.kind, *self[1:], self.version.instead
        )

    @property
    def text(self) -> str:
        """Object, version, and what to write instead, in one line."""
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        instead = f"write {self.version.instead}" if self.version.instead else "nothing is in its place"
        return f"{self.version.kind} {key} in {self.version.api_version} ({self.source}): {instead}"


_MOST_NAMES = 3
UNKNOWN = "but moorage does not know whether {} makes pods"
"""Why the pods of a kind that is not in the table of kinds are left out, with its name."""


class LeftOutWorkload(Document, frozen=True):
    """A workload whose pods are not made, as documents have it."""

    group: str
    kind: str
    namespace: str
    name: str
    replicas: Count
    """How many of them are no listed pod."""
    why: str
    """Why they are not made, as a clause."""


class LeftOut(NamedTuple):
    """A workload whose pods are not made, as its kind is not simulated; see `LeftOutWorkload`.

    Attributes
    ----------
    digest : str
        Hash of the spec of the workload.
    """

    group: str
    kind: str
    namespace: str
    name: str
    replicas: int
    why: str = "which is not simulated"
    digest: str = ""

    def document(self) -> LeftOutWorkload:
        """Return what documents have of it."""
        return LeftOutWorkload(*self[:-1])

    @property
    def mark(self) -> str:
        """What a workload of this name has alone that asks for the same."""
        return f"{self.full_kind} {self.key} {self.digest or self.why}"

    @property
    def is_known(self) -> bool:
        """Whether it is known that workloads of this kind make pods."""
        return self.why != UNKNOWN.format(self.full_kind)

    @property
    def full_kind(self) -> str:
        """Kind and API group, as kubectl names them."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def key(self) -> str:
        """``namespace/name``, or the name of an object without a namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PodAdditions(NamedTuple):
    """What a queue of Kueue adds to the pods that it admits: the labels that their nodes must have, and
    tolerations."""

    node_labels: dict[str, str]
    tolerations: tuple[Toleration, ...]

    def to(self, spec: PodSpec) -> PodSpec:
        """Return the spec of a pod with them."""
        new = tuple([toleration for toleration in self.tolerations if toleration not in spec.tolerations])
        selector = {**(spec.node_selector or {}), **self.node_labels}
        return structs.replace(spec, node_selector=selector, tolerations=spec.tolerations + new)


class Suspended(NamedTuple):
    """A workload of another project that makes no pods while it is suspended.

    Attributes
    ----------
    queue : str
        The queue of Kueue that it waits in; "" for none.
    objects : tuple of Object
        What its operator makes of it when it runs.
    why : str
        Why that does not follow from it, as a clause; "" if it does.
    source : CustomObject, optional
        Itself, with a UID.
    is_held : bool
        Whether it is new, and suspended by Kueue's webhook alone.
    """

    full_kind: str
    namespace: str
    name: str
    queue: str
    objects: tuple[Object, ...]
    why: str = ""
    source: CustomObject | None = None
    is_held: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def text(self) -> str:
        """Kind, namespace and name."""
        return f"{self.full_kind} {self.key}"


NOT_TOLD = "the input does not say its release"


class DecidingRelease(Document, frozen=True):
    """The release of Kubernetes that decides, and where its name is from."""

    version: str
    """A minor version, for example 1.36."""
    reason: str
    """A clause, for example "kubelet of node n1: v1.36.2"."""

    @property
    def text(self) -> str:
        """The release in a few words."""
        return f"Kubernetes {self.version}" + " by default" * (self.reason == NOT_TOLD)


class AppliedChange(NamedTuple):
    """What further files change in a cluster. A `Scheduler` begins with the cluster before, whose controllers
    follow the change.

    Attributes
    ----------
    objects : sequence of (Object or None, Object)
        Objects before, None for new ones, and as they are stored then, in their order.
    parts : int
        How many of the files after the first are of the cluster before.
    """

    before: Cluster
    objects: Sequence[tuple[Object | None, Object]]
    parts: int = 0


@dataclass(slots=True, repr=False)
class Cluster(Tabular):
    """The objects of a cluster by kind, valid and with defaults.

    Attributes
    ----------
    nodes, pods, namespaces : list of Object
        In reading order. The pods that workloads lack are made by a `Scheduler`; `expanded` returns a cluster
        that has them.
    others : list of Object
        All other objects that scheduling reads (services, controllers, priority classes, disruption budgets).
    finished : list of Pod
        Pods that have succeeded or failed: they occupy no resources and are not scheduled.
    skipped : dict of str to int
        Number of objects that scheduling does not read and that were left out, by kind.
    refused : list of RefusedPod
        Pods of manifests that the API server would refuse: they are in no other list.
    refused_objects : list of RefusedObject
        Objects of a change that the API server would refuse; see `load_before_and_after`.
    ended : list of EndedObject
        Objects in versions that a release of Kubernetes has ended, those among the skipped kinds too.
    left_out : list of LeftOut
        Workloads among the skipped objects that have more replicas than listed pods.
    suspended : list of Suspended
        Workloads of other projects that are suspended; `ClusterChanges.unsuspend` lets them run.
    outside_policies : list of OutsidePolicy
        The objects of Kyverno and Gatekeeper, which are not evaluated.
    requested : list of RequestedObject
        The manifests of a change, also those of kinds that scheduling does not read.
    warnings : list of str
        Warnings of the loader, one sentence each.
    server_version : str
        Version of the API server, of archives that tell it; "" elsewhere.
    release : DecidingRelease or None
        Set by commands.
    siblings : Siblings or None
        How the listed pods differ from their templates, and which new pods differ likewise; None where there
        are only nodes and plain pods.
    failures : SeenFailures or None
        Which pods the cluster could not create.
    metrics : list of Object
        What pods and nodes use: PodMetrics and NodeMetrics, of which the last of a name counts.
    events : list of Event
        About nodes, and about pods that could not be created.
    turns : dict of str to str
        By ``namespace/name``, the single pods of manifests beside workloads: after the pods of which of them
        (``Kind namespace/name``) they are created; "" for before all.
    pods_by_owner : PodIndex
        The listed pods.
    inferred : frozenset of str
        As ``Kind namespace/name``, the ReplicaSets and revisions that are not listed, and that pods show.
    known_namespaces : frozenset of str or None
        The namespaces that there are; None where nothing is known of them.
    change : AppliedChange or None
        What further files have changed.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    finished: list[Pod] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    refused: list[RefusedPod] = field(default_factory=list)
    refused_objects: list[RefusedObject] = field(default_factory=list)
    ended: list[EndedObject] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    suspended: list[Suspended] = field(default_factory=list)
    outside_policies: list[OutsidePolicy] = field(default_factory=list)
    requested: list[RequestedObject] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    server_version: str = ""
    release: DecidingRelease | None = None
    siblings: Siblings | None = field(default=None, compare=False)
    failures: SeenFailures | None = field(default=None, compare=False)
    metrics: list[Object] = field(default_factory=list)
    events: list[Event] = field(default_factory=list, compare=False)
    turns: dict[str, str] = field(default_factory=dict, compare=False)
    pods_by_owner: PodIndex = field(default_factory=lambda: PodIndex(()), init=False, compare=False)
    inferred: frozenset[str] = field(default=frozenset(), init=False, compare=False)
    known_namespaces: frozenset[str] | None = field(default=None, init=False, compare=False)
    change: AppliedChange | None = field(default=None, init=False, compare=False)

    @property
    def refused_of_change(self) -> list[RefusedObject]:
        """The objects of a change that the API server would refuse: `refused_objects`, and single pods."""
        sources = {request.key: request.source for request in self.requested} if self.refused else {}
        pods = [
            RefusedObject("", "Pod", pod.namespace, pod.name, sources[key], message)
            for pod, message, *_ in self.refused
            for name in [
                pod.name if ("Pod", pod.namespace, pod.name) in sources else pod.metadata.generate_name
            ]
            if (key := ("Pod", pod.namespace, name)) in sources
        ]
        return [*self.refused_objects, *pods]

    @property
    def accepted(self) -> list[RequestedObject]:
        """The manifests of a change that the API server would not refuse."""
        refused = {(obj.kind, obj.namespace, obj.name) for obj in self.refused_objects}
        refused |= {("Pod", each.pod.namespace, each.pod.name) for each in self.refused}
        refused |= {("Pod", each.pod.namespace, each.pod.metadata.generate_name) for each in self.refused}
        return [each for each in self.requested if each.key not in refused] if refused else self.requested

    @property
    def is_reviewed(self) -> bool:
        """Whether webhooks, policies of other projects or rules that are not known decide about it."""
        if self.outside_policies or any(each.unjudged_kind for each in self.requested):
            return True
        return any(isinstance(obj, WEBHOOKS) for obj in self.others)

    def headline(self) -> str:
        """Return the number of objects by kind, in one line."""
        pending = sum(not pod.spec.node_name for pod in self.pods)
        counts = {"nodes": len(self.nodes), f"pods ({pending} without a node)": len(self.pods)}
        counts |= {"namespaces": len(self.namespaces), "finished pods": len(self.finished)}
        counts |= Counter(obj.kind for obj in self.others)
        counts |= {f"{kind} (skipped)": n for kind, n in self.skipped.items()}
        counts |= {"refused pods": len(self.refused)}
        return "Cluster: " + (", ".join(f"{n} {name}" for name, n in counts.items() if n) or "empty")

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each object.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns kind, namespace (missing where the kind has none), name, node (of a placed pod).
        """
        objects = list(islice(self._objects(), limit))
        return Table(
            {
                "kind": [obj.kind for obj in objects],
                "namespace": [obj.namespace or None for obj in objects],
                "name": [obj.name for obj in objects],
                "node": [obj.spec.node_name or None if isinstance(obj, Pod) else None for obj in objects],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the objects as a ``kind: List``, which `load` reads."""
        heads = [{"apiVersion": obj.api_version, "kind": obj.kind} for obj in self._objects()]
        bodies = map(everything.plain.plain, self._objects())
        items = [head | body for head, body in zip(heads, bodies, strict=True)]
        items += [msgspec.json.decode(policy.obj.document) for policy in self.outside_policies]
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def _objects(self) -> chain[Object]:
        """Return all objects."""
        return chain(self.nodes, self.pods, self.namespaces, self.others, self.finished)


# ---- ages --------------------------------------------------------------------------------------------------
#
# When the objects of a cluster were created, and which of them is the newest.

_CREATED = attrgetter("metadata.creation_timestamp")


@lru_cache(1 << 16)
def seconds(timestamp: str) -> float:
    """Parse a timestamp of an object (RFC 3339); return seconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp()


def newest_timestamp(cluster: Cluster) -> str | None:
    """Return the creation timestamp of the newest object of a cluster; None where no object has one.

    Whatever a change creates is at least as young.
    """
    return newest(chain(cluster.nodes, cluster.pods, cluster.finished, cluster.others))


def now_of(objects: Iterable[Object]) -> float:
    """Return the time of the newest of some objects, which stands for now; 0 where none has one."""
    youngest = newest(objects)
    return seconds(youngest) if youngest else 0.0


def newest(objects: Iterable[Object]) -> str | None:
    """Return the creation timestamp of the newest of some objects; None where none has one."""
    timestamps = dict.fromkeys(map(_CREATED, objects))
    return max(filter(None, timestamps), key=seconds, default=None)

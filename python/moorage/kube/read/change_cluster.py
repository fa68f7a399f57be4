"""What further files change in a cluster that was read: what an API server stores of them, and refuses.

Nothing is looked at again that does not depend on them. What controllers make of the change, they do when a
scheduler plays it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from msgspec import structs

from moorage.errors import examples
from moorage.lazy import NamedTuple

from ..admission.chain import Existing, NewPods
from ..admission.siblings import Siblings
from ..apiserver.overlay import key_of
from ..apiserver.refusals import STORED, Origin, Refusals
from ..model.cluster import AppliedChange, Cluster
from ..model.meta import Object
from ..model.node import Namespace, Node
from ..model.pod import Pod
from ..model.policy import NO_STATUS, PodDisruptionBudget, ResourceQuota, ResourceQuotaStatus
from ..model.workload import (
    WORKLOADS,
    ControllerRevision,
    CustomObject,
    Deployment,
    PriorityClass,
    ReplicaSet,
)
from ..workloads.disruption import with_statuses
from ..workloads.ownership import FINISHED, PodIndex
from ..workloads.stateful_pods import ephemeral_claims
from .cluster_builder import (
    Completed,
    KnownObjects,
    complete,
    implied_namespaces,
    is_single,
    warnings_after,
)
from .object_defaults import default_namespace
from .recognize_templates import recognize_templates
from .settle_cluster import refuse_objects

T = TypeVar("T", bound=Object)
_EXAMPLES = 3
_TEMPLATES = (ReplicaSet, ControllerRevision)


class AppliedObjects(NamedTuple):
    """What an API server stores of a change, before it is known what the pods of a cluster show.

    Attributes
    ----------
    new : list of Object
        New and changed objects, in their order, after the namespaces that they imply.
    old : dict of str to Object
        By `key_of`, those of them that were there.
    """

    new: list[Object]
    old: dict[str, Object]
    completed: Completed
    new_pods: NewPods


class ClusterChange:
    """Applies manifests and other objects to those of a cluster.

    Parameters
    ----------
    before : Cluster
        It stays as it is. Only its policies and namespaces, and the objects with the names of those of the
        change have to be there, if `existing` is given.
    refusals : Refusals
        Whose check and gates count.
    texts : mapping of str to bytes, optional
        By `key_of`, manifests of objects of the cluster.
    existing : Existing, optional
        What quotas count.
    """

    def __init__(
        self,
        before: Cluster,
        refusals: Refusals,
        texts: Mapping[str, bytes] = MappingProxyType({}),
        existing: Existing | None = None,
    ) -> None:
        self._before, self._refusals, self._texts = before, refusals, texts
        self._existing = existing or Existing.of(before)

    def apply(
        self, objects: Sequence[Object], origins: Sequence[Origin], texts: Mapping[int, bytes]
    ) -> AppliedObjects:
        """Return what an API server stores; the parameters are those of a call.

        Raises
        ------
        RefusedObjectsError, InputError
            As for `build_cluster`. Refused pods alone are left out.
        """
        before, stored = self._before, [*self.stored(objects)]
        own = {at: self._texts[key] for at, key in enumerate(map(key_of, stored)) if key in self._texts}
        completed = complete(
            [*stored, *objects],
            [*[Origin(argument=STORED)] * len(stored), *origins],
            self._surroundings(objects, stored),
            texts=own | {at + len(stored): text for at, text in texts.items()},
            refusals=self._refusals,
        )
        there = {id(obj) for obj in stored}
        new = [obj for obj in completed.objects if id(obj) not in there]
        new = [*implied_namespaces(before.namespaces, new, completed), *new]
        old = {key_of(obj): obj for obj in stored}
        new = [_without_status(obj, old.get(key_of(obj))) for obj in new]
        after = _with(before, new, old)
        gates = self._refusals.gates
        new_pods = NewPods(after, gates, completed.before, completed.texts, self._existing)
        new = _admitted(new, new_pods, completed, self._refusals)
        return AppliedObjects(new, old, completed, new_pods)

    def __call__(
        self, objects: Sequence[Object], origins: Sequence[Origin], texts: Mapping[int, bytes]
    ) -> Cluster:
        """Return the cluster with further objects.

        Parameters
        ----------
        objects, origins, texts
            As for `build_cluster`, of the further objects alone.

        Raises
        ------
        RefusedObjectsError, InputError
            As for `build_cluster`.
        """
        before, (new, old, completed, new_pods) = self._before, self.apply(objects, origins, texts)
        claims = ephemeral_claims([pod for pod in new if isinstance(pod, Pod) and _is_new(pod, completed)])
        known = {key_of(obj) for obj in (*new, *self.stored(claims))}
        new[:0] = [claim for claim in claims if key_of(claim) not in known]
        turns = self._turns(new, completed)
        recognized = self._recognized(new, completed.before)
        shown = {key_of(obj): obj for obj in (*recognized.others, *recognized.pods)}
        new = [shown.pop(key_of(obj), obj) for obj in new]
        new[:0] = shown.values()
        old |= {key_of(obj): obj for obj in self.stored([*shown.values()])}
        after = _with(before, new, old)
        after.others = with_statuses(after)
        written = {key_of(obj): obj for obj in after.others}
        after.change = AppliedChange(
            before, [(old.get(name), written.get(name, obj)) for obj in new for name in [key_of(obj)]]
        )
        after.turns = before.turns | turns
        after.refused = [*before.refused, *new_pods.refused]
        warnings = [*warnings_after(before, after, completed, new), *_without_namespace(before, objects)]
        after.warnings = [*warnings, *recognized.warnings, *new_pods.notes()]
        return after

    # ---- the cluster before --------------------------------------------------------------------------------

    def _all(self, kind: type[Object]) -> Sequence[Object]:
        """Return the objects of the cluster among which those of a kind are."""
        before = self._before
        if kind is Pod:
            return [*before.pods, *before.finished]
        return before.nodes if kind is Node else before.namespaces if kind is Namespace else before.others

    def stored(self, objects: Sequence[Object]) -> Iterable[Object]:
        """Return the objects of the cluster that have the names of others."""
        names = {_name(obj) for obj in objects}
        short = {name for *_, name in names}
        listed = {id(all_of): all_of for all_of in map(self._all, {type(obj): obj for obj in objects})}
        near = (obj for obj in chain.from_iterable(listed.values()) if obj.name in short)
        return [obj for obj in near if _name(obj) in names]

    def _surroundings(self, objects: Sequence[Object], stored: Sequence[Object]) -> KnownObjects:
        """Return the classes and namespaces of the cluster, and what has names that no new one can get."""
        kinds = {type(obj): obj for obj in objects if not obj.name}
        known = {id(obj) for obj in stored}
        return KnownObjects(
            [obj for obj in self._before.others if isinstance(obj, PriorityClass)],
            self._before.known_namespaces,
            [obj for kind in kinds for obj in self._all(kind) if type(obj) is kind and id(obj) not in known],
            [obj for obj in self._before.others if obj.kind == "LocalQueue"],
        )

    def _recognized(self, new: Sequence[Object], changed: Mapping[str, Object]) -> Cluster:
        """Return new and changed workloads of which the cluster has pods, with what these show of their
        templates (see `recognize_templates`)."""
        mine = {key_of(obj): obj for obj in new if isinstance(obj, (*WORKLOADS, *_TEMPLATES))}
        names = {(obj.namespace, obj.kind, obj.name) for obj in mine.values()}
        listed = (obj for obj in self._before.others if mine and isinstance(obj, _TEMPLATES))
        inferred, index = self._before.inferred, self._before.pods_by_owner
        around = {
            key_of(obj): obj for obj in listed if not (key_of(obj) in inferred and _owner(obj) in names)
        }
        owners = {_owner(obj) for obj in around.values()}
        pods = {pod.key: pod for obj in mine.values() for pod in index.owned(obj)}
        for obj in mine.values():
            if isinstance(obj, Deployment) and (obj.namespace, obj.kind, obj.name) not in owners:
                pods |= {pod.key: pod for pod in index.of_template(obj.namespace, obj.name)}
        near = Cluster(others=[*(around | mine).values()], pods=[*pods.values()])
        recognized = recognize_templates(near, changed, PodIndex(near.pods)) if mine else Cluster()
        known = {id(obj) for obj in (*around.values(), *near.pods)}
        recognized.others = [obj for obj in recognized.others if id(obj) not in known]
        recognized.pods = [pod for pod in recognized.pods if id(pod) not in known]
        return recognized

    def _turns(self, new: Sequence[Object], completed: Completed) -> dict[str, str]:
        """Return after which workload single pods come; see `put_in_turn`."""
        turns, names = dict[str, str](), {key_of(obj) for obj in new}
        single = {pod.key for pod in new if isinstance(pod, Pod) and is_single(pod)}
        earlier = (key_of(obj) for obj in self._before.others if single and isinstance(obj, WORKLOADS))
        last = next(reversed([name for name in earlier if name not in names]), "")
        for obj in new if single else ():
            if isinstance(obj, WORKLOADS):
                last = obj.full_name
            elif isinstance(obj, Pod) and obj.key in single and _is_new(obj, completed):
                turns[obj.key] = last
        return turns if last else {}


def _without_namespace(before: Cluster, objects: Iterable[Object]) -> Iterator[str]:
    """Yield which manifests name no namespace, and are for this reason where the cluster has nothing."""
    named = [obj for obj in objects if not (obj.namespace or isinstance(obj, CustomObject))]
    stray = [obj.full_name for obj in named if default_namespace(obj) == "default"]
    if stray and before.known_namespaces and all(space.name != "default" for space in before.namespaces):
        where = "no namespace is named, so it is default, where the cluster has nothing"
        yield f"{examples(stray, _EXAMPLES)}: {where}; -n NAME names one."


def _name(obj: Object) -> tuple[str, str, str]:
    return obj.full_kind, default_namespace(obj), obj.name


def _owner(obj: Object) -> tuple[str, str, str]:
    """Return what controls an object."""
    owner = obj.metadata.controller()
    return (obj.namespace, owner.kind, owner.name) if owner is not None else ("", "", "")


def _without_status(obj: Object, old: Object | None) -> Object:
    """Return a quota without the usage that its file tells, as controllers count it; and a budget whose rule
    has changed without its status, which was that of the old one."""
    if isinstance(obj, ResourceQuota):
        known = old.status if isinstance(old, ResourceQuota) else ResourceQuotaStatus()
        return structs.replace(obj, status=known)
    if isinstance(obj, PodDisruptionBudget) and isinstance(old, PodDisruptionBudget) and obj.spec != old.spec:
        return structs.replace(obj, status=NO_STATUS)
    return obj


def _is_new(pod: Pod, completed: Completed) -> bool:
    return key_of(pod) not in completed.before


def _admitted(
    new: Sequence[Object], new_pods: NewPods, completed: Completed, refusals: Refusals
) -> list[Object]:
    """Return new and changed objects as they are stored, without the pods that are refused."""
    of_cluster = () if new_pods.has_policies else (Node, Namespace)  # which policies alone are asked about
    others = [obj for obj in new if not isinstance(obj, (Pod, *of_cluster))]
    names = [*map(key_of, others)]
    refuse_objects(new_pods, others, completed, refusals)
    pods = [obj for obj in new if isinstance(obj, Pod) and _is_new(obj, completed)]
    stored: dict[str, Object] = {key_of(pod): pod for pod in new_pods.admit(pods)}
    refused = {key_of(pod) for pod in pods} - stored.keys()
    stored |= zip(names, others, strict=True)
    return [stored.get(name, obj) for obj in new if (name := key_of(obj)) not in refused]


def _with(before: Cluster, new: Sequence[Object], old: Container[str]) -> Cluster:
    """Return a cluster with new and changed objects. Nodes, namespaces and pods have the places of those of
    their names; others come last, as controllers follow the changes in their order.

    Parameters
    ----------
    old : container of str
        By `key_of`, those that are changed.
    """
    after = replace(
        before, siblings=before.siblings.copy() if before.siblings is not None else Siblings(), turns={}
    )
    after.pods_by_owner, after.known_namespaces = before.pods_by_owner, before.known_namespaces
    changed = {key_of(obj): obj for obj in new if key_of(obj) in old}
    added = [obj for obj in new if key_of(obj) not in changed]
    pods = [obj for obj in added if isinstance(obj, Pod)]
    after.pods = _replaced(before.pods, Pod, changed, [pod for pod in pods if not _has_ended(pod)])
    after.finished = _replaced(before.finished, Pod, changed, filter(_has_ended, pods))
    after.nodes = _replaced(before.nodes, Node, changed, [obj for obj in added if isinstance(obj, Node)])
    spaces = [obj for obj in added if isinstance(obj, Namespace)]
    after.namespaces = _replaced(before.namespaces, Namespace, changed, spaces)
    short = {obj.name for obj in changed.values()}
    kept = [obj for obj in before.others if obj.name not in short or key_of(obj) not in changed]
    after.others = [*kept, *(obj for obj in new if not isinstance(obj, Pod | Node | Namespace))]
    return after


def _replaced(objects: list[T], kind: type[T], changed: Mapping[str, Object], added: Iterable[T]) -> list[T]:
    """Return the objects of a kind with changed ones in their places, and then new ones."""
    mine = {obj.key: obj for obj in changed.values() if isinstance(obj, kind)}
    objects = [mine.get(obj.key, obj) for obj in objects] if mine else objects
    return [*objects, *new] if (new := [*added]) else objects


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in FINISHED

"""Who owns what among listed objects, through any number of objects of unknown kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import inf

from moorage.kube.model.meta import Object
from moorage.kube.model.other_workloads import CustomObject, full_kind
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import DaemonSet, Job

from ..ownership import is_active

Identity = tuple[str, str, str]
"""Kind with its group, namespace and name of an object."""


class Owners:
    """The listed pods and workloads of objects of kinds that scheduling does not know.

    Parameters
    ----------
    namespace_of : callable
        Returns the namespace of an object, which may name none.
    """

    def __init__(self, objects: Sequence[Object], namespace_of: Callable[[Object], str]) -> None:
        self._namespace_of = namespace_of
        self._listed = {self.identity(obj): obj for obj in objects}
        self._above: dict[Identity, tuple[Identity, ...]] = {}
        self._pods: defaultdict[Identity, list[Pod]] = defaultdict(list)
        self._nearest: defaultdict[Identity, list[Object]] = defaultdict(list)
        tops: dict[tuple[Identity, ...], tuple[set[Identity], set[Identity]]] = {}
        for name, obj in self._listed.items():
            parents = self._parents(name)
            if not parents:
                continue
            if parents not in tops:
                tops[parents] = self._climb(parents)
            above, nearest = tops[parents]
            for one in above if isinstance(obj, Pod) else ():
                self._pods[one].append(obj)  # type: ignore[arg-type]
            for one in nearest:
                self._nearest[one].append(obj)

    def identity(self, obj: Object) -> Identity:
        """Return what names an object among all."""
        return full_kind(obj.kind, obj.api_version), self._namespace_of(obj), obj.name

    def _parents(self, name: Identity) -> tuple[Identity, ...]:
        """Return the owners of a listed object that are listed, or that others may name."""
        if name not in self._above:
            obj = self._listed.get(name)
            found = []
            for owner in obj.metadata.owner_references if obj is not None else ():
                kind = full_kind(owner.kind, owner.api_version)
                scoped = kind, "", owner.name
                found.append(scoped if scoped in self._listed else (kind, name[1], owner.name))
            self._above[name] = tuple(found)
        return self._above[name]

    def _climb(self, parents: Iterable[Identity]) -> tuple[set[Identity], set[Identity]]:
        """Return all owners, and those between which and the object there are none that scheduling knows."""
        above: dict[Identity, bool] = {}
        pending = [(one, True) for one in parents]
        while pending:
            one, is_near = pending.pop()
            if one in above and above[one] >= is_near:
                continue
            above[one] = is_near
            obj = self._listed.get(one)
            pending += [
                (owner, is_near and isinstance(obj, CustomObject | None)) for owner in self._parents(one)
            ]
        return set(above), {one for one, is_near in above.items() if is_near}

    def is_listed(self, name: Identity) -> bool:
        """Whether an object is among the listed ones."""
        return name in self._listed

    def pods(self, name: Identity) -> list[Pod]:
        """Return the listed pods that an object owns, directly or through any others."""
        return self._pods[name]

    def nearest(self, name: Identity) -> list[Object]:
        """Return what an object owns, directly or through objects of unknown kinds."""
        return self._nearest[name]

    def replicas(self, name: Identity) -> float:
        """Return the number of pods that follow from what an object owns.

        Returns
        -------
        float
            A pod that has not finished counts once, a workload with its replicas; infinite for a DaemonSet.
        """
        return sum(map(_replicas, self._nearest[name]))


def _replicas(obj: Object) -> float:
    if isinstance(obj, Pod):
        return int(is_active(obj))
    if isinstance(obj, DaemonSet):
        return inf
    if isinstance(obj, Job):
        return obj.spec.parallelism if obj.spec.parallelism is not None else 1
    if isinstance(obj, CustomObject):
        return 0
    replicas: int | None = getattr(getattr(obj, "spec", None), "replicas", None)
    return replicas or 0

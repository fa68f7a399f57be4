"""Ownership of pods by workloads."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from math import inf

import msgspec

from moorage._core.base.shared_parts import PartMemo
from moorage.lazy import NamedTuple

from ..apiserver.decode import is_known
from ..model.meta import Object, OwnerReference
from ..model.pod import Pod
from ..model.workload import CustomObject, DaemonSet, Job, PodTemplateSpec, full_kind

# ---- naming ------------------------------------------------------------------------------------------------
#
# Deterministic names, UIDs and hashes in place of the random ones of Kubernetes.

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names, without vowels and digits that look like letters (apimachinery, rand)."""
_PAIRS = [first + second for second in _ALPHABET for first in _ALPHABET]
_SUFFIX_LENGTH = 5
_MAX_BASE = 63 - _SUFFIX_LENGTH
_SPACE = len(_ALPHABET) ** _SUFFIX_LENGTH
_STEP = 8_675_309
"""Coprime to `_SPACE`, so that all suffixes occur before one repeats."""


def stable_uid(kind: str, namespace: str, name: str) -> str:
    """Return a UID derived from the identity of an object.

    Returns
    -------
    str
        In the form of a UUID; equal arguments give equal UIDs.
    """
    digest = hashlib.sha1(f"{kind}/{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def template_hash(template: PodTemplateSpec) -> str:
    """Return a hash of a template for labels such as ``pod-template-hash``.

    It differs from the hash of the controllers, which depends on Go's memory layout.

    Returns
    -------
    str
        10 characters.
    """
    return _letters(_hash(msgspec.json.encode(template, order="deterministic")), 10)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.sha1(data, usedforsecurity=False).digest()[:8], "big")


def _letters(number: int, length: int) -> str:
    letters = ""
    while len(letters) < length:
        number, pair = divmod(number, len(_PAIRS))
        letters += _PAIRS[pair]
    return letters[:length]


def generated_names(base: str, seed: str) -> Iterator[str]:
    """Iterate over the candidates for a name from ``generateName``.

    Each is `base`, cut to 58 characters, and a suffix of five characters; suffixes repeat after 14 million.

    Parameters
    ----------
    base : str
        Prefix, as in ``generateName``.
    """
    number = _hash(seed.encode())
    while True:
        number %= _SPACE
        yield base[:_MAX_BASE] + _letters(number, _SUFFIX_LENGTH)
        number += _STEP


class Names:
    """Used names by kind and namespace; generates names for ``generateName``."""

    def __init__(self) -> None:
        self._taken: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._generated: dict[tuple[str, str, str], Iterator[str]] = {}

    def take(self, kind: str, namespace: str, name: str) -> bool:
        """Reserve a name.

        Returns
        -------
        bool
            False if the name was taken.
        """
        taken = self._taken[kind, namespace]
        if name in taken:
            return False
        taken.add(name)
        return True

    def generate(self, kind: str, namespace: str, base: str) -> str:
        """Generate and reserve a name: `base` with a suffix of five characters.

        Parameters
        ----------
        kind, namespace : str
            Kind and namespace of the object.
        base : str
            Prefix, as in ``generateName``.
        """
        candidates = self.candidates(kind, namespace, base)
        return next(name for name in candidates if self.take(kind, namespace, name))

    def candidates(self, kind: str, namespace: str, base: str) -> Iterator[str]:
        """Return the names that follow the last one that was made from `base`."""
        key = (kind, namespace, base[:_MAX_BASE])
        if key not in self._generated:
            self._generated[key] = generated_names(base, "/".join(key))
        return self._generated[key]


# ---- ownership ---------------------------------------------------------------------------------------------

HASH_LABEL = "pod-template-hash"
FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer occupies resources."""
DELETE_DEPENDENTS, ORPHAN_DEPENDENTS = "foregroundDeletion", "orphan"
"""Finalizers by which the garbage collector first deletes the dependents of an object, or lets them stay."""


def is_active(pod: Pod) -> bool:
    """Whether a pod is active for its controller (kubernetes v1.36, IsPodActive)."""
    return pod.status.phase not in FINISHED and pod.metadata.deletion_timestamp is None


def is_healthy(pod: Pod) -> bool:
    """Whether a pod is ready, or bound where the condition Ready is not reported, as there is no kubelet.

    Returns
    -------
    bool
        False for a pod that is being deleted or has finished.
    """
    if pod.metadata.deletion_timestamp is not None:
        return False
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def controller_reference(owner: Object) -> tuple[OwnerReference, ...]:
    """Return the owner references of an object controlled by `owner`."""
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return (reference,)


def has_made_up_uid(obj: Object) -> bool:
    """Whether the UID of an object was generated because its file had none."""
    return obj.metadata.uid == _made_up_uid(obj.kind, obj.namespace, obj.name)


@lru_cache(maxsize=1 << 12)  # controllers ask several times for each workload that they look at
def _made_up_uid(kind: str, namespace: str, name: str) -> str:
    return stable_uid(kind, namespace, name)


def _group(api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return "apps" if group == "extensions" else group  # as workloads were once in the latter


def refers_to(reference: OwnerReference | None, obj: Object) -> bool:
    """Whether an owner reference refers to an object.

    Kind, API group and name must be equal, and the UIDs if both have one. A UID that was generated because
    the object had none is not compared, and neither is a group that the reference lacks.
    """
    if reference is None or (reference.kind, reference.name) != (obj.kind, obj.name):
        return False
    if reference.api_version and _group(reference.api_version) != _group(obj.api_version):
        return False
    return reference.uid in ("", obj.metadata.uid) or has_made_up_uid(obj)


class PodIndex:
    """Pods by controller."""

    def __init__(self, pods: Collection[Pod]) -> None:
        self._controlled: defaultdict[tuple[str, str, str], list[Pod]] = defaultdict(list)
        self._pods = pods
        for pod in pods:
            meta = pod.metadata
            controller = meta.controller()
            if controller is not None:
                self._controlled[meta.namespace, controller.kind, controller.name].append(pod)

    @cached_property
    def _hashed(self) -> Mapping[tuple[str, str], list[Pod]]:
        hashed: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self._pods:
            controller, template = pod.metadata.controller(), pod.metadata.labels.get(HASH_LABEL, "")
            if controller is None or controller.kind != "ReplicaSet" or not is_active(pod):
                continue
            if controller.name.endswith(f"-{template}"):
                hashed[pod.namespace, controller.name.removesuffix(template)].append(pod)
        return hashed

    def owned(self, obj: Object) -> list[Pod]:
        """Return the pods controlled by an object, in any state."""
        pods = self._controlled.get((obj.namespace, obj.kind, obj.name), ())
        return [pod for pod in pods if refers_to(pod.metadata.controller(), obj)]

    def of_template(self, namespace: str, deployment: str) -> list[Pod]:
        """Return the active pods whose controller is named like a ReplicaSet of a Deployment."""
        return self._hashed.get((namespace, f"{deployment}-"), [])


# ---- top controller ----------------------------------------------------------------------------------------
#
# The workload of a pod: the controller at the top of its chain of owners.


class Workload(NamedTuple):
    """The identity of a workload; that of the pod itself where nothing controls it.

    Attributes
    ----------
    group : str
        The API group of a kind that scheduling does not read; "" for the others.
    """

    namespace: str
    kind: str
    name: str
    group: str = ""

    @property
    def text(self) -> str:
        """As kubectl names it: ``deployment/web``, ``raycluster.ray.io/rc``."""
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind.lower()}/{self.name}" if kind else self.name


@cache
def group_to_show(kind: str, api_version: str) -> str:
    """Return the API group that tells a kind from those of one name that scheduling reads; "" for those."""
    return "" if is_known(kind, api_version) else api_version.rpartition("/")[0]


def controller_of(pod: Pod) -> Workload | None:
    """Return the controller of a pod, None if it has none."""
    owner = pod.metadata.controller()
    return None if owner is None else workload_of(pod.namespace, owner)


def workload_of(namespace: str, owner: OwnerReference) -> Workload:
    """Return the workload that an owner reference names."""
    return Workload(namespace, owner.kind, owner.name, group_to_show(owner.kind, owner.api_version))


_MOST = 1 << 14  # workloads come and go


class Workloads:
    """Finds the workloads of pods.

    Parameters
    ----------
    objects : iterable of Object
        The objects among which owners of owners are looked up, such as ReplicaSets and Jobs. For a ReplicaSet
        that is not among them, the pod's label ``pod-template-hash`` tells the name of the Deployment.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        self._controllers = {
            Workload(obj.namespace, obj.kind, obj.name): obj.metadata.controller() for obj in objects
        }
        self.top = lru_cache(_MOST)(self._top)
        self._of_owners = PartMemo(self._find)

    def of(self, pod: Pod) -> Workload:
        """Return the workload of a pod."""
        meta = pod.metadata
        workload = self._of_owners(meta.owner_references, meta.namespace, meta.labels.get(HASH_LABEL, ""))
        return Workload(meta.namespace, "Pod", meta.name) if workload is None else workload

    def _find(self, owners: tuple[OwnerReference, ...], namespace: str, template: str) -> Workload | None:
        owner = next((each for each in owners if each.controller), None)
        return None if owner is None else self.top(workload_of(namespace, owner), template)

    def _top(self, workload: Workload, template: str) -> Workload:
        """Return the last controller of a chain that begins with the controller of a pod, whose label
        ``pod-template-hash`` is given; `top` remembers it."""
        namespace, kind, name, _ = workload
        if workload not in self._controllers and kind == "ReplicaSet" and template:
            deployment = name.removesuffix(f"-{template}")
            return workload if deployment == name else Workload(namespace, "Deployment", deployment)
        seen = {workload}
        while (above := self._controllers.get(workload)) is not None:
            workload = workload_of(namespace, above)
            if workload in seen:  # owners in a circle
                break
            seen.add(workload)
        return workload


# ---- owners ------------------------------------------------------------------------------------------------
#
# Who owns what among listed objects, through any number of objects of unknown kinds.

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
            for owner in above if isinstance(obj, Pod) else ():
                self._pods[owner].append(obj)  # type: ignore[arg-type]
            for owner in nearest:
                self._nearest[owner].append(obj)

    def identity(self, obj: Object) -> Identity:
        """Return what names an object among all."""
        return full_kind(obj.kind, obj.api_version), self._namespace_of(obj), obj.name

    def _parents(self, name: Identity) -> tuple[Identity, ...]:
        """Return the owners of a listed object that are listed, or that others may name."""
        if name not in self._above:
            obj = self._listed.get(name)
            parents = []
            for owner in obj.metadata.owner_references if obj is not None else ():
                kind = full_kind(owner.kind, owner.api_version)
                scoped = kind, "", owner.name
                parents.append(scoped if scoped in self._listed else (kind, name[1], owner.name))
            self._above[name] = tuple(parents)
        return self._above[name]

    def _climb(self, parents: Iterable[Identity]) -> tuple[set[Identity], set[Identity]]:
        """Return all owners, and those between which and the object there are none that scheduling knows."""
        above: dict[Identity, bool] = {}
        pending = [(owner, True) for owner in parents]
        while pending:
            owner, is_near = pending.pop()
            if owner in above and above[owner] >= is_near:
                continue
            above[owner] = is_near
            obj = self._listed.get(owner)
            pending += [
                (parent, is_near and isinstance(obj, CustomObject | None)) for parent in self._parents(owner)
            ]
        return set(above), {owner for owner, is_near in above.items() if is_near}

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

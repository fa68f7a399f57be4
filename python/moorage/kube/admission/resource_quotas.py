"""The admission plugin ResourceQuota for pods (kubernetes v1.36, pkg/quota/v1/evaluator/core)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests

from ..model.meta import Object, Resources, plural, resource, total
from ..model.pod import Pod, PodAffinityTerm, PodSpec, ResourceRequirements
from ..model.policy import (
    LimitRange,
    ResourceQuota,
    ResourceQuotaStatus,
    ScopedResourceSelectorRequirement,
)
from ..model.resource_claims import (
    ALL,
    EXTENDED_CLAIM,
    OF_DEVICE_CLASS,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    is_extended,
)
from ..model.storage import BETA_STORAGE_CLASS, PersistentVolumeClaim
from ..model.workload import Service
from ..releases import Release
from ..workloads.ownership import FINISHED
from .pod_requests import (
    Quantities,
    bounds_of_requests,
    is_best_effort,
    pod_limits,
    quantities,
)
from .request import NotAdmittedError
from .validate_object import COMPUTE, HUGE_PAGES, QUOTA_OF_CLASS, REQUESTS

# ---- object counts -----------------------------------------------------------------------------------------
#
# What objects other than pods use of quotas (kubernetes v1.36, generic and persistent_volume_claims.go).

_ONE, ZERO = Quantity("1"), Quantity("0")
_STORAGE = "storage"
_LEGACY = frozenset(
    {
        "services",
        "secrets",
        "configmaps",
        "replicationcontrollers",
        "resourcequotas",
        "persistentvolumeclaims",
    }
)
"""Kinds that quotas may also count without the prefix ``count/``."""
_OF_KINDS = _LEGACY | {"requests.storage", "services.loadbalancers", "services.nodeports"}
_DEVICES, _MOST_DEVICES = ".deviceclass.resource.k8s.io/devices", 32
"""How a quota names the devices of a class; those of a request for all devices of a node."""


def counts_objects(name: str) -> bool:
    """Whether a quota counts other objects than pods by the name of a resource, whatever classes there are.

    Parameters
    ----------
    name : str
        Key of ``spec.hard``.
    """
    is_count = name.startswith("count/") and name != "count/pods"
    return is_count or name in _OF_KINDS or QUOTA_OF_CLASS in name or name.endswith(_DEVICES)


def usage_of_object(obj: Object) -> Quantities:
    """Return what an object that is no pod uses of the resources of quotas."""
    used, name = {f"count/{resource(type(obj))}": _ONE}, plural(type(obj))
    if name in _LEGACY:
        used[name] = _ONE
    if isinstance(obj, PersistentVolumeClaim):
        storage = quantities(obj.spec.resources.requests).get(_STORAGE)
        owned = {"persistentvolumeclaims": _ONE} | ({"requests.storage": storage} if storage else {})
        of_class = obj.metadata.annotations.get(BETA_STORAGE_CLASS) or obj.spec.storage_class_name
        if of_class:
            owned |= {f"{of_class}{QUOTA_OF_CLASS}{key}": amount for key, amount in owned.items()}
        used |= owned
    elif isinstance(obj, Service) and obj.spec.type in ("NodePort", "LoadBalancer"):
        # Load balancers have node ports, too, unless they do without; then those count that are named.
        is_balancer = obj.spec.type == "LoadBalancer"
        has_all = not is_balancer or obj.spec.allocate_load_balancer_node_ports is not False
        ports = [port for port in obj.spec.ports if has_all or port.node_port]
        used["services.nodeports"] = Quantity(len(ports))
        if is_balancer:
            used["services.loadbalancers"] = _ONE
    elif isinstance(obj, ResourceClaim):
        used |= total(map(_devices, obj.spec.devices.requests))
    return used


def _devices(request: DeviceRequest) -> Quantities:
    """Return the devices by class that a request needs at most: of alternatives the most of each class."""
    used: Quantities = {}
    for part in request.first_available or filter(None, [request.exactly]):
        number = Quantity(_MOST_DEVICES if part.allocation_mode == ALL else part.count)
        name = f"{part.device_class_name}{_DEVICES}"
        used[name] = max(used.get(name, ZERO), number)
    return used


class ClassResources:
    """The extended resources of device classes: a quota counts claims for the devices of a class by them, too
    (kubernetes v1.36, evaluator/core/resource_claims.go).

    Parameters
    ----------
    objects : iterable of Object
        With the device classes.
    pods, others : callable
        Return the pods and the other objects of a namespace.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        pods: Callable[[str], Iterable[Pod]],
        others: Callable[[str], Iterable[Object]],
    ) -> None:
        classes = (obj for obj in objects if isinstance(obj, DeviceClass))
        self._names = {each.name: each.spec.extended_resource_name for each in classes}
        self._pods, self._others = pods, others

    def counts(self, name: str) -> bool:
        """Whether claims count by the name of a resource of a quota."""
        of = name.removeprefix(REQUESTS)
        if of == name:
            return False
        return bool(self._names.get(of.removeprefix(OF_DEVICE_CLASS))) or of in self._names.values()

    def usage(self, obj: Object) -> Quantities:
        """Return what an object that is no pod uses of the resources of quotas. Of a claim that the scheduler
        has made for the extended resources of a pod, what the pod uses counts once."""
        used = usage_of_object(obj)
        if not (self._names and isinstance(obj, ResourceClaim)):
            return used
        of_pod = self._usage_of_owner(obj) if obj.metadata.annotations.get(EXTENDED_CLAIM) == "true" else {}
        for key in [key for key in used if key.endswith(_DEVICES)]:
            if named := self._names.get(name := key.removesuffix(_DEVICES)):
                for extended in (OF_DEVICE_CLASS + name, named):
                    left = used[key] - of_pod.get(REQUESTS + extended, ZERO)
                    if left.sign() > 0:
                        used[REQUESTS + extended] = left
        return used

    def _usage_of_owner(self, claim: ResourceClaim) -> Quantities:
        """Return what the pod uses that a claim for extended resources serves; nothing if it serves none, or
        is not the first that was made for it."""
        owner = claim.metadata.controller()
        owners = (pod for pod in self._pods(claim.namespace) if owner and pod.metadata.uid == owner.uid)
        pod = next(owners, None)
        if pod is None:
            return {}
        if (status := pod.status.extended_resource_claim_status) is not None:
            return usage(pod) if status.resource_claim_name == claim.name else {}
        rivals = (
            (obj.metadata.creation_timestamp or "", obj.name)
            for obj in self._others(claim.namespace)
            if isinstance(obj, ResourceClaim) and EXTENDED_CLAIM in obj.metadata.annotations
            if (other := obj.metadata.controller()) and other.uid == pod.metadata.uid
        )
        own = claim.metadata.creation_timestamp or "new", claim.name
        return usage(pod) if min(rivals, default=own) >= own else {}


def violations_of_object(
    obj: Object, old: Object | None, limit_range: LimitRange, release: Release
) -> Iterator[str]:
    """Yield what a limit range forbids of an object that is no pod, in upstream's words: of claims alone."""
    if isinstance(obj, PersistentVolumeClaim):
        requests, kept = quantities(obj.spec.resources.requests), dict[str, Quantity]()
        if release.kept_requests_pass and isinstance(old, PersistentVolumeClaim):
            kept = quantities(old.spec.resources.requests)
        for item in limit_range.spec.limits:
            if item.type == obj.kind:
                yield from bounds_of_requests(item, requests, kept, release.limits_are_exact)


# ---- resource quotas ---------------------------------------------------------------------------------------

_COUNT = "count/pods"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = {
    *(_COUNT, "pods", *_COMPUTE),
    *(f"{prefix}{name}" for prefix in (REQUESTS, "limits.") for name in _COMPUTE),
}


def is_counted(resource: str) -> bool:
    """Whether the usage of pods counts for a resource of a quota.

    Parameters
    ----------
    resource : str
        Key of ``spec.hard``.
    """
    return (
        resource in _COUNTED
        or resource.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))
        or (resource.startswith(REQUESTS) and is_extended(resource.removeprefix(REQUESTS)))
    )


def _computed(requests: Quantities | Resources, limits: Quantities | Resources) -> dict[str, object]:
    """Amounts by the names that quotas have for them (podComputeUsageHelper)."""
    used: dict[str, object] = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES):
            used[name] = amount
        if name in _COMPUTE or name.startswith(HUGE_PAGES) or is_extended(name):
            used[f"{REQUESTS}{name}"] = amount
    used |= {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    return used


def usage(pod: Pod) -> Quantities:
    """Return what a pod uses of the resources of quotas (PodUsageFunc).

    Returns
    -------
    dict of str to Quantity
        A finished pod counts for ``count/pods`` only.
    """
    used = {_COUNT: _ONE}
    if pod.status.phase not in FINISHED:
        used |= _computed(pod_requests(pod), pod_limits(pod))  # type: ignore[arg-type]
    return used


class QuotaUsage:
    """A quota of a namespace, and what its pods use of it.

    Parameters
    ----------
    quota : ResourceQuota
        With the status that `without_counted_usage` leaves it.
    pods : iterable of Pod
        The pods of its namespace.
    objects : iterable of (Object, Quantities)
        The other objects of its namespace, with what they use.
    """

    def __init__(
        self, quota: ResourceQuota, pods: Iterable[Pod], objects: Iterable[tuple[Object, Quantities]] = ()
    ) -> None:
        self.name = quota.name
        self._scopes = list(_scopes(quota))
        self._hard = quantities(quota.spec.hard)
        self._counted = {name for name in self._hard if is_counted(name)}
        elsewhere = {name: quota.status.used.get(name, 0) for name in self._counted}
        self._used = dict.fromkeys(self._hard, ZERO) | quantities(elsewhere)
        for pod in pods if self._counted else ():
            if self.matches(pod):
                self.charge(usage(pod))
        for obj, used in objects:
            if self.counts_object(obj, used):
                self.charge(used)

    def use(self) -> dict[str, tuple[Quantity, Quantity]]:
        """Return what is used and what is allowed by resource."""
        return {name: (self._used[name], hard) for name, hard in self._hard.items()}

    def matches(self, pod: Pod) -> bool:
        """Whether the quota counts a pod."""
        return bool(self._counted) and all(_is_in_scope(pod, scope) for scope in self._scopes)

    def counts_object(self, obj: Object, used: Quantities) -> bool:
        """Whether the quota counts an object that is no pod; those with scopes count claims of a class alone.

        Parameters
        ----------
        used : mapping
            See `ClassResources.usage`.
        """
        if self._hard.keys().isdisjoint(used):
            return False
        return all(  # v1.36, pvcMatchesScope
            isinstance(obj, PersistentVolumeClaim)
            and scope.scope_name == "VolumeAttributesClass"
            and _is_selected(obj.spec.volume_attributes_class_name or "", scope)
            for scope in self._scopes
        )

    def check_constraints(self, spec: PodSpec) -> None:
        """Check that each container sets cpu and memory where the quota limits them, unless the pod sets any.

        Raises
        ------
        NotAdmittedError
            A container does not.
        """
        whole = spec.resources or ResourceRequirements()
        if any(
            name in ("cpu", "memory") or name.startswith(HUGE_PAGES) for name in whole.requests | whole.limits
        ):
            return
        missing: dict[str, set[str]] = {}
        for container in (*spec.containers, *spec.init_containers):
            own = _computed(container.resources.requests, container.resources.limits)
            for name in self._counted & COMPUTE - own.keys():
                missing.setdefault(name, set()).add(container.name)
        if missing:
            texts = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
            raise NotAdmittedError(f"failed quota: {self.name}: must specify {'; '.join(texts)}")

    def check(self, used: Quantities) -> None:
        """Check that the quota has room for the usage of one more pod.

        Parameters
        ----------
        used : dict of str to Quantity
            See `usage`.

        Raises
        ------
        NotAdmittedError
            It does not.
        """
        more = self._more(used)
        exceeded = [name for name, amount in more.items() if self._used[name] + amount > self._hard[name]]
        if exceeded:
            parts = (("requested", more), ("used", self._used), ("limited", self._hard))
            texts = [
                f"{word}: " + ",".join(f"{name}={amounts[name]}" for name in sorted(exceeded))
                for word, amounts in parts
            ]
            raise NotAdmittedError(f"exceeded quota: {self.name}, {', '.join(texts)}")

    def room(self, used: Quantities, most: int) -> int:
        """Return for how many pods of one usage the quota has room.

        Parameters
        ----------
        used : dict of str to Quantity
            See `usage`.
        """
        for name, amount in self._more(used).items():
            left = self._hard[name] - self._used[name]
            most = bisect_right(range(1, most + 1), left, key=partial(_times, amount))
        return most

    def charge(self, used: Quantities, n: int = 1) -> None:
        """Add the usage of pods.

        Parameters
        ----------
        used : dict of str to Quantity
            See `usage`.
        n : int
            Number of pods, each of which uses that; below 0 for pods that go.
        """
        for name, amount in self._more(used).items():
            self._used[name] += _times(amount, n)

    def _more(self, used: Quantities) -> Quantities:
        """The part of a usage that the quota counts."""
        return {name: used[name] for name in self._hard if name in used and used[name].sign()}


def without_counted_usage(objects: list[Object], pods: Iterable[Pod]) -> list[Object]:
    """Return objects whose quotas have no status in namespaces with pods: these are counted. Of a namespace
    without any, the status alone tells what its pods use.
    """
    if not any(isinstance(obj, ResourceQuota) and obj.status.used for obj in objects):
        return objects
    spaces = {pod.namespace for pod in pods}
    return [
        replace(obj, status=ResourceQuotaStatus())
        if isinstance(obj, ResourceQuota) and obj.namespace in spaces
        else obj
        for obj in objects
    ]


def _times(amount: Quantity, n: int) -> Quantity:
    return amount if n == 1 else amount * Quantity(n)


def _scopes(quota: ResourceQuota) -> Iterator[ScopedResourceSelectorRequirement]:
    for name in quota.spec.scopes:
        yield ScopedResourceSelectorRequirement(scope_name=name, operator="Exists")
    if quota.spec.scope_selector is not None:
        yield from quota.spec.scope_selector.match_expressions


def _is_in_scope(pod: Pod, scope: ScopedResourceSelectorRequirement) -> bool:
    """Whether a pod is in a scope (podMatchesScopeFunc)."""
    name = scope.scope_name
    if name in ("Terminating", "NotTerminating"):
        deadline = pod.spec.active_deadline_seconds
        return (deadline is not None and deadline >= 0) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return is_best_effort(pod) == (name == "BestEffort")
    if name == "PriorityClass":
        return _is_selected(pod.spec.priority_class_name, scope)
    return name == "CrossNamespacePodAffinity" and any(
        term.namespaces or term.namespace_selector is not None for term in _affinity_terms(pod.spec)
    )


def _is_selected(own: str, scope: ScopedResourceSelectorRequirement) -> bool:
    """Whether a scope selects the name of a class; "" is none."""
    if scope.operator in ("Exists", "DoesNotExist"):
        return bool(own) == (scope.operator == "Exists")
    return (own in scope.values and bool(own)) == (scope.operator == "In")


def _affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    affinity = spec.affinity
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if part is not None:
            yield from part.required
            yield from (weighted.pod_affinity_term for weighted in part.preferred)

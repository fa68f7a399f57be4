"""What the pods of each namespace request, and how much of its quotas is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, pod_requests
from moorage.cluster import PodScheduler
from moorage.controllers.store_control import admission_of
from moorage.kube import Pod
from moorage.kube.admission.pod_resources import pod_limits
from moorage.kube.model.admission_policies import ResourceQuota


class NamespaceUse(Struct, frozen=True):
    """What the pods of a namespace request that have a node, and its quotas, which count all pods.

    Attributes
    ----------
    name : str
    pods : int
    requests, limits : dict of str to str
        Quantities by resource.
    quotas : dict of str to (dict of str to (str, str))
        By quota and resource, what is used and what is allowed.
    """

    name: str
    pods: int
    requests: dict[str, str]
    limits: dict[str, str]
    quotas: dict[str, dict[str, tuple[str, str]]]

    def to_dict(self) -> dict[str, Any]:
        """Return the use as a JSON value."""
        quotas = [
            {
                "name": quota,
                "resources": {name: {"used": used, "hard": hard} for name, (used, hard) in its.items()},
            }
            for quota, its in self.quotas.items()
        ]
        return asdict(self) | {"quotas": quotas}


def namespace_use(scheduler: PodScheduler, only: str = "") -> list[NamespaceUse]:
    """Return the use of namespaces that have a pod with a node or a quota, by name.

    Parameters
    ----------
    only : str, optional
        The one namespace to return.
    """
    scheduler.sync()
    pods = defaultdict[str, list[Pod]](list)
    for pod in scheduler.cache.state.pods():
        pods[pod.namespace].append(pod)
    listed: list[ResourceQuota] = scheduler.client.list(ResourceQuota)[0]
    names = {only} if only else {*pods, *(quota.namespace for quota in listed)}
    admission = admission_of(scheduler.client)
    return [
        NamespaceUse(
            name,
            len(pods[name]),
            _sum(pod_requests(pod) for pod in pods[name]),
            _sum(pod_limits(pod) for pod in pods[name]),
            {quota.name: quota.use() for quota in admission.quotas_of(name)},
        )
        for name in sorted(names)
    ]


def _sum(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for amounts_of_pod in amounts:
        for name, amount in amounts_of_pod.items():
            total[name] = total.get(name, ZERO) + amount
    return {name: str(amount) for name, amount in sorted(total.items())}

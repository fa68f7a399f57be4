"""What objects other than pods use of quotas (kubernetes v1.36, generic and persistent_volume_claims.go)."""

from __future__ import annotations

from collections.abc import Iterator

from moorage._core.base.quantity import Quantity

from ..model.admission_policies import LimitRange
from ..model.meta import Object
from ..model.storage import PersistentVolumeClaim
from ..resource_names import plural, resource
from .limit_ranges import bounds_of_requests
from .pod_resources import Quantities, quantities

_ONE = Quantity("1")
_OF_CLASS = ".storageclass.storage.k8s.io/"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
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


def counts_objects(name: str) -> bool:
    """Whether a quota counts other objects than pods by the name of a resource.

    Parameters
    ----------
    name : str
        Key of ``spec.hard``.
    """
    is_count = name.startswith("count/") and name != "count/pods"
    return is_count or name in _LEGACY or name == "requests.storage" or _OF_CLASS in name


def usage_of_object(obj: Object) -> Quantities:
    """Return what an object that is no pod uses of the resources of quotas."""
    used, name = {f"count/{resource(type(obj))}": _ONE}, plural(type(obj))
    if name in _LEGACY:
        used[name] = _ONE
    if isinstance(obj, PersistentVolumeClaim):
        storage = quantities(obj.spec.resources.requests).get(_STORAGE)
        owned = {"persistentvolumeclaims": _ONE} | ({"requests.storage": storage} if storage else {})
        used |= owned
        of_class = obj.metadata.annotations.get(_BETA_CLASS) or obj.spec.storage_class_name
        if of_class:
            used |= {f"{of_class}{_OF_CLASS}{key}": amount for key, amount in owned.items()}
    return used


def violations_of_object(obj: Object, limit_range: LimitRange) -> Iterator[str]:
    """Yield what a limit range forbids of an object that is no pod, in upstream's words: of claims alone.

    Parameters
    ----------
    limit_range : LimitRange
        Of its namespace.
    """
    if isinstance(obj, PersistentVolumeClaim):
        requests = quantities(obj.spec.resources.requests)
        for item in limit_range.spec.limits:
            if item.type == obj.kind:
                yield from bounds_of_requests(item, requests)

"""Admitted objects as they are stored: all fields, those that scheduling does not read as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ...apiserver.unread_fields import unread_type
from ...field_errors import Json, part, parts
from ...model.meta import Object
from ...model.node import REGION, ZONE, Node
from ...model.pod import PREEMPTS, Pod
from ...model.policy import AdmissionPlugins
from ...model.storage import PersistentVolumeClaim
from ...plain import joined, plain
from ...read.object_defaults import NOT_READY, missing_tolerations
from ...releases import ALWAYS_PULL_IMAGES, DEFAULT_GATES, FeatureGates
from ..built_in_plugins import ServiceAccounts
from .service_accounts import all_containers, with_account
from .strategies import as_stored
from .version_defaults import with_version_defaults

_PROTECTION = {"PersistentVolumeClaim": "pvc-protection", "PersistentVolume": "pv-protection"}
"""What keeps an object in use (StorageObjectInUseProtection), by kind."""


class StoredObjects:
    """Completes objects that were admitted.

    Parameters
    ----------
    objects : iterable of Object
        Service accounts and nodes; other kinds are ignored.
    gates : FeatureGates
        Those of the API server, with its release.
    """

    def __init__(self, objects: Iterable[Object], gates: FeatureGates = DEFAULT_GATES) -> None:
        listed, self._gates = list(objects), gates
        self._accounts = ServiceAccounts(listed)
        switched = [obj for obj in listed if isinstance(obj, AdmissionPlugins)]
        self._pulls = any(ALWAYS_PULL_IMAGES in obj.plugins for obj in switched)
        self._nodes = {obj.name: obj for obj in listed if isinstance(obj, Node)}

    def value(self, obj: Object, document: Json) -> Json:
        """Return an admitted object as it is stored.

        Parameters
        ----------
        obj : Object
            As the plugins have changed it.

        Returns
        -------
        dict
            Without the fields that only a server knows, such as addresses.
        """
        value = with_version_defaults(document, obj.kind, obj.api_version, self._gates)
        meta = value.setdefault("metadata", {})
        meta.update(plain(obj.metadata))
        if isinstance(obj, Pod):
            read = with_read_fields(value, obj)
            value = with_version_defaults(read, obj.kind, obj.api_version, self._gates)
            with_account(value, self._accounts)
            for container in all_containers(part(value, "spec")) if self._pulls else ():
                container["imagePullPolicy"] = "Always"
            if (node := self._nodes.get(obj.spec.node_name)) is not None:
                labels = node.metadata.labels  # the plugin PodTopologyLabels
                of_node = {key: labels[key] for key in (REGION, ZONE) if key in labels}
                part(value, "metadata").setdefault("labels", {}).update(of_node)
        elif isinstance(obj, PersistentVolumeClaim) and obj.spec.storage_class_name is not None:
            value["spec"]["storageClassName"] = obj.spec.storage_class_name
        if (name := _PROTECTION.get(obj.kind)) is not None:
            finalizer = f"kubernetes.io/{name}"
            meta["finalizers"] = [*dict.fromkeys([*(meta.get("finalizers") or ()), finalizer])]
        if isinstance(obj, Node):
            _taint(value)
        as_stored(value)
        return value


def with_read_fields(value: Json, pod: Pod) -> Json:
    """Return a pod with the spec of a struct, and of a JSON value only the fields that the struct lacks."""
    unread: Any = msgspec.convert(part(value, "spec"), unread_type(Any))
    spec = joined(plain(pod.spec), msgspec.to_builtins(unread))
    tolerations = [*(spec.get("tolerations") or ()), *map(plain, missing_tolerations(pod.spec.tolerations))]
    return value | {"spec": {"preemptionPolicy": PREEMPTS, **spec, "tolerations": tolerations}}


def _taint(node: Json) -> None:
    """A new node is not ready (TaintNodesByCondition)."""
    spec = node.setdefault("spec", {})
    taints = parts(spec, "taints")
    if not any((taint.get("key"), taint.get("effect")) == (NOT_READY, "NoSchedule") for taint in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

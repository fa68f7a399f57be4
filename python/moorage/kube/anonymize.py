"""Replaces the names and labels of objects by meaningless ones, so that decisions stay the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

from msgspec.structs import fields, replace

from .model.meta import LAST_APPLIED, Object, Struct
from .model.storage import CSIDriver, CSINode, StorageClass
from .model.workload import ControllerRevision, PodTemplateSpec
from .read.object_defaults import decoded_revision


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


Rename = Callable[[str], str]

_WORD = re.compile(r":latest$|(\d*)([A-Za-z][A-Za-z0-9]*)")
_KUBERNETES = re.compile(r"([a-z0-9.-]+\.)?(kubernetes|k8s)\.io/")
"""What begins like this is defined by Kubernetes."""
_KNOWN = _names(
    "default kube-system kube-public kube-node-lease system-node-critical system-cluster-critical "
    "pod-template-hash pod-template-generation controller-revision-hash controller-uid job-name "
    "metadata.name true false yes"
)
"""What schedulers and controllers know by name."""
_MAX_LABEL = 63
_QUOTA_OF_CLASS = ".storageclass.storage.k8s.io/"

_TEXTS = _names(
    "api_version apiVersion kind uid resource_version creation_timestamp deletion_timestamp time_added "
    "start_time completion_time last_transition_time allocation_timestamp operator effect type status reason "
    "phase protocol host_ip restart_policy action preemption_policy when_unsatisfiable node_affinity_policy "
    "node_taints_policy access_modes volume_mode capacity maximum_volume_size min_available max_unavailable "
    "max_surge qos_class completion_mode completed_indexes failed_indexes disruption_mode "
    "pod_management_policy reclaim_policy persistent_volume_reclaim_policy volume_binding_mode "
    "allocation_mode source scope_name scopes match_attribute distinct_attribute expression "
    "extended_resource_name resource_name resource api_group declared_features driver provisioner attacher "
    "scheduler_name binding_conditions binding_failure_conditions share_id concurrency_policy "
    "controlled_values mode pod_replacement_policy unhealthy_pod_eviction_policy when_deleted when_scaled"
)
"""Attributes whose texts stay: enumerations, times, quantities, resources, and what expressions name."""
_MAPS = _names(
    "capacity allocatable requests limits overhead pod_fixed allocated_resources consumed_capacity min max "
    "default default_request max_limit_request_ratio attributes counters"
)
"""Attributes whose maps stay: quantities by resource, and what a device has."""


def anonymize(objects: Iterable[Object]) -> list[Object]:
    """Rename objects, labels, taints and images.

    Each word, in the sense of letters and digits between other characters, becomes another one wherever it
    stands, and numbers stay. So references, selectors and names that are made of others still fit. New words
    have the order of the old ones, because names decide some ties. What Kubernetes defines stays: keys with
    ``kubernetes.io`` or ``k8s.io``, namespaces such as ``default``; so do the names of resources, schedulers
    and drivers, and the attributes of devices, which expressions name. Other annotations, messages and
    parameters are left out.

    Returns
    -------
    list of Object
        In the same order. The result depends on the objects alone.
    """
    objects = [decoded_revision(one) if isinstance(one, ControllerRevision) else one for one in objects]
    texts: set[str] = set()

    def record(text: str) -> str:
        texts.add(text)
        return text

    for obj in objects:
        _renamed(obj, "", record)
    rename = _renaming(texts - _kept(objects))
    return [_renamed(obj, "", rename) for obj in objects]


def _kept(objects: Iterable[Object]) -> set[str]:
    """Return the names of drivers, and the labels that they define."""
    kept: set[str] = set()
    for obj in objects:
        if isinstance(obj, CSIDriver):
            kept.add(obj.name)
        elif isinstance(obj, StorageClass):
            kept.add(obj.provisioner)
        elif isinstance(obj, CSINode):
            for driver in obj.spec.drivers:
                kept.update((driver.name, *driver.topology_keys))
    return kept


def _renaming(texts: Iterable[str]) -> Rename:
    """Return what renames these texts; others stay."""
    texts = [text for text in texts if text not in _KNOWN and not _KUBERNETES.match(text)]
    words = sorted({match[2] for text in texts for match in _WORD.finditer(text) if match[2]})
    width = len(_letters(max(len(words) - 1, 0), 1))
    new = {word: _letters(number, width) for number, word in enumerate(words)}

    def of(match: re.Match[str]) -> str:
        return match[1] + new[match[2]] if match[2] else match[0]

    renamed = {text: _WORD.sub(of, text) for text in texts}
    long = sorted(text for text in texts if len(text) <= _MAX_LABEL < len(renamed[text]))
    renamed |= {text: f"long-{number}" for number, text in enumerate(long)}
    return lambda text: renamed.get(text, text)


def _letters(number: int, width: int) -> str:
    """Write a number with the digits a to z."""
    text = ""
    while number or len(text) < width:
        number, digit = divmod(number, 26)
        text = chr(ord("a") + digit) + text
    return text


def _renamed(value: Any, name: str, rename: Rename) -> Any:
    """Return the value of an attribute with its texts renamed."""
    if isinstance(value, str):
        return (
            ""
            if name in ("message", "unread", "managed_fields")
            else value
            if name in _TEXTS
            else rename(value)
        )
    if name == "os":
        return value
    if isinstance(value, tuple):
        return tuple(_renamed(one, name, rename) for one in value)
    if isinstance(value, dict):
        return _renamed_map(value, name, rename)
    if not isinstance(value, Struct):
        return value
    old = {one.name: getattr(value, one.name) for one in fields(value)}
    new = replace(value, **{key: _renamed(one, key, rename) for key, one in old.items() if one})
    return replace(new, unread=_left_out(value)) if isinstance(value, PodTemplateSpec) else new


def _left_out(template: PodTemplateSpec) -> str:
    """Return a field that differs where what is left out of templates does, so that a ReplicaSet is still the
    one of its Deployment's template."""
    told = template.unread, sorted(template.metadata.annotations.items())
    if told == ("", []):
        return ""
    digest = sha256(repr(told).encode()).hexdigest()[:16]
    return f'{{"containers":[{{"workingDir":"/{digest}"}}]}}'


def _renamed_map(value: dict[str, Any], name: str, rename: Rename) -> Any:
    if name in _MAPS:
        return value
    if name == "parameters":
        return {}
    if name in ("data", "spec", "workload_ref"):  # JSON, not a map of names
        return {key: _renamed(one, key, rename) for key, one in value.items()}
    if name == "annotations":
        value = {key: one for key, one in value.items() if _KUBERNETES.match(key) and key != LAST_APPLIED}
    if name == "hard":
        return {_of_quota(key, rename): one for key, one in value.items()}
    if name == "disrupted_pods":  # times
        return {rename(key): one for key, one in value.items()}
    return {rename(key): _renamed(one, "", rename) for key, one in value.items()}


def _of_quota(key: str, rename: Rename) -> str:
    """Return the resource of a quota, which may name a storage class."""
    name, separator, resource = key.partition(_QUOTA_OF_CLASS)
    return f"{rename(name)}{separator}{resource}" if separator else key

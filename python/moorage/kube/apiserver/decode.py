"""Decodes one object from JSON or YAML, without defaults and validation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from math import isinf
from operator import attrgetter
from typing import Any, Generic, TypeGuard, TypeVar, cast

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError

from ..model import node, pod, pod_group, resource_claims, storage
from ..model.admission_registration import ADMISSION_POLICIES, WEBHOOKS
from ..model.autoscaling import KARPENTER_KINDS
from ..model.autoscaling import KINDS as AUTOSCALING_KINDS
from ..model.meta import LAST_APPLIED, Object
from ..model.policy import ADMISSION_KINDS
from ..model.policy import KINDS as POLICY_KINDS
from ..model.resource_claims import API_VERSION
from ..model.resource_slices import KINDS as SLICE_KINDS
from ..model.workload import KINDS as WORKLOAD_KINDS
from ..model.workload import KUEUE, OTHER_KINDS, CronJob, PodTemplateSpec, full_kind
from .unread_fields import unread_text, unread_type

# ---- resource versions -------------------------------------------------------------------------------------
#
# Reads v1alpha3, v1beta1 and v1beta2 of resource.k8s.io into v1.
#
# v1beta2 has the fields of v1. In v1beta1, and in v1alpha3 as it was last, an exact request stands in the
# request itself, and the properties of a device in the field ``basic``.

GROUP = "resource.k8s.io"
_ALPHA3 = f"{GROUP}/v1alpha3"
_BETA1 = f"{GROUP}/v1beta1"
_BETA2 = f"{GROUP}/v1beta2"
_EXACT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def to_v1(value: dict[str, Any], kind: str) -> dict[str, Any]:
    """Convert an object of an earlier version.

    Parameters
    ----------
    value : dict
        The JSON value of an object; fields of a wrong type are left to the decoder.

    Returns
    -------
    dict
        `value` itself if it is of no earlier version.
    """
    version = value.get("apiVersion")
    if version not in (_ALPHA3, _BETA1, _BETA2) or kind == "DeviceTaintRule":
        return value
    converted = value | {"apiVersion": API_VERSION}
    if version != _BETA2 and kind in _CONVERSIONS and isinstance(value.get("spec"), dict):
        converted["spec"] = _CONVERSIONS[kind](value["spec"])
    return converted


def _claim(spec: dict[str, Any]) -> dict[str, Any]:
    return _changed(spec, "devices", lambda devices: _changed_each(devices, "requests", _request))


def _template(spec: dict[str, Any]) -> dict[str, Any]:
    return _changed(spec, "spec", _claim)


def _slice(spec: dict[str, Any]) -> dict[str, Any]:
    return _changed_each(spec, "devices", _device)


def _request(request: dict[str, Any]) -> dict[str, Any]:
    exact = {key: request[key] for key in _EXACT if key in request}
    rest = {key: item for key, item in request.items() if key not in exact}
    return rest | {"exactly": exact} if exact.get("deviceClassName") else rest


def _device(device: dict[str, Any]) -> dict[str, Any]:
    basic = device.get("basic")
    if not isinstance(basic, dict):
        return device
    return {key: item for key, item in device.items() if key != "basic"} | basic


def _changed(value: dict[str, Any], key: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy with the map of a key changed; `value` itself if there is no such map."""
    part = value.get(key)
    return value | {key: change(part)} if isinstance(part, dict) else value


def _changed_each(value: dict[str, Any], key: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy with each map of the list of a key changed; `value` itself if there is no such list."""
    items = value.get(key)
    if not isinstance(items, list):
        return value
    return value | {key: [change(item) if isinstance(item, dict) else item for item in items]}


_CONVERSIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "ResourceSlice": _slice,
}


# ---- decode ------------------------------------------------------------------------------------------------

T = TypeVar("T")
K = TypeVar("K", bound=Object)

Document = bytes | msgspec.Raw | dict[str, Any]
"""One undecoded object: JSON text, or a JSON value."""

_KINDS: dict[str, type[Object]] = {
    struct.__name__: struct
    for kinds in (
        *(node.KINDS, pod.KINDS, pod_group.KINDS, resource_claims.KINDS, storage.KINDS),
        *(POLICY_KINDS, SLICE_KINDS, WORKLOAD_KINDS, OTHER_KINDS),
        *(ADMISSION_KINDS, ADMISSION_POLICIES, AUTOSCALING_KINDS, KARPENTER_KINDS, WEBHOOKS),
    )
    for struct in kinds
}
_KRUISE = "apps.kruise.io"  # whose Advanced StatefulSets and DaemonSets make the same pods
_ALIASES: dict[str, tuple[str, ...]] = dict.fromkeys(("ReplicaSet", "Deployment"), ("extensions",))
_ALIASES |= dict.fromkeys(("StatefulSet", "DaemonSet"), ("extensions", _KRUISE))
_ALIASES |= {"PodGroup": (pod_group.GODEL,)}
_GROUPS = {
    kind: (struct().api_version.rpartition("/")[0], *_ALIASES.get(kind, ()))
    for kind, struct in _KINDS.items()
}
"""API groups by kind."""
_GLOBAL_OF_KUEUE = (
    "ClusterQueue",
    "Cohort",
    "ResourceFlavor",
    "Topology",
    "AdmissionCheck",
    "WorkloadPriorityClass",
)
_GROUPS |= dict.fromkeys((*_GLOBAL_OF_KUEUE, "LocalQueue", "Workload"), (KUEUE,))  # few clusters have them
_GONE = {("PodGroup", "scheduling.k8s.io/v1alpha2"): pod_group.PodGroup().api_version}
"""Kinds and versions of an alpha that ended with Kubernetes 1.36, and the version that is read."""
CLUSTER_SCOPED = frozenset(
    {
        *("Node", "Namespace", "PriorityClass", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        *("RuntimeClass", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"),
        *("Scheduler", "AdmissionPlugins", "NodePool", "NodeClaim", "NodeOverlay"),
        *("EC2NodeClass", "NodeClass", "AKSNodeClass", "GCENodeClass"),
        *(struct.__name__ for struct in (*ADMISSION_POLICIES, *WEBHOOKS)),
        *_GLOBAL_OF_KUEUE,
        "NodeMetrics",
    }
)

# Go decodes null in a map of strings or quantities as the zero value; the key is kept.
_MAP_ZERO = dict.fromkeys(("labels", "annotations", "matchLabels", "nodeSelector"), "") | dict.fromkeys(
    ("requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources"), "0"
)
_STEP = r"\.?([^.\[]+)|\[(\d+|\.\.\.)\]"
_WORDS = {
    "int": "integer",
    "str": "string",
    "bool": "boolean",
    "float": "number",
    "object": "map",
    "array": "list",
}


UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for a text that is no JSON, or of another form, or no UTF-8, or nested too deeply."""


class Head(msgspec.Struct, Generic[T], rename="camel"):
    """The fields that decide how a document is read; the items of a list stay undecoded."""

    kind: str = ""
    api_version: str = ""
    items: list[T] | msgspec.UnsetType | None = msgspec.UNSET


def is_known(kind: str, api_version: str) -> bool:
    """Whether objects of a kind are read.

    Parameters
    ----------
    api_version : str
        ``group/version``; "" matches every group. Of the versions, only an alpha of pod groups is not read;
        `check_kind` refuses those that never existed.
    """
    groups = None if (kind, api_version) in _GONE else _GROUPS.get(kind)
    return groups is not None and (not api_version or api_version.rpartition("/")[0] in groups)


def versions_gone() -> dict[str, str]:
    """Return the kinds of which files may have a version that is not read any more.

    Returns
    -------
    dict of str to str
        Kind and API group, as `full_kind` returns them, to what should be written instead.
    """
    return {
        full_kind(kind, old): f"{kind} of {old}, which ended with Kubernetes 1.36: write it as {new}"
        for (kind, old), new in _GONE.items()
    }


def decode_object(document: Document) -> Object:
    """Decode one object by its kind, without defaults and validation.

    Unknown fields are ignored and null counts as absent, as in the Kubernetes API.

    Parameters
    ----------
    document : dict or bytes
        The object as a JSON value, or its JSON text.

    Raises
    ------
    InputError
        Scheduling does not read the kind, or a field has a wrong type.
    """
    header = decode(document, Head[Any])
    if not header.kind:
        raise InputError("no kind")
    if not is_known(header.kind, header.api_version):
        raise InputError(f"unknown kind {header.kind} ({header.api_version or 'no apiVersion'})")
    return decode_kind(document, header.kind)


def decode_kind(document: Document, kind: str) -> Object:
    """Decode an object of a known kind, with the rules of `decode_object`.

    Parameters
    ----------
    document : dict or bytes
        The object as a JSON value, or its JSON text.
    kind : str
        A kind for which `is_known` is true.

    Raises
    ------
    InputError
        A field has a wrong type.
    """
    if _GROUPS[kind][0] == GROUP:
        document = to_v1(decode(document, dict[str, Any]), kind)
    elif _GROUPS[kind][0] == KUEUE:
        from .kueue_versions import KINDS, to_v1beta2

        return decode_as(to_v1beta2(decode(document, dict[str, Any]), kind), KINDS[kind])
    return decode_as(document, _KINDS[kind])


def check_required(document: Document, kind: str) -> None:
    """Refuse an object of a kind that is read if it lacks what no struct tells: quotas of Kueue.

    Raises
    ------
    InputError
        A field is missing.
    """
    if _GROUPS.get(kind, ("",))[0] == KUEUE:
        from .kueue_versions import check_quotas

        check_quotas(decode(document, dict[str, Any]))


def decode_as(document: Document, struct: type[K]) -> K:
    """Decode an object into a struct of a kind, with the rules of `decode_object`.

    Parameters
    ----------
    document : dict or bytes
        The object, or some of its fields, as a JSON value, or its JSON text.
    struct : type
        The struct of the kind.

    Returns
    -------
    Object
        Its pod template, or itself if it is a new pod, has the fields that are not read in `unread`, and its
        metadata who manages which fields, if that is not known by an annotation.

    Raises
    ------
    InputError
        A field has a wrong type.
    """
    obj = decode(document, struct)
    meta, spec = obj.metadata, cast("Any", getattr(obj, "spec", None))
    if meta.uid and not meta.owner_references and LAST_APPLIED not in meta.annotations:
        managers = decode(document, _Managed).metadata.managed_fields
        if any(isinstance(manager, dict) and manager.get("operation") == "Apply" for manager in managers):
            text = msgspec.json.encode(managers).decode()
            obj = replace(obj, metadata=replace(meta, managed_fields=text))
    if isinstance(obj, pod.Pod) and not (meta.uid or meta.resource_version):
        return cast("K", replace(obj, unread=pod.UnreadFields(unread_text(_unread(document, "spec")))))
    if isinstance(template := getattr(spec, "template", None), PodTemplateSpec):
        if unread := unread_text(_unread(document, *_TEMPLATE)):
            obj = replace(obj, spec=replace(spec, template=replace(template, unread=unread)))
    elif isinstance(obj, CronJob):
        job, unread = spec.job_template, unread_text(_unread(document, *_JOB_TEMPLATE))
        job = replace(job, spec=replace(job.spec, template=replace(job.spec.template, unread=unread)))
        obj = cast("K", replace(obj, spec=replace(spec, job_template=job))) if unread else obj
    return obj


class _ManagedMeta(msgspec.Struct, rename="camel"):
    managed_fields: list[Any] = []


class _Managed(msgspec.Struct):
    metadata: _ManagedMeta = msgspec.field(default_factory=_ManagedMeta)


def decode_template(value: dict[str, Any]) -> PodTemplateSpec:
    """Decode a pod template, with the rules of `decode_object`.

    Raises
    ------
    InputError
        A field has a wrong type.
    """
    unread = unread_text(_unread(value, "spec"))
    return replace(decode(value, PodTemplateSpec), unread=unread)


_TEMPLATE = ("spec", "template", "spec")
_JOB_TEMPLATE = ("spec", "jobTemplate", *_TEMPLATE)
"""The paths of the spec of the pods that an object makes."""


def _unread(document: Document, *path: str) -> Any:
    """Return the unread fields of the spec of pods at a path of an object; of JSON text they stay text."""
    if is_json(document):
        with suppress(msgspec.ValidationError):
            return attrgetter(".".join(path))(msgspec.json.decode(document, type=_holder(msgspec.Raw, *path)))
    return attrgetter(".".join(path))(decode(document, _holder(Any, *path)))


@cache
def _holder(value: Any, *path: str) -> Any:
    """Return the type to decode the unread fields at a path of an object into, each to a value."""
    inner = unread_type(value)
    for name in reversed(path):
        inner = msgspec.defstruct("Holder", [(name, inner, inner())], frozen=True)
    return inner


def decode(document: Document, type_: type[T]) -> T:
    """Decode a value into a struct, with the rules of `decode_object`.

    Parameters
    ----------
    document : dict or bytes
        A JSON value, or its JSON text.
    type_ : type
        The type to decode into.

    Returns
    -------
    object
        A value of that type.

    Raises
    ------
    InputError
        A field has a wrong type.
    """
    try:
        if is_json(document):
            return msgspec.json.decode(document, type=type_)
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        return _decode_with_nulls(document, type_, error)


def is_json(document: object) -> TypeGuard[bytes | msgspec.Raw]:
    """Whether a document is JSON text, not a decoded value."""
    return isinstance(document, bytes | msgspec.Raw)


def _decode_with_nulls(document: Document, type_: type[T], error: msgspec.ValidationError) -> T:
    """Decode a value with nulls, or explain the error."""
    value: Any = None
    try:
        given = msgspec.json.decode(document) if is_json(document) else document
        with suppress(msgspec.ValidationError):  # a list of texts
            return msgspec.convert(_without_nulls(given, {}), type_)
        value = _without_nulls(given, "")
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as last:
        if value is None and is_json(document):  # a number was too large to be parsed
            with suppress(ValueError, RecursionError):
                value = json.loads(bytes(document), parse_int=float)
        else:
            error = last
        message, path = _explain(str(error), value)
        raise InputError(message, path=path) from None


def _without_nulls(value: Any, item_zero: Any, zero: str | None = None) -> Any:
    """A copy without null entries of maps; in a map of plain values `zero` replaces them, and in lists
    `item_zero`, as Go does."""
    if isinstance(value, dict):
        return {
            key: zero if item is None else _without_nulls(item, item_zero, _MAP_ZERO.get(key))
            for key, item in value.items()
            if item is not None or zero is not None
        }
    if isinstance(value, list):
        return [item_zero if item is None else _without_nulls(item, item_zero) for item in value]
    return value


def _explain(error: str, value: Any) -> tuple[str, str]:
    """Message and field path of a msgspec error, with the map key that msgspec does not name."""
    message, _, place = error.partition(" - at ")
    path = ""
    for name, index in re.findall(_STEP, place.removeprefix("`key` in ").strip("`").removeprefix("$")):
        if index.isdigit():
            path += f"[{index}]"
            value = value[int(index)] if isinstance(value, list) else None
            continue
        entries = value if isinstance(value, dict) else {}
        if not index:
            path += f".{name}" if path else name
        elif name := next((key for key, item in entries.items() if not _is_right(item, message)), ""):
            path += f"[{name}]"
        value = entries.get(name)
    words = re.sub(r"`([^`]*)`", lambda match: _words(match[1]), message)
    return words[0].lower() + words[1:], path


def _is_right(item: Any, message: str) -> bool:
    """Whether a value of a map is not what a message is about."""
    if "out of range" in message:
        return not isinstance(item, float) or not isinf(item)
    takes_numbers = "float" in message.partition(", got")[0]
    return isinstance(item, str) or (takes_numbers and type(item) in (int, float))


def _words(types: str) -> str:
    """Names of Go or JSON types for the type names in a msgspec message."""
    names = types.split(" | ")
    implied = {"int"} if "float" in names else set()
    shown = [name for name in names if name not in implied | {"null"}] or names
    return " or ".join(_WORDS.get(name, name) for name in shown)

"""The fields of pod templates that scheduling does not read, in a form in which equal ones have equal texts.

The controllers compare whole templates, and the API server sets defaults before (kubernetes v1.36,
pkg/apis/core/v1/defaults.go). The fields are those of the table of `unknown_fields` that the structs of
`moorage.objects.model` lack.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from itertools import chain
from typing import Any, get_args

import msgspec
from msgspec.structs import fields, force_setattr

from moorage._core.base.quantity import Quantity, parse
from moorage.objects.model.meta import Struct
from moorage.objects.model.pod import PodSpec

from .unknown_fields import LISTS, MAPS, fields_of

_POD_SPEC, _CONTAINER, _IMAGE = "core.v1.PodSpec", "core.v1.Container", "core.v1.ImageVolumeSource"
_METADATA = "meta.v1.ObjectMeta"
_IMAGES = {_CONTAINER: "image", _IMAGE: "reference"}
"""Structs with an image, on which the default of a field depends, and the field that names it."""
_MODE, _READ_ONLY = {"defaultMode": 0o644}, {"readOnly": False}
_DEFAULTS: dict[str, dict[str, Any]] = {
    _POD_SPEC: {"dnsPolicy": "ClusterFirst", "hostPID": False, "hostIPC": False, "securityContext": {}},
    _CONTAINER: {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **dict.fromkeys(("stdin", "stdinOnce", "tty"), False),
    },
    "core.v1.Probe": {
        "initialDelaySeconds": 0,
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    },
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.ResourceFieldSelector": {"divisor": "0"},
    "core.v1.FileKeySelector": {"optional": False},
    **{f"core.v1.{name}VolumeSource": _MODE for name in ("Secret", "ConfigMap", "DownwardAPI", "Projected")},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.VolumeMount": _READ_ONLY,
    **{
        f"core.v1.{name}VolumeSource": _READ_ONLY
        for name in (
            *("AzureFile", "CephFS", "FC", "FlexVolume", "Glusterfs", "NFS", "Portworx", "Quobyte"),
            "StorageOS",
        )
    },
    "core.v1.ISCSIVolumeSource": {
        "iscsiInterface": "default",
        "chapAuthDiscovery": False,
        "chapAuthSession": False,
    },
    "core.v1.RBDVolumeSource": {"user": "admin", "keyring": "/etc/ceph/keyring"},
    "core.v1.AzureDiskVolumeSource": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4"},
    "core.v1.ScaleIOVolumeSource": {
        "storageMode": "ThinProvisioned",
        "fsType": "xfs",
        "sslEnabled": False,
        "readOnly": False,
    },
    **{
        f"core.v1.{name}VolumeSource": {"partition": 0}
        for name in ("AWSElasticBlockStore", "GCEPersistentDisk")
    },
}
"""The defaults of the API server by struct and field, and what a field that is no pointer has without a
value. Fields without a struct here have "" or an empty list or map as such a value."""
_CONTENTS = {
    _CONTAINER: ("args", "command"),
    "core.v1.EnvVar": ("value",),
    "core.v1.ExecAction": ("command",),
    "core.v1.HTTPHeader": ("value",),
}
"""Fields whose texts may be secret: digests stand for them, so that no object or dump has the texts."""
_DIGEST = re.compile("sha256:[0-9a-f]{16}")
_QUANTITIES = frozenset({"divisor", "sizeLimit"})
_ONE = Quantity(1)
_MAX_TEXTS = 1 << 14


@cache
def unread_type() -> Any:
    """Return the type that the unread fields of the spec of a pod template are decoded to."""
    return _unread_type(_POD_SPEC, PodSpec)


def unread_text(spec: Any) -> str:
    """Return unread fields as JSON text, without defaults.

    Parameters
    ----------
    spec : object
        Of the type of `unread_type`.

    Returns
    -------
    str
        "" where all fields are read.
    """
    for container in chain(spec.containers or (), spec.initContainers or ()):
        _drop_image(container, "image", "imagePullPolicy")
    for volume in spec.volumes or ():
        if volume.image is not None:
            _drop_image(volume.image, "reference", "pullPolicy")
    text = msgspec.json.encode(spec)
    return "" if text == b"{}" else _canonical(text)


def _drop_image(part: Any, image: str, policy: str) -> None:
    """Drop the name of an image, which is read, and the policy if it is the default for this image."""
    name, given = getattr(part, image), getattr(part, policy)
    if given is not None and given == _pull_policy(name if isinstance(name, str) else ""):
        force_setattr(part, policy, None)
    force_setattr(part, image, None)


@lru_cache(_MAX_TEXTS)
def _canonical(text: bytes) -> str:
    """Return the text without defaults and with sorted names; templates with equal fields share it."""
    value = _without_defaults(msgspec.json.decode(text), _POD_SPEC, PodSpec)
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


@cache
def _read_fields(struct: type[Struct] | None) -> dict[str, type[Struct] | None]:
    """Return the fields that a struct has, by their wire names, with the struct of each."""
    return {} if struct is None else {info.encode_name: _struct_in(info.type) for info in fields(struct)}


def _struct_in(type_: Any) -> type[Struct] | None:
    """Return the struct in a type such as ``tuple[Container, ...]``."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return type_
    return next(filter(None, map(_struct_in, get_args(type_))), None)


def _unread_type(name: str, struct: type[Struct]) -> Any:
    """Return the type of the fields that a struct lacks, None where it has all of them."""
    read, unread = _read_fields(struct), list[tuple[str, Any, None]]()
    for field, target in fields_of(name).items():
        type_: Any = Any
        if field in read and field != _IMAGES.get(name):
            inner, part = read[field], target.rstrip(LISTS + MAPS)
            type_ = _unread_type(part, inner) if inner and part not in ("", _METADATA) else None
            type_ = list[type_] if type_ and target.endswith(LISTS) else type_
        if type_ is not None:
            unread.append((field, type_ | None if type_ is not Any else Any, None))
    return msgspec.defstruct("Unread", unread, omit_defaults=True, frozen=True) if unread else None


def _without_defaults(value: Any, name: str, struct: type[Struct] | None) -> Any:
    """Return the unread fields of a struct without those that have their default.

    Parameters
    ----------
    value : object
        A JSON value.
    name : str
        The name of the struct in the table.
    struct : type or None
        The struct that has the fields that are read; None where none are.

    Returns
    -------
    object
    """
    if not isinstance(value, dict):
        return value
    known, read = fields_of(name), _read_fields(struct)
    kept, defaults = dict[str, Any](), _defaults(value, name)
    for field, item in value.items():
        target, inner = known.get(field, ""), read.get(field)
        part = target.rstrip(LISTS + MAPS)
        if part and target.endswith(LISTS) and isinstance(item, list):
            item = [_without_defaults(one, part, inner) for one in item]
            item = item if any(item) else []
        elif part and target == part:
            item = _without_defaults(item, part, inner)
        elif field in _CONTENTS.get(name, ()):
            item = [_digest(one) for one in item] if isinstance(item, list) else _digest(item)
        elif field in _QUANTITIES and isinstance(item, str | int | float):
            item = str(parse(item) * _ONE)  # a product is spelled in one way
        is_empty = item in (None, "", []) or (item == {} and (inner is not None or not part))
        if not is_empty and not (field in defaults and item == defaults[field]):
            kept[field] = item
    return kept


def _digest(text: Any) -> Any:
    """Return what stands for a text; a digest stands for itself."""
    if not isinstance(text, str) or not text or _DIGEST.fullmatch(text):
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _defaults(value: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the defaults of a struct; another name of another field counts as such."""
    defaults = _DEFAULTS.get(name, {})
    if name == _POD_SPEC:  # the API server keeps both names of the account
        account = value.get("serviceAccountName") or value.get("serviceAccount")
        return defaults | {"serviceAccount": account} if value.get("serviceAccountName") else defaults
    return defaults


def _pull_policy(image: str) -> str:
    """Return the default of an image: Always for the tag ``latest``, also where it has neither tag nor
    digest."""
    rest, digest, _ = image.partition("@")
    tag = rest.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"

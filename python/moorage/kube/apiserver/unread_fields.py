"""The fields of pod templates that scheduling does not read, in a form in which equal ones have equal texts.

The controllers compare whole templates, and the API server sets defaults before (kubernetes v1.36,
pkg/apis/core/v1/defaults.go). The fields are those of the table of `unknown_fields` that the structs of
`moorage.kube.model` lack.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from moorage._core.base.quantity import Quantity, parse
from moorage.lazy import NamedTuple

from ..model.meta import Struct
from ..model.pod import PodSpec
from ..releases import ALWAYS
from .struct_tables import default_lines, fields_by_name, structs_in
from .unknown_fields import LISTS, MAPS, fields_of

POD_SPEC, _CONTAINER, _IMAGE = "core.v1.PodSpec", "core.v1.Container", "core.v1.ImageVolumeSource"
_METADATA = "meta.v1.ObjectMeta"
_IMAGES = {_CONTAINER: "image", _IMAGE: "reference"}
"""Structs with an image, on which the default of a field depends, and the field that names it."""
_OF_IMAGES = frozenset({*_IMAGES.values(), "imagePullPolicy", "pullPolicy"})
_READ_ONLY = {"readOnly": False}
_ZEROS: dict[str, dict[str, Any]] = {
    POD_SPEC: {"hostPID": False, "hostIPC": False},
    _CONTAINER: dict.fromkeys(("stdin", "stdinOnce", "tty"), False),
    "core.v1.Probe": {"initialDelaySeconds": 0},
    "core.v1.FileKeySelector": {"optional": False},
    "core.v1.VolumeMount": _READ_ONLY,
    **{
        f"core.v1.{name}VolumeSource": _READ_ONLY
        for name in (
            *("AzureFile", "CephFS", "FC", "FlexVolume", "Glusterfs", "NFS", "Portworx", "Quobyte"),
            "StorageOS",
        )
    },
    "core.v1.ISCSIVolumeSource": {"chapAuthDiscovery": False, "chapAuthSession": False},
    "core.v1.ScaleIOVolumeSource": {"sslEnabled": False, "readOnly": False},
    **{
        f"core.v1.{name}VolumeSource": {"partition": 0}
        for name in ("AWSElasticBlockStore", "GCEPersistentDisk")
    },
}
"""By struct, what a field that is no pointer has without a value, where this is no default of the API server.
Fields without a struct here have "" or an empty list or map as such a value."""
_CONTENTS = {
    _CONTAINER: ("args", "command"),
    "core.v1.EnvVar": ("value",),
    "core.v1.ExecAction": ("command",),
    "core.v1.HTTPHeader": ("value",),
}
"""Fields whose texts may be secret: digests stand for them, so that no object has the texts."""
HIDDEN = "hidden-text-"
"""How a text begins that stands for one that a dump hides; a number follows (see `hidden_texts`)."""
_DIGEST = re.compile(rf"sha256:[0-9a-f]{{16}}|/?{HIDDEN}\d+")
_QUANTITIES = frozenset({"divisor", "sizeLimit"})
_ONE = Quantity(1)
_MAX_TEXTS = 1 << 14


@cache
def unread_type(value: Any) -> Any:
    """Return the type that the unread fields of the spec of a pod template are decoded to.

    Parameters
    ----------
    value : type
        What each is decoded to: ``Any``, or ``msgspec.Raw`` of JSON text.
    """
    return _unread_type(POD_SPEC, PodSpec, value)


def unread_text(spec: Any) -> str:
    """Return unread fields as JSON text, without defaults; "" where all fields are read.

    Parameters
    ----------
    spec : object
        Of the type of `unread_type`.
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
    if given is not None and given == pull_policy(name if isinstance(name, str) else ""):
        force_setattr(part, policy, None)
    force_setattr(part, image, None)


@lru_cache(_MAX_TEXTS)
def _canonical(text: bytes) -> str:
    """Return the text without defaults and with sorted names; templates with equal fields share it."""
    value = _without_defaults(msgspec.json.decode(text), POD_SPEC, PodSpec)
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


@cache
def _read_fields(struct: type[Struct] | None) -> dict[str, type[Struct] | None]:
    """Return the fields that a struct has, by their wire names, with the struct of each."""
    known = {} if struct is None else fields_by_name(struct)
    return {name: next(iter(structs_in(info.type)), None) for name, info in known.items()}


def _unread_type(name: str, struct: type[Struct], value: Any) -> Any:
    """Return the type of the fields that a struct lacks, None where it has all of them."""
    read, unread = _read_fields(struct), list[tuple[str, Any, None]]()
    for field, target in fields_of(name).items():
        type_: Any = Any if field in _OF_IMAGES else value
        if field in read and field != _IMAGES.get(name):
            inner, part = read[field], target.rstrip(LISTS + MAPS)
            type_ = _unread_type(part, inner, value) if inner and part not in ("", _METADATA) else None
            type_ = list[type_] if type_ and target.endswith(LISTS) else type_
        if type_ is not None:
            unread.append((field, type_ if type_ in (Any, value) else type_ | None, None))
    return msgspec.defstruct("Unread", unread, omit_defaults=True, frozen=True) if unread else None


class _Step(NamedTuple):
    """What is done with a field.

    Attributes
    ----------
    make : callable, optional
        Makes the value that is compared.
    default : object
        A field with this value is dropped.
    is_dropped_empty : bool
        Whether a field with an empty map is dropped, too.
    """

    make: Callable[[Any], Any] | None
    default: object
    is_dropped_empty: bool


_UNKNOWN = _Step(None, object(), True)
"""Of a field that the table does not have."""


def _defaults(name: str) -> dict[str, Any]:
    """Return what the fields of a struct have without a value."""
    lines = default_lines().get(name, ())
    texts = {line.path[0]: line.text for line in lines if line.when is ALWAYS and line.is_plain}
    return _ZEROS.get(name, {}) | {field: msgspec.json.decode(text) for field, text in texts.items()}


@cache
def _steps(name: str, struct: type[Struct] | None) -> dict[str, _Step]:
    """Return the steps of the known fields of a struct.

    Parameters
    ----------
    name : str
        The name of the struct in the table.
    struct : type or None
        The struct that has the fields that are read; None where none are.
    """
    read, defaults, steps = _read_fields(struct), _defaults(name), dict[str, _Step]()
    for field, target in fields_of(name).items():
        part, inner = target.rstrip(LISTS + MAPS), read.get(field)
        make: Callable[[Any], Any] | None = None
        if part and target.endswith(LISTS):
            make = partial(_each_without_defaults, name=part, struct=inner)
        elif part and target == part:
            make = partial(_without_defaults, name=part, struct=inner)
        elif field in _CONTENTS.get(name, ()):
            make = _digests
        elif field in _QUANTITIES:
            make = _quantity
        steps[field] = _Step(make, defaults.get(field, _UNKNOWN.default), inner is not None or not part)
    return steps


def _without_defaults(value: Any, name: str, struct: type[Struct] | None) -> Any:
    """Return the unread fields of a struct without those that have their default; see `_steps`."""
    if not isinstance(value, dict):
        return value
    steps, kept = _steps(name, struct), dict[str, Any]()
    for field, item in value.items():
        step = steps.get(field, _UNKNOWN)
        if step.make is not None:
            item = step.make(item)
        if not item and (item in (None, "", []) or (item == {} and step.is_dropped_empty)):
            continue
        if item != step.default:
            kept[field] = item
    if name == POD_SPEC:  # the API server keeps both names of the account
        account = value.get("serviceAccountName")
        if account and kept.get("serviceAccount") == account:
            del kept["serviceAccount"]
    return kept


def _each_without_defaults(items: Any, name: str, struct: type[Struct] | None) -> Any:
    if not isinstance(items, list):
        return items
    values = [_without_defaults(item, name, struct) for item in items]
    return values if any(values) else []


def _quantity(value: Any) -> Any:
    """Return a quantity as it is always spelled: as a product."""
    try:
        return str(parse(value) * _ONE) if isinstance(value, str | int | float) else value
    except ValueError:  # validation refuses it, where it is asked
        return value


def _digests(value: Any) -> Any:
    return list(map(_digest, value)) if isinstance(value, list) else _digest(value)


def _no_texts(value: Any) -> Any:
    return list(map(_no_texts, value)) if isinstance(value, list) else "(hidden)" if value else value


_SECRET = frozenset().union(*_CONTENTS.values())


def masked(value: Any) -> Any:
    """Return a value without the texts that may be secret, for errors."""
    if isinstance(value, dict):
        return {key: _no_texts(item) if key in _SECRET else masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, list) else value


def _digest(text: Any) -> Any:
    """Return the digest of a text; what stands for another text stays."""
    if not isinstance(text, str) or not text or _DIGEST.fullmatch(text):
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]


def is_hidden(text: str) -> bool:
    """Whether a text stands for another one, which may be secret."""
    return text.startswith(("sha256:", HIDDEN, f"/{HIDDEN}")) and _DIGEST.fullmatch(text) is not None


def has_hidden(text: str) -> bool:
    """Whether unread fields have texts for which others stand."""
    return _DIGEST.search(text) is not None


def pull_policy(image: str) -> str:
    """Return the default of an image: Always for the tag ``latest``, also where it has neither tag nor
    digest."""
    rest, digest, _ = image.partition("@")
    tag = rest.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"

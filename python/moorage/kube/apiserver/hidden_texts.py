"""Texts that a dump hides: a number stands for each, so that equal ones stay equal and none can be guessed.

Where a later manifest has a text in the place of a hidden one, nobody knows whether it is the same. So it
counts as unchanged (`keep_hidden`), and a warning says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError

from ..model.autoscaling import ProviderNodeClass
from ..model.meta import LAST_APPLIED, Object, Struct
from ..model.pod import Pod
from ..model.storage import PersistentVolume
from ..model.workload import ControllerRevision
from ..plain import object_to_dict, plain
from ..read.object_defaults import decoded_revision
from .decode import UNREADABLE, decode_as
from .unknown_fields import LISTS, MAPS, fields_of
from .unread_fields import HIDDEN, POD_SPEC

T = TypeVar("T", bound=Object)

# ---- what a dump hides -------------------------------------------------------------------------------------

_ANNOTATIONS = re.compile(
    r"(?!kubernetes\.io/(change-cause|description)$)"
    r"([a-z0-9.-]+[.-])?(kubernetes\.io|k8s\.io|karpenter\.sh|karpenter\.k8s\.aws|bytedance\.com|kubewharf\.io"
    r"|openshift\.io|argoproj\.io|kruise\.io|cnpg\.io|strimzi\.io|helm\.sh|volcano\.sh|moorage\.dev)/"
)
"""Keys of annotations that schedulers, controllers and autoscalers may read."""
_PARAMETERS = frozenset({"replication-type", "skuname", "storageaccounttype"})
"""Parameters of storage classes that tell in which zones a volume is."""
_FREE = frozenset({"parameters", "mount_options"})
"""Attributes of storage classes, volumes and configurations of devices whose texts are hidden."""
_STRATEGIES = frozenset({"strategy", "update_strategy"})
"""Of workloads of other projects, which are read as they are: they name services and analyses, too."""
_PERCENT = re.compile(r"\d+%")
_OF_NODES = (
    *("context", "instanceProfile", "role", "tags", "userData"),
    *("labels", "metadata", "networkTags", "serviceAccount", "subnetRangeName", "vnetSubnetID"),
)
"""Those of node classes."""
_KEPT_FIELDS = (
    "imagePullPolicy pullPolicy terminationMessagePolicy dnsPolicy fsGroupChangePolicy seLinuxChangePolicy "
    "supplementalGroupsPolicy mountPropagation recursiveReadOnly restartPolicy procMount cachingMode fsType "
    "stopSignal operator action scheme host protocol mode keyType type kind apiGroup apiVersion "
    "mountPath devicePath ip hostIP nameservers port conditionType containerName resource resourceName "
    "fieldPath divisor sizeLimit limits requests add drop serviceAccount serviceAccountName signerName "
    "initiatorName registry driver prefix volumeName runAsUserName "
    "Container.name EphemeralContainer.name ContainerPort.name EnvVar.name HTTPHeader.name Volume.name "
    "VolumeMount.name VolumeDevice.name LocalObjectReference.name EvictionResponder.name Sysctl.name "
    "PodDNSConfigOption.name ResourceClaim.name ResourceClaim.request WorkloadReference.name "
    "WorkloadReference.podGroup SELinuxOptions.level SELinuxOptions.role SELinuxOptions.user"
)
_KEPT = frozenset(_KEPT_FIELDS.split())
"""Of the fields of pod templates that scheduling does not read, those whose texts stay: enumerations, keys of
lists, addresses and quantities, and what admission reads or checks the form of."""


def hide(objects: Iterable[Object]) -> list[Object]:
    """Put numbers in the places of texts that scheduling does not read, and that may be secret.

    These are the texts of pod templates but for `_KEPT`, annotations that nothing reads, parameters and mount
    options of volumes, and the scripts of nodes. The messages of pods and volumes are left out. Equal objects
    give equal numbers, which count in the order of the texts.
    """
    hiding = _Hiding()
    return [hiding.object(obj) for obj in objects]


class _Hiding:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._struct: type[Object] = Object

    def object(self, obj: Object) -> Object:
        """Return an object without its free texts."""
        self._struct = type(obj)
        if isinstance(obj, ControllerRevision):
            obj = decoded_revision(obj)
        hidden: Object = self._value(obj, "")
        if isinstance(hidden, ControllerRevision):
            return replace(hidden, data=plain(hidden.data))
        if isinstance(hidden, ProviderNodeClass):
            texts = {key: self._texts(hidden.spec[key]) for key in _OF_NODES if key in hidden.spec}
            return replace(hidden, spec=hidden.spec | texts)
        return hidden

    def _value(self, value: Any, name: str) -> Any:
        """Return the value of an attribute; itself where nothing is hidden."""
        if isinstance(value, str):
            if name == "message" and self._struct in (Pod, PersistentVolume):
                return ""
            return self._unread(value) if name == "unread" and self._struct is not Pod else value
        if name in _FREE:
            return self._texts(value)
        if name in _STRATEGIES and isinstance(value, dict):
            return {key: item if key in _KEPT else self._texts(item) for key, item in value.items()}
        if isinstance(value, Struct):
            fields = ((field, getattr(value, field)) for field in value.__struct_fields__)
            changes = {
                field: new for field, old in fields if old and (new := self._value(old, field)) is not old
            }
            return replace(value, **changes) if changes else value
        if isinstance(value, tuple):
            items = tuple([self._value(item, name) for item in value])
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            if name == "annotations":
                return {key: self._annotation(key, text) for key, text in value.items()}
            return {key: self._value(item, "") for key, item in value.items()}
        return value

    def _annotation(self, key: str, text: str) -> str:
        if key == LAST_APPLIED:
            try:
                manifest = object_to_dict(self._value(decode_as(text.encode(), self._struct), ""))
            except (InputError, *UNREADABLE):
                return ""
            return msgspec.json.encode(manifest).decode()
        return text if _ANNOTATIONS.match(key) else self._text(text)

    def _unread(self, text: str) -> str:
        """Return the unread fields of a pod template."""
        fields = self._fields(msgspec.json.decode(text), POD_SPEC) if text else None
        return msgspec.json.encode(fields, order="sorted").decode() if fields else text

    def _fields(self, value: Any, struct: str) -> Any:
        if isinstance(value, list):
            return [self._fields(item, struct) for item in value]
        if not isinstance(value, dict):
            return value
        targets, short = fields_of(struct), struct.rpartition(".")[2]
        fields: dict[str, Any] = {}
        for field, item in value.items():
            if part := targets.get(field, "").rstrip(LISTS + MAPS):
                fields[field] = self._fields(item, part)
            else:
                is_kept = field in _KEPT or f"{short}.{field}" in _KEPT
                fields[field] = item if is_kept else self._texts(item)
        return fields

    def _texts(self, value: Any) -> Any:
        """Return a JSON value with all of its texts hidden."""
        if isinstance(value, dict):
            return {
                key: item if key.lower() in _PARAMETERS else self._texts(item) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return type(value)([self._texts(item) for item in value])
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        """Return what stands for a text; a path stays one, because its form is checked."""
        if not text or _PERCENT.fullmatch(text):
            return text
        return f"{'/' * text.startswith('/')}{HIDDEN}{self._numbers.setdefault(text, len(self._numbers) + 1)}"


# ---- what becomes of them when a manifest is applied -------------------------------------------------------

_NUMBERED = re.compile(rf"/?{HIDDEN}\d+")
"""What stands for a text in a dump. A digest, which stands for one in memory, differs as the texts do."""
_KEYS = ("name", "mountPath", "devicePath", "ip", "key", "conditionType")


def keep_hidden(old: T, new: T) -> tuple[T, int]:
    """Return an object with the hidden texts of an earlier one in the places of its own; see `hidden_kept`.

    Returns
    -------
    kept : Object
        `new` itself if nothing is hidden.
    number : int
        Number of fields.
    """
    met: list[str] = []
    if isinstance(new, Pod):  # has none but in annotations, by which nothing is replaced
        return new, 0
    value = hidden_kept(object_to_dict(old), object_to_dict(new), met)
    return (decode_as(value, type(new)), len(met)) if met else (new, 0)


def hidden_kept(old: Any, new: Any, met: list[str]) -> Any:
    """Return a JSON value with the hidden texts of an earlier one in the places of its own texts.

    Parameters
    ----------
    met : list of str
        Gets the hidden texts that took the place of another one.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: hidden_kept(old.get(name), item, met) for name, item in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return [hidden_kept(before, item, met) for before, item in _pairs(old, new)]
    if isinstance(old, str) and isinstance(new, str) and new and new != old and _NUMBERED.fullmatch(old):
        met.append(old)
        return old
    return new


def _pairs(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a list with the earlier ones: those of the same key, or else of the same place."""
    for key in _KEYS:
        if all(isinstance(item, dict) and isinstance(item.get(key), str) for item in chain(old, new)):
            earlier = {item[key]: item for item in old}
            yield from ((earlier.get(item[key]), item) for item in new)
            return
    for at, item in enumerate(new):
        yield old[at] if at < len(old) else None, item

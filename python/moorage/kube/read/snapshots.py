"""Snapshots of other tools: which lists of objects they have; and answers in place of objects.

- kube-scheduler-simulator: the JSON of ``GET /api/v1/export``.
- cluster-autoscaler: the JSON of ``/snapshotz``.
- KAI scheduler: the ``snapshot.json`` of ``/get-snapshot``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import msgspec

from moorage.errors import InputError, NoManifestError, NoObjectError, UnusableError, shorten

from ..apiserver.decode import Document, decode, decode_as, is_json
from ..apiserver.kueue_configuration import read_kueue_configuration
from ..apiserver.unread_fields import HIDDEN
from ..model.autoscaling import (
    CAPACITY,
    KUEUE_KEY,
    MACHINE_CAPACITY,
    PRIORITIES,
    STATUS,
    AutoscalerFlags,
    ConfigMap,
    KarpenterSettings,
    MachineGroup,
    annotated_sizes,
)
from ..model.meta import Object, ObjectMeta
from ..model.pod import is_api_server
from ..model.policy import AdmissionPlugins
from ..model.workload import KUEUE, Deployment
from ..releases import ADMISSION_PLUGINS
from ..workloads.custom_objects import metadata_of
from .documents import TABLE

SIMULATOR_KINDS = {
    "namespaces": "Namespace",
    "priorityClasses": "PriorityClass",
    "storageClasses": "StorageClass",
    "pvs": "PersistentVolume",
    "pvcs": "PersistentVolumeClaim",
    "nodes": "Node",
    "pods": "Pod",
}
"""Kinds of objects in an export of kube-scheduler-simulator, by the names of its lists."""
_KAI = {
    "priorityClasses": "PriorityClass",
    "storageClasses": "StorageClass",
    "csiDrivers": "CSIDriver",
    "csiStorageCapacities": "CSIStorageCapacity",
    "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "resourceClaims": "ResourceClaim",
    "nodes": "Node",
    "pods": "Pod",
}
_KAI_OTHERS = ("queues", "podGroups", "bindRequests", "configMaps", "topologies", "nodeResourceTopologies")

Listed = tuple[str, list[Any]]
"""A kind and objects of it, of which each may lack its kind."""


class _Answer(msgspec.Struct):
    """An answer of an API server in place of an object."""

    status: Any = None
    message: Any = None


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _Versions(msgspec.Struct, rename="camel"):
    """What ``/version`` of an API server answers, as Troubleshoot keeps it, and as ``kubectl version`` shows
    it."""

    info: _Version | None = None
    server_version: _Version | None = None


def read_server_version(document: Document) -> str:
    """Return the version of an API server that a document of a dump tells; "" for another document.

    Returns
    -------
    str
        For example "v1.31.2+k3s1".
    """
    try:
        versions = decode(document, _Versions)
    except InputError:
        return ""
    version = versions.server_version or versions.info
    return "" if version is None else version.git_version


def refuse_answers(document: Document, kind: str, api_version: str, source: str) -> None:
    """Refuse what stands where objects should be, and says that there is something else to do.

    Parameters
    ----------
    kind, api_version : str
        "" where it names none.

    Raises
    ------
    NoObjectError
        The document is an error that an API server answered with, a table, or a kustomization.
    NoManifestError
        It is a kubeconfig.
    """
    if kind == "Status" and api_version in ("", "v1"):
        answer = decode(document, _Answer)
        raise NoObjectError(f"an answer of the API server, not a dump: {answer.message or answer.status}")
    if kind == "Table" and api_version.startswith("meta.k8s.io/"):
        raise NoObjectError(TABLE)
    if kind == "Config" and api_version == "v1":
        raise NoManifestError("a kubeconfig, not a dump of objects; --kubeconfig FILE reads its cluster")
    is_named = not api_version and PurePath(source.rpartition("!")[2]).stem.lower() == "kustomization"
    if is_named or api_version.startswith("kustomize.config.k8s.io/"):
        folder = shorten(str(PurePath(source).parent))
        rest = f"$(find {folder} -name '*.yaml' ! -name kustomization.yaml -printf ' -f %p')"
        as_is = f"to read the files as they are, without it: {rest}"
        raise NoObjectError(f"a kustomization; use kubectl kustomize {folder} | moorage … -f -; {as_is}")


def read_snapshot(document: Document) -> tuple[list[Listed], dict[str, int]] | None:
    """Return the objects of a snapshot of another tool.

    Parameters
    ----------
    document : dict or bytes
        A document without a kind, as a JSON value or its JSON text.

    Returns
    -------
    (list of (str, list), dict of str to int) or None
        Kinds with their objects, undecoded as in the document, and numbers of parts that are left out; None
        for another document.

    Raises
    ------
    InputError
        A part has a wrong type.
    """
    parts = _parts(document)
    if isinstance(raw := parts.get("rawObjects"), dict | msgspec.Raw):
        lists = _parts(raw)
        left = {f"{name} (KAI)": len(_list(lists, name)) for name in _KAI_OTHERS}
        return [(kind, _list(lists, name)) for name, kind in _KAI.items()], _counted(left)
    if "NodeList" in parts:
        value = parts.get("Error")
        if error := decode(value, Any) if is_json(value) else value:
            raise InputError(f"cluster-autoscaler could not take this snapshot: {error}", path="Error")
        return list(_autoscaler(parts)), _counted({"TemplateNodes": len(_optional(parts, "TemplateNodes"))})
    if {"nodes", "pods", "pvcs"} <= parts.keys():
        config = {"schedulerConfig": len(_optional(parts, "schedulerConfig")) and 1}
        return [(kind, _list(parts, name)) for name, kind in SIMULATOR_KINDS.items()], _counted(config)
    return None


def _autoscaler(parts: dict[str, Any]) -> Iterator[Listed]:
    nodes, pods = [], []
    for info in _list(parts, "NodeList"):
        inner = _parts(info)
        nodes += [inner["Node"]] if "Node" in inner else []
        pods += [_parts(pod).get("Pod", pod) for pod in _list(inner, "Pods")]
    yield "Node", nodes
    yield "Pod", pods + _list(parts, "UnscheduledPodsCanBeScheduled")


def _parts(value: Any) -> dict[str, Any]:
    return decode(value, dict[str, msgspec.Raw] if is_json(value) else dict[str, Any])


def _list(parts: dict[str, Any], name: str) -> list[Any]:
    value = parts.get(name)
    if value is None or (is_json(value) and bytes(value) == b"null"):
        return []
    try:
        return decode(value, list[msgspec.Raw] if is_json(value) else list[Any])
    except InputError as error:
        raise error.located(path=name) from None


def _optional(parts: dict[str, Any], name: str) -> dict[str, Any]:
    value = parts.get(name)
    if value is None or (is_json(value) and bytes(value) == b"null"):
        return {}
    return _parts(value)


def _counted(numbers: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in numbers.items() if number}


# ---- autoscaler objects ------------------------------------------------------------------------------------
#
# Reads what autoscalers are told, of objects of which nothing else is read.

PROGRAM, KARPENTER = "cluster-autoscaler", "karpenter"


class _Variable(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None

    def words(self) -> list[str]:
        """The arguments; a command line of a shell is split."""
        texts = [*(self.command or ()), *(self.args or ())]
        return [word for text in texts for word in ([text] if text.startswith("-") else text.split())]

    def is_autoscaler(self) -> bool:
        program = self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        return program.startswith(PROGRAM) or any(word.rpartition("/")[2] == PROGRAM for word in self.words())

    def settings(self) -> dict[str, str]:
        """The variables, and the flags under their names."""
        values = {variable.name: variable.value for variable in self.env or () if variable.value}
        for word, after in pairwise([*self.words(), ""]):
            if word.startswith("-"):
                name, equals, value = word.lstrip("-").partition("=")
                values[name.upper().replace("-", "_")] = value if equals else after
        return values


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _Workload(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class _KueueConfig(msgspec.Struct, frozen=True):
    text: str = msgspec.field(default="", name=KUEUE_KEY)


class _KueueMap(msgspec.Struct, frozen=True):
    data: _KueueConfig = _KueueConfig()


def read_config_map(document: Any) -> ConfigMap | None:
    """Read a ConfigMap of cluster-autoscaler or Kueue; None for another one.

    Raises
    ------
    InputError
        A field has a wrong type, or Kueue could not use its configuration (`UnusableError`).
    """
    meta = metadata_of(document)
    try:
        is_of_kueue = f"config.{KUEUE}" in decode(document, _KueueMap).data.text
    except InputError:
        is_of_kueue = False
    if meta is None or (meta.name not in (PRIORITIES, STATUS) and not is_of_kueue):
        return None
    source = decode_as(document, ConfigMap)
    if is_of_kueue:
        try:
            read_kueue_configuration(source)
        except InputError as error:
            raise UnusableError(error.message, path=error.path) from None
    return source


class _Target(msgspec.Struct, frozen=True):
    name: str = ""


class _MachineAutoscaler(msgspec.Struct, frozen=True, rename="camel"):
    min_replicas: int = 0
    max_replicas: int = 0
    scale_target_ref: _Target = _Target()


class _OfTarget(msgspec.Struct, frozen=True):
    spec: _MachineAutoscaler = _MachineAutoscaler()


def read_machine_group(document: Any, kind: str) -> MachineGroup | None:
    """Read the sizes that cluster-autoscaler keeps a set of machines within, or only what its nodes would be;
    None for another object. A MachineSet of a MachineDeployment is no group."""
    if kind not in _MACHINE_GROUPS or (meta := metadata_of(document)) is None:
        return None
    source = f"{kind.lower()} {meta.namespace or 'default'}/{meta.name}"
    if kind == "MachineAutoscaler":
        spec = decode(document, _OfTarget).spec
        return MachineGroup(
            metadata=ObjectMeta(name=f"{kind.lower()}-{meta.name}", namespace=meta.namespace),
            source=source,
            min_size=spec.min_replicas,
            max_size=spec.max_replicas,
            target=spec.scale_target_ref.name,
        )
    sizes = [text or "0" for text in annotated_sizes(meta.annotations)]
    is_part = any(owner.kind == "MachineDeployment" for owner in meta.owner_references)
    is_sized = all(map(str.isdigit, sizes)) and int(sizes[1]) > int(sizes[0])
    capacity = {
        key.removeprefix(CAPACITY): text
        for key, text in meta.annotations.items()
        if key.startswith(CAPACITY) or key in MACHINE_CAPACITY
    }
    if is_part or not (is_sized or capacity):
        return None
    named = ObjectMeta(name=meta.name, namespace=meta.namespace)
    least, most = map(int, sizes) if is_sized else (0, 0)
    return MachineGroup(metadata=named, source=source, min_size=least, max_size=most, capacity=capacity)


_MACHINE_GROUPS = ("MachineDeployment", "MachineSet", "MachinePool", "MachineAutoscaler")


class _OfPod(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


def _api_server(obj: Object, document: Document) -> AdmissionPlugins:
    """Return the admission plugins that a pod of the API server names."""
    values: dict[str, str] = {}
    for container in decode(document, _OfPod).spec.containers:
        values |= container.settings()
    enabled, disabled = (
        [name.strip() for name in values.get(f"{word}_ADMISSION_PLUGINS", "").split(",") if name.strip()]
        for word in ("ENABLE", "DISABLE")
    )
    return AdmissionPlugins(
        metadata=ObjectMeta(name=obj.name),
        plugins=tuple([name for name in enabled if name in ADMISSION_PLUGINS]),
        disabled_plugins=tuple([name for name in disabled if name in ADMISSION_PLUGINS]),
        pod=obj.name,
        config_file=values.get("ADMISSION_CONTROL_CONFIG_FILE", ""),
        unknown=tuple([name for name in enabled if name not in ADMISSION_PLUGINS]),
    )


def read_flags(
    obj: Object | None, document: Document
) -> AutoscalerFlags | KarpenterSettings | AdmissionPlugins | None:
    """Read how cluster-autoscaler, Karpenter or the API server is set up; None for an object of none, and for
    one of a dump, which has that aside."""
    if obj is not None and is_api_server(obj):
        return _api_server(obj, document)
    if not isinstance(obj, Deployment):
        return None
    names = [obj.name, *(container.image for container in obj.spec.template.spec.containers)]
    if not any(program in name for name in names for program in (PROGRAM, KARPENTER)):
        return None
    meta = ObjectMeta(name=obj.name, namespace=obj.namespace or "default")
    for container in decode(document, _Workload).spec.template.spec.containers:
        if any(HIDDEN in text for text in (*container.words(), *container.settings().values())):
            return None
        if container.is_autoscaler() and container.words():
            return AutoscalerFlags(metadata=meta, words=tuple(container.words()))
        if KARPENTER in container.image.partition("@")[0]:
            return KarpenterSettings(metadata=meta, values=container.settings())
    return None

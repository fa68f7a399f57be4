"""Object templates: files that are rendered and decoded to Kubernetes objects, one per index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError, located
from moorage.kube import Object, PersistentVolume, Pod, validate
from moorage.kube.apiserver.decode import CLUSTER_SCOPED, decode_kind, is_known
from moorage.kube.read.documents import read_yaml
from moorage.kube.read.files import read_text
from moorage.kube.read.object_defaults import default_object, priority_classes
from moorage.kube.workloads.ownership import Names
from moorage.store.errors import struct_named

from .go_template import GoTemplate, parse

CLASSES = priority_classes(())
BASE_POD = parse(
    """\
kind: Pod
metadata: {generateName: pod-}
spec:
  containers:
  - name: pause
    resources: {requests: {cpu: 100m, memory: 500Mi}, limits: {cpu: 100m, memory: 500Mi}}
""",
    "the base pod",
)
"""Pod of operations without a template, equal to pod-default.yaml of scheduler_perf."""


class NotBuiltError(Exception):
    """Scheduling does not read objects of a kind; the message names it."""


class ObjectTemplate:
    """A template file with its parameters.

    Parameters
    ----------
    text : GoTemplate
        The parsed template.
    params : mapping
        The ``templateParams`` of the operation.
    count : int
        Number of objects that the operation makes, ``.Count`` in the template.
    """

    def __init__(self, text: GoTemplate, params: Mapping[str, Any], count: int) -> None:
        self.text = text
        self.arguments = {**params, "Count": count}
        self.by_index = "Index" in text.fields

    def make(self, index: int, kind: str = "", namespace: str = "", name: str = "") -> Object:
        """Render and decode the object of an index, without defaults.

        Parameters
        ----------
        index : int
            Index of the object, ``.Index`` in the template.
        kind : str, optional
            Required kind; by default the kind in the file.
        namespace : str, optional
            Namespace of the object, if its kind has namespaces.
        name : str, optional
            Name of the object, in place of the name in the file.

        Raises
        ------
        InputError
            The object is invalid; names the file and the field.
        NotBuiltError
            Scheduling does not read objects of this kind.
        """
        return self._object(index, kind, namespace, name)

    def pod(self, index: int, namespace: str) -> Pod:
        """Return the pod of an index with the API server's defaults.

        The pod has no name and no UID if the template has only ``generateName``.

        Parameters
        ----------
        index : int
            Index of the pod.
        namespace : str
            Namespace of the pod.
        """
        pod = self._object(index, "Pod", namespace, has_defaults=True)
        assert isinstance(pod, Pod)
        return pod

    def complete(self, index: int, namespace: str) -> Object:
        """Return the object of an index; a pod as `pod` does, any other without defaults.

        Parameters
        ----------
        index : int
            Index of the object.
        namespace : str
            Namespace of the object, if its kind has namespaces.
        """
        return self._object(index, "", namespace, has_defaults=True)

    def _object(
        self, index: int, kind: str, namespace: str, name: str = "", *, has_defaults: bool = False
    ) -> Object:
        """The object of an index."""
        text = self.text.render({**self.arguments, "Index": index})
        return self._read(text, kind, namespace, name, has_defaults)

    def _read(self, text: str, kind: str, namespace: str, name: str, has_defaults: bool) -> Object:
        """Read the object of a rendered text."""
        source = self.text.source
        documents = list(read_yaml(text, source))
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError("not one object", source=source)
        document = documents[0]
        object_kind = document.get("kind") or kind
        if not isinstance(object_kind, str) or not object_kind:
            raise InputError("no kind", source=source)
        if kind and object_kind != kind:
            raise InputError(f"a {object_kind}, not a {kind}", source=source, path="kind")
        if not is_known(object_kind, str(document.get("apiVersion") or "")):
            raise NotBuiltError(f"objects of kind {object_kind}")
        with located(source=source):
            obj = decode_kind(fold_case(document, struct_named(object_kind)), object_kind)
            changes = {"namespace": namespace} if object_kind not in CLUSTER_SCOPED and namespace else {}
            changes |= {"name": name, "generate_name": ""} if name else {}
            obj = replace(obj, metadata=replace(obj.metadata, **changes))
            if isinstance(obj, PersistentVolume) and (csi := obj.spec.csi) is not None:  # numbered when made
                csi = replace(csi, volume_handle=csi.volume_handle or obj.name)
                obj = replace(obj, spec=replace(obj.spec, csi=csi))
            validate(obj)
        return _with_defaults(obj) if has_defaults and isinstance(obj, Pod) else obj


def _with_defaults(pod: Object) -> Pod:
    """Return a pod with the API server's defaults, but no generated name and UID."""
    filled = default_object(pod, CLASSES, Names())
    assert isinstance(filled, Pod)
    return replace(filled, metadata=replace(filled.metadata, name=pod.metadata.name, uid=""))


def read_template(path: Path) -> GoTemplate:
    """Read and parse a template file.

    Parameters
    ----------
    path : Path
        Path of the file.

    Raises
    ------
    InputError
        The file cannot be read, or is not a template.
    """
    return parse(read_text(str(path)), str(path))


# ---- names of fields ---------------------------------------------------------------------------------------


def fold_case(value: Any, type_: Any) -> Any:
    """Return a value with its keys spelt as in a struct and the structs in its fields.

    Keys are matched as by Go's encoding/json: the exact name first, else one that differs only in case.
    scheduler_perf reads its files through encoding/json (sigs.k8s.io/yaml, UnmarshalStrict), and some of them
    rely on its tolerance.

    Parameters
    ----------
    value : object
        A JSON value.
    type_ : type
        The type into which the value will be decoded.

    Returns
    -------
    object
        The JSON value with the spelling of the types.
    """
    options = get_args(type_)
    if isinstance(value, list) and get_origin(type_) in (tuple, list):
        return [fold_case(item, options[0]) for item in value]
    if not isinstance(value, dict):
        return value
    if get_origin(type_) is dict:
        return {key: fold_case(item, options[1]) for key, item in value.items()}
    candidates: list[Any] = [item for item in (type_, *options) if _is_struct(item)]
    if not candidates:
        return value
    fields, folded = _fields(candidates[0])
    out = {}
    for key, item in value.items():
        name = key if key in fields else folded.get(key.lower(), key)
        out[name] = fold_case(item, fields.get(str(name)))
    return out


@cache
def _fields(struct: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Types by name, and names by their lower-case form."""
    types = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    return types, {name.lower(): name for name in types}


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)

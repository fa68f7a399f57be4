"""Object templates: files that are rendered and decoded to Kubernetes objects, one per index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from moorage.errors import InputError, NotBuiltError, located
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.objects.read.decode import CLUSTER_SCOPED, decode_kind, is_known
from moorage.objects.read.files import read_file
from moorage.objects.read.object_defaults import default_object, priority_classes
from moorage.objects.read.yaml_reader import read_yaml
from moorage.objects.validate.validate_object import validate
from moorage.objects.workloads.naming import Names
from moorage.store.kinds import struct_named

from .fold import fold_case
from .go_template import GoTemplate, parse

CLASSES = priority_classes(())
BASE_POD = """\
kind: Pod
metadata: {generateName: pod-}
spec:
  containers:
  - name: pause
    resources: {requests: {cpu: 100m, memory: 500Mi}, limits: {cpu: 100m, memory: 500Mi}}
"""
"""What scheduler_perf creates where no template is named; like its pod-default.yaml."""


class ObjectTemplate:
    """A template file with its parameters.

    Parameters
    ----------
    text : GoTemplate
    params : mapping
        The ``templateParams`` of the operation.
    count : int
        How many objects the operation makes, ``.Count`` in the template.
    """

    def __init__(self, text: GoTemplate, params: Mapping[str, Any], count: int) -> None:
        self.text = text
        self.arguments = {**params, "Count": count}
        self.by_index = "Index" in text.fields

    def make(self, index: int, kind: str = "", namespace: str = "", name: str = "") -> Object:
        """Render and decode the object of an index, without defaults.

        Parameters
        ----------
        kind : str, optional
            What it must be; by default what it says itself.
        namespace : str, optional
            Where it goes, if its kind has namespaces.
        name : str, optional
            What it is called, whatever the file says.

        Raises
        ------
        InputError
            Naming the file and the field.
        NotBuiltError
            For a kind that scheduling does not read yet.
        """
        source = self.text.source
        text = self.text.render({**self.arguments, "Index": index})
        documents = list(read_yaml(text, source))
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError("not one object", source=source)
        document = documents[0]
        found = document.get("kind") or kind
        if not isinstance(found, str) or not found:
            raise InputError("no kind", source=source)
        if kind and found != kind:
            raise InputError(f"a {found}, not a {kind}", source=source, path="kind")
        if not is_known(found, str(document.get("apiVersion") or "")):
            raise NotBuiltError(f"objects of kind {found}")
        with located(source=source):
            obj = decode_kind(fold_case(document, struct_named(found)), found)
            changes = {"namespace": namespace} if found not in CLUSTER_SCOPED and namespace else {}
            changes |= {"name": name, "generate_name": ""} if name else {}
            obj = replace(obj, metadata=replace(obj.metadata, **changes))
            _refuse_unbuilt(obj)
            validate(obj)
        return obj

    def pod(self, index: int, namespace: str) -> Pod:
        """The pod of an index with the API server's defaults. It has no name and no UID if the template has
        only ``generateName``."""
        obj = self.make(index, "Pod", namespace)
        filled = default_object(obj, CLASSES, Names())
        assert isinstance(filled, Pod)
        return replace(filled, metadata=replace(filled.metadata, name=obj.metadata.name, uid=""))


def _refuse_unbuilt(obj: Object) -> None:
    """Refuse objects with features that the workload would measure but that are not supported."""
    if isinstance(obj, Pod) and obj.spec.resource_claims:
        raise NotBuiltError("dynamic resource allocation (spec.resourceClaims)")
    if isinstance(obj, PodGroup) and obj.spec.parent_composite_pod_group_name:
        raise NotBuiltError("composite pod groups (spec.parentCompositePodGroupName)")


class TemplateFiles:
    """Template files, each parsed once."""

    def __init__(self) -> None:
        self._parsed: dict[Path, GoTemplate] = {}
        self.base_pod = parse(BASE_POD, "the base pod")

    def get(self, path: Path) -> GoTemplate:
        """Read a file.

        Raises
        ------
        InputError
            If it cannot be read, or is no template.
        """
        if path not in self._parsed:
            try:
                text = read_file(str(path)).decode()
            except UnicodeDecodeError:
                raise InputError("not a text file", source=str(path)) from None
            self._parsed[path] = parse(text, str(path))
        return self._parsed[path]

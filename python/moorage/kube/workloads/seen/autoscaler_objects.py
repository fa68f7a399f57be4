"""Reads what autoscalers are told, of objects of which nothing else is read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

from moorage.kube.model.autoscaling import PRIORITIES, STATUS, AutoscalerFlags, ConfigMap, KarpenterSettings
from moorage.kube.model.meta import Object, ObjectMeta
from moorage.kube.model.workload import Deployment
from moorage.kube.read.decode import Document, decode, decode_as

from ..kinds.custom_objects import metadata_of

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
        values = {one.name: one.value for one in self.env or () if one.value}
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


def read_config_map(document: Any) -> ConfigMap | None:
    """Read a ConfigMap of cluster-autoscaler; None for another one."""
    meta = metadata_of(document)
    is_its = meta is not None and meta.name in (PRIORITIES, STATUS)
    return decode_as(document, ConfigMap) if is_its else None


def read_flags(obj: Object | None, document: Document) -> AutoscalerFlags | KarpenterSettings | None:
    """Read how cluster-autoscaler or Karpenter is set up; None for an object that is no Deployment of one."""
    if not isinstance(obj, Deployment):
        return None
    names = [obj.name, *(one.image for one in obj.spec.template.spec.containers)]
    if not any(program in name for name in names for program in (PROGRAM, KARPENTER)):
        return None
    meta = ObjectMeta(name=obj.name, namespace=obj.namespace or "default")
    for container in decode(document, _Workload).spec.template.spec.containers:
        if container.is_autoscaler():
            return AutoscalerFlags(metadata=meta, words=tuple(container.words()))
        if KARPENTER in container.image.partition("@")[0]:
            return KarpenterSettings(metadata=meta, values=container.settings())
    return None

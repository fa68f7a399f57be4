"""Keeps the objects that parametrise admission policies: of kinds that nothing else reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.errors import InputError

from .. import workloads as of_workloads
from ..apiserver.decode import UNREADABLE, is_json
from ..model.admission_registration import (
    MutatingAdmissionPolicy,
    PolicyParameter,
    ValidatingAdmissionPolicy,
)
from ..model.meta import Object, ObjectMeta

_MOST = 4 << 20
"""Number of bytes of objects that wait."""


class ParamsReader:
    """Chooses the params of policies among objects whose kind alone does not tell.

    Objects that come before the policies wait as texts, as any policy may name their kind. That ends at a
    size, so that large files are never in memory as a whole.
    """

    def __init__(self) -> None:
        self._kinds: set[tuple[str, str]] = set()
        self._waiting: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
        self._room = _MOST

    def of_policy(self, obj: Object) -> Iterator[PolicyParameter]:
        """Yield the objects so far that parametrise a policy, if an object is one; later ones are known."""
        if isinstance(obj, ValidatingAdmissionPolicy | MutatingAdmissionPolicy):
            kind = obj.spec.param_kind
            if kind is not None and (key := (kind.api_version, kind.kind)) not in self._kinds:
                self._kinds.add(key)
                yield from filter(None, (_param(document, *key) for document in self._waiting.pop(key, ())))

    def param(self, document: Any, kind: str, api_version: str) -> PolicyParameter | None:
        """Return an object as a param; None if no policy so far names its kind."""
        key = api_version, kind
        if key in self._kinds:
            return _param(document, *key)
        if kind == "ConfigMap" or "." in api_version:
            self._wait(key, bytes(document) if is_json(document) else msgspec.json.encode(document))
        return None

    def _wait(self, key: tuple[str, str], text: bytes) -> None:
        """Keep an object until a policy names its kind; with too many, none is known."""
        if self._room > 0:
            self._room -= len(text)
            self._waiting[key].append(text)
            if self._room <= 0:
                self._waiting.clear()


def _param(document: Any, api_version: str, kind: str) -> PolicyParameter | None:
    try:
        value = msgspec.json.decode(document) if is_json(document) else document
        meta = of_workloads.custom_objects.metadata_of(document)
    except (InputError, *UNREADABLE):
        return None
    if not isinstance(value, dict) or meta is None:
        return None
    if kind == "ConfigMap" and not meta.namespace:
        value = value | {"metadata": value["metadata"] | {"namespace": "default"}}
    named = ObjectMeta(
        name=f"{kind.lower()}.{meta.name}",
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return PolicyParameter(metadata=named, value=value | {"kind": kind, "apiVersion": api_version})

"""Decodes pods and nodes from JSON; what many pods have in common is decoded once, and shared."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from moorage._core.base.shared_parts import SharedTexts, cut, insert
from moorage.lazy import NamedTuple

from ..apiserver.unread_fields import unread_text, unread_type
from ..model.meta import Condition, Int64, ObjectMeta, OwnerReference, QuantityLike
from ..model.node import AttachedVolume, ContainerImage, Node, NodeSpec, NodeStatus, NodeSystemInfo
from ..model.pod import Pod, PodSpec, PodStatus, UnreadFields

_KINDS, _VERSIONS = ("Pod", "Node"), ("v1", UNSET)
_ERRORS = msgspec.MsgspecError, UnicodeDecodeError, RecursionError
_MAX_TEXT = 16 << 20
"""Maximum size in bytes of the JSON texts by which decoded values of one type are found."""
_MAX_TEXTS = 1 << 16
_TIMES = b'Time"'


class Parts(msgspec.Struct, rename="camel", gc=False):
    """The undecoded parts of an object, and the fields that decide how it is read; the same of each item of
    a list."""

    kind: str | UnsetType = UNSET
    api_version: str | UnsetType = UNSET
    items: list[Parts] | None = None
    metadata: Raw = Raw(b"{}")
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    """Metadata of which the parts that pods share are undecoded; see `ObjectMeta`."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Raw = Raw(b"{}")
    annotations: Raw = Raw(b"{}")
    owner_references: Raw = Raw(b"[]")
    finalizers: tuple[str, ...] = ()
    generation: Int64 = 0


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    """A status of a node of which the parts that nodes share are undecoded; see `NodeStatus`."""

    capacity: Raw = Raw(b"{}")
    allocatable: Raw = Raw(b"{}")
    images: tuple[Raw, ...] = ()
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """A decoder, which takes longer to make than a small object to decode."""
    return msgspec.json.Decoder(type_)


def _shared(type_: Any) -> SharedTexts:
    """Return decoded values of a type by their JSON text."""
    return SharedTexts(_decoder(type_).decode, _MAX_TEXT)


Varying = tuple[bytes, bytes, bytes]
"""The strings in which the specs of one template differ: node name, host name, token. Empty where there is
none."""
_OTHERS: Varying = b"another-node", b"another-host", b'"kube-api-access-other"'


class _Template(NamedTuple):
    """A spec without its varying strings, and the indices of the volumes that are named after the token."""

    spec: PodSpec
    tokens: tuple[int, ...]

    def fill(self, varying: Varying) -> PodSpec:
        """Return the spec with varying strings."""
        spec, node_name = self.spec, varying[0].decode()
        if self.tokens:
            volumes, name = list(spec.volumes), varying[2][1:-1].decode()
            for at in self.tokens:
                volumes[at] = replace(volumes[at], name=name)
            return replace(spec, node_name=node_name, volumes=tuple(volumes))
        return replace(spec, node_name=node_name) if node_name else spec


class PartsReader:
    """Decodes pods and nodes from JSON.

    Pods of one template share the decoded values of equal texts: labels, annotations, owners, a status
    without times, and the spec, of which an API server changes the node name, the name of the volume
    ``kube-api-access-…`` and the host name from pod to pod. Nodes share equal resources and images.

    Parameters
    ----------
    on_spec : callable, optional
        Called with the kind, metadata and spec of each node, and of each pod whose spec is the first of its
        template, as JSON texts.
    """

    def __init__(self, on_spec: Callable[[str, Raw, Raw], None] = lambda *_: None) -> None:
        self._on_spec = on_spec
        self._parts, self._metadata, self._status = _decoder(Parts), _decoder(_Metadata), _decoder(PodStatus)
        self._node = _decoder(ObjectMeta), _decoder(NodeSpec), _decoder(_NodeStatus)
        self._resources, self._images = _shared(dict[str, QuantityLike]), _shared(ContainerImage)
        self._texts: dict[str, str] = {}
        self._labels, self._annotations = _shared(dict[str, str]), _shared(dict[str, str])
        self._owners = _shared(tuple[OwnerReference, ...])
        self._statuses, self._specs = _shared(PodStatus), _shared(PodSpec)
        self._spec_decoder: msgspec.json.Decoder[PodSpec] = _decoder(PodSpec)
        self._unread = _decoder(unread_type(Raw))
        self._namespaces: dict[str, str] = {}

    def split(self, document: bytes | Raw) -> Parts | None:
        """Split an object, or a list and its items, into parts.

        Returns
        -------
        Parts or None
            None where the parts are not as expected.
        """
        try:
            parts: Parts = self._parts.decode(document)
        except _ERRORS:
            return None
        return parts

    def split_lines(self, lines: memoryview) -> list[Parts] | None:
        """Split objects that take one line each into parts.

        Returns
        -------
        list of Parts or None
            For each line that is not empty; None where a line is no object.
        """
        try:
            return self._parts.decode_lines(lines)
        except _ERRORS:
            return None

    def read(self, parts: Parts, kind: str) -> Pod | Node | None:
        """Decode a pod or a node, with the result of `decode_kind`.

        Parameters
        ----------
        parts : Parts
            The parts of an object.
        kind : str
            The kind of an object that does not name its kind.

        Returns
        -------
        Pod, Node or None
            None for an object of another kind, or with nulls or errors; it is to be decoded as a whole.
        """
        own, version = parts.kind, parts.api_version
        kind = kind if own is UNSET else own
        if kind not in _KINDS or version not in _VERSIONS or parts.items is not None:
            return None
        try:
            if kind == "Pod":
                return self._pod(parts.metadata, parts.spec, parts.status)
            meta, spec, status = self._node
            self._on_spec(kind, parts.metadata, parts.spec)
            read: _NodeStatus = status.decode(parts.status)
            return Node(
                metadata=meta.decode(parts.metadata),
                spec=spec.decode(parts.spec),
                status=NodeStatus(
                    capacity=self._resources[read.capacity],
                    allocatable=self._resources[read.allocatable],
                    images=tuple([self._images[image] for image in read.images]),
                    conditions=tuple(map(self._condition, read.conditions)),
                    volumes_attached=read.volumes_attached,
                    declared_features=read.declared_features,
                    node_info=NodeSystemInfo(self._text(read.node_info.kubelet_version)),
                ),
            )
        except _ERRORS:
            return None

    def _text(self, text: str) -> str:
        """Return a text that objects share."""
        if len(self._texts) > _MAX_TEXTS:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def _condition(self, condition: Condition) -> Condition:
        """Return a condition that shares its texts with others of its type."""
        return Condition(
            type=self._text(condition.type),
            status=self._text(condition.status),
            reason=self._text(condition.reason),
            message=self._text(condition.message),
            last_transition_time=condition.last_transition_time,
        )

    def _pod(self, metadata: Raw, spec: Raw, status: Raw) -> Pod:
        meta, status_text = self._metadata.decode(metadata), bytes(status)
        created = meta.creation_timestamp
        return Pod(
            metadata=ObjectMeta(
                name=meta.name,
                generate_name=meta.generate_name,
                namespace=self._namespaces.setdefault(meta.namespace, meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                creation_timestamp=created and self._text(created),
                deletion_timestamp=meta.deletion_timestamp,
                deletion_grace_period_seconds=meta.deletion_grace_period_seconds,
                labels=self._labels[meta.labels],
                annotations=self._annotations[meta.annotations],
                owner_references=self._owners[meta.owner_references],
                finalizers=meta.finalizers,
                generation=meta.generation,
            ),
            spec=self._spec(metadata, spec),
            unread=None
            if meta.uid or meta.resource_version
            else UnreadFields(unread_text(self._unread.decode(spec))),
            status=self._status.decode(status) if _TIMES in status_text else self._statuses[status_text],
        )

    def _spec(self, metadata: Raw, spec: Raw) -> PodSpec:
        """Decode a spec; the second of its template makes that, from which the others are filled."""
        key, varying = cut(bytes(spec))
        known: _Template | Literal[False] | tuple[Varying, PodSpec] | None = self._specs.get(key)
        if known is None:
            self._on_spec("Pod", metadata, spec)
            known = varying, self._spec_decoder.decode(spec)
            self._specs.put(key, known)
            return known[1]
        if known and not isinstance(known, _Template):
            known = _template(key, *known)
            self._specs.put(key, known)
        return known.fill(varying) if known else self._spec_decoder.decode(spec)


def _template(key: bytes, varying: Varying, spec: PodSpec) -> _Template | Literal[False]:
    """Make a template of the spec of the first pod; False if a varying string has another meaning where it is
    found.

    The template must give what decoding gives, for the strings of the first pod and for other ones.
    """
    name = varying[2][1:-1].decode()
    tokens = tuple([at for at, volume in enumerate(spec.volumes) if name and volume.name == name])
    template = _Template(replace(spec, node_name="") if spec.node_name else spec, tokens)
    node_name, host_name, token = varying
    others = node_name and _OTHERS[0], host_name and _OTHERS[1], token and _OTHERS[2]
    other = msgspec.json.decode(insert(key, others), type=PodSpec)
    return template if (template.fill(varying), template.fill(others)) == (spec, other) else False

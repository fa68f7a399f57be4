"""Wire format of extenders (k8s.io/kube-scheduler v0.36, extender/v1).

Fields have their names in Go, which declares no JSON names for them. A field that may be None is a pointer in
Go. See there for the meaning of the fields.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, field
from msgspec.json import Decoder

from moorage.errors import ExtenderError
from moorage.kube.apiserver import go_structs
from moorage.kube.apiserver.decode import UNREADABLE
from moorage.kube.apiserver.go_structs import Part
from moorage.kube.model.meta import Int64

MAX_LENIENT_BYTES = 1 << 16
"""Maximum bytes of a response with other field names that is decoded value by value, as Go does."""


class Wire(Part, rename="pascal", forbid_unknown_fields=True):
    """Base of messages and their parts."""


class ObjectMeta(Part, kw_only=True):
    """The part of metadata that is read."""

    name: str = ""


class Node(Part, kw_only=True):
    """The part of a node that is read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class NodeList(Part, kw_only=True, forbid_unknown_fields=True):
    """A node list; its other fields are not read."""

    kind: Any = None
    api_version: Any = None
    metadata: Any = None
    items: list[Node] | None = None


class ExtenderFilterResult(Wire, kw_only=True):
    """Response of the filter verb."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Wire, kw_only=True):
    """Score of one node."""

    host: str = ""
    score: Int64 = 0


class ExtenderBindingResult(Wire, kw_only=True):
    """Response of the bind verb."""

    error: str = ""


class MetaPod(Wire, kw_only=True):
    """A pod by its UID."""

    uid: str = field(default="", name="UID")


class MetaVictims(Wire, kw_only=True):
    """Victims on one node."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: Int64 = field(default=0, name="NumPDBViolations")


class ExtenderPreemptionResult(Wire, kw_only=True):
    """Response of the preempt verb."""

    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderRequest(Part, rename="pascal", kw_only=True):
    """Base of requests. As kube-scheduler writes them; unknown fields are not read."""


class WholeNodes(Part, kw_only=True):
    """A list of whole nodes, as they were sent."""

    items: list[Raw] | None = None


class ExtenderArgs(ExtenderRequest, kw_only=True):
    """Request of the verbs filter and prioritize: names, or whole nodes."""

    pod: Raw = Raw(b"null")
    nodes: WholeNodes | None = None
    node_names: list[str] | None = None


class ExtenderBindingArgs(ExtenderRequest, kw_only=True):
    """Request of the verb bind."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = field(default="", name="PodUID")
    node: str = ""


class Victim(Part, kw_only=True):
    """The part of a whole victim that is read."""

    metadata: dict[str, Any] = field(default_factory=dict)


class WholeVictims(ExtenderRequest, kw_only=True):
    """Whole victims on one node."""

    pods: list[Victim] | None = None
    num_pdb_violations: Int64 = field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(ExtenderRequest, kw_only=True):
    """Request of the verb preempt: victims by UID, or whole."""

    pod: Raw = Raw(b"null")
    node_name_to_victims: dict[str, WholeVictims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class Answer:
    """The type of a response: a message, or a list of messages.

    Parameters
    ----------
    list_name : str, optional
        Name of Go's type for a list of messages; "" for a single message.

    Attributes
    ----------
    decoder : Decoder
        Decodes a response that has Go's field names.
    go_type : GoType
        The type into which Go decodes the response.
    """

    def __init__(self, struct: type[Wire], list_name: str = "") -> None:
        self.is_list = bool(list_name)
        self.struct = struct
        self.decoder = Decoder((list[struct] if list_name else struct) | None)  # type: ignore[valid-type]
        go_type = go_structs.GoType(f"v1.{struct.__name__}", "struct", struct=struct)
        self.go_type = go_structs.GoType(list_name, "list", item=go_type) if list_name else go_type

    def respell(self, body: bytes) -> bytes:
        """Rewrite a response with Go's names for its outermost fields, and without unknown fields."""
        names = {name.lower(): name for name in go_structs.go_fields(self.struct)}

        def spell(members: dict[str, Raw]) -> dict[str, Raw]:
            return {names[key.lower()]: value for key, value in members.items() if key.lower() in names}

        if self.is_list:
            return msgspec.json.encode([spell(victim) for victim in _LIST.decode(body) or ()])
        message = _MESSAGE.decode(body)
        return msgspec.json.encode(None if message is None else spell(message))


_MESSAGE = Decoder(dict[str, Raw] | None)
_LIST = Decoder(list[dict[str, Raw]] | None)

FILTER_RESULT = Answer(ExtenderFilterResult)
BINDING_RESULT = Answer(ExtenderBindingResult)
PREEMPTION_RESULT = Answer(ExtenderPreemptionResult)
HOST_PRIORITIES = Answer(HostPriority, "v1.HostPriorityList")


def decode(body: bytes, answer: Answer) -> Any:
    """Decode a response.

    A response with the names of Go is read into small structs, in time and memory bounded by its size. Others
    are read as Go does: names of fields in any case, unknown fields and what follows the message ignored. Of
    long ones only the names of the outermost fields may differ.

    Raises
    ------
    ExtenderError
        It is no such message: in Go's words, or msgspec's for a long one.
    """
    try:
        message = answer.decoder.decode(body)
    except UNREADABLE:
        message = _long(body, answer) if len(body) > MAX_LENIENT_BYTES else _as_go_reads(body, answer.go_type)
    return answer.struct() if message is None and not answer.is_list else message


def _long(body: bytes, answer: Answer) -> Any:
    """Decode a long response, of which only the outermost field names may differ from Go's."""
    try:
        return answer.decoder.decode(answer.respell(body))
    except UNREADABLE as error:
        raise ExtenderError(f"json: cannot unmarshal into {answer.go_type.name}: {error}") from None


def _as_go_reads(body: bytes, type_: go_structs.GoType) -> Any:
    """Decode a response as Go's encoding/json does."""
    try:
        return go_structs.decode_leniently(go_structs.parse_first(body.decode(errors="replace")), type_)
    except go_structs.DecodeError as error:
        raise ExtenderError(str(error)) from None

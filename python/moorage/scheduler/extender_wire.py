"""What goes over the wire to an extender and back (k8s.io/kube-scheduler v0.36, extender/v1).

Fields are spelt as in Go, since they have no names of their own for JSON; what may be None is a pointer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, field

from moorage.errors import ExtenderError
from moorage.framework.configuration.decoding import DecodeError, decode_leniently
from moorage.framework.configuration.go_types import GoType
from moorage.framework.configuration.json_text import parse_first
from moorage.framework.configuration.types import Part
from moorage.objects.meta import Int64


class Wire(Part, rename="pascal", kw_only=True):
    """A message, or a part of one."""


class ObjectMeta(Part, kw_only=True):
    name: str = ""


class Node(Part, kw_only=True):
    """As far as an answer is read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class NodeList(Part, kw_only=True):
    items: list[Node] | None = None


class ExtenderFilterResult(Wire, kw_only=True):
    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Wire, kw_only=True):
    host: str = ""
    score: Int64 = 0


class ExtenderBindingResult(Wire, kw_only=True):
    error: str = ""


class MetaPod(Wire, kw_only=True):
    uid: str = field(default="", name="UID")


class MetaVictims(Wire, kw_only=True):
    pods: list[MetaPod] | None = None
    num_pdb_violations: Int64 = field(default=0, name="NumPDBViolations")


class ExtenderPreemptionResult(Wire, kw_only=True):
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


FILTER_RESULT = GoType("v1.ExtenderFilterResult", "struct", struct=ExtenderFilterResult)
BINDING_RESULT = GoType("v1.ExtenderBindingResult", "struct", struct=ExtenderBindingResult)
PREEMPTION_RESULT = GoType("v1.ExtenderPreemptionResult", "struct", struct=ExtenderPreemptionResult)
HOST_PRIORITIES = GoType(
    "v1.HostPriorityList", "list", item=GoType("v1.HostPriority", "struct", struct=HostPriority)
)


def extender_args(pod: Raw, nodes: Sequence[Raw] | None, names: Sequence[str] | None) -> dict[str, Any]:
    """ExtenderArgs: the pod, and its candidate nodes as they are or by name."""
    node_list = None if nodes is None else {"metadata": {}, "items": nodes}
    return {"Pod": pod, "Nodes": node_list, "NodeNames": names}


def encode(message: Any) -> bytes:
    """The JSON text of a message."""
    return msgspec.json.encode(message)


def decode(body: bytes, type_: GoType) -> Any:
    """The message that a text begins with; ExtenderError in Go's words where it is none."""
    try:
        return decode_leniently(parse_first(body.decode(errors="replace")), type_)
    except DecodeError as error:
        raise ExtenderError(str(error)) from None

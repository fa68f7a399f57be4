"""Types of EKS Auto Mode: those of AWS, with labels of its own.

Its code is not public. Labels and sizes are as its documentation has them; what nodes keep for themselves is
estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from msgspec import structs

from moorage._core.base.quantity import Quantity
from moorage.autoscalers.instance_types.instance_type import InstanceType
from moorage.kube import NodeSelectorRequirement

from ..registrations import EKS
from .node_class import BlockDevice, Spec, Volume
from .type_labels import DOMAIN as EC2_DOMAIN

DOMAIN = "eks.amazonaws.com"
SPEC = Spec(
    ami_family="Bottlerocket",
    block_device_mappings=(BlockDevice(device_name="/dev/xvdb", ebs=Volume(volume_size="80Gi")),),
)
ESTIMATE = "nodes are estimated as those of Bottlerocket with 80Gi of storage"
_TOO_SMALL = ("nano", "micro", "small")
_LEAST_CPU = Quantity("2")


def offered(types: Iterable[InstanceType]) -> Iterator[InstanceType]:
    """Yield the types that Auto Mode launches, with its labels in place of those of Karpenter's provider."""
    for one in types:
        if one.name.rpartition(".")[2] in _TOO_SMALL or one.capacity["cpu"] < _LEAST_CPU:
            continue
        offerings = [replace(each, requirements=_renamed(each.requirements)) for each in one.offerings]
        yield replace(one, requirements=_renamed(one.requirements), offerings=tuple(offerings))


@cache
def _renamed(requirements: tuple[NodeSelectorRequirement, ...]) -> tuple[NodeSelectorRequirement, ...]:
    found = []
    for one in requirements:
        domain, slash, name = one.key.partition("/")
        key = f"{DOMAIN}/{name}" if slash and domain == EC2_DOMAIN else one.key
        if not key.startswith(f"{DOMAIN}/instance-") or key in EKS.well_known:
            found.append(structs.replace(one, key=key))
    return tuple(found)

"""Kubernetes objects: structs, quantities, selectors, reading, defaults and validation."""

from __future__ import annotations

from .model.cluster import Cluster
from .model.meta import (
    LabelSelector,
    Object,
    ObjectMeta,
    OwnerReference,
)
from .model.node import Namespace, Node, Taint
from .model.pod import (
    Container,
    Pod,
    PodSpec,
    Toleration,
)
from .model.pod_group import PodGroup, group_of
from .model.policy import PodDisruptionBudget
from .model.quantity import Quantity, parse_milli, parse_value
from .model.selectors import LabelSelectorMatcher, NodeSelectorMatcher, parse_selector
from .read.cluster_builder import build_cluster
from .read.decode import decode_object
from .read.load import load
from .read.object_defaults import defaults
from .read.write import (
    dump,
    encode_object,
    write,
    write_cluster,
)
from .validate.validate_object import validate
from .workloads.disruption import disruption_status
from .workloads.expand_workloads import expand_workloads

__all__ = [
    "Cluster",
    "Container",
    "LabelSelector",
    "LabelSelectorMatcher",
    "Namespace",
    "Node",
    "NodeSelectorMatcher",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PodSpec",
    "Quantity",
    "Taint",
    "Toleration",
    "build_cluster",
    "decode_object",
    "defaults",
    "disruption_status",
    "dump",
    "encode_object",
    "expand_workloads",
    "group_of",
    "load",
    "parse_milli",
    "parse_selector",
    "parse_value",
    "validate",
    "write",
    "write_cluster",
]

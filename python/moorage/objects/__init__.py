"""Kubernetes objects: structs, quantities, selectors, reading, defaults and validation."""

from __future__ import annotations

from .build import build_cluster
from .cluster import Cluster
from .decode import decode_object
from .defaults import defaults
from .disruption import disruption_status
from .load import load
from .meta import LabelSelector, Object, ObjectMeta, OwnerReference
from .node import Namespace, Node, Taint
from .pod import Container, Pod, PodSpec, Toleration
from .pod_group import PodGroup, group_of
from .policy import PodDisruptionBudget
from .quantity import Quantity, parse_milli, parse_value
from .selectors import LabelSelectorMatcher, NodeSelectorMatcher, parse_selector
from .validate import validate
from .workloads import expand_workloads
from .write import dump, encode_object, write, write_cluster

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

"""Expanders: which node group grows (cluster-autoscaler, cluster-autoscaler/expander)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from moorage._core.base.resources import pod_requests
from moorage.objects import Node, Pod, parse_milli, parse_value
from moorage.objects.model.meta import Resources
from moorage.sim.timeline.autoscaler_spec import AutoscalerSpec, NodeGroup

GIB = 1 << 30
STABILIZATION = 500, 500 << 20
"""Millicores and bytes of a pod whose price is added to both sides of the ratio of prices."""
PREFERRED_CPU = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
"""Up to how many nodes of the cluster which number of cpu is preferred; 32 beyond."""
GPU_UNFITNESS = 1000.0
GPUS = ("nvidia.com/gpu", "amd.com/gpu", "alibabacloud.com/gpu-milli")


class Option(NamedTuple):
    """A way to grow: new nodes of a group, and the pods that fit on them."""

    group: NodeGroup
    nodes: int
    pods: Sequence[Pod]


def choose(spec: AutoscalerSpec, options: Sequence[Option], cluster: int, tick: int) -> Option:
    """Choose an option by the expanders of an autoscaler, one after the other, and then at random.

    Parameters
    ----------
    options : sequence of Option
        One at least.
    cluster : int
        Number of nodes in the cluster.
    tick : int
        Number of the scan; draws depend on it and on the seed alone.
    """
    left = list(options)
    for name in spec.expanders:
        left = _EXPANDERS[name](spec, left, cluster) or left
    return left[int(np.random.default_rng([spec.seed, tick]).integers(len(left)))]


def _all(spec: AutoscalerSpec, options: list[Option], cluster: int) -> list[Option]:
    return options


def _most_pods(spec: AutoscalerSpec, options: list[Option], cluster: int) -> list[Option]:
    most = max(len(one.pods) for one in options)
    return [one for one in options if len(one.pods) == most]


def _least_waste(spec: AutoscalerSpec, options: list[Option], cluster: int) -> list[Option]:
    """The least sum of the parts of cpu and memory that stay free on the new nodes."""
    wastes = [_waste(one) for one in options]
    return [one for one, waste in zip(options, wastes, strict=True) if waste == min(wastes)]


def _waste(option: Option) -> float:
    total = 0.0
    for has, needs in zip(capacity(option.group.template), requests(option.pods), strict=True):
        if has:
            total += float(has * option.nodes - needs) / float(has * option.nodes)
    return total


def _price(spec: AutoscalerSpec, options: list[Option], cluster: int) -> list[Option]:
    """The least price of the nodes by that of the pods, times the unfitness of the size of the nodes."""
    scores = [_price_score(spec, one, cluster) for one in options]
    return [options[scores.index(min(scores))]]


def _price_score(spec: AutoscalerSpec, option: Option, cluster: int) -> float:
    stabilization = _pod_price(spec, *STABILIZATION)
    nodes = (option.group.price or 0.0) * option.nodes
    pods = _pod_price(spec, *requests(option.pods))
    node: Node = option.group.template
    preferred = next((cpu for most, cpu in PREFERRED_CPU if cluster <= most), 32)
    cpu = capacity(node)[0] / 1000
    unfitness = max(preferred / cpu, cpu / preferred) if cpu else math.inf
    suppressed = (unfitness - 1.0) * (1.0 - math.tanh((option.nodes - 1) / 15.0)) + 1.0
    if any(_amounts(node).get(name, "0") != "0" for name in GPUS):
        suppressed = GPU_UNFITNESS
    return suppressed * (nodes + stabilization) / (pods + stabilization)


def _pod_price(spec: AutoscalerSpec, cpu: int, memory: int) -> float:
    return spec.pod_prices.cpu * cpu / 1000 + spec.pod_prices.memory * memory / GIB


def _priority(spec: AutoscalerSpec, options: list[Option], cluster: int) -> list[Option]:
    """The groups of the greatest priority; all where none has one."""
    best: list[Option] = []
    for priority in sorted(spec.priorities, key=int, reverse=True):
        patterns = spec.priorities[priority]
        best = [one for one in options if any(re.search(each, one.group.name) for each in patterns)]
        if best:
            break
    return best


def _amounts(node: Node) -> Resources:
    """The capacity of a node; what can be allocated where a template names none."""
    return node.status.capacity or node.status.allocatable


def capacity(node: Node) -> tuple[int, int]:
    """Return the millicores and the bytes of memory of a node."""
    has = _amounts(node)
    return parse_milli(has.get("cpu", "0")), parse_value(has.get("memory", "0"))


def requests(pods: Sequence[Pod]) -> tuple[int, int]:
    """Return the millicores and the bytes of memory that pods request together."""
    cpu = memory = 0
    for pod in pods:
        needs = pod_requests(pod)
        cpu += needs["cpu"].milli_value() if "cpu" in needs else 0
        memory += needs["memory"].value() if "memory" in needs else 0
    return cpu, memory


_EXPANDERS: dict[str, Callable[[AutoscalerSpec, list[Option], int], list[Option]]] = {
    "random": _all,
    "most-pods": _most_pods,
    "least-waste": _least_waste,
    "price": _price,
    "priority": _priority,
}

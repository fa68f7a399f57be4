"""Expanders: which of the groups that could help grows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import chain, repeat

from msgspec import Struct

from moorage.kube import Pod, parse_milli

from .estimator import amounts, capacity, requests
from .flags import GPUS, Flags, NodeGroup
from .group_templates import Template

GIB = 1 << 30
STABILIZATION = 500, 500 << 20
"""Millicores and bytes of a pod whose price is added to both sides of the ratio of prices."""
PREFERRED_CPU = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
"""Up to how many nodes of the cluster which number of cpu is preferred; 32 beyond."""
GPU_UNFITNESS = 1000.0


class Option(Struct, frozen=True):
    """A way to grow: new nodes of a group, and the pods that fit on them.

    Attributes
    ----------
    runs : sequence of sequence of Pod
        The pods: runs of equal ones.
    similar : tuple of str
        Groups among which the nodes are spread.
    """

    group: NodeGroup
    template: Template
    nodes: int
    runs: Sequence[Sequence[Pod]]
    similar: tuple[str, ...] = ()


def narrow(flags: Flags, options: Sequence[Option], cluster: int) -> list[list[Option]]:
    """Return the options, and what each expander leaves of them, until one is left.

    Parameters
    ----------
    cluster : int
        Number of nodes in the cluster.
    """
    out = [list(options)]
    for name in flags.expanders:
        if name == "priority":
            out.append(_priority(flags, out[-1]))
        elif name != "random":
            scores = [_SCORES[name](flags, one, cluster) for one in out[-1]]
            out.append(
                [one for one, each in zip(out[-1], scores, strict=True) if each == min(scores)] or out[-1]
            )
        if len(out[-1]) == 1:
            break
    return out


def _waste(option: Option) -> float:
    """The sum of the parts of cpu and memory that stay free on the new nodes."""
    total, needs = 0.0, [0, 0]
    for run in option.runs:
        for at, each in enumerate(requests(run[0])):
            needs[at] += each * len(run)
    for amount, need in zip(amounts(capacity(option.template.node)), needs, strict=True):
        if amount:
            total += float(amount * option.nodes - need) / float(amount * option.nodes)
    return total


def _price_score(flags: Flags, option: Option, cluster: int) -> float:
    """The price of the nodes by that of the pods, times the unfitness of the size of the nodes."""
    stabilization = _pod_price(flags, *STABILIZATION)
    nodes = (option.group.price or 0.0) * option.nodes
    prices = (repeat(_pod_price(flags, *requests(run[0])), len(run)) for run in option.runs)
    pods = sum(chain.from_iterable(prices), start=0.0)
    has = capacity(option.template.node)
    preferred = next((cpu for most, cpu in PREFERRED_CPU if cluster <= most), 32) * 1000
    cpu = parse_milli(has.get("cpu", "0"))
    unfitness = max(preferred / cpu, cpu / preferred) if cpu else math.inf
    suppressed = (unfitness - 1.0) * (1.0 - math.tanh((option.nodes - 1) / 15.0)) + 1.0
    if any(parse_milli(has.get(name, "0")) for name in GPUS):
        suppressed = GPU_UNFITNESS
    return suppressed * ((nodes + stabilization) / (pods + stabilization))


def _pod_price(flags: Flags, cpu: int, memory: int) -> float:
    return flags.pod_prices.cpu * cpu / 1000 + flags.pod_prices.memory * memory / GIB


def _priority(flags: Flags, options: list[Option]) -> list[Option]:
    """The groups of the greatest priority; all where none has one."""
    for priority in sorted(flags.priorities, reverse=True):
        patterns = flags.priorities[priority]
        best = [one for one in options if any(re.search(each, one.group.name) for each in patterns)]
        if best and priority >= -1:  # as upstream begins to compare
            return best
    return options


_SCORES: dict[str, Callable[[Flags, Option, int], float]] = {
    "most-pods": lambda flags, option, cluster: -sum(map(len, option.runs)),
    "least-nodes": lambda flags, option, cluster: option.nodes,
    "least-waste": lambda flags, option, cluster: _waste(option),
    "price": _price_score,
}
"""The options of the least score are left."""

"""GPU shares in plain Python: what csrc/gpu_share.c computes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

WHOLE = 1000


@dataclass(frozen=True)
class Demand:
    cpu: int
    milli: int
    count: int
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    cpu: int
    free: tuple[int, ...]
    model: str = ""
    kinds: frozenset[int] = frozenset()


Shapes = list[tuple[Demand, float]]


def has_gpus(node: Node, demand: Demand) -> bool:
    if demand.milli == 0:
        return True
    if demand.models and node.model not in demand.models:
        return False
    return sum(free >= demand.milli for free in node.free) >= demand.count


def options(node: Node, demand: Demand) -> list[tuple[int, ...]]:
    """The GPUs that a pod may take: any one to share, or the first whole ones."""
    if demand.milli == 0:
        return [()]
    enough = [at for at, free in enumerate(node.free) if free >= demand.milli]
    if demand.milli < WHOLE:
        return [(at,) for at in enough]
    return [tuple(enough[: demand.count])]


def after(node: Node, demand: Demand, gpus: tuple[int, ...]) -> Node:
    free = tuple(free - demand.milli * (at in gpus) for at, free in enumerate(node.free))
    return replace(node, cpu=node.cpu - demand.cpu, free=free)


def fragment_classes(node: Node, shapes: Shapes) -> list[float]:
    sums = dict.fromkeys(("both", "gpu", "cpu", "none", "none without cpu", "model"), 0.0)
    total = sum(node.free)
    for pod, share in shapes:
        has_cpu, has_gpu = node.cpu >= pod.cpu, has_gpus(node, pod)
        if pod.milli == 0:
            sums["none" if has_cpu else "none without cpu"] += share * total
        elif pod.models and node.model not in pod.models:
            sums["model"] += share * total
        elif has_cpu and has_gpu:
            sums["gpu"] += share * sum(free for free in node.free if free < pod.milli)
        else:
            sums["cpu" if has_gpu else "gpu" if has_cpu else "both"] += share * total
    return list(sums.values())


def fragmentation(node: Node, shapes: Shapes) -> float:
    out = 0.0
    for value in fragment_classes(node, shapes):
        out += value
    return out


def gradient(node: Node, demand: Demand, shapes: Shapes) -> tuple[int, tuple[int, ...]]:
    """The score, and the first GPUs that have it."""
    before = fragmentation(node, shapes)
    scored = [
        (int(100 / (1 + math.exp(-(before - fragmentation(after(node, demand, gpus), shapes)) / 1000))), gpus)
        for gpus in options(node, demand)
    ]
    best = max(score for score, _ in scored)
    return next((score, gpus) for score, gpus in scored if score == best)


def packing(node: Node, demand: Demand) -> int:
    if demand.milli == 0:
        return 0
    idle = node.free.count(WHOLE)
    if idle == len(node.free):
        return max(33 - idle, idle)
    if demand.milli == WHOLE:
        return max(50 - demand.count, 33)
    least = min(free for free in node.free if free >= demand.milli)
    return 49 if least == WHOLE else max(100 - least * 100 // 1000 // 10, 50)


def clustering(node: Node, demand: Demand, most: int) -> int:
    if demand.milli == 0:
        return 0
    kind = 0 if demand.milli < WHOLE else demand.count
    within = 25 * (most - sum(node.free)) // most
    if kind in node.kinds:
        return within + (75 if node.kinds == {kind} else 50)
    return within + (0 if node.kinds else 25)

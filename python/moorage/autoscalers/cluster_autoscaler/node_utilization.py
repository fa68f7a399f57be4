"""How much of a node is requested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, pod_requests
from moorage.kube import Node, Pod

from .drain_rules import is_long_terminating
from .estimator import capacity
from .flags import GPUS, Flags
from .group_templates import is_daemon_pod, is_mirror_pod


class Utilization(NamedTuple):
    """The resource of which the greatest share is requested, and the share."""

    resource: str
    share: float


def utilization(node: Node, pods: Iterable[Pod], flags: Flags, now: float) -> Utilization | None:
    """Return the greater share of cpu and memory, or that of the GPUs of a node that has some; None where the
    node does not say how much it has."""
    counted = list(pods)
    gpu = next((name for name in GPUS if name in capacity(node)), None)
    if gpu is not None:
        return Utilization(gpu, _share(node, counted, gpu, flags, now) or 0.0)
    cpu, memory = (_share(node, counted, name, flags, now) for name in ("cpu", "memory"))
    if cpu is None or memory is None:
        return None
    return Utilization("cpu", cpu) if cpu > memory else Utilization("memory", memory)


def _share(node: Node, pods: Iterable[Pod], name: str, flags: Flags, now: float) -> float | None:
    has = Quantity(str(node.status.allocatable.get(name, "0"))).milli_value()
    if not has:
        return None
    used = ignored = 0
    for pod in pods:
        amount = pod_requests(pod).get(name, ZERO).milli_value()
        if (flags.ignore_daemon_sets_utilization and is_daemon_pod(pod)) or (
            flags.ignore_mirror_pods_utilization and is_mirror_pod(pod)
        ):
            ignored += amount
        elif not is_long_terminating(pod, now):
            used += amount
    return used / (has - ignored) if has != ignored else float("inf" if used else "nan")

"""The cluster that the suites run on."""

from __future__ import annotations

from random import Random

import numpy as np
from bench.batch import place_run
from msgspec.structs import replace

from moorage import Cluster, Scheduler, synthetic
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.placer import Placer
from moorage.kube import Pod, Toleration

NODES = 5000
FULL = 0.9
SMALL = ("web", "api", "cache", "worker")  # templates of synthetic pods, by their label
PERCENTAGES = {0: "adaptive", 100: "100 %"}


def filled_scheduler(nodes: int = NODES) -> Scheduler:
    """A scheduler over nodes of several sizes, of which cpu, memory or pods are 90 % in use."""
    return fill(synthetic(nodes=nodes, seed=1))


def fill(cluster: Cluster, full: float = FULL) -> Scheduler:
    """A scheduler over the cluster, its nodes filled to that share with pods that tolerate every taint."""
    templates = {pod.metadata.labels["app"]: pod for pod in synthetic(nodes=0, pods=200).pods}
    scheduler = Scheduler(cluster)
    everywhere = (Toleration(operator="Exists"),)
    targets = [
        scheduler.context.target_of(replace(pod, spec=replace(pod.spec, tolerations=everywhere)))[0]
        for pod in map(templates.__getitem__, SMALL)
    ]
    random = Random(1)
    while use(scheduler) < full:
        place_run(scheduler.placer, random.choice(targets), len(cluster.nodes) // 50)
    scheduler.placer.decider.start = 0
    return scheduler


def use(scheduler: Scheduler) -> float:
    """The share in use of the scarcest of cpu, memory and pods."""
    rows, _ = scheduler.table.raw()
    shares = (("req_cpu", "alloc_cpu"), ("req_memory", "alloc_memory"), ("pods", "pods_max"))
    return float(max(np.sum(rows[used]) / np.sum(rows[of]) for used, of in shares))


def placer_of(scheduler: Scheduler, percentage: int, tie_break: TieBreak = TieBreak.FIRST) -> Placer:
    """A placer over the scheduler's cluster with a setting of its own."""
    return Placer(scheduler.cache.state, scheduler.plan, tie_break, percentage)


def plain_pods(count: int) -> list[Pod]:
    """Equal pods with a little cpu and memory."""
    pods = [
        pod for pod in synthetic(nodes=0, pods=count * 5, seed=2).pods if pod.metadata.labels["app"] == "web"
    ]
    return pods[:count]

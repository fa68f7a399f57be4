"""The cluster that the suites run on."""

from __future__ import annotations

from random import Random

import numpy as np

from moorage import Scheduler, synthetic
from moorage.objects.pod import Pod

NODES = 5000
FULL = 0.9
SMALL = ("web", "api", "cache", "worker")  # templates of synthetic pods, by their label


def filled_scheduler(nodes: int = NODES) -> Scheduler:
    """A scheduler over nodes of several sizes, of which cpu, memory or pods are 90 % in use."""
    cluster = synthetic(nodes=nodes, pods=200, seed=1)
    templates = {pod.metadata.labels["app"]: pod for pod in cluster.pods}
    scheduler = Scheduler(cluster)
    targets = [scheduler.classify(templates[name])[0] for name in SMALL]
    random = Random(1)
    while use(scheduler) < FULL:
        scheduler.cycle.place_run(random.choice(targets), nodes // 50)
    scheduler.cycle.start = 0
    return scheduler


def use(scheduler: Scheduler) -> float:
    """The share in use of the scarcest of cpu, memory and pods."""
    rows, _ = scheduler.table.raw()
    shares = (("req_cpu", "alloc_cpu"), ("req_memory", "alloc_memory"), ("pods", "pods_max"))
    return float(max(np.sum(rows[used]) / np.sum(rows[of]) for used, of in shares))


def plain_pods(count: int) -> list[Pod]:
    """Equal pods with a little cpu and memory."""
    pods = [
        pod for pod in synthetic(nodes=0, pods=count * 5, seed=2).pods if pod.metadata.labels["app"] == "web"
    ]
    return pods[:count]

"""Equal pods with opportunistic batching that each fill a node, on 5,000 nodes: by the list of the last cycle
within a batch, and in a cycle of each."""

from __future__ import annotations

from typing import Any

import pytest
from bench.cluster import NODES
from bench.plugin_pods import copies, pod
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage.engine.plugins.pod_topology_spread import PodTopologySpread
from moorage.engine.plugins.registry import default_profile
from moorage.engine.scheduler import Profile
from moorage.kube import Cluster, ContainerPort

PODS = 1_000


def world() -> Scheduler:
    plugins = (one for one in default_profile().plugins if one.name != PodTopologySpread.name)
    profile = Profile((*plugins, PodTopologySpread({"defaultingType": "List"})))
    return Scheduler(Cluster(nodes=synthetic(nodes=NODES, pods=0, seed=1).nodes), profile=profile)


@pytest.mark.parametrize("by", ["list", "cycles"])
def test_signed_pods(benchmark: Any, report: Any, by: str) -> None:
    report("signed pods that fill a node each, per pod", PODS, by == "cycles")
    template = pod("large", {"app": "large"})
    container = replace(template.spec.containers[0], ports=(ContainerPort(container_port=80, host_port=80),))
    template = replace(template, spec=replace(template.spec, containers=(container,)))

    def place(scheduler: Scheduler) -> None:
        pods = copies(template, PODS)
        if by == "list":
            assert scheduler.schedule_pods(pods).failure is None
        else:
            assert all(scheduler.schedule_one(one).node for one in pods)

    benchmark.pedantic(place, setup=lambda: ((world(),), {}), rounds=3)

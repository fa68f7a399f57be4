"""The example plugin in C (examples/native_plugin) beside the same in Python over arrays."""

from __future__ import annotations

import shlex
import subprocess
import sysconfig
from dataclasses import replace as update
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.batch import Batch, place_run
from bench.cluster import NODES, filled_scheduler, plain_pods
from msgspec.structs import replace

import moorage as mo
from moorage import Profile, Scheduler
from moorage._core.decide.decider import TieBreak, num_feasible_nodes_to_find
from moorage.engine.framework import Plugin
from moorage.engine.framework.out_of_tree_plugins import include_dir, load_native_plugin
from moorage.engine.plugins.registry import default_profile
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.kube import Node, Pod

PODS = 1000
LINE = "batch of 1,000 with the native example"
GPU = "nvidia.com/gpu"
SOURCE = Path(__file__).parents[2] / "examples" / "native_plugin" / "gpu_pack.c"


class GpuPack(mo.FilterPlugin, mo.ScorePlugin):
    """The example in Python."""

    name = "GpuPack"
    default_weight = 10

    def filter_all(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Any:
        if GPU not in pod.spec.containers[0].resources.requests:
            return np.ones(len(nodes), dtype=bool)
        return nodes.labels("pool") == "gpu"

    def score_all(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Any:
        return nodes.allocatable[GPU] - nodes.requested[GPU]

    def normalize_score(self, state: Any, pod: Pod, scores: Any) -> Any:
        return 100 - scores * 100 // max(int(scores.max()), 1)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    library = tmp_path_factory.mktemp("native") / "gpu_pack.so"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    options = ["-std=c11", "-O2", "-shared", "-fPIC", f"-I{include_dir()}", "-o", str(library)]
    subprocess.run([*compiler, *options, str(SOURCE)], check=True)
    return load_native_plugin(library)


@pytest.fixture(scope="module")
def with_gpus() -> Scheduler:
    """The filled cluster, of whose nodes those in the pool have 1 to 8 GPUs, and one in nine is not in it."""
    scheduler = filled_scheduler()
    for at, node in enumerate(scheduler.client.list(Node)[0]):
        labels = node.metadata.labels | {"pool": "gpu" if at % 9 else "web"}
        allocatable = node.status.allocatable | {GPU: str(at % 9)}
        scheduler.cache.update_node(
            node,
            replace(
                node,
                metadata=replace(node.metadata, labels=labels),
                status=replace(node.status, allocatable=allocatable),
            ),
        )
    return scheduler


def gpu_pod() -> Pod:
    """A plain pod that asks for a GPU."""
    pod = plain_pods(1)[0]
    first = pod.spec.containers[0]
    resources = replace(first.resources, requests=first.resources.requests | {GPU: "1"})
    return replace(pod, spec=replace(pod.spec, containers=(replace(first, resources=resources),)))


def engine_of(scheduler: Scheduler, *plugins: Plugin) -> Engine:
    """An engine over the scheduler's cluster with these plugins beside the default ones."""
    profile = Profile((*default_profile().plugins, *plugins))
    return Engine(profile, update(scheduler.handle), TieBreak.FIRST, 0, 0)


class EngineBatch(Batch):
    """Plain pods that an engine places."""

    def __init__(self, scheduler: Scheduler, engine: Engine) -> None:
        super().__init__(scheduler, engine.placer, plain_pods(PODS))
        self.engine = engine

    def one_by_one(self) -> None:
        """What Python hears is about one pod."""
        rows = []
        for pod, target in zip(self.pods, self.targets, strict=True):
            self.engine.bridge.begin(self.engine.framework.state_of(target), pod)
            rows.append(place_run(self.placer, target[0], 1)[0])
        self.rows = np.array(rows, dtype=np.int32)


def test_native_plugin(benchmark: Any, report: Any, with_gpus: Scheduler, native: Plugin) -> None:
    batch, twin = (EngineBatch(with_gpus, engine_of(with_gpus, plugin)) for plugin in (native, GpuPack()))
    twin.one_by_one()
    expected = twin.rows
    twin.again()
    batch.place()
    assert np.array_equal(batch.rows, expected)
    assert len(expected) == PODS
    report(LINE, PODS)
    benchmark.pedantic(batch.place, setup=batch.again, rounds=30)
    batch.again()


def test_native_plugin_python(benchmark: Any, report: Any, with_gpus: Scheduler) -> None:
    batch = EngineBatch(with_gpus, engine_of(with_gpus, GpuPack()))
    report(LINE, PODS, twin=True)
    benchmark.pedantic(batch.one_by_one, setup=batch.again, rounds=3)
    batch.again()


def test_without_the_plugin(benchmark: Any, report: Any, with_gpus: Scheduler) -> None:
    batch = EngineBatch(with_gpus, engine_of(with_gpus))
    report("the same batch without it", PODS)
    benchmark.pedantic(batch.place, setup=batch.again, rounds=30)
    batch.again()


# ---- a pod that the filter looks at: the difference of these two is what the example costs


def search(scheduler: Scheduler, *plugins: Plugin) -> Any:
    """One search for a pod with a GPU, from the start of the list."""
    placer, target = engine_of(scheduler, *plugins).placer, scheduler.context.target_of(gpu_pod())

    def decide() -> Any:
        placer.decider.start = 0
        return placer.decider.decide(*target)

    return decide


def test_gpu_search(benchmark: Any, report: Any, with_gpus: Scheduler, native: Plugin) -> None:
    decide, without = search(with_gpus, native), search(with_gpus)
    assert np.array_equal(decide()[3], without()[3])
    assert len(decide()[3]) == num_feasible_nodes_to_find(0, NODES)
    report("search for a GPU pod with the native example")
    benchmark(decide)


def test_gpu_search_without_the_plugin(benchmark: Any, report: Any, with_gpus: Scheduler) -> None:
    report("search for a GPU pod without it")
    benchmark(search(with_gpus))

"""Reading and writing a cluster of 5,000 nodes and 50,000 pods: at most 2 s, and 400 MB above the imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage.objects import Cluster, load, write_cluster
from moorage.sim.synthetic import synthetic

SECONDS = 2.0
MEGABYTES = 400

# In a process of its own: the peak of a process never goes down again.
PEAK = """
import resource, sys
from moorage.objects import load
import moorage.scheduler
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
cluster = load(sys.argv[1])
print((peak() - before) / 1024)
"""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return synthetic(nodes=5000, pods=50_000)


@pytest.fixture(scope="module")
def dump(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("load") / "cluster.json"
    write_cluster(path, cluster)
    return path


def test_load_json(benchmark: Any, dump: Path) -> None:
    benchmark.pedantic(load, args=(dump,), rounds=5)
    assert benchmark.stats.stats.min <= SECONDS


def test_write_json(benchmark: Any, cluster: Cluster, tmp_path: Path) -> None:
    benchmark.pedantic(write_cluster, args=(tmp_path / "cluster.json", cluster), rounds=3)


def test_memory_of_load(benchmark: Any, dump: Path) -> None:
    command = [sys.executable, "-c", PEAK, str(dump)]
    run = benchmark.pedantic(
        subprocess.run, args=(command,), kwargs={"check": True, "capture_output": True}, rounds=1
    )
    benchmark.extra_info["megabytes"] = float(run.stdout)
    assert float(run.stdout) <= MEGABYTES

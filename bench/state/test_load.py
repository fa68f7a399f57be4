"""Reading and writing a cluster of 5,000 nodes and 50,000 pods: at most 2 s, and 400 MB above the imports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import kubectl_dump

from moorage import Scheduler, edit
from moorage.kube import Cluster, Pod, load, read_object, write_cluster
from moorage.kube.read.python_values import dump_yaml
from moorage.sim.synthetic import synthetic

LOADING = "reading 5,000 nodes, 50,000 pods from JSON"
SECONDS = 2.0
MEGABYTES = 400

# In a process of its own: the peak of a process never goes down again.
PEAK = """
import resource, sys
from moorage import Scheduler
from moorage.kube import load
import moorage.engine.scheduler
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


def test_load(benchmark: Any, report: Any, dump: Path) -> None:
    report(LOADING)
    benchmark.pedantic(load, args=(dump,), rounds=5)
    assert benchmark.stats.stats.min <= SECONDS


def test_load_twin(benchmark: Any, report: Any, dump: Path) -> None:
    """It checks and builds nothing."""
    report(LOADING, twin=True)
    benchmark.pedantic(lambda: json.loads(dump.read_bytes()), rounds=5)


FORMS = {
    "as `kubectl get -o json` prints them": kubectl_dump.write_list,
    "as JSON lines": kubectl_dump.write_lines,
}


@pytest.fixture(scope="module", params=FORMS)
def bound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A tenth of the objects, with all that an API server returns of them; what is measured, and the file."""
    path = tmp_path_factory.mktemp("load") / "cluster.json"
    write: Callable[[Path, int, int], None] = FORMS[request.param]
    write(path, 500, 5000)
    return f"reading 500 nodes, 5,000 bound pods {request.param}", path


def test_load_of_a_dump(benchmark: Any, report: Any, bound: tuple[str, Path]) -> None:
    what, path = bound
    report(what)
    benchmark.pedantic(load, args=(path,), rounds=5)


def test_load_of_a_dump_twin(benchmark: Any, report: Any, bound: tuple[str, Path]) -> None:
    what, path = bound
    report(what, twin=True)
    lines = "lines" in what
    benchmark.pedantic(
        lambda: [
            json.loads(text) for text in (path.read_bytes().splitlines() if lines else [path.read_bytes()])
        ],
        rounds=5,
    )


YAML = "reading 50 nodes, 500 bound pods as YAML"


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    objects = list(kubectl_dump.objects(50, 500))
    value: dict[str, Any] = json.loads(json.dumps({"apiVersion": "v1", "items": objects, "kind": "List"}))
    return value


def test_load_of_yaml(benchmark: Any, report: Any, listed: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(dump_yaml(listed))
    report(YAML)
    benchmark.pedantic(load, args=(tmp_path / "cluster.yaml",), rounds=5)


def test_load_of_yaml_twin(benchmark: Any, report: Any, listed: dict[str, Any]) -> None:
    """The same objects as JSON."""
    text = json.dumps(listed)
    report(YAML, twin=True)
    benchmark.pedantic(json.loads, args=(text,), rounds=20)


WEB = {
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


def test_read_object(benchmark: Any, report: Any) -> None:
    report("`read_object` of a pod like the last one")
    benchmark(read_object, WEB, Pod)


def test_edit(benchmark: Any, report: Any) -> None:
    report("`edit` of a pod's node")
    benchmark(edit, read_object(WEB, Pod), {"spec.nodeName": "n"})


def test_scheduler_of_a_dump(benchmark: Any, report: Any, tmp_path: Path) -> None:
    kubectl_dump.write_lines(tmp_path / "cluster.json", 500, 5000)
    objects = 5500
    report("Scheduler over 500 nodes, 5,000 bound pods, per object", objects)
    benchmark.pedantic(Scheduler, setup=lambda: ((load(tmp_path / "cluster.json"),), {}), rounds=5)


def test_load_with_classes(benchmark: Any, report: Any, dump: Path) -> None:
    def load_all() -> None:
        scheduler = Scheduler()
        for pod in load(dump).pods:
            scheduler.context.target_of(pod)

    report(f"{LOADING}, each pod's class included")
    benchmark.pedantic(load_all, rounds=3)


def test_write_json(benchmark: Any, report: Any, cluster: Cluster, tmp_path: Path) -> None:
    report("writing 5,000 nodes, 50,000 pods to JSON")
    benchmark.pedantic(write_cluster, args=(tmp_path / "cluster.json", cluster), rounds=3)


def test_memory_of_load(benchmark: Any, dump: Path) -> None:
    command = [sys.executable, "-c", PEAK, str(dump)]
    run = benchmark.pedantic(
        subprocess.run, args=(command,), kwargs={"check": True, "capture_output": True}, rounds=1
    )
    benchmark.extra_info["megabytes"] = float(run.stdout)
    assert float(run.stdout) <= MEGABYTES

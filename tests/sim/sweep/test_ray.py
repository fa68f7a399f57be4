"""Sweeps on a Ray cluster of several nodes on this machine, also while a worker and a node of it die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage import History

from .test_sweep import DATA, document, run

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]  # of Ray itself


@pytest.fixture
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}})
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def test_the_result_is_that_of_one_process(cluster: Any) -> None:
    assert run("ray").to_dict() == run().to_dict()


def kill_the_worker_once(history: History) -> dict[str, float]:
    """A measure whose first call ends the process that runs it."""
    mark = Path(os.environ["MARK"]) if "MARK" in os.environ else Path("/nonexistent/mark")
    try:
        mark.touch(exist_ok=False)
    except OSError:
        return {"placed": history.summary()["placed"]}
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_worker_and_a_node_may_die(tmp_path: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster

    name = f"{__name__}:kill_the_worker_once"
    spec: dict[str, Any] = {"measures": [name], "seeds": {"first": 1, "count": 6}}
    expected = run(**spec).to_dict()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = made.add_node(num_cpus=1)
    env = {"PYTHONPATH": os.getcwd(), "MARK": str(tmp_path / "killed")}
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": env})
    done: list[int] = []

    def remove_the_node(ended: int, _: int) -> None:
        done.append(ended)
        if ended == 3:
            made.remove_node(second)

    try:
        from moorage.sim.sweep import sweep

        found = sweep(document(**spec), data=DATA, executor="ray", progress=remove_the_node)
    finally:
        ray.shutdown()
        made.shutdown()
    assert (tmp_path / "killed").exists()
    assert done[-1] == 12
    assert found.to_dict() == expected

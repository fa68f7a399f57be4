"""What executors of sweeps gain: `python -m bench.scaling.sweep_executors` prints seconds and ratios.

Ratios are to one process. Small cells replay some hundred pods, large ones some thousand. Workers are
started and warm before the clock
runs: a first, small sweep loads the modules. `--executors` names some of them; ray needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from moorage.sim.sweep import EXECUTORS, make_executor, sweep

DATA = Path(__file__).parents[2] / "tests/data/openb"
SIZES = {"small": (1.3, 32), "large": (30.0, 6)}
"""Demand for the GPUs of the excerpt, and number of cells."""


def document(demand: float, cells: int, **options: Any) -> dict[str, Any]:
    """A sweep over seeds: pods are drawn from openb's list until they demand that many times the GPUs."""
    drawn = {"seed": "$seed", "demand": demand, "shuffle_nodes": True, "every": 0} | options
    openb = {"files": ["nodes.csv", "pods.csv"], "format": "openb", "options": drawn}
    policy = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}, {"name": "BestFit"}]}}}],
    }
    spec = {
        "timelines": {"openb": openb},
        "configurations": {"policy": policy},
        "seeds": {"first": 1, "count": cells},
        "measures": ["gpu_allocation"],
        "replay": {"onFailure": "drop"},
    }
    return {"apiVersion": "sweep.moorage.dev/v1", "kind": "Sweep", "spec": spec}


def seconds(executor: Executor, demand: float, cells: int, rounds: int) -> float:
    """The time of the best of some sweeps."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        sweep(document(demand, cells), data=DATA, executor=executor)
        found.append(time.perf_counter() - began)
    return min(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--executors", nargs="+", default=EXECUTORS, choices=EXECUTORS)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args(arguments)
    print("| cells | " + " | ".join(options.executors) + " |\n|" + "---|" * (len(options.executors) + 1))
    took: dict[tuple[str, str], float] = {}
    for name in options.executors:
        with make_executor(name, options.workers) as executor:
            sweep(document(0.1, 8 * options.workers), data=DATA, executor=executor)
            for size, (demand, cells) in SIZES.items():
                took[size, name] = seconds(executor, demand, cells, options.rounds)
    for size, (_, cells) in SIZES.items():
        base = took[size, options.executors[0]]
        row = [f"{took[size, name]:.1f} s, {base / took[size, name]:.2f}x" for name in options.executors]
        print(f"| {cells} {size} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()

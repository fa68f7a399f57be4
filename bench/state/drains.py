"""Drains of one node each, rolled back: `python -m bench.state.drains` prints a table.

A cluster of 5,000 nodes and 50,000 pods of 500 ReplicaSets. Each round drains a node in a transaction, runs
the scheduler, so that the new pods are placed, and undoes both. A fork is timed with all pods bound, and with
pending ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from bench.table import markdown

import moorage as mo
from moorage.kube import Object, build_cluster, decode_object

NODES, SETS, REPLICAS = 5_000, 500, 100


def objects() -> list[Object]:
    capacity = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{at}", "labels": {"topology.kubernetes.io/zone": f"z{at % 3}"}},
            "status": {"capacity": capacity},
        }
        for at in range(NODES)
    ]
    return [decode_object(one) for one in (*nodes, *map(replica_set, range(SETS)))]


def replica_set(at: int) -> dict[str, object]:
    requests = {"cpu": f"{500 + at % 7 * 100}m", "memory": "1Gi"}
    container = {"name": "c", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": f"a{at}"}}, "spec": {"containers": [container]}}
    return {
        "kind": "ReplicaSet",
        "metadata": {"name": f"a{at}"},
        "spec": {"replicas": REPLICAS, "template": template},
    }


def drained(scheduler: mo.Scheduler, node: str) -> int:
    """Drain a node, place the new pods, and undo both; the number of placed pods."""
    with scheduler.transaction():
        evicted = scheduler.change.drain(node).deleted
        placed = len(scheduler.run().placements)
    assert placed == len(evicted)
    return placed


def seconds(work: Callable[[], object]) -> float:
    """User CPU time and that of the system."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.state.drains", description=__doc__)
    parser.add_argument("--drains", type=int, default=1000)
    drains = parser.parse_args().drains
    cluster = build_cluster(objects())
    scheduler = mo.Scheduler(cluster)
    pending = min(seconds(scheduler.fork) for _ in range(3))
    scheduler.run()
    bound = min(seconds(scheduler.fork) for _ in range(3))
    drained(scheduler, "n0")
    took = seconds(lambda: [drained(scheduler, f"n{at % NODES}") for at in range(drains)])
    lines = [
        ["drain, run, undo", f"{took / drains * 1e3:.2f}"],
        ["fork, 50,000 pods bound", f"{bound * 1e3:.2f}"],
        ["fork, 50,000 pods pending", f"{pending * 1e3:.2f}"],
    ]
    print(markdown(lines, ("what", "ms of CPU")), end="")


if __name__ == "__main__":
    main()

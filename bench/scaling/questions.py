"""What questions cost by the size of the cluster: `python -m bench.scaling.questions`.

Each size is measured in a process of its own: milliseconds of processor time of questions to a scheduler over
nodes with ten pods each, which are placed before. `read` reads these objects from a file of JSON, `run`
places the pods; `can` asks for one node, `explain` why a pod too large fits nowhere. `drain` is one node
within a transaction, `lose` a zone of three in turn. A question is asked once before, and the best of three
rounds counts; `read`, `run` and `lose` are asked once.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.scaling.sizes import print_sizes
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage.kube import Pod, load, write_cluster

NODES = (1_000, 5_000, 15_000)
PODS_PER_NODE, ROUNDS = 10, 3
MANY_OBJECTS = 50_000, 20, 100
HEADINGS = (
    "nodes",
    "pods",
    "read",
    "load",
    "run",
    "can",
    "explain",
    "capacity",
    "drain",
    "lose",
    "fork",
    "peak",
)


def seconds(question: Callable[[], object], rounds: int = 1) -> float:
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        question()
        spent.append(time.process_time() - began)
    return min(spent)


def drain(scheduler: Scheduler, node: str) -> None:
    with scheduler.transaction():
        scheduler.change.drain([node], force=True)
        scheduler.run()


def measure(nodes: int) -> tuple[str, ...]:
    """The cells of one size."""
    gc.set_threshold(*MANY_OBJECTS)  # as commands do
    cluster = synthetic(nodes=nodes, pods=PODS_PER_NODE * nodes, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        write_cluster(path, cluster)
        spent = [seconds(lambda: load(path))]
    schedulers: list[Scheduler] = []
    spent.append(seconds(lambda: schedulers.append(Scheduler(cluster))))
    (scheduler,) = schedulers
    spent.append(seconds(scheduler.run))
    wanted: Pod = synthetic(nodes=0, pods=1, seed=2).pods[0]
    (container,) = wanted.spec.containers
    huge = replace(container, resources=replace(container.resources, requests={"cpu": "9999"}))
    large = replace(wanted, spec=replace(wanted.spec, containers=(huge,)))
    node = scheduler.context.view_order()[0]
    questions: list[Callable[[], object]] = [
        lambda: scheduler.can_schedule_pod(wanted, limit=1),
        lambda: scheduler.ask.explain(large),
        lambda: scheduler.ask.capacity(wanted),
        lambda: drain(scheduler, node),
    ]
    for question in questions:
        question()
        spent.append(seconds(question, ROUNDS))
    spent.append(seconds(lambda: scheduler.ask.survive("topology.kubernetes.io/zone")))
    spent.append(seconds(scheduler.fork, ROUNDS))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    numbers = (f"{nodes:,}", f"{PODS_PER_NODE * nodes:,}")
    return (
        *numbers,
        *(f"{1e3 * each:,.{0 if each > 0.1 else 1 if each > 0.01 else 3}f}" for each in spent),
        f"{peak / 1e9:.2f} GB",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    print_sizes(__doc__, NODES, HEADINGS, measure, arguments)


if __name__ == "__main__":
    main()

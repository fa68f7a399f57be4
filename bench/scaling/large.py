"""Large clusters: `python -m bench.scaling.large` prints what nodes cost in time and memory, up to a million.

Each size is measured in a process of its own: a scheduler over a cluster in memory, its store and informers
included (load), a fork of it, and the loop that places up to 100,000 equal pods and takes each into
account (adaptive sampling), or 2,000 with all nodes evaluated for the first (100 %). Nodes are empty.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence

from bench.batch import place_run
from bench.cluster import placer_of, plain_pods
from bench.memory import resident
from bench.scaling.sizes import print_sizes

from moorage import Scheduler, synthetic
from moorage._core.decide.decider import TieBreak

NODES = (1_000, 10_000, 100_000, 1_000_000)
PODS = {0: 100_000, 100: 2_000}
HEADINGS = ("nodes", "load", "memory", "peak", "fork", "adaptive", "100 %", "100 %, first pod")


def measure(nodes: int) -> tuple[str, ...]:
    """The cells of one size."""
    cluster = synthetic(nodes=nodes, seed=1)
    before, began = resident(), time.perf_counter()
    scheduler = Scheduler(cluster)
    loaded, grown = time.perf_counter() - began, resident() - before
    began = time.perf_counter()
    fork = scheduler.fork()
    forked = time.perf_counter() - began
    del fork
    pod_class = scheduler.context.target_of(plain_pods(1)[0])[0]
    each, firsts = [], []
    for percentage, most in PODS.items():
        pods = min(most, 5 * nodes)
        placer = placer_of(scheduler, percentage, TieBreak.FIRST)
        began = time.perf_counter()
        place_run(placer, pod_class, 1)
        firsts.append(time.perf_counter() - began)
        began = time.perf_counter()
        place_run(placer, pod_class, pods)
        each.append((time.perf_counter() - began) / pods)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    memory = f"{grown / 1e9:.2f} GB" if nodes >= 100_000 else f"{grown / 1e6:.0f} MB"
    return (
        f"{nodes:,}",
        f"{loaded:.2f} s",
        memory,
        f"{peak / 1e9:.2f} GB",
        f"{1e3 * forked:,.0f} ms",
        *(f"{1e6 * one:.2f} µs" for one in each),
        f"{1e3 * firsts[-1]:,.1f} ms",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    print_sizes(__doc__, NODES, HEADINGS, measure, arguments)


if __name__ == "__main__":
    main()

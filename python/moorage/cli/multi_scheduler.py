"""The options of ``moorage simulate`` for several schedulers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from moorage.objects import Cluster
    from moorage.scheduler import Result, Scheduler
    from moorage.sim.optimistic import Optimistic

DEFAULT_CHUNK = 256


@dataclass(frozen=True, slots=True)
class MultiSchedulerOptions:
    """The options for several schedulers; `schedulers` is None for a single one."""

    schedulers: int | None
    partition: str
    chunk: int
    processes: bool


@dataclass(frozen=True, slots=True)
class Simulation:
    """A finished simulation; `preparing` is in seconds."""

    scheduler: Scheduler
    result: Result
    preparing: float
    multi: Optimistic | None = None


def multi_scheduler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``--schedulers``, ``--partition``, ``--chunk`` and ``--processes``, as one argument
    `multi`."""

    @click.option(
        "--schedulers",
        type=click.IntRange(1, 1000),
        help="So many at once, each on its own copy of the cluster; a binder resolves their conflicts.",
    )
    @click.option(
        "--partition",
        type=click.Choice(["none", "zone", "hash"]),
        default="none",
        show_default=True,
        help="How nodes are partitioned; each scheduler prefers the nodes of its partition.",
    )
    @click.option(
        "--chunk",
        type=click.IntRange(1),
        default=DEFAULT_CHUNK,
        show_default=True,
        help="Pods of each scheduler between two updates by the binder.",
    )
    @click.option("--processes", is_flag=True, help="Run the schedulers in processes instead of threads.")
    @wraps(command)
    def gathered(
        *arguments: Any, schedulers: int | None, partition: str, chunk: int, processes: bool, **named: Any
    ) -> Any:
        if schedulers is None and (partition != "none" or chunk != DEFAULT_CHUNK or processes):
            raise click.UsageError("--partition, --chunk and --processes are for --schedulers")
        multi = MultiSchedulerOptions(schedulers, partition, chunk, processes)
        return command(*arguments, multi=multi, **named)

    return gathered


def simulate_pods(cluster: Cluster, settings: Mapping[str, Any], multi: MultiSchedulerOptions) -> Simulation:
    """Place all pending pods, by one scheduler or by several."""
    from moorage.scheduler import Scheduler

    began = time.perf_counter()
    if multi.schedulers is None:
        scheduler = Scheduler(cluster, **settings)
        preparing = time.perf_counter() - began
        return Simulation(scheduler, scheduler.run(), preparing)
    from moorage.sim.optimistic import simulate_optimistically

    done = simulate_optimistically(
        cluster,
        multi.schedulers,
        partition=multi.partition,
        chunk=multi.chunk,
        processes=multi.processes,
        settings=settings,
    )
    preparing = time.perf_counter() - began - done.seconds
    return Simulation(done.scheduler, done.result, preparing, done)

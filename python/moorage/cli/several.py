"""The options of `simulate` for several schedulers at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from moorage.objects import Cluster
    from moorage.scheduler import Result, Scheduler
    from moorage.sim.optimistic import Optimistic

DEFAULT_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Several:
    """How many schedulers, and how they work; None is one alone."""

    schedulers: int | None
    partition: str
    chunk: int
    processes: bool


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulation that has ended; `preparing` is in seconds."""

    scheduler: Scheduler
    result: Result
    preparing: float
    several: Optimistic | None = None


def several_schedulers(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``--schedulers``, ``--partition``, ``--chunk`` and ``--processes``, as one `Several`."""
    options = [
        click.option(
            "--schedulers",
            type=click.IntRange(1, 1000),
            help="So many at once, each on its own copy of the cluster; a binder resolves their conflicts.",
        ),
        click.option(
            "--partition",
            type=click.Choice(["none", "zone", "hash"]),
            default="none",
            show_default=True,
            help="Which nodes each of several schedulers looks at first.",
        ),
        click.option(
            "--chunk",
            type=click.IntRange(1),
            default=DEFAULT_CHUNK,
            show_default=True,
            help="Pods that each of several schedulers decides about before it hears of the others.",
        ),
        click.option("--processes", is_flag=True, help="Several schedulers in processes instead of threads."),
    ]

    def gathered(
        *arguments: Any, schedulers: int | None, partition: str, chunk: int, processes: bool, **named: Any
    ) -> Any:
        if schedulers is None and (partition != "none" or chunk != DEFAULT_CHUNK or processes):
            raise click.UsageError("--partition, --chunk and --processes are for --schedulers")
        return command(*arguments, several=Several(schedulers, partition, chunk, processes), **named)

    gathered.__name__, gathered.__doc__ = command.__name__, command.__doc__
    gathered.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    out: Callable[..., Any] = gathered
    for option in reversed(options):
        out = option(out)
    return out


def simulate_pods(cluster: Cluster, settings: Mapping[str, Any], several: Several) -> Simulated:
    """Place all pending pods, by one scheduler or by several."""
    from moorage.scheduler import Scheduler

    began = time.perf_counter()
    if several.schedulers is None:
        scheduler = Scheduler(cluster, **settings)
        preparing = time.perf_counter() - began
        return Simulated(scheduler, scheduler.run(), preparing)
    from moorage.sim.optimistic import simulate_optimistically

    done = simulate_optimistically(
        cluster,
        several.schedulers,
        partition=several.partition,
        chunk=several.chunk,
        processes=several.processes,
        settings=settings,
    )
    preparing = time.perf_counter() - began - done.seconds
    return Simulated(done.scheduler, done.result, preparing, done)

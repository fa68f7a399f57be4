"""Cost per pod as clusters grow: `python -m bench.scale` prints a table, `--picture FILE` draws it as well.

Each cluster has nodes of several sizes and is filled to 90 %. A batch of equal pods is placed and taken back,
a few times; the best round counts, the first look at all nodes included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.batch import Batch
from bench.cluster import PERCENTAGES, placer_of
from bench.kinds import ANTI_AFFINITY, DEFAULT_SPREAD, HARD_ZONE, PLAIN, Kind, scheduler_with_service
from bench.plugin_pods import copies
from bench.table import in_units

from moorage import Scheduler

NODES = (1_000, 5_000, 15_000, 50_000, 100_000, 130_000)
KINDS = (PLAIN, DEFAULT_SPREAD, HARD_ZONE, ANTI_AFFINITY)
MISSING = "bench.scale: --picture needs matplotlib: pip install matplotlib"
Clock = Callable[[], float]


@dataclass(frozen=True)
class Cost:
    """Seconds per pod."""

    kind: str
    percentage: int
    nodes: int
    seconds: float

    @property
    def series(self) -> str:
        return f"{self.kind}, {PERCENTAGES[self.percentage]}"


def costs(nodes: int, pods: int, rounds: int, clock: Clock = time.perf_counter) -> Iterator[Cost]:
    """Of every kind and sampling on a cluster of that size."""
    scheduler, pods = scheduler_with_service(nodes), min(pods, nodes // 2)
    for kind in KINDS:
        there = kind.settle(scheduler)
        for percentage in PERCENTAGES:
            yield Cost(kind.name, percentage, nodes, best(scheduler, kind, percentage, pods, rounds, clock))
        for batch in there:
            batch.again()


def best(scheduler: Scheduler, kind: Kind, percentage: int, pods: int, rounds: int, clock: Clock) -> float:
    """Seconds per pod in the best round."""
    batch = Batch(scheduler, placer_of(scheduler, percentage), copies(kind.pod(), pods))
    found = []
    for _ in range(rounds):
        batch.again()
        began = clock()
        batch.place()
        found.append((clock() - began) / pods)
        if (fitting := int((batch.rows >= 0).sum())) < pods:
            raise SystemExit(f"bench.scale: only {fitting} of {pods} {kind.name} fit")
    batch.again()
    return min(found)


def table(found: Sequence[Cost]) -> str:
    """A row per cluster size, a column per kind and sampling."""
    series = list(dict.fromkeys(cost.series for cost in found))
    cells = {(cost.nodes, cost.series): in_units(cost.seconds) for cost in found}
    rows = [["nodes", *series], ["---:"] * (len(series) + 1)]
    for nodes in dict.fromkeys(cost.nodes for cost in found):
        rows.append([f"{nodes:,}", *(cells[nodes, one] for one in series)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def pyplot() -> Any:
    """matplotlib's, for files only."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit(MISSING) from None
    matplotlib.use("Agg")
    # The same bytes for the same figures, and letters as text.
    matplotlib.rcParams.update({"svg.hashsalt": "moorage", "svg.fonttype": "none"})
    from matplotlib import pyplot

    return pyplot


def draw(found: Sequence[Cost], path: Path, plot: Any) -> None:
    """Both axes logarithmic; a colour per kind, dashes for 100 %."""
    figure, axes = plot.subplots(figsize=(8, 4), layout="constrained")
    kinds = list(dict.fromkeys(cost.kind for cost in found))
    for name in dict.fromkeys(cost.series for cost in found):
        line = [cost for cost in found if cost.series == name]
        axes.plot(
            [cost.nodes for cost in line],
            [cost.seconds * 1e6 for cost in line],
            label=name,
            color=f"C{kinds.index(line[0].kind)}",
            linestyle="--" if line[0].percentage else "-",
            marker="o",
            markersize=3,
        )
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="µs per pod")
    axes.grid(True, which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plot.close(figure)


def main(arguments: Sequence[str] | None = None, clock: Clock = time.perf_counter) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes of clusters")
    parser.add_argument(
        "--pods", type=int, default=1000, help="in a batch, and at most half as many as nodes"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", type=Path, help="a PNG or SVG file to write")
    options = parser.parse_args(arguments)
    plot = pyplot() if options.picture else None  # before minutes are spent
    found = [cost for nodes in options.nodes for cost in costs(nodes, options.pods, options.rounds, clock)]
    print(table(found), end="")
    if plot is not None:
        draw(found, options.picture, plot)


if __name__ == "__main__":
    main()

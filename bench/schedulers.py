"""Schedulers by partition: `python -m bench.schedulers` prints a table, `--executor` says where they run.

With `--costly` each decision evaluates all nodes: 100 %, and ties are broken at random.

A made-up cluster that its pods nearly fill. Conflicts are rejected placements in a hundred; seconds are those
of deciding, binding and updating; what is left was tried by one scheduler at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moorage.multi.optimistic import CHUNK, EXECUTORS, Optimistic, simulate_optimistically
from moorage.sim.synthetic import synthetic

SCHEDULERS = (1, 2, 4, 8)
PARTITIONS = ("none", "zone", "hash")
PODS_PER_NODE = 7


@dataclass(frozen=True)
class Measured:
    """One simulation."""

    schedulers: int
    partition: str
    out: Optimistic

    def cells(self) -> list[str]:
        out = self.out
        asked = sum(one.placements for one in out.schedulers)
        conflicts = 100 * sum(one.retries for one in out.schedulers) / max(1, asked)
        seconds = (out.deciding, out.binding, out.updating)
        return [
            str(self.schedulers),
            self.partition,
            f"{out.pods_per_second:,.0f}",
            f"{conflicts:.1f} %",
            str(out.rounds),
            *(f"{one:.2f}" for one in seconds),
            str(out.alone),
        ]


HEADINGS = [
    "schedulers",
    "partition",
    "pods/s",
    "conflicts",
    "rounds",
    "deciding",
    "binding",
    "updating",
    "left",
]


def measure(nodes: int, chunk: int, executor: str, costly: bool) -> Iterator[Measured]:
    """Every number of schedulers with every partition."""
    cluster = synthetic(nodes=nodes, zones=8, pods=nodes * (1 if costly else PODS_PER_NODE))
    settings = {"tie_break": "random", "percentage_of_nodes_to_score": 100} if costly else {}
    for schedulers in SCHEDULERS:
        for partition in PARTITIONS if schedulers > 1 else PARTITIONS[:1]:
            out = simulate_optimistically(
                cluster,
                schedulers,
                partition=partition,
                chunk=chunk,
                executor=executor,
                settings=settings,
            )
            yield Measured(schedulers, partition, out)


def table(rows: Sequence[Sequence[str]]) -> str:
    """As markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.schedulers", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--executor", default="threads", choices=EXECUTORS)
    parser.add_argument("--costly", action="store_true")
    asked = parser.parse_args(arguments)
    print(table([HEADINGS, ["---:"] * len(HEADINGS)]), end="")
    for one in measure(asked.nodes, asked.chunk, asked.executor, asked.costly):
        print(table([one.cells()]), end="", flush=True)


if __name__ == "__main__":
    main()

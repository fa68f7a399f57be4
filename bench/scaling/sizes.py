"""Tables of sizes of clusters, each measured in a process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Sequence


def print_sizes(
    description: str,
    sizes: Sequence[int],
    headings: Sequence[str],
    measure: Callable[[int], tuple[str, ...]],
    arguments: Sequence[str] | None = None,
) -> None:
    """Print a row of a Markdown table for each size, of those that --nodes names.

    Parameters
    ----------
    description : str
        Its first line is the help.
    measure : callable
        Of a module, so that another process finds it. Returns the cells of one size.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes)
    options = parser.parse_args(arguments)
    print(f"| {' | '.join(headings)} |\n|{'---:|' * len(headings)}")
    for nodes in options.nodes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(f"| {' | '.join(pool.apply(measure, (nodes,)))} |", flush=True)

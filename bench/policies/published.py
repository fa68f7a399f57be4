"""Compares a sweep of examples/fgd.yaml with the published allocation of GPUs.

    python -m bench.policies.published PUBLISHED.csv RESULTS.csv

PUBLISHED.csv is analysis_allo_discrete.csv of the repository of Weng et al. (USENIX ATC 2023). RESULTS.csv is
the output of `moorage sweep examples/fgd.yaml … -o csv`. A mean is in range if it lies between the least and
the greatest of the ten published seeds.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from statistics import fmean

DEMAND = "100"
Key = tuple[str, str]


def published(path: Path) -> dict[Key, list[float]]:
    """The allocation at full demand by list of pods and policy, of each seed."""
    out: dict[Key, list[float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["workload"].removeprefix("openb_pod_list_"), row["sc_policy"].partition("-")[2]
            out.setdefault(key, []).append(float(row[DEMAND]))
    return out


def measured(path: Path) -> dict[Key, list[float]]:
    """The same of a sweep."""
    out: dict[Key, list[float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            value = row[f"gpu_allocation_at_{DEMAND}"]
            if value:
                out.setdefault((row["timeline"], row["configuration"]), []).append(float(value))
    return out


def main() -> int:
    parser = argparse.ArgumentParser("python -m bench.policies.published")
    parser.add_argument("published", type=Path, help="analysis_allo_discrete.csv of the authors")
    parser.add_argument("results", type=Path, help="the output of moorage sweep -o csv")
    options = parser.parse_args()
    expected, found = published(options.published), measured(options.results)
    outside = 0
    print(f"{'list':13} {'policy':14} {'least':>6} {'mean':>6} {'greatest':>8} {'here':>6} {'runs':>4}")
    for key, values in expected.items():
        ours = found.get(key, [])
        mean = fmean(ours) if ours else float("nan")
        is_in_range = min(values) <= mean <= max(values)
        outside += not is_in_range
        row = (
            f"{key[0]:13} {key[1]:14} {min(values):6.2f} {fmean(values):6.2f} {max(values):8.2f} {mean:6.2f}"
        )
        print(f"{row} {len(ours):4}{'' if is_in_range else '  outside'}")
    print(f"{len(expected) - outside} of {len(expected)} means in range")
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(main())

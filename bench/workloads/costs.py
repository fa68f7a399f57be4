"""What workloads of scheduler_perf cost: `python -m bench.workloads.costs FILE...` prints a row for each.

The unit is the **placing time** of a plain pod: nanoseconds per pod of the placing loop alone on
SchedulingBasic/5000Nodes_50000Pods, ties broken by `first`. It is taken before each round of each workload,
as the speed of a machine changes from minute to minute. A workload counts whole: queue, decision, store,
informers and binding, per measured pod. Best of all rounds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

from bench.scheduler_perf import Workload, WorkloadReport, read_workloads, run_workload
from bench.scheduler_perf.report import DONE
from bench.table import markdown
from bench.test_whole_operations import WORKLOADS

ROUNDS = 3
HEAD = ("workload", "pods", "per pod", "placing times")
Run = Callable[..., WorkloadReport]  # `run_workload`, or what stands for it in tests


def cost(workload: Workload, rounds: int, run: Run) -> tuple[list[str], float]:
    """The row of a workload, and its cost in placing times: infinite for one that does not end well."""
    (plain,) = read_workloads(str(WORKLOADS), "SchedulingBasic")
    placing, whole = [], []
    for _ in range(rounds):
        placing.append(run(plain, tie_break="first").placing_ns_per_pod or math.inf)
        report = run(workload)
        if report.status != DONE:
            return [workload.full_name, f"{report.measured_pods:,}", report.status, "-"], math.inf
        whole.append(report.ns_per_pod.mean or 0.0)
    ratio = min(whole) / min(placing)
    cells = [f"{report.measured_pods:,}", f"{min(whole) / 1000:,.1f} µs", f"{ratio:,.0f}"]
    return [workload.full_name, *cells], ratio


def main(arguments: Sequence[str] | None = None, run: Run = run_workload) -> None:
    parser = argparse.ArgumentParser(prog="bench.workloads.costs", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a performance-config.yaml")
    parser.add_argument("--case", default="", metavar="NAME[/WORKLOAD]", help="only this case, or workload")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--above", type=float, default=0.0, help="only rows of more placing times")
    asked = parser.parse_args(arguments)
    print(markdown([], HEAD), end="", flush=True)
    for file in asked.files:
        for workload in read_workloads(file, asked.case):
            cells, ratio = cost(workload, asked.rounds, run)
            if ratio > asked.above:
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

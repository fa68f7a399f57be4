"""Alibaba's trace of 2018: batch tasks.

The columns are those of the publisher's description (alibaba/clusterdata, cluster-trace-v2018). Files
have no heading; which one is which is told by its name.

A recipe: no real file of the trace was there to try it on. ``python FILE.py TABLES… OUT.yaml`` writes a
scenario, which ``moorage replay OUT.yaml`` replays; in Python, ``read`` fills an empty timeline.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from moorage.kube import Resources
from moorage.sim.loaders.job_traces import add_task, kind_of
from moorage.sim.loaders.trace_builder import TraceBuilder, csv_rows, number_of
from moorage.sim.timeline import Timeline

MACHINES = ("machine", "time", "domain1", "domain2", "cpu", "memory", "status")
TASKS = ("task", "instances", "job", "type", "status", "start", "end", "cpu", "memory")


def read(timeline: Timeline, paths: Sequence[str | Path], *, memory_gib: float = 1.0) -> None:
    """Read ``machine_meta.csv`` and ``batch_task.csv`` of 2018 into an empty timeline.

    Each instance of a task is a pod from the start to the end of the task. A machine counts once, with the
    first line about it.

    Parameters
    ----------
    timeline : Timeline
    paths : sequence of str or Path
    memory_gib : float, optional
        Gibibytes of one unit of memory: the trace has hundredths of the largest machine.

    Raises
    ------
    InputError
        A file cannot be read, or its name is neither.
    """
    builder, seen = TraceBuilder(timeline), set[str]()
    for path in paths:
        kind = kind_of(path, ("machine_meta", "batch_task"))
        if kind == "machine_meta":
            for row in csv_rows(path, MACHINES):
                cpu, memory = number_of(row["cpu"]), number_of(row["memory"])
                if row["machine"] in seen:
                    continue
                if cpu is None or memory is None:
                    builder.note("machines left out: a field is missing or not a number")
                    continue
                seen.add(row["machine"])
                room: Resources = {"cpu": f"{cpu:g}", "memory": f"{int(memory * memory_gib * 1024)}Mi"}
                builder.node(row["machine"], room)
        else:
            for row in csv_rows(path, TASKS):
                cpu, memory = number_of(row["cpu"]), number_of(row["memory"])
                milli = None if cpu is None else int(cpu * 10)
                mib = None if memory is None else int(memory * memory_gib * 1024)
                add_task(builder, row, milli, mib, {})
    builder.finish()


if __name__ == "__main__":
    *files, out = sys.argv[1:]
    trace = Timeline()
    read(trace, files)
    trace.write(out)

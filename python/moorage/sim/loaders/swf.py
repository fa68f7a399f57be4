"""Standard Workload Format of the Parallel Workloads Archive: jobs of parallel machines."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.errors import InputError
from moorage.kube import Resources

from .trace_builder import TraceBuilder
from .trace_rows import lines, number_of

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns

NUMBER, SUBMIT, WAIT, RUN, PROCESSORS, MEMORY, REQUESTED, REQUESTED_MEMORY = 0, 1, 2, 3, 4, 6, 7, 9
"""Indexes of the fields (18 in a line; -1 means unknown)."""
FIELDS = 18
_COMMENT = re.compile(r";\s*(MaxNodes|MaxProcs):\s*(\d+)")
MOST_PODS = 100_000


def read_swf(
    timeline: EventColumns,
    paths: Sequence[str | Path],
    *,
    cores: int = 0,
    memory_gib: float = 0.0,
) -> None:
    """Read a workload into an empty timeline.

    A job is one pod for each node that its processors fill, from its submission until it ended in the record:
    submission, wait and run time. Nodes are made as the header says: MaxProcs over MaxNodes.

    Parameters
    ----------
    paths : sequence of str or Path
        One file.
    cores : int, optional
        Processors of a node, instead of those of the header.
    memory_gib : float, optional
        Memory of a node; without it memory is not considered.

    Raises
    ------
    InputError
        The file cannot be read, or neither header nor options say how large a node is.
    """
    if len(paths) != 1:
        raise InputError(f"a workload is one file, not {len(paths)}")
    builder, header, per_node = TraceBuilder(timeline), dict[str, int](), int(cores)
    for line in lines(paths[0]):
        if found := _COMMENT.match(line):
            header[found[1]] = int(found[2])
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        if not per_node:
            per_node = header.get("MaxProcs", 0) // max(header.get("MaxNodes", 0), 1)
        if per_node < 1:
            raise InputError("the header has no MaxProcs; give the option cores")
        fields = [number_of(field) for field in line.split()]
        if len(fields) < FIELDS:
            builder.note("jobs left out: the line is short")
            continue
        _add_job(builder, fields, per_node, memory_gib > 0)
    processors = header.get("MaxProcs", 0)
    room: Resources = {"cpu": str(per_node), "memory": f"{memory_gib:g}Gi" if memory_gib else "1Ti"}
    for number in range(math.ceil(processors / per_node) if per_node else 0):
        builder.node(f"node-{number:05d}", room)
    builder.finish()


def _add_job(builder: TraceBuilder, fields: Sequence[float | None], per_node: int, has_memory: bool) -> None:
    def known(index: int) -> float:
        value = fields[index]
        return -1.0 if value is None else value

    processors = int(known(REQUESTED) if known(REQUESTED) > 0 else known(PROCESSORS))
    if known(SUBMIT) < 0 or processors < 1:
        builder.note("jobs left out: submission or processors are missing")
        return
    if known(RUN) < 0:
        builder.note("jobs left out: they did not run")
        return
    if processors > MOST_PODS * per_node:
        builder.note("jobs left out: too many processors")
        return
    end = known(SUBMIT) + max(known(WAIT), 0.0) + known(RUN)
    if end == known(SUBMIT):
        builder.note("jobs with run time 0: they end as they are created, and are not tried")
    kib = known(REQUESTED_MEMORY) if known(REQUESTED_MEMORY) > 0 else known(MEMORY)
    for part in range(math.ceil(processors / per_node)):
        cpus = min(per_node, processors - part * per_node)
        requests: Resources = {"cpu": str(cpus)}
        if has_memory and kib > 0:
            requests["memory"] = f"{int(kib * cpus)}Ki"
        template = builder.template(tuple(requests.items()), requests)
        builder.pod(f"job-{int(known(NUMBER))}-{part}", template, known(SUBMIT), end)

"""Google's cluster trace of 2019, as exported from BigQuery: CSV or JSON lines, one file per table.

The columns are those of the publisher's description (google/cluster-data, ClusterData2019). Tables are told
by their columns: ``machine_events`` has ``capacity``, ``instance_events`` has ``instance_index``.

A recipe: no real file of the trace was there to try it on. ``python FILE.py TABLES… OUT.yaml`` writes a
scenario, which ``moorage replay OUT.yaml`` replays; in Python, ``read`` fills an empty timeline.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.errors import InputError
from moorage.kube.read.files import source_name
from moorage.sim.event_columns import Verb
from moorage.sim.loaders.trace_builder import (
    TraceBuilder,
    csv_rows,
    json_rows,
    lines,
    make_node,
    name_of,
    number_of,
)
from moorage.sim.timeline import Timeline

ADD, REMOVE, UPDATE = 1, 2, 3
SUBMIT, SCHEDULE, ENDS = 0, 3, (4, 5, 6, 7, 8)
AFTER = 2**62
"""Microseconds from which on a time means: after the end of the trace."""


def read(
    timeline: Timeline, paths: Sequence[str | Path], *, cores: float = 100.0, memory_gib: float = 400.0
) -> None:
    """Read tables of the trace of 2019 into an empty timeline.

    An instance is a pod from its submission to its end: evicted, failed, finished, killed or lost. Where it
    was scheduled is recorded as its binding. Constraints and alloc sets are left out.

    Parameters
    ----------
    timeline : Timeline
    paths : sequence of str or Path
    cores, memory_gib : float, optional
        What 1.0 means; the trace has fractions of the largest machine.

    Raises
    ------
    InputError
        A file cannot be read, or is neither table.
    """
    reader = _Reader(timeline, cores, memory_gib)
    for path in paths:
        for row in _rows(path):
            if row is None:
                reader.builder.note("rows left out: no JSON")
            elif "instance_index" in row:
                reader.instance(row)
            elif "machine_id" in row and "type" in row:
                reader.machine(row)
            else:
                raise InputError("is no table of the trace of 2019", source=source_name(str(path)))


def _rows(path: str | Path) -> Iterator[dict[str, Any] | None]:
    first = next(lines(path), "")
    if first.lstrip().startswith("{"):
        yield from (row if isinstance(row, dict) else None for _, row in json_rows(path))
    else:
        yield from csv_rows(path)


class _Reader:
    """Turns rows into events."""

    def __init__(self, timeline: Timeline, cores: float, memory_gib: float) -> None:
        self.timeline, self.builder = timeline, TraceBuilder(timeline)
        self._cores, self._memory = cores, memory_gib
        self._machines: set[str] = set()
        self._created: dict[str, bool] = {}

    def machine(self, row: Mapping[str, Any]) -> None:
        """A machine joins, leaves or changes."""
        name, time, kind = f"m-{row['machine_id']}", _seconds(row), _integer(row, "type")
        if time is None or kind not in (ADD, REMOVE, UPDATE):
            self.builder.note("machine events left out: no time or type")
            return
        if kind == REMOVE:
            if name in self._machines:
                self._machines.discard(name)
                self.timeline.leave(time, name)
            return
        cpus, memory = self._amounts(row, "capacity")
        if cpus is None or memory is None:
            self.builder.note("machine events left out: no capacity")
            return
        node = make_node(name, {"cpu": f"{cpus}m", "memory": f"{memory}Mi"}, {})
        if name in self._machines:
            self.timeline.apply(time, node)
        else:
            self.timeline.create(time, node)
            self._machines.add(name)

    def instance(self, row: Mapping[str, Any]) -> None:
        """An instance is submitted, scheduled or ends."""
        name = name_of(f"{row.get('collection_id')}-{row.get('instance_index')}")
        time, kind = _seconds(row), _integer(row, "type")
        if time is None or kind is None:
            self.builder.note("instance events left out: no time or type")
        elif kind in (SUBMIT, SCHEDULE):
            self._begin(name, time, row)
            if kind == SCHEDULE and str(row.get("machine_id") or "") not in ("", "0"):
                self.builder.bind(name, time, f"m-{row['machine_id']}")
        elif kind in ENDS and self._created.pop(name, False):
            self.timeline.add(time, Verb.DELETE, self.timeline.subject(f"pod/default/{name}"))

    def _begin(self, name: str, time: float, row: Mapping[str, Any]) -> None:
        """Create the pod of an instance, unless its submission has done so."""
        if name in self._created:
            return
        cpus, memory = self._amounts(row, "resource_request")
        if cpus is None or memory is None:
            self.builder.note("instances left out: no request")
            return
        priority = _integer(row, "priority") or 0
        requests = {"cpu": f"{cpus}m", "memory": f"{memory}Mi"}
        template = self.builder.template((cpus, memory, priority), {**requests}, priority=priority)
        self.timeline.add(time, Verb.CREATE, self.timeline.subject(f"pod/default/{name}"), template)
        self._created[name] = True

    def _amounts(self, row: Mapping[str, Any], name: str) -> tuple[int | None, int | None]:
        """Millicores and mebibytes of a structure, nested as in JSON or flattened as in CSV."""
        nested = row.get(name)
        values = []
        for part in ("cpus", "memory"):
            value = nested.get(part) if isinstance(nested, dict) else None
            for flat in (f"{name}.{part}", f"{name}_{part}"):
                value = row.get(flat) if value is None else value
            values.append(None if value is None else number_of(str(value)))
        cpus, memory = values
        milli = None if cpus is None else round(cpus * self._cores * 1000)
        return milli, None if memory is None else round(memory * self._memory * 1024)


def _integer(row: Mapping[str, Any], name: str) -> int | None:
    value = number_of(str(row.get(name, "")))
    return None if value is None else int(value)


def _seconds(row: Mapping[str, Any]) -> float | None:
    """Seconds since the start of the trace; None for no time, or one after its end."""
    value = number_of(str(row.get("time", "")))
    return None if value is None or not 0 <= value < AFTER else value / 1e6


if __name__ == "__main__":
    *files, out = sys.argv[1:]
    trace = Timeline()
    read(trace, files)
    trace.write(out)

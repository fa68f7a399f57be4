"""Records of kube-scheduler-simulator: JSON lines with time, event and resource.

The fields are those that its recorder writes.

A recipe: no real file of the trace was there to try it on. ``python FILE.py TABLES… OUT.yaml`` writes a
scenario, which ``moorage replay OUT.yaml`` replays; in Python, ``read`` fills an empty timeline.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from moorage.sim.loaders.recorded_objects import ObjectEvents
from moorage.sim.loaders.trace_builder import json_rows, map_of
from moorage.sim.timeline import Timeline


def read(timeline: Timeline, paths: Sequence[str | Path]) -> None:
    """Read records of kube-scheduler-simulator: JSON lines with time, event and resource.

    Parameters
    ----------
    timeline : Timeline
    paths : sequence of str or Path

    Raises
    ------
    InputError
        A file cannot be read.
    """
    events = ObjectEvents(timeline)
    for row in (row for path in paths for _, row in json_rows(path)):
        if not isinstance(row, dict):
            events.note("lines left out: no JSON object")
            continue
        time, what = events.seconds(row.get("time")), row.get("event")
        resource = row.get("resource")
        if time is None:
            continue
        if what == "Delete" and isinstance(resource, dict):
            meta = map_of(resource.get("metadata"))
            parts = (str(resource.get("kind", "")).lower(), meta.get("namespace"), meta.get("name"))
            events.delete(time, "/".join(str(part) for part in parts if part))
        elif what in ("Add", "Update"):
            obj = events.decode(resource)
            if obj is not None:
                events.put(time, obj)
        else:
            events.note("records left out: neither Add nor Update nor Delete")


if __name__ == "__main__":
    *files, out = sys.argv[1:]
    trace = Timeline()
    read(trace, files)
    trace.write(out)

"""Azure Trace for Packing 2020: an SQLite file with requests for virtual machines.

The tables ``vm`` and ``vmType`` are those of the publisher's description (Azure/AzurePublicDataset).

A recipe: no real file of the trace was there to try it on. ``python FILE.py TABLES… OUT.yaml`` writes a
scenario, which ``moorage replay OUT.yaml`` replays; in Python, ``read`` fills an empty timeline.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from moorage.errors import InputError
from moorage.kube import Resources
from moorage.kube.read.files import source_name
from moorage.sim.loaders.trace_builder import TraceBuilder
from moorage.sim.timeline import Timeline

DAY = 86400.0
WHOLE = 1_000_000
"""Units of a machine, for hdd, ssd and nic."""
QUERY = """SELECT vm.vmId, vm.priority, vm.starttime, vm.endtime, t.core, t.memory, t.hdd, t.ssd, t.nic
FROM vm JOIN vmType t ON t.vmTypeId = vm.vmTypeId WHERE t.machineId = ? ORDER BY vm.starttime, vm.vmId"""


def read(timeline: Timeline, paths: Sequence[str | Path], *, machine: int = 0, machines: int = 1000) -> None:
    """Read the packing trace into an empty timeline.

    Requests are fractions of a machine; a machine has 1000 cores and 1000 GiB here, and a million units of
    ``azure.com/hdd``, ``azure.com/ssd`` and ``azure.com/nic``. Virtual machines that began before the trace
    begin with it.

    Parameters
    ----------
    timeline : Timeline
    paths : sequence of str or Path
        One file.
    machine : int, optional
        The machineId whose types are taken; requests that do not fit it are left out.
    machines : int, optional
        Number of nodes.

    Raises
    ------
    InputError
        The file is not that of the trace.
    """
    builder = TraceBuilder(timeline)
    if len(paths) != 1:
        raise InputError(f"the trace is one file, not {len(paths)}")
    path = Path(paths[0])
    more: Resources = {f"azure.com/{name}": str(WHOLE) for name in ("hdd", "ssd", "nic")}
    for number in range(int(machines)):
        builder.node(f"machine-{number:05d}", {**more, "cpu": "1000", "memory": "1000Gi"})
    try:
        if not path.is_file():
            raise InputError("no such file", source=source_name(str(path)))
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            for row in connection.execute(QUERY, (machine,)):
                _add(builder, row)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise InputError(f"is no packing trace: {error}", source=source_name(str(path))) from None
    builder.finish()


def _add(builder: TraceBuilder, row: tuple[float | None, ...]) -> None:
    name, priority, start, end, core, memory, *others = row
    if start is None or core is None or memory is None:
        builder.note("requests left out: no start, core or memory")
        return
    requests: Resources = {"cpu": f"{round(core * 1e6)}m", "memory": f"{round(memory * 1000 * 1024)}Mi"}
    for resource, value in zip(("hdd", "ssd", "nic"), others, strict=True):
        if value:
            requests[f"azure.com/{resource}"] = str(round(value * WHOLE))
    # A smaller number is a higher priority in the trace.
    level = -int(priority or 0)
    template = builder.template((level, core, memory, *others), requests, priority=level)
    ended = None if end is None else max(end, 0.0) * DAY
    builder.pod(f"vm-{name}", template, max(start, 0.0) * DAY, ended)


if __name__ == "__main__":
    *files, out = sys.argv[1:]
    trace = Timeline()
    read(trace, files)
    trace.write(out)

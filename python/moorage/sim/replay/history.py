"""History: what happened in a replay, as columns; everything else is a view of it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage._core.base.quantity import parse
from moorage._core.base.resources import pod_requests
from moorage.answers.scheduler import Scheduler
from moorage.errors import InputError, MoorageError, missing, number_of
from moorage.kube import Node, Pod
from moorage.kube.model.meta import whole
from moorage.kube.read.files import source_name
from moorage.lazy import NamedTuple
from moorage.table import Table, Tabular

from ..autoscaler import AutoscalerState, autoscale
from ..event_columns import Verb
from ..karpenter_nodes import KarpenterState
from ..timeline import Timeline
from .history_document import HistoryDocument
from .recorder import End, Recorder
from .replayer import Replayer, VirtualClock
from .usage_over_time import Levels, levels, over_time

LOST = {
    "pending": "still wait",
    "ended_unplaced": "ended without a node",
    "dropped": "were dropped",
    "evicted": "were evicted",
}
"""What becomes of pods besides a node that they keep, by the number of the summary."""
ROWS = 1 << 17
"""Rows of a table that are in memory at a time."""
Part = Callable[[int, int], Table]


def write_table(folder: Path, name: str, rows: int, part: Part, format: str) -> Path:
    """Write a table in pieces.

    Parameters
    ----------
    name : str
        Of the file, without the suffix.
    part : callable
        Returns the rows of a range.

    Raises
    ------
    InputError
        The file cannot be written.
    MoorageError
        Parquet is asked for, and pyarrow is not installed.
    """
    has_arrow = find_spec("pyarrow") is not None
    if format == "parquet" and not has_arrow:
        raise MoorageError(missing("pyarrow"))
    if format not in ("auto", "parquet", "csv"):
        raise InputError(f'must be auto, parquet or csv, not "{format}"', path="format")
    is_parquet = format == "parquet" or (format == "auto" and has_arrow)
    path = folder / f"{name}.{'parquet' if is_parquet else 'csv'}"
    starts = range(0, max(rows, 1), ROWS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write = _write_parquet if is_parquet else _write_csv
        write(path, [lambda at=at: part(at, at + ROWS) for at in starts])  # type: ignore[misc]
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=source_name(str(path))) from None
    return path


def _write_csv(path: Path, parts: list[Callable[[], Table]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, part in enumerate(parts):
            columns = part().to_dict()
            if not number:
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(path: Path, parts: list[Callable[[], Table]]) -> None:
    import pyarrow
    from pyarrow import parquet

    writer: Any = None
    for part in parts:
        table = pyarrow.table(part())
        if writer is None:
            writer = parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


Array = npt.NDArray[Any]


class History(Tabular):
    """The decisions of a replay, its pods and its nodes over time.

    Times are seconds since the start of the timeline. The columns of a long history are in files, which are
    mapped; a table of them is made when it is asked for.

    Parameters
    ----------
    replayer : Replayer
        At the end of the replay.

    Attributes
    ----------
    end : float
        When the replay ended, in seconds from the start.
    counts : dict of str to int
        Events that had no effect, by the reason, and pod groups that are ignored.
    scheduler : Scheduler
        As it was at the end.
    node_names : list of str
        Names of the nodes by number.
    node_objects : list of Node
        The states of nodes.
    reasons : list of str
        Reasons of decisions by number: why pods fitted nowhere.
    templates : list of Pod
        What pods request, by the number in the column ``template`` of `pod_columns`.
    """

    def __init__(self, replayer: Replayer, checkpoints: Checkpoints) -> None:
        self.timeline, self.scheduler = replayer.timeline, replayer.scheduler
        self.end = replayer.clock.now
        self.counts = replayer.recorder.noted()
        self._recorder: Recorder = replayer.recorder
        self.node_names, self.node_objects = [*self._recorder.node_numbers], self._recorder.node_objects
        self.reasons, self.templates = [*self._recorder.reason_numbers], self._recorder.templates
        self._drops, self._checkpoints = replayer.drops, checkpoints

    # ---- columns -------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The decisions by number: time (float64), pod, node (-1 for none), attempt (0 for a pod that was
        bound by others), reason (-1 for none)."""
        return self._recorder.decisions.arrays()

    @cached_property
    def pod_columns(self) -> dict[str, Array]:
        """The pods by number: created, bound, ended (float64, infinite for never), node (-1 for none),
        attempts, cause (of `End`, -1 for none), template."""
        pods, decisions, ends = self._recorder.pods.arrays(), self.columns, self._recorder.ends.arrays()
        n = len(pods["created"])
        out: dict[str, Array] = {"created": pods["created"]}
        out["bound"], out["ended"] = np.full(n, np.inf), np.full(n, np.inf)
        out["node"], out["cause"] = np.full(n, -1, np.int32), np.full(n, -1, np.int8)
        placed = decisions["node"] >= 0
        out["bound"][decisions["pod"][placed]] = decisions["time"][placed]
        out["node"][decisions["pod"][placed]] = decisions["node"][placed]
        out["attempts"] = np.zeros(n, np.int32)
        np.maximum.at(out["attempts"], decisions["pod"], decisions["attempt"])
        out["ended"][ends["pod"]] = ends["time"]
        out["cause"][ends["pod"]] = ends["cause"]
        return out | {"template": pods["template"]}

    @property
    def node_columns(self) -> dict[str, Array]:
        """The changes of nodes in the order of time: time (float64), node (by number), state (an index of
        `node_objects`, -1 when it left)."""
        return self._recorder.nodes.arrays()

    def pod_name(self, pod: int) -> str:
        """Return the ``namespace/name`` of a pod.

        Parameters
        ----------
        pod : int
            Its number.
        """
        return self._names(np.array([pod]))[0]

    def pod_template(self, pod: int) -> Pod:
        """Return what a pod was made of; pods of one template are equal but for their names.

        Parameters
        ----------
        pod : int
            Its number.
        """
        return self.templates[int(self.pod_columns["template"][pod])]

    def _names(self, pods: Array) -> list[str]:
        arrays, names = self._pod_names, self._recorder.names
        numbers, ordinals = arrays["name"][pods].tolist(), arrays["ordinal"][pods].tolist()
        return [
            names[name] if ordinal < 0 else f"{names[name]}-{ordinal}"
            for name, ordinal in zip(numbers, ordinals, strict=True)
        ]

    @cached_property
    def _pod_names(self) -> dict[str, Array]:
        return self._recorder.pods.arrays()

    # ---- tables --------------------------------------------------------------------------------------------

    def headline(self) -> str:
        """Return how many pods got a node, and what became of the others, in one line."""
        numbers = self.summary()
        lost = [f"{numbers[name]:g} {text}" for name, text in LOST.items() if numbers[name]]
        placed = f"{numbers['placed']:g} of {number_of(int(numbers['pods']), 'pod', 'pods')} got a node"
        return "; ".join([f"{placed} within {numbers['seconds']:.12g} s", *lost])

    def summary(self) -> dict[str, float]:
        """Return the numbers of the replay.

        Returns
        -------
        dict of str to float
            seconds: length of the replay. events, pods, decisions: how many. placed: pods that got a node.
            pending: pods without a node at the end. ended_unplaced, dropped: pods that ended, or were
            dropped, before they had one: the four make up all pods. evicted: of the placed pods.
            pending_p50, pending_p99, pending_max: seconds between creation and binding of placed pods.
        """
        pods = self.pod_columns
        bound, is_dropped = np.isfinite(pods["bound"]), pods["cause"] == End.DROPPED
        spans = (pods["bound"] - pods["created"])[bound]
        out: dict[str, float] = {
            "seconds": self.end,
            "events": len(self.timeline),
            "pods": len(bound),
            "decisions": len(self.columns["time"]),
            "placed": int(bound.sum()),
            "pending": len(self._recorder.pending),
            "ended_unplaced": int((~bound & np.isfinite(pods["ended"]) & ~is_dropped).sum()),
            "dropped": int(is_dropped.sum()),
            "evicted": int((pods["cause"] == End.EVICTED).sum()),
        }
        if len(spans):
            for name, percent in (("p50", 50), ("p99", 99), ("max", 100)):
                out[f"pending_{name}"] = float(np.percentile(spans, percent, method="inverted_cdf"))
        return out

    def table(self, limit: int | None = None) -> Table:
        """Return the decisions, one row each.

        Returns
        -------
        Table
            Columns time, pod, node (missing where the pod fits nowhere), attempt, reason.
        """
        return self.decisions(0, limit)

    def decisions(self, start: int = 0, stop: int | None = None) -> Table:
        """Return some decisions, one row each.

        Parameters
        ----------
        start, stop : int, optional
            Range of rows.

        Returns
        -------
        Table
            Columns time, pod, node (missing where the pod fits nowhere), attempt, reason.
        """
        part = {name: column[start:stop] for name, column in self.columns.items()}
        return Table(
            {
                "time": np.array(part["time"]),
                "pod": self._names(part["pod"]),
                "node": _texts(part["node"], self.node_names),
                "attempt": np.array(part["attempt"]),
                "reason": _texts(part["reason"], self.reasons),
            }
        )

    def pods(self, start: int = 0, stop: int | None = None) -> Table:
        """Return some pods, one row each, in the order of their creation.

        Parameters
        ----------
        start, stop : int, optional
            Range of rows.

        Returns
        -------
        Table
            Columns pod, node, created, bound, ended (seconds; infinite for never), pending (seconds until it
            was bound, or until the pod or the replay ended), attempts, cause (of the end).
        """
        columns = {name: column[start:stop] for name, column in self.pod_columns.items()}
        stopped = np.minimum(np.minimum(columns["bound"], columns["ended"]), self.end)
        numbers = np.arange(len(self.pod_columns["created"]))[start:stop]
        return Table(
            {
                "pod": self._names(numbers),
                "node": _texts(columns["node"], self.node_names),
                "created": np.array(columns["created"]),
                "bound": columns["bound"],
                "ended": columns["ended"],
                "pending": stopped - columns["created"],
                "attempts": columns["attempts"],
                "cause": _texts(columns["cause"], [cause.name.lower() for cause in End]),
            }
        )

    def nodes(self) -> Table:
        """Return when nodes joined, changed and left.

        Returns
        -------
        Table
            Columns time, node, is_there (false when it left).
        """
        arrays = self._recorder.nodes.arrays()
        nodes = _texts(arrays["node"], self.node_names)
        return Table({"time": arrays["time"], "node": nodes, "is_there": arrays["state"] >= 0})

    def measures(self) -> Table:
        """Return the moments that the timeline names.

        Returns
        -------
        Table
            Columns time, name.
        """
        times, names = zip(*self._recorder.measures, strict=True) if self._recorder.measures else ((), ())
        return Table({"time": np.array(times, np.float64), "name": list(names)})

    def scalings(self) -> Table:
        """Return what the autoscaler did.

        Returns
        -------
        Table
            Columns time (of the decision), action (add, remove), group, nodes (how many), reason.
        """
        rows = self._recorder.scalings
        columns: dict[str, Any] = {
            name: [row[at] for row in rows]
            for at, name in enumerate(("time", "action", "group", "nodes", "reason"))
        }
        times, nodes = np.array(columns["time"], np.float64), np.array(columns["nodes"], np.int64)
        return Table(columns | {"time": times, "nodes": nodes})

    def disruptions(self) -> Table:
        """Return which nodes the autoscaler removed.

        Returns
        -------
        Table
            Columns time (when it began to drain the node), node, reason (Empty, Drifted, Underutilized,
            Expired or Deleted).
        """
        rows = self._recorder.disruptions
        times = np.array([row[0] for row in rows], np.float64)
        return Table({"time": times, "node": [row[1] for row in rows], "reason": [row[2] for row in rows]})

    def usage(self, resource: str = "cpu", by: str = "") -> Table:
        """Return how much of a resource was requested on the nodes, over time.

        Parameters
        ----------
        resource : str, optional
            cpu is in millicores, others are in their own units.
        by : str, optional
            ``node``, or the key of a label of nodes; by default all nodes together.

        Returns
        -------
        Table
            Columns time, group (the node, or the value of the label; missing without `by`), requested,
            allocatable. A row says how it is from that time on; there is one per group for each time at which
            that group changes.
        """
        groups, time, group, (used,), (room,) = self.usage_levels([resource], by)
        names = _texts(group if by else np.full(len(group), -1), groups)
        return Table({"time": time, "group": names, "requested": used, "allocatable": room})

    # ---- levels over time ----------------------------------------------------------------------------------

    def usage_levels(
        self, resources: list[str], by: str = ""
    ) -> tuple[list[str], Array, Array, list[Array], list[Array]]:
        """Return `usage` of several resources as arrays.

        Returns
        -------
        names : list of str
            Of the groups.
        time : (n,) float64 array
            Seconds from the start.
        group : (n,) int array
            Indices of names.
        requested, allocatable : list of (n,) int64 arrays
            One for each resource.
        """
        used = [self.pod_levels(self.requests(name), by)[1] for name in resources]
        room = [self.node_levels(partial(allocatable_of, name), by)[1] for name in resources]
        time, group, *values = over_time(*used, *room)
        return self._groups(by)[0], time, group, values[: len(used)], values[len(used) :]

    def pod_levels(self, amounts: Array, by: str = "") -> tuple[list[str], Levels]:
        """Return the sum of a quantity of the pods on nodes, over time.

        Parameters
        ----------
        amounts : (pods,) array
            The quantity of each pod.
        by : str, optional
            As of `usage`.

        Returns
        -------
        names : list of str
            Of the groups.
        levels : (times, groups, sums)
            In the order of groups and then of times; each holds from its time on.
        """
        pods = self.pod_columns
        groups, group_of = self._groups(by)
        placed = np.flatnonzero(pods["node"] >= 0)
        size = amounts[placed]
        where = group_of[pods["node"][placed]] if len(placed) else np.zeros(0, np.int32)
        ended = np.isfinite(pods["ended"][placed])
        return groups, levels(
            np.concatenate([pods["bound"][placed], pods["ended"][placed][ended]]),
            np.concatenate([where, where[ended]]),
            np.concatenate([size, -size[ended]]),
        )

    def node_levels(self, value: Callable[[Node], float], by: str = "") -> tuple[list[str], Levels]:
        """Return the sum of a quantity of the nodes that are there, over time.

        Parameters
        ----------
        value : callable
            Returns the quantity of a node.
        by : str, optional
            As of `usage`.

        Returns
        -------
        names : list of str
            Of the groups.
        levels : (times, groups, sums)
            As of `pod_levels`.
        """
        groups, group_of = self._groups(by)
        log, objects = self._recorder.nodes.arrays(), self.node_objects
        has: dict[int, float] = {}
        changes: list[float] = []
        for node, state in zip(log["node"].tolist(), log["state"].tolist(), strict=True):
            now = value(objects[state]) if state >= 0 else 0
            changes.append(now - has.get(node, 0))
            has[node] = now
        where = group_of[log["node"]] if len(log["node"]) else np.zeros(0, np.int32)
        return groups, levels(log["time"], where, np.array(changes or np.zeros(0, np.int64)))

    def mean_use(self, resource: str) -> tuple[Array, Array]:
        """Return how much of a resource was requested on each node, and how much it had, as means over time.

        Parameters
        ----------
        resource : str
            cpu is in millicores, others are in their own units.

        Returns
        -------
        requested, allocatable : (nodes,) float64 arrays
            In the order of `node_names`. A history without duration has the values of its end.
        """
        pods, nodes = self.pod_columns, len(self.node_names)
        length = self.end or 1.0
        placed = np.flatnonzero(pods["node"] >= 0)
        spans = np.minimum(pods["ended"][placed], length) - pods["bound"][placed]
        sizes = self.requests(resource)[placed] * spans
        requested = np.bincount(pods["node"][placed], sizes, nodes) / length
        times, group, level = self.node_levels(partial(allocatable_of, resource), "node")[1]
        last = np.diff(group, append=-1) != 0
        until = np.where(last, length, np.append(times[1:], length))
        return requested, np.bincount(group, level * (until - times), nodes) / length

    def node_labels(self, label: str) -> list[str]:
        """Return the values of a label of the nodes; "" for nodes without it.

        Returns
        -------
        list of str
            In the order of `node_names`.
        """
        groups, group_of = self._groups(label)
        return [groups[at] for at in group_of.tolist()]

    def requests(self, resource: str) -> Array:
        """Return what each pod requests of a resource, in the order of creation.

        Returns
        -------
        (pods,) int64 array
            Millicores of cpu; others in their own units.
        """
        amounts = [1 if resource == "pods" else requests_of(pod).get(resource, 0) for pod in self.templates]
        return np.array(amounts or [0], np.int64)[self.pod_columns["template"]]

    def _groups(self, by: str) -> tuple[list[str], Array]:
        """Return the names of groups of nodes, and the group of each node by its number."""
        names = self.node_names
        if by == "node":
            return names, np.arange(len(names), dtype=np.int32)
        labels = dict.fromkeys(names, "")
        if by:
            labels |= {node.name: node.metadata.labels.get(by, "") for node in self.node_objects}
        groups = sorted(set(labels.values()))
        place = {name: at for at, name in enumerate(groups)}
        return groups, np.array([place[labels[name]] for name in names], np.int32)

    def document(self) -> HistoryDocument:
        """Return the summary as a document."""
        return HistoryDocument(summary=self.summary(), counts=self.counts)

    def write(self, folder: str | Path, format: str = "auto") -> list[Path]:
        """Write the decisions, pods, nodes and the usage of cpu and memory to files, piece by piece.

        Parameters
        ----------
        folder : str or Path
            Is made if it does not exist.
        format : {"auto", "parquet", "csv"}, optional
            By default Parquet if pyarrow is installed.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        InputError
            A file cannot be written.
        MoorageError
            Parquet is asked for, and pyarrow is not installed.
        """
        target = Path(folder)
        tables = {"nodes": self.nodes(), "cpu": self.usage("cpu"), "memory": self.usage("memory")}
        parts: list[tuple[str, int, Part]] = [
            ("decisions", len(self.columns["time"]), self.decisions),
            ("pods", len(self.pod_columns["created"]), self.pods),
        ]
        for name, table in tables.items():
            parts.append((name, len(table), table.part))
        return [write_table(target, name, rows, part, format) for name, rows, part in parts]

    def record(self) -> Timeline:
        """Return the timeline with the bindings of this history as recorded ones, for `verify`: another
        version or configuration can be compared with this one.

        Pods of workloads and of the cluster at the start have no creation in the timeline, so their bindings
        are left out.
        """
        out, columns, pods = self.timeline.without_bindings(), self.columns, self._pod_names
        known = pods["name"] < len(self.timeline.subjects)
        own = (columns["node"] >= 0) & (columns["attempt"] > 0) & known[columns["pod"]]
        first = len(out.arguments)
        out.arguments += self.node_names
        part = {name: columns[name][own].tolist() for name in ("time", "pod", "node")}
        for time, pod, node in zip(*part.values(), strict=True):
            out.add(time, Verb.BIND, int(pods["name"][pod]), first + node, int(pods["ordinal"][pod]))
        return out

    # ---- time travel ---------------------------------------------------------------------------------------

    def at(self, time: float) -> Scheduler:
        """Return the scheduler as it was at a time, after everything that happened then.

        It is a fork of the nearest checkpoint before, taken through the events since then. Its clock stands
        still. What is done with it does not change the history.

        Parameters
        ----------
        time : float
            Seconds since the start of the timeline, up to `end`.

        Raises
        ------
        InputError
            The time is not in the history.
        """
        if not 0 <= time <= self.end:
            raise InputError(f"must be between 0 and {self.end:g}, not {time:g}", path="time")
        kept = self._checkpoints.before(time)
        clock = VirtualClock(kept.time)
        scheduler = kept.scheduler.fork(clock)
        scaled = None if kept.scaled is None else kept.scaled.copy()
        again = Replayer(scheduler, clock, self.timeline, Recorder(self.timeline), kept.at)
        autoscale(again, scaled)
        again.recorder.continue_with(kept.pods)
        again.drops = self._drops
        again.advance(time)
        again.settle()
        clock.set(time)
        return scheduler


def _texts(numbers: Array, texts: list[str]) -> list[str | None]:
    """Return the texts of some numbers; None for negative ones."""
    return [texts[number] if number >= 0 else None for number in numbers.tolist()]


def requests_of(pod: Pod) -> dict[str, int]:
    """Return what a pod requests by resource: millicores, or units of others."""
    return {name: whole(name, quantity) for name, quantity in pod_requests(pod).items()}


def allocatable_of(resource: str, node: Node) -> int:
    """Return how much of a resource a node has.

    Returns
    -------
    int
        Millicores of cpu; others in their own units.
    """
    return whole(resource, parse(node.status.allocatable.get(resource, "0")))


class Checkpoint(NamedTuple):
    """A fork of the scheduler, the time, the index of the next event and the number of the next pod, and what
    the autoscaler remembers."""

    time: float
    at: int
    pods: int
    scheduler: Scheduler
    scaled: AutoscalerState | KarpenterState | None


class Checkpoints:
    """A limited number of checkpoints, evenly distributed over the events.

    Parameters
    ----------
    most : int
        How many; with 0 only the beginning is kept.
    """

    def __init__(self, replayer: Replayer, most: int) -> None:
        self._replayer, self._most = replayer, most
        self._calls, self._every = 0, 1
        self._kept: list[Checkpoint] = []
        self._add()

    def keep(self) -> None:
        """Keep the state between two instants, unless enough others are kept. Where there are too many, every
        second is dropped, and from then on only every second call adds one."""
        self._replayer.settle()
        self._replayer.recorder.spill()
        self._calls += 1
        if self._most and self._calls % self._every == 0:
            self._add()
            if len(self._kept) > self._most:
                del self._kept[1::2]
                self._every *= 2

    def _add(self) -> None:
        replayer = self._replayer
        now = replayer.clock.now
        fork = replayer.scheduler.fork(VirtualClock(now))
        scaled = None if replayer.autoscaler is None else replayer.autoscaler.state.copy()
        self._kept.append(Checkpoint(now, replayer.cursor.at, replayer.recorder.next_pod, fork, scaled))

    def before(self, time: float) -> Checkpoint:
        """Return the last checkpoint at or before a time."""
        return next((kept for kept in reversed(self._kept) if kept.time <= time), self._kept[0])

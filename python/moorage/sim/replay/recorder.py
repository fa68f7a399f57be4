"""Recorder: notes what happens in a replay, in logs that only grow."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.kube import Node, Pod

from ..timeline import Timeline

SPILL_ROWS = 1 << 20
"""Rows of a log that are kept in memory."""


class HistoryLog:
    """Columns of one length, which only grow; long ones go to files.

    Parameters
    ----------
    name : str
        With which the names of its files begin.
    kinds : mapping of str to str
        Type code of the array by column: ``d`` float64, ``i`` int32, ``b`` int8.

    Attributes
    ----------
    columns : dict of str to array
        The rows that are not in files; a writer appends to each.
    """

    def __init__(self, name: str, kinds: Mapping[str, str]) -> None:
        self.columns: dict[str, array[Any]] = {column: array(code) for column, code in kinds.items()}
        self._name = name
        self._files: dict[str, Path] = {}

    def spill(self, folder: Path, least: int = SPILL_ROWS) -> None:
        """Move the rows in memory to files, if there are enough of them."""
        if len(next(iter(self.columns.values()))) < least:
            return
        for column, values in self.columns.items():
            path = self._files.setdefault(column, folder / f"{self._name}.{column}")
            with path.open("ab") as file:
                values.tofile(file)
            del values[:]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all rows of each column. Columns in files are mapped, not read.

        Returns
        -------
        dict of str to (n,) array
        """
        if self._files:
            self.spill(next(iter(self._files.values())).parent, 1)
            return {
                column: np.memmap(path, self.columns[column].typecode, "r")
                for column, path in self._files.items()
            }
        return {column: np.array(values, values.typecode) for column, values in self.columns.items()}


class End(IntEnum):
    """Why a pod is gone: the timeline deleted it, it was evicted for another one, a node left or was drained,
    a controller deleted it, or it was dropped because it fitted nowhere."""

    DELETED = 0
    EVICTED = 1
    NODE = 2
    CONTROLLER = 3
    DROPPED = 4


class Recorder:
    """Logs of one replay.

    Pods, nodes and reasons are numbered from 0 on in the order in which they were first noted.

    Parameters
    ----------
    spill_rows : int, optional
        Rows of each log that are kept in memory.

    Attributes
    ----------
    live : dict of str to int
        Number of each pod that exists, by ``namespace/name``.
    pending : dict of str to float
        Time at which each pod without a node was created, by ``namespace/name``.
    names : list of str
        Keys of pods, to which the ordinal is added.
    ended : int
        Number of pods that are gone.
    counts : Counter
        Events by what became of them.
    scalings : list of tuple
        What the autoscaler did: time, action, group, number of nodes, reason.
    disruptions : list of tuple
        Nodes that Karpenter removes: time, node, reason.
    """

    def __init__(self, timeline: Timeline, spill_rows: int = SPILL_ROWS) -> None:
        self.live: dict[str, int] = {}
        self.ended = 0
        self.pending: dict[str, float] = {}
        self.names = [subject.partition("/")[2] for subject in timeline.subjects]
        self.templates: list[Pod] = []
        self.node_objects: list[Node] = []
        self.counts: Counter[str] = Counter()
        self.measures: list[tuple[float, str]] = []
        self.scalings: list[tuple[float, str, str, int, str]] = []
        self.disruptions: list[tuple[float, str, str]] = []
        self.pods = HistoryLog("pods", {"created": "d", "name": "i", "ordinal": "i", "template": "i"})
        self.decisions = HistoryLog(
            "decisions", {"time": "d", "pod": "i", "node": "i", "attempt": "i", "reason": "i"}
        )
        self.ends = HistoryLog("ends", {"time": "d", "pod": "i", "cause": "b"})
        self.nodes = HistoryLog("nodes", {"time": "d", "node": "i", "state": "i"})
        self.node_numbers: dict[str, int] = {}
        self.reason_numbers: dict[str, int] = {}
        self._template_numbers: dict[int, int] = {}
        self._spill_rows = spill_rows
        self._folder: Path | None = None
        pods, decisions, ends = self.pods.columns, self.decisions.columns, self.ends.columns
        self._pod = tuple(pods[name].append for name in pods)
        self._decision = tuple(decisions[name].append for name in decisions)
        self._end = tuple(ends[name].append for name in ends)

    def noted(self) -> dict[str, int]:
        """Return the counts that are not 0."""
        return {name: n for name, n in self.counts.items() if n}

    # ---- pods ----------------------------------------------------------------------------------------------

    def create(self, time: float, key: str, name: int, ordinal: int, template: int) -> int:
        """Note a new pod.

        Parameters
        ----------
        key : str
            ``namespace/name``.
        name : int
            Index in `names`.
        ordinal : int
            What follows the name; -1 for nothing.
        template : int
            Index in `templates`.
        """
        created, names, ordinals, templates = self._pod
        number = self.live[key] = len(self.live) + self.ended
        created(time)
        names(name)
        ordinals(ordinal)
        templates(template)
        return number

    @property
    def next_pod(self) -> int:
        """Number of the next pod."""
        return len(self.live) + self.ended

    def continue_with(self, number: int) -> None:
        """Number the next pods from a number on, as the recorder does that this one repeats."""
        self.ended = number - len(self.live)

    def note_pod(self, time: float, pod: Pod) -> None:
        """Note a pod that is not of the timeline, as those of controllers and of the cluster at the start."""
        self.names.append(pod.key)
        number = self.create(time, pod.key, len(self.names) - 1, -1, self.template(pod))
        if pod.spec.node_name:
            self.decide(time, number, self.node(pod.spec.node_name), 0)
        else:
            self.pending[pod.key] = time

    def template(self, pod: Pod) -> int:
        """Return the index of a template, by the identity of its spec."""
        known = self._template_numbers.get(id(pod.spec))
        if known is None:
            known = self._template_numbers[id(pod.spec)] = len(self.templates)
            self.templates.append(pod)
        return known

    def served(self) -> Iterator[str]:
        """Yield the scheduler names of the pods that were placed so far."""
        decisions = self.decisions.arrays()
        pods = decisions["pod"][(decisions["node"] >= 0) & (decisions["attempt"] > 0)]
        for number in np.unique(self.pods.arrays()["template"][pods]).tolist():
            yield self.templates[number].spec.scheduler_name

    def decide(self, time: float, pod: int, node: int, attempt: int, reason: int = -1) -> None:
        """Note a decision.

        Parameters
        ----------
        node : int
            -1 where the pod fits nowhere.
        attempt : int
            From 1 on; 0 for a pod that another scheduler has bound.
        reason : int, optional
            Index in `reasons`.
        """
        times, pods, nodes, attempts, reasons = self._decision
        times(time)
        pods(pod)
        nodes(node)
        attempts(attempt)
        reasons(reason)

    def decide_all(
        self,
        times: Sequence[float],
        pods: Sequence[int],
        nodes: Sequence[int],
        attempts: Sequence[int],
        reasons: Sequence[int],
    ) -> None:
        """Note decisions, as `decide` does each."""
        for column, values in zip(
            self.decisions.columns.values(), (times, pods, nodes, attempts, reasons), strict=True
        ):
            column.extend(values)

    def end(self, time: float, key: str, cause: End) -> None:
        """Note that a pod is gone.

        Parameters
        ----------
        key : str
            Of a pod that exists.
        """
        times, pods, causes = self._end
        times(time)
        pods(self.live.pop(key))
        causes(cause)
        if cause is End.EVICTED:
            self.counts["evicted"] += 1
        self.ended += 1
        self.pending.pop(key, None)

    def count(self, what: str) -> int:
        """Return how many pods are in a state."""
        if what == "evicted":
            return self.counts["evicted"]
        return len(self.pending) if what == "pending" else len(self.live) - len(self.pending)

    # ---- names ---------------------------------------------------------------------------------------------

    def node(self, name: str) -> int:
        """Return the number of a node."""
        return self.node_numbers.setdefault(name, len(self.node_numbers))

    def note_node(self, time: float, node: Node, is_there: bool) -> None:
        """Note that a node has joined, changed or left."""
        columns = self.nodes.columns
        columns["time"].append(time)
        columns["node"].append(self.node(node.name))
        columns["state"].append(len(self.node_objects) if is_there else -1)
        if is_there:
            self.node_objects.append(node)

    def reason(self, message: str) -> int:
        """Return the index of a reason."""
        return self.reason_numbers.setdefault(message, len(self.reason_numbers))

    # ---- memory --------------------------------------------------------------------------------------------

    def spill(self) -> None:
        """Move long logs to files in a temporary folder, which goes with the recorder."""
        logs = self.pods, self.decisions, self.ends
        if self._folder is None:
            if all(len(next(iter(log.columns.values()))) < self._spill_rows for log in logs):
                return
            self._folder = Path(tempfile.mkdtemp(prefix="moorage-history-"))
            weakref.finalize(self, shutil.rmtree, self._folder, True)
        for log in logs:
            log.spill(self._folder, self._spill_rows)

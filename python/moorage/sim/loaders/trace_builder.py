"""What all loaders do: rows of trace files, read one by one, become the pods and nodes of a timeline."""

from __future__ import annotations

import csv
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from moorage.errors import InputError
from moorage.kube import (
    Cluster,
    Container,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodSpec,
    Resources,
)
from moorage.kube.apiserver.decode import UNREADABLE
from moorage.kube.model.node import HOSTNAME, NodeStatus
from moorage.kube.model.pod import Affinity, NodeAffinity, ResourceRequirements
from moorage.kube.read.files import A_FOLDER, source_name

from ..event_columns import Verb

if TYPE_CHECKING:
    from ..event_columns import EventColumns


NAMESPACE = "default"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""Label of nodes: the model. Annotation of pods: the models that it may use, separated by bars."""
NO_LIMIT = "2147483647"
"""Pods of a node: a trace that does not say how many a machine takes knows no limit."""
_ODD = re.compile(r"[^a-z0-9-]+")


class TraceBuilder:
    """Adds nodes and pods to a timeline, equal pods under one template, and counts what is odd.

    Parameters
    ----------
    timeline : EventColumns
        An empty one.
    """

    def __init__(self, timeline: EventColumns) -> None:
        self.timeline = timeline
        self._nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._templates: dict[object, int] = {}
        self._live: dict[int, float] = {}  # subject of each pod to the end of its time; infinite while open

    def note(self, what: str) -> None:
        """Count something that is left out or repaired."""
        self.timeline.notes[what] += 1

    # ---- nodes ---------------------------------------------------------------------------------------------

    def node(self, name: str, allocatable: Resources, labels: Mapping[str, str] | None = None) -> None:
        """Add a node of the cluster at the start."""
        name = name_of(name)
        if name in self._node_names:
            self.note("nodes left out: there is one of this name")
            return
        self._node_names.add(name)
        self._nodes.append(make_node(name, allocatable, labels or {}))

    def finish(self) -> None:
        """Set the cluster at the start."""
        if self._nodes:
            self.timeline.start_with(Cluster(nodes=self._nodes))

    # ---- pods ----------------------------------------------------------------------------------------------

    def template(
        self,
        shape: object,
        requests: Resources,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        models: tuple[str, ...] = (),
        *,
        priority: int = 0,
    ) -> int:
        """Return the number of a template of pods.

        Parameters
        ----------
        shape : hashable
            What tells the templates of a trace apart; the other arguments follow from it.
        models : tuple of str, optional
            Models of GPUs, one of which the node must have.
        """
        known = self._templates.get(shape)
        if known is None:
            limits = {name: quantity for name, quantity in requests.items() if "/" in name}  # must equal
            resources = ResourceRequirements(requests=dict(requests), limits=limits)
            spec = PodSpec(
                containers=(Container(name="main", resources=resources),),
                priority=priority,
                affinity=_affinity(GPU_MODEL, models) if models else None,
            )
            meta = ObjectMeta(
                namespace=NAMESPACE, labels=dict(labels or {}), annotations=dict(annotations or {})
            )
            known = self._templates[shape] = self.timeline.template(Pod(metadata=meta, spec=spec))
        return known

    def pod(self, name: str, template: int, created: float, deleted: float | None = None) -> bool:
        """Add a pod, and its deletion if there is one.

        Parameters
        ----------
        created : float
            Seconds.
        deleted : float, optional
            Seconds.

        Returns
        -------
        bool
            False for a pod that is left out, because one of its name exists.
        """
        subject = self.timeline.subject(f"pod/{NAMESPACE}/{name_of(name)}")
        end = float("inf") if deleted is None else deleted
        if self._live.get(subject, -1.0) > created or (subject in self._live and end == float("inf")):
            self.note("pods left out: there is one of this name")
            return False
        if end < created:
            self.note("pods that end before they begin: end at their beginning")
            end = created
        self._live[subject] = end
        self.timeline.add(created, Verb.CREATE, subject, template)
        if deleted is not None:
            self.timeline.add(end, Verb.DELETE, subject)
        return True

    def bind(self, name: str, time: float, node: str) -> None:
        """Record where a pod was put.

        Parameters
        ----------
        time : float
            Seconds.
        """
        self.timeline.bind(time, f"pod/{NAMESPACE}/{name_of(name)}", name_of(node))


def make_node(name: str, allocatable: Resources, labels: Mapping[str, str]) -> Node:
    """Make a node."""
    resources = {"pods": NO_LIMIT} | dict(allocatable)
    meta = ObjectMeta(name=name, uid=f"node/{name}", labels={HOSTNAME: name} | dict(labels))
    return Node(metadata=meta, status=NodeStatus(capacity=resources, allocatable=resources))


def name_of(text: str) -> str:
    """Return a name of Kubernetes for an identifier of a trace: its letters in lower case, digits and
    hyphens.
    """
    return _ODD.sub("-", text.lower()).strip("-")[:253] or "x"


def _affinity(label: str, values: tuple[str, ...]) -> Affinity:
    term = NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key=label, operator="In", values=values),)
    )
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(term,))))


# ---- trace rows --------------------------------------------------------------------------------------------

_MOST_FIELD = 1 << 20
_MOST_LINE = 64 << 20
"""Characters. A file may have no end, and a small one may unpack to a line that fits into no memory."""


def open_text(path: str | Path) -> IO[str]:
    """Open a text file for reading, gzip or not; bytes that are no UTF-8 are replaced.

    Raises
    ------
    InputError
        The file cannot be opened, or is a device or a pipe, which cannot be read twice.
    """
    try:
        if not stat.S_ISREG(mode := os.stat(path).st_mode):
            raise InputError(A_FOLDER if stat.S_ISDIR(mode) else "not a file", source=source_name(str(path)))
        with open(path, "rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
        opener: Any = gzip.open if is_packed else open
        file: IO[str] = opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        return file
    except OSError as error:
        message = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise InputError(message, source=source_name(str(path))) from None


CUT_OFF = (OSError, EOFError, zlib.error)
"""What reading a packed file raises where it is cut off or broken."""


def lines(path: str | Path) -> Iterator[str]:
    """Iterate over the lines of a text file.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    with open_text(path) as file:
        try:
            while line := file.readline(_MOST_LINE):
                if len(line) == _MOST_LINE:
                    text = f"a line has {_MOST_LINE:,} characters or more"
                    raise InputError(text, source=source_name(str(path)))
                yield line.rstrip("\r\n")
        except CUT_OFF as error:
            raise InputError(f"cannot be read: {error}", source=source_name(str(path))) from None


def csv_rows(path: str | Path, columns: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Iterate over the rows of a CSV file.

    Parameters
    ----------
    columns : sequence of str, optional
        Names of the columns of a file without a heading; by default the first row has them.

    Yields
    ------
    dict of str to str
        A value of a column that the row does not reach is "".

    Raises
    ------
    InputError
        The file cannot be read, or a row is no CSV.
    """
    reader = _reader(lines(path))
    names = list(columns)
    try:
        for row in reader:
            if not names:
                names = [name.strip() for name in row]
            elif row:
                yield dict(zip(names, row + [""] * (len(names) - len(row)), strict=False))
    except csv.Error as error:
        raise InputError(str(error), source=f"{source_name(str(path))}:{reader.line_num}") from None


def heading(path: str | Path) -> list[str]:
    """Return the values of the first row of a CSV file, if its first line is one."""
    try:
        return [name.strip() for name in next(_reader([next(lines(path), "")]), [])]
    except csv.Error:
        return []


def _reader(rows: Iterable[str]) -> Any:
    csv.field_size_limit(_MOST_FIELD)
    return csv.reader(rows)


def json_rows(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Iterate over the values of a file of JSON lines.

    Yields
    ------
    number : int
        Of the line, from 1 on.
    value : object
        The value; None where the line is no JSON, as the last one of a file that is still written.
    """
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            try:
                yield number, decode(line)
            except UNREADABLE:
                yield number, None


def map_of(value: Any) -> dict[str, Any]:
    """Return a JSON value that is a map; an empty map for another value."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a JSON value that is a list; an empty list for another value."""
    return value if isinstance(value, list) else []


def number_of(text: str) -> float | None:
    """Return a field as a number; None for an empty field or one that is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e18 else None

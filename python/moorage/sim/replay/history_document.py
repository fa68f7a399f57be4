"""The documents of replays, ``replay.moorage.dev/v1``; times are seconds since the start."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import fields

from moorage.document import Count, Document
from moorage.table import Table, rows_of

ENDS = ["deleted", "evicted", "node", "controller", "dropped"]


class TableRow(Document, frozen=True, rename=None):
    """A row of a table by the names of its columns, without missing values."""


class DecisionRow(TableRow, frozen=True, kw_only=True):
    """What became of an attempt."""

    time: float
    pod: str
    node: str | UnsetType = UNSET
    """Missing where the pod fits nowhere."""
    attempt: Count
    """0 where it was bound by others."""
    reason: str | UnsetType = UNSET


class PodHistoryRow(TableRow, frozen=True, kw_only=True):
    """What became of a pod."""

    pod: str
    node: str | UnsetType = UNSET
    created: float
    bound: float | UnsetType = UNSET
    ended: float | UnsetType = UNSET
    pending: float
    attempts: Count
    cause: Annotated[str, Meta(extra_json_schema={"enum": ENDS})] | UnsetType = UNSET


class NodeRow(TableRow, frozen=True):
    """A node that comes or leaves."""

    time: float
    node: str
    is_there: bool


class ScalingRow(TableRow, frozen=True):
    """What the autoscaler decided."""

    time: float
    action: str
    group: str
    nodes: Count
    reason: str


class DisruptionRow(TableRow, frozen=True):
    """A node that the autoscaler removed."""

    time: float
    node: str
    reason: str


class UsageRow(TableRow, frozen=True, kw_only=True):
    """What is requested from a time on; cpu in millicores."""

    time: float
    group: str | UnsetType = UNSET
    requested: int
    allocatable: int


class MeasureRow(TableRow, frozen=True, kw_only=True):
    """A value of a measure."""

    time: float | None
    """Null for the end of the replay."""
    measure: str
    value: float | UnsetType = UNSET


class HistoryDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage replay``."""

    api_version: Literal["replay.moorage.dev/v1"] = "replay.moorage.dev/v1"
    kind: Literal["History"] = "History"
    summary: dict[str, float] | UnsetType = UNSET
    """Numbers of the replay; the pending times are seconds of placed pods."""
    counts: dict[str, int] | UnsetType = UNSET
    """Events that had no effect, by the reason, and pod groups that are ignored."""
    decisions: list[DecisionRow] | UnsetType = UNSET
    """With --show decisions."""
    pods: list[PodHistoryRow] | UnsetType = UNSET
    """With --show pods. Times that never come are left out."""
    nodes: list[NodeRow] | UnsetType = UNSET
    """With --show nodes."""
    scalings: list[ScalingRow] | UnsetType = UNSET
    """With --show scalings."""
    disruptions: list[DisruptionRow] | UnsetType = UNSET
    """With --show disruptions."""
    usage: list[UsageRow] | UnsetType = UNSET
    """With --show usage."""
    measures: list[MeasureRow] | UnsetType = UNSET
    """With --show measures."""

    @classmethod
    def of(cls, part: str, table: Table) -> HistoryDocument:
        """Return the document of one table of a history."""
        (rows,) = (get_args(get_args(field.type)[0]) for field in fields(cls) if field.name == part)
        shown: dict[str, Any] = {part: [rows[0](**known(row)) for row in rows_of(table)]}
        return cls(**shown)


def known(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without times that never come, and values that are no number."""
    return {
        name: value for name, value in row.items() if not isinstance(value, float) or math.isfinite(value)
    }


class Divergence(TableRow, frozen=True):
    """A pod that another scheduler has put on another node."""

    time: float
    """Of the recorded binding, in seconds."""
    pod: str
    """``namespace/name``."""
    recorded: str
    """The node there."""
    here: str
    """The node here; empty where the pod has none."""
    why_here: str = ""
    """What speaks for it: scores by plugin, or the filter that rejects the other node."""
    why_not_recorded: str = ""
    """What speaks against the recorded node."""


class VerificationDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage replay --verify``."""

    api_version: Literal["replay.moorage.dev/v1"] = "replay.moorage.dev/v1"
    kind: Literal["Verification"] = "Verification"
    bindings: Count
    """Number of recorded bindings that were compared."""
    left_out: dict[str, int]
    """Recorded bindings that were not compared, by the reason."""
    counts: dict[str, int]
    """Events that had no effect, by the reason, and pod groups that are ignored."""
    divergences: list[Divergence]
    """Pods that the record has on another node, in the order of time; the first one is explained."""

"""Reports of workloads, as tables and JSON.

Measured are `ratio` and the fields whose names contain a unit of time or bytes, except `virtual_seconds`. All
other fields are the same for equal input. The garbage collector is off while metrics are collected (see
`measure`).
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import msgspec

from .measure import Meter, percentile
from .scheduler_perf_file import Workload

DONE, STUCK, FAILURE = "done", "stuck", "failed"
"""What a status begins with. Stuck are workloads whose own cluster has no room for their pods or claims."""
DEFAULT_TIE_BREAK = "go-heap"
"""Choice among nodes of equal score if none is requested."""


class NanosecondsPerPod(msgspec.Struct, frozen=True):
    """Nanoseconds per pod: the mean over all measured pods, and percentiles over chunks of 256 pods."""

    mean: float | None = None
    p50: float | None = None
    p99: float | None = None


class WorkloadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one workload.

    Attributes
    ----------
    status : str
        ``done``; or ``stuck:`` or ``failed:`` and the reason.
    tie_break : str
        Choice among nodes of equal score.
    kubernetes_version : str
        The release that has decided.
    nodes : int
        Number of nodes that operations created, without those of churn.
    init_pods, measured_pods : int
        Number of pods that were created but not measured, and of measured pods that were placed.
    unschedulable : int
        Number of pods that fit no node at the end.
    seconds : float
        Time while metrics were collected, of all pods and failures: queue, decisions, binding in the store,
        and processing of informer events; without decoding.
    placing_seconds : float
        Part of `seconds` from the popping of a batch to its last assumed pod.
    pods_per_second : float or None
        Measured pods divided by `seconds`; None if nothing was measured.
    ns_per_pod : NanosecondsPerPod
        Total time of measured pods.
    placing_ns_per_pod : float or None
        Nanoseconds: part of the mean of `ns_per_pod` from the popping of a batch to its last assumed pod.
    queue_ns_per_pod : float or None
        Nanoseconds to pop a measured pod.
    threshold, ratio : float or None
        Upstream's minimum in pods per second, with an API server in between; `pods_per_second` divided by it.
    churn_ticks : int
        Number of repetitions of churn operations.
    preemptors, victims : int
        Number of attempts that evicted pods, and of evicted pods.
    virtual_seconds : float
        Duration of the workload in virtual time.
    peak_rss_bytes : int
        Maximum resident set size of the process up to the end of this workload.
    """

    case: str
    workload: str
    status: str = DONE
    tie_break: str = DEFAULT_TIE_BREAK
    kubernetes_version: str = ""
    nodes: int = 0
    init_pods: int = 0
    measured_pods: int = 0
    unschedulable: int = 0
    seconds: float = 0.0
    placing_seconds: float = 0.0
    pods_per_second: float | None = None
    ns_per_pod: NanosecondsPerPod = NanosecondsPerPod()
    placing_ns_per_pod: float | None = None
    queue_ns_per_pod: float | None = None
    threshold: float | None = None
    ratio: float | None = None
    churn_ticks: int = 0
    preemptors: int = 0
    victims: int = 0
    virtual_seconds: float = 0.0
    peak_rss_bytes: int = 0

    @property
    def is_stuck(self) -> bool:
        """Whether the workload's own cluster has no room for its pods or claims."""
        return self.status.startswith(STUCK)

    @property
    def failed(self) -> bool:
        """Whether the workload failed for another reason."""
        return self.status.startswith(FAILURE)


def make_report(workload: Workload, meter: Meter, status: str, **counts: Any) -> WorkloadReport:
    """Make the report of a workload.

    Parameters
    ----------
    meter : Meter
        The measurements.
    status : str
        See `WorkloadReport`.
    **counts : object
        Values of the fields that are not measured.
    """
    per_second = meter.pods * 1e9 / meter.all_ns if meter.all_ns else None
    return WorkloadReport(
        case=workload.case,
        workload=workload.name,
        status=status,
        kubernetes_version=workload.kubernetes_version,
        measured_pods=meter.pods,
        seconds=meter.all_ns / 1e9,
        placing_seconds=meter.placing_all_ns / 1e9,
        pods_per_second=_rounded(per_second),
        ns_per_pod=NanosecondsPerPod(
            _rounded(meter.pods_ns / meter.pods if meter.pods else None),
            _rounded(percentile(meter.chunks, 50)),
            _rounded(percentile(meter.chunks, 99)),
        ),
        placing_ns_per_pod=_rounded(meter.placing_ns / meter.pods if meter.pods else None),
        queue_ns_per_pod=_rounded(meter.queue_ns / meter.queued if meter.queued else None),
        threshold=workload.threshold,
        ratio=_rounded(per_second / workload.threshold if per_second and workload.threshold else None),
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **counts,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


COLUMNS: dict[str, Callable[[WorkloadReport], str]] = {
    "WORKLOAD": lambda one: f"{one.case}/{one.workload}",
    "NODES": lambda one: str(one.nodes),
    "INIT": lambda one: str(one.init_pods),
    "MEASURED": lambda one: str(one.measured_pods),
    "PODS/S": lambda one: _cell(one.pods_per_second),
    "NS/POD": lambda one: _cell(one.ns_per_pod.mean),
    "P50": lambda one: _cell(one.ns_per_pod.p50),
    "P99": lambda one: _cell(one.ns_per_pod.p99),
    "PLACING NS": lambda one: _cell(one.placing_ns_per_pod),
    "QUEUE NS": lambda one: _cell(one.queue_ns_per_pod),
    "THRESHOLD": lambda one: _cell(one.threshold),
    "RATIO": lambda one: f"{_cell(one.ratio)}x" if one.ratio else "",
    "CHURN": lambda one: str(one.churn_ticks),
    "PREEMPTORS": lambda one: str(one.preemptors),
    "VICTIMS": lambda one: str(one.victims),
    "UNSCHED": lambda one: str(one.unschedulable),
    "RSS": lambda one: f"{one.peak_rss_bytes / 2**20:.0f}Mi",
    "STATUS": lambda one: (
        one.status if one.tie_break == DEFAULT_TIE_BREAK else f"{one.status} (ties {one.tie_break})"
    ),
}
"""Heading of each column of the table, and the text of its cell for a workload."""


def row(report: WorkloadReport) -> list[str]:
    """Return the row of a workload in a table with the headings `COLUMNS`."""
    return [text(report) for text in COLUMNS.values()]

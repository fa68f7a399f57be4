"""Measures: numbers of a history. Each is a function of the history alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from moorage.sim.replay import History

Measure = Callable[[History], Mapping[str, float]]

GPU = "alibabacloud.com/gpu-milli"
DEMANDS = range(10, 131, 10)  # per cent of the capacity


def summary(history: History) -> dict[str, float]:
    """Return the numbers of the replay (`History.summary`)."""
    return history.summary()


def utilization(history: History) -> dict[str, float]:
    """Return the mean over time of requested cpu and memory, in per cent of the allocatable amount.

    The mean is weighted by time; a history without duration has the values of its end.
    """
    return {f"{name}_utilization": _mean_requested(history, name) for name in ("cpu", "memory")}


def _mean_requested(history: History, resource: str) -> float:
    columns = history.usage(resource).columns
    times, requested, room = (np.asarray(columns[name]) for name in ("time", "requested", "allocatable"))
    if not len(times):
        return 0.0
    spans = np.diff(times, append=max(history.end, times[-1]))
    if not spans.sum():
        spans[-1] = 1
    parts = np.divide(requested, room, out=np.zeros(len(room)), where=room > 0)
    return float(100 * (parts * spans).sum() / spans.sum())


def gpu_allocation(history: History) -> dict[str, float]:
    """Return the allocated part of all GPUs when a part of their capacity has been asked for, in per cent.

    The demand counts all pods that have arrived, in the order of their arrival; ``gpu_allocation_at_100`` is
    the mean of the allocation over all arrivals at which the demand rounds to 100 % of the capacity (the
    measure of figure 9 of Weng et al., USENIX ATC 2023). Pods must not end before all have arrived.
    """
    capacity = np.asarray(history.usage(GPU).columns["allocatable"])[-1]
    if not capacity:
        return {}
    amounts = history.requests(GPU)
    demand = np.rint(100 * np.cumsum(amounts) / capacity).astype(np.int64)
    allocated = 100 * np.cumsum(np.where(history.pod_columns["node"] >= 0, amounts, 0)) / capacity
    means = {at: allocated[demand == at] for at in DEMANDS}
    return {f"gpu_allocation_at_{at}": float(part.mean()) for at, part in means.items() if len(part)}


MEASURES: dict[str, Measure] = {
    "summary": summary,
    "utilization": utilization,
    "gpu_allocation": gpu_allocation,
}

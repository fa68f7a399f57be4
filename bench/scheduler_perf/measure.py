"""Measures engine and queue times while metrics are collected.

The garbage collector is off while metrics are collected, as in the standard library's ``timeit``, and it is
as before at the end. It does not run right before: the processor's caches would then have nothing of the
scheduler.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .attempt_clock import FAR
from .pods import PodRun, Window

CHUNK = 256
"""Measured pods per sample of the percentiles."""

Timer = Callable[[], int]
"""Returns nanoseconds since an arbitrary start."""


@dataclass
class Meter:
    """Measurements of all windows of a workload.

    Attributes
    ----------
    pods : int
        Number of measured pods that were placed.
    all_ns, placing_all_ns : int
        Nanoseconds of all batches in a window, of any pods: in total, and for placing alone.
    pods_ns, placing_ns : float, int
        Nanoseconds for measured pods: in total, and for placing alone.
    queue_ns, queued : int
        Nanoseconds spent popping pods in a window that measures some of them, and number of popped pods.
    chunks : list of float
        Nanoseconds per pod for each `CHUNK` consecutive measured pods; the last chunk of a window may be
        shorter.
    """

    window: Window | None = None
    pods: int = 0
    all_ns: int = 0
    pods_ns: float = 0.0
    placing_all_ns: int = 0
    placing_ns: int = 0
    queue_ns: int = 0
    queued: int = 0
    chunks: list[float] = field(default_factory=list)
    _chunk: tuple[int, float] = (0, 0)
    _collecting: bool = False
    _measured: dict[PodRun, bool] = field(default_factory=dict)  # of the open window
    _are_alike: bool = False  # whether all pods of the batch are measured, or none is
    _measures_all: bool = False

    def open(self, window: Window) -> None:
        """Open a window.

        Parameters
        ----------
        window : Window
            The pods to measure.
        """
        self.window, self._measured = window, {}
        self._collecting = gc.isenabled()
        gc.disable()

    def close(self) -> None:
        """Close the open window, if there is one."""
        if self.window is None:
            return
        self._end_chunk()
        self.window = None
        if self._collecting:
            gc.enable()

    def measures(self, run: PodRun) -> bool:
        window = self.window
        if window is None:
            return False
        known = self._measured.get(run)
        if known is None:
            known = self._measured[run] = window.measures(run)
        return known

    def popped(self, pods: Sequence[tuple[PodRun, int]], nanoseconds: int) -> int:
        """Record the pods of a batch; return how many of them are measured.

        Parameters
        ----------
        pods : sequence of (PodRun, int)
            The run of each pod, and its index in the run.
        nanoseconds : int
            Time of the pop.
        """
        measured = self._count(pods)
        self._are_alike = measured in (0, len(pods))
        self._measures_all = measured == len(pods)
        self.queue_ns += nanoseconds * measured // len(pods)
        self.queued += measured
        return measured

    def _count(self, pods: Sequence[tuple[PodRun, int]]) -> int:
        """Return how many pods are measured."""
        count, last, counts = 0, None, False
        for run, _ in pods:
            if run is not last:
                last, counts = run, self.measures(run)
            count += counts
        return count

    def batch_limit(self) -> int:
        """Return the maximum size of the next batch that does not exceed the current chunk."""
        return CHUNK - self._chunk[0] if self.window is not None and self._chunk[0] else FAR

    def tried_each(
        self, tried: Sequence[tuple[PodRun, int]], placed: Sequence[tuple[PodRun, int]], nanoseconds: int
    ) -> None:
        """Record the placement of some pods of a batch.

        Parameters
        ----------
        tried, placed : sequence of (PodRun, int)
            The run of each pod, and its index in the run.
        nanoseconds : int
            From the first pod to the last; every pod has the same weight.
        """
        if self.window is not None and tried:
            self.placing_all_ns += nanoseconds
            if not self._are_alike:
                self.placing_ns += nanoseconds * self._count(tried) // len(tried)
            elif self._measures_all:
                self.placing_ns += nanoseconds
            self.pods += self._count(placed)

    def tried(self, nanoseconds: int, fraction: float, placed: int) -> None:
        """Record the total time of a batch: popping, placing, binding, and processing of informer events.

        Parameters
        ----------
        nanoseconds : int
            Time of the batch.
        fraction : float
            Measured pods divided by popped pods; every popped pod has the same weight.
        placed : int
            Number of measured pods that were placed.
        """
        self.all_ns += nanoseconds
        measured = nanoseconds * fraction
        self.pods_ns += measured
        pods, spent = self._chunk
        left, each = placed, measured / placed if placed else 0.0
        while pods + left >= CHUNK:
            self._chunk = CHUNK, spent + each * (CHUNK - pods)
            self._end_chunk()
            left, pods, spent = left - (CHUNK - pods), 0, 0.0
        self._chunk = pods + left, spent + (each * left if placed else measured)

    def _end_chunk(self) -> None:
        pods, nanoseconds = self._chunk
        if pods:
            self.chunks.append(nanoseconds / pods)
        self._chunk = 0, 0


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the nearest-rank percentile, as in scheduler_perf.

    Parameters
    ----------
    values : sequence of float
        The values.
    percent : int
        1 to 100.

    Returns
    -------
    float or None
        None without values.
    """
    if not values:
        return None
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]

"""A fixture for pytest-benchmark: how long the scheduler takes for a workload of yours.

Put ``pytest_plugins = ["moorage.testing"]`` into a ``conftest.py``, or import `scheduling_benchmark` there.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from .errors import missing

if find_spec("pytest_benchmark") is None:
    raise ImportError(missing("pytest-benchmark", "bench"), name="pytest_benchmark")

import pytest

from .answers.scheduler import Scheduler
from .engine.scheduler.cycle.results import ScheduleResult
from .kube import Cluster, Pod, PriorityClass, load, read_object
from .kube.read.python_values import Source

_MICROSECONDS = 1_000_000


class SchedulingBenchmark:
    """Times the scheduling of a workload; `scheduling_benchmark` makes one for a test.

    Parameters
    ----------
    benchmark : BenchmarkFixture
        The fixture `benchmark` of pytest-benchmark.
    """

    def __init__(self, benchmark: Any) -> None:
        self._benchmark = benchmark

    def __call__(
        self, cluster: Cluster | Source, pods: Sequence[Source] = (), *, rounds: int = 5, **options: Any
    ) -> ScheduleResult:
        """Schedule a workload several times, each time from the same start, and time it.

        Each round has a new scheduler; making it is not timed. The first round is not counted. What is
        measured goes to the table and the files of pytest-benchmark; the numbers of nodes and pods, and the
        microseconds per pod of the fastest round, are in its ``extra_info``.

        Parameters
        ----------
        pods : sequence of Pod, or of dicts, texts or objects of a client, optional
            Are scheduled in this order, with ``schedule_pods``; by default ``run`` schedules the pending pods
            of the cluster.
        rounds : int, optional
            Number of rounds that count.
        **options
            Those of `Scheduler`, such as ``profile`` and ``seed``.

        Returns
        -------
        ScheduleResult
            Of the last round, so that a test can check the decisions as well.

        Raises
        ------
        InputError
            `load` would refuse the cluster or a pod.
        """
        given = cluster if isinstance(cluster, Cluster) else load(cluster)
        classes = [obj for obj in given.others if isinstance(obj, PriorityClass)]
        # Pods become objects once, before the clock starts: a scheduler takes objects as they are.
        workload = [read_object(pod, Pod, classes=classes) for pod in pods]

        def start() -> tuple[tuple[Scheduler], dict[str, Any]]:
            return (Scheduler(given, **options),), {}

        def schedule(scheduler: Scheduler) -> ScheduleResult:
            return scheduler.schedule_pods(workload) if workload else scheduler.run()

        timed = self._benchmark.pedantic(schedule, setup=start, rounds=rounds, warmup_rounds=1)
        result: ScheduleResult = timed
        self._note(given, result)
        return result

    def _note(self, cluster: Cluster, result: ScheduleResult) -> None:
        placed, failed = len(result.placements), len(result.unschedulable)
        info = {"nodes": len(cluster.nodes), "placed": placed, "unschedulable": failed}
        stats = getattr(self._benchmark, "stats", None)
        if stats is not None and placed + failed:  # None where --benchmark-disable is given
            info["microseconds_per_pod"] = round(stats.stats.min * _MICROSECONDS / (placed + failed), 2)
        self._benchmark.extra_info.update(info)


@pytest.fixture
def scheduling_benchmark(benchmark: Any) -> SchedulingBenchmark:
    """Return what times the scheduling of a workload; see `SchedulingBenchmark`.

    Parameters
    ----------
    benchmark : BenchmarkFixture
        The fixture of pytest-benchmark.
    """
    return SchedulingBenchmark(benchmark)

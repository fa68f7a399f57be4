"""Operations: the operations of a workload as a cursor, with what they create and wait for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import msgspec

from moorage._core.base.watch_events import keys_of
from moorage._core.queue.in_flight import pods_of
from moorage.answers.scheduler import Scheduler
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler import Failure
from moorage.errors import InputError, located
from moorage.kube import Pod

from .attempt_clock import AttemptClock
from .object_templates import BASE_POD, ObjectTemplate, read_template
from .pods import FAILED, GATED, GONE, NEW, PodNames, PodRun, Window
from .workload_cluster import SimulatedCluster

TIMEOUT = 600
"""Seconds of virtual time that an operation may wait (scheduler_perf, executor.go)."""
MOST_TRIES = 16
"""Attempts of each pod without a node, and no change of the cluster in between, after which waiting ends."""


class WorkloadFailedError(Exception):
    """A workload cannot finish; the message is the reason."""


class WorkloadStuckError(WorkloadFailedError):
    """The cluster that the workload makes has no room for its pods or claims: with the same decisions
    upstream's benchmark times out, or fails, as well."""


class Wait(msgspec.Struct, frozen=True):
    """What an operation waits for, while pods are scheduled.

    Attributes
    ----------
    is_over : callable
        Whether the wait is over.
    timeout : Fraction or int
        Seconds of virtual time.
    """

    is_over: Callable[[], bool]
    timeout: Fraction | int = TIMEOUT


class Workload(Protocol):
    """A workload of a file, as its operations see it."""

    @property
    def full_name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def ops(self) -> Sequence[Any]: ...
    @property
    def pod_template(self) -> str: ...
    @property
    def feature_gates(self) -> Mapping[str, bool]: ...
    def path(self, relative: str) -> Path: ...


class TriesPods(Protocol):
    """A run in virtual time."""

    scheduler: Scheduler

    def try_batch(self, limit: int) -> bool:
        """Try and bind at most so many pods; the time of the attempts passes. Return whether there were
        any."""
        ...


class Operations:
    """The operations of a workload, one after the other; those that recur happen in between.

    Parameters
    ----------
    run : TriesPods
        Over an empty store.
    clock : AttemptClock
        Of the run.
    measures : callable
        Called with the window whenever pods begin to be measured, and with None when that ends.

    Attributes
    ----------
    runs : list of PodRun
        All pods that were created, deleted ones included.
    known : dict of str to (PodRun, int)
        By ``namespace/name`` of a pod, its run and its index in the run.
    wanted : dict of str to int
        By namespace, the number of pods that a barrier waits for.
    tries : int
        Number of attempts that ended, and of pods that were gated as they were created.
    init_pods : int
        Number of pods that were created and not measured.
    ticks : int
        Number of repetitions of churn operations.
    preemptors, victims : int
        Number of attempts that evicted pods, and of evicted pods.
    failures : int
        Number of attempts that failed.
    placed : list of (PodRun, int)
        Runs and indices of the pods that the last batch placed.
    on_placed : callable or None
        Called with the run of each placed pod.
    """

    def __init__(
        self,
        run: TriesPods,
        clock: AttemptClock,
        workload: Workload,
        measures: Callable[[Window | None], None],
    ) -> None:
        self.clock, self.workload, self.measures = clock, workload, measures
        self.scheduler = run.scheduler
        self.cluster = SimulatedCluster(run.scheduler)
        self.names = PodNames()
        self.runs: list[PodRun] = []
        self.known: dict[str, tuple[PodRun, int]] = {}
        self.window: Window | None = None
        self.wanted: dict[str, int] = {}
        self.tries = self.init_pods = self.ticks = self.preemptors = self.victims = self.failures = 0
        self.placed: list[tuple[PodRun, int]] = []
        self._evicted: list[Collection[str]] = []  # in the current batch
        self.on_placed: Callable[[PodRun], None] | None = None
        self._run = run
        self._read = cache(read_template)
        self._failure: Failure | None = None  # why the last failed pod was not placed
        self._where = workload.full_name  # which operation, for errors
        self.follow(self._steps())

    def follow(self, steps: Iterable[Wait]) -> None:
        """Execute steps from now on."""
        self._waits = iter(steps)
        self._wait: Wait | None = Wait(lambda: True)
        self._deadline = self.clock.exact
        self._had = self.failures, self.victims  # when something has changed last
        self._has_tried = True  # whether the last batch had pods, so that more may be waiting

    def _steps(self) -> Iterator[Wait]:
        """Execute the operations in order, up to what each waits for."""
        for number, op in enumerate(self.workload.ops):
            self._where = f"{self.workload.full_name}: workloadTemplate[{number}]"
            with located(source=self.workload.source, obj=self._where):
                yield from op.execute(self, number)

    # ---- the cursor ----------------------------------------------------------------------------------------

    @property
    def time(self) -> Fraction | float:
        """When something can happen; infinite after the last operation.

        Raises
        ------
        WorkloadFailedError
            The operation that waits can never end.
        """
        if self._wait is None:
            return math.inf
        if self._has_tried:
            return self.clock.exact
        coming = self._next_event()
        if coming is None:
            raise self._no_end("nothing is left to happen")
        return max(self.clock.exact, min(coming, self._deadline))

    def happen(self) -> None:
        """Do what is due, go on with the operations unless they wait, and try the pods of a batch.

        Raises
        ------
        WorkloadStuckError
            An operation does not end in time, or can never end, and pods fit nowhere. Groups that fail
            without a plugin's rejection are tried again at once (SchedulerPopFromBackoffQ), so waiting ends
            after `MOST_TRIES` attempts in vain.
        WorkloadFailedError
            The same, and all pods have nodes.
        """
        clock = self.clock
        with located(source=self.workload.source, obj=self._where):
            while self._wait is not None:
                clock.run_due()
                self.scheduler.queue.run_periodic(clock.now)
                if not self._wait.is_over():
                    if clock.has_come(self._deadline):
                        raise self._no_end(f"timed out after {float(self._wait.timeout):g} s")
                    self._try_batch()
                    return
                self._wait = next(self._waits, None)
                self._had = self.failures, self.victims
                if self._wait is not None:
                    self._deadline = clock.exact + self._wait.timeout

    def _try_batch(self) -> None:
        """Try pods up to the next event."""
        limit = min(map(self.clock.attempts_until, self._coming()))
        self.placed = []
        self._has_tried = self._run.try_batch(max(1, limit))
        self._mark_evicted()
        self.tries += len(self.placed)
        if self.on_placed is not None:
            for pod_run, _ in self.placed:
                self.on_placed(pod_run)
        if not self._has_tried:
            return
        failures, victims = self._had
        if self.placed or victims != self.victims or self._awaits_events():
            self._had = self.failures, self.victims
        elif self._has_tried_enough(self.failures - failures):
            raise self._no_end(f"nothing has changed in {MOST_TRIES} attempts")

    def _awaits_events(self) -> bool:
        """Whether an event of the workload or a binding cycle comes."""
        return self.clock.next_event() is not None or self.scheduler.bindings.next_step() is not None

    def _has_tried_enough(self, failures: int) -> bool:
        return failures >= MOST_TRIES and failures >= MOST_TRIES * sum(run.count(FAILED) for run in self.runs)

    def _coming(self) -> tuple[Fraction | float | None, ...]:
        """Times of the next events of the workload, the queue and a binding cycle; None where none comes."""
        scheduler = self.scheduler
        return self.clock.next_event(), scheduler.queue.next_event(), scheduler.bindings.next_step()

    def _next_event(self) -> Fraction | None:
        """Time of the first of the coming events; None if there is none."""
        return min((Fraction(when) for when in self._coming() if when is not None), default=None)

    def _no_end(self, text: str) -> WorkloadFailedError:
        waiting = self.waiting()
        return WorkloadStuckError(text + waiting) if waiting else WorkloadFailedError(text)

    def waiting(self) -> str:
        """Return the number of pods that fit nowhere, and why, as the end of a message; "" without such."""
        pods = sum(run.count(FAILED) for run in self.runs)
        if not pods or self._failure is None:
            return ""
        return f": {pods} pods fit nowhere ({self._failure.message}){self.cluster.devices.unreachable()}"

    def counts(self) -> dict[str, int | float]:
        """Return the fields of a `WorkloadReport` that are not measured."""
        return {
            "nodes": self.cluster.nodes,
            "init_pods": self.init_pods,
            "unschedulable": sum(run.count(FAILED) for run in self.runs),
            "churn_ticks": self.ticks,
            "preemptors": self.preemptors,
            "victims": self.victims,
            "virtual_seconds": round(self.clock.now, 6),
        }

    # ---- what happens to the pods --------------------------------------------------------------------------

    def note_placements(self, keys: Sequence[str], nodes: Sequence[str]) -> None:
        """Note the nodes of pods, as far as operations have created them. So do the methods after this one.

        Parameters
        ----------
        keys : sequence of str
            ``namespace/name`` of the pods.
        """
        rows = map(self.scheduler.table.find_row, nodes)
        for found, row in zip(map(self.known.get, keys), rows, strict=True):
            assert row is not None
            if found is not None:
                pod_run, number = found
                pod_run.state[number] = row
                self.placed.append(found)

    def note_failures(self, keys: Sequence[str], failures: Sequence[Failure]) -> None:
        """Note that pods fit nowhere.

        Parameters
        ----------
        keys : sequence of str
            ``namespace/name`` of the pods.
        """
        last, nominates = None, False
        for found, failure in zip(map(self.known.get, keys), failures, strict=True):
            if found is None:
                continue
            pod_run, number = found
            pod_run.state[number] = FAILED
            if failure is not last:  # most pods of a batch fail alike
                last, nominates = failure, bool(failure.nominated_node)
                self._failure = failure
            self.failures += 1
            self.tries += 1
            self.preemptors += nominates

    def note_evictions(self, keys: Collection[str]) -> None:
        """Note that pods were evicted.

        They are marked as gone after the batch, whose time is measured: this is no work of the scheduler.

        Parameters
        ----------
        keys : collection of str
            ``namespace/name`` of the pods.
        """
        self.victims += len(keys)
        self._evicted.append(keys)

    def _mark_evicted(self) -> None:
        """Mark the pods that were evicted in the batch as gone."""
        gone = defaultdict[PodRun, list[int]](list)
        for pod_run, number in filter(None, map(self.known.get, chain.from_iterable(self._evicted))):
            gone[pod_run].append(number)
        for pod_run, numbers in gone.items():
            pod_run.state[numbers] = GONE
        self._evicted.clear()

    def known_of(self, infos: Sequence[QueuedPodInfo]) -> list[tuple[PodRun, int]]:
        """Return the run of each popped pod, and its index in the run."""
        return list(map(self.known.__getitem__, keys_of(pods_of(infos))))

    # ---- for the operations --------------------------------------------------------------------------------

    def template(self, path: str, params: Mapping[str, Any], count: int) -> ObjectTemplate:
        """Return a template file with its parameters.

        Parameters
        ----------
        path : str
            Path relative to the file of the workload; "" for the default pod of scheduler_perf.
        params : mapping
            Values of the names in the template.
        count : int
            Number of objects made from the template.

        Raises
        ------
        InputError
            The file cannot be read, or is not a template.
        """
        text = self._read(self.workload.path(path)) if path else BASE_POD
        return ObjectTemplate(text, params, count)

    def measure(self, window: Window | None) -> None:
        """Begin or end the measurement of pods.

        Parameters
        ----------
        window : Window or None
            The pods to measure; None at the end.

        Raises
        ------
        InputError
            Pods are being measured already.
        """
        if window is not None and self.window is not None:
            raise InputError("metrics are being collected already", path="collectMetrics")
        self.window = window
        self.measures(window)

    def add(self, *runs: PodRun) -> None:
        """Create the pods of runs in the cluster.

        Parameters
        ----------
        *runs : PodRun
            The runs.

        Raises
        ------
        InputError
            The name of a pod is taken.
        WorkloadFailedError
            A pod names an unknown profile.
        """
        window = self.window
        for run in runs:
            name = run.template.spec.scheduler_name
            if name not in self.scheduler.engines:
                raise WorkloadFailedError(f"no profile of the name {name}")
            self.runs.append(run)
            self.init_pods += 0 if window is not None and window.measures(run) else len(run)
            for number in range(len(run)):
                self.known[run.key(number)] = run, number
        self.cluster.create_many(pod for run in runs for pod in run.pods())
        for run in runs:
            framework = self.scheduler.engines[run.template.spec.scheduler_name].framework
            first = self.cluster.with_claims(run) if run.template.spec.resource_claims else run.template
            if framework.run_pre_enqueue_plugins(first) is not None:
                run.state[:] = GATED
                self.tries += len(run)

    def update_pod(self, pod: Pod) -> None:
        """Replace a pod, which may remove its scheduling gates.

        Parameters
        ----------
        pod : Pod
            The new state of the pod.

        Raises
        ------
        InputError
            There is no pod of this name.
        """
        self.cluster.update_pod(pod)
        run, number = self.known[pod.key]
        framework = self.scheduler.engines[pod.spec.scheduler_name].framework
        if run.state[number] == GATED and framework.run_pre_enqueue_plugins(pod) is None:
            run.state[number] = NEW

    def namespace(self, name: str, template: ObjectTemplate | None = None, index: int = 0) -> None:
        """Create a namespace if it does not exist; barriers know it then.

        Parameters
        ----------
        template : ObjectTemplate, optional
            Template of the namespace; by default it has only a name.
        index : int, optional
            Index of the namespace, for the template.
        """
        self.cluster.namespace(name, template, index)
        self.wanted.setdefault(name, 0)

    def until(self, count: int, namespace: str, labels: dict[str, str], without: Sequence[int]) -> Wait:
        """Return a wait until there are so many pods in a namespace.

        Parameters
        ----------
        count : int
            Number of pods.
        namespace : str
            Namespace of the pods.
        labels : dict of str to str
            Labels that the pods have.
        without : sequence of int
            States of pods that do not count.
        """
        enough_at = 0  # number of tries before which there cannot be enough, so that few looks are taken

        def over() -> bool:
            nonlocal enough_at
            if self.tries < enough_at:
                return False
            chosen = self.find(namespace, labels)
            found = sum(len(run) - sum(map(run.count, without)) for run in chosen)
            enough_at = self.tries + count - found
            return found >= count

        return Wait(over)

    def find(self, namespace: str, labels: dict[str, str], first: int = 0) -> Iterator[PodRun]:
        """Iterate over runs of pods.

        Parameters
        ----------
        namespace : str
            Namespace of the pods.
        labels : dict of str to str
            Labels that the pods have.
        first : int, optional
            Index of the first run.

        Yields
        ------
        PodRun
            A run of matching pods.
        """
        for run in self.runs[first:]:
            if run.template.metadata.namespace == namespace and run.matches(labels):
                yield run

    def sleep(self, seconds: Fraction) -> Wait:
        """Return a wait until virtual time has passed, while scheduling continues.

        Parameters
        ----------
        seconds : Fraction
            Virtual time.
        """
        end = self.clock.exact + seconds
        self.clock.at(end, lambda: None)
        return Wait(lambda: self.clock.exact >= end, seconds + 1)

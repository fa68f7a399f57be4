"""The pods of a workload: runs of equal ones, the queue, and those that wait because they fit nowhere."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.objects.pod import Pod

from .object_templates import ObjectTemplate

NEW, FAILED, GATED, GONE = -1, -2, -3, -4
"""States of a pod that is on no node: never tried, tried in vain, gated, deleted or being deleted."""

FIRST_BACKOFF, LAST_BACKOFF = 1, 10
"""Seconds (kube-scheduler v1.36, podInitialBackoffSeconds and podMaxBackoffSeconds)."""


class PodRun:
    """Pods that are equal to a template but for their names.

    Parameters
    ----------
    template : Pod
        With a ``generateName``; pod number i of the run is ``<generateName><first + i>``.
    given_name : str
        The name in the file, where there was one.

    Attributes
    ----------
    state : (n,) int32 array
        Row of the node that each pod is on, or one of `NEW`, `FAILED`, `GATED`, `GONE`.
    terminating : set of int
        Pods that are being deleted, but have finalizers.
    """

    def __init__(self, template: Pod, first: int, count: int, given_name: str = "") -> None:
        self.template, self.first, self.given_name = template, first, given_name
        self.state: npt.NDArray[np.int32] = np.full(count, NEW, dtype=np.int32)
        self.holes = False
        self.terminating: set[int] = set()

    def __len__(self) -> int:
        return len(self.state)

    def name(self, number: int) -> str:
        return f"{self.template.metadata.generate_name}{self.first + number}"

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether the pods have all these labels."""
        return labels.items() <= self.template.metadata.labels.items()

    def count(self, *states: int) -> int:
        return int(np.isin(self.state, states).sum())

    @property
    def waits_for_pods(self) -> bool:
        """Whether another pod's coming can make room for one of these."""
        affinity = self.template.spec.affinity
        attracted = (
            affinity is not None and affinity.pod_affinity is not None and affinity.pod_affinity.required
        )
        return bool(attracted or self.template.spec.topology_spread_constraints)


@dataclass(frozen=True, slots=True)
class Batch:
    """Pods `start` to `stop` of a run."""

    run: PodRun
    start: int
    stop: int


class PodQueue:
    """Batches by priority, then in the order in which they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Batch]] = []
        self._sequence = 0

    def push(self, batch: Batch) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (-(batch.run.template.spec.priority or 0), self._sequence, batch))

    def pop(self, limit: int) -> Batch | None:
        """Take up to `limit` pods of the first batch; None where no pod waits."""
        while self._heap:
            priority, sequence, batch = self._heap[0]
            start, stop = batch.start, min(batch.stop, batch.start + limit)
            if batch.run.holes:
                waiting = batch.run.state[start : batch.stop] < 0
                waiting &= ~np.isin(batch.run.state[start : batch.stop], (GATED, GONE))
                start += int(np.argmax(waiting)) if waiting.any() else len(waiting)
                ends = np.flatnonzero(~waiting[start - batch.start :])
                stop = min(start + limit, start + int(ends[0]) if len(ends) else batch.stop)
            if stop == batch.stop:
                heapq.heappop(self._heap)
            else:
                self._heap[0] = priority, sequence, Batch(batch.run, stop, batch.stop)
            if start < stop:
                return Batch(batch.run, start, stop)
        return None

    def __bool__(self) -> bool:
        return bool(self._heap)


@dataclass(slots=True)
class Waiting:
    """A batch that fits nowhere, and when it may be tried again."""

    batch: Batch
    ready: Fraction
    message: str


class Unschedulable:
    """Batches that wait for something to happen. How often a batch was tried is remembered."""

    def __init__(self) -> None:
        self._for_pods: list[Waiting] = []
        self._others: list[Waiting] = []
        self._tries: dict[tuple[PodRun, int], int] = {}

    def add(self, batch: Batch, now: Fraction, message: str) -> None:
        key = batch.run, batch.start
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        pause = min(FIRST_BACKOFF << min(tries - 1, 8), LAST_BACKOFF)
        waiting = self._for_pods if batch.run.waits_for_pods else self._others
        waiting.append(Waiting(batch, now + pause, message))

    def take(self, only_for_pods: bool) -> list[Waiting]:
        """Those that something that happened may help; where only a pod came, those that wait for pods."""
        taken, self._for_pods = self._for_pods, []
        if not only_for_pods:
            taken = sorted(taken + self._others, key=lambda one: one.ready)
            self._others = []
        return taken

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._for_pods + self._others)


class PodNames:
    """The next free number after each name prefix, by namespace."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], int] = {}

    def reserve(self, namespace: str, prefix: str, count: int, first: int | None = None) -> int:
        """Take `count` numbers, from `first` on where the names are given; returns the first one.

        Raises
        ------
        InputError
            If a given name is taken.
        """
        free = self._next.get((namespace, prefix), 0)
        if first is not None and first < free:
            raise InputError("there is a pod of this name", obj=f"Pod {namespace}/{prefix}{first}")
        start = free if first is None else first
        self._next[namespace, prefix] = start + count
        return start


def runs_of(
    template: ObjectTemplate, count: int, namespace: str, names: PodNames, signature: int = 0
) -> Iterator[PodRun]:
    """The pods of an operation as runs, in order.

    A template that does not read ``.Index`` is read once. Of the others, neighbours that differ in nothing
    but a number at the end of their names make a run.

    Parameters
    ----------
    signature : int
        So many pods in a row share a value of the label ``signature``; 0: there is no such label.
    """
    if not template.by_index:
        pod = template.pod(0, namespace)
        if pod.name and count > 1:
            source, named = template.text.source, f"Pod {pod.key}"
            raise InputError("one name for several pods", source=source, obj=named, path="metadata.name")
        size = signature or max(count, 1)
        for start in range(0, count, size):
            yield run_of(_signed(pod, start, signature), min(size, count - start), names)
        return
    run: PodRun | None = None
    for index in range(count):
        pod = _signed(template.pod(index, namespace), index, signature)
        following = run_of(pod, 1, names)
        if run is not None and _continues(run, following):
            run = PodRun(run.template, run.first, len(run) + 1)
            continue
        if run is not None:
            yield run
        run = following
    if run is not None:
        yield run


def _continues(run: PodRun, following: PodRun) -> bool:
    same_name = not run.given_name and not following.given_name
    return same_name and run.template == following.template and following.first == run.first + len(run)


def _signed(pod: Pod, index: int, signature: int) -> Pod:
    if not signature:
        return pod
    labels = pod.metadata.labels | {"signature": str(index // signature)}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def run_of(pod: Pod, count: int, names: PodNames) -> PodRun:
    """A run of `count` pods. A name that ends in a number is taken apart, so that the pod keeps it."""
    meta = pod.metadata
    match = re.fullmatch(r"(.*[^0-9])(0|[1-9][0-9]{0,8})", meta.name)
    if match is not None:
        template = replace(pod, metadata=replace(meta, name="", generate_name=match[1]))
        return PodRun(template, names.reserve(meta.namespace, match[1], count, int(match[2])), count)
    prefix = f"{meta.name}-" if meta.name else meta.generate_name
    template = replace(pod, metadata=replace(meta, name="", generate_name=prefix))
    return PodRun(template, names.reserve(meta.namespace, prefix, count), count, meta.name)

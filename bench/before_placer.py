"""Placer, PodBatch and the scheduler's context, over a revision that has cycles in their place."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np
from bench.moved import first_of

from moorage import Scheduler

Cycle: Any = import_module(first_of("moorage._core.decide.cycle", "moorage._core.cycle")).Cycle
Engine: Any = import_module(first_of("moorage.scheduler.cycle.engine", "moorage.scheduler.engine")).Engine


class PodBatch:
    """The targets of pods, and whether one call for a class can place them."""

    def __init__(self, state: Any, pods: Sequence[Any]) -> None:
        self.state, self.pods, classes = state, pods, state.classes
        found = [classes.intern(pod) for pod in pods]
        pins = [classes.pinned_symbol(one, pod) for one, pod in zip(found, pods, strict=True)]
        self.classes = np.asarray(found, dtype=np.int32)
        self.pinned = np.asarray(pins, dtype=np.int32)
        self.is_run = len({*zip(self.classes.tolist(), self.pinned.tolist(), strict=True)}) == 1

    def target(self, at: int) -> tuple[int, int, int]:
        return int(self.classes[at]), 0, int(self.pinned[at])


class LedgerSink:
    """Enters pods that have rows in the ledger, as assumed."""

    def enter(self, batch: PodBatch, rows: Any, first: int, end: int) -> None:
        for at in range(first, end):
            batch.state.assume_rows(batch.target(at)[0], [batch.pods[at]], rows[at : at + 1])


class Placer:
    """A cycle, which is its own decider and its own search."""

    def __init__(self, *arguments: Any) -> None:
        self.decider = self.search = Cycle(*arguments)

    @classmethod
    def of(cls, cycle: Any) -> Self:
        out = cls.__new__(cls)
        out.decider = out.search = cycle
        return out

    def place(self, batch: PodBatch, rows: Any, first: int = 0, end: int = -1) -> int:
        end = len(rows) if end < 0 else end
        if not batch.is_run:
            return int(self.decider.place_many(batch.classes[:end], batch.pinned[:end], rows[:end], first))
        pod_class, node_name, pinned = batch.target(first)
        found = self.decider.place_run(pod_class, end - first, node_name, pinned)
        rows[first : first + len(found)] = found
        rows[first + len(found) : end] = -1
        return end


class Context:
    """What a scheduler of that revision is itself, by the names of today."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.target_of = scheduler, scheduler.classify

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scheduler, name)


def of_cycle(one: Any) -> Placer:
    return Placer.of(one.cycle)


for kind, attribute, value in (
    (Scheduler, "context", Context),
    (Scheduler, "placer", of_cycle),
    (Engine, "placer", of_cycle),
):
    setattr(kind, attribute, property(value))

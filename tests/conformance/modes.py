"""The ways in which the engine can come to the same decisions, and how a replay takes one of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from moorage import Scheduler

Json = dict[str, Any]

IN_BATCH = ("op", "chosen", "start", "next")
"""What a batch tells of a schedule step. In mode full the last two do not exist."""


THREADS = (1, 2)


@dataclass(frozen=True)
class Mode:
    """One of them.

    Attributes
    ----------
    candidates : bool
        Candidates may be kept.
    threads : int
        A scan is split among so many, however short it is.
    batch : bool
        Maximal runs of schedule steps go through `Scheduler.schedule`, each in one call.
    taken : Counter
        How often each way was taken: decisions read off candidates (``candidates``), scans that were split
        (``scans``), calls (``batches``) and pods in them (``pods``).
    """

    candidates: bool = True
    threads: int = 1
    batch: bool = False
    taken: Counter[str] = field(default_factory=Counter, compare=False)

    def set_up(self, scheduler: Scheduler) -> None:
        """Make a scheduler decide in this mode."""
        for engine in scheduler.engines.values():
            engine.placer.decider.keeps_candidates = self.candidates
            engine.placer.search.threads = self.threads
            if self.threads > 1:
                engine.placer.search.parallel_from = 0

    def count(self, scheduler: Scheduler) -> None:
        """Add up which ways a scheduler has taken."""
        for engine in scheduler.engines.values():
            self.taken["candidates"] += engine.placer.decider.from_candidates
            self.taken["scans"] += engine.placer.decider.parallel_scans

    def compared(self, step: Json) -> Json:
        """The part of a step's result that this mode produces."""
        if not self.batch or step.get("op") != "schedule":
            return step
        return {key: value for key, value in step.items() if key in IN_BATCH}

    def __str__(self) -> str:
        candidates = f"candidates {'on' if self.candidates else 'off'}"
        return f"{candidates}, threads {self.threads}, {'batch' if self.batch else 'one by one'}"


def every_mode() -> list[Mode]:
    """One of each; the first is the plainest."""
    flags = (False, True)
    return [Mode(kept, threads, batch) for batch in flags for threads in THREADS for kept in flags]

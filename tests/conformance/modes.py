"""The ways in which the engine can come to the same decisions, and how a replay takes one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from msgspec.structs import replace

from moorage import Scheduler
from moorage.errors import MoorageError
from moorage.kube import Node, ObjectMeta, Pod
from moorage.saved_fields import SavedFields
from tests.doors.engine import schedule_one
from tests.make import pod

Json = dict[str, Any]

EVERY = 3
"""After so many steps verbs are played."""
FORKS = 8
"""One of so many times in a fork, which costs more than a transaction."""
MOST = 3
"""Verbs at a time."""


class Undone:
    """Plays random verbs on the scheduler of a scenario between its steps, in transactions that are undone
    and in forks: what is decided afterwards is what was recorded, as if there had been none.

    Attributes
    ----------
    scheduler : Scheduler or None
        Of the scenario that is being replayed.
    played, refused : int
        How many verbs did something, and how many were refused.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.scheduler: Scheduler | None = None
        self.played = self.refused = 0
        self._numbers = count()

    def begin(self, scenario: str) -> None:
        """Begin a scenario, whose verbs do not depend on those of others."""
        self.scheduler, self._random = None, Random(f"{self.seed}/{scenario}")

    def after(self, steps: int) -> None:
        """Play verbs after so many steps, if it is their turn, and undo them."""
        if self.scheduler is None or steps % EVERY:
            return
        clients = [engine.handle.client for engine in self.scheduler.engines.values()]
        recorders = [(each, each.save()) for each in clients if isinstance(each, SavedFields)]
        if not self._random.randrange(FORKS):
            self._play(self.scheduler.fork())
        with self.scheduler.transaction():
            self._play(self.scheduler)
        for each, saved in recorders:  # they number the claims of a scenario
            each.undo(saved)

    def _play(self, one: Scheduler) -> None:
        for _ in range(self._random.randint(1, MOST)):
            try:
                self._verb(one)()
                self.played += 1
            except MoorageError:
                self.refused += 1

    def _verb(self, one: Scheduler) -> Callable[[], object]:
        rng, change = self._random, one.change
        nodes, pods = one.client.list(Node)[0], one.client.list(Pod)[0]
        bound = [each for each in pods if each.spec.node_name] or pods
        a_node = rng.choice(nodes).name if nodes else "none"
        new = [self._new(pods, each) for each in range(rng.randint(1, 3))]
        verbs: list[Callable[[], object]] = [
            lambda: one.schedule_pods(new),
            lambda: one.bind(one.schedule_pods(new)),
            lambda: one.release(one.bind(one.schedule_pods(new))),
            lambda: schedule_one(one.context, new[0]),
            lambda: one.schedule_by_template(new[0], 3),
            lambda: one.preempt_pods(new).commit(),
            lambda: one.examine(new[0]),
            lambda: one.client.create_many(new),
            lambda: (change.apply(new), one.run()),
            one.run,
            one.advance,
            lambda: change.cordon(a_node),
            lambda: (change.taint(a_node, "undone:NoExecute"), one.run()),
            lambda: change.label(f"node/{a_node}", f"undone={rng.randrange(9)}"),
            lambda: (change.add_nodes(1, a_node), one.run()),
            lambda: (change.remove_nodes(a_node), one.run()),
            lambda: (change.drain(a_node), one.run()),
        ]
        if pods:
            going = rng.choice(bound)
            verbs += [
                lambda: one.client.delete(Pod, going.name, going.namespace),
                lambda: (change.evict([going]), one.run()),
            ]
        return rng.choice(verbs)

    def _new(self, pods: list[Pod], at: int) -> Pod:
        """A pod without a node, often like one that is there, so that they share what is kept of a class."""
        rng, name = self._random, f"undone-{next(self._numbers)}"
        if not pods or not rng.randrange(4):
            return pod(name, requests={"cpu": rng.choice(["1m", "1", "9"])}, priority=rng.choice([0, 1000]))
        like = rng.choice(pods)
        meta = ObjectMeta(name=name, namespace=like.namespace, labels=like.metadata.labels)
        return replace(pod(name), metadata=meta, spec=replace(like.spec, node_name=""))


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
    undone : Undone or None
        Plays verbs after every third step, and undoes them.
    """

    candidates: bool = True
    threads: int = 1
    batch: bool = False
    taken: Counter[str] = field(default_factory=Counter, compare=False)
    undone: Undone | None = None

    def set_up(self, scheduler: Scheduler) -> None:
        """Make a scheduler decide in this mode."""
        if self.undone is not None:
            self.undone.scheduler = scheduler
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
        undone = "" if self.undone is None else ", verbs undone"
        return f"{candidates}, threads {self.threads}, {'batch' if self.batch else 'one by one'}{undone}"


def every_mode() -> list[Mode]:
    """One of each; the first is the plainest."""
    flags = (False, True)
    return [Mode(kept, threads, batch) for batch in flags for threads in THREADS for kept in flags]

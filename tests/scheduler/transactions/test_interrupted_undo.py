"""Whatever line of an undo a signal ends: all is undone, or the scheduler refuses to answer."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from inspect import isfunction
from random import Random
from types import FrameType
from typing import Any

import pytest
from tests.scheduler.transactions import test_transaction_volumes
from tests.scheduler.transactions.interrupts import Line, check_usage, struck_in_undo
from tests.scheduler.transactions.test_forks import busy_scheduler
from tests.scheduler.transactions.test_transactions import everything, outcome, run, world, write

from moorage import MoorageError, Preemption, Scheduler
from moorage.kube import Pod
from moorage.store import Indexer

Action = Callable[[Scheduler], None]
CONTENTS: dict[tuple[Indexer[Pod], int], list[Pod]] = {}
"""Those of an indexer by its number of changes."""


def check_contents(one: Scheduler) -> None:
    """Equal numbers of changes mean equal contents."""
    indexer = one.informers.informer(Pod).indexer
    assert CONTENTS.setdefault((indexer, indexer.changes), indexer.values()) == indexer.values()


def undone(action: Action) -> Action:
    def act(one: Scheduler) -> None:
        with one.transaction():
            action(one)
            check_contents(one)

    return act


def nested(one: Scheduler) -> None:
    """Both transactions are undone, and a third is kept in the first."""
    with one.transaction():
        write(one)
        with one.transaction():
            run(one)
        with one.transaction() as kept:
            one.run()
            kept.commit()


def left_open(one: Scheduler) -> None:
    """The handle of a preemption outlives the transaction around it."""
    with one.transaction():
        handle = one.preempt_pods([one.pods.pending["default/high"]])
        assert handle.victims(0)


def survive(one: Scheduler) -> None:
    one.ask.survive()


CASES: list[tuple[Callable[[], Scheduler], Action]] = [
    (world, undone(run)),
    (world, undone(write)),
    (world, nested),
    (world, left_open),
    (world, survive),
    (test_transaction_volumes.world, undone(test_transaction_volumes.run)),
    (busy_scheduler, undone(lambda one: one.run())),  # type: ignore[arg-type, return-value]
]


def strike_each_line(make_world: Callable[[], Scheduler], action: Action, struck: set[Line]) -> None:
    """Interrupt the undo of an action at each of its lines but those struck before, which it adds."""
    one, lines = make_world(), dict[Line, None]()
    before = everything(one)
    assert not struck_in_undo(lambda: action(one), None, lines)
    for line in lines.keys() - struck:
        if struck_in_undo(lambda: action(one), line, {}):
            struck.add(line)
        check_usage(one)
        check_contents(one)
        assert everything(one) == before, line
    assert outcome(one) == outcome(make_world())


def test_an_interrupt_at_any_line_of_an_undo_leaves_nothing_half_undone() -> None:
    struck: set[Line] = set()
    for make_world, action in CASES:
        strike_each_line(make_world, action, struck)
    undos = {code.co_qualname for code, _ in struck}
    parts = [type(part).undo for part in busy_scheduler().context._parts()]
    written_in_python = {undo.__qualname__ for undo in parts if isfunction(undo)}
    assert written_in_python | {"PodNominator.undo"} <= undos  # which the queue calls


def test_an_undo_of_a_preemption_that_a_signal_broke_off_can_be_repeated() -> None:
    one = world()
    before, lines = (
        everything(one),
        sorted({line for _, _, line in Preemption.undo.__code__.co_lines() if line}),
    )
    for struck in lines[1:]:

        def trace(frame: FrameType, event: str, argument: object, struck: int = struck) -> Any:
            if event == "line" and frame.f_code is Preemption.undo.__code__ and frame.f_lineno == struck:
                raise KeyboardInterrupt
            return trace

        handle, kept = one.preempt_pods([one.pods.pending["default/high"]]), sys.gettrace()
        sys.settrace(trace)
        try:
            with pytest.raises(KeyboardInterrupt):
                handle.undo()
        finally:
            sys.settrace(kept)
        with suppress(MoorageError):  # where nothing was left to undo
            handle.undo()
        assert everything(one) == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_signal_at_any_moment_leaves_nothing_half_undone(seed: int) -> None:
    """5,000 signals each."""
    rng = Random(seed)
    make_world, action = CASES[seed % len(CASES)]
    one, twin = make_world(), make_world()
    before = everything(one)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        began = time.perf_counter()
        action(one)
        duration, struck = time.perf_counter() - began, 0
        while struck < 5000:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.01, 1.1) * duration)
                action(one)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                struck += 1
            assert everything(one) == before
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert outcome(one) == outcome(twin)

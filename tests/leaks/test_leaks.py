"""Each operation over and over, in flat memory: a part of it here, 100,000 times under `make leaks`."""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path

import pytest

from tests.leaks import binder_operations, operations
from tests.leaks.world import plain, scheduler

OPERATIONS = operations.OPERATIONS | {make.__name__: make for make in binder_operations.OPERATIONS}

BLOCKS = 300
"""What the interpreter's own caches may grow by; a leak shows once per repetition."""
KIBIBYTES = 1024
WARM_UP = 1500
"""Repetitions after which memos of bounded size are full: `SpecMemo` keeps 1,024 specs."""


def resident() -> int:
    """KiB of the process that are in memory now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest keeps every log record."""
    monkeypatch.setattr(logging.getLogger("moorage.cache"), "disabled", True)


@pytest.mark.nightly  # a leak stays until it is looked for
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_leaves_no_memory_behind(name: str) -> None:
    operation = OPERATIONS[name]()
    for _ in range(WARM_UP):
        operation()
    before = blocks()
    for _ in range(1000):
        operation()
    assert blocks() - before <= BLOCKS


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_memory_is_flat(name: str) -> None:
    operation = OPERATIONS[name]()
    for _ in range(10_000):
        operation()
    before, resident_before = blocks(), resident()
    for _ in range(100_000):
        operation()
    assert blocks() - before <= 10 * BLOCKS
    assert resident() - resident_before <= KIBIBYTES


@pytest.mark.slow
def test_new_specs_of_one_shape_are_forgotten_again() -> None:
    """What was read last is remembered, up to 2**16 specs; the shapes behind them are few."""
    sched = scheduler()
    sizes = []
    for number in range(3 * (1 << 16) + 2):
        if number % (1 << 16) == 1:
            sizes.append(blocks())
        sched.context.target_of(plain("p", terminationGracePeriodSeconds=number))
    assert sizes[3] - sizes[2] <= BLOCKS

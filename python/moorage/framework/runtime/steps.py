"""Work in steps: what has to wait for others yields, and does not hold up anybody meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from moorage.framework.plugin.status import Status

T = TypeVar("T")

Steps: TypeAlias = Generator[float, None, T]
"""Yields the seconds that have to pass before its next step, and returns what came of the work."""
StatusSteps: TypeAlias = Steps[Status | None]


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """What came of work whose last step has been taken."""

    result: T


def take_step(steps: Steps[T]) -> float | Ended[T]:
    """Take one step: the seconds until the next one, or the end."""
    try:
        return next(steps)
    except StopIteration as ended:
        return Ended(ended.value)


def take_all(steps: Steps[T], wait: Callable[[float], object]) -> T:
    """Take all steps, and let time pass between them by `wait`."""
    while not isinstance(step := take_step(steps), Ended):
        wait(step)
    return step.result

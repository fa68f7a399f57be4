"""Work as generators that yield while they wait, so that one thread can interleave several."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ..plugin.status import Status

T = TypeVar("T")

Steps: TypeAlias = Generator[float, None, T]
"""A generator that yields the seconds until its next step and returns a result."""
StatusSteps: TypeAlias = Steps[Status | None]


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """The result of a generator that has ended."""

    result: T


def take_step(steps: Steps[T]) -> float | Ended[T]:
    """Run the next step of a generator.

    Parameters
    ----------
    steps : generator
        The work.

    Returns
    -------
    float or Ended
        Seconds until the step after it is due, or the result.
    """
    try:
        return next(steps)
    except StopIteration as ended:
        return Ended(ended.value)


def take_all(steps: Steps[T], wait: Callable[[float], object]) -> T:
    """Run all steps of a generator.

    Parameters
    ----------
    steps : generator
        The work.
    wait : callable
        Called with the seconds to wait between two steps.

    Returns
    -------
    object
        The result of the work.
    """
    while not isinstance(step := take_step(steps), Ended):
        wait(step)
    return step.result

"""What works on a cluster besides the scheduler, as the scheduler sees it.

It works between pods, and says when it wants to be asked again. `cluster` makes the controllers themselves.
"""

from __future__ import annotations

from typing import Any, Protocol


class Undoable(Protocol):
    """State that can be saved, and restored any number of times."""

    def save(self) -> object:
        """Return the state, for `undo`."""

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""


class ClaimControllers(Undoable, Protocol):
    """The controllers of claims, and the time that passes while they work."""

    is_instant: bool
    """Whether waiting takes no real time, so that nothing else is done meanwhile."""
    can_wait: bool
    """Whether the scheduler can let time pass."""

    def copy_from(self, other: Any) -> None:
        """Take the state of the controllers of another store, of which this one's is a clone."""

    def now(self) -> float:
        """Return the time in seconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass, and process what happens then."""

    def reach(self, when: float) -> None:
        """Record that the time is at least `when`, in seconds, and process what happens then."""

    def settle(self) -> bool:
        """Bind and release the claims that can be, and return whether anything was written."""


class WorkloadControllers(Undoable, Protocol):
    """The controllers of workloads, which create and delete pods."""

    @property
    def deletions(self) -> int:
        """Number of pods that they have deleted so far."""

    def work(self) -> bool:
        """Do one round for everything that has changed, and return whether anything was written."""

    def next_time(self) -> float:
        """Return the time in seconds at which something happens without an event; infinity for never."""

    def next_stop(self) -> float:
        """Return the time in seconds at which the next pod is gone that was deleted; infinity for never."""

    def end_back_off(self) -> bool:
        """Look in the next round at the workloads that were refused, and return whether there are any."""

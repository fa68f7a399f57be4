"""Remembered: what native plugins answered in PreFilter or PreScore, as long as it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from moorage._core.decide.terms import Terms
    from moorage.framework.plugin.cycle_state import CycleState

T = TypeVar("T")
LIMIT = 1 << 14  # targets


class Remembered(Generic[T]):
    """An answer by target.

    In PreFilter and PreScore a NativePlugin reads only `CycleState.shape`, `target` and `terms`, and what of
    the pod these stand for. So its answer is the same for equal targets and the same Terms, except that it
    may depend on whether affinity terms count any pods now (`counting`).
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[int, int, int], tuple[Terms, bool, T]] = {}

    def find(self, state: CycleState, counting: bool) -> T | None:
        """The answer for a cycle's pod, or None."""
        found = self._answers.get(state.target)
        if found is None or found[0] is not state.terms or found[1] != counting:
            return None
        return found[2]

    def keep(self, state: CycleState, counting: bool, answer: T) -> T:
        """Remember an answer, and give it back."""
        if len(self._answers) >= LIMIT:
            self._answers.clear()
        self._answers[state.target] = state.terms, counting, answer
        return answer

"""Which behaviours make a difference between two releases, found by runs with some of them switched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

MOST_TOGETHER = 4
"""The largest number of behaviours of which all combinations are tried: 11 runs, beside single ones."""

Run = Callable[[Collection[str]], Mapping[str, str]]
"""Returns what becomes of each pod where the behaviours of these names are switched."""


class Cause(NamedTuple):
    """The behaviours that make a difference.

    Attributes
    ----------
    alternatives : tuple of tuple of str
        Each one makes the difference, no smaller one does: ``(("a",), ("b",))`` is a or b alone,
        ``(("a", "b"),)`` both together.
    is_pinned : bool
        False where too many behaviours act together to try their combinations: the difference comes of
        some of the names.
    """

    alternatives: tuple[tuple[str, ...], ...]
    is_pinned: bool = True

    @property
    def text(self) -> str:
        """For a table: ``a``, ``a or b``, ``a with b``, ``some of a, b, c``."""
        if not self.is_pinned:
            return f"some of {', '.join(self.alternatives[0])}"
        return " or ".join(" with ".join(one) for one in self.alternatives)


def find_causes(run: Run, names: Sequence[str]) -> dict[str, Cause]:
    """Return which behaviours make each difference between a run with none of them switched, and with all.

    Each is first switched alone. For differences that none makes alone, those are switched back from the
    other side that can be without losing one; of what is left, all combinations are tried, small ones first.

    Parameters
    ----------
    run : callable
        Equal names give an equal answer.
    names : sequence of str
        The behaviours.

    Returns
    -------
    dict of str to Cause
        By key, sorted, each whose value is not the same in the two runs.
    """
    search = _Search(run, names)
    found = {key: alone for key in search.keys if (alone := search.makers(key, [(name,) for name in names]))}
    rest = [key for key in search.keys if key not in found]
    left = search.needed(rest) if rest else ()
    if len(left) <= MOST_TOGETHER:
        for size in range(2, len(left)):
            for key in [key for key in rest if key not in found]:
                if makers := search.makers(key, list(combinations(left, size))):
                    found[key] = makers
    is_pinned = len(left) <= MOST_TOGETHER
    return {key: Cause(found[key]) if key in found else Cause((left,), is_pinned) for key in search.keys}


class _Search:
    """The runs of a search, each once, as far as they are about keys that differ."""

    def __init__(self, run: Run, names: Sequence[str]) -> None:
        before, self.after = run(()), run(names)
        self.keys = sorted(k for k in before.keys() | self.after.keys() if before.get(k) != self.after.get(k))
        self._run, self._names = run, tuple(names)
        self._known: dict[tuple[str, ...], frozenset[str]] = {self._names: frozenset(self.keys)}

    def makers(self, key: str, tries: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        """Return the tries that make the difference of a key."""
        return tuple(one for one in tries if key in self._made(one))

    def needed(self, keys: Collection[str]) -> tuple[str, ...]:
        """Return names that together make the differences of all keys, and none of which can be left out."""
        left = self._names
        for name in self._names:
            fewer = tuple(one for one in left if one != name)
            if self._made(fewer).issuperset(keys):
                left = fewer
        return left

    def _made(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return the keys whose difference is there with these names switched."""
        if names not in self._known:
            places = self._run(names)
            made = (key for key in self.keys if places.get(key) == self.after.get(key))
            self._known[names] = frozenset(made)
        return self._known[names]

"""The behaviours and feature gates in which two releases differ, and releases with some of them switched.

The behaviours are the fields of `Release`; there is no other list of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import cleandoc
from itertools import combinations

from msgspec import Struct

from moorage.lazy import NamedTuple

from .feature_gates import OF_THE_SCHEDULER, Effect, FeatureGates, gates_of
from .release import Release

NAMES = ("version", "patch")
"""The fields that name a release. Its table of gates is found by them, so they are not switched."""


class Behaviour(Struct, frozen=True):
    """A field of `Release`, or a feature gate, that two releases do not have alike.

    Attributes
    ----------
    name : str
        The field, such as ``image_volumes``, or the gate, such as ``StorageCapacityScoring``.
    before, after : object
        The value in each release.
    text : str
        What it is, in a sentence or two; "" where Python has dropped docstrings.
    """

    name: str
    is_gate: bool
    before: object
    after: object
    text: str

    @property
    def values(self) -> tuple[str, str]:
        """The two values as text; of collections, what the other one has not."""
        return _value(self.before, self.after), _value(self.after, self.before)


def differing(before: FeatureGates, after: FeatureGates) -> list[Behaviour]:
    """Return the behaviours and gates that two sets of feature gates, each of its release, do not have alike.

    Returns
    -------
    list of Behaviour
        Fields of `Release` in their order, then gates by name. Not gates that nothing reads; nor gates that
        one release has locked and the other one no longer has, or not yet.
    """
    texts, releases = described(), (before.release, after.release)
    behaviours = [
        Behaviour(name, False, values[0], values[1], texts.get(name, ""))
        for name in Release._fields
        if name not in NAMES and len(set(values := [getattr(release, name) for release in releases])) > 1
    ]
    for name, (effect, text) in sorted(OF_THE_SCHEDULER.items()):
        gates = [gates_of(release).get(name) for release in releases]
        # Where one release lacks a gate because the other has locked it, nothing is chosen any more.
        is_settled = None in gates and any(gate is not None and gate.is_locked for gate in gates)
        if effect is Effect.BUILT and before[name] != after[name] and not is_settled:
            behaviours.append(Behaviour(name, True, before[name], after[name], text))
    return behaviours


def switched(before: FeatureGates, after: FeatureGates, names: Collection[str]) -> FeatureGates:
    """Return the gates and the release of `before`, with some behaviours as in `after`.

    Parameters
    ----------
    names : collection of str
        Names of `differing` behaviours.

    Returns
    -------
    FeatureGates
        For a `Scheduler`. A gate is switched by itself, whether or not those that it needs are on.
    """
    of_release = set(Release._fields).intersection(names)
    release = before.release._replace(**{name: getattr(after.release, name) for name in sorted(of_release)})
    gates = {name: after[name] for name in names if name not in of_release}
    return FeatureGates({**before.by_name, **gates}, release)


def described() -> dict[str, str]:
    """Return what the docstring of `Release` tells of each field.

    Returns
    -------
    dict of str to str
        Empty where Python has dropped docstrings.
    """
    text = cleandoc(Release.__doc__ or "").partition("----------\n")[2]
    paragraphs = re.findall(r"^(\w+) : \w[^\n]*\n((?: {4}[^\n]*\n?)+)", text, re.MULTILINE)
    return {name: " ".join(body.split()) for name, body in paragraphs}


def _value(value: object, other: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | frozenset) and isinstance(other, tuple | frozenset):
        return ", ".join(item for item in sorted(value) if item not in other) or "-"
    return str(value) or "-"


# ---- attribution -------------------------------------------------------------------------------------------
#
# Which behaviours make a difference between two releases, found by runs with some of them switched.

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
        return " or ".join(" with ".join(names) for names in self.alternatives)


def find_causes(run: Run, names: Sequence[str]) -> dict[str, Cause]:
    """Return which behaviours make each difference between a run with none of them switched, and with all.

    Each is first switched alone. For differences that none makes alone, those are switched back from the
    other side that can be without losing one; of what is left, all combinations are tried, small ones first.

    Parameters
    ----------
    run : callable
        Equal names give an equal answer.

    Returns
    -------
    dict of str to Cause
        By key, sorted, each whose value is not the same in the two runs.
    """
    search = _Search(run, names)
    makers_of = {
        key: alone for key in search.keys if (alone := search.makers(key, [(name,) for name in names]))
    }
    rest = [key for key in search.keys if key not in makers_of]
    left = search.needed(rest) if rest else ()
    if len(left) <= MOST_TOGETHER:
        for size in range(2, len(left)):
            for key in [key for key in rest if key not in makers_of]:
                if makers := search.makers(key, list(combinations(left, size))):
                    makers_of[key] = makers
    is_pinned = len(left) <= MOST_TOGETHER
    return {
        key: Cause(makers_of[key]) if key in makers_of else Cause((left,), is_pinned) for key in search.keys
    }


class _Search:
    """The runs of a search, each once, as far as they are about keys that differ."""

    def __init__(self, run: Run, names: Sequence[str]) -> None:
        before, self.after = run(()), run(names)
        self.keys = sorted(k for k in before.keys() | self.after.keys() if before.get(k) != self.after.get(k))
        self._run, self._names = run, tuple(names)
        self._known: dict[tuple[str, ...], frozenset[str]] = {self._names: frozenset(self.keys)}

    def makers(self, key: str, tries: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        """Return the tries that make the difference of a key."""
        return tuple(place for place in tries if key in self._keys_with(place))

    def needed(self, keys: Collection[str]) -> tuple[str, ...]:
        """Return names that together make the differences of all keys, and none of which can be left out."""
        left = self._names
        for name in self._names:
            fewer = tuple(kept for kept in left if kept != name)
            if self._keys_with(fewer).issuperset(keys):
                left = fewer
        return left

    def _keys_with(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return the keys whose difference is there with these names switched."""
        if names not in self._known:
            places = self._run(names)
            keys = (key for key in self.keys if places.get(key) == self.after.get(key))
            self._known[names] = frozenset(keys)
        return self._known[names]

"""When a row of a table holds: in some releases, and as feature gates are set."""

from __future__ import annotations

import re
from typing import NamedTuple

from .feature_gates import FeatureGates

_WORDS = re.compile(r"; (since|until|on|off) ([\w.]+)$")


class Condition(NamedTuple):
    """When something holds; always, by default.

    Attributes
    ----------
    since, until : str
        The first and the last release, for example "1.36"; "" for any.
    on, off : tuple of str
        Feature gates that are on, and that are off or that the release lacks.
    """

    since: str = ""
    until: str = ""
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    def holds(self, gates: FeatureGates) -> bool:
        """Whether it holds for a release with its gates."""
        version = gates.release.version
        is_of_release = self.since <= version and (not self.until or version <= self.until)
        is_on = all(gates.get(name, False) for name in self.on)
        return is_of_release and is_on and not any(gates.get(name, False) for name in self.off)


ALWAYS = Condition()


def split_condition(row: str) -> tuple[str, Condition]:
    """Return a row of a table without the words at its end that say when it holds, and what they say:
    ``; since 1.37``, ``; until 1.36``, ``; on GATE``, ``; off GATE``."""
    words: dict[str, list[str]] = {"since": [""], "until": [""], "on": [], "off": []}
    while (match := _WORDS.search(row)) is not None:
        row = row[: match.start()]
        words[match[1]].append(match[2])
    when = Condition(words["since"][-1], words["until"][-1], tuple(words["on"]), tuple(words["off"]))
    return row, ALWAYS if when == ALWAYS else when

"""A row of the tables of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Breaches = Iterable[tuple[object, ...]]
"""For each breach of a rule, what stands for the braces of its field and text, in order."""


class Rule(NamedTuple):
    """One rule of the API server.

    Attributes
    ----------
    kinds : str
        The kinds that follow it, with spaces.
    field : str
        The field that an error names, with braces for indexes and keys.
    breaches : callable
        Takes an object, before it gets defaults.
    text : str
        The text of the API server, with braces for values.
    """

    kinds: str
    field: str
    breaches: Callable[[Any], Breaches]
    text: str


def when(is_broken: bool, *values: object) -> Breaches:
    """Return the one breach of a rule about one field, or none."""
    return [values] if is_broken else []

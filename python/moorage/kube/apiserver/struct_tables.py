"""Tables of what holds of the fields of Kubernetes' structs: defaults, and rules."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ..releases import Condition, split_condition
from .unknown_fields import LISTS, MAPS, fields_of


class FieldLine(NamedTuple):
    """What is said of a field, and when."""

    name: str
    text: str
    when: Condition


Table = dict[str, list[FieldLine]]
QUANTITY_FORMS = ("quantity", "quantities", "milli")
"""In place of a default: the field has quantities, in their canonical form."""


def read_table(path: pathlib.Path) -> Table:
    """Return what a file says of fields, by struct.

    A line that begins at the margin names structs; the indented ones after it have a field each, a colon,
    and what is said of it; at its end, in which releases and with which gates (see `split_condition`).
    """
    table: Table = {}
    structs = list[list[FieldLine]]()
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            structs = [table.setdefault(struct, []) for struct in line.split()]
            continue
        name, _, text = line.strip().partition(": ")
        for lines in structs:
            lines.append(FieldLine(name, *split_condition(text)))
    return table


@cache
def default_lines() -> Table:
    """Return the defaults of Kubernetes' versions, as JSON texts or one of `QUANTITY_FORMS`."""
    return read_table(pathlib.Path(__file__).with_name("version_defaults.txt"))


_open: set[str] = set()


def planned_parts(struct: str, plan: Callable[[str], tuple[Any, ...]]) -> tuple[tuple[str, str, str], ...]:
    """Return the fields whose structs, or one in these, something is said of.

    Parameters
    ----------
    plan : callable
        Returns what is said of a struct; empty parts where it is nothing. Schemas, which hold themselves,
        are not asked about again.

    Returns
    -------
    tuple of (str, str, str)
        The field, its struct, and `LISTS`, `MAPS` or "".
    """
    parts = []
    for name, target in fields_of(struct).items():
        form = target[-2:] if target.endswith((LISTS, MAPS)) else ""
        held = target.removesuffix(form)
        if not held or held in _open:
            continue
        _open.add(held)
        try:
            if any(plan(held)):
                parts.append((name, held, form))
        finally:
            _open.discard(held)
    return tuple(parts)

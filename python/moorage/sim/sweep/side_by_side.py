"""The means of a sweep as readers compare them: side by side, and series of one name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

KEYS = ("configuration", "timeline", "change")
MEMBERS = 3
"""Numbers that a name needs to be a series."""
Mean = Mapping[str, Any]
"""One of ``means`` of ``sweep.moorage.dev/v1``."""


def with_error(mean: Mean) -> str:
    """Return a mean with its margin, both to the first digit of the margin, or the second after a 1."""
    value, margin = mean["mean"], mean.get("margin", 0.0)
    if not margin or not math.isfinite(margin):
        return f"{value:.5g}"
    first = int(f"{margin:.0e}"[0])
    digits = (1 if first == 1 else 0) - math.floor(math.log10(float(f"{margin:.0e}")))
    places = max(0, digits)
    return f"{round(value, digits):.{places}f} ± {round(margin, digits):.{places}f}"


def series_of(names: Iterable[str]) -> dict[str, dict[float, str]]:
    """Return the measures that are one measure at several numbers, as ``gpu_allocation_at_10`` to
    ``gpu_allocation_at_130``: by name, the measure of each number, in ascending order."""
    found: dict[str, dict[float, str]] = {}
    for name in names:
        if match := re.fullmatch(r"(.+?)(?:_at)?_(\d+)", name):
            found.setdefault(match[1], {})[float(match[2])] = name
    return {name: dict(sorted(parts.items())) for name, parts in found.items() if len(parts) >= MEMBERS}


def drawn_measures(means: Sequence[Mean]) -> tuple[list[str], bool]:
    """Return the measures that differ between configurations, or of one configuration between its timelines
    and changes; or where there are none, those that differ between replays, or all.

    Returns
    -------
    names : list of str
    differ : bool
        Whether there are any of the first kind.
    """
    spreads: dict[str, dict[tuple[str, ...], set[tuple[float, ...]]]] = {}
    several = len({one["configuration"] for one in means}) > 1
    for one in means:
        beside = tuple(one[key] for key in KEYS[1:]) if several else ()
        spread = (one["mean"], one["least"], one["greatest"], one.get("margin", 0.0))
        spreads.setdefault(one["measure"], {}).setdefault(beside, set()).add(spread)
    varied = [name for name, groups in spreads.items() if any(len(found) > 1 for found in groups.values())]
    unsteady = {one["measure"] for one in means if one["least"] != one["greatest"]}
    return varied or [name for name in spreads if name in unsteady] or list(spreads), bool(varied)


def side_by_side(means: Sequence[Mean]) -> tuple[list[str], list[str], list[list[str]]]:
    """Return a table with a row for each measure, a column for each configuration, and columns of timelines
    and changes where there are several. With one configuration, the changes or else the timelines have the
    columns.

    Returns
    -------
    keys, names : list of str
        Headings of what a row is about, and of the columns of means.
    rows : list of list of str
    """
    values = {key: list(dict.fromkeys(one[key] for one in means)) for key in KEYS}
    several = [key for key in ("configuration", "change", "timeline") if len(values[key]) > 1]
    across, down = (several or ["configuration"])[0], several[1:]
    keys = ["measure", *(key for key in KEYS if key in down)]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for one in means:
        cells.setdefault(tuple(one[key] for key in keys), {})[one[across]] = with_error(one)
    names = values[across]
    return keys, names, [[*key, *(row.get(name, "") for name in names)] for key, row in cells.items()]

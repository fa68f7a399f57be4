"""SweepResult: the measures of all cells of a sweep, their means over seeds, and the means side by side."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType

from moorage.document import Document
from moorage.errors import InputError, nearest
from moorage.grouped import grouped
from moorage.lazy import NamedTuple
from moorage.table import Table, Tabular, rows_of

from .sweep_file import Cell

# Quantiles 0.975 of Student's t distribution for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of
# Statistical Methods, 1.3.6.7.2), and of the normal distribution for more.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_975 = 1.960


class SampledMean(NamedTuple):
    """A mean over runs, and how certain it is.

    Attributes
    ----------
    margin : float
        Half the width of the 95 % confidence interval of the mean; NaN for one run.
    """

    runs: int
    mean: float
    least: float
    greatest: float
    margin: float


def spread(values: Sequence[float]) -> SampledMean:
    """Return the mean of values of independent runs with its 95 % confidence interval.

    Parameters
    ----------
    values : sequence of float
        At least one.

    Returns
    -------
    SampledMean
        The interval is the one of Student's t distribution.
    """
    array = np.asarray(values, dtype=np.float64)
    runs = len(array)
    margin = math.nan
    if runs > 1:
        quantile = T_975[runs - 2] if runs - 2 < len(T_975) else NORMAL_975
        margin = quantile * float(array.std(ddof=1)) / math.sqrt(runs)
    return SampledMean(runs, float(array.mean()), float(array.min()), float(array.max()), margin)


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
    series: dict[str, dict[float, str]] = {}
    for name in names:
        if match := re.fullmatch(r"(.+?)(?:_at)?_(\d+)", name):
            series.setdefault(match[1], {})[float(match[2])] = name
    return {name: dict(sorted(parts.items())) for name, parts in series.items() if len(parts) >= MEMBERS}


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
    several = len({mean["configuration"] for mean in means}) > 1
    for mean in means:
        beside = tuple(mean[key] for key in KEYS[1:]) if several else ()
        spread = (mean["mean"], mean["least"], mean["greatest"], mean.get("margin", 0.0))
        spreads.setdefault(mean["measure"], {}).setdefault(beside, set()).add(spread)
    varied = [name for name, groups in spreads.items() if any(len(values) > 1 for values in groups.values())]
    unsteady = {mean["measure"] for mean in means if mean["least"] != mean["greatest"]}
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
    values = {key: list(dict.fromkeys(mean[key] for mean in means)) for key in KEYS}
    several = [key for key in ("configuration", "change", "timeline") if len(values[key]) > 1]
    across, down = (several or ["configuration"])[0], several[1:]
    keys = ["measure", *(key for key in KEYS if key in down)]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for mean in means:
        cells.setdefault(tuple(mean[key] for key in keys), {})[mean[across]] = with_error(mean)
    names = values[across]
    return keys, names, [[*key, *(row.get(name, "") for name in names)] for key, row in cells.items()]


Group = tuple[str, str, str]


class SampledMeasure(Document, frozen=True, kw_only=True):
    """The mean of a measure over seeds."""

    configuration: str
    timeline: str
    change: str
    measure: str
    runs: int
    """The number of seeds."""
    mean: float
    least: float
    greatest: float
    margin: float | UnsetType = UNSET
    """Half the width of the 95 % confidence interval of the mean; missing for one run."""


class MeasuredReplay(Document, frozen=True):
    """The measures of a replay."""

    configuration: str
    timeline: str
    change: str
    seed: int
    measures: dict[str, float]


class SweepDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage sweep``."""

    api_version: Literal["sweep.moorage.dev/v1"] = "sweep.moorage.dev/v1"
    kind: Literal["SweepResult"] = "SweepResult"
    means: list[SampledMeasure]
    """One entry for each combination of configuration, timeline and change, and each measure."""
    runs: list[MeasuredReplay]
    """One entry for each replay."""


class SweepResult(Tabular):
    """What a sweep has measured.

    Parameters
    ----------
    results : sequence of dict of str to float
        The measures of each cell, each in its own unit.

    Attributes
    ----------
    measures : list of str
        Their names, in the order in which cells have them; those of a series by their numbers.
    """

    def __init__(self, cells: Sequence[Cell], results: Sequence[Mapping[str, float]]) -> None:
        self._cells, self._results = cells, results
        names = dict.fromkeys(name for result in results for name in result)
        whole = {part: [*parts.values()] for parts in series_of(names).values() for part in parts.values()}
        self.measures = list(dict.fromkeys(part for name in names for part in whole.get(name, [name])))

    def of_measures(self, wanted: Sequence[str]) -> SweepResult:
        """Return some measures alone, in this order; ``gpu_allocation`` stands for all of
        ``gpu_allocation_at_10``, ``gpu_allocation_at_20`` and so on.

        Raises
        ------
        InputError
            No replay has a measure.
        """
        series, names = series_of(self.measures), list[str]()
        for name in wanted:
            if name not in self.measures and name not in series:
                near = nearest(name, [*self.measures, *series])
                raise InputError(f'no replay has the measure "{name}"{near}')
            names += [name] if name in self.measures else series[name].values()
        results = [{name: result[name] for name in names if name in result} for result in self._results]
        return SweepResult(self._cells, results)

    def headline(self) -> str:
        """Return the size of the sweep in one line."""
        groups = len({cell.names for cell in self._cells})
        return f"{len(self._cells)} replays of {groups} combinations, {len(self.measures)} measures"

    def table(self, limit: int | None = None) -> Table:
        """Return the means over seeds, one row for each combination and measure.

        Returns
        -------
        Table
            Columns configuration, timeline, change, measure, runs, mean, margin (half the width of the 95 %
            confidence interval, NaN for one run), least, greatest.
        """
        rows = [
            (*names, measure, *mean)
            for names, part in self.spreads().items()
            for measure, mean in part.items()
        ][:limit]
        columns: dict[str, Any] = {
            name: [row[at] for row in rows] for at, name in enumerate((*KEYS, "measure"))
        }
        for at, name in enumerate(SampledMean._fields, start=4):
            kind = np.int64 if name == "runs" else np.float64
            columns[name] = np.array([row[at] for row in rows], dtype=kind)
        return Table(columns)

    def runs(self) -> Table:
        """Return the measures of each cell.

        Returns
        -------
        Table
            Columns configuration, timeline, change, seed, and one for each measure (NaN if a cell has none).
        """
        columns: dict[str, Any] = {
            name: [cell.names[at] for cell in self._cells] for at, name in enumerate(KEYS)
        }
        columns["seed"] = np.array([cell.seed for cell in self._cells], dtype=np.int64)
        for name in self.measures:
            columns[name] = np.array([result.get(name, np.nan) for result in self._results])
        return Table(columns)

    def spreads(self) -> dict[Group, dict[str, SampledMean]]:
        """Return the spread over seeds of each measure, by configuration, timeline and change."""
        pairs = zip(self._cells, self._results, strict=True)
        groups = grouped((cell.names, result) for cell, result in pairs)
        return {
            names: {
                measure: spread(values)
                for measure in self.measures
                if (values := [result[measure] for result in results if measure in result])
            }
            for names, results in groups.items()
        }

    def document(self) -> SweepDocument:
        """Return the answer of ``moorage sweep``."""
        means = [
            SampledMeasure(**{name: value for name, value in row.items() if value == value})
            for row in rows_of(self.table())
        ]  # NaN is no JSON
        runs = [
            MeasuredReplay(*cell.names, cell.seed, dict(sorted(result.items())))
            for cell, result in zip(self._cells, self._results, strict=True)
        ]
        return SweepDocument(means=means, runs=runs)

    def to_dict(self) -> dict[str, Any]:
        """Return the document as a JSON value."""
        return self.document().to_dict()

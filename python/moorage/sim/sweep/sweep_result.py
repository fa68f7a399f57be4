"""SweepResult: the measures of all cells, and their means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from moorage.errors import InputError, nearest
from moorage.table import Table, Tabular, rows_of

from .confidence import Spread, spread
from .side_by_side import KEYS, series_of
from .sweep_file import Cell

Group = tuple[str, str, str]


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
        results = [{name: one[name] for name in names if name in one} for one in self._results]
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
            (*names, measure, *found)
            for names, part in self.spreads().items()
            for measure, found in part.items()
        ][:limit]
        columns: dict[str, Any] = {
            name: [row[at] for row in rows] for at, name in enumerate((*KEYS, "measure"))
        }
        for at, name in enumerate(Spread._fields, start=4):
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

    def spreads(self) -> dict[Group, dict[str, Spread]]:
        """Return the spread over seeds of each measure, by configuration, timeline and change."""
        groups: dict[Group, list[Mapping[str, float]]] = {}
        for cell, result in zip(self._cells, self._results, strict=True):
            groups.setdefault(cell.names, []).append(result)
        return {
            names: {
                measure: spread(values)
                for measure in self.measures
                if (values := [result[measure] for result in results if measure in result])
            }
            for names, results in groups.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return means and runs as a JSON value."""
        runs = [
            dict(zip(KEYS, cell.names, strict=True))
            | {"seed": cell.seed, "measures": dict(sorted(result.items()))}
            for cell, result in zip(self._cells, self._results, strict=True)
        ]
        means = [
            {name: value for name, value in row.items() if value == value} for row in rows_of(self.table())
        ]  # NaN is no JSON
        return {"means": means, "runs": runs}

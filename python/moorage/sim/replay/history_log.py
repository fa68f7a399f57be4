"""HistoryLog: columns that only grow, and go to a file when they are long."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SPILL_ROWS = 1 << 20
"""Rows of a log that are kept in memory."""


class HistoryLog:
    """Columns of one length.

    Parameters
    ----------
    name : str
        Beginning of the names of its files.
    kinds : mapping of str to str
        Type code of the array by column: ``d`` float64, ``i`` int32, ``b`` int8.

    Attributes
    ----------
    columns : dict of str to array
        The rows that are not in files; a writer appends to each.
    """

    def __init__(self, name: str, kinds: Mapping[str, str]) -> None:
        self.columns: dict[str, array[Any]] = {column: array(code) for column, code in kinds.items()}
        self._name = name
        self._files: dict[str, Path] = {}

    def spill(self, folder: Path, least: int = SPILL_ROWS) -> None:
        """Move the rows in memory to files, if there are enough of them.

        Parameters
        ----------
        least : int, optional
            Rows.
        """
        if len(next(iter(self.columns.values()))) < least:
            return
        for column, values in self.columns.items():
            path = self._files.setdefault(column, folder / f"{self._name}.{column}")
            with path.open("ab") as file:
                values.tofile(file)
            del values[:]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all rows of each column. Columns in files are mapped, not read.

        Returns
        -------
        dict of str to (n,) array
        """
        if self._files:
            self.spill(next(iter(self._files.values())).parent, 1)
            return {
                column: np.memmap(path, self.columns[column].typecode, "r")
                for column, path in self._files.items()
            }
        return {column: np.array(values, values.typecode) for column, values in self.columns.items()}

"""Linear programs, solved by HiGHS (extra ``lp``)."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage.errors import MoorageError, missing

SOLVER = (sys.executable, "-I", str(Path(__file__).with_name("highs_process.py")))
"""The command of the process that calls HiGHS."""
Floats = npt.NDArray[np.float64]


def is_installed() -> bool:
    """Whether HiGHS is installed."""
    return find_spec("highspy") is not None


class Rows(Struct, frozen=True):
    """Sparse constraints: the sum of value times variable over the entries of a row is between its bounds.

    Attributes
    ----------
    lower, upper : (rows,) float64 array
    row, column, value : (entries,) arrays
    """

    lower: Floats
    upper: Floats
    row: npt.NDArray[np.intp]
    column: npt.NDArray[np.intp]
    value: Floats

    @classmethod
    def of(
        cls, lower: Sequence[float], upper: Sequence[float], entries: Sequence[tuple[int, int, float]]
    ) -> Self:
        """Return the constraints with these entries, each a row, a column and a value."""
        row, column, value = np.array(entries, dtype=np.float64).reshape(-1, 3).T
        return cls(np.array(lower), np.array(upper), row.astype(np.intp), column.astype(np.intp), value)


class Solution(Struct, frozen=True):
    """An optimum.

    Attributes
    ----------
    values : (variables,) float64 array
    prices : (rows,) float64 array
        Dual price of each row: how much the objective grows with its bound.
    """

    objective: float
    values: Floats
    prices: Floats


def solve(costs: Floats, upper: Floats, rows: Rows, maximize: bool = True) -> Solution | None:
    """Solve a linear program over variables from 0 on. Equal input gives an equal solution.

    Parameters
    ----------
    costs : (variables,) float64 array
        Coefficients of the objective.
    upper : (variables,) float64 array
        Upper bounds of the variables.
    maximize : bool, optional
        Whether the largest objective is sought, not the smallest.

    Returns
    -------
    Solution or None
        None where no values satisfy the rows.

    Raises
    ------
    MoorageError
        HiGHS is not installed, or ends without an answer.
    """
    if not is_installed():
        raise MoorageError(missing("highspy", "lp"))
    if not len(costs):
        empty = np.zeros(0)
        return Solution(0.0, empty, np.zeros(len(rows.lower))) if (rows.lower <= 0).all() else None
    order = np.lexsort((rows.row, rows.column))
    start = np.zeros(len(costs) + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows.column, minlength=len(costs)), out=start[1:])
    answer = _ask_solver(
        maximize=maximize,
        col_cost=costs,
        col_lower=np.zeros(len(costs)),
        col_upper=upper,
        row_lower=rows.lower,
        row_upper=rows.upper,
        start=start,
        index=rows.row[order].astype(np.int32),
        value=rows.value[order],
    )
    if answer is None:
        return None
    if isinstance(answer, str):
        raise MoorageError(f"HiGHS: {answer}")
    objective, values, prices = answer
    return Solution(objective, np.array(values), np.array(prices))


def _ask_solver(**program: Any) -> Any:
    """Return the answer of `highs_process`, in a process of its own, which finds the modules that we find."""
    question = pickle.dumps(sys.path) + pickle.dumps(program)
    done = subprocess.run(SOLVER, input=question, capture_output=True, check=False)
    if done.returncode:
        *_, last = done.stderr.decode(errors="replace").splitlines() or [f"exit {done.returncode}"]
        raise MoorageError(f"HiGHS: {last}")
    return pickle.loads(done.stdout)

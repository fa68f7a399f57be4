"""Linear programs, solved by HiGHS (extra ``lp``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from moorage.errors import MoorageError

MISSING = "the extra lp is missing: pip install 'moorage[lp]'"
Floats = npt.NDArray[np.float64]


def is_installed() -> bool:
    """Whether HiGHS is installed."""
    return find_spec("highspy") is not None


@dataclass(frozen=True, slots=True)
class Rows:
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


@dataclass(frozen=True, slots=True)
class Solution:
    """An optimum.

    Attributes
    ----------
    objective : float
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
        raise MoorageError(MISSING)
    import highspy

    if not len(costs):
        empty = np.zeros(0)
        return Solution(0.0, empty, np.zeros(len(rows.lower))) if (rows.lower <= 0).all() else None
    solver: Any = cast(Any, highspy).Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("solver", "simplex"), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    solver.passModel(_model(highspy, costs, upper, rows, maximize))
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise MoorageError(f"HiGHS: {solver.modelStatusToString(status)}")
    found = solver.getSolution()
    objective = float(solver.getInfo().objective_function_value)
    return Solution(objective, np.array(found.col_value), np.array(found.row_dual))


def _model(highspy: Any, costs: Floats, upper: Floats, rows: Rows, maximize: bool) -> Any:
    """Return the program as HiGHS takes it, its matrix by columns."""
    order = np.lexsort((rows.row, rows.column))
    starts = np.zeros(len(costs) + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows.column, minlength=len(costs)), out=starts[1:])
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(costs), len(rows.lower)
    model.sense_ = highspy.ObjSense.kMaximize if maximize else highspy.ObjSense.kMinimize
    model.col_cost_, model.col_lower_, model.col_upper_ = costs, np.zeros(len(costs)), upper
    model.row_lower_, model.row_upper_ = rows.lower, rows.upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = starts
    model.a_matrix_.index_ = rows.row[order].astype(np.int32)
    model.a_matrix_.value_ = rows.value[order]
    return model

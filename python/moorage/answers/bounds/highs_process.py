"""Solves one linear program by HiGHS: the program of a process that `linear_program` starts.

Versions of HiGHS print on the standard output whatever their options say, and all threads of a process share
it. Here nothing else is written there. Stdin has two pickles: the path of modules of the caller, and the
arguments of `solve`. Stdout gets one with its answer. Nothing of moorage is imported, as that would take
longer than most programs do.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from typing import Any, cast

SET_PARENT_DEATH_SIGNAL = 1
"""Of prctl(2)."""


def main() -> None:
    """Read a program from stdin, and answer on what stdout was."""
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.path[:] = pickle.load(sys.stdin.buffer)
    with answer:
        pickle.dump(solve(**pickle.load(sys.stdin.buffer)), answer)


def solve(maximize: bool, **columns: Any) -> Any:
    """Return None where no values satisfy the rows, a text where HiGHS ends without an optimum, otherwise the
    objective, the values of the variables, and the dual prices of the rows.

    Parameters
    ----------
    columns : dict
        Arrays by their names in HighsLp, without the underscore at the end. The matrix, by columns, has
        ``start``, ``index`` and ``value``.
    """
    import highspy

    solver = cast(Any, highspy).Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("solver", "simplex"), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    program = cast(Any, highspy).HighsLp()
    program.num_col_, program.num_row_ = len(columns["col_cost"]), len(columns["row_lower"])
    program.sense_ = highspy.ObjSense.kMaximize if maximize else highspy.ObjSense.kMinimize
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    for name, array in columns.items():
        setattr(program.a_matrix_ if name in ("start", "index", "value") else program, f"{name}_", array)
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        return solver.modelStatusToString(status)
    solution = solver.getSolution()
    objective = float(solver.getInfo().objective_function_value)
    return objective, list(solution.col_value), list(solution.row_dual)


if __name__ == "__main__":
    main()

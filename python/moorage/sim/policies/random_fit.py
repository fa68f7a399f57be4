"""RandomFit: any feasible node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import RowPlugin, Rows, Scores

from .undoable_random import UndoableRandom


class RandomFit(RowPlugin, fwk.ScorePlugin):
    """Scores 100 for one feasible node, each with the same probability, and 0 for the others.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``seed``: of the random numbers.
    """

    name = "RandomFit"
    default_weight = 1
    default_args = {"seed": 0}

    def __init__(
        self, args: Mapping[str, Any] | None = None, handle: fwk.FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        self._random = UndoableRandom(self.args["seed"])

    def clone(self) -> RandomFit:
        """Return a plugin that goes on with the same random numbers."""
        other = RandomFit(self.args)
        other._random.copy_from(self._random)
        return other

    def score_rows(self, rows: Rows) -> Scores:
        scores = np.zeros(len(rows), dtype=np.int64)
        scores[self._random.draw(len(rows), self.journal)] = fwk.MAX_NODE_SCORE
        return scores

"""RandomFit: any feasible node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod


class RandomFit(fwk.ScorePlugin):
    """Scores 100 for one feasible node, each with the same probability, and 0 for the others.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``seed``: of the random numbers.
    handle : FrameworkHandle, optional
    """

    name = "RandomFit"
    default_weight = 1
    default_args = {"seed": 0}

    def __init__(
        self, args: Mapping[str, Any] | None = None, handle: fwk.FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        self._random = np.random.default_rng(self.args["seed"])

    def save(self) -> object:
        """Return the state of the random numbers, for `undo`."""
        return self._random.bit_generator.state

    def undo(self, saved: Any) -> None:
        """Restore the random numbers.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        self._random.bit_generator.state = saved

    def clone(self) -> RandomFit:
        """Return a plugin that goes on with the same random numbers."""
        other = RandomFit(self.args)
        other.undo(self.save())
        return other

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        scores = np.zeros(len(nodes), dtype=np.int64)
        scores[self._random.integers(len(nodes))] = fwk.MAX_NODE_SCORE
        return scores

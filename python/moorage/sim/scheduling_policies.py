"""Scheduling policies of the literature, as plugins, by the names that a configuration uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.engine import framework as fwk
from moorage.engine.framework import Registry
from moorage.engine.framework.out_of_tree_plugins import RowPlugin, Rows, Scores
from moorage.errors import InputError

from .gpu_policies import FGD, GpuClustering, GpuPacking, GpuShare, UndoableRandom

__all__ = ["policies"]


Fractions = npt.NDArray[np.float64]


class CapacityScore(RowPlugin, fwk.ScorePlugin):
    """A score by free capacity.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``resources``: mapping of resource name to the capacity that counts as 1, in millicores for cpu, in
        bytes or units for others.
    """

    default_args = {"resources": {"cpu": 128_000, "memory": 1 << 40}}
    default_weight = 1

    def __init__(
        self, args: Mapping[str, Any] | None = None, handle: fwk.FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        if unknown := self.args.keys() - self.default_args.keys():
            raise InputError(f'plugin "{self.name}": unknown argument {min(unknown)}')
        self._resources: dict[str, float] = dict(self.args["resources"])
        for name, capacity in self._resources.items():
            if not capacity > 0:
                raise InputError(f'plugin "{self.name}": resources: {name}: {capacity} is not above 0')

    def free(self, rows: Rows) -> Fractions:
        """Return the free capacity of nodes, as a (resources, n) array of fractions."""
        nodes = self.nodes(rows)
        allocatable, requested = nodes.allocatable, nodes.requested
        return np.array([(allocatable[r] - requested[r]) / most for r, most in self._resources.items()])

    def request(self) -> Fractions:
        """Return the requests of the pod, as a (resources, 1) array of fractions."""
        cpu, memory = self.shape.requests
        requests = {"cpu": cpu, "memory": memory, **self.shape.other_requests}
        return np.array([[requests.get(name, 0) / most] for name, most in self._resources.items()])


class BestFit(CapacityScore):
    """Scores 100 for a node that the pod fills, less for what is left, and scales scores to 0 to 100.

    What is left is the mean over resources, each as a fraction of the largest node's (Weng et al., USENIX ATC
    2023, baseline BestFit).
    """

    name = "BestFit"

    def score_rows(self, rows: Rows) -> Scores:
        left: Fractions = (self.free(rows) - self.request()).mean(axis=0)
        return ((1 - left) * fwk.MAX_NODE_SCORE).astype(np.int64)

    def normalize_rows(self, scores: Scores) -> Scores:
        return scaled(scores)


def scaled(scores: Scores) -> Scores:
    """Return scores scaled so that the least is 0 and the greatest 100; all 0 where they are equal."""
    least = scores.min()
    span = scores.max() - least
    return (scores - least) * fwk.MAX_NODE_SCORE // span if span else np.zeros_like(scores)


class WorstFit(CapacityScore):
    """Scores the mean of what is left over resources, and scales scores to 0 to 100."""

    name = "WorstFit"

    def score_rows(self, rows: Rows) -> Scores:
        left: Fractions = (self.free(rows) - self.request()).mean(axis=0)
        return (left * fwk.MAX_NODE_SCORE).astype(np.int64)

    def normalize_rows(self, scores: Scores) -> Scores:
        return scaled(scores)


class DotProduct(CapacityScore):
    """Scores 100 times 1 less the mean over resources of free capacity times request.

    This is the baseline DotProd of Weng et al. (USENIX ATC 2023), which prefers full nodes; `Tetris` has the
    score of the publication by which it is named.
    """

    name = "DotProduct"

    def score_rows(self, rows: Rows) -> Scores:
        products: Fractions = (self.free(rows) * self.request()).mean(axis=0)
        return ((1 - products) * fwk.MAX_NODE_SCORE).astype(np.int64)


class Tetris(CapacityScore):
    """Scores the dot product of free capacity and requests (Grandl et al., SIGCOMM 2014, section 3.2).

    Scores are scaled to 0 to 100.
    """

    name = "Tetris"

    def score_rows(self, rows: Rows) -> Scores:
        products: Fractions = (self.free(rows) * self.request()).sum(axis=0)
        return (products * PRECISION).astype(np.int64)

    def normalize_rows(self, scores: Scores) -> Scores:
        return scaled(scores)


PRECISION = 1_000_000  # scores are integers


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


PLUGINS = (
    BestFit,
    DotProduct,
    FGD,
    GpuClustering,
    GpuPacking,
    GpuShare,
    RandomFit,
    Tetris,
    WorstFit,
)


def policies() -> Registry:
    """Return the policies as a registry, for ``Scheduler(registry=…)``."""
    return Registry({plugin.name: plugin for plugin in PLUGINS})

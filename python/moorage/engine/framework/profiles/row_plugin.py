"""RowPlugin: a plugin in Python that the core's loop asks about rows of the node table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from moorage._core.base.buffers import Journal
from moorage._core.decide.external import PythonExternal
from moorage._core.state.pod_class import Shape
from moorage.kube import Pod

from ..plugin.interface import MAX_NODE_SCORE, FilterPlugin, ScorePlugin
from ..plugin.lazy_attribute import lazy_attribute
from ..plugin.nodes_view import NodesView
from ..plugin.status import Status, error_status
from ..runtime.call import StatusError, answer_of
from ..runtime.scoring import NORMALIZE_ERROR, SCORE_ERROR, check_range
from .in_core import NativePlugin

Rows = npt.NDArray[np.int32]
Scores = npt.NDArray[np.int64]
SUCCESS, UNSCHEDULABLE = 0, 2
NO_SCORES = np.zeros(0, dtype=np.int64)


class RowPlugin(NativePlugin):
    """A plugin whose answers depend on the class of the pod, on the nodes and on what it has noted of them.

    The core places pods of its profiles in one loop and calls these methods with arrays of rows, without a
    cycle state. What a plugin notes of pods on nodes it derives from the cluster in `begin` and `follow`, and
    changes through the journal of the cluster's state, so that a rollback undoes it.

    Attributes
    ----------
    shape : Shape
        Requests and constraints of the pods that the search is for.
    filter_reason : str
        Why the filter rejects nodes.
    """

    shape: Shape
    filter_reason: ClassVar[str] = ""

    def begin(self) -> None:
        """Prepare for a search for pods of `shape`."""

    def follow(self) -> None:
        """Follow a change of the pods on nodes. With this method the core calls it after each pod that it has
        placed, and places the pods of a group one by one."""

    def filter_rows(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether the pods fit nodes.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        (n,) bool array
        """
        raise NotImplementedError

    def score_rows(self, rows: Rows) -> Scores:
        """Return the scores of all feasible nodes.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        (n,) int64 array
        """
        raise NotImplementedError

    def normalize_rows(self, scores: Scores) -> Scores:
        """Return scores from 0 to 100; by default those of `score_rows`.

        Parameters
        ----------
        scores : (n,) int64 array

        Returns
        -------
        (n,) int64 array
        """
        return scores

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return (self.filter_reason,)

    def clone(self) -> Self:
        """Return a plugin for another scheduler."""
        return self.another()

    def nodes(self, rows: Rows) -> NodesView:
        """Return rows as columns.

        Parameters
        ----------
        rows : (n,) int32 array
        """
        nodes: NodesView = self._framework().nodes(rows)
        return nodes

    @property
    def journal(self) -> Journal:
        """The journal of the cluster's state."""
        return self.required_handle().cache.state.journal

    @lazy_attribute
    def external(self) -> PythonExternal:
        """What a plan calls."""
        filters = self._codes if isinstance(self, FilterPlugin) else None
        scores = self._scores if isinstance(self, ScorePlugin) else None
        follows = self._follow if type(self).follow is not RowPlugin.follow else None
        return PythonExternal(self.name, filters, scores, self._begin, follows, self._examine)

    # ---- what the core calls -------------------------------------------------------------------------------

    _failed: Status | None = None  # the Error of `begin`

    def _begin(self, pod_class: int) -> None:
        self.shape = self.required_handle().cache.state.classes.shape_of(pod_class)
        self._failed = answer_of(self, self._pod(), self.begin)

    def _follow(self) -> None:
        answer_of(self, self._pod(), self.follow)  # an exception is told; `begin` meets it again

    def _codes(self, rows: Rows) -> npt.NDArray[np.uint8]:
        fits = self._ask(f'running "{self.name}" filter plugin', partial(self.filter_rows, rows))
        return np.where(fits, np.uint8(SUCCESS), np.uint8(UNSCHEDULABLE))

    def _scores(self, rows: Rows) -> Scores:
        return self._examine(rows)[1]

    def _examine(self, rows: Rows, known: Scores = NO_SCORES) -> tuple[Scores, Scores]:
        """The scores of rows before and after normalization; the raw scores of the first are known."""
        new = rows[len(known) :]
        raw: Scores = self._ask(SCORE_ERROR.format(self.name), partial(self.score_rows, new))
        if len(known):
            raw = np.concatenate([known, raw])
        scores: Scores = self._ask(NORMALIZE_ERROR.format(self.name), partial(self.normalize_rows, raw))
        if len(scores) and scores.view(np.uint64).max() > MAX_NODE_SCORE:  # negative ones are large
            check_range({self.name: scores})
        return raw, scores

    def _pod(self) -> Pod | None:
        """The pod of the search; None in the loop of the core, which knows the class alone."""
        framework = self._framework()
        return None if framework.decider.search.is_placing else framework.pod

    def _ask(self, text: str, function: Callable[[], Any]) -> Any:
        """Call a method; StatusError where it or `begin` raised."""
        answer = self._failed or answer_of(self, self._pod(), function)
        if isinstance(answer, Status):
            raise StatusError(error_status(text, answer, self.name))
        return answer

"""The verdicts of the filters of a profile on every node, each independent of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moorage.framework.plugin.status import Status


@dataclass(frozen=True, slots=True)
class FilterVerdicts:
    """The verdict of one filter on every node, independent of the other filters.

    Attributes
    ----------
    plugin : str
        Name of the filter.
    codes : (nodes,) int array
        In list order: 0 where the node passes, otherwise an index into `statuses`.
    statuses : list of Status or None
        The first is None, for nodes that pass.
    """

    plugin: str
    codes: npt.NDArray[np.intp]
    statuses: list[Status | None]

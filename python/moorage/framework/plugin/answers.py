"""What the vectorised form of Filter answers about several nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .status import Code, Status

FILTER_CODES = (Code.SUCCESS, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One of a few statuses for each node.

    Attributes
    ----------
    numbers : (nodes,) array of integers
        Per node the place of its status in `statuses`.
    statuses : sequence of Status or None
        None where the pod fits; a rejection; or anything else, which fails the cycle of the pod with an Error
        where some node has it.
    """

    numbers: npt.NDArray[np.integer[Any]]
    statuses: Sequence[Status | None]


def read_answers(
    name: str, answer: npt.ArrayLike | Answers, nodes: int, verdict: Callable[[int], Status | None]
) -> Answers:
    """Check and unify what `filter_all` of a plugin returned.

    Parameters
    ----------
    name : str
        The plugin's.
    answer : (nodes,) array of bool or int, or Answers
    nodes : int
    verdict : callable
        The status of a code; called where the plugin gave booleans or codes.

    Returns
    -------
    Answers

    Raises
    ------
    ValueError
        For another shape, or for other values.
    """
    given = np.asarray(answer.numbers if isinstance(answer, Answers) else answer)
    if given.shape != (nodes,):
        raise ValueError(f'filter_all of plugin "{name}" answered shape {given.shape} for {nodes} nodes')
    if isinstance(answer, Answers):
        known = given.dtype.kind in "iu" and int(given.max(initial=0)) < len(answer.statuses)
        if not known or (given.dtype.kind == "i" and given.min(initial=0) < 0):
            raise ValueError(f'filter_all of plugin "{name}" answered numbers of no status')
        return Answers(given, answer.statuses)
    if given.dtype == bool:
        rejections = () if given.all() else (verdict(Code.UNSCHEDULABLE),)
        return Answers((~given).view(np.uint8), (None, *rejections))
    if given.dtype.kind not in "iu" or not np.isin(given, FILTER_CODES).all():
        raise ValueError(f'filter_all of plugin "{name}" answered neither booleans nor codes of Filter')
    there = np.flatnonzero(np.bincount(given, minlength=1)).tolist()
    return Answers(np.searchsorted(there, given), [verdict(code) for code in there])

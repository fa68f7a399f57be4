"""The work of an evaluation beyond what CEL's cost counts: elements visited, characters made.

CEL's cost of some calls does not depend on the size of what they make or visit: lists that are doubled,
nested lists that are compared, texts that are replaced by longer ones. Their work is limited, too, so that
every evaluation ends soon. The limit is far above what other expressions within the cost limit need.
"""

from __future__ import annotations

from threading import local

from .cel_errors import CostError

COST_LIMIT = 1_000_000
LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
MAX_WORK = 1_000_000
LONG_LIST = 10_000
"""Elements of a list from which on its making counts: shorter ones are made by macros, element by element."""


class _Work(local):
    done = 0


_work = _Work()


def begin_work() -> None:
    """Begin to count for a new evaluation in this thread."""
    _work.done = 0


def count_work(amount: int) -> None:
    """Count elements or characters.

    Raises
    ------
    CostError
        There are more than 1,000,000 in this evaluation.
    """
    _work.done += amount
    if _work.done > MAX_WORK:
        raise CostError(LIMIT_EXCEEDED)

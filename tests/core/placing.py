"""Placing pods by their classes, as the tests of the core want it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tests.core.make import pod_of
from tests.doors.engine import ClusterState, LedgerSink, Placements, Placer, PodBatch

from moorage.kube import Pod

Ints = npt.NDArray[np.int32]


def place_run(  # noqa: PLR0913
    placer: Placer,
    pod_class: int,
    n: int,
    node_name: int = 0,
    pinned: int = 0,
    *,
    stops: bool = False,
    enter: Callable[[Ints], object] | None = None,
) -> Ints:
    """Rows of up to `n` pods of one class, up to the first that fits nowhere; with `stops` nothing is as if
    that one had been looked at. `enter` is called with the rows."""
    tries = placer.tries(n)
    state = placer.search.state
    pods = [pod_of(state, pod_class, pinned, node_name)] * tries
    out, batch = Placements(state, tries), PodBatch(state, pods)
    placer.place(batch, out, on_unschedulable=lambda at: None if stops else "full")
    rows = out.rows
    placed = tries if (rows >= 0).all() else int(np.argmin(rows >= 0))
    if placed < tries and not (stops or placer.decider.failed):
        placer.skip(n - tries)
    if enter is not None:
        enter(rows[:placed])
    return rows[:placed]


def enter(state: ClusterState, pods: Sequence[Pod], rows: Ints) -> None:
    """Enter pods that were accounted for on rows, as many as there are rows for, in the ledger."""
    out = Placements(state, len(rows))
    out.rows[:] = rows
    LedgerSink().enter(PodBatch(state, pods[: len(rows)]), out, 0, len(rows))

"""Runs one cell of a sweep."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from moorage.errors import InputError
from moorage.kube import Pod

from ..measures import evaluate
from ..policies import policies
from ..policies.typical_pods import typical_pods
from ..replay import History, replay
from ..timeline import Timeline, Verb
from ..timeline.scenario import add_events
from .sweep_file import Cell, with_placeholders


def read_timeline(cell: Cell) -> Timeline:
    """Read the timeline of a cell, without its change."""
    source = cell.timeline
    options = with_placeholders(source.options, {"$seed": cell.seed})
    return Timeline.read(*source.files, format=source.format, **options)


def run_cell(cell: Cell, timeline: Timeline | None = None, history: str = "") -> dict[str, float]:
    """Replay a cell and measure it.

    Parameters
    ----------
    timeline : Timeline, optional
        The timeline without the change, where it has been read already; it is not changed.
    history : str, optional
        Where to write the decisions and pods of the history, as a file of numpy arrays (.npz).

    Returns
    -------
    dict of str to float
        The measures by name.

    Raises
    ------
    InputError
        The timeline, the configuration or a measure is wrong; names the cell.
    """
    label = "/".join((*cell.names, str(cell.seed)))
    with _of_cell(f"cell {label}"):
        one = read_timeline(cell) if timeline is None else timeline
        if cell.change:
            one = one if timeline is None else copy.deepcopy(one)
            add_events(one, cell.change)
        if not one.may_have_nodes:
            raise InputError("The timeline has no node, so no pod can have one")
        found = _replayed(cell, one)
        if history:
            columns = {f"pod_{name}": column for name, column in found.pod_columns.items()}
            np.savez_compressed(history, allow_pickle=False, **found.columns, **columns)
        out: dict[str, float] = {}
        requests = with_placeholders(list(cell.measures), _placeholders(cell))
        for measured in evaluate(found, *requests).values():
            out |= measured.numbers
        return out


@contextmanager
def _of_cell(label: str) -> Iterator[None]:
    """Let errors name the cell before the object."""
    try:
        yield
    except InputError as error:
        obj = ": ".join(filter(None, (label, error.obj)))
        raise InputError(error.message, source=error.source, obj=obj, path=error.path) from None


def _replayed(cell: Cell, timeline: Timeline) -> History:
    """Replay a timeline under the configuration of a cell."""
    configuration = with_placeholders(cell.configuration, _placeholders(cell))
    options: dict[str, Any] = {"tie_break": cell.replay.tie_break, "seed": cell.seed}
    if configuration:
        options |= {"config": configuration, "registry": policies()}
    until, on_failure = cell.replay.until, cell.replay.on_failure
    return replay(timeline, until=until, on_failure=on_failure, checkpoints=0, **options)


def _placeholders(cell: Cell) -> dict[str, Any]:
    """What the placeholders in configurations and measures stand for."""
    return {"$seed": cell.seed, "$typicalPods": partial(_typical_pods, cell)}


def _typical_pods(cell: Cell) -> list[dict[str, Any]]:
    """The typical pods of the files of a timeline, read without options."""
    timeline = Timeline.read(*cell.timeline.files, format=cell.timeline.format)
    columns = timeline.columns()
    numbers = columns["argument"][columns["verb"] == Verb.CREATE]
    counts = zip(*np.unique(numbers, return_counts=True), strict=True)
    found = ((timeline.template_at(int(number)), int(count)) for number, count in counts)
    return typical_pods((one, count) for one, count in found if isinstance(one, Pod))


def history_path(folder: Path, cell: Cell) -> str:
    """Return the file of a cell's history in the folder of a sweep."""
    return str(folder / "histories" / f"{cell.key}.npz")

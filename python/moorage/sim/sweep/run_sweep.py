"""sweep: all cells of a sweep, on one machine or on many."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path
from typing import Any

from moorage.errors import InputError, located
from moorage.kube.read.files import source_name

from ..timeline import Timeline
from .executors import RayExecutor, make_executor
from .run_cell import history_path, read_timeline, run_cell
from .sweep_file import Cell, Sweep, cells_of, decode_sweep, read_sweep
from .sweep_result import SweepResult

Progress = Callable[[int, int], None]


def sweep(  # noqa: PLR0913
    grid: Sweep | Mapping[str, Any] | str | Path,
    *,
    data: Path | None = None,
    executor: str | Executor = "processes",
    workers: int | None = None,
    folder: str | Path | None = None,
    histories: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """Replay each configuration with each timeline, change and seed.

    The result of a cell is a function of its inputs alone, so the table does not depend on the executor, nor
    on whether a sweep was stopped and started again.

    Parameters
    ----------
    grid : Sweep, mapping, str or Path
        A sweep, its document, or the path of its file (`read_sweep`).
    data : Path, optional
        Folder of the files that the sweep names; by default that file's folder, or the working directory.
    executor : {"serial", "threads", "processes", "ray"} or concurrent.futures.Executor, optional
    workers : int, optional
        Threads or processes; by default one for each processor.
    folder : str or Path, optional
        Where results of cells are kept: a cell whose result is there is not run again. By default they are
        not kept.
    histories : bool, optional
        Whether the decisions and pods of each cell are kept as well, below ``histories/`` of the folder.
    progress : callable, optional
        Called with the number of cells that are done, and of all.

    Raises
    ------
    InputError
        The sweep is wrong, or a cell fails; the results of the others are kept.
    """
    base = data or (Path(grid).parent if isinstance(grid, str | Path) else Path())
    if histories and folder is None:
        raise InputError("histories need a folder")
    with located(source=source_name(str(grid)) if isinstance(grid, str | Path) else ""):
        read = read_sweep(grid) if isinstance(grid, str | Path) else grid
        cells = cells_of(read if isinstance(read, Sweep) else decode_sweep(dict(read)), base)
        kept = _Kept(None if folder is None else Path(folder), histories)
        results = {at: found for at, cell in enumerate(cells) if (found := kept.read(cell)) is not None}
        missing = [at for at in range(len(cells)) if at not in results]
        if missing:
            owned = make_executor(executor, workers) if isinstance(executor, str) else None
            runner = owned or executor
            assert isinstance(runner, Executor)
            try:
                _run(runner, cells, missing, results, kept, progress)
            finally:
                if owned is not None:
                    owned.shutdown(cancel_futures=True)
    return SweepResult(cells, [results[at] for at in range(len(cells))])


def _run(
    runner: Executor,
    cells: list[Cell],
    missing: list[int],
    results: dict[int, dict[str, float]],
    kept: _Kept,
    progress: Progress | None,
) -> None:
    """Run the cells without a result, and then raise the error of the first of them that has failed."""
    shared = _Shared(runner, [cells[at] for at in missing])
    futures: dict[Future[dict[str, float]], int] = {}
    failures: dict[int, BaseException] = {}

    def settle(future: Future[dict[str, float]], at: int) -> None:
        if (error := future.exception()) is not None:
            failures[at] = error
            return
        results[at] = future.result()
        kept.write(cells[at], results[at])
        if progress is not None:
            progress(len(results), len(cells))

    for at in missing:
        timeline = shared.timeline(cells[at])
        future = runner.submit(run_cell, cells[at], timeline, kept.history(cells[at]))
        if future.done():  # a serial one: kept before the next begins, which may be interrupted
            settle(future, at)
        else:
            futures[future] = at
    for future in as_completed(futures):
        settle(future, futures[future])
    if failures:
        raise failures[min(failures)]


class _Shared:
    """Timelines that several cells of a Ray cluster have in common: read once, put into the object store."""

    def __init__(self, runner: Executor, cells: list[Cell]) -> None:
        self._runner = runner
        self._uses = Counter(_timeline_key(cell) for cell in cells)
        self._read: dict[str, Timeline] = {}

    def timeline(self, cell: Cell) -> Any:
        """Return a reference to the timeline, or None if the cell reads it itself."""
        key = _timeline_key(cell)
        if not isinstance(self._runner, RayExecutor) or self._uses[key] < 2:
            return None
        if key not in self._read:
            self._read[key] = read_timeline(cell)
        return self._runner.share(self._read[key])


def _timeline_key(cell: Cell) -> str:
    """What the timeline of a cell depends on, its seed included only where an option names it."""
    text = json.dumps([cell.timeline.files, cell.timeline.format, cell.timeline.options], sort_keys=True)
    return f"{text} {cell.seed}" if '"$seed"' in text else text


class _Kept:
    """Results of cells in a folder, one file each, written whole or not at all."""

    def __init__(self, folder: Path | None, histories: bool) -> None:
        self._folder, self._histories = folder, histories
        if folder is not None:
            try:
                (folder / "cells").mkdir(parents=True, exist_ok=True)
                if histories:
                    (folder / "histories").mkdir(exist_ok=True)
            except OSError as error:
                raise InputError(f"no folder for results: {error.strerror}", source=str(folder)) from error

    def history(self, cell: Cell) -> str:
        """Return where the history of a cell goes; "" for nowhere."""
        return history_path(self._folder, cell) if self._folder is not None and self._histories else ""

    def read(self, cell: Cell) -> dict[str, float] | None:
        """Return the result of a cell, if it is there."""
        if self._folder is None or (self._histories and not Path(self.history(cell)).exists()):
            return None
        try:
            found: dict[str, float] = json.loads((self._folder / "cells" / f"{cell.key}.json").read_text())
        except (OSError, ValueError):
            return None
        return found

    def write(self, cell: Cell, result: dict[str, float]) -> None:
        """Keep the result of a cell."""
        if self._folder is None:
            return
        path = self._folder / "cells" / f"{cell.key}.json"
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(result) + "\n")
        partial.replace(path)

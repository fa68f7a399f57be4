"""Sweeps: replays of configurations, timelines, changes and seeds, on one machine or on many."""

from __future__ import annotations

import copy
import json
import logging
import multiprocessing
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, ParamSpec, TypeVar

import numpy as np

from moorage.answers.scheduler import Scheduler
from moorage.engine.framework import Registry
from moorage.errors import InputError, PluginError, located, missing, place_of
from moorage.kube import Cluster, Pod
from moorage.kube.read.files import source_name

from .event_columns import Verb
from .gpu_policies import typical_pods
from .measures import Request, evaluate, measures_of
from .plugin_file import PluginFile, known_plugins
from .replay import replay
from .scenario import add_events
from .sweep_file import Cell, Sweep, cells_of, decode_sweep, read_sweep, with_placeholders
from .sweep_result import SweepResult
from .timeline import Timeline

__all__ = ["Sweep", "SweepResult", "read_sweep", "sweep"]


# ---- executors ---------------------------------------------------------------------------------------------

P = ParamSpec("P")
T = TypeVar("T")

EXECUTORS = "serial", "threads", "processes", "ray"
RETRIES = 5  # of a task whose Ray worker or node died


def make_executor(name: str, workers: int | None = None) -> Executor:
    """Return an executor.

    Parameters
    ----------
    name : {"serial", "threads", "processes", "ray"}
        ``ray`` uses the Ray cluster to which the process is connected, or starts one on this machine. It
        needs the extra ``ray``.
    workers : int, optional
        Threads or processes; as many as the machine has processors by default. A Ray cluster has its own.

    Raises
    ------
    InputError
        The name is unknown, the number is below 1, or Ray is not installed.
    """
    if name not in EXECUTORS:
        raise InputError(f"executor must be one of {', '.join(EXECUTORS)}, not {name!r}")
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, not {workers}")
    count = workers or os.cpu_count() or 1
    if name == "serial":
        return SerialExecutor()
    if name == "threads":
        return ThreadPoolExecutor(count)
    if name == "processes":
        # A child of fork would inherit locks that other threads of the parent hold.
        return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
    return RayExecutor()


class SerialExecutor(Executor):
    """Runs each task when it is submitted."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a task."""
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class RayExecutor(Executor):
    """Runs tasks on the Ray cluster to which the process is connected, or on one of its own.

    A task whose worker or node dies is run again elsewhere.

    Raises
    ------
    InputError
        Ray is not installed.
    """

    def __init__(self) -> None:
        try:
            import ray
        except ImportError as error:
            raise InputError(missing("ray", "ray")) from error
        self._ray: Any = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            ray.init(include_dashboard=False, log_to_driver=False)
        self._task: Any = ray.remote(max_retries=RETRIES)(_call)
        self._shared: dict[int, tuple[object, Any]] = {}

    def share(self, value: object) -> Any:
        """Return a reference to a value in the object store, which workers read without a copy each."""
        if id(value) not in self._shared:
            self._shared[id(value)] = value, self._ray.put(value)  # kept, so that the id is not used again
        return self._shared[id(value)][1]

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a task on the cluster."""
        future: Future[T] = self._task.remote(function, *args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the Ray cluster if this executor has started it."""
        if self._owns:
            self._ray.shutdown()


def _call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function: the one task that Ray knows, which references among the arguments are resolved for."""
    return function(*args, **kwargs)


# ---- run cell ----------------------------------------------------------------------------------------------


logger = logging.getLogger("moorage.framework")

Result = tuple[dict[str, float], list[str]]
"""Of a cell: its measures by name, and what it says of failing plugins."""


def read_timeline(cell: Cell) -> Timeline:
    """Read the timeline of a cell, without its change."""
    source = cell.timeline
    options = with_placeholders(source.options, {"$seed": cell.seed})
    return Timeline.read(*source.files, format=source.format, **options)


def run_cell(
    cell: Cell, plugins: Registry, timeline: Timeline | None = None, history: str = ""
) -> dict[str, float]:
    """Replay a cell and measure it.

    Parameters
    ----------
    plugins : Registry
        The user's own, which the configuration may name.
    timeline : Timeline, optional
        The timeline without the change, where it has been read already; it is not changed.
    history : str, optional
        Where to write the decisions and pods of the history, as a file of numpy arrays (.npz).

    Raises
    ------
    InputError
        The timeline, the configuration, a plugin or a measure is wrong; names the cell.
    """
    with _of_cell(cell):
        timeline = _with_change(cell, timeline)
        until, on_failure = cell.replay.until, cell.replay.on_failure
        options = _options(cell, plugins)
        replayed = replay(timeline, until=until, on_failure=on_failure, checkpoints=0, **options)
        if history:
            columns = {f"pod_{name}": column for name, column in replayed.pod_columns.items()}
            np.savez_compressed(history, allow_pickle=False, **replayed.columns, **columns)
        out: dict[str, float] = {}
        for measured in evaluate(replayed, *_measures(cell)).values():
            out |= measured.numbers
        return out


class _OwnFailures(logging.Filter):
    """Keeps what a thread logs about failing plugins, instead of handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._thread = get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether handlers see a record; see `logging.Filter`."""
        if record.thread != self._thread:
            return True
        error = record.exc_info and record.exc_info[1]
        self.texts.append(record.getMessage() + (place_of(error) if error else ""))
        return False


def _result_of(cell: Cell, plugins: Registry, timeline: Timeline | None, history: str) -> Result:
    """Run a cell; what it says of failing plugins is part of its result, since another process may run it."""
    failures = _OwnFailures()
    logger.addFilter(failures)
    try:
        return run_cell(cell, plugins, timeline, history), failures.texts
    finally:
        logger.removeFilter(failures)


def check_cells(cells: Iterable[Cell], plugins: Registry) -> None:
    """Check the timeline, the change, the configuration and the measures of each cell, without a replay; of
    cells that differ by their seed alone, the first.

    Raises
    ------
    InputError
        See `run_cell`; of several errors each, once.
    """
    checked: set[tuple[str, str, str]] = set()
    timelines: dict[str, Timeline] = {}
    errors: dict[str, InputError] = {}
    for cell in cells:
        if cell.names in checked:
            continue
        checked.add(cell.names)
        for check in (_check_timeline, _check_configuration, _check_measures):
            try:
                check(cell, plugins, timelines)
            except InputError as error:
                errors.setdefault(str(error), _located_in(cell, error))
    if len(errors) == 1:
        raise errors.popitem()[1]
    if errors:
        raise InputError("; ".join(map(str, errors.values())))


def _check_timeline(cell: Cell, _: Registry, timelines: dict[str, Timeline]) -> None:
    name = cell.names[1]
    if name not in timelines:
        timelines[name] = read_timeline(cell)
    _with_change(cell, timelines[name])


def _check_configuration(cell: Cell, plugins: Registry, _: object) -> None:
    Scheduler(Cluster(), **_options(cell, plugins))


def _check_measures(cell: Cell, *_: object) -> None:
    measures_of(_measures(cell))


@contextmanager
def _of_cell(cell: Cell) -> Iterator[None]:
    """Let errors name the cell before the object."""
    try:
        yield
    except InputError as error:
        raise _located_in(cell, error) from None
    except PluginError as error:
        raise PluginError(f"{_name(cell)}: {error}") from None


def _located_in(cell: Cell, error: InputError) -> InputError:
    obj = ": ".join(filter(None, (_name(cell), error.obj)))
    return InputError(error.message, source=error.source, obj=obj, path=error.path)


def _name(cell: Cell) -> str:
    return f"cell {'/'.join((*cell.names, str(cell.seed)))}"


def _with_change(cell: Cell, timeline: Timeline | None) -> Timeline:
    """Return the timeline of a cell with its change; one that was read already is not changed."""
    if timeline is None:
        timeline = read_timeline(cell)
    elif cell.change:
        timeline = copy.deepcopy(timeline)
    add_events(timeline, cell.change)
    if not timeline.may_have_nodes:
        raise InputError("The timeline has no node, so no pod can have one")
    return timeline


def _options(cell: Cell, plugins: Registry) -> dict[str, Any]:
    """Return the keyword arguments of a scheduler for a cell."""
    configuration = with_placeholders(cell.configuration, _placeholders(cell))
    options: dict[str, Any] = {"tie_break": cell.replay.tie_break, "seed": cell.seed}
    return options | ({"config": configuration, "registry": known_plugins(plugins)} if configuration else {})


def _measures(cell: Cell) -> list[Request]:
    requests: list[Request] = with_placeholders(list(cell.measures), _placeholders(cell))
    return requests


def _placeholders(cell: Cell) -> dict[str, Any]:
    """What the placeholders in configurations and measures stand for."""
    return {"$seed": cell.seed, "$typicalPods": partial(_typical_pods, cell)}


def _typical_pods(cell: Cell) -> list[dict[str, Any]]:
    """The typical pods of the files of a timeline, read without options."""
    timeline = Timeline.read(*cell.timeline.files, format=cell.timeline.format)
    columns = timeline.columns()
    numbers = columns["argument"][columns["verb"] == Verb.CREATE]
    counts = zip(*np.unique(numbers, return_counts=True), strict=True)
    templates = ((timeline.template_at(int(number)), int(count)) for number, count in counts)
    return typical_pods((template, count) for template, count in templates if isinstance(template, Pod))


def history_path(folder: Path, cell: Cell) -> str:
    """Return the file of a cell's history in the folder of a sweep."""
    return str(folder / "histories" / f"{cell.key}.npz")


# ---- run sweep ---------------------------------------------------------------------------------------------

Progress = Callable[[int, int], None]


def sweep(  # noqa: PLR0913
    grid: Sweep | Mapping[str, Any] | str | Path,
    *,
    data: Path | None = None,
    registry: Registry | None = None,
    executor: str | Executor = "processes",
    workers: int | None = None,
    folder: str | Path | None = None,
    histories: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """Replay each configuration with each timeline, change and seed.

    All cells are checked before the first replay. The result of a cell is a function of its inputs alone, so
    the table does not depend on the executor, nor on whether a sweep was stopped and started again.

    Parameters
    ----------
    grid : Sweep, mapping, str or Path
        A sweep, its document, or the path of its file (`read_sweep`).
    data : Path, optional
        Folder of the files that the sweep names; by default that file's folder, or the working directory.
    registry : Registry, optional
        Plugins that configurations may name beside those of kube-scheduler, the policies of the literature
        and those of installed packages. For other processes they must be classes or functions of a module
        (`pickle`), or those of `read_plugin_file`. Results in a folder are those of plugins of these names.
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
    InputError, PluginError
        The sweep is wrong, or a cell fails; the results of the others are kept.
    """
    plugins = Registry() if registry is None else registry
    base = data or (Path(grid).parent if isinstance(grid, str | Path) else Path())
    if histories and folder is None:
        raise InputError("histories need a folder")
    with located(source=source_name(str(grid)) if isinstance(grid, str | Path) else ""):
        read = read_sweep(grid) if isinstance(grid, str | Path) else grid
        document = read if isinstance(read, Sweep) else decode_sweep(dict(read))
        cells = cells_of(document, base, _names_of(plugins))
        kept = _Kept(None if folder is None else Path(folder), histories)
        results = {at: result for at, cell in enumerate(cells) if (result := kept.read(cell)) is not None}
        missing = [at for at in range(len(cells)) if at not in results]
        if missing:
            check_cells((cells[at] for at in missing), plugins)
            if executor == "processes":
                _check_pickled(plugins)
            owned = make_executor(executor, workers) if isinstance(executor, str) else None
            runner = owned or executor
            assert isinstance(runner, Executor)
            try:
                _run(runner, plugins, cells, missing, results, kept, progress)
            finally:
                if owned is not None:
                    owned.shutdown(cancel_futures=True)
    for text in dict.fromkeys(text for at in range(len(cells)) for text in results[at][1]):
        logger.error("%s", text)
    return SweepResult(cells, [results[at][0] for at in range(len(cells))])


def _names_of(plugins: Registry) -> list[str]:
    """Return what tells plugins from others: their code of a file, else their names."""
    if isinstance(plugins, PluginFile):
        return [plugins.digest]
    return sorted(
        f"{name}={factory.__module__}.{getattr(factory, '__qualname__', type(factory).__qualname__)}"
        for name, factory in plugins.items()
    )


def _check_pickled(plugins: Registry) -> None:
    """Refuse plugins that another process cannot get."""
    try:
        pickle.dumps(plugins)
    except Exception as error:
        hint = "put the plugins into a module or a file (read_plugin_file), or use executor='serial'"
        raise InputError(f"{error}; {hint}", path="registry") from error


def _run(  # noqa: PLR0913
    runner: Executor,
    plugins: Registry,
    cells: list[Cell],
    missing: list[int],
    results: dict[int, Result],
    kept: _Kept,
    progress: Progress | None,
) -> None:
    """Run the cells without a result, and then raise the error of the first of them that has failed."""
    shared = _SharedTimelines(runner, [cells[at] for at in missing])
    futures: dict[Future[Result], int] = {}
    failures: dict[int, BaseException] = {}

    def settle(future: Future[Result], at: int) -> None:
        if (error := future.exception()) is not None:
            failures[at] = error
            return
        results[at] = future.result()
        kept.write(cells[at], results[at])
        if progress is not None:
            progress(len(results), len(cells))

    for at in missing:
        timeline = shared.timeline(cells[at])
        future = runner.submit(_result_of, cells[at], plugins, timeline, kept.history(cells[at]))
        if future.done():  # a serial one: kept before the next begins, which may be interrupted
            settle(future, at)
        else:
            futures[future] = at
    for future in as_completed(futures):
        settle(future, futures[future])
    if failures:
        raise failures[min(failures)]


class _SharedTimelines:
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

    def read(self, cell: Cell) -> Result | None:
        """Return the result of a cell, if it is there."""
        if self._folder is None or (self._histories and not Path(self.history(cell)).exists()):
            return None
        try:
            kept = json.loads((self._folder / "cells" / f"{cell.key}.json").read_text())
            return kept["measures"], kept["pluginFailures"]
        except (OSError, ValueError, KeyError):
            return None

    def write(self, cell: Cell, result: Result) -> None:
        """Keep the result of a cell."""
        if self._folder is None:
            return
        path = self._folder / "cells" / f"{cell.key}.json"
        partial = path.with_suffix(f".{os.getpid()}")
        measures, failures = result
        partial.write_text(json.dumps({"measures": measures, "pluginFailures": failures}) + "\n")
        partial.replace(path)

"""Calls of Filter and Score plugins outside the core, for the core's search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import numpy.typing as npt

from moorage._core.decide.external import External, PythonExternal
from moorage._core.decide.plan import REASONS, VERDICT_SHIFT
from moorage.kube import Pod

from .extension_points import (
    NORMALIZE_ERROR,
    SCORE_ERROR,
    StatusError,
    answer_of,
    answers_of,
    check_range,
    filter_status,
    normalized_scores,
    raw_scores,
    scores_of,
    to_status,
)
from .interface import FilterPlugin, Plugin, ScorePlugin
from .out_of_tree_plugins import LoadedPlugin, RowPlugin
from .run_plugins import Framework
from .status import Answers, Code, CycleState, Status, error_status, filter_codes

Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint8]
Scores = npt.NDArray[np.int64]
NOT_ASKED = -1
MANY = 64  # larger caches of statuses are dropped between searches
NO_INDICES = np.zeros(0, dtype=np.intp)
NO_SCORES = np.zeros(0, dtype=np.int64)


class SearchCalls:
    """Calls the plugins outside the core for one search, and caches their statuses by row.

    Between two calls of `begin` a plugin is called at most once for each row; the diagnosis reads the cache.
    An Error of a plugin is raised as `StatusError` through the search.

    Parameters
    ----------
    framework : Framework
        The framework of the profile.
    """

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._state = CycleState()
        self._scoring = False
        self._caches: dict[str, StatusCache] = {}
        self._alone = self._state, self._caches
        # The row and its nominated pods, until a plugin is called for the row.
        self._pending_nominated: tuple[int, Sequence[Pod]] | None = None
        # By plugin and row, the rejection with nominated pods.
        self._rejected_with_nominated: dict[tuple[str, int], Status] = {}
        self._externals: dict[str, External] = {}
        self._failed: dict[str, Status | None] = {}  # by plugin of rows, the Error of `begin`
        # By plugin, the last raw and normalized scores of a search.
        self._scores: dict[str, tuple[Scores, Scores]] = {}

    def begin(self, state: CycleState, pod: Pod) -> None:
        """Begin a search.

        Parameters
        ----------
        state : CycleState
            State of the cycle after PreFilter.
        """
        self._state, self.framework.pod = state, pod
        self._alone = state, self._caches
        for cached in self._caches.values():
            cached.begin()
        self._pending_nominated = None
        self._rejected_with_nominated.clear()
        self._scoring = False

    def forget_failures(self) -> None:
        """Have plugins asked again about the rows for which they failed."""
        for cached in self._caches.values():
            cached.forget_failures()

    def set_nominated_pods(self, row: int, pods: Sequence[Pod] | None) -> None:
        """Add nominated pods to a row for the following calls, or remove them.

        PreFilter extensions receive AddPod with a copy of the cycle's state. Out-of-tree plugins are called
        at once; in-tree plugins, which cannot fail, before the first call of a plugin for the row.

        Parameters
        ----------
        row : int
            Row of the node table.
        pods : sequence of Pod or None
            Pods to add; None removes the pods added before.

        Raises
        ------
        StatusError
            An extension failed.
        """
        if pods is None and self._pending_nominated is not None:
            self._pending_nominated = None
            return
        if pods is None:
            with_nominated = () if self._caches is self._alone[1] else self._caches.items()
            self._rejected_with_nominated |= {
                (plugin, row): status
                for plugin, cached in with_nominated
                if (status := cached.status(row)) is not None
            }
            self._state, self._caches = self._alone
            return
        self._pending_nominated = row, pods
        if self.framework.profile.has_out_of_tree_plugins:
            self._apply_nominated()

    def _apply_nominated(self) -> None:
        if self._pending_nominated is None:
            return
        (row, pods), self._pending_nominated = self._pending_nominated, None
        self._alone = self._state, self._caches
        self._state, self._caches = self._state.clone(), {}
        node_info = self.framework.nodes(np.array([row], dtype=np.int32)).node_info(0)
        for pod in pods:
            change = self.framework.run_pre_filter_extension_add_pod
            failed = change(self._state, self.framework.pod, pod, node_info)
            if failed is not None:
                raise StatusError(failed)

    def external(self, plugin: Plugin) -> External:
        """Return the object that the core's plan calls for a plugin.

        Parameters
        ----------
        plugin : Plugin
            A Filter or Score plugin without a kernel.

        Returns
        -------
        External
            The same object for Filter and Score.
        """
        if isinstance(plugin, LoadedPlugin):
            return plugin.external
        external = self._externals.get(plugin.name)
        if external is None:
            external = self._of_rows(plugin) if isinstance(plugin, RowPlugin) else self._of_cycles(plugin)
            self._externals[plugin.name] = external
        return external

    def _of_cycles(self, plugin: Plugin) -> External:
        """What the plan calls for a plugin that is asked about a pod in its cycle."""
        filters = partial(self.filter, plugin) if isinstance(plugin, FilterPlugin) else None
        scores = partial(self.score, plugin) if isinstance(plugin, ScorePlugin) else None
        examine = partial(self.examine, plugin) if isinstance(plugin, ScorePlugin) else None
        external = PythonExternal(plugin.name, filter=filters, score=scores, examine=examine)
        external.node_error = StatusError
        return external

    def _of_rows(self, plugin: RowPlugin) -> External:
        """What the plan calls for a plugin that is asked about a class of pods."""
        filters = partial(self._filter_rows, plugin) if isinstance(plugin, FilterPlugin) else None
        begin, examine = partial(self._begin, plugin), partial(self._examine_rows, plugin)
        scores = (lambda rows: examine(rows)[1]) if isinstance(plugin, ScorePlugin) else None
        follows = partial(self._follow, plugin) if type(plugin).follow is not RowPlugin.follow else None
        return PythonExternal(plugin.name, filters, scores, begin, follows, examine)

    def failing(self, plugin: Plugin, text: str) -> PythonExternal:
        """Return a filter that fails on every node."""
        status = error_status(
            f'running "{plugin.name}" filter plugin', Status(Code.ERROR, (text,)), plugin.name
        )

        def fail(rows: Rows) -> Rows:
            raise StatusError(status)

        return PythonExternal(plugin.name, filter=fail)

    def status(self, plugin: str, row: int) -> Status | None:
        """Return a plugin's status for a row in this search.

        Parameters
        ----------
        row : int
            Row of the node table.

        Returns
        -------
        Status or None
            The rejection with nominated pods, if there is one, else the status without them; None where the
            pod fits or the plugin was not called.
        """
        with_nominated = self._rejected_with_nominated.get((plugin, row))
        if with_nominated is not None or plugin not in self._caches:
            return with_nominated
        return self._caches[plugin].status(row)

    def number_statuses(self, rows: Rows, verdicts: npt.NDArray[np.uint64]) -> tuple[Status, ...]:
        """Return the distinct statuses of plugins outside the core, and number them in the verdicts.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.
        verdicts : (n,) uint64 array
            Verdicts of the rows, changed in place: in those of plugins outside the core the index of the
            status replaces the reason bits.

        Returns
        -------
        tuple of Status
            The statuses by index.
        """
        numbers: dict[Status, int] = {}
        places = verdicts >> VERDICT_SHIFT

        def assign(status: Status, at: npt.NDArray[np.intp]) -> None:
            number = np.uint64(numbers.setdefault(status, len(numbers)))
            verdicts[at] = verdicts[at] & ~np.uint64(REASONS) | number

        profile = self.framework.profile_for(self._state, self.framework.pod)
        for place, plugin in enumerate(profile.filters, 1):
            its = np.flatnonzero(places == place) if profile.calls(plugin) else NO_INDICES
            cached = self._caches.get(plugin.name) if len(its) else None
            if cached is not None:
                for status, at in cached.by_status(rows[its]):
                    assign(status, its[at])
        for (name, row), status in self._rejected_with_nominated.items():
            with_nominated = np.flatnonzero(rows == row)
            place = int(places[with_nominated[0]]) if len(with_nominated) else 0  # 0 where the pod fits
            if place and profile.filters[place - 1].name == name:
                assign(status, with_nominated)
        return tuple(numbers)

    # ---- Filter --------------------------------------------------------------------------------------------

    def filter(self, plugin: FilterPlugin, rows: Rows) -> npt.NDArray[np.uint8]:
        """Run Filter of a plugin on the rows for which it has not been called yet.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.

        Returns
        -------
        (n,) uint8 array
            Codes, 0 where the pod fits.

        Raises
        ------
        StatusError
            The plugin failed.
        """
        if plugin.name in self._state.skip_filter_plugins or not len(rows):
            return np.zeros(len(rows), dtype=np.uint8)
        self._apply_nominated()
        cached = self._caches.get(plugin.name)
        if cached is None or len(cached.numbers) < self.framework.columns.state.table.used:
            cached = self._caches[plugin.name] = StatusCache(plugin, self.framework.columns.state.table.used)
        numbers = cached.numbers.take(rows)
        new = rows if numbers.max() == NOT_ASKED else rows[numbers == NOT_ASKED]
        if len(new):
            nodes = self.framework.nodes(new)
            pod = self.framework.pod
            codes = cached.record(new, answers_of(plugin, self._state, pod, nodes), pod)
        return codes if new is rows else cached.codes(rows)

    # ---- Score ---------------------------------------------------------------------------------------------

    def pre_score(self, rows: Rows | Callable[[], Rows]) -> None:
        """Run PreScore of all plugins, once per search.

        Parameters
        ----------
        rows : (n,) int32 array, or callable
            The feasible rows, or a function that computes them.

        Raises
        ------
        StatusError
            A plugin failed.
        """
        if not self._scoring:
            self._scoring = True
            failed = self.framework.run_pre_score_plugins(
                self._state, self.framework.pod, self.framework.nodes(rows)
            )
            if failed is not None:
                raise StatusError(failed)

    def score(self, plugin: ScorePlugin, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the normalized scores of the feasible rows.

        Parameters
        ----------
        rows : (n,) int32 array
            The feasible rows.

        Returns
        -------
        (n,) int64 array
            Scores from 0 to 100.
        """
        self._scores[plugin.name] = scores = self.raw_and_normalized(plugin, rows)
        return scores[1]

    def raw_and_normalized(
        self, plugin: ScorePlugin, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the scores of the feasible rows before and after normalization.

        Parameters
        ----------
        rows : (n,) int32 array
            The feasible rows.

        Returns
        -------
        raw, normalized : (n,) int64 array
            All 0 if PreScore returned Skip.

        Raises
        ------
        StatusError
            The plugin failed, or a normalized score is not in 0 to 100.
        """
        self.pre_score(rows)
        return self._examine(plugin, rows, NO_SCORES)

    def _examine(self, plugin: ScorePlugin, rows: Rows, known: Scores) -> tuple[Scores, Scores]:
        """The scores of rows before and after normalization; the raw scores of the first are known."""
        if plugin.name in self._state.skip_score_plugins:
            nothing = np.zeros(len(rows), dtype=np.int64)
            return nothing, nothing
        nodes = self.framework.nodes(rows)
        new = self.framework.nodes(rows[len(known) :]) if len(known) else nodes
        with self._noting_scores(plugin):
            raw = raw_scores(plugin, self._state, self.framework.pod, new)
            if len(known):
                raw = np.concatenate([known, raw])
            return raw, normalized_scores(plugin, self._state, self.framework.pod, nodes, raw)

    @contextmanager
    def _noting_scores(self, plugin: Plugin) -> Iterator[None]:
        """Note whether scores of a plugin are accepted."""
        accepted = self.framework.handle.plugin_errors.scores
        try:
            yield
        except StatusError:
            accepted.setdefault(plugin.name, False)
            raise
        accepted[plugin.name] = True

    def examine(self, plugin: ScorePlugin, rows: Rows, known: Scores = NO_SCORES) -> tuple[Scores, Scores]:
        """Return the scores of the feasible rows before and after normalization, without asking the plugin
        again for what it has answered.

        Parameters
        ----------
        rows : (n,) int32 array
            The rows of the last call of `score`; or others, with `known` scores.
        known : (k,) int64 array, optional
            Raw scores of the first rows.

        Returns
        -------
        raw, normalized : (n,) int64 array
            All 0 if PreScore returned Skip.

        Raises
        ------
        StatusError
            The plugin failed, or a normalized score is not in 0 to 100.
        """
        return self._examine(plugin, rows, known) if len(known) else self._scores[plugin.name]

    # ---- plugins of rows -----------------------------------------------------------------------------------

    def _pod_of_rows(self) -> Pod | None:
        """The pod of the search; None in the loop of the core, which knows the class alone."""
        decider = self.framework.decider
        return None if decider is not None and decider.search.is_placing else self.framework.pod

    def _begin(self, plugin: RowPlugin, pod_class: int) -> None:
        plugin.shape = self.framework.handle.cache.state.classes.shape_of(pod_class)
        self._failed[plugin.name] = answer_of(plugin, self._pod_of_rows(), plugin.begin)

    def _follow(self, plugin: RowPlugin) -> None:
        answer_of(plugin, self._pod_of_rows(), plugin.follow)  # an exception is told; `begin` meets it again

    def _filter_rows(self, plugin: RowPlugin, rows: Rows) -> Codes:
        def codes() -> Codes:
            return filter_codes("filter_rows", plugin.name, plugin.filter_rows(rows), len(rows))

        answer: Codes | Status = self._failed[plugin.name] or answer_of(plugin, self._pod_of_rows(), codes)
        if isinstance(answer, Status):
            raise StatusError(error_status(f'running "{plugin.name}" filter plugin', answer, plugin.name))
        return answer

    def _examine_rows(
        self, plugin: RowPlugin, rows: Rows, known: Scores = NO_SCORES
    ) -> tuple[Scores, Scores]:
        """The scores of rows before and after normalization; the raw scores of the first are known."""
        text, failed = SCORE_ERROR.format(plugin.name), self._failed[plugin.name]
        new, pod = rows[len(known) :], self._pod_of_rows()
        with self._noting_scores(plugin):
            if failed is not None:
                raise StatusError(error_status(text, failed))
            raw = scores_of(text, plugin, pod, len(new), plugin.score_rows, new)
            if len(known):
                raw = np.concatenate([known, raw])
            scores, text = raw, NORMALIZE_ERROR.format(plugin.name)
            if type(plugin).normalize_rows is not RowPlugin.normalize_rows:
                scores = scores_of(text, plugin, pod, len(rows), plugin.normalize_rows, raw.copy())
            check_range({plugin.name: scores})
            return raw, scores

    @contextmanager
    def scoring_again(self) -> Iterator[Callable[[Rows], None]]:
        """Score other nodes in the block, with a copy of the cycle's state; the search scores its own
        afterwards.

        Yields
        ------
        callable
            `pre_score`.
        """
        state, self._state, self._scoring = self._state, self._state.clone(), False
        try:
            yield self.pre_score
        finally:
            self._state, self._scoring = state, False


class StatusCache:
    """The statuses of one plugin in one search.

    Distinct statuses are stored once; each row has the index of its status.

    Parameters
    ----------
    plugin : FilterPlugin
        The plugin whose statuses are stored.
    rows : int
        Number of rows of the node table.

    Attributes
    ----------
    numbers : (rows,) int32 array
        Index of the status by row; NOT_ASKED for rows for which the plugin has not been called.
    """

    def __init__(self, plugin: FilterPlugin, rows: int) -> None:
        self.plugin = plugin
        self.numbers = np.full(rows, NOT_ASKED, dtype=np.int32)
        self._drop_statuses()

    def _drop_statuses(self) -> None:
        self._places: dict[Status | None, int] = {None: 0}
        self._statuses: list[Status | None] = [None]
        self._codes = np.zeros(1, dtype=np.uint8)
        self._has_failures = False
        # By the identity of a sequence of statuses, which a plugin may return again: the sequence, its items
        # (those of a list may change), their indices here, and the places of failures.
        self._read: dict[int, tuple[Sequence[Status | None], tuple[Status | None, ...], Rows, list[int]]] = {}

    def begin(self) -> None:
        """Begin a search; statuses keep their indices until there are too many."""
        self.numbers.fill(NOT_ASKED)
        if len(self._places) >= MANY or len(self._read) >= MANY:
            self._drop_statuses()

    def forget_failures(self) -> None:
        """Mark the rows for which the plugin failed as not asked."""
        for number, status in enumerate(self._statuses if self._has_failures else ()):
            if status is not None and not status.is_rejected:
                self.numbers[self.numbers == number] = NOT_ASKED

    def record(self, rows: Rows, answers: Answers, pod: Pod) -> Codes:
        """Record the plugin's statuses for rows, up to the first for which the plugin failed.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.
        answers : Answers
            Statuses of the rows; those after the first failure may be missing.

        Returns
        -------
        (n,) uint8 array
            Status codes, 0 where the pod fits.

        Raises
        ------
        StatusError
            A status is neither Success nor a rejection.
        """
        statuses = tuple(answers.statuses)
        entry = self._read.get(id(answers.statuses))
        if entry is None or entry[1] != statuses:
            numbered = self._numbered(statuses, pod)
            entry = self._read[id(answers.statuses)] = answers.statuses, statuses, *numbered
        places, failures = entry[2:]
        numbers = places.take(answers.numbers)
        if failures and len(failed := np.flatnonzero(np.isin(answers.numbers, failures))):
            numbers = numbers[: failed[0] + 1]
        self.numbers[rows[: len(numbers)]] = numbers
        return self.codes(rows[: len(numbers)])

    def _numbered(self, statuses: tuple[Status | None, ...], pod: Pod) -> tuple[Rows, list[int]]:
        """The index of each status, and the positions of the failures."""
        size, places = len(self._places), self._places
        checked = [None if each is None else to_status(self.plugin, pod, each) for each in statuses]
        read = [filter_status(self.plugin, status) for status in checked]
        failures = [at for at, status in enumerate(read) if status and not status.is_rejected]
        self._has_failures = self._has_failures or bool(failures)
        numbers = [places.setdefault(status, len(places)) for status in read]
        if len(places) > size:
            self._statuses = list(places)
            new = [status.code if status else 0 for status in self._statuses[size:]]
            self._codes = np.append(self._codes, np.array(new, dtype=np.uint8))
        return np.array(numbers, dtype=np.int32), failures

    def codes(self, rows: Rows) -> Codes:
        """Return the status codes of rows for which the plugin was called.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.

        Returns
        -------
        (n,) uint8 array
            0 where the pod fits.

        Raises
        ------
        StatusError
            The plugin failed for one of the rows.
        """
        numbers = self.numbers.take(rows)
        for number in numbers.tolist() if self._has_failures else ():
            status = self._statuses[number]
            if status is not None and not status.is_rejected:
                raise StatusError(status)
        return self._codes.take(numbers)

    def by_status(self, rows: Rows) -> Iterator[tuple[Status, npt.NDArray[np.intp]]]:
        """Iterate over the distinct rejections of rows.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.

        Yields
        ------
        status : Status
            A rejection.
        at : (k,) intp array
            Indices into `rows` of the rows with this status.
        """
        numbers = self.numbers.take(rows)
        for number in np.flatnonzero(np.bincount(np.maximum(numbers, 0))).tolist():
            status = self._statuses[number]
            if status is not None and status.is_rejected:
                yield status, np.flatnonzero(numbers == number)

    def status(self, row: int) -> Status | None:
        """Return the plugin's status for a row.

        Parameters
        ----------
        row : int
            Row of the node table.

        Returns
        -------
        Status or None
            None where the pod fits, the plugin failed, or was not called.
        """
        number = int(self.numbers[row])
        status = None if number == NOT_ASKED else self._statuses[number]
        return status if status is not None and status.is_rejected else None

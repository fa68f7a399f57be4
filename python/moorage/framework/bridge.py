"""From the search of the core to Filter and Score plugins that are not in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from moorage._core.external import PythonExternal
from moorage._core.plan import REASONS, VERDICT_SHIFT
from moorage.objects.pod import Pod

from .call import StatusError, ask, ask_status
from .cycle_state import CycleState
from .filtering import filter_status
from .interface import FilterPlugin, Plugin, ScorePlugin, filter_codes
from .nodes_view import NodesView, TableNodes
from .scoring import normalized_scores, raw_scores
from .status import Code, Status, error_status

if TYPE_CHECKING:
    from .runtime import Framework

Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint8]
NOT_ASKED = 255


class Bridge:
    """Carries the questions of one search to the plugins, and keeps what they said about each row.

    `begin` names the pod; from then on until the next `begin`, no row is asked twice about the same pod: the
    diagnosis reads what the search has heard. Errors come out of the search as StatusError.
    """

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._state = CycleState()
        self._pod = Pod()
        self._scoring = False
        self._heard: dict[str, Heard] = {}
        self._alone = self._state, self._heard
        self._crowded: dict[tuple[str, int], Status] = {}  # rejections of rows with nominated pods there
        self._externals: dict[str, PythonExternal] = {}

    def begin(self, state: CycleState, pod: Pod) -> None:
        """The next search is about this pod, whose PreFilter ran with this state."""
        self._state, self._pod = state, pod
        self._alone = state, self._heard
        self._heard.clear()
        self._crowded.clear()
        self._scoring = False

    def judge_nominated(self, row: int, pods: Sequence[Pod] | None) -> None:
        """Nominated pods have come to a row, for as long as the search asks about it with them; None: they
        are off again. Plugins hear of them through AddPod, on a copy of the cycle's state."""
        if pods is None:
            crowded = () if self._heard is self._alone[1] else self._heard.items()
            self._crowded |= {
                (plugin, row): status
                for plugin, heard in crowded
                if (status := heard.status(row)) is not None
            }
            self._state, self._heard = self._alone
            return
        self._alone = self._state, self._heard
        self._state, self._heard = self._state.clone(), {}
        node_info = self.nodes(np.array([row], dtype=np.int32)).node_info(0)
        for pod in pods:
            change = self.framework.run_pre_filter_extension_add_pod
            failed = change(self._state, self._pod, pod, node_info)
            if failed is not None:
                raise StatusError(failed)

    def external(self, plugin: Plugin) -> PythonExternal:
        """What the core's plan calls for a plugin: the same at Filter and at Score."""
        if plugin.name in self._externals:
            return self._externals[plugin.name]
        filters = partial(self.filter, plugin) if isinstance(plugin, FilterPlugin) else None
        scores = partial(self.score, plugin) if isinstance(plugin, ScorePlugin) else None
        made = self._externals[plugin.name] = PythonExternal(plugin.name, filter=filters, score=scores)
        return made

    def failing(self, plugin: Plugin, text: str) -> PythonExternal:
        """A filter that fails with an error wherever it is asked."""
        status = error_status(
            f'running "{plugin.name}" filter plugin', Status(Code.ERROR, (text,)), plugin.name
        )

        def fail(rows: Rows) -> Rows:
            raise StatusError(status)

        return PythonExternal(plugin.name, filter=fail)

    def status(self, plugin: str, row: int) -> Status | None:
        """What a plugin said about a row in this search; with nominated pods there, if it rejects it so."""
        crowded = self._crowded.get((plugin, row))
        if crowded is not None or plugin not in self._heard:
            return crowded
        return self._heard[plugin].status(row)

    def number_statuses(self, rows: Rows, verdicts: npt.NDArray[np.uint64]) -> tuple[Status, ...]:
        """What plugins outside the core said about `rows`, each different status once; in `verdicts` its
        number takes the place of the reason bits."""
        numbers: dict[Status, int] = {}
        filters = self.framework.filters
        external = [at + 1 for at, plugin in enumerate(filters) if not plugin.in_core]
        for at in np.flatnonzero(np.isin(verdicts >> VERDICT_SHIFT, external)).tolist():
            verdict = int(verdicts[at])
            status = self.status(filters[(verdict >> VERDICT_SHIFT) - 1].name, int(rows[at]))
            if status is not None:
                verdicts[at] = verdict & ~REASONS | numbers.setdefault(status, len(numbers))
        return tuple(numbers)

    def nodes(self, rows: Rows | Callable[[], Rows]) -> NodesView:
        """Rows of the table, to be looked at by plugins."""
        return TableNodes(self.framework.columns, rows)

    # ---- Filter --------------------------------------------------------------------------------------------

    def filter(self, plugin: FilterPlugin, rows: Rows) -> npt.NDArray[np.uint8]:
        """The code of each row: 0 where the pod fits."""
        if plugin.name in self._state.skip_filter_plugins:
            return np.zeros(len(rows), dtype=np.uint8)
        heard = self._heard.get(plugin.name)
        if heard is None:
            heard = self._heard[plugin.name] = Heard(plugin, self.framework.columns.state.table.used)
        new = rows[heard.codes.take(rows) == NOT_ASKED]
        if len(new):
            heard.codes[new] = (
                self._filter_all(plugin, new) if heard.by_code else self._filter_each(heard, new)
            )
        return heard.codes.take(rows)

    def _filter_all(self, plugin: FilterPlugin, rows: Rows) -> Codes:
        try:
            answer: Codes = ask(plugin, self._pod, self._codes, plugin, rows)
        except StatusError as error:
            raise StatusError(cast(Status, filter_status(plugin, error.status))) from error
        return answer

    def _codes(self, plugin: FilterPlugin, rows: Rows) -> Codes:
        answer = plugin.filter_all(self._state, self._pod, self.nodes(rows))
        return filter_codes(plugin.name, answer, len(rows))

    def _filter_each(self, heard: Heard, rows: Rows) -> list[int]:
        plugin, nodes = heard.plugin, self.nodes(rows)
        codes = []
        for at, row in enumerate(rows.tolist()):
            answer = ask_status(plugin, self._pod, plugin.filter, self._state, self._pod, nodes.node_info(at))
            status = filter_status(plugin, answer)
            if status is not None and not status.is_rejected:
                raise StatusError(status)
            if status is not None:
                heard.statuses[row] = status
            codes.append(0 if status is None else int(status.code))
        return codes

    # ---- Score ---------------------------------------------------------------------------------------------

    def pre_score(self, rows: Rows | Callable[[], Rows]) -> None:
        """PreScore over the feasible rows, once per search."""
        if not self._scoring:
            self._scoring = True
            failed = self.framework.run_pre_score_plugins(self._state, self._pod, self.nodes(rows))
            if failed is not None:
                raise StatusError(failed)

    def score(self, plugin: ScorePlugin, rows: Rows) -> npt.NDArray[np.int64]:
        """The normalized scores of the feasible rows."""
        return self.raw_and_normalized(plugin, rows)[1]

    def raw_and_normalized(
        self, plugin: ScorePlugin, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """A plugin's scores before and after normalizing; 0 where PreScore answered Skip."""
        self.pre_score(rows)
        if plugin.name in self._state.skip_score_plugins:
            nothing = np.zeros(len(rows), dtype=np.int64)
            return nothing, nothing
        nodes = self.nodes(rows)
        raw = raw_scores(plugin, self._state, self._pod, nodes)
        return raw, normalized_scores(plugin, self._state, self._pod, nodes, raw)


class Heard:
    """What one plugin has said in one search: a code per row, and the statuses behind the codes."""

    def __init__(self, plugin: FilterPlugin, rows: int) -> None:
        self.plugin = plugin
        self.by_code = has_filter_all(plugin)
        self.codes = np.full(rows, NOT_ASKED, dtype=np.uint8)
        self.statuses: dict[int, Status | None] = {}  # by code, or by row

    def status(self, row: int) -> Status | None:
        """What was said about a row; None where nothing was."""
        if not self.by_code:
            return self.statuses.get(row)
        code = int(self.codes[row])
        if code != NOT_ASKED and code not in self.statuses:
            self.statuses[code] = self.plugin.verdict(code)
        return self.statuses.get(code)


def has_filter_all(plugin: FilterPlugin) -> bool:
    """True for a plugin with the vectorised form of Filter."""
    return type(plugin).filter_all is not FilterPlugin.filter_all

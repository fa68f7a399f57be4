"""Results of plugins at each extension point (kube-scheduler v1.36, runtime/framework.go): an exception or a
result of a wrong type becomes an Error status.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage.engine.framework import interface
from moorage.errors import MoorageError, PluginError
from moorage.kube import Pod

from .handle import PluginErrors
from .interface import (
    MAX_NODE_SCORE,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    ScorePlugin,
)
from .nodes_view import NodesView
from .status import Answers, Code, CycleState, Status, error_status, read_answers
from .waiting_pods import MAX_TIMEOUT, Ended, PodInPreBind, StatusSteps, Steps, take_step

# ---- call --------------------------------------------------------------------------------------------------
# Calls of plugins: an exception or a result of a wrong type becomes an Error status.


class StatusError(MoorageError):
    """Carries an Error status through a search, which it ends.

    Attributes
    ----------
    refused : str
        The plugin whose answer was refused, where nobody has noted that yet (`note_refused`).
    """

    def __init__(self, status: Status, refused: str = "") -> None:
        self.status, self.refused = status, refused
        super().__init__(status.message())


def ask(plugin: Plugin, pod: Pod | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a plugin; the pod is for the log.

    Raises
    ------
    StatusError
        The method raised: ``plugin "X" raised ValueError: …``.
    Exception
        The exception itself, where the scheduler fails fast.
    """
    handle = plugin.handle
    try:
        if handle is not None and handle.observer is not None:
            return handle.observer.call(plugin, function, arguments)
        return function(*arguments)
    except Exception as error:  # an exception of a plugin never ends the process
        raise StatusError(_raised(plugin, pod, error)) from error


def _raised(plugin: Plugin, pod: Pod | None, error: Exception) -> Status:
    raised = PluginError(note_exception(plugin, "" if pod is None else f"pod {pod.key}", error))
    raised.__cause__ = error
    return Status(Code.ERROR, err=raised)


def note_exception(plugin: Plugin, about: str, error: Exception) -> str:
    """Log and count an exception of a plugin in a call about something, for example ``pod default/p``; return
    the message of the Error: ``plugin "X" raised ValueError: …``, or that of a refused answer."""
    is_refusal = isinstance(error, PluginError)
    text = str(error) if is_refusal else f'plugin "{plugin.name}" raised {type(error).__name__}: {error}'
    errors = PluginErrors() if plugin.handle is None else plugin.handle.plugin_errors
    errors.note(plugin.name, about, text, error)
    return text


def note_refused(errors: PluginErrors, about: str, failed: StatusError) -> None:
    """Note the answer of a plugin that was refused, as an exception of the plugin is noted."""
    if failed.refused:
        text = failed.status.message()
        errors.note(failed.refused, about, text, PluginError(text))


def answer_of(plugin: Plugin, pod: Pod | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a plugin as `ask` does, and return an Error status in place of an exception.

    The pod is None where only the core knows it (`PluginErrors.tell`).
    """
    try:
        return ask(plugin, pod, function, *arguments)
    except StatusError as failed:
        return failed.status


def ask_status(plugin: Plugin, pod: Pod, function: Callable[..., Any], *arguments: Any) -> Status | None:
    """Call a method of a plugin that returns a status.

    Parameters
    ----------
    pod : Pod
        The pod of the call, for the log.
    *arguments : object
        Its arguments.

    Returns
    -------
    Status or None
        An Error where the method raised or returned another type.
    """
    return to_status(plugin, pod, answer_of(plugin, pod, function, *arguments))


def to_status(plugin: Plugin, pod: Pod, answer: Any) -> Status | None:
    """Return the result of a plugin if it is a Status or None, else an Error.

    Parameters
    ----------
    answer : object
        The result of a method of the plugin.
    """
    if answer is None or isinstance(answer, Status):
        return answer
    return wrong_answer(plugin, pod, answer, "a Status")


def wrong_answer(plugin: Plugin, pod: Pod, answer: Any, wanted: str) -> Status:
    """Note a plugin's result of a wrong type, and return its Error.

    Parameters
    ----------
    wanted : str
        Description of the expected type.
    """
    error = PluginError(f'plugin "{plugin.name}" answered {type(answer).__name__}, not {wanted}')
    note_exception(plugin, f"pod {pod.key}", error)
    return Status(Code.ERROR, err=error)


# ---- filtering ---------------------------------------------------------------------------------------------
# Results of PreFilter, Filter and PostFilter plugins (kube-scheduler v1.36, runtime/framework.go).


@dataclass(frozen=True, slots=True)
class PreFilterRun:
    """The outcome of PreFilter for a pod.

    Attributes
    ----------
    rejection : Status or None
        A rejection on all nodes, or an Error.
    node_names : frozenset of str or None
        The only nodes to search; None for all.
    plugins : tuple of str
        The plugins that restricted `node_names`, sorted.
    skipped : frozenset of str
        The plugins that returned Skip.
    tried_by : tuple of str
        The plugin that rejected the node that was tried before all others; upstream names it too.
    """

    rejection: Status | None = None
    node_names: frozenset[str] | None = None
    plugins: tuple[str, ...] = ()
    skipped: frozenset[str] = field(default_factory=frozenset)
    tried_by: tuple[str, ...] = ()

    def after_trial(self, status: Status) -> PreFilterRun:
        """Return the result after the node that was tried before all others was rejected.

        Parameters
        ----------
        status : Status
            Of that node.
        """
        return self if status.code == Code.PENDING else replace(self, tried_by=(status.plugin,))

    @property
    def absent(self) -> Status | None:
        """The status of nodes outside `node_names`."""
        if self.node_names is None:
            return None
        plugins = sorted({*self.plugins, *self.tried_by})
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    @property
    def error(self) -> str:
        """Message of the Error that fails the cycle, or ""."""
        return "" if self.rejection is None or self.rejection.is_rejected else self.rejection.message()


def ask_pre_filter(
    plugin: interface.PreFilterPlugin, state: CycleState, pod: Pod, nodes: NodesView
) -> tuple[interface.PreFilterResult | None, Status | None]:
    """Call PreFilter of a plugin.

    Parameters
    ----------
    nodes : NodesView
        All nodes of the snapshot.

    Returns
    -------
    result : PreFilterResult or None
        The only nodes to search; None for all.
    status : Status or None
        An Error where the plugin raised or returned another type.
    """
    match answer := answer_of(plugin, pod, plugin.pre_filter, state, pod, nodes):
        case interface.PreFilterResult():
            return answer, None
        case None | Status():
            return None, answer
    return None, wrong_answer(plugin, pod, answer, "a PreFilterResult or a Status")


def nothing_left(plugins: Sequence[str]) -> Status:
    """Return the rejection of a pod whose PreFilter results have no node in common.

    Parameters
    ----------
    plugins : sequence of str
        Names of the plugins that returned a set of nodes.
    """
    text = interface.NOT_SATISFIED.format(plugins[0])
    if len(plugins) > 1:
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def filter_status(plugin: interface.FilterPlugin, status: Status | None) -> Status | None:
    """Return the status with which the runtime reports what a Filter plugin returned for a node.

    Returns
    -------
    Status or None
        None for Success; a rejection with the plugin's name; an Error for any other code.
    """
    if status is None or status.is_success:
        return None
    if not status.is_rejected:
        return error_status(f'running "{plugin.name}" filter plugin', status, plugin.name)
    return status.with_plugin(plugin.name)


def answers_of(plugin: interface.FilterPlugin, state: CycleState, pod: Pod, nodes: NodesView) -> Answers:
    """Run Filter of a plugin on nodes, together if it has `filter_all`, else one by one.

    Returns
    -------
    Answers
        What the plugin returned for the nodes, up to the first for which it failed.
    """
    if type(plugin).filter_all is not interface.FilterPlugin.filter_all:
        try:
            answer = ask(plugin, pod, plugin.filter_all, state, pod, nodes)
            read: Answers = ask(plugin, pod, read_answers, plugin.name, answer, len(nodes), plugin.verdict)
            return read
        except StatusError as failed:  # for the first of them
            return Answers(np.zeros(1, dtype=np.intp), (failed.status,))
    answers = list[Status | None]()
    for info in nodes:
        answers.append(ask_status(plugin, pod, plugin.filter, state, pod, info))
        status = filter_status(plugin, answers[-1])
        if status is not None and not status.is_rejected:
            break
    return Answers(np.arange(len(answers)), answers)


def ask_post_filter(
    plugin: interface.PostFilterPlugin, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
) -> tuple[interface.PostFilterResult | None, Status | None]:
    """Call PostFilter of a plugin.

    Parameters
    ----------
    statuses : mapping of str to Status
        Rejected node to its status.

    Returns
    -------
    result : PostFilterResult or None
        The change of the pod's nomination.
    status : Status or None
        An Error where the plugin raised or returned another type.
    """
    try:
        answer = ask(plugin, pod, plugin.post_filter, state, pod, statuses)
    except StatusError as error:
        return None, error.status
    match answer:
        case (None | interface.NominatingInfo() as result, None | Status() as status):
            return result, status
        case _:
            return None, wrong_answer(plugin, pod, answer, "(PostFilterResult, Status)")


# ---- scoring -----------------------------------------------------------------------------------------------
# Runs of PreScore and Score plugins (kube-scheduler v1.36, framework/runtime/framework.go).

Scores = npt.NDArray[np.int64]
WEIGHTS = "applying score defaultWeights on {} plugins"
SCORE_ERROR = 'running Score plugins: plugin "{}" failed with'
NORMALIZE_ERROR = 'running Normalize on Score plugins: plugin "{}" failed with'


def raw_scores(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: NodesView) -> Scores:
    """Run Score of a plugin on nodes.

    Returns
    -------
    (n,) int64 array
        Scores before normalization.

    Raises
    ------
    StatusError
        The plugin failed, or returned anything but n integers.
    """
    text = SCORE_ERROR.format(plugin.name)
    if type(plugin).score_all is not ScorePlugin.score_all:
        return scores_of(text, plugin, pod, len(nodes), plugin.score_all, state, pod, nodes)
    one_by_one = [
        _ask(text, plugin, pod, plugin.score, state, pod, nodes.node_info(at)) for at in range(len(nodes))
    ]
    return integers(plugin.name, one_by_one, len(nodes), text)


def normalized_scores(
    plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: NodesView, raw: Scores
) -> Scores:
    """Run NormalizeScore of a plugin.

    Parameters
    ----------
    raw : (n,) int64 array
        The result of `raw_scores`.

    Returns
    -------
    (n,) int64 array
        Scores from 0 to 100.

    Raises
    ------
    StatusError
        The plugin failed, or a score is not in 0 to 100.
    """
    scores = raw
    if type(plugin).normalize_score is not ScorePlugin.normalize_score:
        text = NORMALIZE_ERROR.format(plugin.name)
        scores = scores_of(text, plugin, pod, len(nodes), plugin.normalize_score, state, pod, raw.copy())
    check_range({plugin.name: scores})
    return scores


def out_of_range(plugin: str, score: int, point: str = "Score") -> StatusError:
    """Return the exception for a plugin's score that is not in 0 to 100."""
    return StatusError(Status(Code.ERROR, err=PluginError(invalid_score(plugin, score, point))), plugin)


def check_range(columns: Mapping[str, Scores], point: str = "Score") -> None:
    """Check that scores are in 0 to 100.

    Parameters
    ----------
    columns : mapping of str to (n,) int64 array
        Scores by plugin.

    Raises
    ------
    StatusError
        Names the first node with a score out of range, and the first such plugin there.
    """
    firsts = {
        name: int(np.flatnonzero((column < 0) | (column > MAX_NODE_SCORE))[0])
        for name, column in columns.items()
        if len(column) and column.view(np.uint64).max() > MAX_NODE_SCORE  # negative ones are large
    }
    if firsts:
        plugin = min(firsts, key=firsts.__getitem__)
        raise out_of_range(plugin, int(columns[plugin][firsts[plugin]]), point)


def invalid_score(plugin: str, score: int, point: str = "Score") -> str:
    """Return upstream's message for a plugin's score that is not in 0 to 100."""
    text = f'plugin "{plugin}" returns an invalid score {score}, it should in the range of'
    return f"{WEIGHTS.format(point)}: {text} [0, {MAX_NODE_SCORE}] after normalizing"


class NodePluginScores(Struct, frozen=True):
    """The scores of one node.

    Attributes
    ----------
    scores : tuple of (str, int)
        Plugin and weighted score, in profile order.
    total_score : int
        Sum of the weighted scores.
    """

    name: str
    scores: tuple[tuple[str, int], ...]
    total_score: int


def scores_of(
    text: str, plugin: Plugin, pod: Pod | None, wanted: int, function: Callable[..., Any], *arguments: Any
) -> Scores:
    """Call a method of a plugin that scores nodes.

    Parameters
    ----------
    text : str
        Start of the message of an Error.
    wanted : int
        Number of nodes.

    Raises
    ------
    StatusError
        The method failed, or returned anything but one integer for each node.
    """
    return integers(plugin.name, _ask(text, plugin, pod, function, *arguments), wanted, text)


def _ask(text: str, plugin: Plugin, pod: Pod | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a plugin's method; StatusError where it fails."""
    answer = answer_of(plugin, pod, function, *arguments)
    if isinstance(answer, Status):
        raise StatusError(error_status(text, answer))
    return answer


def integers(plugin: str, answer: Any, wanted: int, text: str) -> Scores:
    """Return scores as one int64 per node; floats are accepted only where all are integers."""

    def fail(why: str) -> StatusError:
        return StatusError(Status(Code.ERROR, err=PluginError(f"{text}: {why}")), plugin)

    try:
        scores = np.asarray(answer)
    except ValueError as error:
        raise fail(str(error)) from error
    if scores.shape != (wanted,):
        raise fail(f"scores of shape {scores.shape} for {wanted} nodes")
    if wanted == 0:
        return np.zeros(0, dtype=np.int64)
    if scores.dtype.kind == "f":
        wrong = scores[(scores != np.floor(scores)) | (np.abs(scores) >= 2.0**63)]
        if len(wrong):
            raise fail(f"score {wrong[0]} is not an integer")
    elif scores.dtype.kind == "u":
        if scores.max() >= 2**63:
            raise fail(f"score {scores.max()} is not an integer of 64 bits")
    elif scores.dtype.kind not in "ib":
        wrong = [score for score in scores.tolist() if not isinstance(score, int)]
        what = f"{wrong[0]!r} is not an integer" if wrong else "is not an integer of 64 bits"
        raise fail(f"score {what}")
    return scores.astype(np.int64)


# ---- binding points ----------------------------------------------------------------------------------------
# Results of Permit, PreBindPreFlight and PreBind plugins (kube-scheduler v1.36, runtime/framework.go).

WAITING = "one or more plugins asked to wait and no plugin rejected pod"
PRE_FLIGHT = "It is supposed to return Success, Skip, or Error status"


def passed_on(text: str, name: str, status: Status) -> Status:
    """Return the status with which the runtime reports the failure of a plugin.

    Parameters
    ----------
    text : str
        Start of the message of an Error.
    status : Status
        The status that the plugin returned.

    Returns
    -------
    Status
        The rejection with the plugin's name; an Error for any other code.
    """
    if status.is_rejected:
        return status.with_plugin(name)
    return error_status(f'{text} "{name}"', status)


def ask_permit(
    plugin: PermitPlugin, state: CycleState, pod: Pod, node_name: str
) -> tuple[Status | None, float]:
    """Call Permit of a plugin.

    Returns
    -------
    status : Status or None
        An Error where the plugin raised or returned another type.
    timeout : float
        Seconds to wait; `MAX_TIMEOUT` where the plugin names no time.
    """
    match answer := answer_of(plugin, pod, plugin.permit, state, pod, node_name):
        case (None | Status() as status, int() | float() as seconds):
            return status, seconds
        case tuple():
            return wrong_answer(plugin, pod, answer, "(Status, seconds)"), 0.0
        case _:
            return to_status(plugin, pod, answer), MAX_TIMEOUT


def permitted(signal: Status) -> Status | None:
    """Return the status of Permit for a pod that has waited.

    Parameters
    ----------
    signal : Status
        Result of `WaitingPod.wait`.

    Returns
    -------
    Status or None
        None where the pod was allowed; the rejection; or an Error.
    """
    if signal.is_success:
        return None
    if signal.is_rejected:
        return signal
    return error_status("waiting on permit for pod", signal, signal.plugin)


def ask_pre_flight(
    plugin: PreBindPlugin, state: CycleState, pod: Pod, node_name: str
) -> tuple[PreBindPreFlightResult | None, Status | None]:
    """Call PreBindPreFlight of a plugin.

    Returns
    -------
    result : PreBindPreFlightResult or None
        What the plugin returned beside the status.
    status : Status or None
        An Error where the plugin raised or returned another type.
    """
    match answer := answer_of(plugin, pod, plugin.pre_bind_pre_flight, state, pod, node_name):
        case (None | PreBindPreFlightResult() as result, None | Status() as status):
            return result, status
        case PreBindPreFlightResult():
            return answer, None
        case tuple():
            return None, wrong_answer(plugin, pod, answer, "(PreBindPreFlightResult, Status)")
        case _:
            return None, to_status(plugin, pod, answer)


def pre_bind_groups(plugins: Sequence[PreBindPlugin], state: CycleState) -> list[list[PreBindPlugin]]:
    """Group the PreBind plugins that run at the same time.

    Consecutive plugins that allow parallel execution form a group. Any other plugin runs alone and separates
    its neighbours, even where it is skipped.

    Parameters
    ----------
    plugins : sequence of PreBindPlugin
        In profile order.
    state : CycleState
        State of the cycle after PreBindPreFlight.

    Returns
    -------
    list of list of PreBindPlugin
        Groups in profile order.
    """
    groups: list[list[PreBindPlugin]] = [[]]
    for plugin in plugins:
        skipped = plugin.name in state.skip_pre_bind_plugins
        if plugin.name in state.parallel_pre_bind_plugins:
            if not skipped:
                groups[-1].append(plugin)
        else:
            groups += [[] if skipped else [plugin], []]
    return [group for group in groups if group]


class PreBindGroup:
    """PreBind plugins that run at the same time for a pod.

    After a failure no other plugin of the group is started, and the running generators are closed.

    Attributes
    ----------
    failures : list of Status
        Failures in order of occurrence; the first one is the result of the group.
    """

    def __init__(self, plugins: Sequence[PreBindPlugin], state: CycleState, pod: Pod, node_name: str) -> None:
        self.plugins, self.state, self.pod, self.node_name = plugins, state, pod, node_name
        self.failures: list[Status] = []
        self._waiting: dict[int, StatusSteps] = {}

    def begin(self, at: int) -> None:
        """Call PreBind of a plugin, unless a plugin of the group has failed.

        Parameters
        ----------
        at : int
            Index of the plugin in the group.
        """
        if self.failures:
            return
        plugin = self.plugins[at]
        answer = answer_of(plugin, self.pod, plugin.pre_bind, self.state, self.pod, self.node_name)
        if isinstance(answer, Generator):
            self._waiting[at] = answer
        else:
            self._note(plugin, to_status(plugin, self.pod, answer))

    def _note(self, plugin: PreBindPlugin, status: Status | None) -> None:
        if status is not None and not status.is_success:
            self.failures.append(passed_on("running PreBind plugin", plugin.name, status))

    def steps(self, in_pre_bind: PodInPreBind | None) -> Steps[None]:
        """Run the generators of the group until one fails or the pod is cancelled.

        Parameters
        ----------
        in_pre_bind : PodInPreBind or None
            The pod's entry in the map of pods in PreBind; its cancellation ends the group.

        Yields
        ------
        float
            Seconds until the next step is due.
        """
        passed, due = 0.0, dict.fromkeys(sorted(self._waiting), 0.0)
        has_begun = False
        while due and not self.failures:
            coming = min(due.values())
            if has_begun:
                yield coming - passed
            has_begun, passed = True, coming
            for at in [at for at, when in due.items() if when <= passed and not self.failures]:
                plugin = self.plugins[at]
                if in_pre_bind is not None and in_pre_bind.cause:
                    self._note(plugin, Status(Code.ERROR, (in_pre_bind.cause,)))
                elif isinstance(step := self._step(plugin, self._waiting[at]), Ended):
                    del due[at], self._waiting[at]
                    self._note(plugin, step.result)
                else:
                    due[at] = passed + step
        for steps in self._waiting.values():
            steps.close()

    def _step(self, plugin: PreBindPlugin, steps: StatusSteps) -> float | Ended[Status | None]:
        """Run one step of a plugin; an exception or a value of another type becomes an Error."""
        try:
            step = ask(plugin, self.pod, take_step, steps)
        except StatusError as error:
            return Ended(error.status)
        if isinstance(step, Ended):
            return Ended(to_status(plugin, self.pod, step.result))
        if isinstance(step, int | float) and step >= 0:
            return step
        return Ended(wrong_answer(plugin, self.pod, step, "seconds to wait"))

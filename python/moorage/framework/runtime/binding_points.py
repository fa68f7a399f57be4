"""Answers of Permit, PreBindPreFlight and PreBind (kube-scheduler v1.36, runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.handle import Parallelizer
from moorage.framework.plugin.interface import PermitPlugin, PreBindPlugin, PreBindPreFlightResult
from moorage.framework.plugin.status import Code, Status, error_status
from moorage.framework.plugin.waiting_pods import MAX_TIMEOUT, PodInPreBind
from moorage.objects import Pod

from .call import StatusError, answer_of, ask, to_status, wrong_answer
from .steps import Ended, StatusSteps, Steps, take_step

WAITING = "one or more plugins asked to wait and no plugin rejected pod"
PRE_FLIGHT = "It is supposed to return Success, Skip, or Error status"


def passed_on(text: str, name: str, status: Status) -> Status:
    """The status that the runtime makes of a plugin's failure.

    Parameters
    ----------
    text : str
        The begin of the Error's text.
    name : str
        The plugin's.
    status : Status

    Returns
    -------
    Status
        A rejection with the plugin's name; an Error for any other code.
    """
    if status.is_rejected:
        return status.with_plugin(name)
    return error_status(f'{text} "{name}"', status)


def ask_permit(
    plugin: PermitPlugin, state: CycleState, pod: Pod, node_name: str
) -> tuple[Status | None, float]:
    """Call Permit of a plugin: the status, and the seconds to wait. A Wait without a time is one of
    `MAX_TIMEOUT`."""
    match answer := answer_of(plugin, pod, plugin.permit, state, pod, node_name):
        case (None | Status() as status, int() | float() as seconds):
            return status, seconds
        case tuple():
            return wrong_answer(plugin, answer, "(Status, seconds)"), 0.0
        case _:
            return to_status(plugin, answer), MAX_TIMEOUT


def permitted(signal: Status) -> Status | None:
    """The status that Permit ends with for a pod that has waited.

    Parameters
    ----------
    signal : Status
        As of `WaitingPod.wait`.

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
    """Call PreBindPreFlight of a plugin; an exception, or an answer of another type, is an Error."""
    match answer := answer_of(plugin, pod, plugin.pre_bind_pre_flight, state, pod, node_name):
        case (None | PreBindPreFlightResult() as result, None | Status() as status):
            return result, status
        case PreBindPreFlightResult():
            return answer, None
        case tuple():
            return None, wrong_answer(plugin, answer, "(PreBindPreFlightResult, Status)")
        case _:
            return None, to_status(plugin, answer)


def pre_bind_groups(plugins: Sequence[PreBindPlugin], state: CycleState) -> list[list[PreBindPlugin]]:
    """The groups of PreBind plugins that run at the same time.

    Neighbours that allow it are a group. A plugin that does not runs alone, and separates its neighbours even
    where it is skipped.

    Parameters
    ----------
    plugins : sequence of PreBindPlugin
        In profile order.
    state : CycleState
        After PreBindPreFlight.

    Returns
    -------
    list of list of PreBindPlugin
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


def pre_bind_steps(
    plugins: Sequence[PreBindPlugin],
    state: CycleState,
    pod: Pod,
    node_name: str,
    parallelizer: Parallelizer,
    in_pre_bind: PodInPreBind | None = None,
) -> StatusSteps:
    """Run PreBind group by group, until a plugin fails.

    After a failure no other plugin of the group begins, and generators of the group are closed.

    Parameters
    ----------
    plugins : sequence of PreBindPlugin
    state : CycleState
    pod : Pod
    node_name : str
    parallelizer : Parallelizer
        Runs the plugins of a group.
    in_pre_bind : PodInPreBind, optional
        Where it is cancelled, PreBind fails at the next step.

    Yields
    ------
    float
        Seconds until the next step.

    Returns
    -------
    Status or None
        The first failure.
    """
    for group in pre_bind_groups(plugins, state):
        failures: list[Status] = []
        waiting: dict[int, StatusSteps] = {}

        def work(
            piece: int,
            group: list[PreBindPlugin] = group,
            failures: list[Status] = failures,
            waiting: dict[int, StatusSteps] = waiting,
        ) -> None:
            plugin = group[piece]
            if failures:
                return
            answer = answer_of(plugin, pod, plugin.pre_bind, state, pod, node_name)
            if isinstance(answer, Generator):
                waiting[piece] = answer
            else:
                _note(failures, plugin, to_status(plugin, answer))

        parallelizer.until(len(group), work)
        yield from _wait(group, pod, waiting, failures, in_pre_bind)
        if failures:
            return failures[0]
    return None


def _note(failures: list[Status], plugin: PreBindPlugin, status: Status | None) -> None:
    if status is not None and not status.is_success:
        failures.append(passed_on("running PreBind plugin", plugin.name, status))


def _wait(
    group: Sequence[PreBindPlugin],
    pod: Pod,
    waiting: dict[int, StatusSteps],
    failures: list[Status],
    in_pre_bind: PodInPreBind | None,
) -> Steps[None]:
    """Run the generators of a group, each step when it is due, until one fails."""
    passed, due = 0.0, dict.fromkeys(sorted(waiting), 0.0)
    has_begun = False
    while due and not failures:
        coming = min(due.values())
        if has_begun:
            yield coming - passed
        has_begun, passed = True, coming
        for piece in [piece for piece, at in due.items() if at <= passed and not failures]:
            plugin = group[piece]
            if in_pre_bind is not None and in_pre_bind.cause:
                _note(failures, plugin, Status(Code.ERROR, (in_pre_bind.cause,)))
            elif isinstance(step := _step(plugin, pod, waiting[piece]), Ended):
                del due[piece], waiting[piece]
                _note(failures, plugin, step.result)
            else:
                due[piece] = passed + step
    for steps in waiting.values():
        steps.close()


def _step(plugin: PreBindPlugin, pod: Pod, steps: StatusSteps) -> float | Ended[Status | None]:
    """One step of a plugin; whatever it raises or wrongly yields ends it with an Error."""
    try:
        step = ask(plugin, pod, take_step, steps)
    except StatusError as error:
        return Ended(error.status)
    if isinstance(step, Ended):
        return Ended(to_status(plugin, step.result))
    if isinstance(step, int | float) and step >= 0:
        return step
    return Ended(wrong_answer(plugin, step, "seconds to wait"))

"""Results of Permit, PreBindPreFlight and PreBind plugins (kube-scheduler v1.36, runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from moorage.kube import Pod

from ..plugin.cycle_state import CycleState
from ..plugin.interface import PermitPlugin, PreBindPlugin, PreBindPreFlightResult
from ..plugin.status import Code, Status, error_status
from ..plugin.waiting_pods import MAX_TIMEOUT, PodInPreBind
from .call import StatusError, answer_of, ask, to_status, wrong_answer
from .steps import Ended, StatusSteps, Steps, take_step

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
            return wrong_answer(plugin, answer, "(Status, seconds)"), 0.0
        case _:
            return to_status(plugin, answer), MAX_TIMEOUT


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
            return None, wrong_answer(plugin, answer, "(PreBindPreFlightResult, Status)")
        case _:
            return None, to_status(plugin, answer)


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
            self._note(plugin, to_status(plugin, answer))

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
            return Ended(to_status(plugin, step.result))
        if isinstance(step, int | float) and step >= 0:
            return step
        return Ended(wrong_answer(plugin, step, "seconds to wait"))

"""Results of PreFilter, Filter and PostFilter plugins (kube-scheduler v1.36, runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from moorage.kube import Pod

from ..plugin import interface
from ..plugin.cycle_state import CycleState
from ..plugin.nodes_view import NodesView
from ..plugin.status import Code, Status, error_status
from .call import StatusError, answer_of, ask, to_status, wrong_answer


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
        failed = self.rejection is not None and not self.rejection.is_rejected
        return self.rejection.message() if failed and self.rejection is not None else ""


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
    answer = answer_of(plugin, pod, plugin.pre_filter, state, pod, nodes)
    if isinstance(answer, interface.PreFilterResult):
        return answer, None
    if answer is None or isinstance(answer, Status):
        return None, answer
    return None, wrong_answer(plugin, answer, "a PreFilterResult or a Status")


def nothing_left(plugins: Sequence[str]) -> Status:
    """Return the rejection of a pod whose PreFilter results have no node in common.

    Parameters
    ----------
    plugins : sequence of str
        Names of the plugins that returned a set of nodes.
    """
    who = f"plugin {plugins[0]}" if len(plugins) == 1 else f"plugin(s) [{' '.join(plugins)}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy {who}",))


def filter_status(plugin: interface.FilterPlugin, answer: object) -> Status | None:
    """Return the status with which the runtime reports the result of a Filter plugin.

    Parameters
    ----------
    answer : object
        What the plugin returned for a node.

    Returns
    -------
    Status or None
        None for Success; a rejection with the plugin's name; an Error for any other code or type.
    """
    status = None if answer is None else to_status(plugin, answer)
    if status is None or status.is_success:
        return None
    if not status.is_rejected:
        return error_status(f'running "{plugin.name}" filter plugin', status, plugin.name)
    return status.with_plugin(plugin.name)


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
            return None, wrong_answer(plugin, answer, "(PostFilterResult, Status)")
